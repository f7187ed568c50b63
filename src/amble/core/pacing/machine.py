"""What processes of one machine share of a domain: when it was last asked, by which gap, and until when it is blocked.
Pure.

A `Place` holds it as a few numbers, in memory or in a file that processes have mapped. The rules are those of jobs in
one process (`commons`): the stricter gap holds while both are there, and whoever had the last turn lets the others go
first. What is learned, and how many requests are under way at once, is not shared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

WORDS = 16  # of a place; the rest is spare

# In a place, each a float. Instants are of the clock that processes share; 0.0 is never, as in a new file.
# LODGERS_BLOCKED is for domains that have no place of their own: their blocks are none of whoever has it.
TAG, OWNER, START, GAP, BLOCKED, LEAVING, PREVIOUS, REFUSED, REFUSED_GAP, LODGERS_BLOCKED = _NAMED = range(10)

AFTER_YOU_S = 0.005  # enough for another process to wake up and take its turn
LOOK_AGAIN_S = 0.02  # nobody wakes us when the request of another process has left
LEFT_WITHIN_S = 120.0  # a request that has not left by then is not waited for
SAME_S = 0.001  # instants that went from one clock to another and back
TOGETHER_S = 60.0  # others that asked so lately are asking still
SOON_S = 60.0  # further ahead nobody can have asked
FAR_S = 400 * 86_400.0  # and nobody waits so long
_OWNERS = 2.0**53


class MachinePace(Protocol):
    """What a pace asks, all on its own monotonic clock; see `Place` for the rules."""

    def take(self, domain: str, now: float, gap_s: float) -> float | None:
        """Start a request now. None if that may be, or the instant before which it is no use to ask again."""

    def blocked_until(self, domain: str) -> float:
        """Until when somebody is to leave the domain alone. Costs less than to ask for a start."""

    def expect(self, domain: str, now: float) -> None:
        """The request that was started has not left yet; until then nobody else starts one."""

    def sent(self, domain: str, instant: float) -> None:
        """It left only now: gaps begin here."""

    def left(self, domain: str) -> None:
        """Nothing more is on its way out."""

    def cancel(self, domain: str, started_at: float) -> None:
        """Nothing was sent: as if it had not been started."""

    def block(self, domain: str, until: float) -> None:
        """The domain is to be left alone until then."""

    def pardon(self, domain: str, was_until: float, until: float) -> None:
        """A block that was ours turned out to be nobody's fault."""

    def others_at(self, domain: str) -> float:
        """When another process was last seen to ask this domain; -inf for never."""


class Words(Protocol):
    """A list of floats, or what a file holds of them."""

    def __getitem__(self, at: int, /) -> float: ...
    def __setitem__(self, at: int, word: float, /) -> None: ...


