"""What is tried again, when, and at whose expense: the table of retries, and the ends of domains [F5, F6, L3]."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from amble.core.frontier.changes import State
from amble.core.outcome import Failure
from amble.core.pacing.events import Paused
from tests.core.frontier.story import (
    DOWN,
    FREE,
    LIMITED,
    MISSING,
    NOON,
    OK,
    Answers,
    Reply,
    Story,
    broken,
    page,
    sitemap,
    status,
)

A_ROBOTS = "http://a.test/robots.txt"
X, Y, Z = "http://a.test/x", "http://a.test/y", "http://a.test/z"
PATIENT: dict[str, Any] = {"consecutive_fail_threshold": 1_000, "min_samples_to_trip": 1_000}  # no breaker
FOREIGN = broken(Failure.NETWORK_TLS_ERROR, untrusted=True)
GONE = broken(Failure.NETWORK_DNS_FAILURE, dns_error="no_such_name")


@pytest.mark.parametrize(
    ("why", "answer", "tries", "end"),
    [
        ("a limit is retried", LIMITED, 4, "http_rate_limited"),
        ("a challenge page is, not bypassed", status(200, cf_mitigated="challenge"), 4, "blocked_by_bot_protection"),
        ("even one that calls itself forbidden", status(403, cf_mitigated="challenge"), 4, "blocked_by_bot_protection"),
        ("server errors are retried", status(500), 4, "http_server_error"),
        ("and overload that says until when", status(503, Retry_After="2"), 4, "http_server_error"),
        ("timeouts", broken(Failure.NETWORK_TIMEOUT), 4, "network_timeout"),
        ("resets", broken(Failure.NETWORK_RESET), 4, "network_reset"),
        ("refused connections", broken(Failure.NETWORK_CONNECTION_REFUSED), 4, "network_connection_refused"),
        ("answers that are no HTTP", broken(Failure.NETWORK_PROTOCOL_ERROR), 4, "network_protocol_error"),
        ("a resolver that fails", broken(Failure.NETWORK_DNS_FAILURE, dns_error="try_again"), 4, "network_dns_failure"),
        ("a name that does not exist: once more", GONE, 2, "network_dns_failure"),
        ("a certificate that is another's: once more", FOREIGN, 2, "network_tls_error"),
        ("a handshake that failed", broken(Failure.NETWORK_TLS_ERROR), 4, "network_tls_error"),
        ("forbidden is an answer", status(403), 1, "http_client_error"),
        ("missing is an answer", MISSING, 1, "http_client_error"),
        ("too large", Reply(200, None, (), Failure.CONTENT_TOO_LARGE), 1, "content_too_large"),
        ("a type that is not wanted", Reply(200, None, (), Failure.CONTENT_TYPE_REJECTED), 1, "content_type_rejected"),
        ("a body nobody can decode", Reply(200, None, (), Failure.CONTENT_DECODE_ERROR), 1, "content_decode_error"),
        ("a forbidden address", broken(Failure.ADDRESS_FORBIDDEN), 1, "address_forbidden"),
    ],
)  # fmt: skip
def test_the_table_of_retries_l3(why: str, answer: Reply, tries: int, end: str) -> None:
    story = Story([X], {A_ROBOTS: FREE, X: answer}, max_retries=3, **PATIENT).run()
    assert (len(story.times(X)), story.ends()[X]) == (tries, end)
    assert story.finals[X].visit.attempt == tries
    assert story.finals[X].fetched is not None


@pytest.mark.parametrize("max_retries", [0, 1, 5])
def test_a_url_has_its_tries_and_no_more_l1(max_retries: int) -> None:
    story = Story([X], {X: status(500)}, max_retries=max_retries, **PATIENT).run()
    assert len(story.times(X)) == 1 + max_retries
    story = Story([X], {X: [*[status(500)] * max_retries, OK]}, max_retries=max_retries, **PATIENT).run()
    assert story.ends() == {X: "done"}


def test_statuses_may_be_added_to_those_that_are_retried() -> None:
    story = Story([X, Y], {X: [status(403), OK], Y: status(404)}, retry_statuses=(403,)).run()
    assert story.ends() == {X: "done", Y: "http_client_error"}
    assert (len(story.times(X)), len(story.times(Y))) == (2, 1)


def test_failures_wait_longer_each_time() -> None:
    """Fibonacci seconds after each answer, unless the domain's own timing is later."""
    story = Story([X], {X: status(500)}, max_retries=6, fixed_delay=0.1, **PATIENT).run()
    first, *later = story.times(X)
    assert [round(at - first, 3) for at in later] == [1.0, 2.0, 4.0, 7.0, 12.0, 20.0]


