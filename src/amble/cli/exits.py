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
    INTERRUPTED = 130


LIMITS = ("max_crawl_pages", "max_pages_per_domain")  # reasons for which a crawl leaves out what it found


def exit_of(result: JobResult) -> Exit:
    ran_to_its_end = result.status in (JobStatus.COMPLETED, JobStatus.COMPLETED_WITH_ERRORS)
    if ran_to_its_end and any(result.left_out[limit] for limit in LIMITS):
        return Exit.LIMITED  # whether everything was got is not known, so that comes first
    return {
        JobStatus.COMPLETED: Exit.DONE,
        JobStatus.COMPLETED_WITH_ERRORS: Exit.FAILURES,
        JobStatus.FAILED: Exit.FAILURES,
        JobStatus.DEFERRED: Exit.DEFERRED,
        JobStatus.PAUSED: Exit.INTERRUPTED,
        JobStatus.CANCELLED: Exit.INTERRUPTED,
    }.get(result.status, Exit.ERROR)
