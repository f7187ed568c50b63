"""Which URL a page says it really has, by `<link rel=canonical>` or a `Link` header [C8]. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from amble.core.urls import Base

_HEADER_CHARS_MAX = 64 * 1024
# RFC 8288 3: `<target>`, then parameters; a quoted value may hold commas and semicolons.
_LINK_VALUE = re.compile(r"<([^<>]*+)>((?>[^,\"]++|\"(?>[^\"\\]++|\\.)*+\"?)*+)", re.DOTALL)
_PARAMETER = re.compile(
    r";[ \t]*+([!#$%&'*+.^_`|~0-9A-Za-z-]++)[ \t]*+=[ \t]*+(?:\"((?>[^\"\\]++|\\.)*+)\"|([^ \t;,\"]*+))", re.DOTALL
)


class Canonical(NamedTuple):
    """The URL a page prefers."""

    url: str
    source: Literal["tag", "header"]


def read_canonical(tags: Iterable[dict[str, str]], headers: Iterable[str], page: Base, base: Base) -> Canonical | None:
    """The first usable canonical URL: tags, resolved against the base, before headers, resolved against the page."""
    for tag in tags:
        if "canonical" in tag["rel"].lower().split() and (found := _canonical(tag["href"], base, page, "tag")):
            return found
    for target in _canonical_targets(headers):
        if found := _canonical(target, page, page, "header"):
            return found
    return None


def _canonical(href: str, base: Base, page: Base, source: Literal["tag", "header"]) -> Canonical | None:
    if href == page.url:
        return Canonical(href, source)  # as nearly all say
    if not href.strip():
        return None
    url = base.join(href)
    return Canonical(url, source) if isinstance(url, str) else None


def _canonical_targets(headers: Iterable[str]) -> Iterator[str]:
    for header in headers:
        for target, parameters in _LINK_VALUE.findall(header[:_HEADER_CHARS_MAX]):
            # Of several `rel` the first counts (RFC 8288 3.3); a link with another `anchor` is not about this page.
            said: dict[str, str] = {}
            for name, quoted, plain in _PARAMETER.findall(parameters):
                said.setdefault(name.lower(), quoted or plain)
            if "canonical" in said.get("rel", "").lower().split() and "anchor" not in said:
                yield target