def test_exponential_waits_are_jittered_in_full() -> None:
    story = Story(
        [X], {X: status(500)}, random=lambda: 0.5, max_retries=4, fixed_delay=0.0, retry_backoff="exponential",
        retry_base_delay=2.0, **PATIENT,
    ).run()  # fmt: skip
    first, *later = story.times(X)
    assert [at - first for at in later] == [1.0, 3.0, 7.0, 15.0]


def test_retries_wait_for_a_domain_that_is_slower_than_they_are() -> None:
    story = Story([X], {X: [status(500), OK]}, fixed_delay=30.0, **PATIENT).run()
    assert story.gaps("a.test") == [30.0, 30.0]


def test_the_others_go_on_while_one_url_waits_for_its_retry() -> None:
    """Retries are queued, never slept on."""
    story = Story([X, Y, Z], {A_ROBOTS: FREE, X: [status(500), status(500), status(500), OK], Y: OK, Z: OK}).run()
    assert [asked.url[-1] for asked in story.asked] == ["t", "x", "y", "z", "x", "x", "x"]
    assert set(story.ends().values()) == {"done"}


# --- Limits ----------------------------------------------------------------------------------------------------------


def test_a_limited_url_returns_when_the_block_ends_and_the_others_lose_no_try() -> None:
    story = Story([X, Y, Z], {A_ROBOTS: FREE, X: [status(429, Retry_After="40"), OK], Y: OK, Z: OK}).run()
    limited_at, _ = story.times(X)
    after = [asked for asked in story.asked if asked.at > limited_at]
    assert after[0].at - limited_at == pytest.approx(40.0, abs=0.1)
    assert {asked.url: asked.visit.attempt for asked in after} == {X: 2, Y: 1, Z: 1}


def test_a_storm_of_limits_costs_each_url_one_try_and_the_domain_one_block_f5() -> None:
    urls = [f"http://a.test/{number}" for number in range(32)]
    web: dict[str, Answers] = {url: [status(429, Retry_After="60"), OK] for url in urls}
    story = Story(
        urls, {A_ROBOTS: FREE} | web, took_s=5.0, fixed_delay=0.0, max_parallel_per_domain=32
    ).run()  # fmt: skip
    assert set(story.ends().values()) == {"done"}
    assert all(len(story.times(url)) == 2 for url in urls)
    sent_first = max(story.times(url)[0] for url in urls)
    assert min(story.times(url)[1] for url in urls) >= sent_first + 5.0 + 60.0


def test_a_domain_blocked_for_longer_than_a_job_waits_hands_its_urls_back() -> None:
    """A Retry-After of a day: deferred at once, not after a day, and nothing is asked meanwhile."""
    story = Story([X, Y, "http://b.test/"], {X: status(429, Retry_After="86400"), "http://b.test/": OK}).run()
    assert story.end(X) == story.end(Y) == ("deferred", "http_rate_limited")
    assert (story.finals[X].state, story.finals[X].visit.attempt) == (State.DEFERRED, 2)
    assert (len(story.times(X)), story.times(Y), story.end("http://b.test/")[0]) == (1, [], "done")
    assert story.now < 60


def test_what_is_found_at_a_blocked_domain_later_is_handed_back_too() -> None:
    seeds = [X, "http://b.test/"]
    web: dict[str, Answers] = {
        X: status(429, Retry_After="86400"), "http://b.test/": page("/1"),
        "http://b.test/1": page(Y), "http://b.test/robots.txt": FREE,
    }  # fmt: skip
    story = Story(seeds, web, follow_links=True).run()
    assert story.end(Y) == ("deferred", "http_rate_limited")
    assert story.ended_at[Y] > story.ended_at[X]


def test_a_domain_that_stays_blocked_is_handed_back_in_the_end_f6() -> None:
    """429 for ever: blocks grow, and after so many seconds without a success the job need not wait."""
    urls = [f"http://a.test/{number}" for number in range(50)]
    web = {A_ROBOTS: FREE} | dict.fromkeys(urls, LIMITED)
    story = Story(urls, web, domain_stall_timeout=600.0, max_retries=100).run()
    assert {final.state for final in story.finals.values()} == {State.DEFERRED}
    assert 300.0 <= story.now <= 620.0


def test_a_success_lets_a_domain_be_blocked_anew() -> None:
    """Stalls do not add up over successes: 20 blocks of 100 s are not one of 2,000."""
    urls = [f"http://a.test/{number}" for number in range(20)]
    answers = cycle([status(429, Retry_After="100"), OK])
    web: dict[str, Answers] = dict.fromkeys(urls, lambda url: next(answers))
    story = Story(urls, {A_ROBOTS: FREE} | web, domain_stall_timeout=150.0).run()
    assert set(story.ends().values()) == {"done"}
    assert story.now > 2_000


