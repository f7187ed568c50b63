"""Rows and stores for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from amble.core.page.lines import link_lines
from amble.core.page.links import Link
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, PageLinks, PageRow, TaskDone, TaskRow, TaskState

BEGAN = datetime(2025, 3, 1, 12, tzinfo=UTC)


def new_job(store: DuckDBStore, target: str = "pages") -> int:
    return store.create_job(target, {}, [], BEGAN).id


def page(job_id: int, number: int, **fields: Any) -> PageRow:
    values: dict[str, Any] = {
        "url": f"https://a.test/{number}",
        "http_status": 200,
        "body": f"page {number}",
        "crawl_time": BEGAN + timedelta(seconds=number),
        "domain": "a.test",
        "job_id": job_id,
    }
    return PageRow(**{**values, **fields})


def task(
    job_id: int, number: int, state: TaskState = TaskState.WAITING, domain: str = "a.test", **more: Any
) -> TaskRow:
    return TaskRow(job_id, f"https://{domain}/{number}", domain, state, **more)


def visit(job_id: int, number: int, links: int = 0, **fields: Any) -> Batch:
    """A seed that was fetched: its task, found and done; its row; the tasks found on it."""
    row = page(job_id, number, **fields)
    found = [TaskRow(job_id, f"{row.url}/{k}", "a.test", parent_url=row.url) for k in range(links)]
    return Batch(
        pages=[row],
        done=[TaskDone(job_id, row.url, TaskState.DONE)],
        discovered=[TaskRow(job_id, row.url, "a.test", TaskState.RUNNING), *found],
    )


def page_links(job_id: int, url: str, links: Sequence[Link]) -> PageLinks:
    return PageLinks(job_id, url, *link_lines(links, None, None))


def ask(store: DuckDBStore, sql: str) -> list[tuple[Any, ...]]:
    connection = store.database.connect()
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
