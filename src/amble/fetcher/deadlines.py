"""The deadlines libcurl does not keep: headers must be complete in time, and a body must keep coming.

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

LOOK_EVERY_S_MAX = 0.25
_TIMED_OUT = Finished(pycurl.E_OPERATION_TIMEDOUT)


class Deadlines:
    """Watches the transfers under way."""

    def __init__(
        self, settings: FetcherSettings, multi: Multi[Transfer], clock: Clock, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._header_timeout_s = settings.header_timeout_s
        self._window_s = settings.min_throughput_window_s
        self._window_bytes_min = settings.min_throughput_bytes_s * settings.min_throughput_window_s
        self._look_every_s = min(LOOK_EVERY_S_MAX, self._header_timeout_s / 4, self._window_s / 4)
        self._multi = multi
        self._clock = clock
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Something is under way."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._look_every_s, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for transfer in self._multi.under_way():
            late = self._why_late(transfer, now)
            if late is not None:
                transfer.stop(Failure.NETWORK_TIMEOUT, late)
                self._multi.abandon(transfer, _TIMED_OUT)
        if self._multi.under_way():
            self.watch()

    def _why_late(self, transfer: Transfer, now: float) -> str | None:
        if transfer.sent_at is None:
            return None
        if transfer.headers is None:
            late = now - transfer.sent_at > self._header_timeout_s
            return f"headers not complete after {self._header_timeout_s:g} s" if late else None
        if transfer.window_from is None:
            transfer.window_from, transfer.window_bytes = now, transfer.body_bytes
        elif now - transfer.window_from >= self._window_s:
            got = transfer.body_bytes - transfer.window_bytes
            if got < self._window_bytes_min:
                return f"{got} bytes of body in {self._window_s:g} s"
            transfer.window_from, transfer.window_bytes = now, transfer.body_bytes
        return None
