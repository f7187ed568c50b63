"""A page costs the same whether ten thousand are stored or a hundred thousand. (A million: `bench/store_rows.py`.)"""

from __future__ import annotations

import time
from pathlib import Path

from amble.core.page.links import Link
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow, RequestRow
from amble.store.writer import WriterLimits
from tests.store.support import BEGAN, ask, new_job, page_links, visit

PAGES = 500
TURNS, TURNS_MAX = 5, 25  # what is over a bound after the first may be noise: look closer before believing it
LIMITS = WriterLimits(linger_s=0.01, wal_bytes_max=1_000_000)  # with checkpoints in what is measured


def stocked(path: Path, count: int) -> DuckDBStore:
    """A store that has been in use: `count` pages, their tasks and receipts."""
    with DuckDBStore.open(path, limits=LIMITS) as store:
        job_id = new_job(store)
        numbers = f"FROM range({count}) AS numbers(n)"
        for sql in (
            "INSERT INTO pages (url, crawl_time, body, job_id) SELECT 'https://old.test/' || n, "
            f"TIMESTAMP '2024-01-01' + to_seconds(n), repeat(md5(n::VARCHAR), 10), {job_id} {numbers}",
            f"INSERT INTO amble.settled SELECT n, {job_id}, 'https://old.test/' || n, 'done', 1, NULL {numbers}",
            f"INSERT INTO amble.found SELECT n, {job_id}, 'old.test', 'waiting', 1, 0, NULL, 'link', 0.5, NULL, NULL, "
            f"1, 'https://old.test/' || n {numbers}",
            f"INSERT INTO amble.requests (job_id, url) SELECT {job_id}, 'https://old.test/' || n {numbers}",
            f"INSERT INTO amble.commits SELECT n, NULL, 1 {numbers}",
        ):
            ask(store, sql)
    return DuckDBStore.open(path, limits=LIMITS)


def cost_s(store: DuckDBStore, job_id: int, first: int) -> float:
    receipt = RequestRow(job_id, 1, "a.test", "https://a.test/", 1, 0.0, 0.0, BEGAN, 1.0, None, "minimum")
    extra = Batch(
        domains=[DomainRow("a.test")],
        page_links=[page_links(job_id, "https://a.test/", [Link("https://a.test/1", "")])],
        requests=[receipt],
    )
    began = time.process_time()
    for number in range(first, first + PAGES):
        store.submit(visit(job_id, number, links=2, body="b" * 500))
        store.submit(extra)
    store.flush().result(60)
    store.claim(job_id, PAGES)
    return time.process_time() - began


def test_the_cost_of_a_page_does_not_grow_with_what_is_stored(tmp_path: Path) -> None:
    stores = [stocked(tmp_path / f"{count}.duckdb", count) for count in (10_000, 100_000)]
    jobs = [new_job(store) for store in stores]
    costs: list[list[float]] = [[], []]
    for turn in range(TURNS_MAX):  # in turns, so that a busy machine disturbs both alike
        for which, store in enumerate(stores):
            costs[which].append(cost_s(store, jobs[which], turn * PAGES))
        few_s, many_s = (min(column) for column in costs)
        if turn >= TURNS - 1 and many_s < 1.6 * few_s:
            break
    for store in stores:
        store.close()
    assert many_s < 1.6 * few_s


def test_replacing_a_page_does_not_read_the_whole_table(tmp_path: Path) -> None:
    """Pages of an earlier crawl, visited again in the order in which they lie."""
    stores = [stocked(tmp_path / f"{count}.duckdb", count) for count in (10_000, 400_000)]
    jobs = [new_job(store) for store in stores]
    costs: list[list[float]] = [[], []]
    for turn in range(TURNS_MAX):
        for which, store in enumerate(stores):
            began = time.process_time()
            for number in range(turn * 300, turn * 300 + 300):
                store.submit(visit(jobs[which], number, url=f"https://old.test/{number}"))
            store.flush().result(60)
            costs[which].append(time.process_time() - began)
        few_s, many_s = (min(column) for column in costs)
        if turn >= TURNS - 1 and many_s < 2 * few_s:
            break
    for store, count in zip(stores, (10_000, 400_000), strict=True):
        assert ask(store, "SELECT count(*), count(DISTINCT url) FROM pages") == [(count, count)]
        store.close()
    assert many_s < 2 * few_s
