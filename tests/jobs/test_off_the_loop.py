"""While a crawl runs, nothing waits for a database on its event loop: neither for a WHERE nor for what is known of a
domain that refuses."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amble.jobs import runner
from amble.settings import Settings
from amble.store.clauses import Clauses
from amble.store.database import Database
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow
from amble.testing.farm import Farm, Pages, Site
from amble.testing.farm.limits import Limit
from amble.testing.lab.limiters import TokenBucket

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = {
    "pacing": "fixed", "fixed_delay": 0.01, "max_rate": "unlimited", "discover": False, "follow_links": True,
    "threads": 1,
}  # fmt: skip


def test_no_query_runs_on_the_event_loop_at_a_refusal_nor_for_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use, asked_on = Database.in_use, list[str]()

    @contextlib.contextmanager
    def noted(self: Database) -> Iterator[None]:
        asked_on.append(threading.current_thread().name)
        with in_use(self):
            yield

    limit = Limit(lambda random: TokenBucket(20.0, 5.0))
    with Farm([Site(name="a.test", pages=Pages(30), limit=limit)]) as farm:
        domain = f"a.test:{farm.port}"
        known = DomainRow(domain, None, 0.02, 0.01, learned_at=NOON, strategy="gauge", numbers={"limit": 50.0})
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        with DuckDBStore.open(tmp_path / "x.duckdb") as store:
            store.submit(Batch(domains=[known])).result()
            with store.database.reading() as connection:
                clauses = Clauses.of(connection, "path NOT LIKE '%7%'", ())
            monkeypatch.setattr(Database, "in_use", noted)
            running = runner.start(store, farm.roots(), Settings.of(SETTINGS), clauses=clauses, **ways)
            result = running.wait(60)
            monkeypatch.undo()
            [after] = store.load_domains([domain])
            with store.database.reading() as connection:
                unwanted = connection.execute("SELECT count(*) FROM pages WHERE error LIKE 'the WHERE%'").fetchall()
    assert result.limited > 0
    assert unwanted[0][0] > 0
    assert asked_on
    assert "amble-engine" not in asked_on
    assert (after.adaptive_delay_seconds, after.strategy, after.learned_at) == (0.02, "gauge", NOON)
