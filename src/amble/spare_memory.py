"""How much memory the queries of others may make this process take, all of them together.

DuckDB counts what the operators of a query hold. It does not count what the strings and lists of one step take, and it
looks for an interruption only between two steps: one of 2,048 rows may take any amount. So while such queries run the
system is asked to give this process only so much more. DuckDB is refused memory then, as if there were none, and the
query ends with an error.

What is resident is looked at as well, and far sooner: whoever takes too much in many steps is interrupted, and the
system refuses only what grows faster than anybody can look.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

GROWTH_BYTES_MAX = 512_000_000
_BOUND = 2  # times that, before the system refuses: the crawl goes on meanwhile, and needs memory as well
_SHARE = 2  # half of what is available, where that is less

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class SpareMemory:
    """What this process can spare. There is one, as the limits of the system are those of all its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._resident_at_first = 0
        self._growth_bytes_max = GROWTH_BYTES_MAX
        self._soft_before: int | None = None

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """For as long as a query runs that may take any amount."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._resident_at_first = resident_bytes()
                self._growth_bytes_max = min(GROWTH_BYTES_MAX, available_bytes() // _SHARE)
                self._bound()
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._unbound()

    def is_spent(self) -> bool:
        return resident_bytes() - self._resident_at_first > self._growth_bytes_max

    @contextlib.contextmanager
    def as_usual(self) -> Iterator[None]:
        """Whatever is started meanwhile has the limits that this process was started with."""
        with self._lock:
            self._unbound()
            try:
                yield
            finally:
                if self._users:
                    self._bound()

    def _bound(self) -> None:
        mapped = mapped_bytes()
        if sys.platform == "win32" or not mapped:
            return
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        bound = mapped + _BOUND * self._growth_bytes_max
        if soft == resource.RLIM_INFINITY or bound < soft:
            resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
            self._soft_before = soft

    def _unbound(self) -> None:
        if sys.platform != "win32" and self._soft_before is not None:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (self._soft_before, hard))
            self._soft_before = None


SPARE = SpareMemory()


def resident_bytes() -> int:
    """What this process has in memory; zero where the system does not say."""
    return _statm(1)


def mapped_bytes() -> int:
    """What of memory the system has promised this process for data."""
    return _statm(5)


def available_bytes() -> int:
    """What this machine, or the container that we are in, can give before it ends somebody; much where nobody says."""
    found = [_machine_bytes(), *_container_bytes()]
    return max(0, min(found))


def _statm(field: int) -> int:
    try:
        return int((_PROC / "self/statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _machine_bytes() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (_PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 1 << 62


def _container_bytes() -> Iterator[int]:
    """Of each control group that this process is in."""
    with contextlib.suppress(OSError):
        for line in (_PROC / "self/cgroup").read_text().splitlines():
            if line.startswith("0::/"):
                group = _CGROUPS / line[4:]
                for folder in (group, *group.parents):
                    if not folder.is_relative_to(_CGROUPS):
                        return
                    with contextlib.suppress(OSError, ValueError):  # no limit there
                        limit = int((folder / "memory.max").read_text())
                        yield limit - int((folder / "memory.current").read_text())
