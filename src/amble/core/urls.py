"""What a URL is, which ones may enter, and the domain each is paced under. The only place a URL is parsed. Pure.

Every URL is read by the rules of the WHATWG URL Standard (through Ada) and everything else is decided on the result,
so that a checker and a client never disagree about which host `http://a.com\\@b.com/` names.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import ada_url

from amble.core.queries import legacy_encoding, with_query_in
from amble.errors import BadDomain, BadUrl

URL_CHARS_MAX = 8192
HOST_CHARS_MAX = 253  # RFC 1035 2.3.4, written without the trailing dot
LABEL_CHARS_MAX = 63


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
        if base is None:
            return Url._make(
                ada_url.parse_url(_scalar(text), Url._fields).values()
            )  # a third of the time of a URL object
        url = ada_url.URL(_scalar(text), _scalar(base))
    except ValueError:
        return None
    return Url._make(getattr(url, name) for name in Url._fields)


def _scalar(text: str) -> str:
    """Text without lone surrogates: the standard's input is a scalar value string (Web IDL, USVString)."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# --- The gate: every URL passes it, wherever it was found ----------------------------------------------------------


class Refusal(Enum):
    """Why a text does not enter as a URL. A closed set, so that what was dropped can be counted."""

    TOO_LONG = "url_too_long"
    NOT_A_URL = "not_a_url"
    NOT_HTTP = "not_http"
    BAD_HOST = "bad_host"

    @property
    def why(self) -> str:
        """The reason, to be told to somebody who typed the text."""
        return {
            Refusal.TOO_LONG: "it is too long",
            Refusal.NOT_A_URL: "it is neither a host nor a URL",
            Refusal.NOT_HTTP: "only http and https are crawled",
            Refusal.BAD_HOST: "no such host or port can be connected to",
        }[self]


def normalize(text: str, base: str | None = None, *, chars_max: int = URL_CHARS_MAX) -> str | Refusal:
    """The one spelling of an http(s) URL: no fragment, userinfo or default port, the case of the path kept [C3, C4].

    Seeds, links, redirects, canonicals, sitemap entries and meta refreshes all enter through here or `join` [C1].
    """
    if len(text) > chars_max:
        return Refusal.TOO_LONG  # before anything reads the text: parsing is not free [C2]
    try:
        href = ada_url.normalize_url(text) if base is None else ada_url.join_url(base, text)
    except ValueError:
        scalar = _scalar(text)
        return Refusal.NOT_A_URL if scalar == text else normalize(scalar, base, chars_max=chars_max)
    if not href.startswith(("https://", "http://")):
        return Refusal.NOT_HTTP
    # A serialised http URL is scheme://[userinfo@]host[:port]/path[?query][#fragment]: cutting it as text is exact.
    path_at = href.find("/", 8)
    origin = _read_origin(href[: path_at + 1])
    if isinstance(origin, Refusal):
        return origin
    fragment_at = href.find("#", path_at)
    url = origin.url + (href[path_at:] if fragment_at < 0 else href[path_at:fragment_at])
    return url if len(url) <= chars_max else Refusal.TOO_LONG


# --- The origin ----------------------------------------------------------------------------------------------------


class _Origin(NamedTuple):
    url: str
    domain: str


def origin_of(url: str) -> str:
    """Scheme, host and port (unless default) of an http(s) URL: the scope of a robots.txt (RFC 9309 2.3)."""
    origin = _known.get(url[: url.find("/", 8) + 1]) or _origin_of(url)
    if isinstance(origin, Refusal):
        raise BadUrl(f"{shown(url)} has no origin: {origin.why}", hint="write it as https://example.com/path")
    return origin.url


# What stands before a path -> its origin. A look into a dict, and nothing more, since several are taken for every page.
_known: dict[str, _Origin] = {}
_KNOWN_MAX = 20_000
_KNOWN_CHARS_MAX = 100  # longer ones are read, not remembered: a cache must not be a way to fill memory


def _remember(start: str, origin: _Origin) -> None:
    if len(start) <= _KNOWN_CHARS_MAX and start.startswith(("https://", "http://")):
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        _known[start] = origin


