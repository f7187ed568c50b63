"""Any history of answers: nothing is lost, nothing ends twice, nothing waits for ever, robots.txt comes first."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amble.core.frontier.changes import Changes, Finished, Ready, State, WaitUntil
from amble.core.frontier.visit import Kind
from amble.core.outcome import Failure
from amble.core.robots.verdict import Allowed
from amble.core.urls import domain_of, origin_of
from tests.core.frontier.story import (
    CLOSED,
    FREE,
    OK,
    Asked,
    Reply,
    Story,
    broken,
    moved,
    page,
    read,
    robots,
    sitemap,
    status,
)

HOSTS = ("http://a.test", "https://a.test", "http://www.a.test", "http://b.test", "http://c.test:8080")
PATHS = ("/", "/1", "/2", "/3", "/deep/4")
SEEDS = [f"{host}{path}" for host in HOSTS[:4] for path in ("/", "/1")]
urls = st.builds("{}{}".format, st.sampled_from(HOSTS), st.sampled_from(PATHS))
robots_urls = st.sampled_from([f"{host}/robots.txt" for host in HOSTS] + ["http://d.test/r", "https://a.test/r"])

NETWORK = (
    Failure.NETWORK_TIMEOUT, Failure.NETWORK_RESET, Failure.NETWORK_DNS_FAILURE, Failure.NETWORK_TLS_ERROR,
    Failure.NETWORK_CONNECTION_REFUSED, Failure.ADDRESS_FORBIDDEN, Failure.CANCELLED,
)  # fmt: skip
troubles = st.one_of(
    st.sampled_from((status(429), status(429, Retry_After="20"), status(429, Retry_After="90000"))),
    st.sampled_from((status(500), status(503), status(503, Retry_After="5"), status(403), status(404))),
    st.builds(broken, st.sampled_from(NETWORK), proxy_fault=st.booleans(), local_fault=st.booleans()),
    st.just(status(200, cf_mitigated="challenge")),
    st.builds(moved, st.one_of(st.none(), st.sampled_from(("file:///x", "http://evil.test/", "//", "")))),
)
pages = st.one_of(
    st.builds(lambda links: page(*links), st.lists(urls, max_size=4)),
    st.builds(lambda url: page(head=f'<link rel=canonical href="{url}">'), urls),
    st.builds(moved, urls),
)
files = st.one_of(
    st.sampled_from((FREE, CLOSED, robots("Disallow: /1", "Crawl-delay: 4"), robots("Crawl-delay: 9000"), status(304))),
    st.builds(lambda url: robots(f"Sitemap: {url}"), urls),
    st.builds(moved, robots_urls),
)
INDEX = "<sitemapindex><sitemap><loc>{}</loc></sitemap></sitemapindex>"
sitemaps = st.one_of(
    st.builds(lambda named: sitemap(*named), st.lists(urls, max_size=4)),
    st.builds(lambda url: Reply(200, INDEX.format(url).encode()), urls),
    st.builds(moved, urls),
)  # fmt: skip
by_kind = {Kind.PAGE: pages, Kind.ROBOTS: files, Kind.SITEMAP: sitemaps}
GOOD = {Kind.PAGE: OK, Kind.ROBOTS: FREE, Kind.SITEMAP: sitemap()}

wanted = st.fixed_dictionaries(
    {
        "pacing": st.sampled_from(("fixed", "gauge", "linear")),
        "max_parallel_per_domain": st.sampled_from((1, 3)),
        "max_parallel_per_address": st.sampled_from((None, None, 1)),
        "follow_links": st.sampled_from(("auto", True)),
        "follow_canonical": st.booleans(),
        "max_pages_per_domain": st.sampled_from((None, 4)),
        "max_redirects": st.sampled_from((1, 10)),
        "max_retries": st.sampled_from((0, 2)),
        "job_failure_threshold": st.sampled_from((2, 20)),
        "cancel_on_limit_streak": st.sampled_from((None, 1)),
        "max_adaptive_delay": st.sampled_from((1.0, 60.0)),
        "domain_stall_timeout": st.sampled_from((30.0, 1_800.0)),
        "robots_retries": st.sampled_from((0, 2)),
        "robots_unreachable": st.sampled_from(("defer", "allow")),
        "robots_max_age": st.sampled_from((700.0, 86_400.0)),
        "respect_robots_txt": st.sampled_from((True, True, True, False)),
    }
)


class PlanMachine(RuleBasedStateMachine):
    @initialize(seeds=st.lists(st.sampled_from(SEEDS), min_size=1, max_size=4, unique=True), wanted=wanted)
    def begin(self, seeds: list[str], wanted: dict[str, Any]) -> None:
        self.story = Story(seeds, **wanted)
        self.flying: list[Ready] = []
        self.wake = 0.0
        self.stopped = False
        self.over = False

    # --- What happens ------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.over)
    @rule()
    def send(self) -> None:
        story = self.story
        changes = Changes()
        step = story.plan.next_ready(story.now, story.utc, changes)
        if isinstance(step, Ready):
            assert not self.stopped, "sent after the stop"
            self._check_sent(step)
            self.flying.append(step)
            story.asked.append(Asked(story.now, step.visit.url, step.visit))
        else:
            self.wake = step.instant if isinstance(step, WaitUntil) else story.now
            self.over = isinstance(step, Finished)
        story.take(changes, self.flying)
        if self.over:
            assert self.flying == []
            assert set(story.finals) == set(story.tasks), "finished with URLs that have no row"

    @precondition(lambda self: self.flying)
    @rule()
    def leave(self) -> None:
        """The last one has made its connection; where nobody says so, its answer will."""
        frontier, last = self.story.frontier, self.flying[-1]
        frontier.left(frontier.lanes[frontier.key_of(last.visit.url)], last.permit, self.story.now)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), trouble=st.booleans())
    def answer(self, data: st.DataObject, trouble: bool) -> None:
        ready = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1), label="which"))
        answers = troubles if trouble else by_kind[ready.visit.kind]
        self._settle(ready, data.draw(answers, label=f"{ready.visit.kind} {ready.visit.url}"))

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def give_up_one(self, data: st.DataObject) -> None:
        ready = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1), label="which"))
        self.story.take(self.story.plan.cancelled(ready, self.story.now, self.story.utc), self.flying)

    @rule(passed_s=st.sampled_from((0.0, 0.3, 2.0, 50.0)))
    def time_passes(self, passed_s: float) -> None:
        self.story.now += passed_s

    @rule()
    def sleep_as_long_as_told(self) -> None:
        if self.story.now < self.wake < float("inf"):
            self.story.now = self.wake

    @precondition(lambda self: not self.stopped)
    @rule(really=st.sampled_from((False, False, False, True)))
    def stop(self, really: bool) -> None:
        if really:
            self.stopped = True
            changes = Changes()
            self.story.frontier.stop(changes)
            self.story.take(changes, self.flying)

    # --- What must hold ----------------------------------------------------------------------------------------------

    def _check_sent(self, ready: Ready) -> None:
        """P5: a page only where robots.txt says so now; a robots.txt only where nobody else is asking for it."""
        story, visit = self.story, ready.visit
        if visit.kind is Kind.ROBOTS:
            assert all(other.visit.task != visit.task for other in self.flying if other.visit.kind is Kind.ROBOTS)
        else:
            assert isinstance(story.frontier.book.verdict(visit.url, story.now), Allowed)
        if visit.kind is Kind.PAGE:
            assert story.plan.scope.holds(domain_of(visit.url)), "out of scope"
            assert len(visit.trail) <= story.plan.settings.max_redirects
            assert visit.attempt <= 1 + story.frontier.registry.settings.max_retries
            assert visit.trail == () or visit.found_on == domain_of(visit.trail[-1])
        assert ready.permit.in_flight <= story.frontier.registry.settings.max_parallel_per_domain

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "story"):
            self.story.check(self.flying)

    def _settle(self, ready: Ready, reply: Reply) -> None:
        story = self.story
        fetched = reply.result(ready.visit.url, 0.1)
        if fetched.status is not None:  # there was somebody at the other end
            story.frontier.share(story.frontier.lane(ready.visit.url, story.now, story.utc), "192.0.2.1", story.now)
        page_read = read(ready.visit, fetched)
        story.take(story.plan.settle(ready, fetched, page_read, story.now, story.utc), self.flying)

    def teardown(self) -> None:
        """V1, V5, V6: once the web behaves, every URL ends, and the crawl finishes then and not before."""
        if not hasattr(self, "story"):
            return None
        for _ in range(5_000):
            self.send()
            if self.over:
                return self._check_the_log()
            if self.flying:
                ready = self.flying.pop(0)
                self._settle(ready, GOOD[ready.visit.kind])
            else:
                assert self.wake < float("inf"), "everybody waits for somebody else"
                self.story.now = max(self.story.now, self.wake)
        raise AssertionError([lane.visits() for lane in self.story.frontier.lanes.values() if len(lane)])

    def _check_the_log(self) -> None:
        story = self.story
        assert all(lane.pace.in_flight == 0 for lane in story.frontier.lanes.values())
        assert story.frontier.under_way == 0
        done = [final.visit for final in story.finals.values() if final.state is State.DONE]
        assert {visit.first_url for visit in done} <= {asked.url for asked in story.asked}
        if story.frontier.book.settings.respect_robots_txt:
            robots_at = {a.visit.task: a.at for a in reversed(story.asked) if a.visit.kind is Kind.ROBOTS}
            assert all(
                robots_at.get(origin_of(a.url), float("inf")) <= a.at
                for a in story.asked
                if a.visit.kind is not Kind.ROBOTS
            )


TestPlan = PlanMachine.TestCase
TestPlan.settings = settings(max_examples=150, stateful_step_count=40)
