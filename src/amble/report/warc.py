"""Pages as WARC 1.1 (ISO 28500:2017), and honestly so: what was not kept is not made up.

The store keeps the decoded text of a page and a few of its headers, not the bytes that came over the wire. So a page
is a `resource` record ("a networked retrieval where the protocol information has been discarded") with its text in
UTF-8, and a `metadata` record beside it says what is known of the exchange. A URL that failed has the latter alone.
There are no `response` and no `request` records, because neither could be given as it was.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from duckdb import DuckDBPyConnection

from amble.core.content_type import parse_mime_type
from amble.errors import AmbleError
from amble.report.tabular import ROWS_AT_ONCE, Sink

_NAMES = uuid.UUID("f0f0b1c6-6c2c-5b8e-9f43-0a6b9a1c7f11")  # the space in which records of pages have their names
_ABOUT = (
    ("software", "amble"),
    ("format", "WARC File Format 1.1"),
    ("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"),
    ("description", "Pages as stored: text decoded and written in UTF-8 as resource records; what is known of each"
     " request and answer as metadata records. Bytes and headers as received were not kept."),
)  # fmt: skip
# Columns of a page that a metadata record tells, by the names that the field uses where there is one.
_TOLD = {
    "http_status": "http-status",
    "content_type": "http-content-type",
    "etag": "http-etag",
    "last_modified": "http-last-modified",
    "final_url": "final-url",
    "redirect_count": "redirect-count",
    "parent_url": "via",
    "discovered_by": "discovered-by",
    "depth": "depth",
    "elapsed_ms": "fetchTimeMs",
    "attempts": "attempts",
    "content_hash": "content-hash",
    "error_type": "error-type",
    "error": "error",
}


def write_warc(result: DuckDBPyConnection, out: Sink, *, compressed: bool = False) -> int:
    """One record for the file, then one or two for each row. Rows need a `url`; other columns are used if there.

    A compressed WARC file is one gzip member per record, so that readers can jump to any.
    """
    names = [column[0] for column in result.description or ()]
    if "url" not in names:
        raise AmbleError("a WARC file needs the URL of each row", hint="select at least url, body and crawl_time")
    pack = (lambda record: gzip.compress(record, 6, mtime=0)) if compressed else (lambda record: record)
    out.write(pack(_record("warcinfo", _fields(_ABOUT), "application/warc-fields", datetime.now(UTC), {})))
    count = 0
    while rows := result.fetchmany(ROWS_AT_ONCE):
        for row in rows:
            for record in _records(dict(zip(names, row, strict=True))):
                out.write(pack(record))
        count += len(rows)
    return count


def _records(page: Mapping[str, Any]) -> Iterable[bytes]:
    where = {"WARC-Target-URI": _uri(page["url"])}
    body = page.get("body")
    about = dict(where)
    if body is not None:
        block = body if isinstance(body, bytes) else str(body).encode()
        resource_id = _id("resource", page)
        about["WARC-Refers-To"] = resource_id
        yield _record(
            "resource",
            block,
            _text_type(page.get("content_type")),
            _date(page),
            {**where, "WARC-Record-ID": resource_id, "WARC-Payload-Digest": _digest(block)},
        )
    told = ((name, page[column]) for column, name in _TOLD.items() if page.get(column) is not None)
    about["WARC-Record-ID"] = _id("metadata", page)
    yield _record("metadata", _fields(told), "application/warc-fields", _date(page), about)


def _record(kind: str, block: bytes, content_type: str, date: datetime, more: Mapping[str, str]) -> bytes:
    head = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<{uuid.uuid4().urn}>",
        "WARC-Date": f"{date:%Y-%m-%dT%H:%M:%S.%fZ}",
        **more,
        "WARC-Block-Digest": _digest(block),
        "Content-Type": content_type,
        "Content-Length": str(len(block)),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return b"WARC/1.1\r\n" + lines.encode() + b"\r\n" + block + b"\r\n\r\n"


def _fields(pairs: Iterable[tuple[str, Any]]) -> bytes:
    """Named fields; what a server wrote cannot begin another line."""
    return "".join(f"{name}: {_one_line(str(value))}\r\n" for name, value in pairs).encode()


def _one_line(text: str) -> str:
    return " ".join("".join(char if char >= " " and char != "\x7f" else " " for char in text).split())


def _uri(url: Any) -> str:
    """URLs in the store are ASCII; those of a query of one's own may be anything."""
    text = str(url)
    if not text.isascii() or not text.isprintable() or " " in text:
        raise AmbleError(f"{text!r} is no URI that a WARC file can hold", hint="select the url column as it is stored")
    return text


def _text_type(content_type: Any) -> str:
    """The kind of a page as it lies in the record, where its text is UTF-8 whatever it was on the wire."""
    parsed = parse_mime_type(str(content_type)) if content_type else None
    return f"{parsed.essence if parsed else 'text/plain'}; charset=utf-8"


def _date(page: Mapping[str, Any]) -> datetime:
    time = page.get("crawl_time")
    if not isinstance(time, datetime):
        return datetime.now(UTC)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def _id(kind: str, page: Mapping[str, Any]) -> str:
    """The same page has the same name in every export, so that exports can be compared."""
    name = " ".join((kind, str(page.get("crawl_time")), str(page["url"])))
    return f"<{uuid.uuid5(_NAMES, name).urn}>"


def _digest(block: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(block, usedforsecurity=False).digest()).decode()
