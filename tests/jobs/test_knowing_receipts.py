"""A run that was killed has written no row of its domains, but its receipts: the next keeps its distance to them."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from amble.jobs import Job
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow, RequestRow


def receipt(ago_s: float, elapsed_s: float | None = 0.5, domain: str = "a.test") -> RequestRow:
    at = datetime.now(UTC) - timedelta(seconds=ago_s)
    return RequestRow(1, 1, domain, f"http://{domain}/", 1, 0.0, 0.0, at, 6.0, None, "crawl_delay", elapsed_s=elapsed_s)


def row(ago_s: float) -> DomainRow:
    return DomainRow("a.test", last_reserved_at=datetime.now(UTC) - timedelta(seconds=ago_s))


@pytest.mark.parametrize(
    ("story", "receipts", "rows", "asked_s_ago"),  # what is dated is made when the test runs
    [
        ("nobody has asked", [], [], None),
        ("a receipt and no row: the run was killed", [(5,)], [], 4.5),
        ("until its answer, as it was sent some time before that", [(5, 3.0)], [], 2.0),
        ("nobody knows how long it took", [(5, None)], [], 5.0),
        ("the last of many", [(50,), (5,), (20,)], [], 4.5),
        ("the row is older: that of an earlier run", [(5,)], [60], 4.5),
        ("the row is newer: that of a run which ended", [(5,)], [1], 1.0),
        ("no gap reaches back so far", [(3_700,)], [], None),
        ("another domain's", [(5, 0.5, "b.test")], [], None),
        ("a clock that was set back", [(-60,)], [], 0.0),
    ],
)
def test_a_new_crawl_counts_the_receipts_of_the_one_before(
    tmp_path: Path, story: str, receipts: list[tuple[Any, ...]], rows: list[float], asked_s_ago: float | None
) -> None:
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        began = time.monotonic()
        batch = Batch(requests=[receipt(*each) for each in receipts], domains=[row(ago_s) for ago_s in rows])
        store.submit(batch, urgent=True).result()
        job = Job.start(store, ["http://a.test/"], Settings.of({}))
        asyncio.run(job._load())
        pace = job.plan.frontier.registry.find("a.test")
        assert pace is not None
        ago_s = began - pace.last_start
    if asked_s_ago is None:
        assert ago_s == float("inf"), story
    elif asked_s_ago:
        assert ago_s == pytest.approx(asked_s_ago, abs=0.1), story
    else:
        assert ago_s <= 0, f"{story}: as if it had been now"
