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
from collections.abc import Iterable
from functools import partial
from typing import cast

from amble.collecting import YOUNG_MAX
from amble.core.urls import domain_of
from amble.fetcher import Fetcher
from amble.fetcher.calls import Cancel
from amble.workers.errand import Errand, Errands, OnSent, Visited
from amble.workers.frames import Frames, Item, pieces
from amble.workers.spacing import Spacing
from amble.workers.wire import (
    BROKEN,
    FORGET_FAILURES,
    HELLO,
    RUN,
    SEEN,
    SENT,
    VISITED,
    Briefing,
    pack_visited,
    unpack_errand,
)

SEEN_MAX = 200_000  # some 20 MB
GATHER_MAX = 32  # answers said at once
GATHER_S = 0.02  # that one waits for others, at most
NICENESS = 5  # the crawl that feeds us and stores comes first, or all would wait for it


class Worker(asyncio.BufferedProtocol):
    """Lives as long as its connection to the crawl."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._spacing = Spacing()
        # What the crawl is known to have seen, by hash as there: links to it need not be sent one by one.
        self._seen: set[int] = set()
        self._errands: Errands | None = None
        self._under_way: dict[int, Cancel] = {}
        self._to_say: list[Item] = []
        self._alarm: asyncio.TimerHandle | None = None  # when it is said at the latest

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        os._exit(0)  # nobody is left to tell, so whatever is under way ends here

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        for item in self._frames.arrived(nbytes):
            if self._errands is None:
                self._begin(pickle.loads(item[0]))
            elif item[0] == RUN:
                self._take(item[1], *unpack_errand(item))
            elif item[0] == SEEN:
                self._heard_seen(item[1])
            elif item[0] == FORGET_FAILURES:
                self._fetcher.forget_failures()
            elif (given_up := self._under_way.pop(item[1], None)) is not None:
                given_up()

    def _begin(self, briefing: Briefing) -> None:
        self._fetcher = Fetcher(briefing.settings, policy=briefing.policy, resolver=briefing.resolver)
        self._errands = Errands(self._fetcher, briefing.wants)
        self._say((HELLO, os.getpid()))

    def _take(self, number: int, errand: Errand, gap_s: float) -> None:
        if gap_s <= 0:
            self._run(number, errand, _unheeded)  # when it was sent is early enough told with the answer
            return
        domain = domain_of(errand.url)
        wait_s = self._spacing.wait_s(domain, gap_s, time.monotonic())
        sent = partial(self._sent, number, domain)
        if wait_s > 0:
            self._under_way[number] = self._loop.call_later(wait_s, self._run, number, errand, sent).cancel
        else:
            self._run(number, errand, sent)

    def _run(self, number: int, errand: Errand, sent: OnSent) -> None:
        assert self._errands is not None
        try:
            self._under_way[number] = self._errands.run(errand, sent, partial(self._done, number))
        except Exception as error:  # our own fault, which the crawl raises
            self._done(number, None, error)

    def _heard_seen(self, urls: Iterable[str]) -> None:
        if len(self._seen) >= SEEN_MAX:
            self._seen.clear()  # what is linked often is heard of again
        self._seen.update(map(hash, urls))

    def _sent(self, number: int, domain: str, instant: float) -> None:
        self._spacing.sent(domain, instant)
        self._say((SENT, number, instant))

    def _done(self, number: int, visited: Visited | None, error: BaseException | None) -> None:
        if self._under_way.pop(number, None) is None and isinstance(error, asyncio.CancelledError):
            return  # the crawl itself gave it up
        if visited is not None:
            self._answer((VISITED, number, *pack_visited(visited, self._seen)))
        else:
            self._answer((BROKEN, number, _pickled(error)))

    def _answer(self, item: Item) -> None:
        """Say it soon, with others: to be listened to costs the crawl and this process more than an answer does."""
        if not self._to_say:
            self._alarm = self._loop.call_later(GATHER_S, self._write)
        self._to_say.append(item)
        if is_enough(len(self._to_say), len(self._under_way)):
            self._write()

    def _say(self, item: Item) -> None:
        self._to_say.append(item)
        self._write()

    def _write(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        items, self._to_say = self._to_say, []
        self._transport.writelines(pieces(items))


def is_enough(answers: int, under_way: int) -> bool:
    """Whether so many answers go out while so much is under way: few wait for few."""
    return answers >= min(GATHER_MAX, under_way)


def _unheeded(instant: float) -> None:
    """Nobody has to be told."""


def _pickled(error: BaseException | None) -> bytes:
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
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the crawl, which ends us in its own time
    gc.freeze()  # what was imported stays
    gc.set_threshold(YOUNG_MAX)
    connection = socket.socket(fileno=os.dup(0))
    connection.setblocking(False)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_serve(connection))


if __name__ == "__main__":
    main()
