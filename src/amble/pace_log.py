"""The log line of a change of pace: which domain, how long from now on, after how many errors, why.

The same for a crawl and for a limiter alone. Without its own handler nothing of it is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from amble.core.pacing.events import BlockOpened, CircuitOpened, Event, PaceChanged, Paused

log = logging.getLogger("amble.pacing")


def log_changes(events: Sequence[Event]) -> None:
    """A line for each that changes when the domain is asked next; as `extra`, all that the event says, by name."""
    if not log.isEnabledFor(logging.INFO):
        return
    for event in events:
        if isinstance(event, PaceChanged):
            log.info(
                "%s: delay %.2f s (was %.2f s), error streak %d: %s",
                event.domain, event.delay_s, event.was_s, event.error_streak, event.reason, extra=_fields(event),
            )  # fmt: skip
        elif isinstance(event, BlockOpened | Paused | CircuitOpened):
            log.info(
                "%s: left alone for %.1f s: %s", event.domain, event.wait_s, event.reason, extra=_fields(event)
            )  # fmt: skip


def _fields(event: PaceChanged | BlockOpened | Paused | CircuitOpened) -> dict[str, object]:
    return {"change": type(event).__name__, **event._asdict()}
