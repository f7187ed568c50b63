"""The gauge strategy: start, track and headers; growth, margin and probing; estimates on servers that count exactly."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.answer import Answer
from amble.core.pacing.events import BlockOpened, PaceChanged
from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies import Gauge
from amble.core.quota import Quota
from amble.testing.lab.limiters import FixedWindow, Gcra, Limiter, SlidingLog, TokenBucket
from tests.core.pacing.story import BROKEN, LIMITED, OK, Story, limited


def gauge(story: Story) -> Gauge:
    strategy = story.pace.strategy
    assert isinstance(strategy, Gauge)
    return strategy


def fast(**settings: object) -> Story:
    """Caps out of the way."""
    return Story("gauge", max_rate=100.0, max_parallel_per_domain=64, **settings)  # type: ignore[arg-type]


def set_rate(story: Story, rate: float) -> None:
    story.pace.strategy.propose(1.0 / rate, "for the story")
    story.pace.set_crawl_delay(None)  # the shell works out its spacing anew


def climbing(**settings: object) -> Story:
    """A domain whose first few requests went well."""
    story = fast(**settings)
    story.visits(6, OK)
    return story


def tracked(rate: float = 10.0) -> Story:
    """A domain whose first limit was met at this rate; a trial was refused, too, so that no credit explains it."""
    story = climbing()
    story.now += 1_000.0
    story.pace.strategy._epoch_at = story.now  # type: ignore[attr-defined]
    set_rate(story, rate)
    story.visit(LIMITED)
    story.visit(LIMITED)
    story.visit(OK)
    return story


# -- START


def test_an_unknown_domain_is_asked_for_five_things_one_at_a_time_and_then_four_times_a_second() -> None:
    story = fast()
    assert gauge(story).phase == "start"
    assert gauge(story).limit is None
    starts = []
    for _ in range(5):
        permit = story.next()
        starts.append(permit.sent_at)
        story.refused(story.now)
        story.now += 0.03
        story.settle(permit, OK)
    assert [later - earlier for earlier, later in pairwise(starts)] == pytest.approx([0.1] * 4)
    assert gauge(story).rate == pytest.approx(4.0, rel=0.2)
    story.next()
    story.next()  # no longer one at a time
    assert not gauge(story).learned
    assert gauge(story).floor_s == 0.0


def test_a_first_page_that_hangs_does_not_hold_the_host_up() -> None:
    story = fast()
    story.granted(0.0)
    assert story.refused(0.5) == 1.0
    story.granted(1.0)
    story.next()


@pytest.mark.parametrize(
    ("rate", "answers"),
    [(1.0, 4.0), (2.0, 4.0), (4.0, 4.8), (7.9, 9.48), (8.0, 12.8), (20.0, 32.0), (30.0, 240.0)],
)
def test_before_the_first_limit_the_rate_doubles_in_a_few_seconds(rate: float, answers: float) -> None:
    """Each answer multiplies it; so many answers double it, and never fewer than four."""
    story = climbing()
    set_rate(story, rate)
    story.visit(OK)
    assert gauge(story).rate == pytest.approx(rate * 2 ** (1 / answers))


def test_the_rate_is_capped_by_the_shell() -> None:
    story = Story("gauge", max_rate=5.0)
    story.visits(100, OK)
    assert gauge(story).rate == pytest.approx(5.0)
    story.pace.set_crawl_delay(4.0)
    assert gauge(story).delay_s == 4.0
    story.pace.set_crawl_delay(None)
    story.visits(100, OK)
    assert gauge(story).rate == pytest.approx(5.0)


def test_a_frontier_that_cannot_fill_the_rate_proves_nothing_about_a_higher_one() -> None:
    """Requests sent much later than they might have been: no growth, in START and in TRACK."""
    for story in (climbing(), tracked()):
        story.visit(OK)
        rate = gauge(story).rate
        for _ in range(50):
            story.now += 3.0 / rate
            story.visit(OK)
        assert gauge(story).rate == pytest.approx(rate)


def test_a_request_a_little_late_still_counts() -> None:
    story = climbing()
    story.visit(OK)
    rate = gauge(story).rate
    story.now = story.pace.not_before + 0.3 / rate
    story.visit(OK)
    assert gauge(story).rate > rate


def test_what_a_busy_machine_is_late_by_is_made_up_for() -> None:
    """Every request starts a hundredth of a second after it might: the rate is kept all the same, never exceeded."""
    story = fast()
    story.visit(OK)
    starts = []
    for _ in range(200):
        gauge(story)._set_rate(10.0, "for the story")  # so that it does not climb
        story.pace.set_crawl_delay(None)
        story.now = story.pace.not_before + 0.01
        starts.append(story.now)
        story.visit(OK)
    mean_s = (starts[-1] - starts[-101]) / 100
    assert mean_s == pytest.approx(0.1, rel=0.02)
    assert gauge(story).gap_s >= 0.7 / gauge(story).rate


def test_lateness_is_never_made_up_for_at_the_cost_of_the_shells_own_gap() -> None:
    story = Story("gauge", max_rate=10.0)
    for _ in range(300):
        story.now = max(story.now, story.pace.not_before) + 0.02
        story.visit(OK)
    assert gauge(story).rate == pytest.approx(10.0)
    assert story.pace.gap_s == pytest.approx(0.1)


# -- the first limit, and TRACK


def test_the_first_limit_ends_the_climb() -> None:
    """Seven tenths of the rate that was too much, and four percent of margin under that."""
    story = tracked(10.0)
    assert gauge(story).phase == "track"
    assert gauge(story).limit == pytest.approx(7.0)
    assert gauge(story).rate == pytest.approx(0.96 * 7.0)
    assert gauge(story).floor_s == pytest.approx(1 / 7.0)
    assert gauge(story).learned


def test_nothing_is_concluded_before_the_trial_succeeds() -> None:
    story = climbing()
    story.visits(10, OK)
    rate = gauge(story).rate
    story.visit(LIMITED)
    assert gauge(story).phase == "start"
    assert gauge(story).rate == pytest.approx(rate)
    story.visit(OK)
    assert gauge(story).phase == "track"


@pytest.mark.parametrize("pages", [1, 10, 15, 30])
def test_within_one_period_the_rate_climbs_through_its_margin(pages: int) -> None:
    """From 4 % under the first guess to 16 % over it, in as many pages as it is worth."""
    story = tracked()
    period = gauge(story)._found.track.period  # type: ignore[union-attr]
    assert 30 <= period <= 400
    story.visits(pages, OK)
    assert gauge(story).rate == pytest.approx(7.0 * (0.96 + 0.2 * pages / period))


def test_the_price_of_a_refusal_is_a_setting() -> None:
    """Where a refusal is dear, the first guess is kept for longer, and fewer are paid."""
    refused = []
    for price in (0.0, 2.0, 50.0):
        limiter, count = TokenBucket(8.0, 5.0), 0
        story = fast(refusal_price=price)
        for _ in range(400):
            admitted = limiter.admit(story.next().sent_at, 0.0) is not None
            count += not admitted
            assert story.pace.flying is not None
            story.settle(story.pace.flying[0], OK if admitted else LIMITED)
        refused.append(count)
    assert refused[0] >= refused[1] >= refused[2]
    assert refused[0] > refused[2]


def test_after_the_period_it_probes_in_growing_steps() -> None:
    story = tracked()
    story.visits(gauge(story)._found.track.period, OK)  # type: ignore[union-attr]
    rates = [gauge(story).rate]
    for _ in range(150):
        story.visit(OK)
        rates.append(gauge(story).rate)
    steps = [later / earlier for earlier, later in pairwise(rates) if later != earlier]
    assert steps[:3] == pytest.approx([1.15, 1.178, 1.20656])
    assert steps == sorted(steps)
    assert max(steps) <= 1.25
    assert gauge(story).note == "probing above the limit"


def test_failures_and_stale_answers_do_not_climb() -> None:
    story = tracked()
    rate = gauge(story).rate
    story.visits(3, BROKEN)
    assert gauge(story).rate == pytest.approx(rate)


# -- pauses


@pytest.mark.parametrize(("rate", "pause_s"), [(0.5, 4.0), (2.0, 1.0), (5.0, 0.4), (50.0, 0.4)])
def test_the_first_pause_is_two_gaps_and_not_too_short(rate: float, pause_s: float) -> None:
    story = fast()
    set_rate(story, rate)
    story.visit(LIMITED)
    assert story.pace.blocked_until - story.now == pytest.approx(pause_s)


def test_pauses_double_while_trials_are_refused() -> None:
    story = fast(consecutive_fail_threshold=1_000, min_samples_to_trip=1_000)
    pauses = []
    for _ in range(12):
        story.visit(LIMITED)
        pauses.append(story.pace.blocked_until - story.now)
    assert pauses == pytest.approx([0.5, 1, 2, 4, 12, 36, 108, 300, 300, 300, 300, 300])


def test_once_two_blocks_are_known_the_next_pause_expects_another() -> None:
    """A site whose blocks last a minute is not tried after a second."""
    story = fast()
    for _ in range(3):
        story.visits(20, OK)
        story.visit(limited(60.0))
    story.visit(OK)
    story.visits(20, OK)
    story.visit(LIMITED)
    assert story.pace.blocked_until - story.now >= 25.0


def test_two_blocks_of_a_day_do_not_make_a_silent_one_last_for_hours() -> None:
    story = fast()
    for _ in range(3):
        story.visits(20, OK)
        story.visit(limited(86_400.0))
    story.visits(20, OK)
    story.visit(LIMITED)
    assert story.pace.blocked_until - story.now == pytest.approx(300.0)


# -- estimates


def crawl(limiter: Limiter, pages: int, *, directed: bool, seed: int = 1) -> tuple[Story, int]:
    """Against a limiter with no network in between: what is counted is what was sent."""
    story = fast(random=Random(seed).random)
    done = refused = 0
    while done < pages:
        permit = story.next()
        if limiter.admit(story.now, 0.0) is not None:
            done += 1
            story.settle(permit, OK)
        else:
            refused += 1
            story.settle(permit, limited(max(1.0, limiter.wait_s(story.now))) if directed else LIMITED)
    return story, refused


EXACT: list[tuple[str, Callable[[], Limiter], float, float]] = [
    # story                         limiter                        limit   within
    ("bucket of 0.5/s", lambda: TokenBucket(0.5, 10), 0.5, 0.02),
    ("bucket of 2/s", lambda: TokenBucket(2, 10), 2.0, 0.02),
    ("bucket of 10/s", lambda: TokenBucket(10, 10), 10.0, 0.04),
    ("window of 10 s, 2/s", lambda: FixedWindow(2, 10.0), 2.0, 0.06),
    ("window of 60 s, 2/s", lambda: FixedWindow(2, 60.0), 2.0, 0.3),  # found by climbing over several windows
    ("window of 10 s, 10/s", lambda: FixedWindow(10, 10.0), 10.0, 0.08),
    ("sliding log of 10 s, 2/s", lambda: SlidingLog(2, 10.0), 2.0, 0.1),
    ("strict spacing, 2/s", lambda: Gcra(2), 2.0, 0.1),
]


@pytest.mark.parametrize("directed", [False, True], ids=["silent", "Retry-After"])
@pytest.mark.parametrize(("make", "limit", "within"), [row[1:] for row in EXACT], ids=[row[0] for row in EXACT])
def test_accepted_requests_over_time_is_the_limit(
    make: Callable[[], Limiter], limit: float, within: float, directed: bool
) -> None:
    """At every block the limiter is exhausted, so what was accepted since the last one measures it."""
    story, refused = crawl(make(), 1_000, directed=directed)
    assert gauge(story).limit == pytest.approx(limit, rel=within)
    assert 1_000 / story.now >= (0.85 if within <= 0.1 else 0.75) * limit
    assert refused <= 30


def test_a_limit_that_drops_is_found_again() -> None:
    limiter = TokenBucket(10, 10)
    story, _ = crawl(limiter, 500, directed=False)
    limiter.rate = 2.5
    for _ in range(400):
        permit = story.next()
        story.settle(permit, OK if limiter.admit(story.now, 0.0) is not None else LIMITED)
    assert gauge(story).limit == pytest.approx(2.5, rel=0.1)


def test_a_limit_that_rises_is_found_again() -> None:
    limiter = TokenBucket(2.5, 10)
    story, _ = crawl(limiter, 500, directed=False)
    limiter.rate = 10.0
    for _ in range(2_000):
        permit = story.next()
        story.settle(permit, OK if limiter.admit(story.now, 0.0) is not None else LIMITED)
    assert gauge(story).limit == pytest.approx(10.0, rel=0.15)


# -- HEADERS


def stating(remaining: float, reset_s: float) -> Answer:
    return Answer(200, elapsed_s=0.1, quota=Quota(remaining, reset_s))


def test_a_stated_quota_sets_the_rate_outright() -> None:
    story = fast()
    story.visit(stating(60, 60.0))
    assert gauge(story).phase == "headers"
    assert gauge(story).rate == pytest.approx(2.0, rel=0.02)  # a minute's quota in half a minute


def test_upward_a_stated_quota_is_approached_in_steps() -> None:
    """A header may be wrong: at most twice the rate per answer."""
    story = climbing()
    rate = gauge(story).rate
    for left in range(6_000, 5_997, -1):
        story.visit(stating(left, 60.0))
        assert rate < gauge(story).rate <= 2.4 * rate  # what an answer adds to the climb included
        rate = gauge(story).rate
    for left in range(5_997, 5_950, -1):
        story.visit(stating(left, 60.0))
    assert gauge(story).rate == pytest.approx(100.0)


def test_while_headers_set_the_pace_nothing_is_probed() -> None:
    story = fast()
    for left in range(600, 400, -1):
        story.visit(stating(left, 600.0))
    assert gauge(story).rate == pytest.approx(1.0, rel=0.5)
    assert gauge(story).phase == "headers"


def test_fifty_answers_without_headers_end_the_trust_in_them() -> None:
    story = climbing()
    story.visit(stating(60, 60.0))
    story.visits(50, OK)
    assert gauge(story).phase == "headers"
    story.visit(OK)
    assert gauge(story).phase == "start"


def test_a_refusal_under_headers_is_measured_like_any_other() -> None:
    story = fast()
    story.visits(20, stating(60, 60.0))
    story.visit(LIMITED)
    assert gauge(story).phase == "start"
    story.visit(OK)
    assert gauge(story).phase == "track"


# -- the next run


def test_what_was_measured_is_saved() -> None:
    story, _ = crawl(TokenBucket(2, 10), 600, directed=False)
    saved = gauge(story).save()
    assert saved["limit"] == pytest.approx(2.0, rel=0.02)
    assert saved["confirmed"] >= 3
    assert {"block_0_s", "block_1_s"} <= set(saved)


LOADS = [
    # story                         confirmed  trust  share of the saved limit
    ("confirmed", 4.0, 1.0, 0.97),
    ("confirmed once", 1.0, 1.0, 0.97),
    ("not confirmed", 0.0, 1.0, 0.85),
    ("old", 4.0, 0.5, 0.85),
]


@pytest.mark.parametrize(("confirmed", "trust", "share"), [row[1:] for row in LOADS], ids=[row[0] for row in LOADS])
def test_the_next_run_starts_a_little_under_it(confirmed: float, trust: float, share: float) -> None:
    strategy = Gauge(PacingSettings())
    strategy.load({"limit": 10.0, "confirmed": confirmed}, trust=trust, now=0.0)
    assert strategy.phase == "track"
    assert strategy.limit == pytest.approx(share * 10.0)
    assert strategy.rate == pytest.approx(0.96 * share * 10.0)
    assert strategy.note == "learned earlier"


def test_what_another_strategy_learned_is_a_start() -> None:
    strategy = Gauge(PacingSettings())
    strategy.load({"delay_s": 0.5}, trust=1.0, now=0.0)
    assert strategy.limit == pytest.approx(0.85 * 2.0)


@pytest.mark.parametrize("saved", [{}, {"limit": 0.0}, {"delay_s": 0.0}, {"limit": float("nan")}])
def test_nothing_saved_is_nothing_known(saved: dict[str, float]) -> None:
    strategy = Gauge(PacingSettings())
    strategy.load(saved, trust=1.0, now=0.0)
    assert strategy.phase == "start"
    assert strategy.rate == pytest.approx(4.0)


NAMES = ("limit", "confirmed", "block_0_s", "block_1_s", "baseline_s", "delay_s")
FINITE = st.floats(0, allow_infinity=False, allow_nan=False) | st.sampled_from([0.0, 1e-308, 5e-324, 1e308])


@given(st.dictionaries(st.sampled_from(NAMES), FINITE), st.sampled_from([0.5, 1.0]))
def test_whatever_was_saved_the_next_run_works(saved: dict[str, float], trust: float) -> None:
    """Numbers are finite and not negative, or they are not handed over; nothing else can be relied on."""
    story = fast()
    story.pace.strategy.load(saved, trust=trust, now=0.0)
    story.pace.resume_silently(0.0)
    for answer in [OK, OK, LIMITED, OK, OK, limited(2.0), OK, OK]:
        story.visit(answer)
        assert 0 < gauge(story).delay_s <= 60.0
        assert 0 <= gauge(story).floor_s < float("inf")
        assert all(0 <= number < float("inf") for number in gauge(story).save().values())
    assert story.now < 1e6


# -- what is told


def test_after_a_refusal_nobody_says_that_no_limit_was_met() -> None:
    story, _ = crawl(TokenBucket(3, 1), 60, directed=False)
    told = [event for event in story.events if isinstance(event, PaceChanged | BlockOpened)]
    refused = next(number for number, event in enumerate(told) if isinstance(event, BlockOpened))
    after = [event.reason for event in told[refused:] if isinstance(event, PaceChanged)]
    assert "no refusal since" in after, "it climbs anew"
    assert "no limit met yet" not in after


def test_every_change_of_mind_has_its_reason() -> None:
    story, _ = crawl(TokenBucket(5, 10), 300, directed=True)
    reasons = [event.reason for event in story.events if isinstance(event, PaceChanged)]
    assert reasons[0] == "no limit met yet"
    assert "limit estimated" in reasons
    assert {"limit measured", "probing above the limit"} & set(reasons)
