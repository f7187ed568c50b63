"""What `&amp;` and its kin stand for, in text and in attribute values (WHATWG HTML 13.2.5.72 to .80). Pure."""

from __future__ import annotations

import re
from html.entities import html5

_REFERENCE = re.compile(r"&(?:#(?:[xX]([0-9A-Fa-f]++)|([0-9]++));?|([A-Za-z][A-Za-z0-9]{1,31}+);?)")
_DIGITS_MAX = 7  # enough for U+10FFFF in either base; a million digits are not worth converting
_UNFINISHED_CHARS = range(max(len(name) for name in html5 if not name.endswith(";")), 1, -1)


def unescape_text(text: str) -> str:
    """Text with its character references resolved."""
    return _REFERENCE.sub(_in_text, text) if "&" in text else text


def unescape_value(value: str) -> str:
    """An attribute value with its references resolved; `?a=1&copy=2` stays as it is, for the sake of old links."""
    return _REFERENCE.sub(_in_value, value) if "&" in value else value


def _in_text(match: re.Match[str]) -> str:
    return _number(match) if match[3] is None else _name(match, in_value=False)


def _in_value(match: re.Match[str]) -> str:
    return _number(match) if match[3] is None else _name(match, in_value=True)


def _name(match: re.Match[str], *, in_value: bool) -> str:
    name, finished = match[3], match[0].endswith(";")
    if finished and (character := html5.get(f"{name};")):
        return character
    for length in _UNFINISHED_CHARS:  # names as old as `&copy` count without the semicolon; the longest wins
        if length > len(name) or (character := html5.get(name[:length])) is None:
            continue
        rest = name[length:] + (";" if finished else "")
        following = rest[:1] or match.string[match.end() : match.end() + 1]
        if in_value and (following == "=" or (following.isascii() and following.isalnum())):
            break
        return character + rest
    return match[0]


def _number(match: re.Match[str]) -> str:
    digits = (match[1] or match[2]).lstrip("0")
    code = int(digits, 16 if match[1] else 10) if 0 < len(digits) <= _DIGITS_MAX else 0
    if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return "\ufffd"
    if 0x80 <= code < 0xA0:
        return bytes((code,)).decode("cp1252", "ignore") or chr(code)  # written by people who meant windows-1252
    return chr(code)
