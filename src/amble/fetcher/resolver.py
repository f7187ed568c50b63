"""Names to addresses: asked for once per name however many wait, and remembered for a while. How the system is asked.

`resolver_cares` asks name servers, which is how nearly every name is looked up.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

from amble.clock import Clock, SystemClock
from amble.fetcher.routes import OFFLINE, is_online

REMEMBERED_NAMES_MAX = 20_000
LOCAL_FAULT_REMEMBERED_S = 2.0  # it is no name's: long enough that a thousand queued URLs ask once
ADDRESS_REMEMBERED_MIN_S = 5.0  # a lifetime of 0 is common, and no reason to ask before each request
SYSTEM_THREADS = 16


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
    ttl_s: float | None = None  # how long it may be remembered; None: nobody said


CLOSED = Resolution(error=DnsError.LOCAL, detail="the resolver was closed")


def is_cancelled() -> bool:
    """Whether it is the caller who was cancelled, and not the question it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def no_answer(timeout_s: float) -> Resolution:
    """What there is to say of a name when its time is over."""
    if not is_online():
        return Resolution(error=DnsError.LOCAL, detail=OFFLINE)
    return Resolution(error=DnsError.TIMEOUT, detail=f"no answer in {timeout_s:g} s")


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


@runtime_checkable
class ForgettingResolver(Resolver, Protocol):
    """One that remembers, and can be told not to rely on it."""

    async def resolve_anew(self, host: str) -> Resolution:
        """What is said of the name now, whatever is remembered."""

    def forget_failures(self) -> None:
        """Forget which names had no address: the network was down, perhaps."""


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
    """The system's resolver in a bounded number of threads, so that a slow name never holds the event loop.

    It knows what name servers do not, but a thread is held by each name until it answers.
    """

    def __init__(
        self,
        *,
        threads: int = SYSTEM_THREADS,
        timeout_s: float = 10.0,
        look_up: Callable[[str], Resolution] = look_up,
    ) -> None:
        self._options = (threads, timeout_s, look_up)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="amble-resolve")
        self._timeout_s = timeout_s
        self._look_up = look_up

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets one with threads of its own."""
        return _remake_threaded, self._options

    async def resolve(self, host: str) -> Resolution:
        """Its time runs from when a thread has it, not while so many others are asked for."""
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[Any] = loop.create_future()

        def begin() -> None:
            if not begun.done():
                begun.set_result(None)

        def look_up() -> Resolution:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(begin)
            return self._look_up(host)

        try:
            asked: asyncio.Future[Any] = loop.run_in_executor(self._threads, look_up)
        except RuntimeError:
            return CLOSED
        try:
            await asyncio.wait({asked, begun}, return_when=asyncio.FIRST_COMPLETED)
            found: Resolution = await asyncio.wait_for(asked, self._timeout_s)
            return found
        except TimeoutError:
            return no_answer(self._timeout_s)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return CLOSED
        finally:
            begun.cancel()
            asked.cancel()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _remake_threaded(threads: int, timeout_s: float, look_up: Callable[[str], Resolution]) -> ThreadedResolver:
    return ThreadedResolver(threads=threads, timeout_s=timeout_s, look_up=look_up)


class RememberingResolver:
    """Another resolver's answers, asked for once by all who wait, and remembered.

    An address for its lifetime, where that is known; that there is none until somebody asks anew. Both for
    `remember_s` at most.
    """

    def __init__(self, inner: Resolver, *, remember_s: float = 60.0, clock: Clock | None = None) -> None:
        self._inner = inner
        self._remember_s = remember_s
        self._clock = clock or SystemClock()
        self._known: OrderedDict[str, tuple[float, Resolution]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[Resolution]] = {}
        self._outdated: set[asyncio.Task[Resolution]] = set()  # asked before failures were to be forgotten

    def known(self, host: str) -> Resolution | None:
        known = self._known.get(host)
        return known[1] if known is not None and known[0] > self._clock.monotonic() else None

    async def resolve(self, host: str) -> Resolution:
        return self.known(host) or await self._answer(host, anew=False)

    async def resolve_anew(self, host: str) -> Resolution:
        return await self._answer(host, anew=True)

    def forget_failures(self) -> None:
        """Of what was asked before and is not answered yet, only addresses are remembered."""
        self._known = OrderedDict((host, known) for host, known in self._known.items() if known[1].error is None)
        self._outdated.update(self._asked.values())
        self._asked.clear()
        if isinstance(self._inner, ForgettingResolver):
            self._inner.forget_failures()

    async def _answer(self, host: str, *, anew: bool) -> Resolution:
        asked = self._asked.get(host)
        if asked is None:
            asked = self._asked[host] = asyncio.create_task(self._ask(host, anew=anew))
            asked.add_done_callback(partial(self._ended, host))
        try:
            # Shielded: one visitor who gives up must not take the answer from the others.
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return CLOSED

    async def _ask(self, host: str, *, anew: bool) -> Resolution:
        if anew and isinstance(self._inner, ForgettingResolver):
            resolution = await self._inner.resolve_anew(host)
        else:
            resolution = await self._inner.resolve(host)
        if resolution.error is None or asyncio.current_task() not in self._outdated:
            self._known[host] = (self._clock.monotonic() + self._remembered_s(resolution), resolution)
            self._known.move_to_end(host)
            while len(self._known) > REMEMBERED_NAMES_MAX:
                self._known.popitem(last=False)
        return resolution

    def _remembered_s(self, resolution: Resolution) -> float:
        remembered_s = self._remember_s
        if resolution.error is DnsError.LOCAL:
            remembered_s = LOCAL_FAULT_REMEMBERED_S
        elif resolution.error is None and resolution.ttl_s is not None:
            remembered_s = max(resolution.ttl_s, ADDRESS_REMEMBERED_MIN_S)
        return min(remembered_s, self._remember_s)

    def _ended(self, host: str, asked: asyncio.Task[Resolution]) -> None:
        self._outdated.discard(asked)
        if self._asked.get(host) is asked:
            del self._asked[host]

    def close(self) -> None:
        for asked in (*self._asked.values(), *self._outdated):
            asked.cancel()
        self._inner.close()
