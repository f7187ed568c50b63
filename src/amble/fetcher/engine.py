"""What one event loop needs to run transfers: libcurl's multi, the deadlines, easy handles to use again, free slots."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import get_ident

from amble.clock import Clock
from amble.core.outcome import Failure
from amble.fetcher.calls import Cancel, OnDone
from amble.fetcher.curl import Transfer
from amble.fetcher.deadlines import Deadlines
from amble.fetcher.descriptors import room_for
from amble.fetcher.guard import Route
from amble.fetcher.kept import KeptConnections, Place, peer_of
from amble.fetcher.multi import Finished, Multi
from amble.fetcher.request import FetchRequest
from amble.fetcher.result import FetchResult
from amble.fetcher.sessions import TlsSessions
from amble.fetcher.settings import FetcherSettings
from amble.fetcher.slots import Slots
from amble.fetcher.verdict import read_result

_CLOSED = Finished(-1, "the fetcher was closed")


class Engine:
    """Runs transfers on one event loop: no more at once than there are slots, and those that wait long to connect."""

    def __init__(self, settings: FetcherSettings, ca_file: str, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = get_ident()
        self._settings = settings
        self._ca_file = ca_file
        self._clock = clock
        room = room_for(settings.max_total_connections, settings.max_kept_connections)
        self.slots = Slots(room.places, loop, aside_max=room.aside)
        # libcurl counts those in use, too, when one becomes idle; after that every place may open one more.
        connections_max = room.kept + min(room.places, room.aside)
        self._kept = KeptConnections(connections_max, self._end_idle)
        self._sessions = TlsSessions()
        self._multi = Multi[Transfer](loop, clock, connections_max, self._finished, self._kept.stirred)
        self._deadlines = Deadlines(settings, self._multi, self.slots, clock, loop)
        self._idle: dict[str, Transfer] = {}  # by the key of their pin: to serve the same host again costs least
        self._spare: list[Transfer] = []  # further ones

    def is_here(self) -> bool:
        """Whether its loop is the running one, said without a call of the kernel, which Python 3.11 makes for it."""
        return self._thread == get_ident() and self._loop.is_running()

    def start(
        self,
        request: FetchRequest,
        url: str,
        route: Route,
        began: float,
        on_done: OnDone[FetchResult],
        *,
        left_s: float | None = None,
    ) -> Cancel:
        """One transfer, from connecting to its result, in what is left of its time (None: all of it). Takes no slot:
        whoever calls this has one."""
        transfer = self._take_out(route.pin.key)
        kept = self._kept
        keeps_none = kept.any_broke and kept.keeps_none(peer_of(url, route.pin, route.proxy))
        transfer.prepare(request, url, route, left_s, keeps_none)
        transfer.began, transfer.on_done = began, on_done
        self._multi.start(transfer)
        self._deadlines.watch()
        return partial(self._cancel, transfer, on_done)

    def _finished(self, transfer: Transfer, finished: Finished) -> None:
        on_done, error, result = transfer.on_done, transfer.error, None
        if error is None:
            try:
                if transfer.unusable is not None and transfer.stopped is None:
                    transfer.choose_anew()
                    self._multi.start(transfer)
                    return
                now = self._clock.monotonic()
                result = self._learn(transfer, read_result(transfer, finished, now), now)
            except Exception as fault:  # our own, which whoever waits is told
                error = fault
        self._put_away(transfer)
        on_done(result, error)

    def _learn(self, transfer: Transfer, result: FetchResult, now: float) -> FetchResult:
        """What the end of a transfer says about its connection."""
        kept, place = self._kept, transfer.place
        if place is None:
            return result
        is_http2 = transfer.http_version == "2"
        if result.failure is None and not result.truncated:
            transfer.place = None
            kept.leave(place, result.headers, now, is_http2=is_http2)
            if kept.any_broke and result.reused:
                kept.held(transfer.peer)
        elif result.stale:
            kept.broke(transfer.peer, place)
        elif result.failure is Failure.NETWORK_TIMEOUT:
            if transfer.may_share:
                transfer.avoid_silent()
            return result._replace(repeated=kept.time_out(place))
        return result

    def _end_idle(self, place: Place) -> None:
        self._multi.end_idle(place)

    def _cancel(self, transfer: Transfer, on_done: OnDone[FetchResult]) -> None:
        if transfer.on_done is on_done:  # else it has ended, and the handle may serve another
            self._multi.drop(transfer)
            self._put_away(transfer)
            on_done(None, asyncio.CancelledError())

    def _put_away(self, transfer: Transfer) -> None:
        if transfer.place is not None:
            self._kept.leave(transfer.place, None, 0.0, is_http2=False)
            transfer.place = None
        if transfer.aside:
            self.slots.come_back()
        transfer.let_go()
        if self._idle.setdefault(transfer.pin.key, transfer) is not transfer:
            self._spare.append(transfer)

    def _take_out(self, key: str) -> Transfer:
        """A handle that is idle: rather one that served this host, else a spare one, else that of another host."""
        transfer = self._idle.pop(key, None)
        if transfer is not None:
            return transfer
        if self._spare:
            return self._spare.pop()
        return self._idle.popitem()[1] if self._idle else self._new_transfer()

    def _new_transfer(self) -> Transfer:
        return Transfer(self._settings, self._ca_file, self._multi, self._clock, self._kept, self._sessions)

    def close(self) -> None:
        for transfer in self._multi.under_way():
            transfer.stop(Failure.CANCELLED, _CLOSED.message, final=True)
        self._deadlines.close()
        self._multi.close(_CLOSED)
        self._idle.clear()
        self._spare.clear()
