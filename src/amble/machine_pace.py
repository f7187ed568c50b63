"""What the processes of a user share of each domain: a small file that all of them have mapped.

The rules are those of `core.pacing.machine`.

A place for each domain that was asked lately, found by a hash of its name: two domains that share one only wait
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
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

from amble.clock import Clock, SystemClock
from amble.core.pacing.machine import (
    BLOCKED,
    FAR_S,
    LEFT_WITHIN_S,
    LODGERS_BLOCKED,
    LOOK_AGAIN_S,
    TAG,
    TOGETHER_S,
    WORDS,
    MachinePace,
    Place,
)
from amble.core.pacing.settings import PacingSettings
from amble.runtime_folder import runtime_folder

try:
    import fcntl
except ImportError:  # no record locks on this system: each process has its own pace
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("amble.pacing")

FILE = "pace-2"  # another layout has another name
PROCESSES_MAX = 1_024
WAYS = 4  # places that a domain may have
BUCKETS = 4_096  # 16,384 places are some 2 MB
OTHERS_MAX = 10_000
KEPT_FRESH_S = 60.0  # how often the file is seen to: what lies unused is removed from among the temporary files

# In words of eight bytes: a head, how often each number of a process was given away, and the places.
_BOOT, _OPENED = range(2)
_PROCESSES = WORDS
_PLACES = _PROCESSES + PROCESSES_MAX
_LENGTH = _PLACES + BUCKETS * WAYS * WORDS
_GIVEN_MAX = 2.0**42  # so that the number of a process is exact as a float

# What a byte stands for when it is locked; nothing is read or written there.
_HEAD_LOCK = 0
_PROCESS_LOCK = 1
_BUCKET_LOCK = _PROCESS_LOCK + PROCESSES_MAX

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC) if hasattr(time, "CLOCK_MONOTONIC") else 0


class PaceTable:
    """The file as one process has it mapped. Safe for threads; one object for each file and process, because to close
    a file gives back all record locks of the process on it."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where there can be no such file."""
        # Reentrant: whatever is collected as garbage meanwhile may settle a permit on this very thread.
        self._mutex = threading.RLock()
        self._path = path
        self._me = 0.0  # this process; 0 before it has a number
        self._leaving: dict[str, int] = {}  # domain -> its place, while a request is on its way out
        self._lodgers: dict[str, int] = {}  # domain -> the place of another, which it shares
        self._shut_since: dict[int, float] = {}  # buckets that another process has locked
        self._others: dict[str, tuple[float, float]] = {}  # domain -> who else asked it, and when
        self._open(None)

    def _open(self, before: memoryview[float] | None) -> None:
        """What was in the file `before` goes into a new one: somebody has removed it."""
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with self._locked_head():
                is_new = os.fstat(self._fd).st_size != _LENGTH * 8
                if is_new:
                    _allocate(self._fd, _LENGTH * 8)
                self._words = memoryview(mmap.mmap(self._fd, _LENGTH * 8)).cast("d")
                if is_new and before is not None:
                    self._words[:] = before
                self._forget_earlier_boot()
            self._enlist()
        except BaseException:
            os.close(self._fd)
            raise
        self._fresh_until = time.clock_gettime(_CLOCK) + KEPT_FRESH_S

    def _keep_fresh(self, now: float) -> None:
        """Used it is through memory, which no file system notices; and whoever finds no file makes another."""
        self._fresh_until = now + KEPT_FRESH_S
        before = self._fd, self._words, self._me
        try:
            os.utime(self._fd)
            if not self.is_at(self._path):
                self._open(self._words)
        except (OSError, ValueError):  # there can be none any more: those who have it go on with what they have
            self._fd, self._words, self._me = before

    def _forget_earlier_boot(self) -> None:
        """The clock begins anew when the machine does, and what was written before means nothing any more."""
        now, boot = time.clock_gettime(_CLOCK), _boot_number()
        if self._words[_BOOT] != boot or not self._words[_OPENED] <= now:
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
                given = self._words[_PROCESSES + number]
                self._words[_PROCESSES + number] = given = given + 1.0 if 0.0 <= given < _GIVEN_MAX else 1.0
                self._me = given * PROCESSES_MAX + number
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
        self._leaving, self._lodgers, self._shut_since, self._others = {}, {}, {}, {}

    # -- `MachinePace`

    def take(self, domain: str, now: float, gap_s: float) -> float | None:
        ahead_s, tag = _ahead_s(), _tag_of(domain)
        then = now + ahead_s
        with self._mutex:
            if then > self._fresh_until:
                self._keep_fresh(then)
            if not self._lock_bucket(tag, then):
                return now + LOOK_AGAIN_S
            try:
                place = self._place_for(domain, tag, then)
                owner, start = place.last()
                if owner != self._me and start > then - TOGETHER_S:
                    self._note_other(domain, owner, start)
                until = place.take(self._me, then, gap_s, self._is_alive)
            finally:
                self._unlock(_BUCKET_LOCK + tag % BUCKETS)
        return None if until is None else until - ahead_s

    def blocked_until(self, domain: str) -> float:
        tag = _tag_of(domain)  # asked before every request, so no `Place` is made
        at = self._find(tag)
        until = self._words[_lodging_of(tag) + LODGERS_BLOCKED if at is None else at + BLOCKED]
        if until == 0.0:
            return -math.inf
        ahead_s = _ahead_s()
        return until - ahead_s if 0.0 < until < time.monotonic() + ahead_s + FAR_S else -math.inf

    def expect(self, domain: str, now: float) -> None:
        at = self._known(domain)
        if at is not None:
            self._leaving[domain] = at
            Place(self._words, at).expect(self._me, now + _ahead_s())

    def sent(self, domain: str, instant: float) -> None:
        at = self._leaving.pop(domain, None) or self._known(domain)
        if at is not None:
            Place(self._words, at).sent(self._me, instant + _ahead_s())

    def left(self, domain: str) -> None:
        at = self._leaving.pop(domain, None)
        if at is not None:
            Place(self._words, at).left(self._me)

    def cancel(self, domain: str, started_at: float) -> None:
        self._leaving.pop(domain, None)
        at = self._known(domain)
        if at is not None:
            Place(self._words, at).cancel(self._me, started_at + _ahead_s())

    def block(self, domain: str, until: float) -> None:
        ahead_s, tag, now = _ahead_s(), _tag_of(domain), time.clock_gettime(_CLOCK)
        with self._mutex:
            is_ours = self._lock_bucket(tag, now)
            # Not even a stopped process may keep a block from being known; the lock only keeps two from one place.
            self._place_for(domain, tag, now).block(until + ahead_s)
            if is_ours:
                self._unlock(_BUCKET_LOCK + tag % BUCKETS)

    def pardon(self, domain: str, was_until: float, until: float) -> None:
        ahead_s, at = _ahead_s(), self._known(domain)
        if at is not None:
            is_lodger = self._find(_tag_of(domain)) is None
            Place(self._words, at, is_lodger=is_lodger).pardon(was_until + ahead_s, until + ahead_s)

    def others_at(self, domain: str) -> float:
        owner, start = self._others.get(domain, (0.0, 0.0))
        with self._mutex:
            return start - _ahead_s() if self._is_alive(owner) else -math.inf

    # -- places

    def _find(self, tag: int) -> int | None:
        """Where a domain's place begins, if it has one. Nothing is locked: to look costs little."""
        words, first = self._words, _first_of(tag)
        # Written out, as it is asked before every request, and a domain without a gap mostly has none.
        if tag not in (words[first], words[first + WORDS], words[first + 2 * WORDS], words[first + 3 * WORDS]):
            return None
        return next((at for at in range(first, first + WAYS * WORDS, WORDS) if words[at] == tag), None)

    def _known(self, domain: str) -> int | None:
        """The place of a domain, or the one that it shares."""
        at = self._find(_tag_of(domain))
        return self._lodgers.get(domain) if at is None else at

    def _place_for(self, domain: str, tag: int, now: float) -> Place:
        """Its own, or else the one that matters least. Where all matter still, the domain lodges with another."""
        at = self._find(tag)
        if at is not None:
            place = Place(self._words, at)
            place.mend(now)
            return place
        first, lodging = _first_of(tag), _lodging_of(tag)
        places = range(first, first + WAYS * WORDS, WORDS)
        for at in places:
            Place(self._words, at).mend(now)
        at = min(places, key=lambda at: Place(self._words, at).matters_until())
        if Place(self._words, at).matters_until() > now:
            if len(self._lodgers) >= OTHERS_MAX:
                self._lodgers.clear()
            self._lodgers[domain] = lodging
            return Place(self._words, lodging, is_lodger=True)
        self._lodgers.pop(domain, None)
        blocked_until = self._words[lodging + LODGERS_BLOCKED]  # it may have been ours
        for word in range(at, at + WORDS):
            self._words[word] = 0.0
        self._words[at + TAG] = tag
        self._words[at + BLOCKED] = blocked_until
        return Place(self._words, at)

    def _note_other(self, domain: str, owner: float, start: float) -> None:
        if len(self._others) >= OTHERS_MAX:
            self._others.clear()
        self._others[domain] = owner, start

    # -- locks

    def _lock_bucket(self, tag: int, now: float) -> bool:
        """Keep other processes from the places of a bucket. They have it for microseconds; one that was stopped in the
        midst of that is not waited for without end."""
        if not self._me:
            self._enlist()
        byte = _BUCKET_LOCK + tag % BUCKETS
        if not self._try_lock(byte) and now < self._shut_since.setdefault(byte, now) + LEFT_WITHIN_S:
            return False
        if self._shut_since:
            self._shut_since.pop(byte, None)
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
def _tag_of(domain: str) -> int:
    """Spread evenly, also where names differ in a digit alone; exact as a float, and never 0."""
    return int.from_bytes(blake2b(domain.encode(), digest_size=6).digest()) + 1


def _first_of(tag: int) -> int:
    return _PLACES + tag % BUCKETS * WAYS * WORDS


def _lodging_of(tag: int) -> int:
    """Which of the places of its bucket a domain shares when it has none of its own."""
    return _first_of(tag) + tag // BUCKETS % WAYS * WORDS


_ahead = -math.inf


def _ahead_s() -> float:
    """How far the clock that processes share is ahead of the one that pacing goes by: as long as the machine slept.

    That only grows. Who is kept waiting by others between two looks at clocks finds less, never more.
    """
    global _ahead
    found = time.clock_gettime(_CLOCK) - time.monotonic()
    if found > _ahead:
        _ahead = found
    return _ahead


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