def _origin_of(url: str) -> _Origin | Refusal:
    # Only what stands before the path decides, and that is short and often repeated.
    path_at = url.find("/", 8)
    if path_at < 0 and (known := _known.get(f"{url}/")) is not None:
        return known  # an origin by itself
    if path_at > 0 and url.startswith("http"):
        origin = _read_origin(url[: path_at + 1])
        if isinstance(origin, _Origin):
            _remember(url[: path_at + 1], origin)
            return origin
    return _read_origin(url)  # `https:///a.com/` names a.com although its first slash past the scheme is no path


def _read_origin(url: str) -> _Origin | Refusal:
    """The origin of a URL. Long text is read but not remembered: a cache must not be a way to fill memory."""
    return _remembered_origin(url) if len(url) <= 300 else _remembered_origin.__wrapped__(url)


@lru_cache(maxsize=8192)
def _remembered_origin(url: str) -> _Origin | Refusal:
    if len(url) > URL_CHARS_MAX:
        return Refusal.TOO_LONG
    try:
        parts = ada_url.parse_url(_scalar(url), ("protocol", "hostname", "host", "port"))
    except ValueError:
        return Refusal.NOT_A_URL
    if parts["protocol"] not in ("http:", "https:"):
        return Refusal.NOT_HTTP
    host, port = parts["hostname"].removesuffix("."), parts["port"]
    if not _can_be_asked(host, port):
        return Refusal.BAD_HOST
    return _Origin(f"{parts['protocol']}//{parts['host']}", f"{host}:{port}" if port else host)


def _can_be_asked(host: str, port: str) -> bool:
    """Whether a serialised host could have an address and a socket. WHATWG leaves these limits to the resolver."""
    if port == "0":
        return False
    if host.startswith("["):
        return True
    return len(host) <= HOST_CHARS_MAX and all(0 < len(label) <= LABEL_CHARS_MAX for label in host.split("."))


# --- Links: many hrefs, one base -----------------------------------------------------------------------------------

# A path and query that the standard returns as it finds them: one leading slash, no dot segment, nothing to encode.
# Most links look like this, and seeing it costs a fifth of a parse. A fragment after it is dropped in any case.
_PLAIN = re.compile(
    r"""((?=/)
         (?>/[A-Za-z0-9_~-][A-Za-z0-9._~%!$&'()*+,;=:@-]*+)*+ /?+
         (?>\?[A-Za-z0-9._~%!$&()*+,;=:@/?-]*+)?+   # a query may not hold the apostrophe: it is sent as %27
        )(?:\#.*)?""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_CHARS_MAX = URL_CHARS_MAX - 512  # whatever the origin, the whole is not too long
_UPS_MAX = 16  # `../` at the start of a link that are taken one by one


class Base(NamedTuple):
    """What the links of one page are resolved against."""

    url: str
    origin: str
    directory: str
    legacy_encoding: str | None = None

    @classmethod
    def at(cls, url: str, encoding: str = "utf-8") -> Base:
        """The base at a URL that has passed the gate, for a page in this encoding (a Python codec's name)."""
        return cls(url, origin_of(url), url[: url.partition("?")[0].rindex("/") + 1], legacy_encoding(encoding))

    def join(self, href: str) -> str | Refusal:
        """The URL a link leads to: exactly `normalize(href, self.url)` on a UTF-8 page, sooner."""
        if href[:1] == "/" and len(href) <= _PLAIN_CHARS_MAX and (plain := _PLAIN.fullmatch(href)) is not None:
            return self.origin + plain[1]  # most links
        if len(href) > URL_CHARS_MAX:
            return Refusal.TOO_LONG
        if self.legacy_encoding is not None and not href.isascii():
            href = with_query_in(self.legacy_encoding, _scalar(href))
        if not href or href[0] == "#":
            return self.url
        start, rest = self.origin, href
        if href.startswith(("https://", "http://")):
            start, rest = _split_at_path(href)
        elif href[0].isalnum() and ":" not in href:
            start, rest = self.directory[:-1], f"/{href}"
        elif href.startswith("../"):
            start, rest = self._up(href)
        plain = _PLAIN.fullmatch(rest)
        if plain is None or len(start) + len(href) > URL_CHARS_MAX:
            return normalize(href, self.url)
        return start + plain[1]

    def _up(self, href: str) -> tuple[str, str]:
        """A link that goes up, as the directory it gets to and the rest. The way up ends at the root."""
        directory = self.directory
        for _ in range(_UPS_MAX):
            if not href.startswith("../"):
                break
            href = href[3:]
            if len(directory) > len(self.origin) + 1:
                directory = directory[: directory.rindex("/", 0, -1) + 1]
        return directory[:-1], f"/{href}"


def _split_at_path(href: str) -> tuple[str, str]:
    """An absolute URL as origin and rest; an empty rest unless the origin is spelled as the standard spells it."""
    path_at = href.find("/", 8)
    origin = _read_origin(href[: path_at + 1])
    if isinstance(origin, Refusal) or origin.url != href[:path_at]:
        return href, ""  # `http://a.com?b/c`, `http://a.com\/c`: the first slash is not where the path begins
    return origin.url, href[path_at:]


def split_plain(url: str) -> tuple[str, str, str] | None:
    """Origin, path and query of a URL whose path the standard returns as it is; None: parse it to know."""
    # Asked when a page is fetched and again for its row. Long text is read, but not remembered.
    return _split_plain(url) if len(url) <= 300 else _split_plain.__wrapped__(url)


@lru_cache(maxsize=1024)
def _split_plain(url: str) -> tuple[str, str, str] | None:
    if not url.startswith(("https://", "http://")) or len(url) > URL_CHARS_MAX:
        return None
    origin, rest = _split_at_path(url)
    if not rest or "#" in rest or _PLAIN.fullmatch(rest) is None:
        return None
    path, _, query = rest.partition("?")
    return origin, path, query


@lru_cache(maxsize=32)
def _base(url: str) -> Base:
    return Base.at(url)


def join(base: str, href: str) -> str | Refusal:
    """The URL that `href` means on the UTF-8 page or `<base>` at `base`, a URL that has passed the gate."""
    return _base(base).join(href)


# --- The domain: the key that pacing groups by ---------------------------------------------------------------------

_HAS_SCHEME = re.compile(r"[\x00-\x20]*https?:(?![0-9]{1,5}\Z)|[^/]*://", re.IGNORECASE)  # `http:8080` is a host:port
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]+)(?::0*([0-9]{1,5}))?")
_MORE_THAN_A_HOST = re.compile(r"[\x00-\x20\x7f/\\?#@]")
_USERINFO = re.compile(r"//[^/?#\\]*@")


