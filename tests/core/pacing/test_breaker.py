"""The breaker: closed, open, half-open; what trips it, what does not, and how it comes back [F7]."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from amble.core.answer import Answer
from amble.core.outcome import Failure
from amble.core.pacing.commons import Commons
from amble.core.pacing.events import BlockClosed, BlockOpened, CircuitClosed, CircuitHalfOpened, CircuitOpened
from amble.core.pacing.learned import Learned
from amble.core.pacing.permit import Permit
from amble.core.pacing.settings import PacingSettings, StrategyName
from amble.core.quota import Quota
from tests.core.pacing.story import (
    BROKEN,
    CANCELLED,
    FORBIDDEN,
    LIMITED,
    NOT_FOUND,
    OK,
    STRATEGIES,
    TIMEOUT,
    Story,
    limited,
    no_jitter,
)

UTC_NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def tripping(answers: list[Answer], *, step_s: float = 1.0, **settings: Any) -> int | None:
    """Answers at a steady pace; the number of the one that opens the circuit, from 1."""
    story = Story("fixed", fixed_delay=step_s, **settings)
    for number, answer in enumerate(answers, 1):
        story.visit(answer)
        if story.pace.circuit != "closed":
            return number
    return None


TRIPS: list[tuple[str, list[Answer], dict[str, Any], int | None]] = [
    # -- in a row
    ("five server errors in a row", [BROKEN] * 9, {}, 5),
    ("five timeouts in a row", [TIMEOUT] * 9, {}, 5),
    ("five of different kinds in a row", [BROKEN, TIMEOUT, Answer(502), Answer(504), BROKEN], {}, 5),
    ("four are not enough", [*[BROKEN] * 4, OK] * 2, {"min_samples_to_trip": 100}, None),
    ("five refusals without Retry-After", [LIMITED] * 9, {}, 5),
    ("refusals and errors add up", [LIMITED, BROKEN] * 5, {}, 5),
    ("directed refusals do not", [limited(2.0)] * 50, {}, None),
    ("directed refusals do not break a row either", [BROKEN] * 4 + [limited(2.0)] + [BROKEN], {}, 6),
    ("cancelled requests say nothing", [CANCELLED] * 50, {}, None),
    ("a cancelled request does not break a row", [*[BROKEN] * 4, CANCELLED, BROKEN], {}, 6),
    ("missing pages are answers", [NOT_FOUND] * 50, {}, None),
    ("forbidden pages are answers", [FORBIDDEN] * 50, {}, None),
    ("as many in a row as the settings say", [BROKEN] * 9, {"consecutive_fail_threshold": 3}, 3),
    # -- by rate
    ("half of ten", [OK, BROKEN] * 5, {}, 10),
    ("half of nine is too few to say", [OK, BROKEN] * 4 + [OK], {}, None),
    ("a third of thirty is too little", [OK, OK, BROKEN] * 20, {}, None),
    ("a third is enough where a third is set", [OK, OK, BROKEN] * 20, {"error_rate_threshold": 0.33}, 12),
    ("as few as the settings say", [OK, BROKEN] * 5, {"min_samples_to_trip": 4}, 4),
    ("many successes before outweigh a few failures", [OK] * 25 + [BROKEN] * 4, {}, None),
]


@pytest.mark.parametrize(("answers", "settings", "number"), [row[1:] for row in TRIPS], ids=[row[0] for row in TRIPS])
def test_what_opens_the_circuit(answers: list[Answer], settings: dict[str, Any], number: int | None) -> None:
    assert tripping(answers, **settings) == number


def test_failures_older_than_the_window_are_forgotten() -> None:
    """One failure in two, but every 4 s: never ten answers in 30 s."""
    assert tripping([OK, BROKEN] * 30, step_s=4.0) is None
    assert tripping([OK, BROKEN] * 30, step_s=4.0, stats_window=60.0) == 10


def test_an_old_failure_does_not_count_after_a_quiet_time() -> None:
    story = Story("fixed", fixed_delay=1.0)
    for answer in [OK, BROKEN] * 4:
        story.visit(answer)
    story.now += 31.0
    for answer in [OK, BROKEN] * 4:
        story.visit(answer)
    assert story.pace.circuit == "closed"


@pytest.mark.parametrize("failure", [failure for failure in Failure if failure.startswith("network_")])
def test_every_kind_of_network_failure_counts(failure: Failure) -> None:
    assert tripping([Answer(failure=failure)] * 5) == 5


# -- open


@every_strategy
def test_an_open_circuit_lets_nothing_through(strategy: StrategyName) -> None:
    for answer, shut_s in ((LIMITED, 15.0), (BROKEN, 1.0)):
        story = Story(strategy, open_state_duration=15.0)
        story.visits(5, answer)
        assert story.pace.circuit == "open"
        opened_at = story.now
        assert story.refused(opened_at + shut_s - 0.1) >= opened_at + shut_s


def test_an_open_circuit_keeps_to_a_longer_retry_after() -> None:
    story = Story("fixed")
    permits = story.burst(6)
    for permit in permits[:5]:
        story.settle(permit, BROKEN)
    assert story.pace.circuit == "open"
    story.settle(permits[5], Answer(503, retry_after_s=500.0))
    story.refused(story.now + 499.0)


def test_the_failures_of_requests_under_way_do_not_lengthen_it() -> None:
    """F5: ten in flight, all broken, are one outage."""
    few, many = Story("fixed", fixed_delay=0.1), Story("fixed", fixed_delay=0.1)
    for story, count in ((few, 5), (many, 8)):
        for permit in story.burst(8)[:count]:
            story.settle(permit, TIMEOUT)
    assert many.pace.blocked_until == few.pace.blocked_until
    assert len([event for event in many.events if isinstance(event, CircuitOpened)]) == 1


# -- a server that hangs


def hanging(answers: int = 12, *, took_s: float = 0.1, step_s: float = 0.125, **settings: Any) -> Story:
    """A domain that answered so often."""
    story = Story("fixed", fixed_delay=step_s, **settings)
    story.visits(answers, OK._replace(elapsed_s=took_s), took_s=took_s)
    return story


def opens_at(story: Story, until: float = 60.0) -> float | None:
    """When the circuit opens if nothing is answered any more, in seconds after now; somebody asks all the time."""
    began = story.now
    while story.now < began + until:
        got = story.pace.reserve(story.now)
        story.events.extend(story.pace.take_events())
        if story.pace.circuit != "closed":
            return story.now - began
        story.now = min(story.now + 0.125, got) if isinstance(got, float) else story.now
    return None


HANGS: list[tuple[str, dict[str, Any], float | None]] = [
    ("five overdue answers, while they are awaited", {}, 5.5),
    ("as many as the settings say", {"consecutive_fail_threshold": 3}, 5.25),
    ("within 7 s of the first that is overdue, at a second's distance", {"step_s": 1.0}, 9.9),
    ("what is usual counts: twenty times as long", {"took_s": 0.5}, 10.5),
    ("not before ten answers have shown what is usual", {"answers": 9}, None),
    ("no fewer than the settings say, if all slots are taken by them", {"max_parallel_per_domain": 4}, None),
]


@pytest.mark.parametrize(("server", "after_s"), [row[1:] for row in HANGS], ids=[row[0] for row in HANGS])
def test_what_is_overdue_opens_the_circuit_while_it_is_still_under_way(
    server: dict[str, Any], after_s: float | None
) -> None:
    story = hanging(**server)
    opened = opens_at(story)
    assert opened == (None if after_s is None else pytest.approx(after_s, rel=0.05))
    if after_s is not None:
        [told] = [event for event in story.events if isinstance(event, CircuitOpened)]
        assert told.reason == f"{story.settings.consecutive_fail_threshold} answers overdue"
        assert told.error_streak == story.settings.consecutive_fail_threshold


def test_failures_in_a_row_and_what_is_overdue_add_up() -> None:
    story = hanging()
    permits = story.burst(5)
    story.now += 4.0
    for permit in permits[:2]:
        story.settle(permit, TIMEOUT)
    assert story.pace.circuit == "closed"
    story.now = permits[-1].sent_at + 5.1
    story.at(story.now)
    story.events.extend(story.pace.take_events())
    assert [event.reason for event in story.events if isinstance(event, CircuitOpened)] == [
        "5 failures in a row, 3 of them overdue"
    ]


def test_a_failure_that_comes_in_counts_what_is_overdue_beside_it() -> None:
    story = hanging()
    permits = story.burst(6)
    story.now = permits[-1].sent_at + 5.0
    events = story.settle(permits[0], TIMEOUT)
    assert any(isinstance(event, CircuitOpened) for event in events)


def test_slow_pages_of_a_site_that_answers_others_open_nothing() -> None:
    story = hanging()
    story.burst(6)
    for _ in range(100):
        story.visit(OK, took_s=0.1)
    assert story.now > 10.0
    assert story.pace.circuit == "closed"


def test_an_overdue_answer_that_fails_in_the_end_does_not_count_twice() -> None:
    story = hanging()
    assert opens_at(story)
    flying = list(story.pace.flying or ())
    until = story.pace.blocked_until
    story.now += 15.0
    for permit in flying:
        story.settle(permit, TIMEOUT)
    assert story.pace.blocked_until == until
    story.visit(OK)
    assert story.pace.circuit == "closed"


def test_an_overdue_answer_that_comes_in_the_end_does_not_close_it() -> None:
    story = hanging()
    assert opens_at(story)
    story.settle((story.pace.flying or [])[0], OK)
    assert story.pace.circuit == "open"


def test_whoever_asks_is_told_when_to_look_whether_the_server_hangs() -> None:
    """All slots taken: not only when the first of them counts as lost, minutes later."""
    story = hanging(max_parallel_per_domain=5)
    permits = story.burst(5)
    looks = [story.refused(story.now + 0.2)]
    while story.pace.circuit == "closed":
        looks.append(story.refused(looks[-1]))
    assert looks[0] == pytest.approx(permits[0].sent_at + 5.0)
    assert looks[1] == pytest.approx(permits[4].sent_at + 5.0)
    assert len(looks) == 3


# -- half-open


@every_strategy
def test_a_trial_that_succeeds_closes_the_circuit(strategy: StrategyName) -> None:
    story = Story(strategy)
    story.visits(5, BROKEN)
    trial = story.next()
    assert story.pace.circuit == "half_open"
    assert trial.probe
    story.refused(story.now + 1.0)
    story.settle(trial, OK)
    assert story.pace.circuit == "closed"
    assert not story.next().probe


def waits_of_failing_trials(strategy: StrategyName, first: Answer, answer: Answer) -> list[float]:
    story = Story(strategy)
    story.visits(5, first)
    waits = [story.pace.blocked_until - story.now]
    for _ in range(20):
        story.visit(answer)
        assert story.pace.circuit == "open"
        waits.append(story.pace.blocked_until - story.now)
    return waits


@every_strategy
@pytest.mark.parametrize("answer", [BROKEN, TIMEOUT], ids=str)
def test_a_site_that_is_down_is_tried_often_in_the_first_minute_and_then_ever_more_seldom(
    strategy: StrategyName, answer: Answer
) -> None:
    """About a quarter is added to a short outage; one of five minutes costs some fifteen trials."""
    waits = waits_of_failing_trials(strategy, BROKEN, answer)
    assert waits[:4] == pytest.approx([1, 1.35, 1.8225, 2.460375])
    assert waits == pytest.approx(sorted(waits))
    assert sum(waits[:9]) < 60 < sum(waits[:11])
    assert waits[-1] == pytest.approx(300)
    assert sum(waits[:15]) > 300


@every_strategy
def test_a_site_that_refuses_is_left_alone_for_as_long_as_the_settings_say(strategy: StrategyName) -> None:
    """429 without a word, five times: it wants to be left alone, and is tried at twice the distance each time."""
    waits = waits_of_failing_trials(strategy, LIMITED, LIMITED)
    assert all(wait_s >= min(15 * 2**number, 300) for number, wait_s in enumerate(waits))


def test_one_refusal_among_the_failures_ends_the_frequent_trials() -> None:
    story = Story("fixed")
    story.visits(5, BROKEN)
    story.visit(LIMITED)
    first_s = story.pace.blocked_until - story.now
    story.visit(LIMITED)
    assert story.pace.blocked_until - story.now == pytest.approx(2 * first_s)


def test_the_durations_are_settings() -> None:
    story = Story("fixed", open_state_duration=4.0, open_state_duration_max=10.0)
    waits = []
    for answer in [BROKEN] * 4 + [LIMITED] + [BROKEN] * 3:
        story.visit(answer)
        waits.append(story.pace.blocked_until - story.now)
    assert waits[4:] == pytest.approx([4, 8, 10, 10])
    story = Story("fixed", open_state_duration=0.5)
    story.visits(5, BROKEN)
    assert story.pace.blocked_until - story.now == pytest.approx(0.5), "nor is a first trial later than that"


def test_after_it_closed_the_next_outage_starts_short_again() -> None:
    story = Story("fixed")
    story.visits(8, BROKEN)
    story.visit(OK)
    story.visits(5, BROKEN)
    assert story.pace.blocked_until - story.now == pytest.approx(1.0)


def test_what_opened_it_is_forgotten_when_it_closes() -> None:
    story = Story("fixed", open_state_duration=1.0)
    story.visits(5, BROKEN)
    story.visit(OK)
    story.visits(4, BROKEN)
    assert story.pace.circuit == "closed"


def test_several_trials_where_the_settings_say_so() -> None:
    story = Story("fixed", fixed_delay=0.5, half_open_probes=3)
    story.visits(5, BROKEN)
    trials = story.burst(3)
    assert all(trial.probe for trial in trials)
    story.refused(story.now + 1.0)  # the budget is spent
    story.settle(trials[0], OK)
    story.settle(trials[1], OK)
    assert story.pace.circuit == "half_open"
    story.settle(trials[2], OK)
    assert story.pace.circuit == "closed"


def test_one_failure_among_several_trials_opens_it_again() -> None:
    story = Story("fixed", fixed_delay=0.5, half_open_probes=3)
    story.visits(5, BROKEN)
    trials = story.burst(3)
    story.settle(trials[0], OK)
    story.settle(trials[1], OK)
    story.settle(trials[2], BROKEN)
    assert story.pace.blocked_until - story.now == pytest.approx(1.35)
    story.visits(2, OK)
    assert story.pace.circuit == "half_open"  # the two successes before the failure count no more
    story.visit(OK)
    assert story.pace.circuit == "closed"


def test_a_trial_given_back_leaves_the_circuit_open() -> None:
    story = Story("fixed")
    story.visits(5, BROKEN)
    story.pace.cancel(story.next())
    assert story.pace.circuit == "open"
    assert story.next().probe


def test_a_success_from_before_does_not_close_it() -> None:
    story = Story("fixed", fixed_delay=0.1)
    *broken, late = story.burst(6)
    for permit in broken:
        story.settle(permit, BROKEN)
    story.settle(late, OK)
    assert story.pace.circuit == "open"


def test_an_outage_teaches_nothing_about_the_pace() -> None:
    """The server failed; nobody asked for less."""
    for strategy in ("linear", "fixed", "fibonacci"):
        story = Story(strategy)
        delay_s = story.pace.strategy.delay_s
        story.visits(8, BROKEN)
        story.visit(OK)
        assert story.pace.strategy.delay_s == delay_s
        assert not any(isinstance(event, BlockOpened | BlockClosed) for event in story.events)


def test_refusals_that_trip_the_breaker_end_in_one_success() -> None:
    story = Story("linear")
    story.visits(5, LIMITED)
    assert story.pace.circuit == "open"
    story.visit(OK)
    assert story.pace.circuit == "closed"
    assert story.pace.block is None
    kinds = [type(event) for event in story.events]
    assert kinds.count(CircuitOpened) == kinds.count(CircuitHalfOpened) == kinds.count(CircuitClosed) == 1
    assert kinds.count(BlockOpened) == 5
    assert kinds.count(BlockClosed) == 1


@every_strategy
def test_a_server_that_flaps_is_tried_once_per_opening(strategy: StrategyName) -> None:
    """F7: up 5 s, down 5 s, for ten minutes. While down, one request per opening; while up, work goes on."""
    story = Story(strategy, open_state_duration=2.0, open_state_duration_max=4.0)
    trials = served = 0
    while story.now < 600.0:
        permit = story.next()
        up = story.now % 10.0 < 5.0
        trials += permit.probe
        served += up
        story.settle(permit, OK if up else TIMEOUT)
    kinds = [type(event) for event in story.events]
    assert served > 60
    assert trials == kinds.count(CircuitHalfOpened)
    assert kinds.count(CircuitOpened) - kinds.count(CircuitHalfOpened) in (0, 1)
    assert kinds.count(CircuitOpened) >= (1 if strategy == "aimd" else 20)  # aimd is slow by then: few in a row


def test_failures_that_were_the_networks_are_pardoned_f9() -> None:
    """The circuit closes, counts start anew, and a wait that had another cause still holds."""
    story = Story("fixed", fixed_delay=1.0, consecutive_fail_threshold=5)
    story.visit(OK)
    story.visit(Answer(status=301, retry_after_s=40.0))
    story.now = told_until = story.pace.blocked_until
    story.visits(5, TIMEOUT)
    assert story.pace.circuit == "open"
    assert story.pace.blocked_until > told_until
    events = story.pace.pardon(story.now)
    assert [type(event) for event in events] == [CircuitClosed]
    assert (story.pace.circuit, story.pace.troubles.error_streak) == ("closed", 0)
    assert story.pace.blocked_until == told_until
    story.visits(4, TIMEOUT)
    assert story.pace.circuit == "closed", "the five before no longer count"


def test_a_limit_is_not_pardoned() -> None:
    story = Story("linear")
    story.visit(OK)
    story.visit(limited(30.0))
    until = story.pace.blocked_until
    assert not story.pace.pardon(story.now)
    assert story.pace.block is not None
    assert story.pace.blocked_until == until


ASKED = [
    # story                  the late answer                                    seconds asked for
    ("429", Answer(429, retry_after_s=600.0), 600.0),
    ("503", Answer(503, retry_after_s=600.0), 600.0),
    ("301", Answer(301, retry_after_s=600.0), 600.0),
    ("a quota used up", Answer(200, elapsed_s=0.1, quota=Quota(0, 600.0)), 600.0),
]


@every_strategy
@pytest.mark.parametrize(("answer", "asked_s"), [row[1:] for row in ASKED], ids=[row[0] for row in ASKED])
def test_a_pardon_does_not_shorten_what_a_server_asked_for(
    strategy: StrategyName, answer: Answer, asked_s: float
) -> None:
    """The answer comes once the circuit is open, to a request sent before."""
    story = Story(strategy, consecutive_fail_threshold=5)
    story.visit(OK)
    *failing, late = story.burst(6)
    for permit in failing:
        story.settle(permit, TIMEOUT)
    assert story.pace.circuit == "open"
    story.settle(late, answer)
    answered_at = story.now
    story.pace.pardon(story.now)
    assert story.pace.circuit == "closed"
    story.refused(answered_at + asked_s)
    story.granted(answered_at + 1.03 * asked_s)


def test_a_pardon_does_not_shorten_a_pause_that_another_file_knows_of() -> None:
    commons = Commons()
    settings = PacingSettings(pacing="linear", max_rate=None)
    member = commons.join(settings, no_jitter)
    pace = member.pace("a.test", 0.0, UTC_NOW)
    now = 0.0
    for _ in range(5):
        now = max(now, pace.not_before)
        permit = pace.reserve(now)
        assert isinstance(permit, Permit)
        pace.settle(permit, TIMEOUT, now)
    assert pace.circuit == "open"
    asked_until_at = UTC_NOW + timedelta(seconds=600)
    member.load([Learned("a.test", "linear", 0.0, 0.0, UTC_NOW, {}, asked_until_at)], now, UTC_NOW)
    pace.pardon(now)
    assert pace.blocked_until == now + 600.0
