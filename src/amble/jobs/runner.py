"""Where jobs run: one thread and one event loop for all jobs of this process, steered from any thread.

One loop, so that jobs share the budget of each domain without locks: what one of them settles, the others see at once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # first: at the end of the process its turn must come after ours
import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from amble.errors import AmbleError
from amble.jobs.job import Job, JobResult
from amble.jobs.shared import Shared
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import JobChange, JobStatus

EXIT_GRACE_S = 30.0  # for requests under way when the process ends; then they are handed back


class RunningJob:
    """A job on the engine, in anybody's hands: every method may be called from any thread, and it can be awaited."""

    def __init__(self, engine: Engine, job: Job) -> None:
        self.job = job
        self.job_id = job.row.id
        self._engine = engine
        self._future: Future[JobResult] = Future()
        self._future.set_running_or_notify_cancel()  # whoever gives up waiting does not cancel the job
        self._paused = False
        self._stopping = False
        self.told_to_stop = False

    # -- looking

    @property
    def done(self) -> bool:
        return self._future.done()

    @property
    def result(self) -> JobResult:
        """The counts so far; when it is done, the result."""
        return self.job.result

    @property
    def status(self) -> JobStatus:
        return JobStatus.PAUSED if self._paused and not self.done else self.job.result.status

    def wait(self, timeout_s: float | None = None) -> JobResult:
        """Until the job ends. Raises `TimeoutError` after so long, or what made the job break off."""
        self._engine.refuse_own_thread("wait for a job")
        self._engine.refuse_other_process()
        return self._future.result(timeout_s)

    def await_end(self) -> None:
        """However it ends."""
        concurrent.futures.wait([self._future])

    def __await__(self) -> Generator[Any, None, JobResult]:
        """From any event loop. Giving up waiting leaves the job running."""
        self._engine.refuse_other_process()
        return asyncio.wrap_future(self._future).__await__()

    # -- steering

    def pause(self) -> None:
        """Send nothing more for now. What is under way ends, and the job stays where it is."""
        self._on_engine(self._pause)

    def resume(self) -> None:
        """Go on after a pause."""
        self._on_engine(self._resume)

    def stop(self, now: bool = False) -> None:
        """End the job, to be taken up later: what is under way may end first, or (`now`) is handed back as well."""
        self.told_to_stop = True
        self._on_engine(self._stop_now if now else self._drain)

    # -- on the engine's thread

    def _pause(self) -> None:
        if not self._paused and not self._stopping:
            self._paused = True
            self.job.crawl.pause("user")
            self._record(JobStatus.PAUSED)

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self.job.crawl.resume("user")
            self._record(JobStatus.RUNNING)

    def _drain(self) -> None:
        self._paused = False
        self._stopping = True
        self.job.drain()

    def _stop_now(self) -> None:
        self._paused = False
        self._stopping = True
        self.job.stop()

    def _record(self, status: JobStatus) -> None:
        self.job.store.set_job_state(JobChange(self.job_id, status, self.job.clock.utc()))

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(self._run())  # held here: a loop keeps but a weak reference

    async def _run(self) -> None:
        job = self.job
        try:
            if job.membership is not None:
                job.membership.begin(job.plan, job.clock, job.crawl.wake)
            result = await job.run()
        except BaseException as error:  # whoever waits is told; the engine and its other jobs go on
            self._leave()
            self._future.set_exception(error)
        else:
            self._leave()
            self._future.set_result(result)

    def _leave(self) -> None:
        """Before anybody is told: who then looks finds it gone, and the others have the domains to themselves."""
        self._engine.forget(self)
        if self.job.membership is not None:
            self.job.membership.leave()

    def _on_engine(self, step: Callable[[], None]) -> None:
        self._engine.refuse_other_process()

        def unless_done() -> None:
            if not self.done:
                step()

        if not self.done:
            self._engine.call(unless_done)

    def __repr__(self) -> str:
        return f"<RunningJob {self.job_id} {self.status.value} {self.result.pages} pages>"


