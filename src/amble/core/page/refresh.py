"""Where and when a `<meta http-equiv=refresh>` or a `Refresh` header sends the reader [C9]. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from amble.core.urls import Base

# HTML 4.2.5.3, "shared declarative refresh steps": seconds, a fraction that does not count, a separator, the rest.
_TIME_AND_REST = re.compile(
    r"[\t\n\f\r ]*+(?:(?=[0-9])0*+([0-9]*+)|(?=\.))[0-9.]*+"
    r"(?:\Z|(?=[;,\t\n\f\r ])[\t\n\f\r ]*+[;,]?+[\t\n\f\r ]*+)(.*)",
    re.DOTALL,
)
_URL_SIGN = re.compile(r"url[\t\n\f\r ]*=[\t\n\f\r ]*", re.IGNORECASE)
_DELAY_MAX_S = 10**9


class Refresh(NamedTuple):
    """A redirect that waits. `url` is the page itself where none is named."""

    delay_s: int
    url: str


class RefreshText(NamedTuple):
    """The parts of a refresh as written; `url` is None where the page itself is meant."""

    delay_s: int
    url: str | None


def parse_refresh(content: str) -> RefreshText | None:
    """The parts of a `content` attribute or header value, or None if it means nothing."""
    match = _TIME_AND_REST.match(content)
    if match is None:
        return None
    digits = match[1] or "0"
    delay_s = int(digits) if len(digits) < len(str(_DELAY_MAX_S)) else _DELAY_MAX_S
    return RefreshText(delay_s, _target(match[2]) if match[2] else None)


def _target(rest: str) -> str:
    sign = _URL_SIGN.match(rest)
    if sign is not None:
        rest = rest[sign.end() :]
    elif rest[0] in "uU":
        return rest  # `url foo`: the words are the URL, quotes and all
    quote = rest[:1]
    return rest[1:].partition(quote)[0] if quote and quote in "\"'" else rest


def read_refresh(content: str, page: Base, base: Base) -> Refresh | None:
    """The refresh that `content` asks for on a page; None if it is malformed or leads to anything but http(s) [C1]."""
    said = parse_refresh(content)
    if said is None:
        return None
    url = page.url if said.url is None else base.join(said.url)
    return Refresh(said.delay_s, url) if isinstance(url, str) else None
