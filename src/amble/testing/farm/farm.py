"""A farm to run: in a thread of this process, or in a process of its own where its work must not count as the client's.

with Farm(demo_web()) as farm:
    ...                                  # crawl farm.roots() with farm.resolver and farm.policy
    assert farm.judge().violations == 0
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Any, Self

from amble.core.addresses import AddressPolicy
from amble.testing.farm.directory import Directory, FarmResolver
from amble.testing.farm.judge import Tolerance, judge
from amble.testing.farm.log import Entry
from amble.testing.farm.report import Report
from amble.testing.farm.server import FarmServer
from amble.testing.farm.site import Site

PATIENCE_S = 120.0  # for a farm to start, answer a question or stop


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one; otherwise a loop that can watch bare sockets."""
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop()
    return uvloop.new_event_loop()


class _Farm(ABC):
    """What a farm offers, wherever it runs."""

    def __init__(self, sites: Iterable[Site], *, port: int = 0) -> None:
        self.directory = Directory(sites)
        self.resolver = FarmResolver(self.directory)
        self.policy = AddressPolicy.of(opened=["127.0.0.0/8"])
        self.port = port

    # --- Life ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def start(self) -> Self:
        """Listen. Returns when requests can be sent."""

    @abstractmethod
    def stop(self) -> None:
        """Close everything. What is left in flight is cut."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # --- Addresses -------------------------------------------------------------------------------------------------

    @property
    def sites(self) -> list[Site]:
        return self.directory.all()

    def url(self, name: str, path: str = "/") -> str:
        return f"http://{name}:{self.port}{path}"

    def roots(self) -> list[str]:
        """The home page of every site."""
        return [self.url(site.name) for site in self.sites]

    def urls(self) -> list[str]:
        """Every page that a complete crawl has got in the end."""
        return [self.url(site.name, path) for site in self.sites for path in site.paths()]

    # --- What happened ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _ask(self, question: str, *arguments: Any) -> Any:
        """Call a method of the server where it runs."""

    def log(self) -> list[Entry]:
        """Every request so far."""
        found: list[Entry] = self._ask("log")
        return found

    def judge(self, tolerance: Tolerance | None = None, *, max_rate: float | None = None) -> Report:
        """What the server's side has to say about the requests so far."""
        return judge(self.log(), self.sites, tolerance or Tolerance(), max_rate=max_rate)

    def clear(self) -> None:
        """Forget the log and all that the hosts remember: the next request is everybody's first."""
        self._ask("clear")

    def replace(self, *sites: Site) -> None:
        """Describe sites anew while they run: their limiters, clocks and memories stay as they are."""
        self.directory.replace(*sites)
        self._ask("replace", *sites)

    def cpu_s(self) -> float:
        """Processor time used by the process that the farm runs in."""
        used: float = self._ask("cpu_s")
        return used

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.sites)} sites on port {self.port}>"


class Farm(_Farm):
    """A farm in a thread, on a loop of its own."""

    _loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> Self:
        self._loop = new_loop()
        self._server = FarmServer(self.sites)
        self._thread = threading.Thread(target=self._loop.run_forever, name="amble-farm", daemon=True)
        self._thread.start()
        try:
            self._on_loop(self._server.start, self._loop, self.port)
        except BaseException:
            self._end_loop(self._loop)
            raise
        self.port = self._server.port
        return self

    def stop(self) -> None:
        if self._loop is None:
            return
        try:
            self._on_loop(self._server.stop)
        finally:
            self._end_loop(self._loop)

    def _end_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(PATIENCE_S)
        loop.close()

    def _ask(self, question: str, *arguments: Any) -> Any:
        method = getattr(self._server, question)
        # After the end nothing moves any more, and the log is still there to be read.
        return self._on_loop(method, *arguments) if self._loop is not None else method(*arguments)

    def _on_loop(self, function: Callable[..., Any], *arguments: Any) -> Any:
        assert self._loop is not None
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(function(*arguments))
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(PATIENCE_S)


class FarmProcess(_Farm):
    """A farm in a process of its own, for benchmarks: the client's processor time stays the client's.

    The sites are sent to it, so their limits must be made of what `limits` builds. It ends with its parent.
    """

    _pipe: Pipe | None = None
    _last_log: Sequence[Entry] = ()

    def start(self) -> Self:
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads, loops and sockets in use
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.sites, self.port), daemon=True)
        self._process.start()
        theirs.close()
        self.port = self._hear()
        return self

    def stop(self) -> None:
        if self._pipe is None:
            return
        self._last_log = self._ask("log")
        self._pipe.close()  # the end of the pipe is the end of the farm
        self._pipe = None
        self._process.join(PATIENCE_S)
        self._process.close()

    def log(self) -> list[Entry]:
        return list(self._last_log) if self._pipe is None else super().log()

    def _ask(self, question: str, *arguments: Any) -> Any:
        assert self._pipe is not None
        self._pipe.send((question, arguments))
        return self._hear()

    def _hear(self) -> Any:
        assert self._pipe is not None
        if not self._pipe.poll(PATIENCE_S):
            raise TimeoutError("the farm's process does not answer")
        answer = self._pipe.recv()
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _serve(pipe: Pipe, sites: Sequence[Site], port: int) -> None:
    """The life of a farm's process: questions come through the pipe, and its end is the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe in its own time
    _raise_file_limit()
    farm = Farm(sites, port=port)
    try:
        pipe.send(farm.start().port)
        while True:
            question, arguments = pipe.recv()
            pipe.send(farm._ask(question, *arguments))
    except EOFError:
        farm.stop()
    except Exception as error:
        pipe.send(error)


def _raise_file_limit() -> None:
    """As many descriptors as the system lets us have: ten thousand hosts are as many connections."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
