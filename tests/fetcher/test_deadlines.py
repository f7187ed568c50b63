"""Who is late is ended, and nobody for time in which this process itself did not run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amble.core.outcome import Failure
from amble.fetcher.deadlines import Deadlines
from amble.fetcher.settings import FetcherSettings
from amble.fetcher.slots import Slots

LOOK_S = 0.25


class Machine:
    """A loop, its clock and libcurl: looks come when the story says so."""

    def __init__(self) -> None:
        self.now = 5_000.0
        self.ended: list[str] = []
        self.look: Any = None
        self.transfer = SimpleNamespace(
            aside=False, sent_at=self.now, prepared_at=self.now, header_timeout_s=2.0, stood_still_s=0.0,
            headers=None, window_from=None, window_bytes=0, body_bytes=0, stop=self.stop, is_flood=lambda: False,
        )  # fmt: skip
        settings = FetcherSettings(header_timeout_s=2.0, min_throughput_bytes_s=10, min_throughput_window_s=2.0)
        self.deadlines = Deadlines(settings, self, Slots(1, self), self, self)  # type: ignore[arg-type]

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_s: float, look: Any) -> object:
        assert delay_s == LOOK_S
        self.look = look
        return object()

    def under_way(self) -> list[Any]:
        return [] if self.ended else [self.transfer]

    def stop(self, failure: Failure, detail: str) -> None:
        assert failure is Failure.NETWORK_TIMEOUT
        self.ended.append(detail)

    def abandon(self, transfer: Any, finished: object) -> None:
        pass

    def take_fault(self, error: Exception) -> None:
        raise error


LATE = "headers not complete after 2 s"
STALLED = "0 bytes of body in 2 s"


@pytest.mark.parametrize(
    ("story", "in_the_body", "looks", "ended"),
    [
        ("headers that do not come", False, [LOOK_S] * 9, [LATE]),
        ("... looked at a little late each time", False, [0.45] * 5, [LATE]),
        ("not yet", False, [LOOK_S] * 8, []),
        ("the process stands still, then reads what has come", False, [LOOK_S, 60.0, LOOK_S], []),
        ("... and nothing has", False, [LOOK_S, 60.0, *[LOOK_S] * 8], [LATE]),
        ("it does so again and again", False, [60.0] * 7, []),
        ("a body that stalls", True, [LOOK_S] * 10, [STALLED]),
        ("... and the process stands still", True, [LOOK_S, 60.0, *[LOOK_S] * 6], []),
        ("... and nothing comes afterwards, either", True, [LOOK_S, 60.0, *[LOOK_S] * 8], [STALLED]),
    ],
)
def test_who_is_late(story: str, in_the_body: bool, looks: list[float], ended: list[str]) -> None:
    machine = Machine()
    machine.transfer.headers = {} if in_the_body else None
    machine.deadlines.watch()
    for after_s in looks:
        if not machine.ended:
            machine.now += after_s
            machine.look()
    assert machine.ended == ended, story
