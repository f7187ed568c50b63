"""How many sockets this process may have open, after asking the system for as many as it allows."""

from __future__ import annotations

import sys
from typing import NamedTuple

WANTED = 65_536
CONNECTS_MAX = 1_024  # that take long, and so hold no place
FOR_THE_REST = 256  # files, pipes and sockets of others; half of them all, where there are few
_UNLIMITED = 1_000_000


class Room(NamedTuple):
    """How many sockets may be open for what."""

    places: int  # requests under way
    aside: int  # requests that wait long for a connection, and so hold no place
    kept: int  # idle connections


def room_for(places: int, kept: int) -> Room:
    """What there are descriptors for [F11]."""
    spare = _spare()
    places = max(1, min(places, spare // 2))
    kept = max(1, min(kept, (spare - places) * 3 // 4))
    return Room(places, max(0, min(CONNECTS_MAX, spare - places - kept)), kept)


def raise_limit() -> int | None:
    """Raise the soft limit to what the hard one allows, as programs do that do not use select(). What it is then; None:
    there is none."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS allows less than it says
            return soft
        return wanted
    return soft


def _spare() -> int:
    limit = raise_limit()
    return _UNLIMITED if limit is None else max(2, limit - min(limit // 2, FOR_THE_REST))
