"""How long a site asks us to wait between requests: `Crawl-delay` and `Request-rate`, the stricter of both. Pure.

Neither is in RFC 9309; both are written by hand, so units, decimal commas and trailing words are understood. What is
negative, infinite or no number says nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from amble.core.robots.lines import Kind, Line

_NUMBER = r"[0-9]+(?:[.,][0-9]+)?(?:e[+-]?[0-9]+)?|[.,][0-9]+"
_DELAY = re.compile(rf"\+?({_NUMBER})\s*([a-z]*)", re.IGNORECASE)
_RATE = re.compile(rf"({_NUMBER})\s*/\s*(?:({_NUMBER})\s*([a-z]*)|([a-z]+))", re.IGNORECASE)

_UNITS_S = {"ms": 0.001, "m": 60.0, "min": 60.0, "h": 3_600.0, "hour": 3_600.0, "d": 86_400.0, "day": 86_400.0}


def crawl_delay_s(extras: Iterable[Line]) -> float | None:
    """The longest delay that a group's lines ask for, in seconds; None if they ask for none."""
    asked = []
    for line in extras:
        if line.kind is Kind.CRAWL_DELAY:
            asked.append(read_delay_s(line.value.decode("latin-1")))
        elif line.kind is Kind.REQUEST_RATE:
            asked.append(read_rate_s(line.value.decode("latin-1")))
    return max((delay_s for delay_s in asked if delay_s is not None), default=None)


def read_delay_s(text: str) -> float | None:
    """`10`, `0.5`, `1,5`, `2s`, `1 min`, `10 please`: seconds unless it says otherwise."""
    match = _DELAY.match(text)
    return _finite(_float(match[1]) * _unit_s(match[2])) if match else None


def read_rate_s(text: str) -> float | None:
    """`1/5` is one request in five seconds, `30/1m` thirty in a minute. A time of day behind it is not looked at:
    the rate then holds all day, which the site cannot mind."""
    match = _RATE.match(text)
    if match is None:
        return None
    count = _float(match[1])
    period_s = _float(match[2] or "1") * _unit_s(match[3] or match[4] or "")
    return _finite(period_s / count) if 0 < count < math.inf else None


def _float(text: str) -> float:
    return float(text.replace(",", "."))


def _unit_s(word: str) -> float:
    """Seconds in a unit, in the singular or plural, short or long; a word that is none counts as seconds."""
    word = word.lower()
    for unit in (word, word[:-1] if word.endswith("s") else word, word[:3]):
        if unit in _UNITS_S:
            return _UNITS_S[unit]
    return 1.0


def _finite(seconds: float) -> float | None:
    return seconds if 0 <= seconds < math.inf else None
