"""What can be read of a file whose log was damaged, and what is not touched by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amble.cli import main
from amble.errors import StoreDamaged, StoreError
from amble.store.duckdb_store import DuckDBStore
from amble.store.salvage import check_whole, salvage

ROUNDS = 40
KILLED = """
import duckdb, os, sys
from pathlib import Path
from amble.store.duckdb_store import DuckDBStore
from tests.store.support import new_job, visit
store = DuckDBStore.open(Path(sys.argv[1]))
job_id = new_job(store)
store.database.connect().execute("CHECKPOINT")
for number in range(int(sys.argv[2])):
    store.submit(visit(job_id, number), urgent=True)
    store.flush().result(60)
os._exit(9)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A file as a crawl leaves it that was killed, with forty transactions in its log."""
    file = tmp_path / "odd name.duckdb"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", KILLED, str(file), str(ROUNDS)], env=environ, check=False)
    assert ended.returncode == 9
    return file


def log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.wal")


def zero_from(file: Path, share: float) -> None:
    log = log_of(file)
    size = log.stat().st_size
    os.truncate(log, int(size * share))
    os.truncate(log, size)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.97])
def test_what_the_log_holds_before_its_zeroed_tail_is_kept(killed: Path, tmp_path: Path, share: float) -> None:
    zero_from(killed, share)
    before = killed.read_bytes(), log_of(killed).read_bytes()
    with pytest.raises(StoreDamaged, match="damaged") as refused:
        DuckDBStore.open(killed)
    assert f"amble doctor '{killed}' --salvage" in (refused.value.hint or "")
    found = salvage(killed, tmp_path / "new.duckdb")
    assert found is not None
    assert abs(found.kept_bytes - share * found.log_bytes) < found.log_bytes / 4
    assert abs(found.rows["pages"] - share * ROUNDS) <= 3
    with DuckDBStore.open(tmp_path / "new.duckdb") as store:
        assert store.jobs()[0].id == 1
        assert store.counts(1).done == found.rows["pages"]
    assert (killed.read_bytes(), log_of(killed).read_bytes()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.duckdb", killed.name, log_of(killed).name]


def test_a_whole_file_is_left_as_it_is(killed: Path, tmp_path: Path) -> None:
    before = log_of(killed).read_bytes()
    check_whole(killed)
    assert salvage(killed, tmp_path / "new.duckdb") is None
    assert log_of(killed).read_bytes() == before
    assert not (tmp_path / "new.duckdb").exists()


def test_a_file_that_is_damaged_itself_cannot_be_salvaged(killed: Path, tmp_path: Path) -> None:
    with killed.open("r+b") as raw:
        raw.write(b"\xff" * 20_000)
    with pytest.raises(StoreError):
        salvage(killed, tmp_path / "new.duckdb")
    assert sorted(path.name for path in tmp_path.iterdir()) == [killed.name, log_of(killed).name]


def test_nothing_is_written_over(killed: Path, tmp_path: Path) -> None:
    zero_from(killed, 0.5)
    (tmp_path / "new.duckdb.wal").write_text("mine")
    with pytest.raises(StoreError, match="there already"):
        salvage(killed, tmp_path / "new.duckdb")
    with pytest.raises(StoreError, match="there already"):
        salvage(killed, killed)


def test_the_command_says_what_was_kept(killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zero_from(killed, 0.5)
    assert main(["doctor", str(killed), "--host", "localhost"]) == 1
    assert "--salvage" in capsys.readouterr().out
    assert main(["doctor", str(killed), "--salvage", str(tmp_path / "new.duckdb")]) == 0
    said = capsys.readouterr().err
    assert "rows of pages" in said
    assert "resume" in said
    assert main(["doctor", "--salvage", str(tmp_path / "other.duckdb")]) == 2
    assert main(["doctor", str(tmp_path / "new.duckdb"), "--salvage", str(tmp_path / "other.duckdb")]) == 0
    assert "is whole" in capsys.readouterr().err
