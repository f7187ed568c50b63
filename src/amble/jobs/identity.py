"""Whether site owners can tell whom to write to: a crawl of any size without a contact is told so, once."""

from __future__ import annotations

import warnings
from contextlib import suppress

from amble.jobs.runner import RunningJob

ANONYMOUS_PAGES_MAX = 100


def anonymous(running: RunningJob) -> str | None:
    """What to say of a crawl that has grown beyond what may go without a contact; None where all is well."""
    if running.result.pages <= ANONYMOUS_PAGES_MAX or not running.job.settings.fetching.is_anonymous:
        return None
    return (
        f"more than {ANONYMOUS_PAGES_MAX} pages, and no site owner can tell whom to write to:"
        " set contact to a page or a mail address of yours"
    )


def warn_if_anonymous(running: RunningJob) -> None:
    """For programs. Where warnings are errors it is left out: the crawl is done, and its answer must not be lost."""
    if (text := anonymous(running)) is not None:
        with suppress(UserWarning):
            warnings.warn(text, stacklevel=3)
