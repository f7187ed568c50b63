"""The book of origins: who asks for a robots.txt, what everybody else does meanwhile, and what is remembered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from amble.core.outcome import Failure
from amble.core.robots.book import RobotsBook, robots_url_of
from amble.core.robots.parse import BODY_BYTES_MAX
from amble.core.robots.policy import RobotsAnswer, policy_of
from amble.core.robots.settings import RobotsSettings
from amble.core.robots.verdict import Allowed, Ask, Refused, RobotsRow, Verdict, Wait
from amble.errors import SettingsError

A = "https://a.test"
ROBOTS = "https://a.test/robots.txt"
DAY_S = 86_400.0
FETCHED_AT = datetime(2026, 1, 2, tzinfo=UTC)

FREE = RobotsAnswer(200, body=b"")
CLOSED = RobotsAnswer(200, body=b"user-agent: *\ndisallow: /")
DOWN = RobotsAnswer(503)
DISALLOWED = Refused(Failure.ROBOTS_DISALLOWED, "disallowed by robots.txt")


def a_book(jitter: float = 1.0, **settings: Any) -> RobotsBook:
    """`jitter` is what the random number always is: 1.0 makes every wait the longest it can be."""
    return RobotsBook(RobotsSettings(**settings), "amble/1.0 (+https://example.com)", lambda: jitter)


def delay(text: str) -> RobotsAnswer:
    return RobotsAnswer(200, body=f"user-agent: *\ncrawl-delay: {text}".encode())


def ask_and_learn(book: RobotsBook, answer: RobotsAnswer, now: float, origin: str = A) -> None:
    assert isinstance(book.verdict(f"{origin}/x", now), Ask)
    book.learn(origin, answer, now)


# --- One caller asks -----------------------------------------------------------------------------------------------


def test_one_caller_asks_and_a_thousand_wait() -> None:
    """B6: one request for robots.txt, however many URLs wait."""
    book = a_book()
    verdicts = [book.verdict(f"{A}/{n}", 0.0) for n in range(1_000)]
    assert verdicts[0] == Ask(A, ROBOTS)
    assert verdicts[1:] == [Wait()] * 999
    book.learn(A, FREE, 1.0)
    assert [book.verdict(f"{A}/{n}", 1.0) for n in range(1_000)] == [Allowed()] * 1_000


def test_a_turn_given_back_goes_to_the_next() -> None:
    book = a_book()
    assert isinstance(book.verdict(f"{A}/1", 0.0), Ask)
    book.forget_ask(A)
    assert isinstance(book.verdict(f"{A}/2", 0.0), Ask)
    book.learn(A, RobotsAnswer(failure=Failure.CANCELLED), 1.0)  # a cancelled request says nothing: the same
    assert isinstance(book.verdict(f"{A}/3", 1.0), Ask)


def test_forgetting_what_was_never_asked_does_nothing() -> None:
    book = a_book()
    book.forget_ask(A)
    assert len(book) == 0


def test_each_origin_has_its_own_file() -> None:
    """B7: scheme, port and www make another origin; case and default port do not."""
    book = a_book()
    origins = ["https://a.test", "http://a.test", "https://a.test:8443", "https://www.a.test"]
    for origin in origins:
        assert book.verdict(f"{origin}/x", 0.0) == Ask(origin, f"{origin}/robots.txt")
    assert book.verdict("https://A.test:443/x", 0.0) == Wait()
    book.learn(A, CLOSED, 0.0)
    assert book.verdict("https://a.test/x", 0.0) == DISALLOWED
    assert book.verdict("http://a.test/x", 0.0) == Wait()


def test_without_respect_nothing_is_asked() -> None:
    book = a_book(respect_robots_txt=False)
    assert book.verdict(f"{A}/x", 0.0) == Allowed()
    assert len(book) == 0


def test_the_spelling_of_a_url_does_not_get_around_a_rule() -> None:
    book = a_book()
    ask_and_learn(book, RobotsAnswer(200, body="user-agent: *\ndisallow: /ツ\ndisallow: /%7Ejoe".encode()), 0.0)
    assert book.verdict(f"{A}/%e3%83%84/x", 0.0) == DISALLOWED
    assert book.verdict(f"{A}/%7ejoe", 0.0) == DISALLOWED


# --- Delays --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        ("5", Allowed(5.0)),
        ("0", Allowed(0.0)),
        ("60", Allowed(60.0)),
        ("61", Allowed(61.0)),
        ("600", Allowed(600.0)),
        ("601", Refused(Failure.CRAWL_DELAY_TOO_LONG, "robots.txt asks for 601 s between requests")),
        ("86400", Refused(Failure.CRAWL_DELAY_TOO_LONG, "robots.txt asks for 86400 s between requests")),
        ("-5", Allowed()),
        ("1e309", Allowed()),
    ],
)
def test_a_delay_is_kept_as_asked_or_the_url_ends(asked: str, verdict: Verdict) -> None:
    """B8: never shortened."""
    book = a_book()
    ask_and_learn(book, delay(asked), 0.0)
    assert book.verdict(f"{A}/x", 0.0) == verdict


def test_a_disallowed_url_is_disallowed_however_long_the_delay() -> None:
    book = a_book()
    ask_and_learn(book, RobotsAnswer(200, body=b"user-agent: *\ndisallow: /x\ncrawl-delay: 9999"), 0.0)
    assert book.verdict(f"{A}/x", 0.0) == DISALLOWED


def test_a_purpose_the_site_refuses_is_binding() -> None:
    body = b"user-agent: *\ncontent-signal: ai-train=no"
    for purpose, failure in (("ai-train", Failure.ROBOTS_DISALLOWED), ("search", None), (None, None)):
        book = a_book(purpose=purpose)
        ask_and_learn(book, RobotsAnswer(200, body=body), 0.0)
        verdict = book.verdict(f"{A}/x", 0.0)
        assert (verdict.failure if isinstance(verdict, Refused) else None) is failure


# --- Time ----------------------------------------------------------------------------------------------------------


def test_rules_are_asked_for_again_after_a_day_and_hold_for_what_is_queued() -> None:
    """B5, P5: allowed yesterday, disallowed today."""
    book = a_book()
    ask_and_learn(book, RobotsAnswer(200, body=b"", etag='"1"', last_modified="then"), 0.0)
    assert book.verdict(f"{A}/queued", DAY_S - 1) == Allowed()
    assert book.verdict(f"{A}/queued", DAY_S) == Ask(A, ROBOTS, etag='"1"', last_modified="then")
    assert book.verdict(f"{A}/queued", DAY_S) == Wait(), "the old rules are too old even while new ones are on the way"
    book.learn(A, CLOSED, DAY_S + 1)
    assert book.verdict(f"{A}/queued", DAY_S + 1) == DISALLOWED


def test_a_new_delay_holds_from_the_next_url_on() -> None:
    """B5: delay 1 -> 20."""
    book = a_book(robots_max_age=100)
    ask_and_learn(book, delay("1"), 0.0)
    assert book.verdict(f"{A}/x", 99.0) == Allowed(1.0)
    ask_and_learn(book, delay("20"), 100.0)
    assert book.verdict(f"{A}/x", 101.0) == Allowed(20.0)


def test_a_copy_lives_through_some_requests_of_a_slow_domain() -> None:
    """A minute between requests and an age of half a minute: not every request may be for the robots.txt."""
    book = a_book(robots_max_age=30)
    url = f"{A}/x"
    ask_and_learn(book, delay("60"), 0.0)
    kinds = []
    for now in range(60, 600, 60):
        verdict = book.verdict(url, float(now), gap_s=60.0)
        kinds.append(type(verdict))
        if isinstance(verdict, Ask):
            book.learn(A, delay("60"), float(now))
    assert kinds == [Allowed, Allowed, Ask] * 3


def test_a_robots_that_could_not_be_had_because_of_the_network_is_asked_for_again_f9() -> None:
    book = a_book(robots_retries=0)
    url = f"{A}/x"
    ask_and_learn(book, RobotsAnswer(failure=Failure.NETWORK_TIMEOUT), 0.0)
    assert isinstance(book.verdict(url, 1.0), Refused)
    book.pardon(A, 1.0)
    assert isinstance(book.verdict(url, 1.0), Ask)


def test_an_unchanged_file_is_trusted_for_another_day() -> None:
    book = a_book()
    ask_and_learn(book, RobotsAnswer(200, body=b"user-agent: *\ndisallow: /x", etag='"1"'), 0.0)
    ask_and_learn(book, RobotsAnswer(304), DAY_S)
    assert book.verdict(f"{A}/x", 2 * DAY_S - 1) == DISALLOWED
    assert isinstance(book.verdict(f"{A}/x", 2 * DAY_S), Ask)


def test_unchanged_means_nothing_without_a_copy() -> None:
    book = a_book()
    ask_and_learn(book, RobotsAnswer(304), 0.0)
    assert book.verdict(f"{A}/x", 0.0) == Wait(15.0)


# --- Unreachable ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        DOWN,
        RobotsAnswer(500),
        RobotsAnswer(429),
        RobotsAnswer(failure=Failure.NETWORK_TIMEOUT),
        RobotsAnswer(failure=Failure.NETWORK_RESET),
        RobotsAnswer(failure=Failure.NETWORK_DNS_FAILURE),
        RobotsAnswer(failure=Failure.NETWORK_TLS_ERROR),
        RobotsAnswer(200, Failure.CONTENT_DECODE_ERROR),
    ],
    ids=repr,
)
def test_an_origin_that_cannot_be_reached_is_deferred_then_given_up(answer: RobotsAnswer) -> None:
    """B4, P5: nothing is sent but robots retries, and the URLs are neither failed nor lost meanwhile."""
    book = a_book(robots_retries=3)
    now = 0.0
    for wait_s in (15.0, 30.0, 60.0):
        ask_and_learn(book, answer, now)
        assert book.verdict(f"{A}/x", now) == Wait(now + wait_s)
        now += wait_s
    ask_and_learn(book, answer, now)
    assert book.verdict(f"{A}/x", now) == Refused(Failure.ROBOTS_UNREACHABLE, "no robots.txt after 4 tries")
    now += 3_600.0
    ask_and_learn(book, FREE, now)
    assert book.verdict(f"{A}/x", now) == Allowed()


def test_waits_grow_to_their_bound_and_are_spread() -> None:
    longest = a_book(jitter=1.0, robots_retries=100)
    shortest = a_book(jitter=0.0, robots_retries=100)
    for book, factor in ((longest, 1.0), (shortest, 0.5)):
        now = 0.0
        for wait_s in (15, 30, 60, 120, 240, 480, 600, 600):
            ask_and_learn(book, DOWN, now)
            assert book.verdict(f"{A}/x", now) == Wait(now + factor * wait_s)
            now += factor * wait_s


def test_a_success_forgets_the_failures() -> None:
    book = a_book()
    ask_and_learn(book, DOWN, 0.0)
    ask_and_learn(book, DOWN, 15.0)
    ask_and_learn(book, FREE, 45.0)
    ask_and_learn(book, DOWN, 45.0 + DAY_S)
    standing = book.standing(A)
    assert standing is not None
    assert standing.failures == 1


def test_the_server_is_not_asked_before_it_said() -> None:
    book = a_book()
    ask_and_learn(book, RobotsAnswer(429, retry_after_s=1_000.0), 0.0)
    assert book.verdict(f"{A}/x", 0.0) == Wait(1_000.0)


def test_the_last_good_copy_serves_until_it_is_too_old() -> None:
    book = a_book(robots_stale_age=2 * DAY_S, robots_retries=0)
    ask_and_learn(book, RobotsAnswer(200, body=b"user-agent: *\ndisallow: /x"), 0.0)
    ask_and_learn(book, DOWN, DAY_S)
    assert book.verdict(f"{A}/x", DAY_S) == DISALLOWED
    assert book.verdict(f"{A}/y", DAY_S) == Allowed()
    assert isinstance(book.verdict(f"{A}/y", DAY_S + 15), Ask), "but the file is asked for as if there were none"
    book.learn(A, DOWN, 2 * DAY_S + 1)
    assert book.verdict(f"{A}/y", 2 * DAY_S + 1) == Refused(Failure.ROBOTS_UNREACHABLE, "no robots.txt after 2 tries")


def test_no_file_yesterday_is_no_copy_today() -> None:
    """RFC 9309 2.3.1.4 speaks of a cached copy; a 404 leaves none."""
    book = a_book()
    ask_and_learn(book, RobotsAnswer(404), 0.0)
    assert book.verdict(f"{A}/x", 0.0) == Allowed()
    ask_and_learn(book, DOWN, DAY_S)
    assert book.verdict(f"{A}/x", DAY_S) == Wait(DAY_S + 15)


def test_unreachable_may_mean_allowed_if_the_user_says_so() -> None:
    book = a_book(robots_unreachable="allow")
    ask_and_learn(book, DOWN, 0.0)
    assert book.verdict(f"{A}/x", 0.0) == Allowed()
    ask_and_learn(book, CLOSED, 15.0)
    assert book.verdict(f"{A}/x", 15.0) == DISALLOWED, "it is asked for all the same, and obeyed when it comes"


# --- Redirects -----------------------------------------------------------------------------------------------------


def follow(book: RobotsBook, locations: list[str | None]) -> list[str | None]:
    """The URLs that the caller is told to fetch, after the first; None where the chain ended."""
    assert isinstance(book.verdict(f"{A}/x", 0.0), Ask)
    told: list[str | None] = []
    for hop, location in enumerate(locations, 1):
        ask = book.redirected(A, location, 0.0)
        assert ask is None or (ask.origin, ask.hop) == (A, hop)
        told.append(ask.url if ask else None)
    return told


def test_five_redirects_are_followed_and_the_rules_hold_for_the_first_origin() -> None:
    """B4: RFC 9309 2.3.1.2, also across hosts."""
    book = a_book()
    told = follow(book, ["/1", "//b.test/2", "http://c.test/3", "https://a.test/4", "5"])
    assert told == [
        "https://a.test/1",
        "https://b.test/2",
        "http://c.test/3",
        "https://a.test/4",
        "https://a.test/5",
    ]
    assert book.verdict(f"{A}/x", 0.0) == Wait()
    book.learn(A, CLOSED, 1.0)
    assert book.verdict(f"{A}/x", 1.0) == DISALLOWED
    assert book.verdict("https://b.test/x", 1.0) == Ask("https://b.test", "https://b.test/robots.txt")


def test_the_sixth_redirect_means_there_is_no_file() -> None:
    """B4"""
    book = a_book()
    assert follow(book, ["/1", "/2", "/3", "/4", "/5", "/6"])[-1] is None
    assert book.verdict(f"{A}/x", 0.0) == Allowed()


@pytest.mark.parametrize("locations", [["/robots.txt"], ["/1", "/robots.txt#again"], ["/1", "/2", "/1"]])
def test_a_redirect_loop_is_not_walked_to_its_end(locations: list[str | None]) -> None:
    """B4: it only ends in more than five."""
    book = a_book()
    assert follow(book, locations)[-1] is None
    assert book.verdict(f"{A}/x", 0.0) == Allowed()


@pytest.mark.parametrize("location", [None, "", "file:///etc/passwd", "javascript:x", "http://", "https://a b/"])
def test_a_redirect_to_nowhere_leaves_the_origin_unreachable(location: str | None) -> None:
    """D2"""
    book = a_book()
    assert follow(book, [location]) == [None]
    assert book.verdict(f"{A}/x", 0.0) == Wait(15.0)


def test_a_chain_starts_afresh_after_it_was_given_back() -> None:
    book = a_book()
    follow(book, ["/1", "/2", "/3", "/4"])
    book.forget_ask(A)
    assert book.redirected(A, "/5", 0.0) is None, "nobody is asking any more"
    assert follow(book, ["/1", "/2", "/3", "/4", "/5"])[-1] == "https://a.test/5"


def test_validators_go_only_to_the_url_that_gave_them() -> None:
    book = a_book()
    follow(book, ["https://b.test/r"])
    book.learn(A, RobotsAnswer(200, body=b"", etag='"b"'), 0.0)
    assert book.verdict(f"{A}/x", DAY_S) == Ask(A, ROBOTS)
    assert book.redirected(A, "https://c.test/r", DAY_S) == Ask(A, "https://c.test/r", hop=1)
    assert book.redirected(A, "https://b.test/r", DAY_S) == Ask(A, "https://b.test/r", hop=2, etag='"b"')


# --- Disk ----------------------------------------------------------------------------------------------------------


def test_what_is_learned_survives_a_restart() -> None:
    book = a_book()
    answer = RobotsAnswer(200, body=b"user-agent: *\ndisallow: /x\nsitemap: /s", etag='"1"', fetched_at=FETCHED_AT)
    ask_and_learn(book, answer, 0.0)
    rows = book.dump_changed()
    assert rows == [RobotsRow(A, 200, answer.body, '"1"', None, ROBOTS, FETCHED_AT)]
    assert book.dump_changed() == []

    restarted = a_book()
    assert not restarted.knows(A)
    restarted.load([(rows[0], DAY_S - 10)], 5_000.0)
    assert restarted.knows(A)
    assert restarted.verdict(f"{A}/x", 5_000.0) == DISALLOWED
    assert restarted.sitemaps(A) == ("https://a.test/s",)
    assert restarted.dump_changed() == []
    assert restarted.verdict(f"{A}/x", 5_010.0) == Ask(A, ROBOTS, etag='"1"')


@pytest.mark.parametrize("age_s", [DAY_S, 5 * DAY_S, -1.0], ids=["a day", "five days", "from the future"])
def test_an_old_row_is_confirmed_before_it_is_used_but_serves_where_the_site_is_down(age_s: float) -> None:
    book = a_book()
    book.load([(RobotsRow(A, 200, b"user-agent: *\ndisallow: /x", '"1"', None, ROBOTS), age_s)], 0.0)
    assert book.verdict(f"{A}/x", 0.0) == Ask(A, ROBOTS, etag='"1"')
    book.learn(A, DOWN, 1.0)
    assert book.verdict(f"{A}/x", 1.0) == DISALLOWED


@pytest.mark.parametrize(
    ("answer", "status"),
    [(RobotsAnswer(404, body=b"not here"), 404), (RobotsAnswer(None, Failure.TOO_MANY_REDIRECTS), 404)],
)
def test_that_there_is_no_file_is_kept_too(answer: RobotsAnswer, status: int) -> None:
    book = a_book()
    ask_and_learn(book, answer, 0.0)
    (row,) = book.dump_changed()
    assert (row.status, row.body) == (status, b"")
    restarted = a_book()
    restarted.load([(row, 0.0)], 0.0)
    assert restarted.verdict(f"{A}/x", 0.0) == Allowed()


def test_a_failure_leaves_the_stored_copy_alone() -> None:
    book = a_book()
    ask_and_learn(book, CLOSED, 0.0)
    book.dump_changed()
    ask_and_learn(book, DOWN, DAY_S)
    assert book.dump_changed() == []


def test_a_confirmed_copy_is_stored_without_its_body() -> None:
    book = a_book()
    ask_and_learn(book, RobotsAnswer(200, body=b"x", etag='"1"'), 0.0)
    assert book.dump_changed()[0].body == b"x"
    ask_and_learn(book, RobotsAnswer(304, fetched_at=FETCHED_AT), DAY_S)
    assert book.dump_changed() == [RobotsRow(A, 200, None, '"1"', None, ROBOTS, FETCHED_AT)]


def test_a_copy_confirmed_before_it_was_stored_keeps_its_body() -> None:
    book = a_book()
    ask_and_learn(book, RobotsAnswer(200, body=b"x"), 0.0)
    ask_and_learn(book, RobotsAnswer(304), DAY_S)
    assert [row.body for row in book.dump_changed()] == [b"x"]


def test_rows_do_not_overwrite_what_the_book_knows() -> None:
    book = a_book()
    ask_and_learn(book, CLOSED, 0.0)
    book.load([(RobotsRow(A, 200, b""), 0.0), (RobotsRow("https://b.test", 503, b""), 0.0)], 1.0)
    assert book.verdict(f"{A}/x", 1.0) == DISALLOWED
    assert isinstance(book.verdict("https://b.test/x", 1.0), Ask)


def test_no_more_is_kept_than_was_read() -> None:
    """B1"""
    book = a_book()
    ask_and_learn(book, RobotsAnswer(200, body=b"#" * (BODY_BYTES_MAX + 10)), 0.0)
    body = book.dump_changed()[0].body
    assert body is not None
    assert len(body) == BODY_BYTES_MAX


def test_a_long_file_may_be_worked_out_elsewhere() -> None:
    book = a_book()
    assert isinstance(book.verdict(f"{A}/x", 0.0), Ask)
    book.learn(A, CLOSED, 0.0, policy_of(CLOSED, robots_url_of(A), book.terms))
    assert book.verdict(f"{A}/x", 0.0) == DISALLOWED


# --- Memory --------------------------------------------------------------------------------------------------------


def fat(origin_number: int, crawl_delay: str = "") -> tuple[str, RobotsAnswer]:
    rules = "".join(f"disallow: /{n:050}\n" for n in range(500))
    return f"https://{origin_number}.test", RobotsAnswer(200, body=f"user-agent: *\n{rules}{crawl_delay}".encode())


def test_the_least_recently_used_are_forgotten_when_memory_is_short() -> None:
    book = a_book(robots_memory_mb=5)
    for number in range(50):
        origin, answer = fat(number)
        ask_and_learn(book, answer, float(number), origin)
        book.verdict("https://0.test/x", float(number))  # used all the time
    assert 5 < len(book) < 20
    assert book.knows("https://49.test")
    assert book.knows("https://0.test")
    assert not book.knows("https://1.test")
    assert isinstance(book.verdict("https://1.test/x", 50.0), Ask), "what was forgotten is asked for again"


def test_a_delay_still_in_force_is_not_forgotten() -> None:
    """B8, F13: the asked pause outlives the need for memory; afterwards the origin may go."""
    book = a_book(robots_memory_mb=1)
    for number in range(30):
        origin, answer = fat(number, "crawl-delay: 100")
        ask_and_learn(book, answer, float(number), origin)
    assert all(book.knows(f"https://{number}.test") for number in range(30))
    ask_and_learn(book, FREE, 115.0)
    assert [number for number in range(30) if book.knows(f"https://{number}.test")] == list(range(16, 30))


def test_waits_and_turns_are_not_forgotten() -> None:
    book = a_book(robots_memory_mb=1)
    ask_and_learn(book, DOWN, 0.0, "https://down.test")
    assert isinstance(book.verdict("https://asking.test/x", 0.0), Ask)
    for number in range(30):
        origin, answer = fat(number)
        ask_and_learn(book, answer, 1.0 + number / 10, origin)
    assert len(book) < 10
    assert book.verdict("https://down.test/x", 5.0) == Wait(15.0)
    assert book.verdict("https://asking.test/x", 5.0) == Wait()


# --- Settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"purpose": "fun"}, "purpose"),
        ({"robots_max_age": DAY_S + 1}, "robots_max_age"),
        ({"robots_unreachable": "ignore"}, "robots_unreachable"),
        ({"max_crawl_delay": 700}, "honour_crawl_delay_up_to is below max_crawl_delay"),
        ({"robots_retry_delay": 700}, "robots_retry_delay is above its maximum"),
        ({"robot_max_age": 5}, "unknown setting"),
    ],
)
def test_settings_defend_themselves(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        RobotsSettings(**settings)
