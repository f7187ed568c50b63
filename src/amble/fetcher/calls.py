"""Two ways to wait for one thing: to be called when it is done, or to await it; and from each the other.

Whatever is begun with a callback ends exactly once: with what came of it, or with the error that ended it, which after
`cancel` is a `CancelledError`. Requests are made so, whoever makes them; a task only where somebody has to wait in
between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

Cancel = Callable[[], object]  # ends it if it has not ended; after that it does nothing


class OnDone(Protocol[T_contra]):
    """Told once how it ended: by a result (which may be None), or by an error. Raises nothing."""

    def __call__(self, result: T_contra | None, error: BaseException | None, /) -> None: ...


def ended() -> None:
    """Cancels what has ended. Whoever holds a `Cancel` takes this instead when it does: the two would else hold each
    other, until somebody looks for cyclic garbage."""


async def awaited(begin: Callable[[OnDone[T]], Cancel]) -> T | None:
    """Begin something and wait for it. Whoever is cancelled meanwhile cancels it."""
    future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
    cancel = begin(partial(_fulfil, future))
    try:
        return await future
    except asyncio.CancelledError:
        cancel()
        raise


def _fulfil(future: asyncio.Future[T | None], result: T | None, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(error)


def in_task(work: Coroutine[Any, Any, T | None], on_done: OnDone[T]) -> Cancel:
    """Do something that waits in a task, which lives as long as somebody holds its `Cancel`."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(partial(_tell, on_done))
    return task.cancel


def _tell(on_done: OnDone[T], task: asyncio.Future[T | None]) -> None:
    if task.cancelled():
        on_done(None, asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        on_done(None, error)
    else:
        on_done(task.result(), None)
