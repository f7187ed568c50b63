"""Politeness as the servers see it. Knows the sites and what they said, and nothing of how the crawler decides.

Ids are those of the invariants in docs/simulation.md. A request *begins* when the crawler lets it go and is *sent* when
its bytes leave; connecting lies between the two. The gap that was known when a request began must lie between its
leaving and that of every one before it; and between its beginning and that of those which never left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from amble.core.frontier.in_flight import SOON_S
from amble.core.frontier.visit import Kind
from amble.core.outcome import Failure
from amble.fetcher import FetchResult
from amble.settings import Settings
from amble.testing.simulation.robots import RobotsFile

EPSILON_S = 1e-6
ROBOTS_HOPS_MAX = 5  # RFC 9309 2.3.1.2
ROBOTS_GAPS = 3  # a copy lives for so many requests at the least, however slow the site is
QUOTA_SLACK = 1.1  # fields tell whole seconds, and nobody spends a quota to its last request
REFUSALS = (403, 429, 503)
NO_RULES = RobotsFile()
GUESSES = ("/sitemap.xml", "/sitemap_index.xml")
GUESS_AFTER = 100  # requests for pages, those for a second time included
LEAST_PATIENCE_S, USUAL_FROM = 5.0, 10  # a page hangs after so long at the least, once so many answers came


class Budget(NamedTuple):
    """What a server has told of its quota."""

    left: int
    until: float  # by the server's own clock, to the instant
    told_at: float  # when it was true


@dataclass(eq=False, slots=True)
class Exchange:
    """One request as its server sees it."""

    url: str
    host: str
    kind: Kind
    began: float
    address: str | None  # where the crawler knew its host to lie when it began
    gap_s: float = 0.0  # to be kept after whatever went before to its host
    sent_at: float = math.nan
    quota: Budget | None = None  # that its answer tells of


@dataclass(slots=True)
class Robots:
    """What an origin has last told the crawler."""

    file: RobotsFile | None = None
    until: float = -math.inf  # how long it may be trusted
    good: RobotsFile | None = None
    kept: RobotsFile | None = None  # the last that was answered for, as a store has it
    good_at: float = -math.inf
    delay_s: float | None = None  # as last heard; while the next answer is still to come, that holds
    loaded: bool = False  # from an earlier run: how old the crawler takes it to be is a matter of its wall clock


@dataclass(slots=True)
class Judge:
    """Collects what is wrong."""

    settings: Settings
    roots: frozenset[str]
    files: Mapping[bytes, RobotsFile]
    hits: Counter[str]
    violations: list[str] = field(default_factory=list)
    paused: bool = False
    stopped: bool = False
    requests: int = 0
    robots: dict[str, Robots] = field(default_factory=dict)
    clock_set_at: float = -math.inf  # across a restart only the wall clock tells how much of a block is left
    held: frozenset[str] = frozenset()  # pages that the table holds and that nobody has reason to ask for
    waiting: Callable[[str, float], Iterable[str]] = lambda host, now: ()  # pages of a host, nothing yet heard of them
    _under_way: list[Exchange] = field(default_factory=list)
    _log: dict[str, list[Exchange]] = field(default_factory=dict)
    _blocks: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # (told at, until)
    _addresses: dict[str, str] = field(default_factory=dict)
    _answers: Counter[str] = field(default_factory=Counter)  # in this run, by host
    _budgets: dict[str, Budget] = field(default_factory=dict)  # by host: what it told last
    _quotas: dict[str, float] = field(default_factory=dict)  # the longest time until a reset that a host has told

    def fail(self, rule: str, what: str) -> None:
        self.violations.append(f"{rule} {what}")

    # -- requests

    def begin(self, url: str, kind: Kind, now: float, header_timeout_s: float | None = None) -> Exchange:
        self.requests += 1
        host = urlsplit(url).netloc
        if header_timeout_s is not None:
            self._check_patience(url, kind, host, header_timeout_s)
        exchange = Exchange(url, host, kind, now, self._addresses.get(host))
        if self.paused or self.stopped:
            self.fail("J1", f"{url} asked for during a pause or after a stop")
        self._check_address(exchange)
        self._check_scope(exchange)
        if kind is Kind.PAGE and url in self.held:
            self.fail("R1", f"{url} asked for, though the table holds it")
        exchange.gap_s = self.gap_s(host)
        self._check_spacing(exchange, exchange.began)
        self._check_block(exchange)
        self._check_budget(exchange)
        self._check_verdict(exchange)
        self._check_guess(exchange)
        self._under_way.append(exchange)
        self._check_caps(exchange)
        self._log.setdefault(host, []).append(exchange)
        if exchange.address is not None:
            self._log.setdefault(exchange.address, []).append(exchange)
        return exchange

    def sent(self, exchange: Exchange, now: float) -> None:
        self._check_spacing(exchange, now)
        exchange.sent_at = now

    def end(self, exchange: Exchange) -> None:
        self._under_way.remove(exchange)
        self._answers[exchange.host] += 1

    def _check_patience(self, url: str, kind: Kind, host: str, header_timeout_s: float) -> None:
        if kind is not Kind.PAGE:
            self.fail("H1", f"{url} is no page, and has only {header_timeout_s:g} s")
        if header_timeout_s < LEAST_PATIENCE_S:
            self.fail("H1", f"{url} has only {header_timeout_s:g} s")
        if self._answers[host] < USUAL_FROM:
            self.fail("H1", f"{url} has {header_timeout_s:g} s after {self._answers[host]} answers of {host}")

    def _check_guess(self, exchange: Exchange) -> None:
        """Where links are followed, no page that may be asked for waits for a sitemap that nobody named."""
        parts = urlsplit(exchange.url)
        if self.settings.visiting.follow_links is not True or parts.path not in GUESSES:
            return
        if any(exchange.url in (known.file or NO_RULES).sitemaps for known in self.robots.values()):
            return
        begun = [earlier.url for earlier in self._log.get(exchange.host, ()) if earlier.kind is Kind.PAGE]
        if len(begun) >= GUESS_AFTER:
            return
        self.hits["a guess"] += 1
        for url in self.waiting(exchange.host, exchange.began):
            if url not in begun and self._may(url, exchange.began):
                self.fail("G1", f"{url} waits for {exchange.url}")
                return

    def _may(self, url: str, now: float) -> bool:
        """Whether robots.txt, as far as it is known, lets a page be asked for."""
        parts = urlsplit(url)
        known = self.robots.get(f"{parts.scheme}://{parts.netloc}", Robots())
        file = known.file
        too_slow = file is not None and (file.delay_s or 0.0) > self.settings.robots.honour_crawl_delay_up_to
        return file is not None and now < known.until and not too_slow and file.allows(parts.path or "/")

    def _check_address(self, exchange: Exchange) -> None:
        if urlsplit(exchange.url).scheme not in ("http", "https"):
            self.fail("S1", f"{exchange.url} is not of the web")

    def _check_scope(self, exchange: Exchange) -> None:
        if exchange.kind is not Kind.PAGE:
            return
        host = exchange.host.removeprefix("www.")
        below = self.settings.visiting.allow_subdomains and any(host.endswith(f".{root}") for root in self.roots)
        if host not in self.roots and not below:
            self.fail("S1", f"{exchange.url} belongs to nobody's site")

    def _check_spacing(self, exchange: Exchange, now: float) -> None:
        self._space("P1", exchange, exchange.host, exchange.gap_s, now)
        if exchange.address is not None:
            self._space("P1b", exchange, exchange.address, self.settings.pacing.min_address_delay, now)

    def _space(self, rule: str, exchange: Exchange, whose: str, gap_s: float, now: float) -> None:
        for earlier in reversed(self._log.get(whose, ())[-20:]):
            if earlier is exchange:
                continue
            sent_at = earlier.began if math.isnan(earlier.sent_at) else earlier.sent_at
            if now < sent_at + gap_s - EPSILON_S:
                took_s = now - sent_at
                self.fail(rule, f"{exchange.url} at {now:.3f} only {took_s:.3f} s after {earlier.url}, not {gap_s:g} s")
                return

    def gap_s(self, host: str) -> float:
        """The least that must lie between two requests to a host, whatever was learned."""
        pacing = self.settings.pacing
        robots = self.settings.robots
        asked = [
            known.delay_s
            for origin, known in self.robots.items()
            if robots.respect_robots_txt and urlsplit(origin).netloc == host and known.delay_s is not None
            and known.delay_s <= robots.honour_crawl_delay_up_to
        ]  # fmt: skip
        return max(
            0.0 if pacing.max_rate is None else 1.0 / pacing.max_rate,
            pacing.min_crawl_delay,
            max(asked) if asked else pacing.default_crawl_delay,
            pacing.fixed_delay if pacing.pacing == "fixed" else 0.0,
            pacing.base_delay if pacing.pacing == "linear" else 0.0,
        )

    def _check_caps(self, exchange: Exchange) -> None:
        pacing, fetching = self.settings.pacing, self.settings.fetching
        here = sum(other.host == exchange.host for other in self._under_way)
        if here > pacing.max_parallel_per_domain:
            self.fail("P2", f"{here} requests at once to {exchange.host}")
        places = sum(_written_soon(other, exchange.began) for other in self._under_way)
        if places > fetching.max_total_connections:
            self.fail("P2c", f"{places} requests at once")
        most = pacing.max_parallel_per_address
        if exchange.address is not None and most is not None:
            there = sum(other.address == exchange.address for other in self._under_way)
            if there > most:
                self.fail("P2b", f"{there} requests at once to {exchange.address}")
        if here == pacing.max_parallel_per_domain:
            self.hits["a full domain"] += 1
        if places == fetching.max_total_connections:
            self.hits["every place taken"] += 1
        if places < len(self._under_way):
            self.hits["without a place"] += 1

    # -- what servers said

    def met(self, host: str, address: str) -> None:
        self._addresses[host] = address

    def told_quota(self, host: str, reset_s: float) -> None:
        self._quotas[host] = max(self._quotas.get(host, 0.0), reset_s)

    def answered(self, exchange: Exchange, status: int | None, now: float) -> None:
        """An answer has reached the crawler. One that refuses may mean that the window is another than was told."""
        if exchange.quota is not None:
            self._budgets[exchange.host] = exchange.quota
        elif status in REFUSALS:
            self._budgets.pop(exchange.host, None)

    def _check_budget(self, exchange: Exchange) -> None:
        budget = self._budgets.get(exchange.host)
        if budget is None or exchange.began >= budget.until:
            return
        begun = 1 + sum(one.began > budget.told_at for one in self._log.get(exchange.host, ())[-200:])
        if begun > budget.left:
            self.fail("P7", f"{exchange.url} at {exchange.began:.3f} is number {begun} since {budget.left} were left")
        self.hits["inside a quota"] += 1

    def told_to_wait(self, host: str, wait_s: float, now: float) -> None:
        self.hits["Retry-After"] += 1
        kept_s = min(wait_s, self.settings.pacing.max_retry_after)
        self._blocks.setdefault(host, []).append((now, now + kept_s))

    def _check_block(self, exchange: Exchange) -> None:
        until = max((until for _, until in self._blocks.get(exchange.host, ())), default=-math.inf)
        if exchange.began < until - EPSILON_S:
            self.fail("P3", f"{exchange.url} at {exchange.began:.3f}, though told to wait until {until:.3f}")

    def learn_robots(self, origin: str, trail: tuple[str, ...], result: FetchResult, now: float) -> None:
        """The answer to a robots.txt, or to what it was redirected to, has reached the crawler."""
        known, status, hops = self.robots.setdefault(origin, Robots()), result.status, len(trail)
        if hops > ROBOTS_HOPS_MAX:
            self.fail("L4", f"robots.txt of {origin} followed over {hops} redirects")
        if result.failure is Failure.ADDRESS_FORBIDDEN and not hops:
            return  # nobody was asked: what was known of it holds for as long as it did
        if result.failure is not None or status is None:
            self._miss(known, now)
        elif 300 <= status < 304 or status in (307, 308):
            target = urljoin(result.url, result.headers.get("location", ""))
            if hops == ROBOTS_HOPS_MAX or target in (*trail, result.url):
                self._keep(known, NO_RULES, now, good=False)  # as good as none
            else:
                delay_s = known.delay_s
                self._miss(known, now)  # until the next hop is answered, which may never be
                known.delay_s = delay_s
        elif status == 304 and known.good is not None:
            self._keep(known, known.good, now, good=True)
        elif 200 <= status < 300:
            self._keep(known, self.files.get(result.body or b"", NO_RULES), now, good=True)
        elif 400 <= status < 500 and status != 429:
            self._keep(known, NO_RULES, now, good=False)
        else:
            self._miss(known, now)

    def _keep(self, known: Robots, file: RobotsFile, now: float, *, good: bool) -> None:
        known.file, known.until = file, now + self.settings.robots.robots_max_age
        known.delay_s = file.delay_s
        known.good, known.kept = file if good else None, file
        known.good_at, known.loaded = now, False

    def _miss(self, known: Robots, now: float) -> None:
        robots, default_s, heard_s = self.settings.robots, self.settings.pacing.default_crawl_delay, known.delay_s
        is_usable = known.good is not None and now - known.good_at <= robots.robots_stale_age
        # How old the crawler takes a copy of an earlier run to be is a matter of its wall clock.
        is_dated = not known.loaded or known.good_at > self.clock_set_at
        known.file, known.until = known.good if is_usable else None, math.inf
        if is_usable:
            self.hits["robots stale"] += 1
        if robots.robots_unreachable == "allow" and not (is_usable and is_dated):
            known.file = NO_RULES
        known.delay_s = None if known.file is None else known.file.delay_s
        if known.file is None and heard_s is not None and heard_s > default_s:
            known.delay_s = heard_s  # nobody has taken it back
        elif known.file is NO_RULES and known.good is not None and not is_dated:
            known.delay_s = min(default_s, default_s if known.good.delay_s is None else known.good.delay_s)

    def _check_verdict(self, exchange: Exchange) -> None:
        if exchange.kind is Kind.ROBOTS or not self.settings.robots.respect_robots_txt:
            return
        parts = urlsplit(exchange.url)
        known = self.robots.get(f"{parts.scheme}://{parts.netloc}", Robots())
        if known.file is None:
            self.fail("P5", f"{exchange.url} without a robots.txt")
        elif exchange.began > max(known.until, known.good_at + ROBOTS_GAPS * self._slowest_s(exchange)) + EPSILON_S:
            self.fail("P5", f"{exchange.url} on the word of a robots.txt that is too old")
        elif not known.file.allows(parts.path or "/"):
            self.fail("P5", f"{exchange.url} is disallowed")
        elif (known.file.delay_s or 0.0) > self.settings.robots.honour_crawl_delay_up_to:
            self.fail("P5", f"{exchange.url}, where the crawl delay is too long to be kept")

    def _slowest_s(self, exchange: Exchange) -> float:
        """The longest gap that may have been kept here: what is asked for, was learned, lets a quota last, or was
        kept lately: what some strategies measure knows no bound."""
        quota_s = QUOTA_SLACK * self._quotas.get(exchange.host, 0.0)
        lately = self._log.get(exchange.host, ())[-ROBOTS_GAPS - 1 :]
        kept_s = max((later.began - earlier.began for earlier, later in pairwise(lately)), default=0.0)
        return max(self.gap_s(exchange.host), self.settings.pacing.max_adaptive_delay, quota_s, kept_s)

    # -- another run

    def restart(self, robots: dict[str, Robots], known_until: float) -> None:
        """What the next run cannot know, the servers cannot ask of it; when it was last here is no secret to them."""
        if self._under_way:
            self.fail("J2", f"{len(self._under_way)} requests outlive their run")
        self.robots = {origin: self._reloaded(known) for origin, known in robots.items()}
        for address in self._addresses.values():
            self._log.pop(address, None)  # the next run does not know yet who lives there
        self._addresses.clear()
        self._budgets.clear()  # a quota that is used up is a block; what is left of one is not kept
        for whose, exchanges in self._log.items():
            self._log[whose] = [one for one in exchanges if not math.isnan(one.sent_at)]
        for told in self._blocks.values():
            told[:] = [block for block in told if block[0] <= known_until]

    def _reloaded(self, known: Robots) -> Robots:
        """What a store keeps of a robots.txt: the last answer, whatever came of asking for it again."""
        if known.file is not None or known.kept is None:
            return replace(known, loaded=True)
        until = known.good_at + self.settings.robots.robots_max_age
        return replace(known, file=known.kept, until=until, delay_s=known.kept.delay_s, loaded=True)

    def begin_run(self) -> None:
        """What was left of a block when the last run ended cannot be known where the wall clock was set since."""
        self._answers.clear()
        for told in self._blocks.values():
            told[:] = [block for block in told if block[0] > self.clock_set_at]


def _written_soon(exchange: Exchange, now: float) -> bool:
    """Whether it holds a place: who was not written for a second gives its own away, and is over the number after."""
    return (now if math.isnan(exchange.sent_at) else exchange.sent_at) - exchange.began < SOON_S - EPSILON_S
