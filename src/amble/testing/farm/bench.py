"""How fast the farm itself is, so that a benchmark made with it can be trusted not to measure the farm."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import NamedTuple

from amble.testing.farm.farm import FarmProcess, new_loop
from amble.testing.farm.site import Site
from amble.testing.farm.webs import many_hosts, throughput

AT_ONCE = 32


class Speed(NamedTuple):
    """What one run of a bare client found."""

    requests: int
    wall_s: float
    farm_cpu_s: float

    def __str__(self) -> str:
        return (
            f"{self.requests / self.wall_s:>9,.0f} requests/s by the clock, "
            f"{self.requests / self.farm_cpu_s:>9,.0f} per CPU-second of the farm"
        )


async def _fetch_all(port: int, targets: list[tuple[str, str]]) -> int:
    """Ask for every page, over a few connections that stay open; the body is read and thrown away."""
    waiting, done = iter(targets), 0

    async def client() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        for name, path in waiting:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {name}:{port}\r\nUser-Agent: bench\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            done += head.startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return done


def measure(sites: list[Site], times: int = 1) -> Speed:
    """Fetch every page of these sites so many times, from a farm in a process of its own."""
    targets = [(site.name, path) for site in sites for path in site.paths()] * times
    with FarmProcess(sites) as farm, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_fetch_all(farm.port, targets[:AT_ONCE]))  # so that nothing is imported or rendered within the count
        cpu_s, began = farm.cpu_s(), time.monotonic()
        done = runner.run(_fetch_all(farm.port, targets))
        return Speed(done, time.monotonic() - began, farm.cpu_s() - cpu_s)


def bench() -> Iterator[str]:
    yield f"1 host x 5000 pages of 20 KB   {measure(throughput(), 4)}"
    yield f"200 hosts x 25 pages of 20 KB  {measure(many_hosts(), 4)}"
    yield f"1 host x 5000 pages of 5 KB    {measure(throughput(size_bytes=5_000), 4)}"
