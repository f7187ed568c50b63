"""The key under which web archives file a URL: SURT, the host reversed, the page canonicalised. Pure.

Rows join with the CDX indexes of the Internet Archive and Common Crawl on it, and the pages of a site sort together.
It is lossy on purpose (case, `www.`, the order of parameters and session ids are dropped), so it is never unique: the
key of a page is its URL.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote_from_bytes, unquote_to_bytes

from amble.core.urls import Url, parse, split_plain

_WWW = re.compile(r"\Awww[0-9]*\.")
_SWAP_DOTS_AND_COMMAS = str.maketrans(".,", ",.")  # so that a comma in a label cannot pass for a level
_PRINTABLE = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # all of ASCII's signs but `#` and `%`, which would be read again
_HEX_PAIR = re.compile(rb"[0-9A-Fa-f]{2}")
_ASP_SESSION = re.compile(r"/\((?:(?:[a-z]\([0-9a-z]{24}\))+|[0-9a-z]{24})\)(?=/[^?]+\.aspx)")
_SESSION = re.compile(
    r"(?:(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24}|cfid=[^&]+&cftoken=[^&]+)(?:&|\Z)"
)


def surt_key(url: str) -> str:
    """The archive key of a URL: `https://www.example.com/B/?b=2&a=1#c` is filed as `com,example)/b?a=1&b=2`.

    As in the indexes, what names no page (`dns:example.com`, the records of an archive itself) is its own key, and
    nothing at all is `-`.
    """
    plain = split_plain(url) if "%" not in url else None
    if plain is not None:
        return _surt_of_plain(*plain)
    parts = None if url.startswith(("filedesc:", "warcinfo:")) else parse(url)
    if parts is None or not parts.hostname:
        return url or "-"
    query = _query(parts.search[1:])
    return f"{_place(parts)}){_path(parts.pathname)}" + (f"?{query}" if query else "")


def _surt_of_plain(origin: str, path: str, query: str) -> str:
    """The same, sooner, where nothing is escaped, no segment is empty and none is made of dots."""
    kept = f"/{path.strip('/').lower()}"
    if "(" in kept:
        kept = _ASP_SESSION.sub("", kept)
    named = _sorted(query.lower()) if query else ""
    return f"{_place_of(origin)}){kept}" + (f"?{named}" if named else "")


@lru_cache(maxsize=8192)
def _place_of(origin: str) -> str:
    authority = origin.partition("//")[2]
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):  # the colons of an IPv6 address
        return _host(authority)
    return f"{_host(host)}:{port}"


def _place(parts: Url) -> str:
    return f"{_host(parts.hostname)}:{parts.port}" if parts.port else _host(parts.hostname)


def _host(host: str) -> str:
    """The labels of a host from the top down, without `www.`. The indexes turn IPv4 addresses around like names."""
    if host.startswith("["):
        return host
    name = _WWW.sub("", ".".join(filter(None, host.lower().split("."))))
    return ".".join(reversed(name.split("."))).translate(_SWAP_DOTS_AND_COMMAS)


def _path(path: str) -> str:
    """The path without empty and dot segments, also those that several layers of escapes were hiding."""
    kept: list[bytes] = []
    for segment in _unescaped(path).split(b"/"):
        if segment == b"..":
            del kept[-1:]
        elif segment not in (b"", b"."):
            kept.append(segment)
    return _ASP_SESSION.sub("", "/" + _escaped(b"/".join(kept)))


def _query(query: str) -> str:
    """The parameters in the order of the alphabet, without those that only name a session."""
    return _sorted(_escaped(_unescaped(query)))


def _sorted(query: str) -> str:
    parameters = _SESSION.sub("", query).split("&")
    return "&".join(sorted(parameters, key=lambda parameter: parameter.split("=", 1)))


def _unescaped(text: str) -> bytes:
    """Percent-decoded until nothing changes (`%2525`, `%25` and a bare `%` are one), in one pass over the text.

    Decoding the whole again and again takes quadratic time on `%%%%333332`, which anybody may put into a link.
    """
    plain = unquote_to_bytes(text)
    if b"%" not in plain:
        return plain
    kept = bytearray()
    for byte in plain:
        kept.append(byte)
        while kept[-3:-2] == b"%" and _HEX_PAIR.fullmatch(kept, len(kept) - 2):
            kept[-3:] = bytes([int(kept[-2:], 16)])
    return bytes(kept)


def _escaped(plain: bytes) -> str:
    return quote_from_bytes(plain, _PRINTABLE).lower()
