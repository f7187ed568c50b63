"""When a server hangs: requests under way that are not answered in the time that is usual there. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from amble.core.pacing.latency import hangs_after_s
from amble.core.pacing.permit import Permit

NEVER_OVERDUE = (math.inf, None)


def overdue_at(
    flying: Sequence[Permit], count: int, ring: bytes, epoch: int, heard_at: float
) -> tuple[float, Permit | None]:
    """The instant from which `count` requests under way are overdue, and the last of these; infinity for never.

    Those sent before the last one that was answered say nothing: a page may be slow at a site that is not.
    """
    if len(flying) < count:
        return NEVER_OVERDUE
    silent = [permit for permit in flying if permit.epoch == epoch and permit.sent_at > heard_at]
    hangs_s = hangs_after_s(ring)
    if hangs_s is None or len(silent) < count:
        return NEVER_OVERDUE
    last = sorted(silent, key=lambda permit: permit.sent_at)[count - 1]
    return last.sent_at + hangs_s, last
