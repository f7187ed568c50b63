"""Where a redirect leads. Pure."""

from __future__ import annotations

from amble.core.addresses import is_public
from amble.core.frontier.changes import Fetched
from amble.core.frontier.visit import Visit
from amble.core.headers import Headers
from amble.core.urls import Refusal, normalize

REDIRECTS = frozenset({301, 302, 303, 307, 308})


def location_of(headers: Headers) -> str | None:
    """What `Location` says; None where it says nothing, or two things at once, which no browser follows either [D2]."""
    named = set(headers.get_all("location"))
    return (named.pop() or None) if len(named) == 1 else None


def target_of(visit: Visit, headers: Headers) -> str | Refusal:
    """The URL of the next hop, if it is one that may enter at all."""
    location = location_of(headers)
    return Refusal.NOT_A_URL if location is None else normalize(location, visit.url)


def is_private(fetched: Fetched) -> bool:
    """Whether an answer came from a private address. Whoever is behind a proxy is not known."""
    return fetched.peer_ip is not None and not fetched.proxied and not is_public(fetched.peer_ip)
