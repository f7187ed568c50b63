"""What is crawled in benchmarks, with which settings, and how a process is measured: processor time, memory, clock."""

from __future__ import annotations

import compileall
import os
import platform
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

import amble
from amble.testing.farm import Site
from amble.testing.farm.short import HOSTS, short_group
from amble.testing.farm.webs import hidden_limits, isolation, many_hosts, shop, ten_thousand, throughput
from amble.testing.lab.short.groups import GROUPS

# As a site's owner would crawl it: no pause, no cap, in one process; everything else as shipped.
FAST: Mapping[str, Any] = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited", "threads": 1}
# The algorithm alone: the shipped cap of 8/s is politeness towards strangers, and a fifth of these sites bear more.
POLITE: Mapping[str, Any] = {"max_rate": "unlimited"}
SHORT_WAY: Mapping[str, Any] = {**POLITE, "follow_links": True}  # as the laboratory's client finds its pages


class Scenario(NamedTuple):
    """A web, how amble is set for it, and for throughput the pages per CPU-second to reach.

    Another machine has other numbers. `floors` are those of a bare loop, without storing and with, on the machine where
    `wanted` was set: what carries over is the share. Those of the 200 hosts were not measured there; they are the ones
    of the single host, in the proportion in which both stand here.
    """

    name: str
    says: str
    sites: Callable[[], list[Site]]
    settings: Mapping[str, Any]
    wanted: int | None = None
    aim: int | None = None
    floors: tuple[int, int] | None = None


THROUGHPUT = {
    scenario.name: scenario
    for scenario in (
        Scenario("one", "1 host x 5,000 pages of 20 KB", throughput, FAST, 1300, 1600, (2750, 1790)),
        Scenario("many", "200 hosts x 25 pages of 20 KB", many_hosts, FAST, 1100, 1300, (2440, 1800)),
        Scenario("crowd", "10,000 hosts x 3 pages of 5 KB", ten_thousand, FAST, 900, 1100, (2065, 1540)),
    )
}
POLITENESS = {
    scenario.name: scenario
    for scenario in (
        Scenario("hidden", "30 hosts, hidden limits of 2 to 20/s", hidden_limits, POLITE),
        Scenario("isolation", "20 fast hosts beside one with Crawl-delay 5", isolation, POLITE),
        Scenario("alone", "the same 20 fast hosts alone", partial(isolation, slow_pages=0), POLITE),
        Scenario("shop", "one shop: 2 at a time, 3/s, 500 URLs", shop, POLITE),
    )
}

# The laboratory's short hosts over real sockets. Several minutes for all crawlers, so only when asked for.
SHORT = {
    name: Scenario(name, f"{HOSTS} hosts of the laboratory's group {name}", partial(short_group, name), SHORT_WAY)
    for name in GROUPS
}


class Used(NamedTuple):
    """What one process and its children took."""

    cpu_s: float
    wall_s: float
    rss_mb: float
    status: int
    output: str


def run_measured(
    command: Sequence[str],
    *,
    given: str = "",
    timeout_s: float = 600.0,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Used:
    """Run a program to its end and count everything from its first instruction to its last."""
    _compile()
    began = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=folder)
    with _Peak(process.pid) as peak:
        output = _talk(process, given, timeout_s)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    rss_mb = peak.rss_mb or used.ru_maxrss / 1024
    return Used(used.ru_utime + used.ru_stime, time.monotonic() - began, rss_mb, process.returncode, output)


@cache
def _compile() -> None:
    """Leave bytecode beside the sources, as installing does: peers have theirs, whatever this environment says."""
    for folder in (Path(__file__).parent, Path(amble.__file__).parent):
        compileall.compile_dir(folder, quiet=2)


class _Peak:
    """The most memory a process held, as Linux has it: looked at until its end.

    What `wait4` says is never less than what the parent held when it started the process.
    """

    LOOK_S = 0.05

    def __init__(self, pid: int) -> None:
        self.rss_mb = 0.0
        self._status = f"/proc/{pid}/status"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(self.LOOK_S):
            with suppress(OSError, StopIteration), open(self._status) as lines:
                self.rss_mb = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _talk(process: subprocess.Popen[str], given: str, timeout_s: float) -> str:
    """What the process says until it closes its output; it is ended where that takes too long."""
    assert process.stdin is not None
    assert process.stdout is not None
    too_long = threading.Timer(timeout_s, os.kill, (process.pid, signal.SIGKILL))
    too_long.start()
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(given)
            process.stdin.close()
        with process.stdout as output:
            return output.read()
    finally:
        too_long.cancel()


def rows_in(file: Path) -> int:
    """Pages that have their row, with its text: as any reader finds them, after the process that is measured."""
    with duckdb.connect(str(file), read_only=True) as connection:
        found = connection.execute("SELECT count(DISTINCT url) FROM pages WHERE body IS NOT NULL").fetchall()
    return int(found[0][0])


def machine() -> str:
    """Where this was measured, in a line."""
    model = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration), open("/proc/cpuinfo") as lines:
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return (
        f"{os.cpu_count()} x {model}, {platform.system()}, Python {platform.python_version()}, load {load:.1f} before"
    )
