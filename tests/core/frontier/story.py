"""A crawl without a network: a web that is a table of answers, a clock that jumps, and a count after every step."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import Any, NamedTuple

from amble.assemble import make_plan
from amble.core.frontier.backlog import Window
from amble.core.frontier.changes import Changes, Final, Finished, Listing, Ready, State, WaitUntil
from amble.core.frontier.plan import CrawlPlan
from amble.core.frontier.recall import Stored
from amble.core.frontier.visit import Kind, Visit
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.core.pacing.events import Event
from amble.core.page.page import Page, read_page
from amble.core.seeds import seed_url
from amble.core.urls import domain_of
from amble.fetcher import FetchResult
from amble.settings import Settings

COUNTED_MAX = 300  # with more tasks than this, counting all of them after each step takes too long
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)

# At one request a second and answers at once, instants can be worked out by hand.
STEADY: dict[str, Any] = {
    "pacing": "fixed", "fixed_delay": 1.0, "max_rate": "unlimited", "max_parallel_per_domain": 1,
    "max_tail": 604_800.0,  # who fails is waited for, where the story is about something else
}  # fmt: skip


class Reply(NamedTuple):
    """What a URL of the scripted web answers."""

    status: int | None = 200
    body: bytes | None = b""
    headers: tuple[tuple[str, str], ...] = ()
    failure: Failure | None = None
    more: Mapping[str, Any] = {}  # further fields of the fetcher's result

    def result(self, url: str, took_s: float) -> FetchResult:
        return FetchResult(
            url,
            self.status,
            Headers(self.headers),
            self.body,
            self.failure,
            elapsed_s=took_s,
            ttfb_s=took_s,
            **self.more,
        )


Answers = Reply | list[Reply] | Callable[[str], Reply]  # always this; these in turn, then the last; by URL


def page(*links: str, head: str = "", **headers: str) -> Reply:
    body = f"<title>t</title>{head}" + "".join(f'<a href="{link}">x</a>' for link in links)
    return Reply(200, body.encode(), (("Content-Type", "text/html"), *_fields(headers)))


def robots(*lines: str) -> Reply:
    return Reply(200, "\n".join(("User-agent: *", *lines)).encode(), (("Content-Type", "text/plain"),))


def sitemap(*urls: str) -> Reply:
    entries = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return Reply(200, f'<?xml version="1.0"?><urlset xmlns="{namespace}">{entries}</urlset>'.encode())


def moved(location: str | None, status: int = 302) -> Reply:
    return Reply(status, b"", () if location is None else (("Location", location),))


def status(code: int, **headers: str) -> Reply:
    return Reply(code, b"", _fields(headers))


def broken(failure: Failure, **more: Any) -> Reply:
    return Reply(None, None, (), failure, more)


def _fields(named: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name.replace("_", "-"), value) for name, value in named.items())


OK = page()
MISSING = status(404)
FREE = robots("Disallow:")
CLOSED = robots("Disallow: /")
DOWN = status(503)
LIMITED = status(429)


class Asked(NamedTuple):
    """One request as the web saw it."""

    at: float
    url: str
    visit: Visit


class Story:
    """One crawl of a scripted web. URLs that the table does not know are missing pages; robots.txt allows all."""

    def __init__(
        self,
        seeds: list[str],
        web: Mapping[str, Answers] | None = None,
        *,
        took_s: float = 0.0,
        store_took_s: float = 0.0,
        in_flight_max: int = 100,
        random: Callable[[], float] = lambda: 0.0,
        window: Window | None = None,
        stored: Mapping[str, Stored] | None = None,
        listings: Mapping[str, Listing] | None = None,
        address: str | None = None,
        **settings: Any,
    ) -> None:
        self.web = {url: list(reply) if isinstance(reply, list) else reply for url, reply in (web or {}).items()}
        self.took_s = took_s
        self.store_took_s = store_took_s  # to give back what is claimed
        self.in_flight_max = in_flight_max
        self.address = address  # where all of this web lives
        self.now = 0.0
        self.asked: list[Asked] = []
        self.finals: dict[str, Final] = {}
        self.ended_at: dict[str, float] = {}
        self.left_out: Counter[str] = Counter()
        self.chain_ends: dict[str, tuple[str, int]] = {}
        self.events: list[Event] = []
        self.tasks: dict[str, Visit] = {}
        self.finished = False
        self._flying: list[tuple[float, int, Ready]] = []
        self._claims: deque[tuple[float, list[str], int]] = deque()
        self._order = count()
        started = [seed_url(seed) for seed in seeds]
        self.stored = dict(stored or {})  # what the table holds
        self.listings = dict(listings or {})  # sitemaps that were read lately
        self.shelf: list[Visit] = []  # tasks that lie in the store
        self.plan: CrawlPlan = make_plan(
            Settings.of({**STEADY, **settings}), started, random, stored=set(self.stored), window=window
        )
        self.frontier = self.plan.frontier
        self.frontier.read_lately = self.listings
        self.take(self.plan.start(started, self.now, self.utc))

    @property
    def utc(self) -> datetime:
        return NOON + timedelta(seconds=self.now)

    # --- Going on ----------------------------------------------------------------------------------------------------

    def run(self, until: float = float("inf"), steps_max: int = 100_000) -> Story:
        """Until everything is finished, or this instant."""
        for _ in range(steps_max):
            step = self.dispatch()
            if isinstance(step, Finished):
                self._check_the_end()
                return self
            due = (first[0] for first in (*self._flying[:1], *self._claims))
            instant = max(self.now, min((step.instant, *due)))
            assert instant < float("inf"), "everybody waits for somebody else"
            if instant > until:
                self.now = until
                return self
            self.now = instant
            self.land()
        raise AssertionError(f"not finished after {steps_max} steps at {self.now} s")

    def dispatch(self) -> Finished | WaitUntil:
        """Send whatever may be sent."""
        while len(self._flying) < self.in_flight_max:
            self.serve()
            changes = Changes()
            step = self.plan.next_ready(self.now, self.utc, changes)
            if isinstance(step, Ready):
                self.asked.append(Asked(self.now, step.visit.url, step.visit))
                lane = self.frontier.lanes[self.frontier.key_of(step.visit.url)]
                self.frontier.left(lane, step.permit, self.now)
                heapq.heappush(self._flying, (self.now + self.took_s, next(self._order), step))
            self.take(changes)
            frontier = self.frontier
            wanted = frontier.to_recall or frontier.inflows or frontier.backlog.hungry
            if not isinstance(step, Ready) and not (wanted and not frontier.draining):
                return step
        changes = Changes()
        step = self.plan.wait(WaitUntil(float("inf")), self.now, self.utc, changes)
        self.take(changes)
        return step

    def abandon(self, domains: Sequence[str]) -> None:
        """Nobody waits any more for what is under way there."""
        gone = [ready for _, _, ready in self._flying if ready.permit.domain in domains]
        self._flying = [flying for flying in self._flying if flying[2] not in gone]
        heapq.heapify(self._flying)
        for ready in gone:
            self.take(self.plan.cancelled(ready, self.now, self.utc))

    def land(self) -> None:
        """Answer what is due by now."""
        while self._flying and self._flying[0][0] <= self.now:
            _, _, ready = heapq.heappop(self._flying)
            fetched = self._reply(ready.visit).result(ready.visit.url, self.took_s)
            if self.address is not None:
                lane = self.frontier.lane(ready.visit.url, self.now, self.utc)
                self.frontier.share(lane, self.address, self.now)
            self.take(self.plan.settle(ready, fetched, read(ready.visit, fetched), self.now, self.utc))

    def serve(self) -> None:
        """What a store gives back, and what is still to be taken in."""
        frontier, plan = self.frontier, self.plan
        while True:
            domains, portion = frontier.wants(1_000)
            if domains:
                self._claims.append((self.now + self.store_took_s, domains, portion))
            if self._claims and self._claims[0][0] <= self.now:
                _, domains, portion = self._claims.popleft()
                claimed = [v for domain in domains for v in self._on_shelf(domain)[:portion]]
                self.shelf = [visit for visit in self.shelf if visit not in claimed]
                self.take(plan.claimed(claimed, domains, self.now, self.utc))
            elif frontier.to_recall:
                recall = frontier.to_recall.popleft()
                if recall.visit.kind is Kind.SITEMAP:
                    self.take(plan.sitemap_recalled(recall, self.listings[recall.visit.url], self.now, self.utc))
                else:
                    self.take(plan.recalled(recall, self.stored.get(recall.visit.task), self.now, self.utc))
            elif frontier.inflows:
                self.take(plan.pour(self.now, self.utc))
            else:
                return

    def resume(self, *visits: Visit) -> None:
        """An earlier run has accepted these and not finished them: they lie in the store."""
        self.frontier.backlog.window = self.frontier.backlog.window or Window()
        self.tasks |= {visit.task: visit for visit in visits}
        self.shelf += visits
        done = self.frontier.final
        spent = done + sum(visit.task not in self.stored for visit in visits)
        self.plan.resume(Counter(domain_of(visit.task) for visit in visits), done, spent, {}, self.now)
        self.frontier.accepted += len(self.tasks) - done - len(visits)

    def _on_shelf(self, domain: str) -> list[Visit]:
        waiting = [visit for visit in self.shelf if domain_of(visit.task) == domain]
        return sorted(waiting, key=lambda visit: (visit.depth, -visit.priority))

    def stop(self) -> None:
        changes = Changes()
        self.frontier.stop(changes)
        self.take(changes)

    def cancel_all(self) -> None:
        """What is under way is not waited for."""
        while self._flying:
            self.take(self.plan.cancelled(heapq.heappop(self._flying)[2], self.now, self.utc))

    def _reply(self, visit: Visit) -> Reply:
        answers = self.web.get(visit.url)
        if answers is None:
            return MISSING
        if isinstance(answers, list):
            return answers.pop(0) if len(answers) > 1 else answers[0]
        return answers if isinstance(answers, Reply) else answers(visit.url)

    # --- Keeping count -----------------------------------------------------------------------------------------------

    def take(self, changes: Changes, flying: list[Ready] | None = None) -> None:
        """Take in what one step changed. Whoever answers by hand says what is under way."""
        self.shelf += changes.overflow
        for visit in (*changes.accepted, *changes.overflow):
            assert visit.task not in self.tasks, f"{visit.task} was accepted twice"
            self.tasks[visit.task] = visit
        for final in changes.finals:
            task = final.visit.task
            assert task in self.tasks, f"{task} ends without having been accepted"
            assert task not in self.finals, f"{task} ends twice: {self.finals[task]}, then {final}"
            self.finals[task] = final
            self.ended_at[task] = self.now
        self.left_out.update(changes.left_out)
        self.chain_ends |= {end.url: (end.final_url, end.redirects) for end in changes.chain_ends}
        self.events.extend(changes.events)
        self.abandon(changes.abandoned)
        if len(self.tasks) <= COUNTED_MAX:
            self.check(flying)

    def check(self, flying: list[Ready] | None = None) -> None:
        """L1: every accepted URL is queued, under way, deferred or final, and the frontier's counts say so."""
        frontier = self.frontier
        all_flying = [ready for _, _, ready in self._flying] if flying is None else flying
        all_flying = [*all_flying, *self.plan.patience.held]
        pages_flying = [ready.visit for ready in all_flying if ready.visit.kind is Kind.PAGE]
        queued = [v for lane in frontier.lanes.values() for v in lane.visits() if v.kind is Kind.PAGE]
        queued += [recall.visit for recall in frontier.recalls.values() if recall.visit.kind is Kind.PAGE]
        inflows = (*frontier.inflows, *(part.rest for part in frontier.unjudged))
        queued += [inflow.final.visit for inflow in inflows if inflow.final is not None]
        queued += [visit for visit in self.shelf if domain_of(visit.task) in frontier.backlog.stored]
        left = len(self.shelf) - frontier.backlog.total
        deferred = sum(final.state is State.DEFERRED for final in self.finals.values())
        open_tasks = set(self.tasks) - self.finals.keys()
        if not left:
            assert sorted(v.task for v in (*queued, *pages_flying)) == sorted(open_tasks)
        assert (frontier.queued, frontier.pages_under_way) == (len(queued), len(pages_flying))
        assert (frontier.accepted, frontier.deferred) == (len(self.tasks), deferred + left)
        assert frontier.final == len(self.finals) - deferred
        assert frontier.under_way == len(all_flying)

    def _check_the_end(self) -> None:
        self.finished = True
        self.check()
        assert not self._flying
        left = {visit.task for visit in self.shelf}
        assert set(self.finals) | left == set(self.tasks), f"no row for {set(self.tasks) - set(self.finals) - left}"
        assert left.isdisjoint(self.finals)
        assert all(len(lane) == 0 and lane.under_way == 0 for lane in self.frontier.lanes.values())

    # --- Looking -----------------------------------------------------------------------------------------------------

    def ends(self) -> dict[str, str]:
        """How each task ended, in a word: its failure, or its state."""
        return {task: (final.failure or final.state).value for task, final in self.finals.items()}

    def where_chains_end(self) -> dict[str, tuple[str, int]]:
        """What the rows of redirects tell in the end: where they led, and after how many."""
        moves = {task: final.move for task, final in self.finals.items() if final.move is not None}
        own = {task: (move.final_url, move.redirects) for task, move in moves.items() if move.final_url is not None}
        return own | self.chain_ends

    def end(self, task: str) -> tuple[str, str | None]:
        final = self.finals[task]
        return final.state.value, final.failure.value if final.failure else None

    def urls(self, kind: Kind | None = None) -> list[str]:
        return [asked.url for asked in self.asked if kind is None or asked.visit.kind is kind]

    def times(self, url: str) -> list[float]:
        return [asked.at for asked in self.asked if asked.url == url]

    def gaps(self, domain: str) -> list[float]:
        """Seconds between requests at one domain."""
        starts = [asked.at for asked in self.asked if domain_of(asked.url) == domain]
        return [later - earlier for earlier, later in pairwise(starts)]


def read(visit: Visit, fetched: FetchResult) -> Page | None:
    if visit.kind is not Kind.PAGE or fetched.body is None or fetched.status is None or fetched.status >= 300:
        return None
    return read_page(fetched.body, visit.url, headers=fetched.headers)