def test_a_dead_domain_is_handed_back_with_what_was_wrong() -> None:
    urls = [f"http://a.test/{number}" for number in range(50)]
    web = {A_ROBOTS: FREE} | dict.fromkeys(urls, broken(Failure.NETWORK_RESET))
    story = Story(urls, web, domain_stall_timeout=120.0).run()
    assert {story.end(url) for url in urls} == {("deferred", "network_reset")}


# --- Domains that are given up ---------------------------------------------------------------------------------------


def test_too_many_failures_in_a_row_end_a_domain_and_no_other() -> None:
    urls = [f"http://a.test/{number}" for number in range(10)]
    other = [f"http://b.test/{number}" for number in range(10)]
    web = dict.fromkeys([A_ROBOTS, *other], OK) | dict.fromkeys(urls, status(500))
    story = Story([*urls, *other], web, job_failure_threshold=4, max_retries=0, **PATIENT).run()
    asked = [url for url in urls if story.times(url)]
    assert (len(asked), {story.end(url) for url in asked}) == (4, {("failed", "http_server_error")})
    assert {story.end(url) for url in urls if url not in asked} == {("failed", "domain_given_up")}
    assert story.finals[urls[-1]].reason == "4 URLs of this domain failed in a row, the last with http_server_error"
    assert {story.ends()[url] for url in other} == {"done"}


def test_any_success_resets_the_count() -> None:
    urls = [f"http://a.test/{number}" for number in range(20)]
    web: dict[str, Answers] = {url: OK if number % 4 == 3 else status(500) for number, url in enumerate(urls)}
    story = Story(urls, web, job_failure_threshold=4, max_retries=0, **PATIENT).run()
    assert all(story.times(url) for url in urls)


@pytest.mark.parametrize(
    ("why", "answer", "is_counted"),
    [
        ("a dead link", MISSING, False),
        ("a page that is gone", status(410), False),
        ("one for members", status(401), False),
        ("a type that the user rejected", Reply(200, None, (), Failure.CONTENT_TYPE_REJECTED), False),
        ("a body over the limit", Reply(200, None, (), Failure.CONTENT_TOO_LARGE), False),
        ("forbidden, perhaps all of it", status(403), True),
        ("trouble of the server's", status(500), True),
        ("no answer", broken(Failure.NETWORK_RESET), True),
    ],
)
def test_an_index_with_dead_links_before_its_pages_i20_1(why: str, answer: Reply, is_counted: bool) -> None:
    """What speaks of one URL alone neither adds to the failures in a row nor resets them."""
    dead, pages = [[f"http://a.test/{what}/{number}" for number in range(25)] for what in ("dead", "page")]
    web: dict[str, Answers] = {X: page(*dead, *pages), **dict.fromkeys(dead, answer), **dict.fromkeys(pages, OK)}
    story = Story([X], web, follow_links=True, max_retries=0, open_state_duration=0.5, **PATIENT).run()
    assert all(story.ends()[url] == "domain_given_up" for url in pages) is is_counted
    assert sum(story.ends()[url] == "done" for url in pages) == (0 if is_counted else 25)


def test_a_dead_link_resets_no_count() -> None:
    urls = [f"http://a.test/{number}" for number in range(20)]
    web: dict[str, Answers] = {url: MISSING if number % 2 else status(500) for number, url in enumerate(urls)}
    story = Story(urls, web, job_failure_threshold=4, max_retries=0, **PATIENT).run()
    assert [url for url in urls if story.times(url)] == urls[:7]


def test_a_type_that_is_not_wanted_is_skipped_i20_2() -> None:
    pdfs, pages = [
        [f"http://a.test/{number}.{what}" for number in range(count)] for what, count in (("pdf", 60), ("x", 10))
    ]
    pdf = Reply(200, None, (("Content-Type", "application/pdf"),), Failure.CONTENT_TYPE_REJECTED)
    web: dict[str, Answers] = {X: page(*pdfs, *pages), **dict.fromkeys(pdfs, pdf), **dict.fromkeys(pages, OK)}
    story = Story([X], web, follow_links=True, **PATIENT).run()
    assert {story.end(url) for url in pdfs} == {("skipped", "content_type_rejected")}
    assert {story.end(url) for url in pages} == {("done", None)}


