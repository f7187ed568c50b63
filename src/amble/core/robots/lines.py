"""Which lines of a robots.txt say something, and under which key: bytes to directives. Pure.

The tolerance is that of Google's open-source parser, because that is what sites are written against: frequent typos of
the keys, a forgotten colon, any line ending, a byte order mark or a piece of one (RFC 9309 2.2 asks for leniency).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

BODY_BYTES_MAX = 500 * 1024  # RFC 9309 2.5: at least 500 KiB must be read; what follows is ignored
LINE_BYTES_MAX = 8 * 2083 - 1  # Google keeps this much of a line and drops the rest of it

_BOM = b"\xef\xbb\xbf"
_KEY_BYTES_READ = 16  # no key below is longer; only its beginning has to match


class Kind(Enum):
    """What a line is about."""

    USER_AGENT = (b"user-agent", b"useragent", b"user agent")
    ALLOW = (b"allow",)
    DISALLOW = (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")
    SITEMAP = (b"sitemap", b"site-map")
    # Beyond RFC 9309: read for our own use, invisible to the rules above (RFC 9309 2.2.4).
    CRAWL_DELAY = (b"crawl-delay", b"crawldelay", b"crawl delay")
    REQUEST_RATE = (b"request-rate", b"requestrate", b"request rate")
    CONTENT_SIGNAL = (b"content-signal",)
    CONTENT_USAGE = (b"content-usage",)
    UNKNOWN = None


class Line(NamedTuple):
    """One directive: where it stands, what it is about, and its value without comment and outer whitespace."""

    number: int
    kind: Kind
    value: bytes


def read_lines(body: bytes) -> Iterator[Line]:
    """The directives of the first 500 KiB, in order. A line that the limit cuts through is read as far as it goes."""
    text = _without_bom(body[:BODY_BYTES_MAX])
    for number, line in enumerate(text.splitlines(), 1):
        pair = _key_and_value(line) if line else None
        if pair is not None:
            yield Line(number, _kind_of(pair[0][:_KEY_BYTES_READ].lower()), pair[1])


def _without_bom(text: bytes) -> bytes:
    """The text after as much of a UTF-8 byte order mark as it starts with: one byte of it, two or all three."""
    for length in (3, 2, 1):
        if text.startswith(_BOM[:length]):
            return text[length:]
    return text


def _key_and_value(line: bytes) -> tuple[bytes, bytes] | None:
    if len(line) > LINE_BYTES_MAX:
        line = line[:LINE_BYTES_MAX]
    if b"\0" in line:
        line = line[: line.index(b"\0")]
    line = line.partition(b"#")[0].strip()
    key, colon, value = line.partition(b":")
    if not colon:
        # A forgotten colon is forgiven where the line is exactly two words.
        words = line.replace(b"\t", b" ").split(b" ", 1)
        if len(words) < 2 or b" " in words[1].lstrip(b" "):
            return None
        key, value = words
    key = key.rstrip()
    return (key, value.strip()) if key else None


@lru_cache(maxsize=1024)
def _kind_of(key: bytes) -> Kind:
    """The kind of a key in lower case; whatever follows the known beginning is ignored."""
    return next((kind for kind in Kind if kind.value and key.startswith(kind.value)), Kind.UNKNOWN)
