"""What libcurl, the resolver and the deadlines are told under given settings."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pycurl

from amble.assemble import address_policy
from amble.clock import SystemClock
from amble.core.addresses import AddressPolicy
from amble.fetcher import Fetcher
from amble.fetcher.curl import Transfer
from amble.fetcher.deadlines import Deadlines
from amble.fetcher.descriptors import room_for
from amble.fetcher.kept import KeptConnections
from amble.fetcher.multi import Multi
from amble.fetcher.sessions import TlsSessions
from amble.fetcher.slots import Slots
from amble.settings import Settings
from amble.workers.pool import threads_of


class Recording:
    """A handle that notes what it is told."""

    def __init__(self) -> None:
        self.told: dict[int, Any] = {}

    def setopt(self, option: int, value: Any) -> None:
        self.told[option] = value if isinstance(value, int | str | list) else None


def told_to_curl(settings: Settings) -> dict[int, Any]:
    with patch.object(pycurl, "Curl", Recording):
        ca_file, kept = settings.fetching.ca_file or "ca", KeptConnections(1, lambda place: None)
        easy: Any = Transfer(settings.fetching, ca_file, None, SystemClock(), kept, TlsSessions()).easy  # type: ignore[arg-type]
    assert isinstance(easy, Recording)
    return easy.told


def judged_private(settings: Settings) -> Any:
    """What the policy of a job says of an address that nobody typed."""
    return address_policy(settings).check("localhost", 8000, ["127.0.0.1"])


def told_to_resolver(settings: Settings) -> tuple[Any, ...]:
    resolver: Any = Fetcher(settings.fetching, policy=AddressPolicy())._resolver
    try:
        return resolver._remember_s, resolver._inner._timeout_s, resolver._inner._at_once_max
    finally:
        resolver.close()


def kept(settings: Settings) -> int:
    return room_for(settings.fetching.max_total_connections, settings.fetching.max_kept_connections).kept


def processes(settings: Settings) -> int:
    return threads_of(settings.fetching)


def judged_late(settings: Settings) -> list[str | None]:
    """A transfer whose headers never come, and one whose body drips: 40 bytes a second."""

    class Transferred:
        def __init__(self, headers: object) -> None:
            self.sent_at, self.headers, self.window_from, self.window_bytes, self.body_bytes = 0.0, headers, None, 0, 0
            self.stood_still_s = 0.0
            self.header_timeout_s = settings.fetching.header_timeout_s  # as of a request that brings none of its own

    loop = asyncio.new_event_loop()
    try:
        multi: Multi[Transfer] = None  # type: ignore[assignment]
        deadlines = Deadlines(settings.fetching, multi, Slots(1, loop), SystemClock(), loop)
        silent: Any = Transferred(None)
        dripping: Any = Transferred(())
        told = []
        for now in range(30):
            dripping.body_bytes = 40 * now
            told += [deadlines._why_late(silent, float(now)), deadlines._why_late(dripping, float(now))]
        return told
    finally:
        loop.close()
