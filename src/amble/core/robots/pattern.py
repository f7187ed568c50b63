"""How a path and a rule's pattern are spelled (RFC 9309 2.2.2). Pure."""

from __future__ import annotations

import re

# Authority, if any, then what a rule is compared with: path, parameters and query, up to the fragment.
_URL = re.compile(r"(?://)?(?:[^/?;#]*?://)?[^/?;#]*(?P<path>[/?;][^#\0]*)?")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
# Of a letter, a digit, or one of -._~
_UNRESERVED = re.compile(r"%(?:2[DEde]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])")
_NOT_ASCII = {octet: f"%{octet:02X}" for octet in range(0x80, 0x100)}


def path_of(url: str) -> str:
    """The part of a URL that rules speak about; `/` where it has none. Text is taken as it stands, not normalised."""
    match = _URL.match(url)
    path = match["path"] if match else None
    if not path:
        return "/"
    return path if path[0] == "/" else f"/{path}"


def path_in(url: str) -> str:
    """The same of a URL that has passed the gate: its first slash behind the scheme's two is where the path begins."""
    return url[url.find("/", 8) :]


def escape(value: bytes) -> str:
    """A pattern in its one spelling: octets beyond ASCII percent-encoded, the digits of escapes in upper case."""
    text = value.decode("latin-1")
    if "%" not in text and text.isascii():
        return text
    return _upper_escapes(text.translate(_NOT_ASCII))


def escape_path(path: str) -> str:
    """A path in the spelling of patterns, so that `%e3` in a URL and `%E3` in a rule are the same octet."""
    if path.isascii():
        return _upper_escapes(path) if "%" in path else path
    path = path.encode("utf-8", "replace").decode("latin-1").translate(_NOT_ASCII)
    return _upper_escapes(path)


def decode_unreserved(text: str) -> str:
    """`%62` is `b`: escapes of characters that need none say nothing (RFC 9309 2.2.2, RFC 3986 6.2.2.2)."""
    return _UNRESERVED.sub(lambda escape: chr(int(escape[0][1:], 16)), text) if "%" in text else text


def _upper_escapes(text: str) -> str:
    return _ESCAPE.sub(lambda escape: escape[0].upper(), text)
