"""The failure table: what each kind of end means for the domain and for the URL [L3]."""

from __future__ import annotations

import pytest

from amble.core.outcome import LESSONS, Failure, Outcome, failure_of_status, outcome_of

STATUSES = [
    # status  failure                       outcome for the pace
    (200, None, Outcome.SUCCESS),
    (204, None, Outcome.SUCCESS),
    (301, None, Outcome.SUCCESS),
    (304, None, Outcome.SUCCESS),
    (399, None, Outcome.SUCCESS),
    (400, Failure.HTTP_CLIENT_ERROR, Outcome.SUCCESS),
    (401, Failure.HTTP_CLIENT_ERROR, Outcome.SUCCESS),
    (403, Failure.HTTP_CLIENT_ERROR, Outcome.SUCCESS),
    (404, Failure.HTTP_CLIENT_ERROR, Outcome.SUCCESS),
    (410, Failure.HTTP_CLIENT_ERROR, Outcome.SUCCESS),
    (428, Failure.HTTP_CLIENT_ERROR, Outcome.SUCCESS),
    (429, Failure.HTTP_RATE_LIMITED, Outcome.LIMITED),
    (430, Failure.HTTP_CLIENT_ERROR, Outcome.SUCCESS),
    (499, Failure.HTTP_CLIENT_ERROR, Outcome.SUCCESS),
    (500, Failure.HTTP_SERVER_ERROR, Outcome.FAILED),
    (502, Failure.HTTP_SERVER_ERROR, Outcome.FAILED),
    (503, Failure.HTTP_SERVER_ERROR, Outcome.FAILED),
    (504, Failure.HTTP_SERVER_ERROR, Outcome.FAILED),
    (599, Failure.HTTP_SERVER_ERROR, Outcome.FAILED),
]


@pytest.mark.parametrize(("status", "failure", "outcome"), STATUSES)
def test_what_a_status_says_on_its_own(status: int, failure: Failure | None, outcome: Outcome) -> None:
    assert failure_of_status(status) is failure
    assert outcome_of(status, None) is outcome


def test_every_failure_has_a_lesson() -> None:
    assert set(LESSONS) == set(Failure)


def test_what_is_retried_is_what_may_pass() -> None:
    """L3: 429, 5xx and the network; a challenge is a limit by another name, and a cancelled URL was never tried."""
    retried = {failure for failure, lesson in LESSONS.items() if lesson.retried}
    network = {failure for failure in Failure if failure.startswith("network_")}
    assert len(network) == 6
    assert retried == network | {
        Failure.HTTP_SERVER_ERROR,
        Failure.HTTP_RATE_LIMITED,
        Failure.BLOCKED_BY_BOT_PROTECTION,
        Failure.CANCELLED,
    }


def test_what_the_breaker_counts_is_what_the_server_could_not_answer() -> None:
    failed = {failure for failure, lesson in LESSONS.items() if lesson.outcome is Outcome.FAILED}
    assert failed == {f for f in Failure if f.startswith("network_")} | {Failure.HTTP_SERVER_ERROR}


@pytest.mark.parametrize(
    "failure",
    [
        Failure.ROBOTS_DISALLOWED,
        Failure.ROBOTS_UNREACHABLE,
        Failure.CRAWL_DELAY_TOO_LONG,
        Failure.ADDRESS_FORBIDDEN,
        Failure.OUT_OF_SCOPE,
        Failure.CANCELLED,
    ],
)
def test_where_the_server_was_not_asked_nothing_is_learned(failure: Failure) -> None:
    assert outcome_of(None, failure) is Outcome.IGNORED


def test_a_failure_outweighs_the_status_it_came_with() -> None:
    assert outcome_of(200, Failure.NETWORK_RESET) is Outcome.FAILED
    assert outcome_of(200, Failure.CONTENT_TOO_LARGE) is Outcome.SUCCESS
    assert outcome_of(500, Failure.CANCELLED) is Outcome.IGNORED
