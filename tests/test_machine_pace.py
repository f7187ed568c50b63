"""The file in which processes share the pace of domains: found, made, shared, left behind, of an earlier boot."""

from __future__ import annotations

import multiprocessing
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from time import clock_gettime, monotonic
from zlib import crc32

import pytest

from amble import machine_pace as module
from amble.clock import SystemClock
from amble.core.pacing.machine import LEFT_WITHIN_S, MachinePace
from amble.core.pacing.settings import PacingSettings
from amble.machine_pace import BUCKETS, FILE, WAYS, PaceTable, machine_pace
from amble.runtime_folder import VARIABLE
from amble.testing.virtual import VirtualClock

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
        if crc32(name.encode()) % BUCKETS == 7:
            found.append(name)
    return found


def test_domains_that_share_a_place_only_wait_longer(tmp_path: Path) -> None:
    pace, now, names = PaceTable(tmp_path / FILE), monotonic(), colliding(WAYS + 1)
    assert [pace.take(name, now, 10.0) for name in names[:WAYS]] == [None] * WAYS
    assert pace.take(names[WAYS], now, 10.0) == pytest.approx(now + 10.0, abs=0.01)
    assert pace.take(names[WAYS], now + 10.1, 10.0) is None, "the others matter no more"
    assert [pace.take(name, now + 5.0, 10.0) is None for name in names[:2]].count(True) <= 1


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
