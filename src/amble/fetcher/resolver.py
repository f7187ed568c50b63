"""Names to addresses: looked up in a few threads, once per name however many wait, remembered for a short while."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from amble.clock import Clock, SystemClock
from amble.fetcher.routes import OFFLINE, is_online

REMEMBERED_NAMES_MAX = 20_000
ERROR_REMEMBERED_S = 2.0  # long enough that a thousand queued URLs ask once, short enough to see a name come back


class DnsError(StrEnum):
    """Why a name has no address. Only the first is the domain's own doing; the others may pass [F8]."""

    NO_SUCH_NAME = "no_such_name"
    TRY_AGAIN = "try_again"  # the name's servers, or our resolver, did not answer
    TIMEOUT = "timeout"  # nothing came in the time we gave it
    LOCAL = "local"  # this machine could not even ask


class Resolution(NamedTuple):
    """What a name resolves to: addresses in the order to try them, or why there are none."""

    addresses: tuple[str, ...] = ()
    error: DnsError | None = None
    detail: str = ""


CLOSED = Resolution(error=DnsError.LOCAL, detail="the resolver was closed")


def _is_cancelled() -> bool:
    """Whether it is the caller who was cancelled, and not the question it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Resolver(Protocol):
    async def resolve(self, host: str) -> Resolution:
        """Every address of a host name. Never raises for what the network does."""

    def close(self) -> None:
        """Let go of threads and sockets."""


@runtime_checkable
class KnowingResolver(Resolver, Protocol):
    """One that can say at once what it knows, so that nobody has to wait for it."""

    def known(self, host: str) -> Resolution | None:
        """What `resolve` would say without asking anybody; None: it would ask."""


_ERRORS = {
    socket.EAI_NONAME: DnsError.NO_SUCH_NAME,
    socket.EAI_AGAIN: DnsError.TRY_AGAIN,
    socket.EAI_FAIL: DnsError.TRY_AGAIN,
    getattr(socket, "EAI_NODATA", socket.EAI_NONAME): DnsError.NO_SUCH_NAME,
    getattr(socket, "EAI_ADDRFAMILY", socket.EAI_NONAME): DnsError.NO_SUCH_NAME,
}


def look_up(host: str) -> Resolution:
    """Ask the system. Blocks, so it runs in a thread."""
    try:
        # As bytes: the host is ASCII already, and Python's own IDNA codec would refuse names that exist.
        found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except socket.gaierror as refused:
        error = _ERRORS.get(refused.errno or 0, DnsError.LOCAL)
        if error is DnsError.TRY_AGAIN and not is_online():
            return Resolution(error=DnsError.LOCAL, detail=OFFLINE)
        return Resolution(error=error, detail=str(refused.strerror))
    except OSError as failed:
        return Resolution(error=DnsError.LOCAL, detail=errno.errorcode.get(failed.errno or 0, str(failed)))
    except (UnicodeError, ValueError):
        return Resolution(error=DnsError.NO_SUCH_NAME, detail="not a name that can be looked up")
    return Resolution(tuple(dict.fromkeys(str(address[0]) for *_, address in found)))


class ThreadedResolver:
    """The system's resolver in a bounded number of threads, so that a slow name never holds the event loop."""

    def __init__(
        self, *, threads: int = 16, timeout_s: float = 10.0, look_up: Callable[[str], Resolution] = look_up
    ) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="amble-resolve")
        self._timeout_s = timeout_s
        self._look_up = look_up

    async def resolve(self, host: str) -> Resolution:
        asked = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host)
        try:
            return await asyncio.wait_for(asked, self._timeout_s)
        except TimeoutError:
            if not is_online():
                return Resolution(error=DnsError.LOCAL, detail=OFFLINE)
            return Resolution(error=DnsError.TIMEOUT, detail=f"no answer in {self._timeout_s:g} s")
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return CLOSED

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class RememberingResolver:
    """Another resolver's answers, each remembered for a short while and asked for once by all who wait."""

    def __init__(self, inner: Resolver, *, remember_s: float = 60.0, clock: Clock | None = None) -> None:
        self._inner = inner
        self._remember_s = remember_s
        self._clock = clock or SystemClock()
        self._known: OrderedDict[str, tuple[float, Resolution]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[Resolution]] = {}

    def known(self, host: str) -> Resolution | None:
        known = self._known.get(host)
        return known[1] if known is not None and known[0] > self._clock.monotonic() else None

    async def resolve(self, host: str) -> Resolution:
        known = self.known(host)
        if known is not None:
            return known
        asked = self._asked.get(host)
        if asked is None:
            asked = self._asked[host] = asyncio.create_task(self._ask(host))
        try:
            # Shielded: one visitor who gives up must not take the answer from the others.
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return CLOSED

    async def _ask(self, host: str) -> Resolution:
        try:
            resolution = await self._inner.resolve(host)
            kept_s = self._remember_s if resolution.error is None else min(ERROR_REMEMBERED_S, self._remember_s)
            self._known[host] = (self._clock.monotonic() + kept_s, resolution)
            self._known.move_to_end(host)
            while len(self._known) > REMEMBERED_NAMES_MAX:
                self._known.popitem(last=False)
            return resolution
        finally:
            del self._asked[host]

    def close(self) -> None:
        for asked in list(self._asked.values()):
            asked.cancel()
        self._inner.close()
