"""How the query of a link is written on a page that is not UTF-8. Pure.

A browser sends `?q=é` on a windows-1252 page as `?q=%E9`, and the server behind such a page expects it (URL Standard,
"query state" and "percent-encode after encoding"). Ada writes UTF-8 always, so the query is encoded before it.
"""

from __future__ import annotations

import codecs
from functools import lru_cache

_QUERY_ESCAPES = frozenset(b" \"#<>'")  # besides controls and non-ASCII: the special-query percent-encode set


# Where Python calls an encoding otherwise than the web, or means less by its name.
_CODECS = {
    "windows-874": "cp874", "iso-8859-8-i": "iso-8859-8", "x-mac-cyrillic": "mac-cyrillic", "shift_jis": "cp932",
    "euc-kr": "cp949", "big5": "big5hkscs",
}  # fmt: skip
_WRITTEN_IN_UTF8 = frozenset({"replacement", "x-user-defined"})


@lru_cache(maxsize=64)
def legacy_encoding(encoding: str) -> str | None:
    """The Python codec that queries on such a page are written in; None for the Unicode ones, where it is UTF-8."""
    if encoding in _WRITTEN_IN_UTF8:
        return None
    name = codecs.lookup(_CODECS.get(encoding, encoding)).name
    return None if name.startswith("utf-") else name


def with_query_in(encoding: str, href: str) -> str:
    """A link whose query holds its non-ASCII characters percent-encoded in a legacy encoding."""
    body, mark, fragment = href.partition("#")
    path, question, query = body.partition("?")
    if query.isascii():
        return href
    return f"{path}{question}{''.join(_escaped(char, encoding) for char in query)}{mark}{fragment}"


def _escaped(char: str, encoding: str) -> str:
    if char.isascii():
        return char
    try:
        encoded = char.encode(encoding)
    except UnicodeEncodeError:
        return f"%26%23{ord(char)}%3B"  # what the encoding lacks is sent as an escaped HTML reference
    return "".join(
        chr(byte) if 0x20 < byte < 0x7F and byte not in _QUERY_ESCAPES else f"%{byte:02X}" for byte in encoded
    )
