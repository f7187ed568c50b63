"""What a URL is, which ones may enter, and the domain each is paced under. The only place a URL is parsed. Pure.

Every URL is read by the rules of the WHATWG URL Standard (through Ada) and everything else is decided on the result,
so that a checker and a client never disagree about which host `http://a.com\\@b.com/` names.
"""

from __future__ import annotations

import re
from functools import lru_cache

import ada_url

from amble.errors import BadDomain

HOST_CHARS_MAX = 253  # RFC 1035 2.3.4, written without the trailing dot
LABEL_CHARS_MAX = 63
URL_CHARS_MAX = 8192
_CACHED_CHARS_MAX = 300  # longer text is judged, not remembered: a cache must not be a way to fill memory

_HTTP_URL = re.compile(r"https?:(?![0-9]{1,5}\Z)|[^/]*://", re.IGNORECASE)  # `http:8080` may be a host named http
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]:]+)(?::(?P<port>[0-9]{1,5}))?")
_USERINFO = re.compile(r"//[^/?#\\]*@")
_HOST_HINT = "write a host name such as example.com, a host:port, or a full http(s) URL"


# --- The domain: the key that pacing groups by ---------------------------------------------------------------------


def domain_of(url_or_host: str) -> str:
    """The pacing key of a URL, a host or a host:port: lower-case ASCII host, plus a port that is not the default.

    http and https share a key. A bare `host:port` names no scheme, so its port stays; this also makes the function
    idempotent. Raises BadDomain for text that names no host.
    """
    if not isinstance(url_or_host, str):
        raise BadDomain(f"a domain is text, not {type(url_or_host).__name__}", hint=_HOST_HINT)
    # Everything up to the first slash past `https://` decides the host, and it is short and often repeated.
    end = url_or_host.find("/", 8)
    if 0 < end <= _CACHED_CHARS_MAX and url_or_host.startswith("http"):
        try:
            return _domain_of(url_or_host[:end])
        except BadDomain:
            pass  # `https:///a.com/` names a.com although its first eight characters alone name nothing
    if len(url_or_host) <= _CACHED_CHARS_MAX:
        return _domain_of(url_or_host)
    return _domain_of.__wrapped__(url_or_host)


@lru_cache(maxsize=8192)
def _domain_of(text: str) -> str:
    if len(text) > URL_CHARS_MAX:
        raise BadDomain(f"{len(text)} characters are too many for a domain or a URL", hint=_HOST_HINT)
    if _HTTP_URL.match(text):
        url, own_port = text, None
    else:
        host, own_port = _host_and_port(text)
        url = f"http://{host}/"
    try:
        parts = ada_url.parse_url(url, ("protocol", "hostname", "port"))
    except ValueError:
        raise BadDomain(f"{shown(text)} names no host", hint=_HOST_HINT) from None
    if parts["protocol"] not in ("http:", "https:"):
        raise BadDomain(f"{shown(text)} is not an http or https URL", hint=_HOST_HINT)
    host, port = parts["hostname"].removesuffix("."), own_port or parts["port"]
    fault = host_fault(host, port)
    if fault is not None:
        raise BadDomain(f"{shown(text)} names no host: {fault}", hint=_HOST_HINT)
    return f"{host}:{int(port)}" if port else host


def _host_and_port(text: str) -> tuple[str, str | None]:
    """A host or host:port in its two parts, refused if it holds anything that would make it more than that."""
    if any(char <= " " or char in "/\\?#@\x7f" for char in text):
        raise BadDomain(f"{shown(text)} is neither a host nor an http(s) URL", hint=_HOST_HINT)
    match = _HOST_AND_PORT.fullmatch(text)
    if match is None:
        hint = "write an IPv6 address in brackets: [::1]:8080" if text.count(":") > 1 else _HOST_HINT
        raise BadDomain(f"{shown(text)} is no host or host:port", hint=hint)
    return match["host"], match["port"]


def host_fault(host: str, port: str) -> str | None:
    """Why nothing can be connected to this serialised host and port, or None. WHATWG leaves these limits to others."""
    if port and not 0 < int(port) < 65536:
        return "a port lies between 1 and 65535"
    if host.startswith("["):
        return None
    if not host or len(host) > HOST_CHARS_MAX:
        return f"a host has 1 to {HOST_CHARS_MAX} characters"
    for label in host.split("."):
        if not 0 < len(label) <= LABEL_CHARS_MAX:
            return f"a label of a host has 1 to {LABEL_CHARS_MAX} characters"
    return None


def shown(text: str, chars_max: int = 80) -> str:
    """Text of unknown origin, quoted, escaped and shortened so that it can stand in a message."""
    text = _USERINFO.sub("//", text)  # a password must not reach a log
    return ascii(text) if len(text) <= chars_max else ascii(text[:chars_max]) + "..."
