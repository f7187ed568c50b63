"""What a domain had to say beside plain answers: refusals, failures, pauses it asked for, quotas it stated. Pure.

Most domains never say any of it, and then this costs them nothing.
"""

from __future__ import annotations

import math

from amble.core.pacing.block import Block
from amble.core.pacing.quota_window import QuotaWindow
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.window import FailureWindow

MEANT_FOR = 200  # answers after 503s that were no noise, in which another is none either
_LAST_10, _LAST_20 = (1 << 10) - 1, (1 << 20) - 1


class Trouble:
    __slots__ = (
        "_forbidden",
        "_meant_for",
        "_recent_403",
        "_recent_503",
        "block",
        "blocked_until",
        "capped",
        "epoch",
        "error_streak",
        "fail_streak",
        "failures",
        "limited",
        "limited_at",
        "quota",
        "success_streak",
        "unsaved",
        "window",
    )

    def __init__(self, successes: int = 0) -> None:
        self.block: Block | None = None
        self.blocked_until = -math.inf
        self.epoch = 0  # blocks so far
        self.success_streak = successes  # since the last refusal or failure
        self.quota: QuotaWindow | None = None  # the window that the server tells of
        self.capped = False  # whether the strategy allows fewer at once than its delay does
        self.unsaved = False  # something was learned that was not handed out
        self.limited = self.failures = 0
        self.limited_at: float | None = None  # when the last refusal came
        self.error_streak = 0  # refusals and failures in a row
        self.fail_streak = 0  # those that count for the breaker
        self.window: FailureWindow | None = None
        self._recent_403 = self._recent_503 = 0  # one bit per answer, the newest lowest
        self._meant_for = 0  # so many answers more, a 503 means that we are too fast
        self._forbidden = 0  # 403s that were taken for answers

    def note_status(self, status: int | None) -> None:
        self._recent_403 = (self._recent_403 << 1 | (status == 403)) & _LAST_20
        self._meant_for -= self._meant_for > 0
        self._recent_503 = (self._recent_503 << 1 | (status == 503)) & _LAST_10

    def forbids(self, answered: int) -> bool:
        """A 403 is a limit when it is the third among the last twenty answers, after more than twenty were welcome."""
        if answered - self._forbidden > 20 and self._recent_403.bit_count() >= 3:
            return True
        self._forbidden += 1
        return False

    def overloads(self) -> bool:
        """Two 503s among the last ten are no noise. Nor is a lone one soon after: that is how this site refuses."""
        if self._recent_503.bit_count() >= 2:
            self._meant_for = MEANT_FOR
        return self._meant_for > 0

    def succeed(self, now: float) -> None:
        self.success_streak += 1
        self.error_streak = self.fail_streak = 0
        if self.window is not None:
            self.window.add(False, now)

    def forget_failures(self) -> None:
        """The circuit closed: what led to it is settled."""
        if self.window is not None:
            self.window.clear()

    def pardon(self) -> None:
        """It was not this domain that failed."""
        self.error_streak = self.fail_streak = 0
        self.forget_failures()

    def fail(self, settings: PacingSettings, earlier_successes: int, gap_s: float, now: float) -> str | None:
        """Count a failure for the breaker; the reason to open the circuit, if that is now due."""
        self.fail_streak += 1
        if self.window is None:
            buckets = math.ceil(settings.stats_window / settings.stats_bucket)
            self.window = FailureWindow(buckets, settings.stats_bucket, now)
            # The successes before the first failure are filled in as if they had come at the present gap.
            in_window = min(earlier_successes, int(settings.stats_window / gap_s)) if gap_s else earlier_successes
            self.window.seed(in_window, in_window * gap_s, now)
        self.window.add(True, now)
        total, failed = self.window.counts(now)
        if self.fail_streak >= settings.consecutive_fail_threshold:
            return f"{self.fail_streak} failures in a row"
        if total >= settings.min_samples_to_trip and failed >= settings.error_rate_threshold * total:
            return f"{failed} of {total} answers failed"
        return None
