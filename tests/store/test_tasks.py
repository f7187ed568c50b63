"""Tasks: claimed once, counted at any time, all of them there after a restart [F1, L1]."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from amble.errors import StoreError
from amble.store.duckdb_store import DuckDBStore
from amble.store.rows import BUNDLE_TASKS_MAX
from amble.store.seam import Batch, Counts, TaskDone, TaskRow, TaskState
from tests.store.conftest import QUICK
from tests.store.support import BEGAN, ask, new_job, task


def find(store: DuckDBStore, *tasks: TaskRow) -> None:
    store.submit(Batch(discovered=tasks), urgent=True).result()


def end(store: DuckDBStore, *done: TaskDone) -> None:
    store.submit(Batch(done=done), urgent=True).result()


def test_a_task_comes_back_as_it_was_found(store: DuckDBStore) -> None:
    job_id = new_job(store)
    found = TaskRow(
        job_id, "https://a.test/ü?x=1", "a.test", TaskState.WAITING, 3, 1, "https://a.test/", "sitemap", 0.8,
        BEGAN + timedelta(hours=1), "network_timeout", '"e"', "Mon, 01 Jan 2024 00:00:00 GMT",
    )  # fmt: skip
    plain = found._replace(url="https://a.test/plain", etag=None, last_modified=None)
    only_date = found._replace(url="https://a.test/date", etag=None)
    find(store, found, plain, only_date)
    expected = [row._replace(state=TaskState.RUNNING) for row in (found, plain, only_date)]
    assert store.claim(job_id, 10) == expected


def test_tasks_that_the_frontier_holds_are_not_handed_out(store: DuckDBStore) -> None:
    job_id = new_job(store)
    find(store, task(job_id, 1, TaskState.RUNNING), task(job_id, 2), task(job_id, 3, TaskState.SKIPPED))
    assert [row.url for row in store.claim(job_id, 10)] == ["https://a.test/2"]
    assert store.counts(job_id) == Counts(running=2, skipped=1)


def test_tasks_are_claimed_once_each_across_bundles(store: DuckDBStore) -> None:
    job_id = new_job(store)
    many = 3 * BUNDLE_TASKS_MAX + 17
    find(store, *(task(job_id, number) for number in range(many)))
    claimed = [row.url for _ in range(many // 50 + 1) for row in store.claim(job_id, 50)]
    assert claimed == [f"https://a.test/{number}" for number in range(many)]
    assert store.claim(job_id, 50) == []


def test_windows_of_many_domains_are_filled_in_one_claim(store: DuckDBStore) -> None:
    job_id = new_job(store)
    for number in range(30):
        find(store, *(task(job_id, number, domain=f"d{d}.test") for d in range(40)))
    rows = store.claim(job_id, 1_000, per_domain=4, domains=[f"d{d}.test" for d in range(0, 40, 2)])
    assert len(rows) == 80
    assert all(int(row.url.rsplit("/")[-1]) < 4 for row in rows)
    assert store.waiting(job_id)["d0.test"] == 26
    assert store.waiting(job_id)["d1.test"] == 30


def test_the_sums_are_right_at_every_step(store: DuckDBStore) -> None:
    job_id = new_job(store)
    find(store, *(task(job_id, number) for number in range(10)))
    assert store.counts(job_id) == Counts(waiting=10)
    a, b, c, d = (row.url for row in store.claim(job_id, 4))
    assert store.counts(job_id) == Counts(waiting=6, running=4)
    end(store, TaskDone(job_id, a, TaskState.DONE), TaskDone(job_id, b, TaskState.FAILED, 3, "network_timeout"))
    end(store, TaskDone(job_id, c, TaskState.DEFERRED), TaskDone(job_id, d, TaskState.WAITING, 1, "network_reset"))
    counts = store.counts(job_id)
    assert counts == Counts(waiting=6, running=1, deferred=1, done=1, failed=1)
    assert (counts.accepted, counts.final) == (10, 2)


def test_after_a_restart_what_was_held_waits_and_what_ended_stays_ended(path: Path) -> None:
    with DuckDBStore.open(path, limits=QUICK) as store:
        job_id = new_job(store)
        find(store, *(task(job_id, number) for number in range(200)), task(job_id, 900, TaskState.RUNNING))
        urls = [row.url for row in store.claim(job_id, 100)]
        end(store, *(TaskDone(job_id, url, TaskState.DONE) for url in urls[10:40]))
        end(store, TaskDone(job_id, urls[50], TaskState.DEFERRED, 2), TaskDone(job_id, urls[60], TaskState.WAITING, 2))
    with DuckDBStore.open(path, limits=QUICK) as store:
        assert store.counts(job_id) == Counts(waiting=170, deferred=1, done=30)
        assert store.resume(job_id) == Counts(waiting=171, done=30)
        again = store.claim(job_id, 1_000)
        assert len({row.url for row in again}) == len(again) == 171
        assert not {row.url for row in again} & set(urls[10:40])
        assert {row.url: row.attempts for row in again if row.attempts} == {urls[50]: 2, urls[60]: 2}
        assert len(store.seen(job_id)) == 201
        assert "https://a.test/900" in store.seen(job_id)
    with DuckDBStore.open(path, limits=QUICK) as store:  # the deferred one was reopened, and stays so
        assert store.counts(job_id) == Counts(waiting=171, done=30)


def test_the_view_shows_the_latest_state_of_each_task(store: DuckDBStore) -> None:
    job_id = new_job(store)
    find(
        store,
        task(job_id, 1),
        task(job_id, 2),
        task(job_id, 3),
        task(job_id, 4, TaskState.SKIPPED, error_type="out_of_scope"),
    )
    store.claim(job_id, 3)
    end(store, TaskDone(job_id, "https://a.test/1", TaskState.WAITING, 1, "network_timeout"))
    end(store, TaskDone(job_id, "https://a.test/1", TaskState.DONE, 2))
    end(store, TaskDone(job_id, "https://a.test/2", TaskState.FAILED, 6, "network_timeout"))
    assert ask(store, "SELECT url[-1:], state, attempts, error_type FROM amble.tasks ORDER BY url") == [
        ("1", "done", 2, None),
        ("2", "failed", 6, "network_timeout"),
        ("3", "waiting", 0, None),
        ("4", "skipped", 0, "out_of_scope"),
    ]


def test_jobs_do_not_see_each_others_tasks(store: DuckDBStore) -> None:
    first, second = new_job(store), new_job(store)
    find(store, task(first, 1), task(second, 1), task(second, 2))
    end(store, *(TaskDone(first, row.url, TaskState.DONE) for row in store.claim(first, 9)))
    assert store.counts(first) == Counts(done=1)
    assert store.resume(second) == Counts(waiting=2)
    assert len(store.seen(first)) == 1


def test_an_unknown_job_is_an_error(store: DuckDBStore) -> None:
    with pytest.raises(StoreError, match="no job 7"):
        store.resume(7)


def test_a_claim_that_could_not_be_read_is_handed_back(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = new_job(store)
    find(store, *(task(job_id, number) for number in range(9)))

    def broken() -> None:
        raise duckdb.IOException("no such luck")

    with monkeypatch.context() as patched:
        patched.setattr(store.database, "reading", broken)
        with pytest.raises(duckdb.IOException):
            store.claim(job_id, 5)
    assert store.counts(job_id) == Counts(waiting=9)
    assert len(store.claim(job_id, 9)) == 9


def test_a_ledger_read_while_a_batch_is_being_acknowledged_counts_it_once(path: Path) -> None:
    """The tables have the batch, and the ledger is read from them, before the writer tells of it."""
    counted: list[Counts] = []

    def step(name: str) -> None:
        if name == "committed" and armed:
            armed.clear()
            store._tasks.forget(job_id)
            counted.append(store.counts(job_id))

    armed: list[bool] = []
    with DuckDBStore.open(path, limits=QUICK, step=step) as store:
        job_id = new_job(store)
        find(store, task(job_id, 1))
        armed.append(True)
        find(store, task(job_id, 2))
        assert counted == [Counts(waiting=2)]
        assert store.counts(job_id) == Counts(waiting=2)


def test_a_claim_costs_the_same_however_many_wait(path: Path) -> None:
    """One host with many waiting tasks: a claim reads what it hands out."""

    def cost_s(job_id: int) -> float:
        costs = []
        for _ in range(12):
            began = time.perf_counter()
            assert len(store.claim(job_id, 200)) == 200
            costs.append(time.perf_counter() - began)
        return min(costs)

    with DuckDBStore.open(path, limits=QUICK) as store:
        few, many = new_job(store, "few"), new_job(store, "many")
        for job_id, count in ((few, 5_000), (many, 200_000)):
            for at in range(0, count, 5_000):
                store.submit(Batch(discovered=[task(job_id, at + i) for i in range(5_000)])).result()
        store.flush().result()
        assert any(cost_s(many) < 4 * cost_s(few) for _ in range(2))  # over it once may be noise
