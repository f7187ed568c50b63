"""When a page changed, as sitemaps and feeds write it: W3C dates and RFC 822 dates to UTC, or nothing. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

# Dates outside the web's lifetime say something about the generator, not about the page.
YEAR_MIN, YEAR_MAX = 1970, 2099
_CHARS_MAX = 64

_W3C = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[Tt ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
    r"\s*(?P<zone>[A-Za-z]{1,3}|[+-]\d{2}(?::?\d{2})?)?)?)?)?",
    re.ASCII,
)
_RFC822 = re.compile(
    r"(?:[A-Za-z]{3,9},?\s+)?(?P<day>\d{1,2})[\s-]+(?P<month>[A-Za-z]{3})[a-z]*[\s-]+(?P<year>\d{4}|\d{2})"
    r"\s+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?\s+(?P<zone>[A-Za-z]{1,3}|[+-]\d{2}:?\d{2})",
    re.ASCII,
)
_MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
# RFC 822 5.1; the military letters but Z were specified backwards and mean nothing (RFC 2822 4.3).
_ZONE_HOURS = {
    "z": 0, "ut": 0, "utc": 0, "gmt": 0,
    "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7,
}  # fmt: skip


@lru_cache(maxsize=1024)  # a generator writes the same few dates over and over
def parse_date(text: str) -> datetime | None:
    """The instant a `lastmod`, `pubDate` or `updated` names, in UTC; None for anything that is no plausible date.

    `text` comes without white space around it. A W3C date without a zone is read as UTC; an RFC 822 date without one is
    incomplete and ignored.
    """
    if not 4 <= len(text) <= _CHARS_MAX or not text.isascii():
        return None
    try:
        return _plausible(datetime.fromisoformat(text))  # the common forms, in C
    except ValueError:
        pass
    match = _W3C.fullmatch(text) or _RFC822.fullmatch(text)
    return None if match is None else _from_parts(match.groupdict())


def _from_parts(parts: dict[str, str | None]) -> datetime | None:
    zone = _zone(parts["zone"] or "z")
    if zone is None:
        return None
    try:
        return _plausible(
            datetime(
                _year(parts["year"] or ""),
                _month(parts["month"] or "1"),
                int(parts["day"] or 1),
                int(parts["hour"] or 0),
                int(parts["minute"] or 0),
                int(parts["second"] or 0),
                tzinfo=zone,
            )
        )
    except ValueError:
        return None


def _plausible(when: datetime) -> datetime | None:
    if not YEAR_MIN <= when.year <= YEAR_MAX:
        return None
    if when.tzinfo is UTC:
        return when
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _year(text: str) -> int:
    if len(text) > 2:
        return int(text)
    return int(text) + (2000 if int(text) < 50 else 1900)  # RFC 2822 4.3


def _month(text: str) -> int:
    return int(text) if text.isdigit() else _MONTHS.get(text.lower(), 0)  # month 0: refused by datetime


def _zone(text: str) -> timezone | None:
    if text[0] not in "+-":
        hours = _ZONE_HOURS.get(text.lower())
        return None if hours is None else timezone(timedelta(hours=hours))
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if offset >= timedelta(hours=24):
        return None
    return timezone(-offset if text[0] == "-" else offset)