class Place:
    """One domain's numbers, at an offset of a longer sequence. Whoever changes them has excluded all others. A lodger
    shares what another domain has: both wait for the longer gap, and each for its own blocks."""

    __slots__ = ("_at", "_blocked", "_words")

    def __init__(self, words: Words, at: int = 0, *, is_lodger: bool = False) -> None:
        self._words = words
        self._at = at
        self._blocked = at + (LODGERS_BLOCKED if is_lodger else BLOCKED)

    def mend(self, now: float) -> None:
        """What cannot have been written by us means nothing: a damaged file must not end or hold up anybody."""
        words, at = self._words, self._at
        soon, far = now + SOON_S, now + FAR_S
        if not (
            0.0 <= words[at + OWNER] < _OWNERS
            and 0.0 <= words[at + START] < soon
            and 0.0 <= words[at + GAP] < FAR_S
            and 0.0 <= words[at + BLOCKED] < far
            and 0.0 <= words[at + LEAVING] < soon
            and 0.0 <= words[at + PREVIOUS] < soon
            and 0.0 <= words[at + REFUSED] < soon
            and 0.0 <= words[at + REFUSED_GAP] < FAR_S
            and 0.0 <= words[at + LODGERS_BLOCKED] < far
        ):
            for name in _NAMED:
                if name != TAG:
                    words[at + name] = 0.0

    def take(self, me: float, now: float, gap_s: float, is_alive: Callable[[float], bool]) -> float | None:
        until = self.refused_until(me, now, gap_s, is_alive)
        if until is None:
            self.start(me, now, gap_s)
        else:
            self.refuse(me, now, gap_s)
        return until

    def refused_until(self, me: float, now: float, gap_s: float, is_alive: Callable[[float], bool]) -> float | None:
        """None if a request may start now; or the instant before which it may not."""
        words, at = self._words, self._at
        owner, start, leaving = words[at + OWNER], words[at + START] or -math.inf, words[at + LEAVING]
        others_wait = words[at + REFUSED] >= words[at + START] > 0.0
        if owner != me:
            gap_s = max(gap_s, words[at + GAP])
        elif others_wait:
            gap_s = max(gap_s, words[at + REFUSED_GAP])
        if leaving and now < leaving + LEFT_WITHIN_S:
            if is_alive(owner):
                return max(start + gap_s, now + LOOK_AGAIN_S)
            start = words[at + START] = now  # it may have left in the moment in which its process died
            words[at + LEAVING] = 0.0
        not_before = start + gap_s
        if owner == me and others_wait:
            not_before += AFTER_YOU_S
        not_before = max(not_before, words[self._blocked])
        return not_before if now < not_before else None

    def refuse(self, me: float, now: float, gap_s: float) -> None:
        """Somebody waits here: whoever had the last turn lets them go first, and keeps to their gap as well."""
        words, at = self._words, self._at
        if words[at + OWNER] != me:
            if words[at + REFUSED] >= words[at + START]:
                gap_s = max(gap_s, words[at + REFUSED_GAP])
            words[at + REFUSED], words[at + REFUSED_GAP] = now, gap_s

    def start(self, me: float, now: float, gap_s: float) -> None:
        words, at = self._words, self._at
        words[at + PREVIOUS] = words[at + START]
        words[at + START], words[at + GAP], words[at + OWNER], words[at + LEAVING] = now, gap_s, me, 0.0

    def expect(self, me: float, now: float) -> None:
        if self._words[self._at + OWNER] == me:
            self._words[self._at + LEAVING] = now

    def sent(self, me: float, instant: float) -> None:
        words, at = self._words, self._at
        words[at + START] = max(words[at + START], instant)
        self.left(me)

    def left(self, me: float) -> None:
        if self._words[self._at + OWNER] == me:
            self._words[self._at + LEAVING] = 0.0

    def cancel(self, me: float, started_at: float) -> None:
        words, at = self._words, self._at
        if words[at + OWNER] == me and abs(words[at + START] - started_at) < SAME_S:
            words[at + START] = words[at + PREVIOUS]
            words[at + LEAVING] = 0.0

    # -- blocks

    def blocked_until(self) -> float:
        return self._words[self._blocked]

    def block(self, until: float) -> None:
        self._words[self._blocked] = max(self._words[self._blocked], until)

    def pardon(self, was_until: float, until: float) -> None:
        if abs(self._words[self._blocked] - was_until) < SAME_S:  # else it is another's, and holds
            self._words[self._blocked] = max(0.0, until)

    # -- looking

    def last(self) -> tuple[float, float]:
        """Who asked last, and when."""
        return self._words[self._at + OWNER], self._words[self._at + START]

    def matters_until(self) -> float:
        """From when on it makes no difference to anybody whether this is remembered."""
        words, at = self._words, self._at
        leaving = words[at + LEAVING]
        held_until = leaving + LEFT_WITHIN_S if leaving else 0.0
        blocked_until = max(words[at + BLOCKED], words[at + LODGERS_BLOCKED])
        return max(words[at + START] + words[at + GAP], blocked_until, held_until)


class PlacesInMemory:
    """The same for what shares no memory but this one: registries of one process, in tests and simulations."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._members = 0.0
        self.alive: dict[float, bool] = {}

    def join(self) -> MemberInMemory:
        self._members += 1.0
        self.alive[self._members] = True
        return MemberInMemory(self, self._members)

    def place(self, domain: str) -> Place:
        return self._places.setdefault(domain, Place([0.0] * WORDS))


class MemberInMemory:
    """One process, as far as its neighbours can tell; `die` is what a kill does."""

    def __init__(self, places: PlacesInMemory, me: float) -> None:
        self._places = places
        self._me = me

    def die(self) -> None:
        self._places.alive[self._me] = False

    def take(self, domain: str, now: float, gap_s: float) -> float | None:
        return self._places.place(domain).take(self._me, now, gap_s, lambda owner: self._places.alive.get(owner, False))

    def blocked_until(self, domain: str) -> float:
        return self._places.place(domain).blocked_until()

    def expect(self, domain: str, now: float) -> None:
        self._places.place(domain).expect(self._me, now)

    def sent(self, domain: str, instant: float) -> None:
        self._places.place(domain).sent(self._me, instant)

    def left(self, domain: str) -> None:
        self._places.place(domain).left(self._me)

    def cancel(self, domain: str, started_at: float) -> None:
        self._places.place(domain).cancel(self._me, started_at)

    def block(self, domain: str, until: float) -> None:
        self._places.place(domain).block(until)

    def pardon(self, domain: str, was_until: float, until: float) -> None:
        self._places.place(domain).pardon(was_until, until)

    def others_at(self, domain: str) -> float:
        owner, start = self._places.place(domain).last()
        return start if owner not in (0.0, self._me) and self._places.alive[owner] else -math.inf
