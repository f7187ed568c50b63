"""What the limiter costs: processor time per permit beside other limiters, and memory of 10^5 domains.

`python -m bench.limiter_cost`. All run in one process, in turn, and the least of several rounds is kept, so that a busy
machine disturbs all alike. The others only count; amble also takes in the answer, learns from it and can be asked why.
Their limits are set so high that nobody ever waits. amble's clock is moved on for it, for the same reason.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from amble import Limiter, PacingSettings
from amble.core.answer import Answer
from amble.core.pacing.permit import Permit
from amble.core.pacing.registry import Registry

CALLS = 20_000
ROUNDS = 7
DOMAINS = 100_000
TARGET_US = 6.0
TARGET_MB = 60.0

URL = "https://www.example.com/catalog/section-7/item-4711?lang=en"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
HEADERS = {
    "Date": "Mon, 01 Jan 2024 12:00:00 GMT",
    "Server": "nginx",
    "Content-Type": "text/html; charset=utf-8",
    "Content-Length": "20480",
    "Connection": "keep-alive",
    "Cache-Control": "max-age=600",
    "ETag": '"5f3c-1a2b"',
    "Last-Modified": "Sun, 31 Dec 2023 08:00:00 GMT",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "Strict-Transport-Security": "max-age=63072000",
    "Accept-Ranges": "bytes",
}

Loop = Callable[[int], Awaitable[None]]  # does a thing so many times


class FastClock:
    """Each look at it is later, so that nobody ever waits. As cheap as the machine's own."""

    def __init__(self, step_s: float = 1.0) -> None:
        self._now = 1_000.0
        self._step_s = step_s

    def monotonic(self) -> float:
        self._now += self._step_s
        return self._now

    def utc(self) -> datetime:
        return NOON


# -- amble


def core(settings: PacingSettings) -> Loop:
    pace = Registry(settings, random.random).pace("www.example.com", 0.0, NOON)
    answer = Answer(status=200, elapsed_s=0.1)
    now = 0.0

    async def loop(count: int) -> None:
        nonlocal now
        reserve, settle = pace.reserve, pace.settle
        for _ in range(count):
            now += 1.0
            permit = reserve(now)
            assert isinstance(permit, Permit)
            settle(permit, answer, now + 0.1)

    return loop


def tried(headers: dict[str, str] | None) -> Loop:
    limiter = Limiter(clock=FastClock(), max_rate=None)

    async def loop(count: int) -> None:
        for _ in range(count):
            permit = limiter.try_permit(URL)
            assert permit is not None
            permit.settle(status=200, headers=headers, elapsed_s=0.1)

    return loop


def entered() -> Loop:
    limiter = Limiter(clock=FastClock(), max_rate=None)

    async def loop(count: int) -> None:
        for _ in range(count):
            async with limiter.permit(URL) as permit:
                permit.settle(status=200, elapsed_s=0.1)

    return loop


# -- the others


def aiolimiter_acquire() -> Loop:
    from aiolimiter import AsyncLimiter

    limiter = AsyncLimiter(1e9, 1)

    async def loop(count: int) -> None:
        for _ in range(count):
            await limiter.acquire()

    return loop


def pyrate_acquire() -> Loop:
    from pyrate_limiter import GCRA, Rate, StateBucket
    from pyrate_limiter import Limiter as PyrateLimiter

    limiter = PyrateLimiter(StateBucket([Rate(1_000_000, 1_000)], GCRA()))

    async def loop(count: int) -> None:
        for _ in range(count):
            assert limiter.try_acquire("www.example.com", blocking=False)

    return loop


def limits_hit() -> Loop:
    from limits import parse
    from limits.storage import MemoryStorage
    from limits.strategies import FixedWindowRateLimiter

    limiter, item = FixedWindowRateLimiter(MemoryStorage()), parse("100000000/second")

    async def loop(count: int) -> None:
        for _ in range(count):
            assert limiter.hit(item, "www.example.com")

    return loop


def throttled_limit() -> Loop:
    from throttled import Throttled, per_sec

    limiter = Throttled(using="gcra", quota=per_sec(1_000_000, burst=1_000_000))

    async def loop(count: int) -> None:
        for _ in range(count):
            assert not limiter.limit("www.example.com").limited

    return loop


