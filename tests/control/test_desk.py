"""A crawl that is asked and steered by other processes while it runs, by the words a person types."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from threading import Event, Semaphore, Thread
from time import monotonic, sleep
from typing import Any, NamedTuple

import pytest

from amble.cli import main
from amble.control import Desk, ask
from amble.control.channel import Nobody
from amble.control.desk import READERS_MAX
from amble.control.questions import QUESTIONS
from amble.errors import StoreError
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, Pages, Site
from amble.testing.lab.servers import LogNormal

NAME = "127.0.0.1"
PAGES = 40
SLOWLY = ["--pacing", "fixed", "--fixed-delay", "0.1", "--max-rate", "unlimited"]
PATIENCE_S = 60.0


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def farm() -> Iterator[Farm]:
    with Farm([Site(name=NAME, pages=Pages(PAGES, 2_000), latency=LogNormal(0.02, 0.0))]) as served:
        yield served


def amble(*words: str) -> Ended:
    """Whoever asks may be any process; this one will do."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as talk:
        code = main(words)
    return Ended(code, out.getvalue(), talk.getvalue())


def wait_for(happened: Callable[[], bool]) -> None:
    give_up = monotonic() + PATIENCE_S
    while not happened() and monotonic() < give_up:
        sleep(0.02)
    assert happened()


def status(file: str) -> dict[str, Any]:
    try:
        [job] = ask(file, "status")["jobs"]
    except (Nobody, ValueError):
        return {"phase": "gone", "final": -1, "under_way": 0}
    assert isinstance(job, dict)
    return job


def test_a_running_crawl_is_looked_at_paused_resumed_and_stopped_by_others(farm: Farm, tmp_path: Path) -> None:
    file = str(tmp_path / "x.duckdb")
    words = [sys.executable, "-m", "amble", "crawl", farm.url(NAME), "--into", file, *SLOWLY]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: status(file)["final"] >= 3)

            paused = amble("pause", file)
            assert paused.returncode == 0, paused.stderr
            assert "job 1 waits" in paused.stderr
            wait_for(lambda: status(file)["under_way"] == 0)
            assert status(file)["phase"] == "paused"
            asked = len(farm.log())

            # While it is paused and holds the file: whoever looks is answered, and nothing is sent meanwhile.
            jobs = json.loads(amble("jobs", file, "--json").stdout)
            assert [(job["status"], job["running"]) for job in jobs] == [("paused", 0)]
            assert jobs[0]["queued"] == jobs[0]["accepted"] - jobs[0]["final"] > 0, "it waits for its turn"
            assert json.loads(amble("domains", file, "--json").stdout) is not None
            audit = amble("audit", file)
            assert (audit.returncode, audit.stdout.splitlines()[-1]) == (0, "no rule was broken")
            rows = ask(file, "sql", query="SELECT count(*) AS n FROM pages")
            assert (rows["columns"], rows["rows"]) == (["n"], [[status(file)["final"]]])
            assert len(farm.log()) == asked
            assert process.poll() is None, "a paused crawl keeps its process"

            assert "job 1 goes on" in amble("resume", file).stderr
            wait_for(lambda: len(farm.log()) > asked)

            stopped = amble("stop", file, "1", "--json")
            assert json.loads(stopped.stdout)["jobs"] == [1]
            _, said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 130, said
        finally:
            process.kill()
    assert farm.judge().again == 0
    assert amble("stop", file).returncode == 1, "nothing runs there now"
    resumed = amble("resume", file, "--json", "--allow-private", "127.0.0.0/8")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(amble("jobs", file, "--json").stdout)[0]["done"] == PAGES
    assert not list(tmp_path.glob("*.control"))


@pytest.mark.parametrize(
    ("question", "details", "said"),
    [
        ("pause", {"job": 7}, "job 7 is not running"),
        ("jbos", {}, "jbos"),
        ("sql", {"query": "DROP TABLE pages"}, "not allowed"),
        ("sql", {"query": "SELECT * FROM read_csv('/etc/passwd')"}, "disabled"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_hint(
    tmp_path: Path, question: str, details: dict[str, Any], said: str
) -> None:
    """E2: SQL of others reads the tables of this file and nothing else."""
    with (
        DuckDBStore.open(tmp_path / "x.duckdb", sealed=True) as store,
        Desk(store),
        pytest.raises(StoreError, match=said) as refused,
    ):
        ask(tmp_path / "x.duckdb", question, **details)
    assert refused.value.hint


def test_orders_and_status_wait_for_nobody_who_looks_through_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, over = Semaphore(0), Event()

    def slow(store: DuckDBStore) -> list[Any]:
        looking.release()
        over.wait(PATIENCE_S)
        return []

    monkeypatch.setitem(QUESTIONS, "domains", slow)
    with DuckDBStore.open(tmp_path / "x.duckdb", sealed=True) as store, Desk(store) as desk:
        threads = [Thread(target=desk.answer, args=("domains", {})) for _ in range(READERS_MAX + 1)]
        for thread in threads:
            thread.start()
        for _ in range(READERS_MAX):
            assert looking.acquire(timeout=PATIENCE_S)
        assert not looking.acquire(timeout=0.1), "one waits"
        assert desk.answer("status", {})["jobs"] == []
        with pytest.raises(StoreError, match="no job is running"):
            desk.answer("stop", {})
        over.set()
        for thread in threads:
            thread.join(PATIENCE_S)
