"""kill -9 at any moment: nothing acknowledged is lost, nothing is there twice, nothing is stuck [F1, L2]."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import JobStatus
from tests.conformance import REPOSITORY
from tests.store.conftest import QUICK
from tests.store.support import ask

STEPS = [
    ("migrating", 3), ("migrated", 1), ("begun", 1), ("begun", 9), ("pages_written", 4), ("before_commit", 1),
    ("before_commit", 12), ("committed", 1), ("committed", 3), ("committed", 15), ("before_checkpoint", 1),
    ("checkpoint", 1), ("checkpoint", 2), ("checkpointed", 2),
]  # fmt: skip


def run(path: Path, step: str, nth: int, way: str = "logged", kill_after_s: float | None = None) -> list[str]:
    """The URLs acknowledged before the process died, where asked so long after the first of them."""
    command = [sys.executable, "-m", "tests.store.crashing", str(path), step, str(nth), way]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first = b""
        if kill_after_s is not None:
            assert process.stdout is not None
            first = process.stdout.readline()  # however long a busy machine takes to begin
            time.sleep(kill_after_s)
            process.kill()
        said, complaint = process.communicate(timeout=100)
    assert process.returncode == -9, complaint.decode()
    lines = (first + said).decode().split("\n")
    return lines[:-1]  # the last may be half a line


def check(path: Path, acknowledged: set[str]) -> None:
    """One state for every URL; page, end, links and found tasks of a visit together or not at all."""
    with DuckDBStore.open(path, limits=QUICK) as store:
        jobs = store.jobs()
        if not jobs:
            assert not acknowledged
            return
        assert jobs[0].status is not JobStatus.RUNNING
        job_id = jobs[0].id
        pages = [row[0] for row in ask(store, "SELECT url FROM pages")]
        assert len(pages) == len(set(pages))
        assert acknowledged <= set(pages)
        assert ask(store, "SELECT count(*) FROM pages WHERE body <> repeat(url, 40)") == [(0,)]
        tasks = dict(ask(store, "SELECT url, state FROM amble.tasks"))
        assert ask(store, "SELECT count(*) FROM amble.tasks") == [(len(tasks),)]
        assert {url for url, state in tasks.items() if state == "done"} == set(pages)
        assert set(tasks.values()) <= {"done", "waiting"}
        children = {f"{url}/{k}" for url in pages for k in range(3)}
        assert set(tasks) - {"https://a.test/seed"} == children
        assert {row[0] for row in ask(store, "SELECT to_url FROM amble.links")} == children
        counts = store.counts(job_id)
        assert (counts.accepted, counts.done, counts.running) == (len(tasks), len(pages), 0)
        waiting = {row.url for row in store.claim(job_id, 10**6)}
        assert waiting == {url for url, state in tasks.items() if state == "waiting"}
        assert len(store.seen(job_id)) == len(tasks)


@pytest.mark.parametrize(("step", "nth"), STEPS, ids=[f"{step}-{nth}" for step, nth in STEPS])
def test_killed_at_a_named_step(path: Path, step: str, nth: int) -> None:
    acknowledged = run(path, step, nth)
    check(path, set(acknowledged))


@pytest.mark.parametrize("nth", [1, 2, 7, 20])
def test_killed_in_the_middle_of_what_goes_straight(path: Path, nth: int) -> None:
    acknowledged = run(path, "checkpoint", nth, "straight")
    check(path, set(acknowledged))


@pytest.mark.parametrize("way", ["logged", "straight"])
def test_killed_again_and_again_at_random_moments(path: Path, way: str) -> None:
    """The same file through several deaths: what was acknowledged by any of them is there in the end."""
    chance = random.Random(5)
    acknowledged: set[str] = set()
    for _ in range(6):
        fresh = run(path, "never", 1, way, kill_after_s=chance.uniform(0.0, 0.6))
        assert not acknowledged & set(fresh)  # nothing done is done again
        acknowledged |= set(fresh)
        check(path, acknowledged)
    assert acknowledged
