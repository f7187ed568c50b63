"""A crawl put together for a test over real sockets on loopback: its servers, its names, and what came of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple, cast

from amble.assemble import make_plan
from amble.clock import SystemClock
from amble.core.addresses import AddressPolicy
from amble.core.frontier.changes import Changes, Final, Ready, State
from amble.core.pacing.events import Event
from amble.core.scope import Scope
from amble.core.seeds import seed_url
from amble.core.urls import domain_of
from amble.crawl import Crawl
from amble.fetcher import Fetcher, FetchResult, Resolution
from amble.fetcher.resolver import DnsError, Resolver
from amble.machine_pace import machine_pace
from amble.settings import Settings
from amble.testing.rawserver import Connection, RawServer, Script, response, serve

LOOPBACK_OPEN = AddressPolicy.of(opened=["127.0.0.0/8"])

# No waits but those a test asks for, and deadlines that end what hangs.
QUICK: dict[str, Any] = {
    "pacing": "fixed", "fixed_delay": 0.0, "max_rate": "unlimited", "max_parallel_per_domain": 8,
    "http_timeout": 20.0, "connect_timeout_s": 5.0, "header_timeout_s": 10.0,
    "retry_backoff": "exponential", "retry_base_delay": 0.01, "max_retries": 1,
    "robots_retries": 1, "robots_retry_delay": 0.05, "open_state_duration": 0.05, "open_state_duration_max": 0.1,
    "discover": False,
}  # fmt: skip


# --- What came of it -------------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """One request, as the client saw it."""

    url: str
    result: FetchResult
    found_on: str | None


class Crawled:
    """Everything that a crawl told. Told twice about one task, it fails at once [L1]."""

    def __init__(self) -> None:
        self.finals: dict[str, Final] = {}
        self.tasks: set[str] = set()
        self.sent: list[Sent] = []
        self.left_out: Counter[str] = Counter()
        self.events: list[tuple[float, Event]] = []  # when it was told, and what

    def on_changes(self, changes: Changes, ready: Ready | None, result: FetchResult | None, utc: datetime) -> None:
        self.tasks.update(visit.task for visit in changes.accepted)
        for final in changes.finals:
            assert final.visit.task not in self.finals, f"{final.visit.task} ends twice"
            self.finals[final.visit.task] = final
        self.left_out.update(changes.left_out)
        self.events += [(time.monotonic(), event) for event in changes.events]
        if ready is not None and result is not None:
            self.sent.append(Sent(ready.visit.url, result, ready.visit.found_on))

    def end(self, task: str) -> str:
        """How a task ended, in a word: its failure, or its state."""
        final = self.finals[task]
        return (final.failure or final.state).value

    def ends(self) -> dict[str, str]:
        return {task: self.end(task) for task in self.finals}

    def count(self, state: State) -> int:
        return sum(final.state is state for final in self.finals.values())

    def check(self) -> None:
        """Every accepted URL has exactly one row."""
        assert self.finals.keys() == self.tasks


# --- Names -----------------------------------------------------------------------------------------------------------


class Names:
    """A resolver with a table: for each name its addresses; several lists are given out in turn, the last one stays."""

    def __init__(self, table: Mapping[str, list[list[str]]] | None = None, default: str | None = "127.0.0.1") -> None:
        self._table = {name: list(answers) for name, answers in (table or {}).items()}
        self._default = default
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Resolution:
        self.asked.append(host)
        answers = self._table.get(host)
        if answers == []:
            return Resolution(error=DnsError.NO_SUCH_NAME, detail="no such name")
        if answers is not None:
            return Resolution(tuple(answers.pop(0) if len(answers) > 1 else answers[0]))
        if self._default is None:
            return Resolution(error=DnsError.NO_SUCH_NAME, detail="no such name")
        return Resolution((self._default,))

    def close(self) -> None:
        """Nothing is held."""


class Anywhere(Scope):
    """No host is out of scope: whatever is refused now is refused by somebody else."""

    __slots__ = ()

    def holds(self, domain: str) -> bool:
        return True


# --- Crawling --------------------------------------------------------------------------------------------------------


def put_together(
    seeds: Iterable[str],
    *,
    policy: AddressPolicy | None = LOOPBACK_OPEN,
    resolver: Resolver | None = None,
    anywhere: bool = False,
    **settings: Any,
) -> tuple[Crawl, Fetcher, Crawled]:
    """A crawl that has not begun. `policy=None`: the seeds were typed, nothing else is opened."""
    crawled = Crawled()
    found = [seed_url(seed) for seed in seeds]
    policy = policy or AddressPolicy.of(named=[seed.url for seed in found])
    wanted, clock = Settings.of({**QUICK, **settings}), SystemClock()
    plan = make_plan(wanted, found, random.random, machine=machine_pace(wanted.pacing, clock))
    fetcher = Fetcher(wanted.fetching, policy=policy, resolver=resolver or Names(), clock=clock)
    at_once = wanted.fetching.max_total_connections
    crawl = Crawl(plan, fetcher, clock, in_flight_max=at_once, on_changes=crawled.on_changes)
    crawled.on_changes(plan.start(found, clock.monotonic(), clock.utc()), None, None, clock.utc())
    if anywhere:
        crawl.plan.scope = Anywhere(frozenset())
    return crawl, fetcher, crawled


async def crawl(seeds: Iterable[str], *, within_s: float = 30.0, **wanted: Any) -> Crawled:
    """Crawl to the end."""
    running, fetcher, crawled = put_together(seeds, **wanted)
    try:
        async with asyncio.timeout(within_s):
            await running.run()
    finally:
        await fetcher.close()
    crawled.check()
    return crawled


# --- A web of raw sockets --------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """One request, as the server saw it."""

    at: float
    host: str  # with its port, as the client wrote it
    path: str
    headers: dict[str, str]  # by lower-case name


Respond = Callable[[Asked], bytes]
Answer = bytes | Respond | Script


class Web:
    """Any number of hosts behind one port. Answers are raw bytes by `host/path`; what is not there is missing."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.log: list[Asked] = []
        self.server: RawServer

    @property
    def port(self) -> int:
        return self.server.port

    def url(self, place: str, scheme: str = "http") -> str:
        """`a.test/x` with this server's port."""
        host, slash, path = place.partition("/")
        return f"{scheme}://{host}:{self.port}{slash or '/'}{path}"

    def asked(self, host: str | None = None) -> list[str]:
        """`host/path` of every request, in order."""
        places = [f"{asked.host.partition(':')[0]}{asked.path}" for asked in self.log]
        return places if host is None else [place for place in places if place.startswith(f"{host}/")]

    async def _serve(self, connection: Connection) -> None:
        while head := await connection.request():
            asked = _read_head(head)
            self.log.append(asked)
            answer = self.pages.get(f"{asked.host.partition(':')[0]}{asked.path}", MISSING)
            if isinstance(answer, bytes):
                await connection.send(answer)
            elif asyncio.iscoroutinefunction(answer):
                await cast(Script, answer)(connection)
                return
            else:
                await connection.send(cast(Respond, answer)(asked))


