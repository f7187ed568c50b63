"""What of a value can be stored: text that encodes, numbers that fit, validators that can be sent back [E4].

Every field that a server had a hand in goes through here before it meets the database. Bodies are long and come out of
our own decoder, so they get the cheap check first and the thorough one (`mend`) only if their batch was refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from json import dumps

VALIDATOR_CHARS_MAX = 1024
SHORT_CHARS_MAX = 1024  # a content type, a rel
TEXT_CHARS_MAX = 8192  # a title, an error, a URL
_INT32 = 1 << 31
_INT64 = 1 << 63

# Visible ASCII, with spaces inside (RFC 9110 5.5): what may be replayed in If-None-Match and If-Modified-Since.
_VALIDATOR = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_LINE_BREAKING = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
_SHORT_BREAKS = b"\t\n\v\f\r\x1c\x1d\x1e\x1f"  # the same as bytes
_LONG_BREAKS = tuple(each.encode() for each in "\x85\u2028\u2029")


def text(value: str | None, chars_max: int = TEXT_CHARS_MAX) -> str | None:
    """Text without NUL and lone surrogates, cut to a length."""
    if value is None:
        return None
    if len(value) > chars_max:
        value = value[:chars_max]
    if value.isprintable():  # neither NUL nor surrogates in it
        return value
    return mend(value)


def body(value: str | None) -> str | None:
    """A body, whole. NUL is replaced as in every text column; the rest was seen to by the decoder."""
    return value.replace("\0", "\ufffd") if value is not None and "\0" in value else value


def mend(value: str) -> str:
    """Any string as one that can be stored: lone surrogates and NUL become U+FFFD."""
    try:
        value.encode()
    except UnicodeEncodeError:
        value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value.replace("\0", "\ufffd")


def validator(value: str | None) -> str | None:
    """An ETag or Last-Modified that can be sent back as it came; None if it cannot."""
    if value is None or len(value) > VALIDATOR_CHARS_MAX or not _VALIDATOR.fullmatch(value):
        return None
    return value


def line_part(value: str | None, chars_max: int = TEXT_CHARS_MAX) -> str:
    """Text for a field of a line: no tabs and no line breaks; nothing for None."""
    if not value:
        return ""
    if value.isprintable() and len(value) <= chars_max:  # neither control characters nor surrogates in it
        return value
    return _LINE_BREAKING.sub(" ", text(value, chars_max) or "")


def breaks(lines: str) -> int | None:
    """How many characters of lines `line_part` would take from their fields; None if some cannot be stored at all.

    One look at much text takes half the time of one at each field.
    """
    try:
        raw = lines.encode()
    except UnicodeEncodeError:
        return None
    if b"\0" in raw or not (lines.isascii() or all(each not in raw for each in _LONG_BREAKS)):
        return None
    return len(raw) - len(raw.translate(None, _SHORT_BREAKS))


def int32(value: int | None) -> int | None:
    return value if value is None or -_INT32 <= value < _INT32 else None


def int64(value: int | None) -> int | None:
    return value if value is None or -_INT64 <= value < _INT64 else None


def utc(value: datetime | None) -> datetime | None:
    """A time as the tables keep it: UTC, without a zone. An aware time in another column type would be shifted."""
    if value is None or value.tzinfo is None:
        return value
    return (value if value.tzinfo is UTC else value.astimezone(UTC)).replace(tzinfo=None)


def aware(value: datetime | None) -> datetime | None:
    """A time from the tables, with its zone."""
    return value.replace(tzinfo=UTC) if value is not None else None


def json_text(value: Mapping[str, object] | list[str]) -> str:
    return dumps(value, ensure_ascii=True, default=str)
