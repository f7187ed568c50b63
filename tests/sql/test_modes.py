"""Whose files are: those that are made are for their maker alone, those that are there keep their mode."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import amble
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, Pages, Site
from tests.store.support import new_job, visit


@pytest.fixture(autouse=True)
def common_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", ["x.duckdb", "odd name"])
def test_a_file_made_by_connect_is_for_its_maker(tmp_path: Path, name: str) -> None:
    with amble.connect(tmp_path / name) as con:
        con.execute("CREATE TABLE t AS FROM range(3)")
    assert modes(tmp_path) == {name: "0o600"}
    (tmp_path / "mine").touch()
    assert modes(tmp_path)["mine"] == "0o644"  # the mask is as it was


def test_a_file_made_by_crawl_is_for_its_maker_and_so_is_its_log(tmp_path: Path) -> None:
    with Farm([Site(name="127.0.0.1", pages=Pages(3))]) as farm:
        job = amble.crawl(farm.url("127.0.0.1"), tmp_path / "x.duckdb", max_rate="unlimited")
        while_open = modes(tmp_path)
        job.close()
    assert while_open["x.duckdb"] == "0o600"
    assert set(while_open.values()) == {"0o600"}


def test_a_log_that_is_made_anew_is_as_closed_as_its_file(tmp_path: Path) -> None:
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        job_id = new_job(store)
        for number in range(2):
            store.submit(visit(job_id, number))
            store.flush().result(60)
            assert modes(tmp_path) == {"x.duckdb": "0o600", "x.duckdb.wal": "0o600"}
            store.database.connect().execute("CHECKPOINT")


def test_a_file_that_others_may_read_stays_so(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "x.duckdb")).close()
    with amble.connect(tmp_path / "x.duckdb") as con:
        con.execute("CREATE TABLE t AS FROM range(3)")
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        store.submit(visit(new_job(store), 1))
        store.flush().result(60)
        assert modes(tmp_path) == {"x.duckdb": "0o644", "x.duckdb.wal": "0o644"}
