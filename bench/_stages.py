"""Processor time by stage: methods are wrapped with the clock of their thread, and each counts only what is its own."""

from __future__ import annotations

import functools
import threading
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from inspect import iscoroutinefunction
from typing import Any

import amble.core.page.guard as guard_module
import amble.core.page.page as page_module
import amble.core.page.tree as tree_module
import amble.workers.errand as errand_module
from amble.core.frontier.frontier import Frontier
from amble.core.frontier.plan import CrawlPlan
from amble.core.pacing.pace import Pace
from amble.core.robots.book import RobotsBook
from amble.core.scope import Scope
from amble.crawl import Crawl
from amble.fetcher.fetcher import Fetcher
from amble.fetcher.multi import Multi
from amble.jobs.job import Job
from amble.store.writer import Writer

STAGES: dict[str, list[tuple[Any, str]]] = {
    "fetch": [(Fetcher, "start"), (Fetcher, "_fetch"), (Multi, "_on_ready"), (Multi, "_on_time")],
    "loop": [(Crawl, "_dispatch"), (Crawl, "_sent"), (Crawl, "_landed"), (errand_module.UnderWay, "fetched")],
    "page: plain": [(page_module, "read_plain")],
    "page: guard": [(guard_module, "is_calm")],
    "page: tree": [(tree_module, "read_tree")],
    "page: links": [(page_module, "collect_links")],
    "page: rest": [(errand_module, "read_page")],
    "robots": [(RobotsBook, "verdict"), (RobotsBook, "learn")],
    "pacing": [(Pace, "reserve"), (Pace, "settle"), (Pace, "sent")],
    "scope": [(Scope, "judge"), (Scope, "judge_link")],
    "frontier": [(Frontier, "next_ready"), (CrawlPlan, "settle"), (CrawlPlan, "start")],
    "rows": [(Job, "_on_changes")],
    "store: hand over": [(Writer, "submit")],
    "store: writer thread": [(Writer, "_run")],
}


class Stages:
    """What each stage used, exclusive of the stages it called."""

    def __init__(self) -> None:
        self.used_s: dict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._local = threading.local()
        self._began_s = 0.0

    def install(self) -> None:
        self._began_s = time.thread_time()
        for stage, places in STAGES.items():
            for owner, name in places:
                setattr(owner, name, self._wrapped(stage, getattr(owner, name)))

    def account(self, crawl_cpu_s: float) -> dict[str, float]:
        """Seconds by stage. What no stage claims is the event loop's, or DuckDB's in threads of its own."""
        writer_s = self.used_s["store: writer thread"]
        loop_s = time.thread_time() - self._began_s
        staged_s = sum(self.used_s.values()) - writer_s
        rest = {"event loop and tasks": loop_s - staged_s, "store: DuckDB's threads": crawl_cpu_s - loop_s - writer_s}
        return {**self.used_s, **rest}

    def _enter(self) -> list[float]:
        stack: list[float] = self._local.__dict__.setdefault("stack", [])
        stack.append(0.0)
        return stack

    def _leave(self, stage: str, began: float, stack: list[float]) -> None:
        took_s = time.thread_time() - began
        self.used_s[stage] += took_s - stack.pop()
        if stack:
            stack[-1] += took_s

    def _wrapped(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if iscoroutinefunction(function):
            return self._wrapped_coroutine(stage, function)

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.calls[stage] += 1
            stack, began = self._enter(), time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._leave(stage, began, stack)

        return timed

    def _wrapped_coroutine(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Every stretch between two waits is counted, the waits are not."""

        @functools.wraps(function)
        @types.coroutine
        def timed(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            self.calls[stage] += 1
            coroutine = function(*args, **kwargs)
            step, value = coroutine.send, None
            while True:
                stack, began = self._enter(), time.thread_time()
                try:
                    waited_for = step(value)
                except StopIteration as end:
                    return end.value
                finally:
                    self._leave(stage, began, stack)
                try:
                    step, value = coroutine.send, (yield waited_for)
                except BaseException as error:
                    step, value = coroutine.throw, error

        return timed
