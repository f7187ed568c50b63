"""How the command ends, as a number."""

from __future__ import annotations

from enum import IntEnum

from amble.store.seam import JobStatus


class Exit(IntEnum):
    DONE = 0
    ERROR = 1
    USAGE = 2
    FAILURES = 3  # done, with failures
    LIMITED = 4  # stopped by a limit
    DEFERRED = 5
    INTERRUPTED = 130


def exit_of(status: JobStatus) -> Exit:
    return {
        JobStatus.COMPLETED: Exit.DONE,
        JobStatus.COMPLETED_WITH_ERRORS: Exit.FAILURES,
        JobStatus.FAILED: Exit.FAILURES,
        JobStatus.DEFERRED: Exit.DEFERRED,
        JobStatus.PAUSED: Exit.INTERRUPTED,
        JobStatus.CANCELLED: Exit.INTERRUPTED,
    }.get(status, Exit.ERROR)
