"""Which kept connections may be used again, and which hosts do not keep theirs. Decides, and is told the time.

libcurl chooses a connection, and looks at an idle one at most once a second. What we know better is asked for when it
has chosen and nothing is written yet: that the connection was closed, or is about to be.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from amble.core.addresses import is_public
from amble.core.headers import Headers
from amble.fetcher.guard import Pin

Place = tuple[str, int]  # a connection: the address it leads to, and the port it has here

IDLE_PER_ADDRESS_MAX = 8  # one server may be the home of many hosts
BREAKS_MAX = 2  # under a request, before a host counts as one that keeps no connections
FORGIVEN_AFTER = 100  # answers over kept connections: every server is restarted now and then
REMEMBERED_MAX = 10_000  # hosts and connections of which something is remembered
MARGIN_S = 1.0  # before the server closes an idle connection, by its own word

_NOWHERE: Place = ("", 0)
_TIMEOUT = re.compile(r"(?:^|[,;])\s*timeout\s*=\s*\"?([0-9]{1,9})", re.IGNORECASE)
_ABOUT_CONNECTIONS = frozenset({"connection", "keep-alive"})


class KeptConnections:
    """The connections of one event loop, as far as they are known."""

    def __init__(self, idle_max: int, close: Callable[[Place], None]) -> None:
        self._idle_max = idle_max
        self._close = close
        self._users: dict[Place, int] = {}  # requests under way on each
        self._idle: dict[Place, bool] = {}  # in the order they became so, and whether they speak HTTP/2
        self._idle_at: dict[str, int] = {}  # how many lead to an address
        self._use_until: dict[Place, float] = {}  # as the server said
        self._closed: dict[Place, bool] = {}  # libcurl does not know it yet; whether they speak HTTP/2
        self._timed_out: dict[Place, None] = {}  # a request has, there
        self._renewed: dict[str, Pin] = {}  # by the key of their first pin: hosts with a connection that is dead
        self._breaks: dict[str, _Breaks] = {}  # by the key of their pin, or their proxy

    # --- A connection ----------------------------------------------------------------------------------------------

    def may_use(self, place: Place, now: Callable[[], float]) -> bool:
        """Whether a kept connection that libcurl has chosen is still good."""
        if place in self._closed:
            return False
        return not self._use_until or place not in self._use_until or now() <= self._use_until[place]

    def is_dead_http2(self, place: Place) -> bool:
        """Whether libcurl would choose it again, since refusing to use it does not close it."""
        return self._closed.get(place, False)

    def enter(self, place: Place, *, is_new: bool) -> None:
        """A request is written there next."""
        if is_new:  # perhaps with the port of one that is gone
            self._timed_out.pop(place, None)
            self._closed.pop(place, None)
        self._users[place] = self._users.get(place, 0) + 1
        if place in self._idle:
            self._leave_idle(place)

    def leave(self, place: Place, answer: Headers | None, now: float, *, is_http2: bool) -> None:
        """A request there has ended: with a whole answer, or (None) so that the connection is not kept."""
        users = self._users.pop(place, 1) - 1
        if users:
            self._users[place] = users
        elif answer is not None and self._is_kept(place, answer, now, is_http2):
            self._idle[place] = is_http2
            address = place[0]
            here = self._idle_at[address] = self._idle_at.get(address, 0) + 1
            if here > IDLE_PER_ADDRESS_MAX and _is_public(address):
                self._end_idle(next(other for other in self._idle if other[0] == address))
            if len(self._idle) > self._idle_max:
                self._leave_idle(next(iter(self._idle)))  # libcurl has closed it without a word

    def users(self, place: Place) -> int:
        """How many requests are under way on a connection."""
        return self._users.get(place, 1)

    def stirred(self, address: str, port: int, has_ended: bool) -> None:
        """Something came over an idle connection: its end, or what nobody has asked for. Once it was reset, the system
        does not know its address any more."""
        if address:
            self._stirred((address, port), has_ended)
        else:
            for place in [place for place in self._idle if place[1] == port]:
                self._stirred(place, True)

    def _stirred(self, place: Place, has_ended: bool) -> None:
        is_http2 = self._idle.get(place, False)
        if is_http2 and not has_ended:
            return  # may speak at any time
        if place in self._idle:
            self._leave_idle(place)
        _remember(self._closed, place, is_http2)  # an answer before its request is none (RFC 9112 9.3.2)

    def _is_kept(self, place: Place, answer: Headers, now: float, is_http2: bool) -> bool:
        if is_http2 or not answer.has_any(_ABOUT_CONNECTIONS):
            return True
        idle_s = _idle_s(answer.get("keep-alive", ""))
        if idle_s is not None:
            self._use_until[place] = now + idle_s - MARGIN_S
        return "close" not in answer.get("connection", "").lower()

    def _end_idle(self, place: Place) -> None:
        _remember(self._closed, place, self._idle[place])
        self._leave_idle(place)
        self._close(place)

    def _leave_idle(self, place: Place) -> None:
        del self._idle[place]
        self._use_until.pop(place, None)
        left = self._idle_at[place[0]] - 1
        if left:
            self._idle_at[place[0]] = left
        else:
            del self._idle_at[place[0]]

    # --- Silence ---------------------------------------------------------------------------------------------------

    def time_out(self, place: Place) -> bool:
        """A request had no answer there in time. Whether it is not the first one."""
        is_repeated = place in self._timed_out
        _remember(self._timed_out, place, None)
        return is_repeated

    def pin_for(self, pin: Pin) -> Pin:
        """The pin under which the connections of a host are kept now."""
        return self._renewed.get(pin.key, pin) if self._renewed else pin

    def renew(self, pin: Pin) -> None:
        """No connection made under this pin is used again; what is under way on them goes on."""
        if self._renewed.get(pin.key, pin).name == pin.name:  # else another request has seen to it
            _remember(self._renewed, pin.key, pin.again())

    # --- Hosts that break their connections ------------------------------------------------------------------------

    def keeps_none(self, peer: str) -> bool:
        """Whether a host, or a proxy, is asked over a new connection each time."""
        breaks = self._breaks.get(peer)
        return breaks is not None and breaks.count >= BREAKS_MAX

    def broke(self, peer: str, place: Place) -> None:
        """A kept connection broke under a request."""
        breaks = self._breaks.get(peer)
        if breaks is None:
            _remember(self._breaks, peer, _Breaks(place))
        elif breaks.last != place:  # else another request of the same connection
            breaks.count, breaks.answers, breaks.last = breaks.count + 1, 0, place

    def distrust(self, peer: str) -> None:
        """Its connections cannot be told apart, and one of them is dead."""
        _remember(self._breaks, peer, _Breaks(_NOWHERE, BREAKS_MAX))

    def held(self, peer: str) -> None:
        """A kept connection brought an answer."""
        breaks = self._breaks.get(peer)
        if breaks is not None:
            breaks.answers += 1
            if breaks.answers >= FORGIVEN_AFTER:
                del self._breaks[peer]

    @property
    def any_broke(self) -> bool:
        """Whether there is anybody of whom to ask more."""
        return bool(self._breaks)


class _Breaks:
    """What is known of a host under whose requests a connection broke."""

    __slots__ = ("answers", "count", "last")

    def __init__(self, last: Place, count: int = 1) -> None:
        self.count, self.answers, self.last = count, 0, last


def peer_of(url: str, pin: Pin, proxy: str | None) -> str:
    """Who keeps the connection that a request would use: the host, its proxy, or the host behind a tunnel."""
    if proxy is None:
        return pin.key
    return f"{proxy} {url.split('/', 3)[2]}" if url.startswith("https:") else proxy


def _remember(those: dict[Any, Any], key: Any, value: Any) -> None:
    those[key] = value
    if len(those) > REMEMBERED_MAX:
        del those[next(iter(those))]


@lru_cache(maxsize=4096)
def _is_public(address: str) -> bool:
    return is_public(address)


@lru_cache(maxsize=256)
def _idle_s(field: str) -> float | None:
    """How long the server keeps an idle connection (RFC 9112 C.2.2, `Keep-Alive: timeout=5, max=100`)."""
    match = _TIMEOUT.search(field)
    return None if match is None else float(match[1])
