"""The file in which processes share the pace of domains: found, made, shared, left behind, of an earlier boot."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from time import clock_gettime, monotonic

import pytest

from amble import machine_pace as module
from amble import runtime_folder as folders
from amble.clock import SystemClock
from amble.core.pacing.machine import LEFT_WITHIN_S, WORDS, MachinePace
from amble.core.pacing.settings import PacingSettings
from amble.machine_pace import BUCKETS, FILE, PROCESSES_MAX, WAYS, PaceTable, machine_pace
from amble.runtime_folder import VARIABLE
from amble.testing.virtual import VirtualClock
from tests.store.conftest import SmallDisk, small_disk

__all__ = ["small_disk"]  # a fixture

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no record locks on this system")
SPAWN = multiprocessing.get_context("spawn")
SHARED = PacingSettings()


def table() -> MachinePace:
    found = machine_pace(SHARED, SystemClock())
    assert found is not None
    return found


def other(folder: str, said: Connection, domains: list[str], gap_s: float) -> None:
    """Starts requests at these domains, leaves the last on its way, and stays."""
    os.environ[VARIABLE] = folder
    pace = table()
    for domain in domains:
        assert pace.take(domain, monotonic(), gap_s) is None
        pace.expect(domain, monotonic())
        if domain != domains[-1]:
            pace.sent(domain, monotonic())
    said.send(monotonic())
    said.poll(60)


@contextmanager
def another_process(domains: list[str], gap_s: float) -> Iterator[tuple[float, multiprocessing.process.BaseProcess]]:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=other, args=(os.environ[VARIABLE], theirs, domains, gap_s), daemon=True)
    process.start()
    try:
        assert ours.poll(60)
        yield ours.recv(), process
    finally:
        process.kill()
        process.join(60)


def test_what_another_process_does_is_seen_here_and_what_it_left_behind_when_it_died() -> None:
    pace = table()
    with another_process(["a.test", "b.test"], 30.0) as (told_at, process):
        until = pace.take("a.test", monotonic(), 0.1)
        assert until is not None
        assert until == pytest.approx(told_at + 30.0, abs=2.0)
        assert pace.take("b.test", told_at + 100.0, 0.1) is not None, "its request has not left"
        assert pace.others_at("a.test") == pytest.approx(told_at, abs=2.0)
        assert pace.take("free.test", monotonic(), 0.1) is None
        process.kill()
        process.join(60)
        died_at = told_at + 100.0
        assert pace.take("b.test", died_at, 0.1) == pytest.approx(died_at + 30.0, abs=0.01), "it may have, just then"
    assert pace.others_at("a.test") < 0, "it is gone"


def test_who_shares_nothing_has_no_table(tmp_path: Path) -> None:
    assert machine_pace(PacingSettings(share_pace="process"), SystemClock()) is None
    assert machine_pace(SHARED, VirtualClock()) is None
    assert not Path(os.environ[VARIABLE]).exists()


def test_the_file_is_for_its_owner_alone() -> None:
    table()
    folder = Path(os.environ[VARIABLE])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("trouble", ["others may enter", "a link lies there", "no folder can be made"])
def test_where_there_can_be_no_file_each_process_has_its_own_pace(
    trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    if trouble == "others may enter":
        folder.chmod(0o777)
    elif trouble == "a link lies there":
        (folder / FILE).symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / "file").write_text("")
        folder = tmp_path / "file" / "run"
    monkeypatch.setenv(VARIABLE, str(folder))
    assert machine_pace(SHARED, SystemClock()) is None
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_keeps_no_process_from_its_own_pace_and_is_no_harm_later(
    small_disk: SmallDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, str(small_disk.folder / "run"))
    monkeypatch.setattr(module, "_told", False)
    small_disk.remount("size=1m")
    for _ in range(2):
        assert machine_pace(SHARED, SystemClock()) is None
    assert [record.getMessage() for record in caplog.records if "not shared" in record.getMessage()] == [
        "the pace of domains is not shared with other processes: [Errno 28] No space left on device"
    ]
    small_disk.remount("size=8m")
    assert table().take("a.test", monotonic(), 30.0) is None


def test_a_file_that_was_removed_is_made_anew() -> None:
    assert table().take("a.test", monotonic(), 30.0) is None
    (Path(os.environ[VARIABLE]) / FILE).unlink()
    with another_process(["a.test"], 30.0):
        assert table().take("a.test", monotonic(), 30.0) is not None


def test_what_was_written_before_the_machine_was_started_anew_means_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = PaceTable(tmp_path / FILE)
    first.block("a.test", monotonic() + 3_600.0)
    assert first.blocked_until("a.test") > monotonic()
    monkeypatch.setattr(module, "_boot_number", lambda: 12.0)
    assert PaceTable(tmp_path / FILE).blocked_until("a.test") < 0


def test_instants_are_those_of_the_clock_that_goes_on_while_the_machine_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour of sleep is an hour of silence to the site, though no process has noticed."""
    pace, now = PaceTable(tmp_path / FILE), monotonic()
    pace.block("a.test", now + 3_000.0)
    assert pace.take("a.test", now, 1.0) == pytest.approx(now + 3_000.0, abs=0.5)
    real = module._ahead_s()
    monkeypatch.setattr(module, "_ahead_s", lambda: real + 3_600.0)
    assert pace.take("a.test", now, 1.0) is None


