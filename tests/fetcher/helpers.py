"""What the tests of the fetcher share: names that lead where a test wants, and a fetcher that may go there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from amble.core.addresses import AddressPolicy
from amble.fetcher import Fetcher, FetcherSettings, Resolution
from amble.fetcher.resolver import DnsError, Resolver

LOOPBACK = "127.0.0.1"
LOOPBACK_OPEN = AddressPolicy.of(opened=["127.0.0.0/8", "::1/128"])


class Names:
    """A resolver with a script: for each name, the answers in the order of the questions; the last one stays."""

    def __init__(self, answers: dict[str, list[list[str]]] | None = None, default: str | None = LOOPBACK) -> None:
        self._answers = answers or {}
        self._default = default
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Resolution:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is not None:
            addresses = answers.pop(0) if len(answers) > 1 else answers[0]
            return Resolution(tuple(addresses))
        if self._default is None:
            return Resolution(error=DnsError.NO_SUCH_NAME, detail="no such name")
        return Resolution((self._default,))

    def close(self) -> None:
        pass


def fetcher(*, resolver: Resolver | None = None, policy: AddressPolicy = LOOPBACK_OPEN, **settings: Any) -> Fetcher:
    """A fetcher with short deadlines that may connect to loopback."""
    wanted = {"http_timeout": 5.0, "connect_timeout_s": 2.0, "header_timeout_s": 2.0, **settings}
    return Fetcher(FetcherSettings(**wanted), policy=policy, resolver=resolver or Names())


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    """Wait for something that another task brings about."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - sockets close without telling anyone
            await asyncio.sleep(0.005)


def open_sockets() -> set[str]:
    """The sockets this process holds."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found
