"""What a server says outright about its limit: `RateLimit`, `RateLimit-Policy` and the `X-RateLimit-*` family. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

# A reset further away than this is a daily or monthly quota, of no use for pacing seconds.
LONGEST_RESET_S = 3_600.0

_EPOCH_FROM_S = 1_000_000_000
_EPOCH_FROM_MS = 1_000_000_000_000

# One structured-field parameter, e.g. `;r=50` (RFC 9651 3.1.2, integers only: all this header family uses).
_PARAMETER = re.compile(r";\s*([a-z*][a-z0-9_.*-]{0,15})\s*=\s*(\d{1,15})(?=\s*(?:[;,]|$))", re.ASCII)
# What a quota is counted in, where that is said: quoted by the draft, bare by some servers.
_UNIT = re.compile(r';\s*qu\s*=\s*"?([^";,\s]{0,64})')
_POLICY_NAME = re.compile(r'\s*(?:"([^"\\]{0,64})"|([A-Za-z*][\w:/*.-]{0,63}))')
_NUMBER = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*(?:$|[,;])", re.ASCII)


class _Item(NamedTuple):
    """One member of a structured list."""

    name: str
    parameters: dict[str, float]
    unit: str = "requests"


class Quota(NamedTuple):
    """`remaining` requests until `reset_s` seconds from now; `limit` per `window_s` if the policy was stated."""

    remaining: float
    reset_s: float
    limit: float | None = None
    window_s: float | None = None

    def rate(self, in_flight: int) -> float:
        """Requests per second that spend exactly what is left, counting those already under way."""
        rate = max(0.0, self.remaining - in_flight + 1) / self.reset_s
        if self.limit and self.window_s:  # zero of either is no policy
            rate = min(rate, self.limit / self.window_s)
        return rate


def read_quota(headers: Mapping[str, str], utc: datetime) -> Quota | None:
    """The tightest quota these headers state (names in lower case), or None. Garbage says nothing."""
    field = headers.get("ratelimit")
    if field is not None:
        return _structured(field, headers.get("ratelimit-policy", ""))
    for prefix in ("ratelimit-", "x-ratelimit-", "x-rate-limit-"):
        if prefix + "remaining" in headers:
            return _separate(headers, prefix, utc)
    return None


def _structured(field: str, policy_field: str) -> Quota | None:
    """draft-ietf-httpapi-ratelimit-headers: `"name";r=50;t=30`, policies `"name";q=100;w=60`."""
    policies = {item.name: item for item in _items(policy_field)}
    quotas = []
    for item in _items(field):
        # The first drafts wrote `limit=100, remaining=50, reset=30` without items; see _items.
        remaining, reset_s = item.parameters.get("r"), item.parameters.get("t")
        told = policies.get(item.name, _Item(item.name, {}))
        if remaining is None or {item.unit, told.unit} != {"requests"}:
            continue  # bytes left, or requests at once, say nothing about how many may follow
        policy = told.parameters
        reset_s = reset_s if reset_s is not None else policy.get("w")
        if reset_s:
            limit, window_s = policy.get("q"), policy.get("w")
            quotas.append(Quota(remaining, min(reset_s, LONGEST_RESET_S), limit, window_s))
    return min(quotas, key=lambda quota: quota.rate(1), default=None)


def _items(field: str) -> list[_Item]:
    """Members of a structured list with their integer parameters; a flat early-draft dictionary is one member."""
    field = field[:2_048]
    flat = dict(re.findall(r"\b(limit|remaining|reset)\s*=\s*([0-9]{1,15})", field))
    if "remaining" in flat:
        renamed = {"r": flat.get("remaining"), "t": flat.get("reset")}
        return [_Item("", {key: float(value) for key, value in renamed.items() if value is not None})]
    items = []
    for member in field.split(","):
        name = _POLICY_NAME.match(member)
        if name:
            written = member[name.end() :]
            parameters = {key: float(value) for key, value in _PARAMETER.findall(written)}
            unit = _UNIT.search(written)
            items.append(_Item(name.group(1) or name.group(2), parameters, unit.group(1) if unit else "requests"))
    return items


def _separate(headers: Mapping[str, str], prefix: str, utc: datetime) -> Quota | None:
    """The older headers: `-Remaining`, `-Limit`, `-Reset` as seconds from now or as an epoch."""
    remaining = _number(headers.get(prefix + "remaining"))
    reset = _number(headers.get(prefix + "reset"))
    if remaining is None or reset is None:
        return None
    if reset >= _EPOCH_FROM_MS:
        reset /= 1_000
    if reset >= _EPOCH_FROM_S:
        reset -= utc.timestamp()
    if not 0 < reset < math.inf:
        return None
    return Quota(remaining, min(reset, LONGEST_RESET_S))


def _number(text: str | None) -> float | None:
    match = _NUMBER.match(text) if text else None
    return float(match.group(1)) if match else None
