"""What one step of a crawl hands to its store: all of its rows, in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from amble.core.frontier.changes import Changes, Final, Keeps, Ready, State
from amble.core.frontier.frontier import Frontier
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind
from amble.fetcher import FetchResult
from amble.jobs import rows
from amble.jobs.rows import Recall
from amble.store.seam import Batch, PageConfirmed, PageLinks, PageRow, TaskState

# Enum members by a plain name: looking them up in their class takes several times as long.
_DEFERRED, _SKIPPED, _NOTHING, _ROBOTS, _WAITING = (
    State.DEFERRED, State.SKIPPED, Keeps.NOTHING, Kind.ROBOTS, TaskState.WAITING,
)  # fmt: skip


class Batches:
    """Those of one job. Made for every request, so nothing is gone through that holds nothing."""

    def __init__(self, job_id: int, session: int, settings: VisitSettings, frontier: Frontier, earlier: Recall) -> None:
        self._job_id = job_id
        self._session = session
        self._settings = settings
        self._frontier = frontier
        self._earlier = earlier

    def of(self, changes: Changes, ready: Ready | None, result: FetchResult | None, now: float, utc: datetime) -> Batch:
        job_id, frontier = self._job_id, self._frontier
        finals = [*changes.finals, *changes.refused] if changes.refused else changes.finals
        pages, confirmed, page_links = self._kept(finals, utc) if finals else ((), (), ())
        discovered = [rows.task_row(visit, job_id) for visit in changes.accepted] if changes.accepted else []
        if changes.overflow:
            discovered += [rows.task_row(visit, job_id, _WAITING) for visit in changes.overflow]
        return Batch(
            pages=pages,
            confirmed=confirmed,
            page_links=page_links,
            listings=[rows.listing(changes.listing, job_id, utc)] if changes.listing else (),
            done=[rows.task_done(final, job_id) for final in changes.finals] if changes.finals else (),
            discovered=discovered,
            requests=[rows.request_row(ready, result, job_id, self._session, utc)] if ready and result else (),
            # With the receipt, not some time later: should this be the last that is stored, the next run must know.
            domains=rows.limits_met(frontier.registry, changes, ready, now, utc, self._earlier),
            robots=frontier.book.dump_changed() if ready and ready.visit.kind is _ROBOTS else (),
        )

    def _kept(
        self, finals: Sequence[Final], utc: datetime
    ) -> tuple[list[PageRow], list[PageConfirmed], list[PageLinks]]:
        """The rows of URLs that have ended, and where those lead that were read."""
        job_id, settings = self._job_id, self._settings
        pages, confirmed, page_links = [], [], []
        for final in finals:
            state = final.state
            if state is _DEFERRED or final.keeps is _NOTHING or (state is _SKIPPED and not settings.log_skipped):
                continue
            if final.confirmed:
                confirmed.append(rows.page_confirmed(final, job_id, utc))
            else:
                pages.append(rows.page_row(final, job_id, utc, store_body=settings.store_body))
            links = rows.page_links(final, job_id)
            if links is not None:
                page_links.append(links)
        return pages, confirmed, page_links
