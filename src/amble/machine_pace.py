"""What the processes of a user share of each domain: a small file that all of them have mapped.

The rules are those of `core.pacing.machine`.

A place for each domain that was asked lately, found by a hash of its name: two domains that share a place only wait
longer. Whoever changes a place holds a record lock on it, and each process holds one for as long as it lives: the
kernel takes both back when a process dies. Instants are those of a clock that all processes share and that goes on
while the machine sleeps; pacing has its own, which does not, and each instant is converted on its way in and out.
"""

from __future__ import annotations

import logging
import math
import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from amble.clock import Clock, SystemClock
from amble.core.pacing.machine import LEFT_WITHIN_S, LOOK_AGAIN_S, TAG, TOGETHER_S, WORDS, MachinePace, Place
from amble.core.pacing.settings import PacingSettings
from amble.runtime_folder import runtime_folder

try:
    import fcntl
except ImportError:  # no record locks on this system: each process has its own pace
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("amble.pacing")

FILE = "pace-1"  # another layout has another name
PROCESSES_MAX = 1_024
WAYS = 4  # places that a domain may have
BUCKETS = 4_096  # 16,384 places are some 2 MB
OTHERS_MAX = 10_000

# In words of eight bytes: a head, how often each number of a process was given away, and the places.
_BOOT, _OPENED = range(2)
_PROCESSES = WORDS
_PLACES = _PROCESSES + PROCESSES_MAX
_LENGTH = _PLACES + BUCKETS * WAYS * WORDS

# What a byte stands for when it is locked; nothing is read or written there.
_HEAD_LOCK = 0
_PROCESS_LOCK = 1
_BUCKET_LOCK = _PROCESS_LOCK + PROCESSES_MAX

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC) if hasattr(time, "CLOCK_MONOTONIC") else 0


class Home(NamedTuple):
    """Where a domain may have its place, and by which number it is known there."""

    tag: float  # as it stands in the file
    first: int  # word of its bucket
    lock: int  # byte of its bucket


class PaceTable:
    """The file as one process has it mapped. Safe for threads; one object for each file and process, because to close
    a file gives back all record locks of the process on it."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where there can be no such file."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with self._locked_head():
                if os.fstat(self._fd).st_size != _LENGTH * 8:
                    _allocate(self._fd, _LENGTH * 8)
                self._words = memoryview(mmap.mmap(self._fd, _LENGTH * 8)).cast("d")
                self._forget_earlier_boot()
        except BaseException:
            os.close(self._fd)
            raise
        # Reentrant: whatever is collected as garbage meanwhile may settle a permit on this very thread.
        self._mutex = threading.RLock()
        self._me = 0.0  # this process; 0 before it has a number
        self._leaving: dict[str, int] = {}  # domain -> its place, while a request is on its way out
        self._shut_since: dict[int, float] = {}  # buckets that another process has locked
        self._others: dict[str, tuple[float, float]] = {}  # domain -> who else asked it, and when
        self._enlist()

    def _forget_earlier_boot(self) -> None:
        """The clock begins anew when the machine does, and what was written before means nothing any more."""
        now, boot = time.clock_gettime(_CLOCK), _boot_number()
        if self._words[_BOOT] != boot or self._words[_OPENED] > now:
            for first in range(0, _LENGTH, 4_096):
                part = self._words[first : first + 4_096]
                part[:] = memoryview(bytes(8 * len(part))).cast("d")
        self._words[_BOOT], self._words[_OPENED] = boot, now

    def is_at(self, path: Path) -> bool:
        """Whether this is the file that other processes find there: it may have been removed."""
        with suppress(OSError):
            return os.path.samestat(path.lstat(), os.fstat(self._fd))
        return False

    # -- processes

    def _enlist(self) -> None:
        """Take the first number that no living process has."""
        for number in range(PROCESSES_MAX):
            if self._try_lock(_PROCESS_LOCK + number):
                self._words[_PROCESSES + number] += 1.0
                self._me = self._words[_PROCESSES + number] * PROCESSES_MAX + number
                return
        raise OSError(f"more than {PROCESSES_MAX} processes share the pace of domains")

    def _is_alive(self, owner: float) -> bool:
        """Whether a process that was given a number still has it."""
        if owner == self._me:
            return True
        given, number = divmod(int(owner), PROCESSES_MAX)
        if self._words[_PROCESSES + number] != given or not given:
            return False
        if self._try_lock(_PROCESS_LOCK + number):
            self._unlock(_PROCESS_LOCK + number)
            return False
        return True

    def after_fork(self) -> None:
        """A child has the file, but neither the number nor the locks of its parent."""
        self._mutex = threading.RLock()
        self._me = 0.0
        self._leaving, self._shut_since, self._others = {}, {}, {}

    # -- `MachinePace`

    def take(self, domain: str, now: float, gap_s: float) -> float | None:
        ahead_s, home = _ahead_s(), _home_of(domain)
        then = now + ahead_s
        with self._mutex:
            if not self._lock_bucket(home, then):
                return now + LOOK_AGAIN_S
            try:
                place = Place(self._words, self._find(home) or self._make_place(home, then))
                owner, start = place.last()
                if owner != self._me and start > then - TOGETHER_S:
                    self._note_other(domain, owner, start)
                until = place.take(self._me, then, gap_s, self._is_alive)
            finally:
                self._unlock(home.lock)
        return None if until is None else until - ahead_s

    def blocked_until(self, domain: str) -> float:
        at = self._find(_home_of(domain))
        return -math.inf if at is None else Place(self._words, at).blocked_until() - _ahead_s()

    def expect(self, domain: str, now: float) -> None:
        at = self._find(_home_of(domain))
        if at is not None:
            self._leaving[domain] = at
            Place(self._words, at).expect(self._me, now + _ahead_s())

    def sent(self, domain: str, instant: float) -> None:
        at = self._leaving.pop(domain, None) or self._find(_home_of(domain))
        if at is not None:
            Place(self._words, at).sent(self._me, instant + _ahead_s())

    def left(self, domain: str) -> None:
        at = self._leaving.pop(domain, None)
        if at is not None:
            Place(self._words, at).left(self._me)

    def cancel(self, domain: str, started_at: float) -> None:
        self._leaving.pop(domain, None)
        at = self._find(_home_of(domain))
        if at is not None:
            Place(self._words, at).cancel(self._me, started_at + _ahead_s())

    def block(self, domain: str, until: float) -> None:
        ahead_s, home = _ahead_s(), _home_of(domain)
        with self._mutex:
            is_ours = self._lock_bucket(home, time.clock_gettime(_CLOCK))
            # Not even a stopped process may keep a block from being known; the lock only keeps two from one place.
            Place(self._words, self._find(home) or self._make_place(home, until + ahead_s - 1.0)).block(until + ahead_s)
            if is_ours:
                self._unlock(home.lock)

    def pardon(self, domain: str, was_until: float, until: float) -> None:
        ahead_s, at = _ahead_s(), self._find(_home_of(domain))
        if at is not None:
            Place(self._words, at).pardon(was_until + ahead_s, until + ahead_s)

    def others_at(self, domain: str) -> float:
        owner, start = self._others.get(domain, (0.0, 0.0))
        with self._mutex:
            return start - _ahead_s() if self._is_alive(owner) else -math.inf

    # -- places

    def _find(self, home: Home) -> int | None:
        """Where a domain's place begins, if it has one. Nothing is locked: to look costs little."""
        words, (tag, first, _) = self._words, home
        # Written out, as it is asked before every request, and a domain without a gap mostly has none.
        if tag not in (words[first], words[first + WORDS], words[first + 2 * WORDS], words[first + 3 * WORDS]):
            return None
        return next((at for at in _places(first) if words[at] == tag), None)

    def _make_place(self, home: Home, now: float) -> int:
        """In place of the one that matters least. Where all matter still, one is shared, which can only slow down."""
        at = min(_places(home.first), key=lambda at: Place(self._words, at).matters_until())
        if Place(self._words, at).matters_until() > now:
            return home.first + int(home.tag) // BUCKETS % WAYS * WORDS
        for word in range(at, at + WORDS):
            self._words[word] = 0.0
        self._words[at + TAG] = home.tag
        return at

    def _note_other(self, domain: str, owner: float, start: float) -> None:
        if len(self._others) >= OTHERS_MAX:
            self._others.clear()
        self._others[domain] = owner, start

    # -- locks

    def _lock_bucket(self, home: Home, now: float) -> bool:
        """Keep other processes from the places of a bucket. They have it for microseconds; one that was stopped in the
        midst of that is not waited for without end."""
        if not self._me:
            self._enlist()
        if not self._try_lock(home.lock) and now < self._shut_since.setdefault(home.lock, now) + LEFT_WITHIN_S:
            return False
        if self._shut_since:
            self._shut_since.pop(home.lock, None)
        return True

    def _try_lock(self, byte: int) -> bool:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError:
            return False
        return True

    def _unlock(self, byte: int) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)

    @contextmanager
    def _locked_head(self) -> Iterator[None]:
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, _HEAD_LOCK)
        try:
            yield
        finally:
            self._unlock(_HEAD_LOCK)