class Engine:
    """The thread and its loop. There is one per process; see `engine`."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._jobs: dict[RunningJob, None] = {}
        self.shared = Shared()
        self._loop = new_loop()
        # A daemon: the interpreter must not wait for a crawl that nobody waits for. It is ended politely, below.
        self._thread = threading.Thread(target=self._loop.run_forever, name="amble-engine", daemon=True)
        self._thread.start()

    def run(self, job: Job) -> RunningJob:
        running = RunningJob(self, job)
        with self._lock:
            self._jobs[running] = None
        self.call(lambda: running._begin(self._loop))
        return running

    def jobs(self) -> list[RunningJob]:
        with self._lock:
            return list(self._jobs)

    def forget(self, running: RunningJob) -> None:
        with self._lock:
            self._jobs.pop(running, None)

    def call(self, step: Callable[[], None]) -> None:
        """Do this on the engine's thread: at once if we are on it, else as soon as it comes to it."""
        if threading.current_thread() is self._thread:
            step()
        else:
            self._loop.call_soon_threadsafe(step)

    def close(self) -> None:
        """Let every job drain, so that it can be taken up, and end the thread."""
        for now in (False, True):
            jobs = self.jobs()
            for running in jobs:
                running.stop(now)
            with suppress(KeyboardInterrupt):
                concurrent.futures.wait([running._future for running in jobs], EXIT_GRACE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(EXIT_GRACE_S)

    def refuse_own_thread(self, what: str) -> None:
        if threading.current_thread() is self._thread:
            raise AmbleError(
                f"the engine's own thread cannot {what}: nothing would go on meanwhile",
                hint="listeners and callbacks must not wait; do that on a thread of your own",
            )

    def refuse_other_process(self) -> None:
        if os.getpid() != self._pid:
            raise AmbleError(
                "this job runs in the process that started it", hint="start jobs after a fork, not before it"
            )


_making = threading.Lock()
_engine: Engine | None = None


def engine() -> Engine:
    """The engine of this process, started on first use."""
    global _engine
    with _making:
        if _engine is None:
            _engine = Engine()
        return _engine


def start(
    store: DuckDBStore, seeds: Sequence[str], settings: Settings, table: str = "pages", **ways: Any
) -> RunningJob:
    """A new job, running when this returns. `ways` are those of `Job`. Waits for the disk: not on an event loop."""
    at = engine()
    job = Job.start(store, seeds, settings, table, shared=at.shared, **ways)
    return _run(at, job, alone=not running(store))


def take_up(store: DuckDBStore, job_id: int, **ways: Any) -> RunningJob:
    """An earlier job that did not finish. One that runs already is handed back as it is; one that was told to stop
    is taken up when it has."""
    under_way, at = running(store), engine()
    if job_id in under_way:
        if not under_way[job_id].told_to_stop:
            return under_way[job_id]
        under_way.pop(job_id).await_end()
    job = Job.take_up(store, job_id, shared=at.shared, **ways)
    return _run(at, job, alone=not under_way)


def _run(at: Engine, job: Job, *, alone: bool) -> RunningJob:
    if alone:  # otherwise rows become visible as the first job of the store said
        job.store.store_in_batches(job.settings.visiting.batch_size)
    return at.run(job)


def running(where: DuckDBStore | str | os.PathLike[str]) -> dict[int, RunningJob]:
    """The jobs that run on a store, or on whatever store has a file open, by their id."""
    if _engine is None:
        return {}
    return {handle.job_id: handle for handle in _engine.jobs() if _is_at(handle.job.store, where)}


def _is_at(store: DuckDBStore, where: DuckDBStore | str | os.PathLike[str]) -> bool:
    path = store.database.path
    if isinstance(where, DuckDBStore):
        return store is where or (path is not None and path == where.database.path)
    return path is not None and path == Path(where).absolute()


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one; otherwise a loop that can watch bare sockets."""
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop()
    return uvloop.new_event_loop()


def _forget_after_fork() -> None:
    """The child of a fork has the engine's state and not its thread: it gets an engine of its own when it needs one."""
    global _engine, _making
    _engine, _making = None, threading.Lock()


def _end_with_the_process() -> None:
    if _engine is not None:
        _engine.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
# Before thread pools refuse work and stores are closed: atexit would come too late for what is still under way.
threading._register_atexit(_end_with_the_process)  # type: ignore[attr-defined]
