"""What a user means by a seed: which URL, and whether a whole site or one page. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from amble.core.addresses import Reach, judge_host
from amble.core.urls import Refusal, normalize, parse, shown
from amble.errors import BadUrl

_HINT = "a seed is a host (example.com), a host with a path (example.com/news) or an http(s) URL"
_WEB = re.compile(r"https?:(?![0-9]{1,5}(?:[/?#\\]|\Z))", re.IGNORECASE)  # `http:8080` may be a host and its port
_ANY_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST_FIRST = re.compile(
    r"(?P<host>\[[^\[\]@]*\]|[^\x00-\x20\x7f\[\]:/?#\\@]+)(?::(?P<port>[0-9]{1,5}))?(?:[/?#\\].*)?", re.DOTALL
)


class Seed(NamedTuple):
    """Where a crawl starts."""

    url: str
    names_site: bool  # a host or a root URL means the site; anything longer means that page


def seed_url(text: str) -> Seed:
    """The URL a user means. Raises BadUrl, with a hint, for text that means none.

    Without a scheme it is https, which nearly every public site answers on today. It is http for an address or name
    that is not public, and for a port that is not 443: servers on a desk or in a cellar rarely have a certificate.
    """
    if not isinstance(text, str):
        raise BadUrl(f"a seed is text, not {type(text).__name__}", hint=_HINT)
    text = text.strip().removeprefix("\ufeff")  # the mark some editors put in front of a list
    url = normalize(text if _WEB.match(text) else f"{_scheme(text)}://{text.removeprefix('//')}")
    if isinstance(url, Refusal):
        raise BadUrl(f"{shown(text)} is no seed: {url.why}", hint=_HINT)
    return Seed(url, names_site=url.count("/") == 3 and url.endswith("/"))


def _scheme(text: str) -> str:
    match = _HOST_FIRST.fullmatch(text.removeprefix("//"))
    if match is None:
        why = Refusal.NOT_HTTP.why if _ANY_SCHEME.match(text) else Refusal.NOT_A_URL.why
        raise BadUrl(f"{shown(text)} is no seed: {why}", hint=_HINT)
    parts = parse(f"http://{match['host']}/")
    local = parts is not None and judge_host(parts.hostname) is not Reach.PUBLIC
    return "http" if local or match["port"] not in (None, "443") else "https"
