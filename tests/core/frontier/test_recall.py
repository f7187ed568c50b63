"""Pages that the table holds: not asked for again, followed all the same; or asked whether they have changed [E4]."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from amble.core.frontier.changes import Changes, Keeps, Listing, Ready, State
from amble.core.frontier.recall import Leads, Recall, Stored, conditional, wants_update
from amble.core.frontier.visit import Kind, Visit
from amble.core.outcome import Failure
from amble.core.page.links import Link
from amble.core.sitemap.document import ChangeFreq, SitemapEntry
from tests.core.frontier.story import MISSING, NOON, OK, Answers, Reply, Story, broken, moved, page, sitemap, status

A, ONE, TWO, DEEP = "http://a.test/", "http://a.test/1", "http://a.test/2", "http://a.test/deep"
INDEX, PART, SECOND = "http://a.test/sitemap.xml", "http://a.test/part.xml", "http://a.test/sitemap_index.xml"
UNCHANGED = status(304, ETag='"1"')
WEEK = timedelta(days=7)


def held(*links: str, age: timedelta = timedelta(days=1), etag: str | None = '"1"', **more: object) -> Stored:
    leads = Leads([Link(link, "") for link in links])
    return Stored(200, NOON - age, etag, leads=leads)._replace(**more)  # type: ignore[arg-type]


def crawl(stored: dict[str, Stored], web: dict[str, Answers] | None = None, **settings: object) -> Story:
    wanted: dict[str, Any] = {"follow_links": True, "discover": False, **settings}
    return Story([A], {A: page("/1"), ONE: OK, TWO: OK, DEEP: OK} | (web or {}), stored=stored, **wanted).run()


def test_a_stored_page_is_not_asked_for_and_its_links_are_followed() -> None:
    story = crawl({A: held(ONE, TWO), ONE: held(DEEP)})
    assert story.urls(Kind.PAGE) == [TWO, DEEP]
    assert story.ends() == {A: "skipped", ONE: "skipped", TWO: "done", DEEP: "done"}
    assert (story.finals[A].reason, story.finals[A].keeps) == ("stored already", Keeps.NOTHING)
    assert story.tasks[DEEP].depth == 2


@pytest.mark.parametrize(
    ("leads", "asked"),
    [
        (Leads([Link(ONE, "", ("nofollow",)), Link(TWO, "")]), [TWO]),
        (Leads([Link(ONE, "")], nofollow=True), []),
        (Leads(refresh=ONE), [ONE]),
        (Leads(canonical=ONE), [ONE]),
        (Leads([Link("http://other.test/", "")]), []),
    ],
    ids=["a link marked nofollow", "a page marked nofollow", "a refresh", "a canonical URL", "out of scope"],
)
def test_a_stored_page_leads_where_it_led_when_it_was_read(leads: Leads, asked: list[str]) -> None:
    assert crawl({A: Stored(200, NOON, leads=leads)}, follow_canonical=True).urls(Kind.PAGE) == asked


def test_a_row_that_somebody_deleted_meanwhile_is_fetched_again() -> None:
    story = Story([A], {A: OK}, stored={A: held()}, discover=False)
    story.stored.clear()
    assert story.run().ends() == {A: "done"}


def test_a_stored_redirect_leads_to_its_target() -> None:
    story = crawl({A: held(status=302, final_url=ONE)})
    assert story.urls(Kind.PAGE) == [ONE]
    assert story.ends() == {A: "skipped", ONE: "done"}


def test_a_redirect_to_a_stored_page_ends_there_and_that_page_leads_on() -> None:
    story = crawl({ONE: held(DEEP)}, {A: moved(ONE)})
    assert story.urls(Kind.PAGE) == [A, DEEP]
    assert story.ends() == {A: "done", ONE: "skipped", DEEP: "done"}


# --- Whether it has changed ------------------------------------------------------------------------------------------


def test_a_page_that_has_not_changed_is_confirmed_and_followed() -> None:
    story = crawl({A: held(ONE, TWO)}, {A: UNCHANGED}, update_stale=True)
    assert story.asked[1].visit.etag == '"1"'
    assert (story.end(A), story.finals[A].confirmed, story.finals[A].page) == (("done", None), True, None)
    assert story.urls(Kind.PAGE) == [A, ONE, TWO]


def test_a_page_that_has_changed_is_read_anew() -> None:
    story = crawl({A: held(TWO)}, update_stale=True)
    assert (story.finals[A].confirmed, story.urls(Kind.PAGE)) == (False, [A, ONE])


@pytest.mark.parametrize(
    ("lastmod", "changefreq", "age", "stale"),
    [
        (None, None, timedelta(days=1), False),
        (None, None, WEEK, True),
        (NOON - timedelta(hours=1), None, timedelta(days=1), True),
        (NOON - timedelta(days=2), None, timedelta(days=1), False),
        (None, ChangeFreq.HOURLY, timedelta(hours=2), True),
        (None, ChangeFreq.MONTHLY, timedelta(days=8), False),
    ],
)
def test_what_a_sitemap_lists_is_asked_for_when_that_says_so(
    lastmod: object, changefreq: ChangeFreq | None, age: timedelta, stale: bool
) -> None:
    entry = SitemapEntry(A, lastmod, changefreq)  # type: ignore[arg-type]
    said_now, said_then = Recall(Visit(A), entry), held(age=age, entry=entry)
    assert wants_update(said_now, held(age=age), NOON) is stale
    assert wants_update(Recall(Visit(A)), said_then, NOON) is stale


def test_what_no_sitemap_lists_is_always_asked_for() -> None:
    assert wants_update(Recall(Visit(A)), held(age=timedelta(0)), NOON)


@pytest.mark.parametrize(
    ("validator", "sent"),
    [('"x y"', '"x y"'), ("", None), ('"\u00e9"', None), ('"a\r\nb"', None), ('"a\0"', None), ("x" * 1025, None)],
)
def test_only_validators_that_may_go_back_do(validator: str, sent: str | None) -> None:
    """E4."""
    visit = conditional(Visit(A, task=A), A, held(etag=validator))
    assert (visit.etag, visit.is_conditional) == (sent, sent is not None)


def test_a_validator_belongs_to_the_url_that_gave_it() -> None:
    visit = conditional(Visit(A, task=A), A, held(final_url=ONE))
    assert (visit.etag, visit.stored) == (None, True)


def test_a_redirect_carries_no_validator_over() -> None:
    story = crawl({A: held()}, {A: moved(ONE)}, update_stale=True)
    assert [asked.visit.etag for asked in story.asked if asked.visit.kind is Kind.PAGE] == ['"1"', None]


def test_a_304_that_nobody_asked_for_is_no_page() -> None:
    story = crawl({}, {A: UNCHANGED}, max_retries=1)
    assert (story.end(A), len(story.times(A))) == (("failed", "network_protocol_error"), 2)


@pytest.mark.parametrize(
    ("reply", "state", "keeps"),
    [
        (broken(Failure.NETWORK_TIMEOUT), State.FAILED, Keeps.NOTHING),
        (status(503), State.FAILED, Keeps.NOTHING),
        (MISSING, State.FAILED, Keeps.ALL),
    ],
    ids=["a timeout", "a server error", "gone"],
)
def test_a_page_that_cannot_be_had_again_is_kept_unless_it_is_gone(reply: Reply, state: State, keeps: Keeps) -> None:
    story = crawl({A: held()}, {A: reply}, update_stale=True, max_retries=0)
    assert (story.finals[A].state, story.finals[A].keeps) == (state, keeps)


# --- What a crawl may ask for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "settings", "asked", "left_out"),
    [
        ({}, {}, [A], 1),
        ({A: held(ONE, TWO)}, {}, [ONE], 1),
        ({A: held(ONE, TWO), ONE: held(DEEP)}, {}, [TWO], 1),
        ({A: held(ONE, TWO), ONE: held(DEEP), TWO: held()}, {}, [DEEP], 0),
        ({A: held(ONE, TWO), ONE: held(), TWO: held()}, {}, [], 0),
        ({A: held(ONE, TWO), ONE: held(), TWO: held()}, {"update_stale": True}, [A], 1),
    ],
    ids=["nothing is there", "the seed is", "and a page", "all but one", "everything", "everything, to be updated"],
)
def test_what_the_table_holds_is_in_the_budget_only_when_it_is_asked_for(
    table: dict[str, Stored], settings: dict[str, Any], asked: list[str], left_out: int
) -> None:
    story = crawl(table, max_crawl_pages=1, **settings)
    assert story.urls(Kind.PAGE) == asked
    assert story.left_out.get("max_crawl_pages", 0) == left_out
    assert story.frontier.spent == len(asked)


def test_a_stale_page_that_is_not_in_the_budget_stays_and_is_followed() -> None:
    story = crawl({A: held(ONE), ONE: held(TWO), TWO: held()}, {A: UNCHANGED}, update_stale=True, max_crawl_pages=1)
    assert story.urls(Kind.PAGE) == [A]
    assert story.ends() == {A: "done", ONE: "skipped", TWO: "skipped"}
    assert {story.finals[url].reason for url in (ONE, TWO)} == {"stored already"}


def test_a_deleted_row_that_is_not_in_the_budget_is_not_fetched_again() -> None:
    story = Story([ONE, A], {ONE: OK, A: OK}, stored={A: held()}, discover=False, max_crawl_pages=1)
    story.stored.clear()
    assert story.run().urls(Kind.PAGE) == [ONE]
    assert story.end(A) == ("skipped", "out_of_scope")


def test_a_row_deleted_while_the_server_says_that_it_still_stands_costs_nothing_more() -> None:
    story = Story([A], {A: [UNCHANGED, OK]}, stored={A: held()}, discover=False, update_stale=True, max_crawl_pages=1)
    recall = story.plan.recalled

    def deleted(told: Recall, *rest: Any) -> Changes:
        return recall(told, None if told.fetched else rest[0], *rest[1:])

    story.plan.recalled = deleted  # type: ignore[assignment,method-assign]
    assert story.run().urls(Kind.PAGE) == [A, A]
    assert (story.ends(), story.frontier.spent) == ({A: "done"}, 1)


# --- Stopping in between ---------------------------------------------------------------------------------------------


def test_what_waits_for_the_store_is_handed_back_at_a_stop_and_a_late_word_of_it_is_not_heard() -> None:
    story = Story([A], {}, stored={A: held(ONE)}, discover=False)
    recall = story.frontier.to_recall[0]
    assert not isinstance(story.plan.next_ready(0.0, story.utc, Changes()), Ready)
    story.stop()
    assert story.end(A) == ("deferred", "cancelled")
    assert story.plan.recalled(recall, story.stored[A], 0.0, story.utc) == Changes()
    story.run()


# --- Sitemaps read lately --------------------------------------------------------------------------------------------


def test_a_sitemap_read_lately_is_not_asked_for() -> None:
    listings = {
        INDEX: Listing(INDEX, [SitemapEntry(PART)], is_index=True),
        PART: Listing(PART, [SitemapEntry(ONE), SitemapEntry("http://other.test/")]),
    }
    story = Story([A], {A: page("/2"), ONE: OK, TWO: OK}, listings=listings).run()
    assert story.urls(Kind.SITEMAP) == []
    assert story.ends() == {A: "done", ONE: "done"}


@pytest.mark.parametrize("failure", ["http_client_error", "sitemap_invalid"])
def test_a_sitemap_that_was_not_there_lately_is_not_asked_for_and_links_are_followed(failure: str) -> None:
    listings = {INDEX: Listing(INDEX, failure=failure), SECOND: Listing(SECOND, failure=failure)}
    story = Story([A], {A: page("/2"), TWO: OK, INDEX: sitemap(ONE)}, listings=listings).run()
    assert story.urls(Kind.SITEMAP) == []
    assert story.ends() == {A: "done", TWO: "done"}


def test_a_sitemap_that_listed_nothing_lately_is_one_all_the_same() -> None:
    story = Story([A], {A: page("/2"), TWO: OK}, listings={INDEX: Listing(INDEX)}).run()
    assert story.urls(Kind.SITEMAP) == []
    assert story.ends() == {A: "done"}, "where there is a sitemap, links are not followed"


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (MISSING, "http_client_error"),
        (status(410), "http_client_error"),
        (page("/1"), "sitemap_invalid"),
        (status(403), None),  # may be said to robots, of everything
        (status(503), None),
        (broken(Failure.NETWORK_TIMEOUT), None),
    ],
    ids=["missing", "gone", "a page", "forbidden", "unavailable", "no answer"],
)
def test_what_says_for_a_while_that_there_is_no_sitemap(reply: Reply, failure: str | None) -> None:
    known: list[Listing] = []

    class Told(Story):
        def take(self, changes: Changes, flying: list[Ready] | None = None) -> None:
            known.extend([changes.listing] if changes.listing else [])
            super().take(changes, flying)

    Told([A], {A: OK, INDEX: reply, SECOND: reply}, max_retries=0).run()
    assert [each.failure for each in known if each.sitemap == INDEX] == ([] if failure is None else [failure])


def test_without_one_that_was_read_lately_it_is() -> None:
    story = Story([A], {A: OK, ONE: OK, "http://a.test/sitemap.xml": sitemap(ONE)}).run()
    assert story.urls(Kind.SITEMAP) == ["http://a.test/sitemap.xml"]
    assert story.ends() == {A: "done", ONE: "done"}
