"""What a page asks of robots: `X-Robots-Tag` and robots metas, ours and everyone's, the strictest winning. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_WORDS_MAX = 32
_CHARS_MAX = 8192
_ESSENTIAL = frozenset({"none", "noindex", "nofollow", "noarchive"})  # never crowded out by made-up words
_WORD = re.compile(r"no[a-z]{2,30}")
_AGENT = re.compile(r"[a-z0-9_*-]+")
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
# A weekday brings a comma into a date, and a comma ends a directive.
_WEEKDAY = re.compile(r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,[ \t]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Directives:
    """Every restriction that applies to us: all words that begin with `no`, so that new ones are kept too."""

    restrictions: frozenset[str] = frozenset()

    @property
    def noindex(self) -> bool:
        """The page is not to be kept."""
        return "noindex" in self.restrictions

    @property
    def nofollow(self) -> bool:
        """The links of the page are not to be followed."""
        return "nofollow" in self.restrictions


NO_DIRECTIVES = Directives()


def read_directives(headers: Iterable[str], metas: Iterable[tuple[str, str]], token: str) -> Directives:
    """The sum of all `X-Robots-Tag` values and (name, content) metas that address everyone or the product `token`."""
    token = token.lower()
    words: set[str] = set()
    for value in headers:
        _read(value, "*", token, words)
    for name, content in metas:
        name = name.strip().lower()
        if name in ("robots", token):
            _read(content, "*", token, words)
    if not words:
        return NO_DIRECTIVES
    if "none" in words:
        words = (words - {"none"}) | {"noindex", "nofollow"}
    return Directives(frozenset(sorted(words)[:_WORDS_MAX] if len(words) > _WORDS_MAX else words))


def _read(value: str, agent: str, token: str, words: set[str]) -> None:
    """Add what a list of directives says to us. A `name:` before one addresses it and all that follow to a robot."""
    for item in _WEEKDAY.sub("", value[:_CHARS_MAX].lower()).split(","):
        item = item.strip()
        while ":" in item:
            head, _, rest = (part.strip() for part in item.partition(":"))
            if head in _VALUED or not _AGENT.fullmatch(head):
                break
            agent, item = head, rest
        if agent in ("*", token) and _WORD.fullmatch(item) and (len(words) < _WORDS_MAX or item in _ESSENTIAL):
            words.add(item)
