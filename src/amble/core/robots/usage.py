"""What a site lets its pages be used for: `Content-Signal` and `Content-Usage` lines, judged for one purpose. Pure.

Both say nothing about fetching. They bind us where the settings name a `purpose`: a page that may not be used for it is
then not fetched. Where statements conflict the restriction holds (draft-ietf-aipref-vocab, combining preferences).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amble.core.robots.match import Rule, Rules, escape
from amble.core.robots.parse import Kind, Line

# The two vocabularies name the same things differently: contentsignals.org first, draft-ietf-aipref-vocab second.
PURPOSES = {
    "search": ("search", "search"),
    "ai-train": ("ai-train", "train-ai"),
    "ai-input": ("ai-input", "ai-use"),
}

_YES = frozenset({"yes", "y"})
_NO = frozenset({"no", "n"})


@dataclass(frozen=True, slots=True)
class Usage:
    """The lines as they stand, and which paths may not be used for our purpose."""

    lines: tuple[str, ...] = ()
    signal_refuses: bool = False
    refused: Rules | None = None
    signals_refuse: Rules | None = None  # of the lines that name a path

    def refusal(self, path: str) -> str | None:
        """Why pages at this path may not be used for our purpose, or None."""
        if self.signal_refuses or (self.signals_refuse is not None and self.signals_refuse.best(path) % 2):
            return "Content-Signal refuses the purpose of this crawl"
        if self.refused is not None and self.refused.best(path) % 2:
            return "Content-Usage refuses the purpose of this crawl"
        return None


NO_USAGE = Usage()


def read_usage(extras: Iterable[Line], purpose: str | None) -> Usage:
    """The usage lines of a group. Without a purpose they are recorded and bind nobody."""
    lines = [line for line in extras if line.kind in (Kind.CONTENT_SIGNAL, Kind.CONTENT_USAGE)]
    if not lines:
        return NO_USAGE
    recorded = tuple(f"{_name(line.kind)}: {line.value.decode('utf-8', 'replace')}" for line in lines)
    if purpose is None:
        return Usage(recorded)
    signals = [line.value for line in lines if line.kind is Kind.CONTENT_SIGNAL]
    of_paths = [value for value in signals if value.startswith((b"/", b"*"))]
    preferences = (line.value for line in lines if line.kind is Kind.CONTENT_USAGE)
    signal, category = PURPOSES[purpose]
    signal_refuses = any(_wish(value, signal) is False for value in signals if value not in of_paths)
    return Usage(recorded, signal_refuses, _refused(preferences, category), _refused(of_paths, signal))


def _name(kind: Kind) -> str:
    return "Content-Signal" if kind is Kind.CONTENT_SIGNAL else "Content-Usage"


def _refused(preferences: Iterable[bytes], category: str) -> Rules | None:
    """Paths by what they say of a category: the longest match decides, and of equals the refusal."""
    wishes = [
        Rule(allow=not wish, pattern=escape(path))  # the favoured kind of these rules is the refusal
        for path, value in map(_path_and_preference, preferences)
        if (wish := _wish(value, category)) is not None
    ]
    return Rules(wishes) if wishes else None


def _path_and_preference(value: bytes) -> tuple[bytes, bytes]:
    """`/path train-ai=n`; early drafts had no path, which means all of them."""
    if not value.startswith((b"/", b"*")):
        return b"/", value
    path, _, preference = value.replace(b"\t", b" ").partition(b" ")
    return path, preference


def _wish(value: bytes, category: str) -> bool | None:
    """What a dictionary such as `search=yes, ai-train=no` says of a category; None if nothing."""
    said = {answer for name, answer in _members(value) if name == category}
    if said & _NO:
        return False
    return True if said & _YES else None


def _members(value: bytes) -> Iterator[tuple[str, str]]:
    for member in value.decode("latin-1").lower().split(","):
        name, _, answer = member.partition(";")[0].partition("=")
        yield name.strip(), answer.strip()
