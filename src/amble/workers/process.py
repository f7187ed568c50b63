"""The life of a worker: `python -m amble.workers.process`, with a socket to the crawl as its standard input.

It makes the visits it is sent, tells what came of them, and ends as soon as the crawl is gone.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import socket
import time
from functools import partial
from typing import cast

from amble.core.urls import domain_of
from amble.fetcher import Fetcher
from amble.fetcher.calls import awaited
from amble.workers.spacing import Spacing
from amble.workers.visitor import LocalVisitor
from amble.workers.wire import BROKEN, HELLO, SENT, VISITED, Briefing, Frames, Item, frame, pack_visited, unpack_visit

YOUNG_MAX = 20_000  # new objects before Python looks for cyclic garbage: pages are tuples that are gone at once


class Worker(asyncio.Protocol):
    """Lives as long as its connection to the crawl."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._spacing = Spacing()
        self._visitor: LocalVisitor | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._to_say: list[Item] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        os._exit(0)  # nobody is left to tell, so whatever is under way ends here

    def data_received(self, data: bytes) -> None:
        for item in self._frames.feed(data):
            if self._visitor is None:
                self._begin(pickle.loads(item[0]), item[1])
            elif len(item) == 1:
                if (given_up := self._tasks.get(item[0])) is not None:
                    given_up.cancel()
            else:
                task = self._loop.create_task(self._visit(item))
                self._tasks[item[0]] = task

    def _begin(self, briefing: Briefing, places: int) -> None:
        settings = briefing.settings.model_copy(update={"max_total_connections": places})
        fetcher = Fetcher(settings, policy=briefing.policy, resolver=briefing.resolver)
        self._visitor = LocalVisitor(fetcher, briefing.wants)
        self._say((HELLO, os.getpid()))

    async def _visit(self, item: Item) -> None:
        assert self._visitor is not None
        number, (visit, gap_s) = item[0], unpack_visit(item)
        domain = domain_of(visit.url)

        def sent(instant: float) -> None:
            if gap_s > 0:  # else it is early enough to tell it with the answer
                self._spacing.sent(domain, instant)
                self._say((SENT, number, instant))

        try:
            if wait_s := self._spacing.wait_s(domain, gap_s, time.monotonic()):
                await asyncio.sleep(wait_s)
            visited = await awaited(partial(self._visitor.visit, visit, gap_s, sent))
            assert visited is not None
            self._say((VISITED, number, *pack_visited(visited)))
        except Exception as error:  # our own fault, which the crawl raises
            self._say((BROKEN, number, _pickled(error)))
        finally:
            del self._tasks[number]

    def _say(self, item: Item) -> None:
        if not self._to_say:
            self._loop.call_soon(self._write)  # what is settled in one turn of the loop goes out together
        self._to_say.append(item)

    def _write(self) -> None:
        items, self._to_say = self._to_say, []
        self._transport.write(frame(items))


def _pickled(error: Exception) -> bytes:
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # an exception of several arguments may be packed and not unpacked
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return packed


async def _serve(connection: socket.socket) -> None:
    await asyncio.get_running_loop().create_connection(Worker, sock=connection)
    await asyncio.Event().wait()  # `connection_lost` is the end


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop()
    return uvloop.new_event_loop()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the crawl, which ends us in its own time
    gc.freeze()  # what was imported stays
    gc.set_threshold(YOUNG_MAX)
    connection = socket.socket(fileno=os.dup(0))
    connection.setblocking(False)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_serve(connection))


if __name__ == "__main__":
    main()
