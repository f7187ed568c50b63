"""Books of several crawls on one shelf: one asks, the others wait and are told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from amble.core.outcome import Failure
from amble.core.robots.book import RobotsBook
from amble.core.robots.policy import RobotsAnswer
from amble.core.robots.settings import RobotsSettings
from amble.core.robots.shelf import Shelf
from amble.core.robots.verdict import Allowed, Ask, Refused, Wait

A = "https://a.test"
ANSWER = RobotsAnswer(200, body=b"User-agent: *\nDisallow: /no\n", fetched_at=datetime(2026, 1, 1, tzinfo=UTC))


class Scene:
    def __init__(self) -> None:
        shelf = Shelf(1_000_000)
        self.one, self.two = (RobotsBook(RobotsSettings(), "amble/1.0", lambda: 0.5, shelf) for _ in range(2))
        self.told: list[str] = []
        self.one.listen(lambda origin: self.told.append(f"one: {origin}"))
        self.two.listen(lambda origin: self.told.append(f"two: {origin}"))

    def one_asks_and_two_waits(self) -> None:
        assert isinstance(self.one.verdict(f"{A}/", 0.0), Ask)
        assert self.two.verdict(f"{A}/", 0.0) == Wait()


def test_what_one_has_read_the_other_knows_and_keeps_in_its_own_store() -> None:
    scene = Scene()
    scene.one_asks_and_two_waits()
    scene.one.learn(A, ANSWER, 1.0)
    assert scene.told == [f"two: {A}"]
    assert scene.two.verdict(f"{A}/", 1.0) == Allowed()
    assert isinstance(scene.two.verdict(f"{A}/no", 1.0), Refused)
    assert [[row.origin for row in book.dump_changed()] for book in (scene.one, scene.two)] == [[A], [A]]


@pytest.mark.parametrize("gives_up", ["forget_ask", "cancelled", "leave"])
def test_whoever_gives_up_asking_leaves_it_to_the_one_who_waits(gives_up: str) -> None:
    scene = Scene()
    scene.one_asks_and_two_waits()
    if gives_up == "forget_ask":
        scene.one.forget_ask(A)
    elif gives_up == "cancelled":
        scene.one.learn(A, RobotsAnswer(failure=Failure.CANCELLED), 1.0)
    else:
        scene.one.leave()
    assert scene.told == [f"two: {A}"]
    assert isinstance(scene.two.verdict(f"{A}/", 1.0), Ask)


def test_nobody_is_told_of_a_turn_given_back_that_nobody_waited_for() -> None:
    """Else two crawls whose domain is not free would wake each other for ever."""
    scene = Scene()
    assert isinstance(scene.one.verdict(f"{A}/", 0.0), Ask)
    scene.one.forget_ask(A)
    assert scene.told == []


def test_a_book_that_has_left_is_told_nothing() -> None:
    scene = Scene()
    scene.one_asks_and_two_waits()
    scene.two.leave()
    scene.one.learn(A, ANSWER, 1.0)
    assert scene.told == []
