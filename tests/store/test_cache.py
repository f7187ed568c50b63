"""What DuckDB keeps in memory of tables that are on disk: let go once it is much, unless somebody reads them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from amble.store.database import Database
from amble.store.duckdb_store import DuckDBStore
from tests.store.conftest import QUICK
from tests.store.support import new_job, visit

LIMIT = "192.0 MiB"
LARGE = QUICK._replace(wal_bytes_max=1_000_000)


def held_mb(database: Database) -> float:
    with database.reading() as connection:
        ((held,),) = connection.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchall()
    return float(held) / 1e6


def limit(database: Database) -> str:
    with database.reading() as connection:
        ((found,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    return str(found)


def fill(store: DuckDBStore, pages: int = 500) -> None:
    """Four tenths of a megabyte each, in which compression finds no more than half to spare."""
    job_id, chance = new_job(store), random.Random(1)
    for number in range(pages):
        store.submit(visit(job_id, number, body=chance.randbytes(200_000).hex())).result()
    store.flush().result()


def open_store(path: Path, **how: bool) -> DuckDBStore:
    return DuckDBStore.open(path, limits=LARGE, memory_limit=LIMIT, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("sealed", [False, True])
def test_little_of_what_is_on_disk_stays_in_memory_and_the_limit_is_as_before(path: Path, sealed: bool) -> None:
    with open_store(path, sealed=sealed) as store:
        fill(store)
        assert held_mb(store.database) < 50
        assert limit(store.database) == LIMIT


def test_whoever_reads_keeps_all_the_memory_there_is(path: Path) -> None:
    with open_store(path) as store:
        with store.database.in_use():
            fill(store)
            assert held_mb(store.database) > 60
        assert limit(store.database) == LIMIT


def test_what_is_little_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To let go of it costs more than it takes."""
    much = "amble.store.database._CACHE_BYTES_MAX"
    monkeypatch.setattr(much, 1_000_000_000)
    with open_store(path) as store:
        fill(store)
        held = held_mb(store.database)
        assert held > 60
        connection = store.database.connect()
        store.database.empty_cache(connection)
        assert held_mb(store.database) == pytest.approx(held, abs=1)
        monkeypatch.setattr(much, 30_000_000)
        store.database.empty_cache(connection)
        assert held_mb(store.database) < 18
        connection.close()


def test_more_than_is_left_may_be_needed_at_that_moment(path: Path) -> None:
    """What cannot be written to disk, as an index, makes DuckDB refuse the low limit."""
    with open_store(path) as store:
        with store.database.in_use():
            fill(store)
        connection = store.database.connect()
        connection.execute("CREATE TEMP TABLE large (number BIGINT PRIMARY KEY)")
        connection.execute("INSERT INTO large SELECT i * 7919 % 1_000_000_007 FROM range(500_000) AS r(i)")
        store.database.empty_cache(connection)
        assert held_mb(store.database) < 60
        assert limit(store.database) == LIMIT
        assert connection.execute("SELECT count(*) FROM large").fetchall() == [(500_000,)]
        connection.close()


def test_a_database_without_a_limit_stays_as_it_is(path: Path) -> None:
    with DuckDBStore.open(path, limits=LARGE, memory_limit=None) as store:
        before = limit(store.database)
        fill(store)
        assert limit(store.database) == before
