"""One request in, one result out: the name resolved, its addresses checked, the transfer run, the result told.

No redirect is followed, no robots.txt asked and nothing paced in here: those are decisions, made elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache, partial
from types import TracebackType
from typing import NamedTuple, Self

from amble.clock import Clock, SystemClock
from amble.core.addresses import AddressPolicy, Forbidden
from amble.core.outcome import Failure, Phase
from amble.core.urls import Refusal, normalize, origin_of, split_plain
from amble.errors import BadUrl, FetcherClosed
from amble.fetcher.authorities import ca_file_of
from amble.fetcher.calls import Cancel, OnDone, awaited, ended, in_task
from amble.fetcher.engine import Engine
from amble.fetcher.guard import Guard, Route, pin_proxy
from amble.fetcher.request import FetchRequest
from amble.fetcher.resolver import (
    DnsError,
    ForgettingResolver,
    KnowingResolver,
    RememberingResolver,
    Resolution,
    Resolver,
)
from amble.fetcher.resolver_cares import CaresResolver
from amble.fetcher.result import FetchResult
from amble.fetcher.routes import OFFLINE
from amble.fetcher.settings import FetcherSettings

EXHAUSTED_WAIT_S = 0.05  # before asking this machine again for what it had run out of; doubles each time


class Target(NamedTuple):
    """What an origin asks to connect to."""

    host: str  # as the URL has it: an IPv6 address in brackets
    port: int
    literal: tuple[str, ...]  # the address, where the host is written as one


class Fetcher:
    """Fetches URLs on the running event loop. Make one, use it for everything, close it."""

    def __init__(
        self,
        settings: FetcherSettings | None = None,
        *,
        policy: AddressPolicy | None = None,
        resolver: Resolver | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings or FetcherSettings()
        self._guard = Guard(policy or AddressPolicy())
        self._clock = clock or SystemClock()
        self._resolver = resolver or _system_resolver(self.settings, self._clock)
        self._known: Callable[[str], Resolution | None] = (
            self._resolver.known if isinstance(self._resolver, KnowingResolver) else _nothing_known
        )
        self._ca_file = ca_file_of(self.settings)
        self._engine: Engine | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """Make one request. Whatever the network or the server does is in the result; only our own mistakes raise."""
        result: FetchResult | None = await awaited(partial(self.start, request))
        assert result is not None
        return result

    def start(self, request: FetchRequest, on_done: OnDone[FetchResult]) -> Cancel:
        """The same, for whoever would rather be called than wait. Never calls `on_done` before it has returned, save
        by `cancel`; a request that cannot be made by anybody, and a fetcher that is closed, still raise."""
        request.check()
        url, origin = _read_url(request.url)
        engine = self._running()
        route = self._route_now(_target(origin), request)
        if isinstance(route, Route) and engine.slots.take_now():
            call = _Call(self, engine, request, on_done, self._clock.monotonic())
            return call.start(url, route)
        return in_task(self._fetch(engine, request, url), on_done)

    async def _fetch(self, engine: Engine, request: FetchRequest, url: str) -> FetchResult:
        """Where something has to be waited for: a name, a slot. No slot is held while a name is looked up."""
        asked = self._clock.monotonic()
        route = await self._route(_target(origin_of(url)), request)
        if isinstance(route, _NoRoute):
            closed = _NoRoute(Failure.CANCELLED, "the fetcher was closed") if self._closed else route
            return closed.result(url, self._clock.monotonic() - asked)
        if not engine.slots.take_now():
            await engine.slots.take()
        try:
            began = self._clock.monotonic()
            result = await self._send(engine, request, url, route, began)
            return await self._try_again(engine, request, began, result) if _may_pass(result) else result
        finally:
            engine.slots.give_back()

    def forget_failures(self) -> None:
        """Forget which names had no address: the network was down, and is back."""
        if isinstance(self._resolver, ForgettingResolver):
            self._resolver.forget_failures()

    async def refusal(self, url: str) -> str | None:
        """Why the address of a URL must not be connected to; None where it may be, or where that is not known."""
        route = await self._route(_target(origin_of(url)), FetchRequest(url))
        refused = isinstance(route, _NoRoute) and route.failure is Failure.ADDRESS_FORBIDDEN
        return route.detail if refused and isinstance(route, _NoRoute) else None

    def let_go(self) -> None:
        """Close every connection while nothing is under way; whoever fetches again makes new ones."""
        if self._engine is not None and not self._closed:
            self._engine.close()
            self._engine = None

    async def close(self) -> None:
        """End what is under way (its results say `cancelled`) and close every connection."""
        if self._closed:
            return
        self._closed = True
        if self._engine is not None:
            self._engine.close()
        self._resolver.close()
        await asyncio.sleep(0)  # let the ended fetches return their results

    def _running(self) -> Engine:
        if self._closed:
            raise FetcherClosed("the fetcher is closed", hint="make a new one")
        if self._engine is None:
            self._engine = Engine(self.settings, self._ca_file, self._clock, asyncio.get_running_loop())
        elif not self._engine.is_here():
            raise FetcherClosed("the fetcher belongs to another event loop", hint="make one for each loop")
        return self._engine

    async def _send(
        self, engine: Engine, request: FetchRequest, url: str, route: Route | _NoRoute, began: float
    ) -> FetchResult:
        if self._closed:
            route = _NoRoute(Failure.CANCELLED, "the fetcher was closed")
        if isinstance(route, _NoRoute):
            return route.result(url, self._clock.monotonic() - began)
        left_s = began + self.settings.http_timeout - self._clock.monotonic()
        begin = partial(engine.start, request, url, route, began, left_s=left_s)
        result: FetchResult | None = await awaited(begin)
        assert result is not None
        return result

    async def _try_again(self, engine: Engine, request: FetchRequest, began: float, result: FetchResult) -> FetchResult:
        """Out of descriptors or ports, and nothing was sent: others will finish and give theirs back [F11]."""
        request = request._replace(new_name=False)
        wait_s = EXHAUSTED_WAIT_S
        while _may_pass(result) and not self._closed:
            left_s = began + self.settings.http_timeout - self._clock.monotonic()
            if left_s <= wait_s:
                break
            await asyncio.sleep(wait_s)
            wait_s *= 2
            route = await self._route(_target(origin_of(result.url)), request)
            result = await self._send(engine, request, result.url, route, began)
        return result

    def _route_now(self, target: Target, request: FetchRequest) -> Route | _NoRoute | None:
        """Where this request may connect to, if nobody has to be asked for that."""
        if self.settings.http_proxy is not None:
            return None
        if target.literal:
            return self._checked(target, target.literal, request)
        if request.new_name:
            return None
        known = self._known(target.host)
        return None if known is None or known.error is not None else self._checked(target, known.addresses, request)

    async def _route(self, target: Target, request: FetchRequest) -> Route | _NoRoute:
        proxy = self.settings.proxy_for(target.host)
        addresses = target.literal
        if not addresses and proxy is None:
            resolution = await self._resolve(target.host, anew=request.new_name)
            if resolution.error is not None:
                return _NoRoute(Failure.NETWORK_DNS_FAILURE, resolution.detail, resolution.error)
            addresses = resolution.addresses
        route = self._checked(target, addresses, request)
        return route if proxy is None or isinstance(route, _NoRoute) else await self._route_through(proxy)

    async def _resolve(self, host: str, *, anew: bool) -> Resolution:
        if anew and isinstance(self._resolver, ForgettingResolver):
            return await self._resolver.resolve_anew(host)
        return await self._resolver.resolve(host)

    def _checked(self, target: Target, addresses: tuple[str, ...], request: FetchRequest) -> Route | _NoRoute:
        """Every address is checked, and any that is refused refuses the host."""
        verdict = self._guard.check(
            target.host, target.port, addresses, request.found_on, is_redirect=request.is_redirect,
            sent_by_private=request.sent_by_private,
        )  # fmt: skip
        if not isinstance(verdict, Forbidden):
            return verdict
        way = f"nobody typed it here, and allow_private does not name {_place(target)}"
        return _NoRoute(Failure.ADDRESS_FORBIDDEN, f"{verdict}: {way}")

    async def _route_through(self, proxy: str) -> Route | _NoRoute:
        """By way of the proxy, whose own address is the user's business."""
        target = _target(proxy)
        resolution = Resolution(target.literal) if target.literal else await self._resolver.resolve(target.host)
        if resolution.error is not None:
            return _NoRoute(Failure.NETWORK_DNS_FAILURE, f"proxy: {resolution.detail}", resolution.error, True)
        return Route(pin_proxy(target.host, resolution.addresses, target.port), proxy)


