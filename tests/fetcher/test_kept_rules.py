"""What is known of kept connections, by itself: who may use which, how many are idle, and what is forgotten."""

from __future__ import annotations

import pytest

from amble.core.headers import Headers
from amble.fetcher import kept as kept_module
from amble.fetcher.guard import pin_host
from amble.fetcher.kept import IDLE_PER_ADDRESS_MAX, KeptConnections, Place, peer_of

NOW = 1_000.0
HERE: Place = ("11.0.0.1", 4000)
PLAIN = Headers()


class Kept(KeptConnections):
    """Connections, and which of them were ended."""

    def __init__(self, idle_max: int = 100) -> None:
        self.ended: list[Place] = []
        super().__init__(idle_max, self.ended.append)

    def serve(self, place: Place, answer: Headers = PLAIN, *, is_new: bool = True, is_http2: bool = False) -> None:
        self.enter(place, is_new=is_new)
        self.leave(place, answer, NOW, is_http2=is_http2)

    def allows(self, place: Place, now: float = NOW) -> bool:
        return self.may_use(place, lambda: now)


@pytest.mark.parametrize(
    ("field", "idle_s", "allowed"),
    [
        ("timeout=5", 3.9, True),
        ("timeout=5", 4.1, False),
        ("max=7, timeout=5", 4.1, False),
        ("timeout=1", 0.001, False),
        ("xtimeout=1", 60.0, True),
        ("timeout=", 60.0, True),
        ("timeout=99999999999999999999", 60.0, True),
    ],
)
def test_the_servers_own_word_is_heeded_a_second_early(field: str, idle_s: float, allowed: bool) -> None:
    kept = Kept()
    kept.serve(HERE, Headers([("Keep-Alive", field)]))
    assert kept.allows(HERE, NOW + idle_s) is allowed


def test_each_answer_starts_the_time_anew() -> None:
    kept = Kept()
    kept.serve(HERE, Headers([("Keep-Alive", "timeout=5")]))
    kept.enter(HERE, is_new=False)
    kept.leave(HERE, PLAIN, NOW + 3, is_http2=False)  # this one says nothing
    assert kept.allows(HERE, NOW + 60)


@pytest.mark.parametrize(
    ("is_http2", "has_ended", "allowed"),
    [(False, True, False), (False, False, False), (True, True, False), (True, False, True)],
    ids=["closed", "an answer before its request", "HTTP/2, closed", "HTTP/2 may speak at any time"],
)
@pytest.mark.parametrize("reset", [False, True], ids=["known", "reset"])
def test_what_stirs_on_an_idle_connection(is_http2: bool, has_ended: bool, allowed: bool, reset: bool) -> None:
    kept, other = Kept(), ("11.0.0.2", 4001)
    for place in (HERE, other):
        kept.serve(place, is_http2=is_http2)
    kept.stirred("" if reset else HERE[0], HERE[1], has_ended)
    assert kept.allows(HERE) is (allowed and not reset)  # a reset is an end, whatever else is known
    assert kept.allows(other)
    assert kept.is_dead_http2(HERE) is (is_http2 and not kept.allows(HERE))
    kept.enter(HERE, is_new=True)  # a new one has got its port
    assert kept.allows(HERE)


def test_idle_is_a_connection_that_nobody_uses() -> None:
    kept = Kept()
    for _ in range(3):
        kept.enter(HERE, is_new=False)
    assert kept.users(HERE) == 3
    for _ in range(2):
        kept.leave(HERE, PLAIN, NOW, is_http2=True)
    for port in range(IDLE_PER_ADDRESS_MAX):
        kept.serve((HERE[0], port))
    assert kept.ended == []
    kept.leave(HERE, PLAIN, NOW, is_http2=True)
    assert kept.ended == [(HERE[0], 0)]


def test_the_oldest_idle_ones_are_ended() -> None:
    many_names = [("11.0.0.1", port) for port in range(IDLE_PER_ADDRESS_MAX + 3)]
    kept = Kept()
    for place in many_names:
        kept.serve(place)
    assert kept.ended == many_names[:3]
    at_home = Kept()
    for port in range(50):
        at_home.serve(("192.168.0.1", port))
    assert at_home.ended == []
    assert not kept.allows(many_names[0])


def test_what_the_server_closes_is_not_idle() -> None:
    kept = Kept()
    for port in range(50):
        kept.serve(("11.0.0.1", port), Headers([("Connection", "Close")]))
        kept.enter(("11.0.0.1", port + 100), is_new=True)
        kept.leave(("11.0.0.1", port + 100), None, NOW, is_http2=False)  # a failure
    assert kept.ended == []


def test_breaks_of_one_connection_are_one() -> None:
    kept = Kept()
    for _ in range(16):  # requests that shared it
        kept.broke("site", HERE)
    assert not kept.keeps_none("site")
    kept.broke("site", ("11.0.0.1", 4001))
    assert kept.keeps_none("site")
    assert not kept.keeps_none("other")


def test_a_silent_connection_is_left_once() -> None:
    kept, pin = Kept(), pin_host("site.test", ("11.0.0.1",), 443)
    assert kept.pin_for(pin) is pin
    kept.renew(pin)
    second = kept.pin_for(pin)
    assert second.name != pin.name
    assert second.name in second.resolve[0]
    assert second.name in second.connect_to[0]
    assert (second.packed, second.key) == (pin.packed, pin.key)
    kept.renew(pin)  # another request of the first connection times out, too
    assert kept.pin_for(pin) is second
    kept.renew(second)
    assert kept.pin_for(pin).name not in (pin.name, second.name)


def test_nothing_is_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_module, "REMEMBERED_MAX", 10)
    kept = Kept(idle_max=20)
    for number in range(500):
        place, pin = (f"11.0.{number // 250}.{number % 250}", 1), pin_host(f"h{number}.test", ("11.0.0.1",), 443)
        kept.serve(place, Headers([("Keep-Alive", "timeout=5")]))
        kept.broke(str(number), place)
        kept.renew(pin)
        kept.time_out(place)
    held = [value for value in vars(kept).values() if isinstance(value, dict)]
    assert len(held) == 8
    assert max(map(len, held)) <= 20


@pytest.mark.parametrize(
    ("url", "proxy", "peer"),
    [
        ("https://a.test/x", None, "the pin"),
        ("http://a.test/x", "http://proxy:1", "http://proxy:1"),
        ("https://a.test/x", "http://proxy:1", "http://proxy:1 a.test"),
    ],
)
def test_who_keeps_a_connection(url: str, proxy: str | None, peer: str) -> None:
    pin = pin_host("a.test", ("11.0.0.1",), 443)
    assert peer_of(url, pin, proxy) == (pin.key if peer == "the pin" else peer)
