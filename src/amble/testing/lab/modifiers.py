"""What happens around a limiter: bans for those who break it, other clients who share it, a day on which it changes."""

from __future__ import annotations

from random import Random

from amble.testing.lab.limiters import Limiter


class Ban:
    """A refusal shuts the door for `ban_s`, however slow the client becomes; `extends`: each knock starts it anew.

    Ideal: that of the limiter inside, whose limit the ideal client never breaks.
    """

    def __init__(self, inner: Limiter, ban_s: float, extends: bool = False) -> None:
        self.inner = inner
        self.ban_s = ban_s
        self.extends = extends
        self._until = 0.0

    def admit(self, now: float, service_s: float) -> float | None:
        if now < self._until:
            if self.extends:
                self._until = now + self.ban_s
            return None
        delay_s = self.inner.admit(now, service_s)
        if delay_s is None:
            self._until = now + self.ban_s
        return delay_s

    def wait_s(self, now: float) -> float:
        return max(self._until - now, 0.0) or self.inner.wait_s(now)

    def ideal_s(self, pages: int) -> float:
        return self.inner.ideal_s(pages)


class All:
    """Several limits at once: admitted is what every one of them admits. Ideal: that of the slowest.

    For limiters that refuse at once; those that queue say that they would wait when they would admit.
    """

    def __init__(self, *inner: Limiter) -> None:
        self.inner = inner

    def admit(self, now: float, service_s: float) -> float | None:
        # Ask all before any takes its token: a request that one refuses costs nothing at the others.
        if self.wait_s(now) > 0.0:
            return None
        waits = [limiter.admit(now, service_s) for limiter in self.inner]
        return max((wait_s for wait_s in waits if wait_s is not None), default=None)

    def wait_s(self, now: float) -> float:
        return max(limiter.wait_s(now) for limiter in self.inner)

    def ideal_s(self, pages: int) -> float:
        return max(limiter.ideal_s(pages) for limiter in self.inner)


class Changing:
    """One limiter until `change_at`, another from then on. Ideal: what the first gives until then, then the second."""

    def __init__(self, before: Limiter, after: Limiter, change_at: float) -> None:
        self.before = before
        self.after = after
        self.change_at = change_at

    def _current(self, now: float) -> Limiter:
        return self.before if now < self.change_at else self.after

    def admit(self, now: float, service_s: float) -> float | None:
        return self._current(now).admit(now, service_s)

    def wait_s(self, now: float) -> float:
        wait_s = self._current(now).wait_s(now)
        return min(wait_s, self.change_at - now) if now < self.change_at else wait_s

    def ideal_s(self, pages: int) -> float:
        whole_s = self.before.ideal_s(pages)
        if whole_s <= self.change_at:
            return whole_s
        done = int(pages * self.change_at / whole_s)
        return self.change_at + self.after.ideal_s(pages - done)


class Shared:
    """Other clients draw on the same limit: Poisson arrivals at `others` a second, served and refused like ours.

    Ideal: the share of `rate` that they leave, pages / (rate - others).
    """

    def __init__(self, inner: Limiter, rate: float, others: float, random: Random) -> None:
        self.inner = inner
        self.rate = rate
        self.others = others
        self._random = random
        self._next = random.expovariate(others)

    def _others_until(self, now: float) -> None:
        while self._next <= now:
            self.inner.admit(self._next, 0.0)
            self._next += self._random.expovariate(self.others)

    def admit(self, now: float, service_s: float) -> float | None:
        self._others_until(now)
        return self.inner.admit(now, service_s)

    def wait_s(self, now: float) -> float:
        self._others_until(now)
        return self.inner.wait_s(now)

    def ideal_s(self, pages: int) -> float:
        return pages / (self.rate - self.others)
