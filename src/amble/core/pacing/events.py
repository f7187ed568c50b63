"""What happened to a pace, as frozen values for listeners. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class PaceChanged(NamedTuple):
    domain: str
    delay_s: float
    was_s: float
    error_streak: int
    reason: str


class BlockOpened(NamedTuple):
    domain: str
    wait_s: float
    retry_after_s: float | None
    error_streak: int
    reason: str


class BlockClosed(NamedTuple):
    domain: str
    blocked_s: float
    delay_s: float
    reason: str


class Paused(NamedTuple):
    """The server asked for a pause without refusing anything, or for a longer one than was told with its refusal."""

    domain: str
    wait_s: float
    reason: str


class CircuitOpened(NamedTuple):
    domain: str
    wait_s: float
    error_streak: int
    reason: str


class CircuitHalfOpened(NamedTuple):
    domain: str
    reason: str


class CircuitClosed(NamedTuple):
    domain: str
    open_s: float
    reason: str


class ConcurrencyReason(StrEnum):
    """What changed how many requests a domain gets at once."""

    DELAY_GREW = "the delay grew"
    DELAY_FELL = "the delay fell"
    CAP_FOUND = "the site refuses more at once"
    CAP_LIFTED = "more at once are tried again"
    BOUNDS = "by the settings and robots.txt"


class ConcurrencyChanged(NamedTuple):
    domain: str
    parallel: int
    was: int
    reason: ConcurrencyReason


class PermitLost(NamedTuple):
    domain: str
    seq: int
    reason: str


class RobotsMissed(NamedTuple):
    """A robots.txt could not be had, so that nothing of its domain may be fetched."""

    domain: str
    reason: str
    tries: int
    wait_s: float | None  # until it is asked for again; None: its URLs have ended


class NobodyThere(NamedTuple):
    """A request met nobody where it was sent, and nobody ever answered there. Said of the first in a job."""

    domain: str
    origin: str
    reason: str
    check: str  # what may be wrong


class TailBegan(NamedTuple):
    """Nothing but failing domains is left."""

    domain: str  # none in particular
    given_up: Sequence[str]  # those that have brought no page in this run, and end
    wait_s: float  # until then
    others: int  # that have, and are waited for
    others_wait_s: float


class NetworkDown(NamedTuple):
    """Nearly everything fails at once: nothing is sent but a trial now and then, and no domain learns from it."""

    domain: str  # none in particular
    reason: str
    detail: str


class NetworkBack(NamedTuple):
    domain: str
    down_s: float


class NobodyReached(NamedTuple):
    """In this run not one site was reached, and all for the same reason: somebody else answers for them."""

    domain: str  # none in particular
    reason: str


class Warned(NamedTuple):
    """Something besides the pace of a domain that whoever runs the job should know."""

    domain: str  # none in particular: what it is about
    reason: str


Event = (
    PaceChanged
    | BlockOpened
    | BlockClosed
    | Paused
    | CircuitOpened
    | CircuitHalfOpened
    | CircuitClosed
    | ConcurrencyChanged
    | PermitLost
    | RobotsMissed
    | NobodyThere
    | TailBegan
    | NetworkDown
    | NetworkBack
    | NobodyReached
    | Warned
)
