"""What was learned of a domain outlasts rows that say nothing of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from amble.store import learning
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEARNED = DomainRow("a.test", None, 2.0, 1.0, learned_at=NOON, strategy="linear", numbers={"floor_s": 1.0})
COUNTED = DomainRow("a.test", requests=7)
BLOCKED = DomainRow(
    "a.test", None, 0.0, 0.0, learned_at=NOON + timedelta(days=1), strategy="fixed", blocked_until_at=NOON
)
ANEW = DomainRow("a.test", None, 9.0, 3.0, learned_at=NOON + timedelta(days=2), strategy="gauge")
NEVER = DomainRow("b.test", requests=3)

ROWS: list[tuple[str, list[list[DomainRow]], tuple[float | None, str | None]]] = [
    ("counts are written after it", [[LEARNED], [COUNTED]], (2.0, "linear")),
    ("a block is noted after it", [[LEARNED], [BLOCKED]], (2.0, "linear")),
    ("both in one transaction", [[LEARNED, COUNTED, BLOCKED]], (2.0, "linear")),
    ("it is learned anew", [[LEARNED], [COUNTED, ANEW], [COUNTED]], (9.0, "gauge")),
    ("nothing was ever learned", [[COUNTED]], (None, None)),
    ("there was only a block", [[BLOCKED], [COUNTED]], (None, None)),
]


@pytest.mark.parametrize(("transactions", "known"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_was_learned_of_a_domain_is_kept_by_rows_that_say_nothing_of_it(
    store: DuckDBStore, transactions: list[list[DomainRow]], known: tuple[float | None, str | None]
) -> None:
    for domains in transactions:
        store.submit(Batch(domains=[*domains, NEVER]), urgent=True).result()
    found = {row.domain: row for row in store.load_domains()}
    assert (found["a.test"].adaptive_delay_seconds, found["a.test"].strategy) == known
    last = transactions[-1][-1]
    assert (found["a.test"].requests, found["a.test"].blocked_until_at) == (last.requests, last.blocked_until_at)
    assert found["b.test"] == NEVER


def test_it_is_read_back_where_memory_has_let_go_of_it(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "_REMEMBERED_MAX", 1)
    for domain in ("a.test", "c.test", "d.test"):
        store.submit(Batch(domains=[LEARNED._replace(domain=domain)]), urgent=True).result()
    store.submit(Batch(domains=[COUNTED]), urgent=True).result()
    [found] = store.load_domains(["a.test"])
    assert (found.adaptive_delay_seconds, found.learned_at, found.requests) == (2.0, NOON, 7)
