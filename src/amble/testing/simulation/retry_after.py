"""Retry-After as servers write it: seconds, three kinds of dates, epoch seconds, twice, and plain nonsense."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import formatdate
from random import Random
from typing import Literal

from amble.testing.lab.announce import WALL_AT_START
from amble.testing.lab.limiters import whole_seconds

Form = Literal["silent", "seconds", "date", "rfc850", "asctime", "epoch", "zero", "negative", "words", "long"]
FORMS: tuple[Form, ...] = ("silent", "seconds", "date", "rfc850", "asctime", "epoch", "zero", "negative", "words")
MEANT: frozenset[Form] = frozenset({"seconds", "date", "rfc850", "asctime", "epoch", "long"})
LONG_S = 5_000


def announce(form: Form, now: float, wait_s: float, random: Random) -> dict[str, str]:
    """The fields a server adds. Its wall clock is its own, which `Date` tells: two years from the crawler's."""
    until = math.ceil(WALL_AT_START + now + wait_s + random.choice((0, 2, 30)))
    at = datetime.fromtimestamp(until, UTC)
    said = {
        "silent": None,
        "seconds": str(whole_seconds(until - WALL_AT_START - now)),
        "date": formatdate(until, usegmt=True),
        "rfc850": at.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
        "asctime": at.strftime("%a %b %d %H:%M:%S %Y"),
        "epoch": str(until),
        "zero": "0",
        "negative": "-30",
        "words": "soon",
        "long": str(LONG_S),
    }[form]
    if said is None:
        return {}
    return {"Date": formatdate(WALL_AT_START + math.floor(now), usegmt=True), "Retry-After": said}


def meant_s(headers: dict[str, str]) -> float | None:
    """What such a field asks for, by the judge's own reading."""
    said, date = headers.get("Retry-After"), headers.get("Date")
    if said is None or said in ("0", "soon") or said.startswith("-"):
        return None
    if said.isdigit() and int(said) < WALL_AT_START / 2:
        return float(said)
    dated = _seconds(date) if date else 0.0
    return (float(said) if said.isdigit() else _seconds(said)) - dated


def _seconds(text: str) -> float:
    for form in ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    raise ValueError(text)
