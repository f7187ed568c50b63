"""Who answers for a file that is being crawled: questions from its store, orders to its running jobs."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict
from typing import Any

from amble.control.channel import PATIENCE_S, Listener
from amble.control.progress import domain_now, look, pages_under_way, workers_of
from amble.control.questions import QUESTIONS
from amble.core.checked import nearest_hint
from amble.core.urls import domain_of
from amble.errors import StoreError
from amble.jobs.runner import RunningJob, running
from amble.store.duckdb_store import DuckDBStore

ORDERS = ("pause", "resume", "stop")
READERS_MAX = 4  # who look through the whole file at once; an order waits for none of them


class Desk:
    """Listens beside the store's file while it is open; use it as a context. A store in memory has no desk."""

    def __init__(self, store: DuckDBStore) -> None:
        self._store = store
        self._began = time.monotonic()
        self._readers = threading.BoundedSemaphore(READERS_MAX)
        path = store.database.path
        self._listener = None if path is None else Listener(path, self.answer)

    def answer(self, question: str, details: dict[str, Any]) -> Any:
        if question not in QUESTIONS or question == "sql":  # queries have bounds of their own
            return self._answer(question, details)
        if not self._readers.acquire(timeout=PATIENCE_S / 2):
            raise StoreError("others are asking much just now", hint="ask again in a while")
        try:
            return self._answer(question, details)
        finally:
            self._readers.release()

    def _answer(self, question: str, details: dict[str, Any]) -> Any:
        if question == "why":
            domain = domain_of(details["domain"])
            return QUESTIONS["why"](self._store, **details, **self._now(domain, details.get("job")))
        if question == "jobs":
            return [self._as_it_runs(job) for job in QUESTIONS["jobs"](self._store)]
        if question in QUESTIONS:
            return QUESTIONS[question](self._store, **details)
        if question in ORDERS:
            return self._order(question, **details)
        if question == "status":
            return {"pid": os.getpid(), "jobs": [asdict(look(job, self._began)) for job in self._jobs()]}
        known = [*QUESTIONS, *ORDERS, "status"]
        raise StoreError(f"nobody here can answer {question!r}", hint=nearest_hint(question, known))

    def _order(self, order: str, job: int | None = None) -> dict[str, Any]:
        """Told to one running job, or to all of them."""
        jobs = [each for each in self._jobs() if job is None or each.job_id == job]
        if not jobs:
            what = "no job is running" if job is None else f"job {job} is not running"
            raise StoreError(f"{what} in this file", hint="`amble jobs FILE` says how they stand")
        for each in jobs:
            getattr(each, order)()
        return {"jobs": [each.job_id for each in jobs], "pid": os.getpid()}

    def _as_it_runs(self, job: dict[str, Any]) -> dict[str, Any]:
        """What the store calls running is in the crawl's hands; of that, most waits for its turn."""
        each = running(self._store).get(job["job"])
        if each is None:
            return job
        under_way = min(job["running"], pages_under_way(each))
        return job | {"queued": job["queued"] + job["running"] - under_way, "running": under_way}

    def _now(self, domain: str, job: int | None) -> dict[str, Any]:
        """What a running job says of a domain beyond what is stored."""
        for each in self._jobs():
            if job is None or each.job_id == job:
                return {"snapshot": domain_now(each, domain), "workers": workers_of(each.job)}
        return {}

    def _jobs(self) -> list[RunningJob]:
        return list(running(self._store).values())

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
