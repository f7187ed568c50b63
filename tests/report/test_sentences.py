"""Each sentence about a pace is said where it is true, and not where one thing makes it untrue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from amble.core.answer import Answer
from amble.core.pacing.permit import Source
from amble.core.pacing.phase import PacePhase
from amble.core.pacing.settings import StrategyName
from amble.core.pacing.snapshot import phase_of
from amble.core.quota import Quota
from amble.report.budget import Cause
from amble.report.sentences import BECAUSE, BINDS, HINTS, Facts, Sentence, first_true, phase_of_receipts
from tests.core.pacing.story import BROKEN, LIMITED, OK, Story, limited

FINDING, AT_LIMIT, WAITING, DOWN, SET = PacePhase
LEARNED, MAX_RATE, CRAWL_DELAY = Source.LEARNED, Source.MAX_RATE, Source.CRAWL_DELAY
MINIMUM, QUOTA, NONE = Source.MINIMUM, Source.QUOTA, Source.NONE
CALM = Facts(SET, NONE, "gauge", requests=50, cause=Cause.LATENCY, in_flight_max=1, parallel=8, parallel_max=8)

Case = tuple[str, dict[str, Any], dict[str, Any]]  # how a sentence begins; facts that make it true; what undoes it

WHAT_BINDS: list[Case] = [
    ("the default_crawl_delay", {"rule": CRAWL_DELAY, "gap_s": 2.0, "default_gap_s": 2.0}, {"gap_s": 5.0}),
    ("the crawl delay that robots.txt", {"rule": CRAWL_DELAY, "gap_s": 5.0}, {"default_gap_s": 5.0}),
    ("our own fixed_delay", {"rule": LEARNED, "strategy": "fixed"}, {"strategy": "gauge"}),
    ("the pace tried so far", {"rule": LEARNED, "phase": FINDING}, {"phase": AT_LIMIT}),
    ("our own base_delay", {"rule": LEARNED, "strategy": "linear"}, {"phase": AT_LIMIT}),
    ("our own max_rps", {"rule": LEARNED, "strategy": "aimd"}, {"phase": AT_LIMIT}),
    ("the delay that was learned", {"rule": LEARNED, "phase": AT_LIMIT}, {"phase": FINDING}),
    ("the delay that was learned", {"rule": LEARNED, "phase": WAITING, "refusals": 1}, {"refusals": 0}),
    ("the pace reached so far", {"rule": LEARNED, "phase": DOWN}, {"refusals": 3}),
    ("the quota", {"rule": QUOTA}, {"rule": NONE}),
    ("min_crawl_delay", {"rule": MINIMUM}, {"rule": MAX_RATE}),
    ("our own max_rate", {"rule": MAX_RATE}, {"rule": MINIMUM}),
    ("nothing but", {}, {"rule": QUOTA}),
]
WHY_SLOW: list[Case] = [
    ("it never answered", {"requests": 2, "failures": 2}, {"failures": 1}),
    ("it stopped answering", {"phase": DOWN, "failures": 3}, {"phase": SET}),
    ("default_crawl_delay", {"rule": CRAWL_DELAY, "gap_s": 2.0, "default_gap_s": 2.0}, {"default_gap_s": 0.0}),
    ("its robots.txt", {"rule": CRAWL_DELAY, "gap_s": 2.0}, {"default_gap_s": 2.0}),
    ("min_crawl_delay", {"rule": MINIMUM}, {"rule": NONE}),
    ("max_rate allows no more, and some", {"rule": MAX_RATE, "refusals": 1}, {"refusals": 0}),
    ("max_rate allows no more; raise", {"rule": MAX_RATE}, {"refusals": 1}),
    ("its RateLimit headers", {"rule": QUOTA}, {"rule": NONE}),
    ("fixed_delay", {"rule": LEARNED, "strategy": "fixed"}, {"strategy": "gauge"}),
    ("still finding the pace", {"rule": LEARNED, "phase": FINDING}, {"phase": AT_LIMIT}),
    ("it answered no faster", {"rule": LEARNED, "phase": AT_LIMIT, "refusals": 1}, {"refusals": 0}),
    ("base_delay", {"rule": LEARNED, "strategy": "linear"}, {"phase": AT_LIMIT}),
    ("at the pace learned before", {"rule": LEARNED, "phase": AT_LIMIT}, {"refusals": 2}),
    ("it was finding its pace", {"rule": LEARNED}, {"refusals": 2}),
    ("it asked to be left alone", {"phase": WAITING}, {"phase": SET}),
    ("its own response times", {}, {"rule": MAX_RATE}),
]
WHAT_HELPS: list[Case] = [
    ("it never answered", {"requests": 1, "failures": 1}, {"requests": 2}),
    ("it stopped answering", {"phase": DOWN, "failures": 3, "cause": Cause.BLOCK}, {"phase": SET}),
    ("most of the time went into robots.txt", {"cause": Cause.DISCOVERY}, {"cause": Cause.IDLE}),
    ("our own default_crawl_delay", {"cause": Cause.CRAWL_DELAY, "gap_s": 2.0, "default_gap_s": 2.0}, {"gap_s": 5.0}),
    ("only the owner", {"cause": Cause.CRAWL_DELAY, "gap_s": 5.0}, {"default_gap_s": 5.0}),
    ("our own fixed_delay", {"cause": Cause.LEARNED, "strategy": "fixed"}, {"strategy": "gauge"}),
    ("this is what the site bears", {"cause": Cause.LEARNED, "refusals": 1}, {"refusals": 0}),
    ("still finding the pace", {"cause": Cause.LEARNED, "phase": FINDING}, {"refusals": 1}),
    ("our own base_delay", {"cause": Cause.LEARNED, "strategy": "linear"}, {"strategy": "gauge"}),
    ("the pace was learned in an earlier", {"cause": Cause.LEARNED, "phase": AT_LIMIT}, {"refusals": 1}),
    ("it was finding its pace", {"cause": Cause.LEARNED}, {"phase": AT_LIMIT}),
    ("the site states its quota", {"cause": Cause.QUOTA}, {"cause": Cause.IDLE}),
    ("our own limit held it most of the time, and", {"cause": Cause.OUR_LIMITS, "refusals": 1}, {"refusals": 0}),
    ("our own max_rate binds: raise it", {"cause": Cause.OUR_LIMITS, "rule": MAX_RATE}, {"refusals": 1}),
    ("our own max_rate binds: raise it", {"cause": Cause.OUR_LIMITS, "rule": MAX_RATE}, {"rule": LEARNED}),
    ("our own min_crawl_delay or rule", {"cause": Cause.OUR_LIMITS, "rule": MINIMUM}, {"phase": AT_LIMIT}),
    ("our own limit held it most of the time; at", {"cause": Cause.OUR_LIMITS, "rule": LEARNED}, {"rule": MAX_RATE}),
    ("the site refused", {"cause": Cause.BLOCK, "refusals": 2}, {"refusals": 0, "failures": 1}),
    ("1 of 50 requests failed", {"cause": Cause.BLOCK, "failures": 1}, {"refusals": 3}),
    ("nothing was there to be sent", {"cause": Cause.IDLE}, {"cause": Cause.LATENCY}),
    ("one request was all", {"requests": 1}, {"requests": 2}),
    ("it gets 2 at once and not 8", {"in_flight_max": 2, "parallel": 2}, {"in_flight_max": 1}),
    ("8 at once are all in use", {"in_flight_max": 8}, {"refusals": 1}),
    ("the site takes its time", {}, {"in_flight_max": 8}),
]  # fmt: skip
TABLES: list[tuple[str, Sequence[Sentence], list[Case]]] = [
    ("binds", BINDS, WHAT_BINDS), ("because", BECAUSE, WHY_SLOW), ("hint", HINTS, WHAT_HELPS),
]  # fmt: skip
ROWS = [(f"{name}: {case[0]}", table, case) for name, table, cases in TABLES for case in cases]


@pytest.mark.parametrize(("table", "case"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_sentence_is_said_where_it_is_true_and_nowhere_else(table: Sequence[Sentence], case: Case) -> None:
    begins, true, undone = case
    facts = CALM._replace(**true)
    assert first_true(table, facts).startswith(begins)
    assert not first_true(table, facts._replace(**undone)).startswith(begins)


@pytest.mark.parametrize(("table", "cases"), [row[1:] for row in TABLES], ids=[row[0] for row in TABLES])
def test_every_sentence_is_among_them(table: Sequence[Sentence], cases: list[Case]) -> None:
    said = {first_true(table, CALM._replace(**true)) for _, true, _ in cases}
    forms = {each.text: re.sub(r"\\{\w+\\}", r"\\d+", re.escape(each.text)) for each in table}
    assert [text for text, form in forms.items() if not any(re.fullmatch(form, one) for one in said)] == []


UNTRUE = [
    # story                                   facts that once led to a sentence that was not true of them; a part of it
    ("one request, no refusal", BECAUSE, {"requests": 1, "rule": LEARNED, "phase": FINDING}, "without refusing"),
    ("a dead host", BECAUSE, {"requests": 2, "failures": 2, "rule": LEARNED, "phase": DOWN}, "without refusing"),
    ("still climbing", HINTS, {"cause": Cause.LEARNED, "rule": LEARNED, "phase": FINDING}, "ask its owner"),
    ("one broken URL", HINTS, {"cause": Cause.BLOCK, "failures": 1}, "lower max_rate"),
    ("a delay of 60 s was learned", HINTS,
     {"cause": Cause.OUR_LIMITS, "rule": LEARNED, "phase": AT_LIMIT, "gap_s": 60.0}, "raise it"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "facts", "untrue"), [row[1:] for row in UNTRUE], ids=[row[0] for row in UNTRUE])
def test_what_was_once_said_untruly_is_not_said(table: Sequence[Sentence], facts: dict[str, Any], untrue: str) -> None:
    assert untrue not in first_true(table, CALM._replace(**facts))


# -- phases


def learning(strategy: StrategyName, answers: list[Answer], **settings: Any) -> tuple[Story, float]:
    story = Story(strategy, max_rate=100.0, **settings)
    for answer in answers:
        story.visit(answer)
    return story, story.now


NOWS: list[tuple[str, StrategyName, list[Answer], dict[str, Any], PacePhase]] = [
    ("gauge before its first refusal", "gauge", [OK] * 5, {}, FINDING),
    ("gauge after one", "gauge", [OK] * 20 + [LIMITED, OK, OK], {}, AT_LIMIT),
    ("gauge at a crawl delay", "gauge", [OK] * 5, {"min_crawl_delay": 9.0}, SET),
    ("within a Retry-After", "gauge", [OK] * 5 + [limited(30.0)], {}, WAITING),
    ("a quota used up", "gauge", [OK, Answer(200, quota=Quota(0, 30.0))], {}, WAITING),
    ("nothing but errors", "gauge", [OK] * 5 + [BROKEN] * 5, {}, DOWN),
    ("one error", "gauge", [OK] * 5 + [BROKEN], {}, FINDING),
    ("a constant delay", "fixed", [OK] * 5, {}, SET),
    ("linear at its base delay", "linear", [OK] * 5, {}, SET),
    ("linear after a refusal", "linear", [LIMITED, OK], {}, AT_LIMIT),
    ("aimd on its way up", "aimd", [OK] * 5, {"token_bucket_capacity": 1.0}, FINDING),
    ("aimd at its highest rate", "aimd", [OK] * 60, {"token_bucket_capacity": 1.0}, SET),
    ("fibonacci at full speed", "fibonacci", [OK] * 5, {}, SET),
]


@pytest.mark.parametrize(
    ("strategy", "answers", "settings", "expected"), [r[1:] for r in NOWS], ids=[r[0] for r in NOWS]
)
def test_the_phase_of_a_pace(
    strategy: StrategyName, answers: list[Answer], settings: dict[str, Any], expected: PacePhase
) -> None:
    story, now = learning(strategy, answers, **settings)
    assert phase_of(story.pace, now) is expected


AFTERWARDS: list[tuple[str, dict[str, Any], PacePhase]] = [
    ("nothing was refused, nothing learned", {}, FINDING),
    ("refused", {"refusals": 1}, AT_LIMIT),
    ("learned before", {"learned": True}, AT_LIMIT),
    ("one failure at the end", {"failed_last": 1}, FINDING),
    ("two failures at the end", {"failed_last": 2, "refusals": 1}, DOWN),
    ("to be left alone", {"waits": True, "refusals": 1}, WAITING),
    ("a crawl delay", {"rule": CRAWL_DELAY, "refusals": 1}, SET),
    ("a constant delay", {"strategy": "fixed", "refusals": 1}, SET),
    ("linear at its base delay", {"strategy": "linear"}, SET),
]


@pytest.mark.parametrize(("facts", "expected"), [row[1:] for row in AFTERWARDS], ids=[row[0] for row in AFTERWARDS])
def test_the_phase_that_receipts_show(facts: dict[str, Any], expected: PacePhase) -> None:
    calm: dict[str, Any] = {
        "rule": LEARNED, "strategy": "gauge", "learned": False, "refusals": 0, "failed_last": 0, "waits": False
    }  # fmt: skip
    assert phase_of_receipts(**{**calm, **facts}) is expected
