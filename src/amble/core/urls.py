"""What a URL is, which ones may enter, and the domain each is paced under. The only place a URL is parsed. Pure.

Every URL is read by the rules of the WHATWG URL Standard (through Ada) and everything else is decided on the result,
so that a checker and a client never disagree about which host `http://a.com\\@b.com/` names.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import NamedTuple, Self

import ada_url

from amble.errors import BadDomain

URL_CHARS_MAX = 8192
HOST_CHARS_MAX = 253  # RFC 1035 2.3.4, written without the trailing dot
LABEL_CHARS_MAX = 63
_CACHED_CHARS_MAX = 300  # longer text is judged, not remembered: a cache must not be a way to fill memory


# --- The URL, as the standard reads it -----------------------------------------------------------------------------


class Url(NamedTuple):
    """A parsed URL of any scheme; the attributes carry the standard's names."""

    href: str
    protocol: str
    username: str
    password: str
    host: str
    hostname: str
    port: str
    pathname: str
    search: str
    hash: str


def parse(text: str, base: str | None = None) -> Url | None:
    """The WHATWG reading of `text`, resolved against `base`; None where the standard says failure."""
    try:
        url = ada_url.URL(_scalar(text), None if base is None else _scalar(base))
    except ValueError:
        return None
    return Url(*(getattr(url, name) for name in Url._fields))


def _scalar(text: str) -> str:
    """Text without lone surrogates: the standard's input is a scalar value string (Web IDL, USVString)."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# --- The gate: every URL passes it, wherever it was found ----------------------------------------------------------


class Refusal(Enum):
    """Why a text does not enter as a URL. A closed set, so that what was dropped can be counted."""

    TOO_LONG = "url_too_long"
    NOT_A_URL = "not_a_url"
    NOT_HTTP = "not_http"
    BAD_HOST = "bad_host"


def normalize(text: str, base: str | None = None, *, chars_max: int = URL_CHARS_MAX) -> str | Refusal:
    """The one spelling of an http(s) URL: no fragment, userinfo or default port, the case of the path kept.

    Everything that is fetched, stored or paced goes through here or through `Base.join`, which is the same for links.
    """
    if len(text) > chars_max:
        return Refusal.TOO_LONG  # before anything looks at the text: parsing is not free [C2]
    try:
        href = ada_url.normalize_url(text) if base is None else ada_url.join_url(base, text)
    except ValueError:
        return normalize(_scalar(text), base, chars_max=chars_max) if _has_surrogates(text) else Refusal.NOT_A_URL
    return _admitted(href, chars_max)


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _admitted(href: str, chars_max: int) -> str | Refusal:
    """The serialised URL without the parts that are never sent. Its shape is fixed, so cutting text is exact."""
    if not href.startswith(("https://", "http://")):
        return Refusal.NOT_HTTP
    path_at = href.find("/", 8)
    origin = _origin(href[:path_at])
    if isinstance(origin, Refusal):
        return origin
    fragment_at = href.find("#", path_at)
    url = origin + (href[path_at:] if fragment_at < 0 else href[path_at:fragment_at])
    return url if len(url) <= chars_max else Refusal.TOO_LONG


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
