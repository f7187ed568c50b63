"""Work of a statement that is no job, on the engine's loop: there it shares the budget of each domain with the jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from amble.jobs.runner import engine
from amble.jobs.shared import Shared

T = TypeVar("T")


class Working(NamedTuple):
    """Work that somebody waits for; `stop` ends it, from any thread."""

    stop: Callable[[], None]


def on_engine(
    work: Callable[[Shared], Coroutine[Any, Any, T]], watch: Callable[[Working | None], None] = lambda _: None
) -> T:
    """Run it and wait. Ctrl-C cancels it, and so can whoever watches: told when it begins, and None at its end."""
    at = engine()
    at.refuse_own_thread("wait for a statement")
    ended: Future[T] = Future()
    begun: list[asyncio.Task[T]] = []

    def settle(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            ended.cancel()
        elif (error := task.exception()) is not None:
            ended.set_exception(error)
        else:
            ended.set_result(task.result())

    def begin() -> None:
        begun.append(asyncio.get_running_loop().create_task(work(at.shared)))  # held: a loop does not
        begun[0].add_done_callback(settle)

    def cancel() -> None:
        for task in begun:
            task.cancel()

    at.call(begin)
    watch(Working(lambda: at.call(cancel)))
    try:
        return ended.result()
    except KeyboardInterrupt:
        at.call(cancel)
        with suppress(CancelledError):
            ended.result()  # what it holds is put down first
        raise
    finally:
        watch(None)
