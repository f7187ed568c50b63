"""How the command ends, as a number."""

from __future__ import annotations

from enum import IntEnum

from amble.jobs import JobResult
from amble.store.seam import JobStatus


class Exit(IntEnum):
    DONE = 0
    ERROR = 1
    USAGE = 2
    FAILURES = 3  # done, with failures
    LIMITED = 4  # stopped by a limit that the settings set
    DEFERRED = 5
    CANCELLED = 6  # by cancel_on_limit_streak, or by whoever stopped it for good
    INTERRUPTED = 130


LIMITS = ("max_crawl_pages", "max_pages_per_domain")  # reasons for which a crawl leaves out what it found


def limit_reached(result: JobResult) -> bool:
    """Whether a limit that the settings set left something out."""
    return any(result.left_out[limit] for limit in LIMITS)


def exit_of(result: JobResult) -> Exit:
    """Of several things that are true, the worst is told: failures before a limit, which `limit_reached` tells too."""
    if result.status is JobStatus.COMPLETED:
        if result.skipped and not result.pages and not result.stored:
            return Exit.FAILURES  # forbidden or out of the scope, all of it
        return Exit.LIMITED if limit_reached(result) else Exit.DONE
    return {
        JobStatus.COMPLETED_WITH_ERRORS: Exit.FAILURES,
        JobStatus.FAILED: Exit.FAILURES,
        JobStatus.DEFERRED: Exit.DEFERRED,
        JobStatus.PAUSED: Exit.INTERRUPTED,
        JobStatus.CANCELLED: Exit.CANCELLED,
    }.get(result.status, Exit.ERROR)
