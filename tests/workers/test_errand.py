"""What a worker does with an errand: pages are read, all else is brought as it came."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from functools import partial
from typing import Any

import pytest

import amble.workers.errand as errand_module
from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.core.page.page import Page, read_page
from amble.fetcher import FetchRequest, FetchResult
from amble.fetcher.calls import awaited
from amble.workers.errand import Errand, Errands, Visited, Wants
from amble.workers.visitor import TaskFetch

HTML = Headers([("Content-Type", "text/html")])
BODY = b"<title>t</title><a href=/x>x</a>"
WANTS = Wants("amble", 100)


class Canned(TaskFetch):
    """Answers everything alike, and keeps what it was asked."""

    def __init__(self, status: int = 200, headers: Headers = HTML, body: bytes = BODY) -> None:
        self._answer = status, headers, body
        self.asked: list[FetchRequest] = []

    async def fetch(self, request: FetchRequest) -> FetchResult:
        self.asked.append(request)
        status, headers, body = self._answer
        refused = request.keep_body(status, headers) if request.keep_body is not None else None
        return FetchResult(request.url, status, headers, None if refused else body, failure=refused)


def run(fetch: Canned, errand: Errand, wants: Wants = WANTS) -> Visited:
    async def wait() -> Visited | None:
        visited: Visited | None = await awaited(partial(Errands(fetch, wants).run, errand, lambda _: None))
        return visited

    visited = asyncio.run(wait())
    assert visited is not None
    return visited


@pytest.mark.parametrize(
    ("story", "errand", "answer", "is_read"),
    [
        ("a page", Errand("http://a.test/"), {}, True),
        ("a page that is not there", Errand("http://a.test/"), {"status": 404}, False),
        ("a sitemap, read by whoever decides", Errand("http://a.test/s.xml", is_page=False), {}, False),
    ],
)
def test_only_pages_are_read(story: str, errand: Errand, answer: dict[str, Any], is_read: bool) -> None:
    visited = run(Canned(**answer), errand)
    assert isinstance(visited.reading, Page) is is_read, story
    assert visited.result.body == BODY


def test_what_is_asked_is_what_the_errand_says() -> None:
    fetch = Canned()
    run(fetch, Errand("http://a.test/robots.txt", False, '"e"', "Mon", "b.test", 5_000, True))
    [asked] = fetch.asked
    assert (asked.url, asked.etag, asked.last_modified, asked.found_on) == (
        "http://a.test/robots.txt", '"e"', "Mon", "b.test",
    )  # fmt: skip
    assert (asked.body_bytes_max, asked.keep_prefix, asked.keep_body) == (5_000, True, None)


def test_a_kind_of_body_that_is_not_wanted_is_not_kept() -> None:
    visited = run(Canned(), Errand("http://a.test/"), Wants("amble", 100, reject=("text/*",)))
    assert visited.result.failure is Failure.CONTENT_TYPE_REJECTED
    assert visited.reading is None


@pytest.mark.parametrize(("long_bytes", "beside"), [(len(BODY), False), (len(BODY) - 1, True)])
def test_a_long_page_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch, long_bytes: int, beside: bool) -> None:
    read_by: list[threading.Thread] = []

    def noted(*args: Any, **kwargs: Any) -> Page:
        read_by.append(threading.current_thread())
        return read_page(*args, **kwargs)

    monkeypatch.setattr(errand_module, "LONG_PAGE_BYTES", long_bytes)
    monkeypatch.setattr(errand_module, "read_page", noted)
    assert run(Canned(), Errand("http://a.test/")).reading is not None
    assert [thread is not threading.main_thread() for thread in read_by] == [beside]


def test_our_own_fault_is_told_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Page:
        raise ZeroDivisionError

    monkeypatch.setattr(errand_module, "read_page", broken)
    with pytest.raises(ZeroDivisionError):
        run(Canned(), Errand("http://a.test/"))


def test_a_worker_imports_nothing_that_decides() -> None:
    """Each one that begins would pay for it."""
    says = "import sys, amble.workers.process; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True).stdout.split()
    decide = ("amble.core.frontier", "amble.core.pacing", "amble.core.robots", "amble.store", "duckdb")
    assert [name for name in modules if name.startswith(decide)] == []
