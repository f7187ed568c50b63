"""Whether anybody is there: which origins of a domain have answered in this run, and those that have not. Pure.

An origin that never answered (no name, no way, no port, no TLS) is tried twice for all its URLs together, some seconds
apart. More tries would hold up the end of a crawl for minutes, and a name that is mistyped gets no better by them.
"""

from __future__ import annotations

from amble.core.frontier.changes import Over

TRIES_MAX = 2
_ANY_ORIGIN: tuple[str, ...] = ("http",)  # what every URL begins with


class Presence:
    """The origins of one domain. Nothing but those that answered is remembered while all goes well."""

    __slots__ = ("_answered", "_ended", "_missed")

    def __init__(self, *, known: bool) -> None:
        """`known`: the domain has answered before, though nobody remembers which of its origins did."""
        self._answered = _ANY_ORIGIN if known else ()
        self._missed: dict[str, int] = {}
        self._ended: dict[str, Over] = {}

    def has_answered(self, url: str) -> bool:
        """Whether the origin of this URL of the domain has answered."""
        return url.startswith(self._answered)

    def answered(self, origin: str) -> None:
        self._answered = (*self._answered, origin)
        self._missed.pop(origin, None)

    def missed(self, origin: str) -> int:
        """Nobody was there. Returns how often by now."""
        self._missed[origin] = tries = self._missed.get(origin, 0) + 1
        return tries

    def end(self, origin: str, over: Over) -> None:
        """Tried often enough: how all that is or comes to be queued for it ends."""
        self._ended[origin] = over

    def ended(self, origin: str) -> Over | None:
        return self._ended.get(origin)

    def pardon(self) -> None:
        """It was the network: as if nobody had tried."""
        self._missed.clear()

    @property
    def tells(self) -> bool:
        """Whether anything is known that another try would have to find out."""
        return bool(self._missed or self._ended)
