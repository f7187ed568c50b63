"""Kill a crawl again and again, let it be taken up each time, and look at what is left of it."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random

from amble.report.audit import audit
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Counts
from tests.e2e import crawler
from tests.e2e.crawler import Orders

STEPS = ("begun", "pages_written", "before_commit", "committed", "before_checkpoint", "checkpointed")
PATIENCE_S = 60.0
KILLED = -9
# Forked off a process that has imported everything: a restart is quick, so that the silence after it shows.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([crawler.__name__])


@dataclass(slots=True)
class Known:
    """What the file says after a kill."""

    counts: Counts
    rows: dict[str, str | None]  # url -> content hash


@dataclass(slots=True)
class Campaign:
    """One crawl, however many processes it takes."""

    orders: Orders
    random: Random
    deaths: Counter[str] = field(default_factory=Counter)
    known: list[Known] = field(default_factory=list)  # after each death
    killed_at: list[float] = field(default_factory=list)  # monotonic, at the latest

    def kill_at_a_moment(self, longest_s: float) -> bool:
        """Whether the process was killed, and not finished before."""
        return self._live(self.orders, self.random.uniform(0.0, longest_s))

    def kill_when(self, happened: Callable[[], bool]) -> bool:
        """As soon as something has happened that can be seen from here."""
        return self._live(self.orders, None, happened)

    def kill_at_a_step(self, step: str, after: int) -> bool:
        return self._live(replace(self.orders, crash_at=step, crash_after=after), None)

    def finish(self) -> None:
        assert not self._live(self.orders, None)

    def _live(self, orders: Orders, life_s: float | None, happened: Callable[[], bool] | None = None) -> bool:
        ready, theirs = SERVER.Pipe(duplex=False)
        process = SERVER.Process(target=crawler.main, args=(orders, theirs), daemon=True)
        process.start()
        theirs.close()
        if life_s is not None:
            ready.poll(PATIENCE_S)
            process.join(life_s)
            self._kill(process)
        elif happened is not None:
            while process.is_alive() and not happened():
                process.join(0.005)
            self._kill(process)
        process.join(PATIENCE_S)
        code = process.exitcode
        process.close()
        ready.close()
        if code != KILLED:
            assert code == 0, f"the crawl ended with {code}"
            return False
        if orders.crash_at is not None:
            self.killed_at.append(time.monotonic())
        self.deaths[orders.crash_at or "moment"] += 1
        self.look()
        return True

    def _kill(self, process: ForkServerProcess) -> None:
        self.killed_at.append(time.monotonic())
        process.kill()

    # -- looking

    def look(self) -> Known:
        """Open the file as it was left, and check all that must hold at any time."""
        with DuckDBStore.open(self.orders.file) as store:
            cursor = store.database.connect()
            jobs = store.jobs()
            tables = cursor.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'pages'").fetchall()
            found = cursor.execute("SELECT url, content_hash FROM pages").fetchall() if tables[0][0] else []
            known = Known(
                counts=store.counts(jobs[0].id) if jobs else Counts(),
                rows=dict(found),
            )
            violations = audit(cursor).violations
            cursor.close()
        assert len(jobs) <= 1
        assert len(found) == len(known.rows), "a URL has two rows"
        assert len(found) == known.counts.final, "rows and final tasks differ"
        assert known.counts.running == 0
        assert violations == ()
        self._no_acknowledged_row_is_lost(known.rows)
        self.known.append(known)
        return known

    def _no_acknowledged_row_is_lost(self, rows: dict[str, str | None]) -> None:
        with suppress(FileNotFoundError):
            for line in Path(self.orders.acked).read_text(encoding="utf-8").splitlines():
                url, _, digest = line.partition(" ")
                assert rows.get(url, "no row") == digest, f"{url} was acknowledged"