def test_a_domain_that_was_given_up_is_not_asked_again_for_what_is_found_there_later() -> None:
    seeds = [X, "http://b.test/"]
    web: dict[str, Answers] = {
        X: status(500), "http://b.test/": page("/1"), "http://b.test/1": page("/2"), "http://b.test/2": page(Y, Z),
    }  # fmt: skip
    story = Story(seeds, web, follow_links=True, job_failure_threshold=1, max_retries=0).run()
    assert story.end(X) == ("failed", "http_server_error")
    assert story.end(Y) == story.end(Z) == ("failed", "domain_given_up")
    assert story.times(Y) == story.times(Z) == []


@pytest.mark.parametrize("pacing", ["linear", "gauge", "aimd", "fibonacci", "fixed"])
def test_a_streak_of_limits_at_the_longest_delay_ends_a_domain_if_set(pacing: str) -> None:
    """F6: off by default; the trials that are refused before the pauses have become longest do not count."""
    urls = [f"http://a.test/{number}" for number in range(300)]
    web = {A_ROBOTS: FREE} | dict.fromkeys(urls, LIMITED)
    wanted: dict[str, Any] = {"pacing": pacing, "max_retries": 100, "domain_stall_timeout": 604_800.0, **PATIENT}
    story = Story(urls[:30], web, cancel_on_limit_streak=5, max_adaptive_delay=20.0, **wanted).run()
    assert {story.end(url) for url in urls[:30]} == {("deferred", "cancelled")}
    assert story.finals[urls[0]].reason == "5 refusals in a row at the longest delay"
    gaps = story.gaps("a.test")
    assert min(gaps[-4:]) >= 20.0
    assert sum(gap >= 20.0 for gap in gaps) <= 6  # no longer than it had to
    assert Story(urls[:3], web, **wanted).run(until=5_000.0).finished is False


@pytest.mark.parametrize(
    ("asked", "reply", "ends", "kept_s"),
    [
        (864_000, status(429, Retry_After="864000"), {X: "deferred", Y: "deferred"}, 86_400.0),
        (86_399, status(429, Retry_After="86399"), {X: "done", Y: "done"}, None),
        (864_000, status(302, Location="/z", Retry_After="864000"), {X: "done", Y: "deferred"}, 86_400.0),
    ],
    ids=["ten days", "not quite a day", "ten days on a redirect"],
)
def test_a_retry_after_of_days_is_kept_for_one_and_no_job_waits_for_it(
    asked: int, reply: Reply, ends: dict[str, str], kept_s: float | None
) -> None:
    """However long a job waits for others; what is kept of it is said."""
    web: dict[str, Answers] = {A_ROBOTS: FREE, X: [reply, OK], Y: OK, Z: OK}
    story = Story([X, Y], web, domain_stall_timeout=604_800.0).run()
    assert {url: str(story.finals[url].state) for url in (X, Y)} == ends
    pauses = [event for event in story.events if isinstance(event, Paused) and "max_retry_after" in event.reason]
    assert [event.wait_s for event in pauses] == ([] if kept_s is None else [kept_s])
    left_s = story.plan.frontier.registry.pace("a.test", story.now, NOON).blocked_until - story.now
    if kept_s is None:
        assert story.now > asked
    else:
        assert kept_s <= left_s <= 1.03 * kept_s
        assert story.now < 60


def test_a_success_ends_a_streak_of_limits() -> None:
    web: dict[str, Answers] = {A_ROBOTS: FREE, X: [*[LIMITED] * 30, page(Y)], Y: [*[LIMITED] * 30, OK]}
    story = Story(
        [X], web, pacing="linear", max_adaptive_delay=3.0, cancel_on_limit_streak=40, max_retries=100,
        follow_links=True, **PATIENT,
    ).run()  # fmt: skip
    assert story.ends() == {X: "done", Y: "done"}


# --- Sitemaps --------------------------------------------------------------------------------------------------------


def test_a_sitemap_is_retried_while_pages_wait_for_it() -> None:
    """The retry lies in the future and the pages are due: neither may wait for the other for ever."""
    story = Story(
        ["http://a.test/"],
        {"http://a.test/": OK, "http://a.test/sitemap.xml": [DOWN, sitemap(X)], X: OK},
    ).run()
    assert story.ends() == {"http://a.test/": "done", X: "done"}


def test_a_sitemap_that_lies_at_a_blocked_domain_is_not_waited_for() -> None:
    web: dict[str, Answers] = {
        A_ROBOTS: Reply(200, b"Sitemap: http://maps.test/a.xml"), "http://a.test/": page("/x"), X: OK,
        "http://maps.test/robots.txt": status(429, Retry_After="90000"),
    }  # fmt: skip
    story = Story(["http://a.test/"], web).run()
    assert story.ends() == {"http://a.test/": "done", X: "done"}
    assert story.now < 60