@lru_cache(maxsize=65_536)  # asked before every request
def _home_of(domain: str) -> Home:
    tag = crc32(domain.encode())
    bucket = tag % BUCKETS
    return Home(float(tag), _PLACES + bucket * WAYS * WORDS, _BUCKET_LOCK + bucket)


def _places(first: int) -> range:
    """Of a bucket."""
    return range(first, first + WAYS * WORDS, WORDS)


def _ahead_s() -> float:
    """How far the clock that processes share is ahead of the one that pacing goes by: as long as the machine slept."""
    return time.clock_gettime(_CLOCK) - time.monotonic()


def _boot_number() -> float:
    """Of this start of the machine; 0 where nobody says."""
    with suppress(OSError):
        return float(crc32(Path("/proc/sys/kernel/random/boot_id").read_bytes()))
    return 0.0


def _allocate(fd: int, length: int) -> None:
    """Room on the disk for all of it: to write to a mapped page that gets none is death."""
    os.ftruncate(fd, 0)
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, length)
    else:
        os.pwrite(fd, bytes(length), 0)


_tables: dict[Path, PaceTable] = {}
_making = threading.Lock()


def machine_pace(settings: PacingSettings, clock: Clock) -> MachinePace | None:
    """The table that the processes of this user share, for whoever is to share it and goes by the clock of the machine.
    Where there can be none, which is logged once, each process has its own pace."""
    global _told
    if settings.share_pace == "process" or not isinstance(clock, SystemClock) or fcntl is None:
        return None
    with _making:
        folder = runtime_folder()
        try:
            if folder is None:
                raise OSError("the folder for it is not ours")
            path = folder / FILE
            if path not in _tables or not _tables[path].is_at(path):
                _tables[path] = PaceTable(path)
            return _tables[path]
        except OSError as error:
            if not _told:
                log.warning("the pace of domains is not shared with other processes: %s", error)
            _told = True
            return None


_told = False


def _after_fork() -> None:
    global _making
    _making = threading.Lock()
    for table in _tables.values():
        table.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
