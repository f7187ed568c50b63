"""What the header block of an answer says: a status and fields, or that it is malformed. Pure.

The rules are those of RFC 9112 with the strictness that the web platform's own tests ask for; where a rule costs real
sites and protects nobody (a server that ends every line with a bare LF), the looser reading is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, overload

# A version, three digits, then the end or a space and a reason (RFC 9112 4). HTTP/2 lines are made up by libcurl.
_STATUS_LINE = re.compile(r"HTTP/(1\.[01]|[23]) ([1-9][0-9]{2})(?: [^\r\n]*)?\r?\n")
# A name is a token (RFC 9110 5.6.2) and the colon touches it (RFC 9112 5.1).
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_FIELD = re.compile(rf"({_TOKEN}):([^\r\n]*)")
# Where a body ends is believed of no odd line: that is how answers are split and smuggled (RFC 9112 11).
_FRAMING = re.compile(r"content\W*length|transfer\W*encoding", re.IGNORECASE)
_PLAIN_FIELD = re.compile(rf"^({_TOKEN}): *+([ -~]*+)\r\n", re.MULTILINE)  # what nearly every field looks like
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class Headers:
    """Header fields in the order they came: names in any case, several values per name, no control characters.

    Iterating gives (name, value) pairs.
    """

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = tuple(pairs)
        self._first = {name.lower(): value for name, value in reversed(self._pairs)}

    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value under a name."""
        return self._first.get(name.lower(), default)

    def get_last(self, name: str) -> str | None:
        """The last value under a name: of several Content-Type fields that one counts (Fetch 3.5)."""
        return self.get_all(name)[-1] if self.has_repeats and name in self else self.get(name)

    def get_all(self, name: str) -> list[str]:
        """Every value under a name, in order."""
        name = name.lower()
        if name not in self._first:
            return []
        return [value for known, value in self._pairs if known.lower() == name]

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether any of these names, in lower case, is there."""
        return not names.isdisjoint(self._first)

    def elements(self, name: str) -> list[str]:
        """The members of a comma-separated list that may be spread over several fields (RFC 9110 5.6.1)."""
        values = self.get_all(name)
        if not values:
            return []
        members = (member.strip(" \t") for value in values for member in value.split(","))
        return [member for member in members if member]

    @property
    def has_repeats(self) -> bool:
        """Whether any name comes twice."""
        return len(self._first) != len(self._pairs)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._first

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._pairs == other._pairs

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        return f"Headers({list(self._pairs)!r})"


class StatusLine(NamedTuple):
    """The first line of an answer."""

    version: str  # of HTTP: "1.1"
    status: int


class HeaderBlock(NamedTuple):
    """A status line and the fields under it."""

    line: StatusLine
    headers: Headers


class Malformed(NamedTuple):
    """Why a header block cannot be believed."""

    reason: str


@lru_cache(maxsize=256)
def read_status_line(line: bytes) -> StatusLine | Malformed:
    match = _STATUS_LINE.fullmatch(line.decode("latin-1"))
    return StatusLine(match[1], int(match[2])) if match else Malformed("malformed status line")


def read_header_block(lines: list[bytes]) -> HeaderBlock | Malformed:
    """The meaning of the lines from a status line to the empty line, each with its line ending."""
    line = read_status_line(lines[0])
    if isinstance(line, Malformed):
        return line
    fields = _read_fields(lines)
    if isinstance(fields, Malformed):
        return fields
    headers = Headers(fields)
    length = headers.get("content-length")
    if length is not None and ("," in length or headers.has_repeats) and not _is_one_length(headers):
        return Malformed("contradicting Content-Length fields")
    return HeaderBlock(line, headers)


def _read_fields(lines: list[bytes]) -> list[tuple[str, str]] | Malformed:
    text = b"".join(lines[1:-1]).decode("latin-1")
    count = len(lines) - 2
    if lines[-1] == b"\r\n" and lines[0].endswith(b"\r\n"):
        fields = _PLAIN_FIELD.findall(text)
        if len(fields) == count:
            return [(name, value.rstrip()) for name, value in fields] if " \r\n" in text else fields
    return _read_odd_fields(lines)


def _read_odd_fields(lines: list[bytes]) -> list[tuple[str, str]] | Malformed:
    """Field by field: one that is no field is left out, as browsers do, unless it may speak of framing. Lines may end
    in CRLF, or all in LF; where some do and some do not, the first line says which are fields (RFC 9112 2.2)."""
    ending = "\r\n" if lines[0].endswith(b"\r\n") else "\n"
    fields: list[tuple[str, str]] = []
    for line in lines[1:-1]:
        text = line.decode("latin-1")
        content = text.removesuffix(ending)
        field = _FIELD.fullmatch(content) if len(content) < len(text) else None
        if field is not None:
            fields.append((field[1], _clean(field[2])))
        elif _FRAMING.search(text):
            return Malformed("malformed framing field")
    return fields


def _is_one_length(headers: Headers) -> bool:
    """Copies of one length may be believed, anything else is how responses are smuggled (RFC 9112 6.3)."""
    lengths = [length for value in headers.get_all("content-length") for length in value.split(",")]
    return len({length.strip(" \t") for length in lengths}) == 1


def _clean(value: str) -> str:
    """A field value as text: UTF-8 where it is UTF-8, else Latin-1 (RFC 9110 5.5), without control characters [A12]."""
    value = value.strip(" \t")
    with suppress(UnicodeDecodeError):
        value = value.encode("latin-1").decode("utf-8")
    return _CONTROL.sub("", value.replace("\t", " "))
