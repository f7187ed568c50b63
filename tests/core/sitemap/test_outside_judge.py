"""Sixty-three documents as crawler-commons read them.

Its parser has modes that amble has not, so each is translated: *strict* drops what lies outside the sitemap's own
directory (the reader lists everything; whose URLs count is for the walk to say); *strict namespace* refuses a foreign
root namespace (amble tells it and reads on); an absent priority is its 0.5; a document that breaks off is its error
unless it was told to allow partial ones (amble keeps what came before and says that it broke).
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from amble.core.sitemap.document import Invalid, SitemapDocument, SitemapEntry
from amble.core.sitemap.read import read_sitemap
from tests.conformance import conformance

_KINDS = {"urlset": "XML", "index": "INDEX", "rss": "RSS", "atom": "ATOM", "text": "TEXT"}
_NAMESPACE = b"http://www.sitemaps.org/schemas/sitemap/0.9"


def test_every_recorded_document_is_read_as_the_judge_read_it() -> None:
    lines = conformance("sitemaps/crawler_commons_recorded.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 63
    wrong = [f"{number} {record['test']}" for number, record in enumerate(records) if not _agrees(record)]
    assert wrong == []


def _agrees(record: dict[str, Any]) -> bool:
    body = base64.b64decode(record["body_b64"])
    document = read_sitemap(body, record["url"])
    if record["allow_dtd"]:
        return document.invalid is Invalid.DOCTYPE  # it is let go unread, whatever is in it
    if "error" in record:
        foreign = record["strict_ns"] and _NAMESPACE not in body  # any namespace is accepted
        return document.invalid is not None or document.broken is not None or foreign
    assert document.kind is not None
    return _KINDS[document.kind] == record["type"] and _rows(document, record) == [_expected(u) for u in record["urls"]]


def _rows(document: SitemapDocument, record: dict[str, Any]) -> list[tuple[object, ...]]:
    directory = document.url.partition("?")[0].rpartition("/")[0] + "/"
    keep_all = record["index"] or not record["strict"]
    rows = [_row(entry) for entry in document.entries if keep_all or entry.url.startswith(directory)]
    return [row[:2] for row in rows] if record["index"] else rows


def _row(entry: SitemapEntry) -> tuple[object, ...]:
    lastmod = entry.lastmod.strftime("%Y-%m-%dT%H:%M:%SZ") if entry.lastmod else None
    changefreq = entry.changefreq.upper() if entry.changefreq else None
    return entry.url, lastmod, changefreq, 0.5 if entry.priority is None else entry.priority


def _expected(url: dict[str, Any]) -> tuple[object, ...]:
    return tuple(url[key] for key in ("loc", "lastmod", "changefreq", "priority") if key in url)


@pytest.mark.parametrize(
    ("name", "invalid"),
    [
        ("feed-sample1.xml", "unknown_root"),
        ("feed-sample1.xml.gz", "unknown_root"),
        ("feed-sample1.xml.bz2", "archive"),
        ("feed-sample1.zip", "archive"),
        ("feed-sample1.tar", "archive"),
        ("html-gzip.bin", "html"),
        ("html-zstd-static-content-size.bin", "archive"),
        ("bomb-gzip.bin", "no_urls"),
        ("unexpected-eof.gz", "no_urls"),
        ("truncated-crc-error.gz", "html"),
    ],
)
def test_b14_bodies_of_other_shapes_are_told_apart(name: str, invalid: str) -> None:
    body = conformance(f"http/scrapy_compressed/{name}").read_bytes()
    assert read_sitemap(body, "https://example.com/sitemap.xml").invalid == invalid
