"""What the frontier decides: whom to send, and what became of a visit. Frozen values, acted on by the caller. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from amble.core.frontier.chains import ChainEnd
from amble.core.frontier.visit import Visit
from amble.core.headers import Headers
from amble.core.outcome import Failure, Phase
from amble.core.pacing.events import Event
from amble.core.pacing.permit import Permit
from amble.core.page.page import Page
from amble.core.sitemap.document import SitemapEntry


class Ready(NamedTuple):
    """Send this now."""

    visit: Visit
    permit: Permit


class WaitUntil(NamedTuple):
    """Nothing to send before this instant (monotonic; infinity: not before something is settled)."""

    instant: float


class Finished(NamedTuple):
    """Nothing is queued and nothing is under way."""


class State(StrEnum):
    """How a task ended."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # not wanted: robots.txt, scope, budget, content type
    DEFERRED = "deferred"  # not now; a resumed job goes on with it


class Over(NamedTuple):
    """A domain is done with: how all that is or comes to be queued there ends."""

    state: State
    failure: Failure
    reason: str

    @classmethod
    def refused(cls, failure: Failure, reason: str) -> Over:
        """By a robots.txt, which is as it should be; or for want of one, which is not."""
        return cls(State.FAILED if failure is Failure.ROBOTS_UNREACHABLE else State.SKIPPED, failure, reason)


class Keeps(StrEnum):
    """What is kept of a task that ended."""

    ALL = "all"
    ROW = "row"  # the page asked not to be indexed: its row without its body
    NOTHING = "nothing"


class Fetched(Protocol):
    """What a fetcher brings back; see `amble.fetcher.FetchResult`."""

    @property
    def status(self) -> int | None: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def body(self) -> bytes | None: ...
    @property
    def failure(self) -> Failure | None: ...
    @property
    def detail(self) -> str: ...
    @property
    def phase(self) -> Phase: ...
    @property
    def dns_error(self) -> str | None: ...
    @property
    def peer_ip(self) -> str | None: ...
    @property
    def proxied(self) -> bool: ...
    @property
    def proxy_fault(self) -> bool: ...
    @property
    def local_fault(self) -> bool: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def untrusted(self) -> bool: ...
    @property
    def stale(self) -> bool: ...
    @property
    def reused(self) -> bool: ...
    @property
    def repeated(self) -> bool: ...
    @property
    def started_at(self) -> float | None: ...
    @property
    def elapsed_s(self) -> float: ...
    @property
    def ttfb_s(self) -> float | None: ...


class Move(NamedTuple):
    """A redirect that a URL answered with."""

    target: str | None  # None: it names none, or two
    order: int  # in its chain, from 1
    final_url: str | None = None  # where the chain ended as far as is known; None: it was not followed
    redirects: int = 0  # from here to there


class Final(NamedTuple):
    """The end of one task: exactly one per accepted URL."""

    visit: Visit
    state: State
    failure: Failure | None = None
    reason: str = ""
    fetched: Fetched | None = None
    page: Page | None = None
    keeps: Keeps = Keeps.ALL
    confirmed: bool = False  # a 304: the row that is there keeps what it holds and gets a new date
    move: Move | None = None


class Listing(NamedTuple):
    """What a sitemap was read to say."""

    sitemap: str
    entries: Sequence[SitemapEntry] = ()
    is_index: bool = False
    failure: str | None = None  # why there is no sitemap where one was looked for


@dataclass(slots=True)
class Changes:
    """Everything one step changed."""

    finals: list[Final] = field(default_factory=list)
    accepted: list[Visit] = field(default_factory=list)  # new tasks that the frontier holds
    overflow: list[Visit] = field(default_factory=list)  # new tasks that are left to the store
    listing: Listing | None = None
    refused: list[Final] = field(default_factory=list)  # URLs that the judge of the crawl did not take: no tasks
    left_out: dict[str, int] = field(default_factory=dict)  # links not taken, by reason
    events: Sequence[Event] = ()
    chain_ends: Sequence[ChainEnd] = ()  # of rows that were written before it was known
    abandoned: Sequence[str] = ()  # domains whose requests under way nobody waits for any more

    @property
    def tells(self) -> bool:
        """Whether there is anything to hand on."""
        return bool(
            self.finals
            or self.accepted
            or self.overflow
            or self.refused
            or self.left_out
            or self.events
            or self.abandoned
        )

    def absorb(self, other: Changes) -> None:
        """What another step changed besides; steps that told of events or sitemaps stand for themselves."""
        self.finals += other.finals
        self.accepted += other.accepted
        self.overflow += other.overflow
        self.refused += other.refused
        if other.chain_ends:
            self.chain_ends = (*self.chain_ends, *other.chain_ends)
        for reason, count in other.left_out.items():
            self.left_out[reason] = self.left_out.get(reason, 0) + count

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1
