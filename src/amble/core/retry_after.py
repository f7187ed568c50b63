"""How long a `Retry-After` header asks us to stay away, in all its forms (RFC 9110 10.2.3). Pure.

Zero, negative numbers and garbage count as absent: never as "no need to wait".
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_tz
from functools import lru_cache

# The header is honoured only where it means "come back later" (RFC 9110 10.2.3; RFC 6585 4).
HONOURED_ON = frozenset({429, 503, *range(300, 400)})

# Beyond a year the number is nonsense, but the wish is clear: the domain stays deferred.
LONGEST_S = 365 * 86_400.0

# Some servers send the instant as epoch seconds instead of a delay.
EPOCH_FROM = 1_000_000_000

_LONGEST_TEXT = 64


def http_date(text: str) -> datetime | None:
    """An HTTP date in any of its three forms (IMF-fixdate, RFC 850, asctime), or None."""
    if not text or len(text) > _LONGEST_TEXT or not text.isascii():
        return None
    return _read_date(text)


@lru_cache(maxsize=256)  # the answers of one second say the same
def _read_date(text: str) -> datetime | None:
    parts = parsedate_tz(text)
    if parts is None:
        return None
    year, month, day, hour, minute, second = parts[:6]
    try:
        # A leap second is folded into its neighbour. HTTP dates are always GMT (RFC 9110 5.6.7); a server that states
        # another zone means it.
        written = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        return written - timedelta(seconds=parts[9] or 0)
    except (ValueError, OverflowError):
        return None


def retry_after_s(values: str | Iterable[str], *, date: str | None, utc: datetime) -> float | None:
    """Seconds asked for; of several headers the longest. An instant is judged against the response's own `Date`."""
    if isinstance(values, str):
        values = (values,)
    answered_at = (http_date(date) if date else None) or utc
    asked = [delay for value in values if (delay := _one_value_s(value.strip(" \t"), answered_at)) is not None]
    return max(asked, default=None)


def _one_value_s(text: str, answered_at: datetime) -> float | None:
    if text.isascii() and text.isdigit():
        if len(text.lstrip("0")) > len(str(EPOCH_FROM)) + 2:  # too long for seconds or for an epoch: plainly "not now"
            return LONGEST_S
        delay_s = float(text)
        if delay_s >= EPOCH_FROM:
            delay_s -= answered_at.timestamp()
    else:
        until = http_date(text)
        if until is None:
            return None
        delay_s = (until - answered_at).total_seconds()
    return min(delay_s, LONGEST_S) if delay_s > 0 else None
