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
from amble.fetcher import FetchRequest, FetchResult
from amble.fetcher.resolver import DnsError
from amble.fetcher.result import Phase
from amble.testing.simulation.judge import Exchange, Judge
from amble.testing.simulation.retry_after import meant_s
from amble.testing.simulation.site import TIMEOUT_S, UNSENT, Reply, Site
from amble.workers.visitor import LONG_BODY_BYTES, SITEMAP_BYTES_MAX, TaskFetch


class SimulatedWeb(TaskFetch):
    """Implements `amble.workers.errand.Fetch`. `clock` is the crawler's own, whose zero is another in each run."""

    def __init__(
        self, sites: dict[str, Site], judge: Judge, random: Random, hits: Counter[str], say: Callable[[str], None]
    ) -> None:
        self.sites = sites
        self.judge = judge
        self.clock: Clock | None = None
        self._random = random
        self._hits = hits
        self._say = say

    async def fetch(self, request: FetchRequest) -> FetchResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        exchange = self.judge.begin(request.url, kind_of(request), began)
        parts = urlsplit(request.url)
        site = self.sites.get(parts.netloc)
        self._say(f"{began:.6f} ask {kind_of(request)} {request.url}")
        try:
            if site is None:
                self.judge.fail("S1", f"{request.url} lies nowhere")
                return FetchResult(request.url, failure=UNSENT["dns"], phase=Phase.RESOLVE)
            result = await self._exchange(request, site, parts.path or "/", exchange)
            if result.peer_ip is not None:
                self.judge.met(site.host, site.address)
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
        loop = asyncio.get_running_loop()
        fault = site.strike(loop.time())
        await asyncio.sleep(self._random.choice((0.0, 0.01, 0.05, 0.05, 0.4)))
        if fault in UNSENT:
            self._hits[f"fault {fault}"] += 1
            return self._unsent(request, fault)
        assert self.clock is not None
        assert request.on_sent is not None
        request.on_sent(self.clock.monotonic())
        self.judge.sent(exchange, loop.time())
        reply = site.arrive(path, loop.time(), request.etag, fault)
        self.judge.told_quota(site.host, reply.reset_s)
        self._hits[f"fault {fault}" if fault else reply.note or "page"] += 1
        if len(reply.body) > LONG_BODY_BYTES[Kind.PAGE]:
            self._hits["a long page"] += 1
        latency_s = self._random.lognormvariate(-2.0, 0.6) if self._random.random() < 0.95 else 12.0
        await asyncio.sleep(TIMEOUT_S if fault == "timeout" else reply.inside_s + latency_s)
        return self._result(request, site, reply, latency_s)

    @staticmethod
    def _unsent(request: FetchRequest, fault: str | None) -> FetchResult:
        assert fault is not None
        dns = {"dns": DnsError.TRY_AGAIN, "no_such_name": DnsError.NO_SUCH_NAME}.get(fault)
        return FetchResult(
            request.url, failure=UNSENT[fault], detail=fault, phase=Phase.CONNECT, dns_error=dns,
            local_fault=fault == "local", proxy_fault=fault == "proxy", untrusted=fault == "tls",
        )  # fmt: skip

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