class _Call:
    """One request under way, that had to wait for nothing."""

    __slots__ = ("_began", "_cancel", "_engine", "_fetcher", "_on_done", "_request")

    def __init__(
        self, fetcher: Fetcher, engine: Engine, request: FetchRequest, on_done: OnDone[FetchResult], began: float
    ) -> None:
        self._fetcher = fetcher
        self._engine = engine
        self._request = request
        self._on_done = on_done
        self._began = began

    def start(self, url: str, route: Route) -> Cancel:
        try:
            self._cancel = self._engine.start(self._request, url, route, self._began, self._done)
        except BaseException:
            self._engine.slots.give_back()
            raise
        return self.cancel

    def cancel(self) -> None:
        self._cancel()

    def _done(self, result: FetchResult | None, error: BaseException | None) -> None:
        if result is not None and _may_pass(result):
            again = self._fetcher._try_again(self._engine, self._request, self._began, result)
            self._cancel = in_task(again, self._end)
        else:
            self._end(result, error)

    def _end(self, result: FetchResult | None, error: BaseException | None) -> None:
        self._cancel = ended
        self._engine.slots.give_back()
        self._on_done(result, error)


def _may_pass(result: FetchResult) -> bool:
    """Whether this machine had run out of something before anything was sent."""
    return result.local_fault and result.started_at is None and result.detail != OFFLINE


