"""One worker as the crawl sees it: a process at the other end of a socket, and the visits it has in hand."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

from amble.fetcher.calls import Cancel, OnDone
from amble.spare_memory import SPARE
from amble.workers.errand import Errand, OnSent, Visited
from amble.workers.frames import Frames, Item, pieces
from amble.workers.wire import BROKEN, FORGET_FAILURES, GIVE_UP, HELLO, SEEN, SENT, pack_errand, unpack_visited

PATIENCE_S = 60.0  # beyond the time that a request may take: for what is read from it, and for a busy machine
LOOK_EVERY_S = 5.0
END_WAIT_S = 5.0
ANSWERS_BYTES = 1 << 20  # what a worker can have said before it is listened to; the system may allow less


class _InHand(NamedTuple):
    on_sent: OnSent
    on_done: OnDone[Visited]
    due_at: float  # answered by then, or the process hangs


class Child(asyncio.BufferedProtocol):
    """`on_ready` when it can be given visits, `on_gone` when it ends without having been told to."""

    def __init__(self, timeout_s: float, on_ready: Callable[[Child], None], on_gone: Callable[[Child], None]) -> None:
        self.ready = False
        self.pid = -1
        self.lost = 0  # visits that it had in hand when it died
        self._timeout_s = timeout_s
        self._on_ready = on_ready
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._in_hand: dict[int, _InHand] = {}
        self._number = 0
        self._to_say: list[Item] = []
        self._closing = False

    async def start(self, briefing: bytes) -> None:
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ANSWERS_BYTES)
        with theirs:
            try:
                self._process = _spawn(theirs.fileno())
            except BaseException:
                ours.close()
                raise
        self.pid = self._process.pid
        ours.setblocking(False)
        await self._loop.create_connection(lambda: self, sock=ours)
        self._say((briefing,))

    # -- visits

    @property
    def load(self) -> int:
        """How many visits it has in hand."""
        return len(self._in_hand)

    def visit(self, errand: Errand, gap_s: float, on_sent: OnSent, on_done: OnDone[Visited]) -> Cancel:
        """Done without an error and without a result: it died with it."""
        self._number += 1
        number, due_at = self._number, self._loop.time() + gap_s + self._timeout_s + PATIENCE_S
        self._in_hand[number] = _InHand(on_sent, on_done, due_at)
        self._say(pack_errand(number, errand, gap_s))
        return partial(self._cancel, number)

    def _cancel(self, number: int) -> None:
        held = self._in_hand.pop(number, None)
        if held is not None:
            self._say((GIVE_UP, number))
            held.on_done(None, asyncio.CancelledError())

    def tell_seen(self, urls: Sequence[str]) -> None:
        """It need not name these again."""
        self._say((SEEN, urls))

    def forget_failures(self) -> None:
        """The network is back: what names it found without an address is to be looked up anew."""
        self._say((FORGET_FAILURES,))

    def _look(self) -> None:
        """A process that hangs, or was stopped by somebody, holds up its domains: it is ended, and another begins."""
        self._watch = self._loop.call_later(LOOK_EVERY_S, self._look)
        oldest = next(iter(self._in_hand.values()), None)
        if oldest is not None and oldest.due_at < self._loop.time():
            self._process.kill()

    # -- the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._watch = self._loop.call_later(LOOK_EVERY_S, self._look)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        for item in self._frames.arrived(nbytes):
            if item[0] == HELLO:
                self.ready, self.pid = True, item[1]
                self._on_ready(self)
            elif item[0] == SENT:
                if (held := self._in_hand.get(item[1])) is not None:
                    held.on_sent(item[2])
            elif (held := self._in_hand.pop(item[1], None)) is not None:
                self._answer(held, item)

    def _answer(self, held: _InHand, item: Item) -> None:
        if item[0] == BROKEN:
            held.on_done(None, pickle.loads(item[2]))
            return
        visited = unpack_visited(item[2], item[3])
        if visited.result.started_at is not None:
            held.on_sent(visited.result.started_at)
        held.on_done(visited, None)

    def connection_lost(self, error: Exception | None) -> None:
        self.ready = False
        self._watch.cancel()
        held, self._in_hand = self._in_hand, {}
        self.lost = len(held)
        for each in held.values():
            each.on_done(None, None)
        if not self._closing:
            self._process.kill()  # should it live on without us, it would have nobody to tell
            self._on_gone(self)

    def _say(self, item: Item) -> None:
        if not self._to_say:
            self._loop.call_soon(self._write)
        self._to_say.append(item)

    def _write(self) -> None:
        items, self._to_say = self._to_say, []
        if not self._transport.is_closing():
            self._transport.writelines(pieces(items))

    # -- the end

    def close(self) -> None:
        """It ends at once, with whatever it has in hand."""
        self._closing = True
        self._transport.abort()

    async def gone(self) -> str:
        """Wait until the process is no more. Returns what became of it."""
        try:
            status = await asyncio.to_thread(self._process.wait, END_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = await asyncio.to_thread(self._process.wait)
        return f"was killed by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _spawn(descriptor: int) -> subprocess.Popen[bytes]:
    with SPARE.as_usual():
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "amble.workers.process"],
            stdin=descriptor,
            stdout=subprocess.DEVNULL,  # data goes to standard output, and it has none
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            process_group=0,  # a Ctrl-C is for the crawl, which lets it finish what is under way
        )