CONTESTANTS: dict[str, Callable[[], Loop]] = {
    "amble core: reserve + settle, gauge": lambda: core(PacingSettings(max_rate=None)),
    "amble core: reserve + settle, linear": lambda: core(PacingSettings(max_rate=None, pacing="linear")),
    "amble core: reserve + settle, fixed": lambda: core(PacingSettings(max_rate=None, pacing="fixed")),
    "amble Limiter: try_permit + settle": lambda: tried(None),
    "amble Limiter: the same with 12 headers": lambda: tried(HEADERS),
    "amble Limiter: async with permit + settle": entered,
    "aiolimiter: acquire": aiolimiter_acquire,
    "pyrate-limiter: try_acquire (GCRA)": pyrate_acquire,
    "limits: hit (fixed window)": limits_hit,
    "throttled-py: limit (GCRA)": throttled_limit,
}
YARDSTICK = "aiolimiter: acquire"


async def processor_time(calls: int = CALLS, rounds: int = ROUNDS) -> dict[str, float]:
    """Microseconds per permit, the least of several rounds."""
    loops = {name: make() for name, make in CONTESTANTS.items()}
    least = dict.fromkeys(loops, float("inf"))
    for _ in range(rounds):
        for name, loop in loops.items():
            began = time.process_time()
            await loop(calls)
            least[name] = min(least[name], 1e6 * (time.process_time() - began) / calls)
    return least


# -- memory, each measurement in a process of its own


def fill(domains: int, *, limited: bool) -> Limiter:
    """A limiter that knows so many domains, each asked four times a minute; `limited`: each met one 429."""
    limiter = Limiter(clock=FastClock(60 / domains), max_rate=None, domain_state_ttl=86_400)
    statuses = (200, 429, 200, 200) if limited else (200, 200, 200, 200)
    for status in statuses:
        for number in range(domains):
            permit = limiter.try_permit(f"https://www.site-{number}.example/")
            assert permit is not None
            permit.settle(status=status, elapsed_s=0.1)
    assert limiter.snapshot(top=0).domains_known == domains
    return limiter


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure_here(kind: str, limited: bool, domains: int) -> int:
    """Bytes that the domains take in this process."""
    fill(100, limited=limited)  # everything is imported and cached before the count begins
    if kind == "tracemalloc":
        tracemalloc.start()
        known = [fill(domains, limited=limited)]
        return tracemalloc.get_traced_memory()[0] * len(known)
    before = rss_bytes()
    known = [fill(domains, limited=limited)]
    return (rss_bytes() - before) * len(known)


def measure(kind: str, limited: bool, domains: int = DOMAINS) -> float:
    """Megabytes that the domains take, in a fresh process."""
    command = [sys.executable, "-m", "bench.limiter_cost", kind, str(int(limited)), str(domains)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout) / 1e6


# -- the tables


def print_processor_time() -> None:
    least = asyncio.run(processor_time())
    print(f"processor time per permit, least of {ROUNDS} rounds of {CALLS} calls, one known domain")
    for name, cost_us in least.items():
        target = f"   target {TARGET_US:.0f} us" if "gauge" in name else ""
        print(f"  {name:<44}{cost_us:7.2f} us   {cost_us / least[YARDSTICK]:5.2f} x aiolimiter{target}")


def print_memory() -> None:
    print(f"memory of {DOMAINS} domains in one Limiter, four answers each, in a fresh process")
    for limited, story in ((False, "never limited"), (True, "each limited once")):
        for kind in ("tracemalloc", "rss"):
            taken = measure(kind, limited)
            each = 1e6 * taken / DOMAINS
            target = f"   target {TARGET_MB:.0f} MB" if not limited else ""
            print(f"  {story + ', ' + kind:<44}{taken:7.1f} MB   {each:5.0f} bytes each{target}")


def main() -> None:
    print_processor_time()
    print_memory()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(measure_here(sys.argv[1], bool(int(sys.argv[2])), int(sys.argv[3])))
    else:
        main()
