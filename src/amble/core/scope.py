"""Which URLs a crawl may follow: hosts, depth, and the shapes that traps have. Pure.

Links, redirects, canonicals and sitemap entries ask here before they are queued; what is refused is recorded with its
reason [C7, C8, D3].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from amble.core.urls import URL_CHARS_MAX, domain_of


class OutOfScope(Enum):
    """Why a URL is not followed. A closed set, so that what was left out can be counted."""

    OTHER_HOST = "other_host"
    LINKS_NOT_FOLLOWED = "links_not_followed"
    TOO_DEEP = "too_deep"
    REPEATED_SEGMENTS = "repeated_segments"
    TOO_MANY_PARAMETERS = "too_many_parameters"
    URL_TOO_LONG = "url_too_long"


@dataclass(frozen=True, slots=True)
class Scope:
    """The bounds of one crawl. `None` means no bound."""

    roots: frozenset[str]  # from `roots_of`
    follow_links: bool = True
    allow_subdomains: bool = False
    max_crawl_depth: int | None = None
    repeats_max: int | None = 3  # `/a/b/a/b/a/b/a/b` is a link that keeps growing, not a folder
    parameters_max: int | None = 32
    url_chars_max: int = URL_CHARS_MAX

    def judge(self, url: str) -> OutOfScope | None:
        """Why a redirect or a sitemap entry is not followed, or None: they are no step deeper than what named them."""
        return self._shape(url) or (None if self.holds(domain_of(url)) else OutOfScope.OTHER_HOST)

    def judge_link(self, url: str, depth: int) -> OutOfScope | None:
        """Why a link is not followed, or None. `depth` is that of the page it leads to; a seed has depth 0."""
        if not self.follow_links:
            return OutOfScope.LINKS_NOT_FOLLOWED
        if self.max_crawl_depth is not None and depth > self.max_crawl_depth:
            return OutOfScope.TOO_DEEP
        return self.judge(url)

    def judge_canonical(self, url: str, page_url: str) -> OutOfScope | None:
        """Why a page's word for its true URL is not taken, or None. A page speaks for its own host only [C8]."""
        return self._shape(url) or (None if domain_of(url) == domain_of(page_url) else OutOfScope.OTHER_HOST)

    def holds(self, domain: str) -> bool:
        """Whether a domain is a seed's, give or take `www.`, or below one when subdomains are allowed."""
        root = _root(domain)
        if root in self.roots:
            return True
        while self.allow_subdomains and "." in root:
            root = root.partition(".")[2]
            if root in self.roots:
                return True
        return False

    def _shape(self, url: str) -> OutOfScope | None:
        if len(url) > self.url_chars_max:
            return OutOfScope.URL_TOO_LONG
        path, _, query = url.partition("?")
        if self.parameters_max is not None and query and _parameters(query) > self.parameters_max:
            return OutOfScope.TOO_MANY_PARAMETERS
        if self.repeats_max is not None and path.count("/") - 2 > self.repeats_max:  # https://host/1/2/3/4
            segments = Counter(path.split("/")[3:])
            if max(segments.values()) > self.repeats_max:
                return OutOfScope.REPEATED_SEGMENTS
        return None


def roots_of(seeds: Iterable[str]) -> frozenset[str]:
    """What a crawl that starts at these URLs may call its own."""
    return frozenset(_root(domain_of(seed)) for seed in seeds)


def _parameters(query: str) -> int:
    return 1 + query.count("&") + query.count(";")


def _root(domain: str) -> str:
    """A domain without the `www.` that sites redirect to and from; what remains must still be a name of two labels."""
    rest = domain.removeprefix("www.")
    return rest if "." in rest else domain