def domain_of(url_or_host: str) -> str:
    """The pacing key of a URL, a host or a host:port: lower-case ASCII host, plus a port that is not the default.

    http and https share a key. A bare `host:port` names no scheme, so its port stays; this also makes the function
    idempotent. Raises BadDomain for text that names no host.
    """
    if not isinstance(url_or_host, str):
        raise BadDomain(f"a domain is text, not {type(url_or_host).__name__}", hint=_domain_hint(""))
    known = _known.get(url_or_host[: url_or_host.find("/", 8) + 1])
    if known is not None:
        return known.domain
    if url_or_host.startswith(("https://", "http://")) or _HAS_SCHEME.match(url_or_host):
        origin = _origin_of(url_or_host)
    else:
        origin = _origin_of_bare(url_or_host)
    if isinstance(origin, Refusal):
        reason = f"{shown(url_or_host)} names no domain: {origin.why}"
        raise BadDomain(reason, hint=_domain_hint(url_or_host))
    return origin.domain


def _origin_of_bare(text: str) -> _Origin | Refusal:
    """The origin of a host or host:port, under whichever scheme does not swallow the port as its default."""
    match = None if _MORE_THAN_A_HOST.search(text) else _HOST_AND_PORT.fullmatch(text)
    if match is None:
        return Refusal.NOT_A_URL
    host, port = match.groups()
    if port is None:
        return _read_origin(f"http://{host}/")
    return _read_origin(f"{'https' if port == '80' else 'http'}://{host}:{port}/")


def _domain_hint(text: str) -> str:
    if text.count(":") > 1 and "[" not in text and "/" not in text:
        return "write an IPv6 address in brackets: [::1] or [::1]:8080"
    return "write a host name such as example.com, a host:port, or a full http(s) URL"


def shown(text: str) -> str:
    """Text of unknown origin, escaped and shortened to stand in a message, without a password [C4]."""
    text = _USERINFO.sub("//", text)
    return ascii(text) if len(text) <= 80 else f"{text[:80]!a}..."
