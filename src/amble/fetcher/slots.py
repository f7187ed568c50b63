"""Room for so many transfers at once. Whoever waits for it waits before any clock of libcurl's runs."""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """A transfer that waits in vain for its connection steps aside, so that others are not kept from theirs."""

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop, *, aside_max: int = 0) -> None:
        self._free = size  # less than none where those that had stepped aside came back
        self._aside_left = aside_max
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_now(self) -> bool:
        """Take a slot if one is free."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Wait for a slot, in the order of asking."""
        turn = self._loop.create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()  # the turn had come just before we were cancelled
            raise

    def give_back(self) -> None:
        self._free += 1
        while self._free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._free -= 1
                turn.set_result(None)

    def step_aside(self) -> bool:
        """Leave the slot to others for now, if not too many have done so."""
        if self._aside_left <= 0:
            return False
        self._aside_left -= 1
        self.give_back()
        return True

    def come_back(self) -> None:
        """Hold a slot again, be there one or not: the connection has come about, or the transfer is over."""
        self._aside_left += 1
        self._free -= 1
