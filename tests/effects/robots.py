"""What a robots.txt, or the lack of one, leads to under given settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from amble.core.outcome import Failure
from amble.core.robots.book import RobotsBook
from amble.core.robots.policy import RobotsAnswer
from amble.report import plan as report_plan
from amble.settings import Settings

ORIGIN = "https://a.test"
URL = f"{ORIGIN}/page"
HOUR_S = 3_600.0


def book_of(settings: Settings) -> RobotsBook:
    return RobotsBook(settings.robots, settings.fetching.user_agent, lambda: 0.5)


def at_first(settings: Settings) -> Any:
    return book_of(settings).verdict(URL, 0.0)


def with_file(settings: Settings, text: str = "User-agent: *\nCrawl-delay: 90\n", after_s: float = 1.0) -> Any:
    book = book_of(settings)
    book.verdict(URL, 0.0)
    book.learn(ORIGIN, RobotsAnswer(200, body=text.encode()), 0.0)
    return book.verdict(URL, after_s)


def with_a_plan(settings: Settings) -> str:
    """What the plan of a crawl notes of a site that asks for 90 s between requests."""
    plan = SimpleNamespace(follows_links=lambda visit: False)
    explored: Any = SimpleNamespace(late=False, settings=settings, plan=plan)
    return report_plan._note(explored, URL, 0, 90.0)


def with_usage(settings: Settings) -> Any:
    return with_file(settings, "User-agent: *\nContent-Signal: ai-train=no\nAllow: /\n")


def an_hour_later(settings: Settings) -> Any:
    return with_file(settings, after_s=HOUR_S)


def without_answer(settings: Settings) -> list[Any]:
    """Every time it is asked for and times out, for three hours."""
    book = book_of(settings)
    told: list[Any] = []
    now = 0.0
    while now < 3 * HOUR_S:
        verdict = book.verdict(URL, now)
        told.append((round(now, 2), verdict))
        if type(verdict).__name__ == "Ask":
            book.learn(ORIGIN, RobotsAnswer(failure=Failure.NETWORK_TIMEOUT), now)
        now += 5.0
    return told


def with_an_old_copy(settings: Settings) -> Any:
    book = book_of(settings)
    book.verdict(URL, 0.0)
    book.learn(ORIGIN, RobotsAnswer(200, body=b"User-agent: *\nAllow: /\n"), 0.0)
    later = 26 * HOUR_S
    book.verdict(URL, later)
    book.learn(ORIGIN, RobotsAnswer(failure=Failure.NETWORK_TIMEOUT), later)
    return book.verdict(URL, later + 1.0)


def remembered(settings: Settings) -> int:
    """How many of many long files are still known."""
    book = book_of(settings)
    body = ("User-agent: *\n" + "".join(f"Disallow: /{number}*x\n" for number in range(1_000))).encode()
    origins = [f"https://{number}.test" for number in range(12)]
    for origin in origins:
        book.verdict(f"{origin}/", 0.0)
        book.learn(origin, RobotsAnswer(200, body=body), 0.0)
    return sum(type(book.verdict(f"{origin}/", 1.0)).__name__ != "Ask" for origin in origins)
