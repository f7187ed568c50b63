"""What one step of a crawl hands to its store: all of its rows, in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from amble.core.frontier.changes import Changes, Final, Keeps, Ready, State
from amble.core.frontier.frontier import Frontier
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind
from amble.core.pacing.events import BlockOpened, CircuitOpened, Paused
from amble.fetcher import FetchResult
from amble.jobs import rows
from amble.store.seam import Batch, ChainEndRow, PageConfirmed, PageLinks, PageRow, RedirectRow, TaskState

# Enum members by a plain name: looking them up in their class takes several times as long.
_DEFERRED, _SKIPPED, _NOTHING, _ROBOTS, _WAITING, _ALL = (
    State.DEFERRED, State.SKIPPED, Keeps.NOTHING, Kind.ROBOTS, TaskState.WAITING, Keeps.ALL,
)  # fmt: skip


def must_outlast_us(batch: Batch, changes: Changes) -> bool:
    """Whether the next run must know of it, should this one end at any moment: a domain is to be left alone."""
    return bool(batch.domains) and (
        any(isinstance(event, BlockOpened | CircuitOpened | Paused) for event in changes.events)
        or any(request.retry_after_s is not None for request in batch.requests)
    )


class Batches:
    """Those of one job. Made for every request, so nothing is gone through that holds nothing."""

    def __init__(self, job_id: int, session: int, settings: VisitSettings, frontier: Frontier, *,
        extracts: bool = False,
    ) -> None:  # fmt: skip
        self._job_id = job_id
        self._session = session
        self._settings = settings
        self._frontier = frontier
        self._extracts = extracts  # what is not to be kept of a page is to be read first

    def of(self, changes: Changes, ready: Ready | None, result: FetchResult | None, now: float, utc: datetime) -> Batch:
        job_id, frontier = self._job_id, self._frontier
        finals = [*changes.finals, *changes.refused] if changes.refused else changes.finals
        read_only: list[str] = []
        pages, confirmed, page_links = self._kept(finals, utc, read_only) if finals else ((), (), ())
        discovered = [rows.task_row(visit, job_id) for visit in changes.accepted] if changes.accepted else []
        if changes.overflow:
            discovered += [rows.task_row(visit, job_id, _WAITING) for visit in changes.overflow]
        return Batch(
            pages=pages,
            confirmed=confirmed,
            redirects=self._redirects(finals, utc) if finals else (),
            chain_ends=[ChainEndRow(job_id, *end) for end in changes.chain_ends] if changes.chain_ends else (),
            read_only=read_only,
            page_links=page_links,
            listings=[rows.listing(changes.listing, job_id, utc)] if changes.listing else (),
            done=[rows.task_done(final, job_id) for final in changes.finals] if changes.finals else (),
            discovered=discovered,
            requests=[rows.request_row(ready, result, job_id, self._session, now, utc)] if ready and result else (),
            # With the receipt, not some time later: should this be the last that is stored, the next run must know.
            domains=rows.limits_met(frontier.registry, changes, ready, now, utc),
            robots=frontier.book.dump_changed() if ready and ready.visit.kind is _ROBOTS else (),
        )

    def _redirects(self, finals: Sequence[Final], utc: datetime) -> list[RedirectRow]:
        made = [rows.redirect_row(final, self._job_id, utc) for final in finals if final.move is not None]
        return [row for row in made if row is not None]

    def _kept(
        self, finals: Sequence[Final], utc: datetime, read_only: list[str]
    ) -> tuple[list[PageRow], list[PageConfirmed], list[PageLinks]]:
        """The rows of URLs that have ended, and where those lead that were read."""
        job_id, settings = self._job_id, self._settings
        pages, confirmed, page_links = [], [], []
        for final in finals:
            state = final.state
            if (
                state is _DEFERRED
                or final.keeps is _NOTHING
                or (state is _SKIPPED and not settings.log_skipped and final.move is None)
            ):
                continue
            if final.confirmed:
                confirmed.append(rows.page_confirmed(final, job_id, utc))
            elif self._extracts and final.page is not None and not (settings.store_body and final.keeps is _ALL):
                pages.append(rows.page_row(final._replace(keeps=_ALL), job_id, utc, store_body=True))
                read_only.append(final.visit.task)
            else:
                pages.append(rows.page_row(final, job_id, utc, store_body=settings.store_body))
            links = rows.page_links(final, job_id)
            if links is not None:
                page_links.append(links)
        return pages, confirmed, page_links
