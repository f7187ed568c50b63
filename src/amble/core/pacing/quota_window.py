"""The window that a server's quota headers tell of: what is left of it, when it ends, how fast to spend it. Pure."""

from __future__ import annotations

import math

from amble.core.quota import LONGEST_RESET_S, Quota

NEVER = -math.inf
SPRINT_MAX, LONG_S = 3.0, 120.0  # a window is spent so many times faster than evenly, one of two minutes evenly
EVEN_SHARE = 0.98  # of what is left, where it is spent evenly
RISE = 2  # more left than before, and than so many requests could account for: another window
LATE_MOST_S = 2.0
ROUNDED_S = 2.0  # an instant rounded up less a date rounded down


class QuotaWindow:
    """One window of a domain, made at the first quota header and kept up to date by every other.

    Resets are rounded up, so every answer gives an upper bound of the window's end, and the earliest of them is right.
    A server that rounds down refuses what comes by that bound; from then on its windows are taken to end later.
    """

    __slots__ = ("began", "gap_s", "late_s", "remaining", "size", "told_s", "until")

    def __init__(self) -> None:
        self.began = 0.0
        self.until = NEVER
        self.size = self.remaining = 0.0
        self.late_s = 0.0  # how much later than told windows end
        self.gap_s = 0.0  # that spends what is left
        self.told_s = 0.0  # the longest pause for it that an event told of

    def told(self, quota: Quota, sent_at: float, in_flight: int, now: float) -> None:
        """Take in the headers of an answer to a request sent then, while so many others are under way."""
        later = sent_at + quota.reset_s - ROUNDED_S > self.until  # it ends after this one: another window
        if now >= self.until or later or quota.remaining >= self.remaining + RISE + in_flight:
            self.began, self.until = now, math.inf
            self.size, self.remaining = quota.remaining + 1, quota.remaining
        self.remaining = min(self.remaining, quota.remaining)
        if sent_at < self.began < now:
            return  # perhaps the end that it tells is that of the window before
        self.until = min(self.until, now + quota.reset_s + self.late_s)
        if quota.window_s:  # a window never outlasts its length from our first answer in it
            self.until = min(self.until, self.began + quota.window_s + self.late_s)
        if self.until <= now:  # told in the very instant of its end, or a length that is none
            self.until = now + min(quota.reset_s, 1.0)
        self.gap_s = min(self._gap_s(in_flight, now), LONGEST_RESET_S)

    def _gap_s(self, in_flight: int, now: float) -> float:
        """Short windows are spent early, or the last one would be waited for to its end; long ones evenly."""
        lasts_s, left, left_s = self.until - self.began, max(1.0, self.remaining - in_flight), self.until - now
        sprint = min(SPRINT_MAX, LONG_S / lasts_s) if lasts_s > 0 else SPRINT_MAX
        if sprint > 1:
            return min(lasts_s / self.size, left_s / left) / sprint
        return left_s / left / EVEN_SHARE

    def answered_without(self, now: float) -> None:
        """An answer did not tell: it may have been counted all the same. Until its end a window holds, whatever a page
        of another kind leaves out."""
        self.remaining -= 1
        if now >= self.until:
            self.gap_s = 0.0

    def refused(self) -> None:
        """Refused though there was something left: the server rounds down, and its window is not over yet."""
        self.late_s = min(LATE_MOST_S, self.late_s + 1)
        self.until = NEVER

    def spent_until(self, in_flight: int) -> float:
        """Until when nothing is left to send, those under way counted; long ago where there is."""
        return self.until if self.remaining - in_flight < 1 else NEVER
