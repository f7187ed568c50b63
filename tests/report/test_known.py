"""What a file knows already of domains."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amble.core.sitemap.document import SitemapEntry
from amble.report.plan import LATEST, known_latencies, stored_pages
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, RequestRow, SitemapListing

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LISTING = SitemapListing(0, "http://a.test/map.xml", NOON, [SitemapEntry("http://a.test/1", None, None, None)], False)


def answered(second: int, path: str, elapsed_s: float, status: int = 200) -> RequestRow:
    at = NOON + timedelta(seconds=second)
    return RequestRow(1, 1, "a.test", f"http://a.test{path}", 1, second, second, at, 0, None, "none", 1, status, None,
                      elapsed_s)  # fmt: skip


@pytest.mark.parametrize(
    ("story", "receipts", "latency_s"),
    [
        ("the usual page", [answered(n, f"/{n}", 0.1 * n) for n in (1, 2, 9)], 0.2),
        ("a long sitemap says nothing about pages", [answered(1, "/map.xml", 9.0), answered(2, "/1", 0.2)], 0.2),
        ("before any page the shortest will do", [answered(1, "/robots.txt", 0.1), answered(2, "/map.xml", 9.0)],
         0.1),
        ("errors are often quick", [answered(1, "/1", 0.2), answered(2, "/2", 0.01, 500)], 0.2),
        ("only the latest count", [answered(n, f"/{n}", 5.0 if n < 500 else 0.1) for n in range(500 + LATEST)], 0.1),
    ],
)  # fmt: skip
def test_how_fast_a_domain_answers(tmp_path: Path, story: str, receipts: list[RequestRow], latency_s: float) -> None:
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        store.submit(Batch(requests=receipts, listings=[LISTING]), urgent=True).result()
        found = known_latencies(store.database.connect(), ["a.test", "b.test"])
    assert found == {"a.test": pytest.approx(latency_s)}, story


def test_a_table_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    with DuckDBStore.open(tmp_path / "x.duckdb") as store:
        assert stored_pages(store.database.connect(), "pages", store.database.name, ["http://a.test/"]) == {}
