"""Text that can be kept: no NUL, no lone surrogates, no longer than said; as a field of a line, no breaks. Pure."""

from __future__ import annotations

import re

SHORT_CHARS_MAX = 1024  # a content type, a rel
TEXT_CHARS_MAX = 8192  # a title, an error, a URL

_LINE_BREAKING = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")


def text(value: str | None, chars_max: int = TEXT_CHARS_MAX) -> str | None:
    """Text without NUL and lone surrogates, cut to a length."""
    if value is None:
        return None
    if len(value) > chars_max:
        value = value[:chars_max]
    return value if value.isascii() and "\0" not in value else mend(value)  # a string knows whether it is ASCII


def mend(value: str) -> str:
    """Any string as one that can be stored: lone surrogates and NUL become U+FFFD."""
    try:
        value.encode()
    except UnicodeEncodeError:
        value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value.replace("\0", "\ufffd")


def line_part(value: str | None, chars_max: int = TEXT_CHARS_MAX) -> str:
    """Text for a field of a line: no tabs and no line breaks; nothing for None."""
    if not value:
        return ""
    if value.isprintable() and len(value) <= chars_max:  # neither control characters nor surrogates in it
        return value
    return _LINE_BREAKING.sub(" ", text(value, chars_max) or "")
