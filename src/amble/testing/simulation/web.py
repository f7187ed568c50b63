"""The simulated web as a fetcher: every exchange takes virtual time, may fail, and is shown to the judge."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from urllib.parse import urlsplit

from amble.clock import Clock
from amble.core.frontier.visit import Kind
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.fetcher import FetchRequest, FetchResult, Phase
from amble.testing.simulation.judge import Budget, Exchange, Judge
from amble.testing.simulation.network import UNSENT, Connection, Network
from amble.testing.simulation.retry_after import meant_s
from amble.testing.simulation.site import TIMEOUT_S, Reply, Site
from amble.workers.visitor import LONG_BODY_BYTES, SITEMAP_BYTES_MAX, TaskFetch


class SimulatedWeb(TaskFetch):
    """Implements `amble.workers.errand.Fetch`. `clock` is the crawler's own, whose zero is another in each run."""

    def __init__(
        self, sites: dict[str, Site], network: Network, judge: Judge, random: Random, hits: Counter[str],
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.sites = sites
        self.network = network
        self.judge = judge
        self.clock: Clock | None = None
        self._random = random
        self._hits = hits
        self._say = say

    async def fetch(self, request: FetchRequest) -> FetchResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        exchange = self.judge.begin(request.url, kind_of(request), began, request.header_timeout_s)
        parts = urlsplit(request.url)
        site = self.sites.get(parts.netloc)
        self._say(f"{began:.6f} ask {kind_of(request)} {request.url}")
        try:
            if site is None:
                self.judge.fail("S1", f"{request.url} lies nowhere")
                return FetchResult(request.url, failure=UNSENT["dns"].failure, phase=Phase.RESOLVE)
            result = await self._exchange(request, site, parts.path or "/", exchange)
            if result.peer_ip is not None:
                self.judge.met(site.host, site.address)
            if result.failure is None:
                self.judge.answered(exchange, result.status, loop.time())
            wait_s = meant_s(dict(result.headers))
            if wait_s is not None and result.status is not None and result.failure is None:
                self.judge.told_to_wait(site.host, wait_s, loop.time())
            said = result.status if result.failure is None else result.failure.value
            self._say(f"{loop.time():.6f} got {said} {request.url}")
            return result._replace(elapsed_s=loop.time() - began)
        except asyncio.CancelledError:
            self._hits["cancelled under way"] += 1
            raise
        finally:
            self.judge.end(exchange)

    async def _exchange(self, request: FetchRequest, site: Site, path: str, exchange: Exchange) -> FetchResult:
        loop, network, scheme = asyncio.get_running_loop(), self.network, urlsplit(request.url).scheme
        origin = f"{scheme}://{site.host}"
        fault = site.strike(loop.time(), scheme, path)
        if request.new_name or not network.knows(site.host, loop.time()):
            lookup_s = network.lookup_s(loop.time())
            self._hits["a slow lookup"] += lookup_s > 0
            await asyncio.sleep(lookup_s)
            if (unsent := await self._fails(request, Phase.RESOLVE, fault)) is not None:
                return unsent
            network.learn(site.host, loop.time())
        kept = None if request.new_connection else network.take(origin, site.keeps, loop.time())
        if kept is None:
            if (unsent := await self._fails(request, Phase.CONNECT, fault)) is not None:
                return unsent
            await asyncio.sleep(self._random.choice((0.0, 0.01, 0.05, 0.05, 0.4)))
        connection = kept or network.open(origin, site.keeps, loop.time())
        assert self.clock is not None
        assert request.on_sent is not None
        request.on_sent(self.clock.monotonic())
        self.judge.sent(exchange, loop.time())
        if connection.breaks or (kept is None and self._random.random() < site.refuses_share):
            await asyncio.sleep(self._random.choice((0.0, 0.02)))
            network.drop(origin, connection)
            return self._stale(request, site, kept is not None)
        if any(connection.opened_at < silent_at <= loop.time() for silent_at in site.silences):
            return await self._silence(request, site, connection)
        result = await self._answer(request, site, path, fault, exchange)
        if result.failure is None:
            network.give_back(origin, site.keeps, connection, loop.time())
        else:
            network.drop(origin, connection)
        return result._replace(reused=kept is not None)

    async def _fails(self, request: FetchRequest, phase: Phase, fault: str | None) -> FetchResult | None:
        """How the request ends where it has got to: by what befalls everybody, or by its site's own trouble."""
        spell = self.network.spell(asyncio.get_running_loop().time())
        for name in (spell, fault):
            way = UNSENT.get(name or "")
            if name is not None and way is not None and way.phase is phase:
                await asyncio.sleep(self._random.choice((0.0, 0.01, 0.05, 0.4)) if way.takes_s is None else way.takes_s)
                self._hits[f"fault {name}"] += 1
                if name == spell:
                    self._hits[f"everybody: {name}"] += 1
                return FetchResult(
                    request.url, failure=way.failure, detail=name, phase=phase, dns_error=way.dns_error,
                    local_fault=way.local_fault, proxy_fault=way.proxy_fault, untrusted=way.untrusted,
                )  # fmt: skip
        return None

    def _stale(self, request: FetchRequest, site: Site, reused: bool) -> FetchResult:
        what = "a kept connection broke" if reused else "a new connection refused its request"
        self._hits[what] += 1
        return FetchResult(
            request.url, failure=Failure.NETWORK_RESET, detail=what, phase=Phase.HEADERS, peer_ip=site.address,
            reused=reused, stale=True,
        )  # fmt: skip

    async def _silence(self, request: FetchRequest, site: Site, connection: Connection) -> FetchResult:
        """Nothing comes over this connection any more; who times out there is the last to be given it."""
        await asyncio.sleep(min(TIMEOUT_S, request.header_timeout_s or TIMEOUT_S))
        repeated, connection.timed_out = connection.timed_out, True
        self._hits["a silent connection, again" if repeated else "a silent connection"] += 1
        return FetchResult(
            request.url, failure=Failure.NETWORK_TIMEOUT, detail="silent connection", phase=Phase.HEADERS,
            peer_ip=site.address, reused=True, repeated=repeated,
        )  # fmt: skip

    async def _answer(
        self, request: FetchRequest, site: Site, path: str, fault: str | None, exchange: Exchange
    ) -> FetchResult:
        loop = asyncio.get_running_loop()
        reply = site.arrive(path, loop.time(), request.etag, fault)
        self.judge.told_quota(site.host, reply.reset_s)
        if reply.left is not None:
            exchange.quota = Budget(reply.left, loop.time() + reply.reset_s, loop.time())
        struck = fault if fault not in UNSENT else None
        self._hits[f"fault {struck}" if struck else reply.note or "page"] += 1
        if len(reply.body) > LONG_BODY_BYTES[Kind.PAGE]:
            self._hits["a long page"] += 1
        latency_s = self._random.lognormvariate(-2.0, 0.6) if self._random.random() < 0.95 else 12.0
        takes_s = TIMEOUT_S if fault == "timeout" else reply.inside_s + latency_s
        if request.header_timeout_s is not None and takes_s > request.header_timeout_s:
            self._hits["given up as hanging"] += 1
            await asyncio.sleep(request.header_timeout_s)
            return FetchResult(
                request.url, failure=Failure.NETWORK_TIMEOUT, detail="hangs", phase=Phase.HEADERS,
                peer_ip=site.address,
            )  # fmt: skip
        await asyncio.sleep(takes_s)
        return self._result(request, site, reply, latency_s)

    @staticmethod
    def _result(request: FetchRequest, site: Site, reply: Reply, latency_s: float) -> FetchResult:
        headers = Headers(reply.headers)
        failure, body = reply.failure, reply.body if reply.failure is None else None
        if failure is None and reply.status is not None and request.keep_body is not None:
            failure = request.keep_body(reply.status, headers)
            body = None if failure else body
        return FetchResult(
            request.url, reply.status, headers, body, failure, reply.note, ttfb_s=latency_s, peer_ip=site.address,
            body_bytes=len(reply.body), phase=Phase.DONE if failure is None else Phase.BODY,
        )  # fmt: skip


def kind_of(request: FetchRequest) -> Kind:
    """What a request is for, as its form shows."""
    if request.keep_prefix:
        return Kind.SITEMAP if request.body_bytes_max == SITEMAP_BYTES_MAX else Kind.ROBOTS
    return Kind.PAGE