def _read_head(head: bytes) -> Asked:
    lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    headers = {name.lower(): value for name, value in fields.items()}
    return Asked(time.monotonic(), headers["host"], lines[0].split(" ")[1], headers)


@asynccontextmanager
async def web(**ways: Any) -> AsyncIterator[Web]:
    """A web without pages: they are put in when its port is known."""
    served = Web()
    async with serve(served._serve, **ways) as server:
        served.server = server
        yield served


def html(*links: str, head: str = "", headers: Iterable[str] = ()) -> bytes:
    """A page with these links."""
    body = f"<!doctype html><title>t</title>{head}" + "".join(f'<a href="{link}">x</a>' for link in links)
    return response(body.encode(), "Content-Type: text/html", *headers)


def text(*lines: str, status: str = "200 OK", headers: Iterable[str] = ()) -> bytes:
    return response("\n".join(lines).encode(), "Content-Type: text/plain", *headers, status=status)


def redirect(location: str, *headers: str, status: str = "302 Found") -> bytes:
    location = location.encode().decode("latin-1")  # as bytes on the wire, whatever script it is in
    return response(b"", f"Location: {location}", *headers, status=status)


def sitemap(*urls: str) -> bytes:
    return response(("<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>").encode())


MISSING = response(b"", status="404 Not Found")


def gaps_s(sent: Iterable[Sent], domain: str) -> list[float]:
    """Seconds between the requests at one domain, from when they were written to the socket."""
    starts = sorted(one.result.started_at or 0.0 for one in sent if domain_of(one.url) == domain)
    return [later - earlier for earlier, later in pairwise(starts)]
