"""Whether a site limits requests at once rather than per second: a cap is tried at the refusal that suggests it. Pure.

A limit of k at once refuses exactly those that were sent with k others under way, and hardly any such request was ever
accepted. The trial request after the block, alone, is the proof: where even that is refused, it was a limit of rate.
"""

from __future__ import annotations

_REMEMBERED = 24  # accepted requests
_RESEMBLING = 2  # so many of them may have been sent with as many under way: requests overtake each other
_CARRYING = 0.8  # of the rate; slots that would not carry even that explain nothing
_OFF_FOR = 3_000  # requests
_FIRST_TEST = 600  # pages before one more at once is tried
_PROVEN = 3  # so many accepted with all slots taken: the cap is right, and another limit beside it
_BYTES = tuple(bytes((count,)) for count in range(256))


class Slots:
    """The most requests at once that a site serves, where that is what it limits; `cap` is None otherwise."""

    __slots__ = ("_accepted", "_at_cap", "_off_until", "_pages", "_test", "_testing", "cap")

    def __init__(self) -> None:
        self.cap: int | None = None
        self._accepted = b""  # how many were under way when each of the last accepted ones was sent, itself included
        self._pages = 0  # since the cap was set or changed
        self._at_cap = 0  # of these, with all slots taken
        self._test = _FIRST_TEST
        self._testing = False
        self._off_until = 0

    def accept(self, in_flight: int) -> None:
        """A request sent with so many under way, itself included, was served."""
        cap = self.cap
        if cap is None:
            code = _BYTES[in_flight if in_flight < 255 else 255]
            ring = self._accepted
            self._accepted = ring + code if len(ring) < _REMEMBERED else ring[1:] + code
            return
        self._pages += 1
        self._at_cap += in_flight >= cap
        if self._pages >= self._test:
            self._testing = not self._testing  # one more at once is tried; if that went well it stays
            self._set(cap + 1 if self._testing else cap)

    def refuse(self, in_flight: int, seq: int, needed: float) -> bool:
        """One was refused. True: a cap explains it, the rate need not be cut. `needed` slots carry the rate."""
        if self.cap is not None:
            return self._refused_under_cap(self.cap, in_flight, seq)
        if in_flight < 2 or seq < self._off_until or in_flight - 1 < _CARRYING * needed:
            return False
        if sum(other >= min(in_flight, 255) for other in self._accepted) > _RESEMBLING:
            return False
        self._set(in_flight - 1)
        return True

    def give_up(self, seq: int) -> None:
        """The cap does not help: it is another kind of limit."""
        self.cap = None
        self._testing = False
        self._accepted = b""
        self._off_until = seq + _OFF_FOR

    def _refused_under_cap(self, cap: int, in_flight: int, seq: int) -> bool:
        if self._testing:
            self._testing = False
            self._test *= 2
            self._set(cap - 1)
            return True
        if in_flight >= cap > 1 and self._at_cap <= _RESEMBLING:
            self._set(cap - 1)
            return True
        if self._at_cap < _PROVEN:
            self.give_up(seq)
        return False

    def _set(self, cap: int) -> None:
        self.cap = cap
        self._pages = self._at_cap = 0
