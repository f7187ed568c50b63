"""One answer, reduced to what pacing may learn from it: status, failure, time, and what the server asked for. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from amble.core.outcome import Failure
from amble.core.quota import Quota, read_quota
from amble.core.retry_after import HONOURED_ON, LONGEST_S, http_date, retry_after_s


class Answer(NamedTuple):
    """What came back for one permit."""

    status: int | None = None
    failure: Failure | None = None
    elapsed_s: float | None = None
    retry_after_s: float | None = None
    quota: Quota | None = None
    challenge: bool = False

    @property
    def reason(self) -> str:
        """Why a domain is left alone after this answer."""
        if self.challenge:
            return "challenge page"
        asked = "" if self.retry_after_s is None else f", Retry-After {self.retry_after_s:.0f} s"
        return f"HTTP {self.status}{asked}" if self.status else str(self.failure or Failure.HTTP_RATE_LIMITED)


# Header names, lower case, that anything here looks at; a response without them needs no parsing at all.
_QUOTA_NAMES = ("ratelimit", "ratelimit-remaining", "x-ratelimit-remaining", "x-rate-limit-remaining")
_JUDGING = ("date", "age")  # headers that say how to take the others
_LARGEST = 10**30  # larger numbers are as good as this one
_NAME_CHARS_MAX = 64  # no name that matters is longer, and none that is longer is remembered
_CHALLENGES = (("cf-mitigated", "challenge"), ("x-amzn-waf-action", "challenge"), ("x-amzn-waf-action", "captcha"))


TELLING = frozenset({"retry-after", *_QUOTA_NAMES, *[name for name, _ in _CHALLENGES]})  # without these: nothing


class HasItems(Protocol):
    """A mapping of some HTTP library, whether or not it says so (`http.client` has one that does not)."""

    def items(self) -> Iterable[tuple[str, str]]: ...


Headers = HasItems | Iterable[tuple[str, str]]


def read_answer(
    *,
    status: int | None = None,
    headers: Headers | None = None,
    failure: Failure | None = None,
    elapsed_s: float | None = None,
    utc: datetime,
    retry_after_max_s: float = LONGEST_S,
) -> Answer:
    """The answer in a response. Header names may be in any case; `utc` dates what servers state as instants. Of a
    Retry-After so much is kept."""
    if headers is None:
        return Answer(status, failure, elapsed_s)
    named, retry_after = _interesting(headers)
    if not named and not retry_after:
        return Answer(status, failure, elapsed_s)  # nearly every answer
    asked_s = None
    if retry_after and status in HONOURED_ON:
        asked_s = retry_after_s(retry_after, date=named.get("date"), utc=utc)
        asked_s = None if asked_s is None else min(asked_s, retry_after_max_s)
    quota = None
    if any(name in named for name in _QUOTA_NAMES) and not _from_cache(named):
        # Instants are those of the server's clock, which `Date` tells; ours may be a day off.
        quota = read_quota(named, http_date(named.get("date", "")) or utc)
    challenge = any(named.get(name, "").strip().lower() == value for name, value in _CHALLENGES)
    return Answer(status, failure, elapsed_s, asked_s, quota, challenge)


def as_text(headers: object) -> list[tuple[str, str]]:
    """What can be read of headers whose types are not those of headers: bytes and numbers as text, lists one by one."""
    found: list[tuple[str, str]] = []
    with suppress(Exception):  # whatever iterates may raise whatever it likes
        pairs: Any = headers.items() if hasattr(headers, "items") else headers
        for name, said in pairs:
            values = said if isinstance(said, list | tuple) else (said,)
            found += [(_text(name), _text(value)) for value in values]
    return found


def _text(value: object) -> str:
    """Empty where it cannot be one. Header fields have whole numbers; whoever has read 5.5 means at least that."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, int | float) and abs(value) <= _LARGEST:
        return str(math.ceil(value))
    return value if isinstance(value, str) else str(_LARGEST) if isinstance(value, int) and value > 0 else ""


def _interesting(headers: Headers) -> tuple[dict[str, str], list[str]]:
    """The headers that matter here by lower-case name, and every `Retry-After` (there may be two).

    A `Date` or an `Age` alone does not: they are there to judge others by.
    """
    pairs: Iterable[tuple[str, str]] = headers.items() if hasattr(headers, "items") else headers
    named: dict[str, str] = {}
    retry_after: list[str] = []
    judging: dict[str, str] = {}
    for written, value in pairs:
        name = _matters(written) if len(written) <= _NAME_CHARS_MAX else None
        if name is None:
            continue
        if name == "retry-after":
            retry_after.append(value)
        else:
            (judging if name in _JUDGING else named).setdefault(name, value)
    if named or retry_after:
        named |= judging
    return named, retry_after


def _from_cache(named: dict[str, str]) -> bool:
    """Whether a cache answered with what was said to somebody else some time ago (RFC 9111 5.1)."""
    return named.get("age", "").partition(",")[0].strip().lstrip("0").isdecimal()


@lru_cache(maxsize=512)  # servers have few names for headers
def _matters(name: str) -> str | None:
    """The name in lower case, where anything here looks at it."""
    name = name.lower()
    known = name in ("retry-after", "date", "age", "cf-mitigated", "x-amzn-waf-action")
    return name if known or "ratelimit" in name or "rate-limit" in name else None
