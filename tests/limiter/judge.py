"""A server for stress tests in real time: it writes down what was done to it, from any thread, and then judges."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from amble import Limiter
from amble.limiter import IssuedPermit


class Block(NamedTuple):
    """Known to the limiter from `known_at`, over at `until`."""

    known_at: float
    until: float


class StressServer:
    """Serves any number of domains; some answers are 429 with a Retry-After of one second, some are errors."""

    def __init__(self, limiter: Limiter, *, delay_s: float, parallel: int, limited_share: float) -> None:
        self.limiter = limiter
        self.delay_s = delay_s
        self.parallel = parallel
        self.limited_share = limited_share
        self.dice = random.Random(11)
        self.starts: defaultdict[str, list[float]] = defaultdict(list)
        self.blocks: defaultdict[str, list[Block]] = defaultdict(list)
        self.most_at_once = 0
        self.answered = 0
        self._flying: defaultdict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    def begin(self, permit: IssuedPermit) -> None:
        """The request arrives."""
        with self._lock:
            self.starts[permit.domain].append(permit.sent_at)
            self._flying[permit.domain] += 1
            self.most_at_once = max(self.most_at_once, self._flying[permit.domain])

    def answer(self, permit: IssuedPermit) -> None:
        """The answer goes back and is settled."""
        with self._lock:
            self._flying[permit.domain] -= 1
            self.answered += 1
            draw = self.dice.random()
        if draw < self.limited_share:
            told_at = time.monotonic()
            permit.settle(status=429, headers={"Retry-After": "1"})
            with self._lock:
                self.blocks[permit.domain].append(Block(time.monotonic(), told_at + 1.0))
        elif draw > 0.98:
            permit.settle(error=ConnectionResetError())
        else:
            permit.settle(status=200)

    def judge(self, requests: int) -> None:
        """Spacing, caps, blocks, and nothing lost."""
        snapshot = self.limiter.snapshot()
        assert self.answered == requests == snapshot.requests
        assert snapshot.successes + snapshot.limited + snapshot.failures == requests
        assert (snapshot.in_flight, snapshot.waiting, snapshot.lost) == (0, 0, 0)
        assert self.most_at_once <= self.parallel
        for starts in self.starts.values():
            assert all(later - earlier >= self.delay_s - 1e-9 for earlier, later in pairwise(sorted(starts)))
        for domain, blocks in self.blocks.items():
            for block in blocks:
                inside = [at for at in self.starts[domain] if block.known_at < at < block.until]
                assert not inside, f"{len(inside)} sent to {domain} inside a block"
