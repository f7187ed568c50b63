"""The deadlines libcurl does not keep: headers must be complete in time, a body must keep coming, and be no flood.

One look over all transfers a few times a second, in place of timers for each; libcurl itself keeps the time to connect
and the time in all.
"""

from __future__ import annotations

import asyncio

import pycurl

from amble.clock import Clock
from amble.core.outcome import Failure
from amble.fetcher.curl import Transfer
from amble.fetcher.multi import Finished, Multi
from amble.fetcher.settings import FetcherSettings
from amble.fetcher.slots import Slots

LOOK_EVERY_S_MAX = 0.25
CONNECT_SOON_S = 1.0  # within this whoever is there can be connected to
_TIMED_OUT = Finished(pycurl.E_OPERATION_TIMEDOUT)
_TOO_LARGE = Finished(pycurl.E_FILESIZE_EXCEEDED)


class Deadlines:
    """Watches the transfers under way."""

    def __init__(
        self,
        settings: FetcherSettings,
        multi: Multi[Transfer],
        slots: Slots,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._slots = slots
        self._window_s = settings.min_throughput_window_s
        self._window_bytes_min = settings.min_throughput_bytes_s * settings.min_throughput_window_s
        self._look_every_s = min(LOOK_EVERY_S_MAX, settings.header_timeout_s / 4, self._window_s / 4)
        self._multi = multi
        self._clock = clock
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = 0.0  # when it is to look

    def watch(self) -> None:
        """Something is under way."""
        if self._timer is None:
            self._due_at = self._clock.monotonic() + self._look_every_s
            self._timer = self._loop.call_later(self._look_every_s, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        try:
            self._end_late()
        except Exception as error:
            self._multi.take_fault(error)

    def _end_late(self) -> None:
        now = self._clock.monotonic()
        stood_still_s = now - self._due_at
        for transfer in self._multi.under_way():
            if stood_still_s > self._look_every_s:  # what has come meanwhile may not have been read yet
                transfer.stood_still_s += stood_still_s
            self._see_to_slot(transfer, now)
            late = self._why_late(transfer, now)
            if late is not None:
                transfer.stop(Failure.NETWORK_TIMEOUT, late)
                self._multi.abandon(transfer, _TIMED_OUT)
            elif transfer.headers is not None and transfer.is_flood():
                self._multi.abandon(transfer, _TOO_LARGE)
        if self._multi.under_way():
            self.watch()

    def _see_to_slot(self, transfer: Transfer, now: float) -> None:
        """Who waits long for a connection needs no slot before it has one: most of these connect to nobody."""
        if transfer.aside:
            if transfer.sent_at is not None:
                transfer.aside = False
                self._slots.come_back()
        elif transfer.sent_at is None and now - transfer.prepared_at > CONNECT_SOON_S:
            transfer.aside = self._slots.step_aside()

    def _why_late(self, transfer: Transfer, now: float) -> str | None:
        """Time in which this process did not run is nobody's silence."""
        if transfer.sent_at is None:
            return None
        now -= transfer.stood_still_s
        if transfer.headers is None:
            late = now - transfer.sent_at > transfer.header_timeout_s
            return f"headers not complete after {transfer.header_timeout_s:g} s" if late else None
        if transfer.window_from is None:
            transfer.window_from, transfer.window_bytes = now, transfer.body_bytes
        elif now - transfer.window_from >= self._window_s:
            got = transfer.body_bytes - transfer.window_bytes
            if got < self._window_bytes_min:
                return f"{got} bytes of body in {self._window_s:g} s"
            transfer.window_from, transfer.window_bytes = now, transfer.body_bytes
        return None