def colliding(count: int) -> list[str]:
    """Domains of one bucket."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"host-{number}.test"
        number += 1
        if module._tag_of(name) % BUCKETS == 7:
            found.append(name)
    return found


def test_domains_that_share_a_place_only_wait_longer(tmp_path: Path) -> None:
    pace, now, names = PaceTable(tmp_path / FILE), monotonic(), colliding(WAYS + 1)
    assert [pace.take(name, now, 10.0) for name in names[:WAYS]] == [None] * WAYS
    assert pace.take(names[WAYS], now, 10.0) == pytest.approx(now + 10.0, abs=0.01)
    assert pace.take(names[WAYS], now + 10.1, 10.0) is None, "the others matter no more"
    assert [pace.take(name, now + 5.0, 10.0) is None for name in names[:2]].count(True) <= 1


def test_a_block_of_a_domain_without_a_place_of_its_own_is_known_to_all_and_to_nobody_elses_harm(
    tmp_path: Path,
) -> None:
    """The first four of a bucket have places; what the fifth is refused concerns none of them."""
    mine, theirs = PaceTable(tmp_path / FILE), PaceTable(tmp_path / FILE)
    theirs._me += PROCESSES_MAX  # one process cannot be two, as far as locks go
    now, names = monotonic(), colliding(WAYS + 1)
    for name in names[:WAYS]:
        mine.take(name, now, 10.0)
    mine.block(names[WAYS], now + 3_600.0)
    assert theirs.blocked_until(names[WAYS]) == pytest.approx(now + 3_600.0, abs=0.01)
    assert [mine.blocked_until(name) < now for name in names[:WAYS]] == [True] * WAYS
    assert [mine.take(name, now + 10.1, 10.0) for name in names[:WAYS]] == [None] * WAYS
    assert theirs.take(names[WAYS], now + 60.0, 10.0) == pytest.approx(now + 3_600.0, abs=0.01)
    mine.pardon(names[WAYS], now + 3_600.0, now)
    assert theirs.blocked_until(names[WAYS]) == pytest.approx(now, abs=0.01)


def test_who_had_no_place_of_its_own_keeps_its_block_when_it_gets_one(tmp_path: Path) -> None:
    pace, now, names = PaceTable(tmp_path / FILE), monotonic(), colliding(WAYS + 1)
    for name in names[:WAYS]:
        pace.take(name, now, 10.0)
    pace.block(names[WAYS], now + 3_600.0)
    assert pace.take(names[WAYS], now + 20.0, 1.0) == pytest.approx(now + 3_600.0, abs=0.01), "now there is room"
    assert pace._find(module._tag_of(names[WAYS])) is not None


@pytest.mark.parametrize(("known", "share"), [(1_000, 0.0), (10_000, 0.05)])
def test_blocks_of_many_domains_hold_and_hardly_keep_others_waiting(tmp_path: Path, known: int, share: float) -> None:
    """Names that differ in a digit alone, as hosts of one company do."""
    pace, now = PaceTable(tmp_path / FILE), monotonic()
    names, others = [[f"{kind}-{number}.test" for number in range(known)] for kind in ("host", "other")]
    for name in names:
        pace.block(name, now + 3_600.0)
    assert all(pace.blocked_until(name) > now + 3_500.0 for name in names)
    assert all(pace.take(name, now, 0.0) is not None for name in names)
    assert sum(pace.blocked_until(name) > now for name in others) <= share * known


def test_a_thousand_domains_are_kept_apart(tmp_path: Path) -> None:
    pace, now = PaceTable(tmp_path / FILE), monotonic()
    names = [f"host-{number}.test" for number in range(1_000)]
    assert [pace.take(name, now, 10.0) for name in names] == [None] * 1_000
    assert all(pace.take(name, now + 5.0, 10.0) is not None for name in names)


def test_a_place_that_a_stopped_process_has_locked_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace, now = PaceTable(tmp_path / FILE), monotonic()
    monkeypatch.setattr(pace, "_try_lock", lambda byte: False)
    assert pace.take("a.test", now, 1.0) is not None
    assert pace.take("a.test", now + LEFT_WITHIN_S - 1.0, 1.0) is not None
    assert pace.take("a.test", now + LEFT_WITHIN_S + 0.1, 1.0) is None


def test_a_block_is_known_however_it_stands_with_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pace, now = PaceTable(tmp_path / FILE), monotonic()
    monkeypatch.setattr(pace, "_try_lock", lambda byte: False)
    pace.block("a.test", now + 60.0)
    assert pace.blocked_until("a.test") == pytest.approx(now + 60.0, abs=0.01)


def test_the_clock_is_one_of_the_machine() -> None:
    instants = [clock_gettime(module._CLOCK) for _ in range(3)]
    assert all(later >= earlier for earlier, later in pairwise(instants))
    assert abs(module._ahead_s() - module._ahead_s()) < 1.0


def test_who_is_kept_waiting_between_two_looks_at_clocks_does_not_date_a_request_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, by as long as others have their turn."""
    pace = PaceTable(tmp_path / FILE)
    module._ahead_s()
    real, waits = time.monotonic, [0.3]
    monkeypatch.setattr(time, "monotonic", lambda: real() + (waits.pop() if waits else 0.0))
    now = real()
    assert pace.take("a.test", now, 10.0) is None
    until = pace.take("a.test", now + 1.0, 10.0)
    assert until == pytest.approx(now + 10.0, abs=0.05)