def _place(target: Target) -> str:
    """As `allow_private` would name it."""
    return target.host if target.port in (80, 443) else f"{target.host}:{target.port}"


def _nothing_known(host: str) -> None:
    return None


class _NoRoute(NamedTuple):
    """Why a request was not made."""

    failure: Failure
    detail: str
    dns_error: DnsError | None = None
    proxy_fault: bool = False

    def result(self, url: str, elapsed_s: float) -> FetchResult:
        return FetchResult(
            url,
            failure=self.failure,
            detail=self.detail,
            phase=Phase.RESOLVE,
            dns_error=self.dns_error,
            proxy_fault=self.proxy_fault,
            local_fault=self.dns_error is DnsError.LOCAL,
            elapsed_s=elapsed_s,
        )


def _read_url(text: str) -> tuple[str, str]:
    """The URL in its one spelling, whoever wrote it, and its origin: what libcurl is given has been read by the
    standard's rules."""
    plain = split_plain(text)
    if plain is not None:
        return text, plain[0]
    url = normalize(text)
    if isinstance(url, Refusal):
        raise BadUrl(f"{text[:200]!a} cannot be fetched: {url.value}", hint="pass an http(s) URL")
    return url, origin_of(url)


@lru_cache(maxsize=8192)
def _target(origin: str) -> Target:
    """Read an origin, which `amble.core.urls` has written, so that cutting it as text is exact."""
    scheme, _, place = origin.partition("://")
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, port = place, "443" if scheme == "https" else "80"
    # The standard lets a host end in a number only if it is an IPv4 address, and writes that with dots.
    is_literal = host.startswith("[") or host.rpartition(".")[2].isdigit()
    return Target(host, int(port), (host.strip("[]"),) if is_literal else ())


def _system_resolver(settings: FetcherSettings, clock: Clock) -> Resolver:
    timeout_s = min(settings.dns_timeout_s, settings.http_timeout)
    cares = CaresResolver(timeout_s=timeout_s, at_once_max=settings.dns_lookups)
    return RememberingResolver(cares, remember_s=settings.dns_cache_s, clock=clock)
