"""Stopping hands everything back, whatever is under way, and a later run goes on with it [L1]."""

from __future__ import annotations

from amble.core.frontier.changes import State
from amble.core.frontier.visit import Kind, Visit
from tests.core.frontier.story import DOWN, FREE, OK, Answers, Story, moved, page, robots, sitemap

A, X = "http://a.test/", "http://a.test/x"
A_ROBOTS, B_ROBOTS = "http://a.test/robots.txt", "http://b.test/robots.txt"
URLS = [f"http://a.test/{number}" for number in range(10)]


def test_what_is_queued_is_handed_back_and_what_is_under_way_may_end() -> None:
    story = Story(URLS, dict.fromkeys(URLS, OK), took_s=0.5)
    story.run(until=3.2)  # robots.txt, two pages, and a third under way
    assert len(story.finals) == 2
    story.stop()
    assert len(story.finals) == 9
    story.run()
    assert sorted(final.state for final in story.finals.values()) == [State.DEFERRED] * 7 + [State.DONE] * 3
    assert set(story.ends().values()) == {"done", "cancelled"}
    assert all(asked.at <= 3.2 for asked in story.asked)


def test_what_the_last_answers_lead_to_is_handed_back_too() -> None:
    """A redirect, a link and a retry that came in while draining: each has a row in the end."""
    web: dict[str, Answers] = {
        URLS[0]: moved("/there"), URLS[1]: page("/found"), URLS[2]: DOWN, A_ROBOTS: robots("Sitemap: /map"),
    }  # fmt: skip
    story = Story(URLS[:3], web, took_s=5.0, fixed_delay=0.0, max_parallel_per_domain=8, follow_links=True)
    story.run(until=6.0)
    story.stop()
    story.run()
    assert story.ends() == {
        URLS[0]: "done", URLS[1]: "done", URLS[2]: "cancelled", "http://a.test/found": "cancelled",
        "http://a.test/there": "cancelled",
    }  # fmt: skip
    assert len(story.urls(Kind.PAGE)) == 3


def test_a_robots_and_a_sitemap_under_way_lead_to_nothing_more() -> None:
    web: dict[str, Answers] = {A_ROBOTS: FREE, "http://b.test/sitemap.xml": sitemap("http://b.test/1")}
    story = Story([A, "http://b.test/", "http://c.test/"], web, took_s=1.0)
    story.run(until=1.5)
    story.web[B_ROBOTS] = FREE
    story.stop()
    story.run()
    assert set(story.ends().values()) == {"cancelled"}
    assert story.now <= 2.0


def test_what_is_under_way_can_be_given_up_as_well() -> None:
    story = Story([A, *URLS], dict.fromkeys([A, *URLS], OK), took_s=9.0)
    story.dispatch()
    story.stop()
    story.cancel_all()
    story.run()
    assert set(story.ends().values()) == {"cancelled"}
    pace = story.frontier.registry.find("a.test")
    assert pace is not None
    assert pace.in_flight == 0


def test_one_robots_given_up_is_asked_for_again() -> None:
    """Nobody may wait for an answer that nobody waits for."""
    story = Story([A], {A: OK}, took_s=5.0, max_parallel_per_domain=2)
    story.run(until=3.0)
    assert story.frontier.lanes["a.test"].held
    story.cancel_all()
    story.run()
    assert (story.ends(), len(story.times(A_ROBOTS))) == ({A: "done"}, 2)


def test_one_sitemap_given_up_ends_the_search_for_it() -> None:
    story = Story([A], {A: OK}, took_s=1.0)
    story.run(until=1.5)
    assert story.asked[-1].visit.kind is Kind.SITEMAP
    story.cancel_all()
    story.run()
    assert story.ends() == {A: "done"}


def test_a_stopped_book_can_be_asked_again() -> None:
    """A robots.txt that waits at another domain when all stops is not being asked for any more."""
    story = Story([A], {A_ROBOTS: moved(B_ROBOTS)}, took_s=1.0)
    story.run(until=0.5)
    story.stop()
    story.run()
    standing = story.frontier.book.standing("http://a.test")
    assert standing is not None
    assert not standing.asking


def test_a_later_run_goes_on_where_the_first_stopped() -> None:
    web: dict[str, Answers] = {URLS[0]: moved("/there"), "http://a.test/there": OK, URLS[1]: [DOWN, OK], URLS[2]: OK}
    first = Story(URLS[:3], web, took_s=0.5)
    first.run(until=2.7)
    first.stop()
    first.run()
    again = Story([], web)
    deferred = [final.visit for final in first.finals.values() if final.state is State.DEFERRED]
    again.plan.scope = first.plan.scope
    again.resume(*(Visit(visit.task, task=visit.task) for visit in deferred))
    again.check()
    again.run()
    assert set(again.ends().values()) == {"done"}
    assert again.ends()["http://a.test/there"] == "done"
    assert URLS[0] not in again.urls(Kind.PAGE), "it has answered: only its target is left"


def test_what_is_resumed_counts_as_accepted_once() -> None:
    story = Story([], {X: OK})
    story.resume(*(Visit(url, task=url) for url in (X, URLS[0], A)))
    story.check()
    assert story.frontier.queued == 3
    assert story.run().frontier.accepted == 3