ODD_WORDS = [math.nan, math.inf, -math.inf, 1e300, -1e300, -1.0, 1e18, 0.5, 2.0**53 + 2]


def test_a_damaged_file_neither_ends_nor_holds_up_anybody(tmp_path: Path) -> None:
    random = Random(1)
    pace = PaceTable(tmp_path / FILE)
    for _ in range(500):
        now = monotonic()
        pace.take("a.test", now - 100.0, 1.0)
        at = pace._find(module._tag_of("a.test"))
        assert at is not None
        for _ in range(random.randrange(1, 5)):
            pace._words[at + random.randrange(1, WORDS)] = random.choice(ODD_WORDS)
        assert pace.blocked_until("a.test") < now + 401 * 86_400.0
        until = pace.take("a.test", now, 1.0)
        assert until is None or now <= until < now + 10.0
        pace.expect("a.test", now)
        pace.sent("a.test", now)
        pace.cancel("a.test", now)
        pace.others_at("a.test")
        pace.block("a.test", now + 5.0)
        assert pace.blocked_until("a.test") == pytest.approx(now + 5.0, abs=0.01)
        pace.pardon("a.test", now + 5.0, -math.inf)


def test_a_file_of_noise_is_made_anew_or_mended(tmp_path: Path) -> None:
    random = Random(2)
    table = PaceTable(tmp_path / FILE)
    (tmp_path / FILE).write_bytes(random.randbytes((tmp_path / FILE).stat().st_size))
    names = [f"host-{number}.test" for number in range(200)]
    for pace in (table, PaceTable(tmp_path / FILE)):
        now = monotonic()
        assert all((until := pace.take(name, now, 1.0)) is None or until < now + 10.0 for name in names)
        assert pace.take(names[0], now + 0.5, 1.0) is not None


def test_a_file_that_is_removed_while_it_is_used_is_made_anew_with_what_was_in_it(tmp_path: Path) -> None:
    """As those do who clear /tmp. Whoever used it meets the others again within a minute."""
    pace, now = PaceTable(tmp_path / FILE), monotonic()
    pace.block("a.test", now + 3_600.0)
    (tmp_path / FILE).unlink()
    pace._fresh_until = 0.0
    pace.take("b.test", now, 30.0)
    assert pace.is_at(tmp_path / FILE)
    other = PaceTable(tmp_path / FILE)
    assert other.blocked_until("a.test") == pytest.approx(now + 3_600.0, abs=0.01)
    assert other.take("b.test", now + 1.0, 1.0) is not None


def test_a_file_that_cannot_be_made_anew_is_used_on(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    pace, now = PaceTable(folder / FILE), monotonic()
    shutil.rmtree(folder)
    pace._fresh_until = 0.0
    assert pace.take("a.test", now, 30.0) is None
    assert pace.take("a.test", now + 1.0, 30.0) is not None


def test_a_file_in_use_looks_so(tmp_path: Path) -> None:
    """Its pages are written through memory: nobody who clears /tmp of what is old would notice."""
    pace = PaceTable(tmp_path / FILE)
    os.utime(tmp_path / FILE, (0, 0))
    pace._fresh_until = 0.0
    pace.take("a.test", monotonic(), 1.0)
    assert (tmp_path / FILE).stat().st_mtime > 0


def test_processes_meet_whatever_folder_each_has_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell, cron and a batch system set TMPDIR to what they like."""
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(folders, "_SHARED", tmp_path / "shared")
    (tmp_path / "shared").mkdir()
    found = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
        found.append(folders.runtime_folder())
    assert found == [tmp_path / "shared" / f"amble-{os.getuid()}"] * 2
    found[0].rmdir()  # type: ignore[union-attr]
    found[0].symlink_to(tmp_path)  # type: ignore[union-attr]
    assert folders.runtime_folder() == tmp_path / "other" / f"amble-{os.getuid()}", "somebody has taken its name"
