"""What of a value can be stored: text that encodes, numbers that fit, validators that can be sent back [E4].

Every field that a server had a hand in goes through here before it meets the database. Bodies are long and come out of
our own decoder, so they get the cheap check first and the thorough one (`mend`) only if their batch was refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from json import dumps

from amble.core.text import SHORT_CHARS_MAX as SHORT_CHARS_MAX
from amble.core.text import TEXT_CHARS_MAX as TEXT_CHARS_MAX
from amble.core.text import line_part as line_part
from amble.core.text import mend as mend
from amble.core.text import text as text

VALIDATOR_CHARS_MAX = 1024
_INT32 = 1 << 31

# Visible ASCII, with spaces inside (RFC 9110 5.5): what may be replayed in If-None-Match and If-Modified-Since.
_VALIDATOR = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def body(value: str | None) -> str | None:
    """A body, whole. NUL is replaced as in every text column; the rest was seen to by the decoder."""
    return value.replace("\0", "\ufffd") if value is not None and "\0" in value else value


def validator(value: str | None) -> str | None:
    """An ETag or Last-Modified that can be sent back as it came; None if it cannot."""
    if value is None or len(value) > VALIDATOR_CHARS_MAX or not _VALIDATOR.fullmatch(value):
        return None
    return value


def int32(value: int | None) -> int | None:
    return value if value is None or -_INT32 <= value < _INT32 else None


def utc(value: datetime | None) -> datetime | None:
    """A time as the tables keep it: UTC, without a zone. An aware time in another column type would be shifted."""
    if value is None or value.tzinfo is None:
        return value
    return (value if value.tzinfo is UTC else value.astimezone(UTC)).replace(tzinfo=None)


def aware(value: datetime | None) -> datetime | None:
    """A time from the tables, with its zone."""
    return value.replace(tzinfo=UTC) if value is not None else None


def json_text(value: Mapping[str, object] | list[str]) -> str:
    return dumps(value, ensure_ascii=True, default=str)
