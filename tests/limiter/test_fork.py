"""A process that is forked while threads use a limiter: the child has it whole, and to itself."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable

import pytest

from amble import Limiter
from amble.core.pacing.settings import PacingSettings
from tests.limiter.helpers import FREE, URL

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks on this system")
PATIENCE_S = 30


def in_child(step: Callable[[], None]) -> int:
    """The exit status of a child that takes this step; one that hangs is ended by its own alarm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # to fork a process with threads, from Python 3.12 on
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            threading.Timer(PATIENCE_S, lambda: os._exit(2)).start()
            step()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_forked_while_threads_use_a_limiter_can_use_it() -> None:
    limiter = Limiter(**{**FREE, "shards": 1})
    over = threading.Event()

    def use() -> None:
        while not over.is_set():
            with limiter.permit_sync(URL) as permit:
                permit.settle(status=200)

    def ask() -> None:
        with limiter.permit_sync(URL) as permit:
            permit.settle(status=200)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert [in_child(ask) for _ in range(25)] == [0] * 25
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE_S)


def test_a_lock_that_another_thread_held_is_free_in_the_child() -> None:
    """However long it holds it: the fork waits for that, so that what the child finds is whole."""
    limiter = Limiter(**{**FREE, "shards": 1})
    shard = limiter._shards[0]
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with shard.lock:
            held.set()
            go_on.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(PATIENCE_S)
    assert in_child(lambda: limiter.permit_sync(URL).cancel()) == 0
    go_on.set()
    thread.join(PATIENCE_S)


def test_permits_and_waiters_of_the_parent_are_not_the_childs() -> None:
    limiter = Limiter(**{**FREE, "max_parallel_per_domain": 1})
    permit = limiter.permit_sync(URL)
    waiting = threading.Thread(target=lambda: limiter.permit_sync(URL).cancel())
    waiting.start()
    while limiter.snapshot().waiting == 0:
        pass

    def look() -> None:
        found = limiter.snapshot()
        assert (found.in_flight, found.waiting) == (0, 0)
        assert limiter.try_permit(URL) is not None

    assert in_child(look) == 0
    assert limiter.snapshot().in_flight == 1
    permit.settle(status=200)
    waiting.join(PATIENCE_S)


def test_parent_and_child_share_the_pace_of_a_domain() -> None:
    limiter = Limiter(PacingSettings(pacing="fixed", fixed_delay=100.0))
    assert limiter.try_permit(URL) is not None

    def ask() -> None:
        assert Limiter(PacingSettings(pacing="fixed", fixed_delay=100.0)).try_permit(URL) is None
        assert limiter.try_permit("https://b.test/") is not None

    assert in_child(ask) == 0
    assert limiter.try_permit("https://b.test/") is None, "the child has asked"
