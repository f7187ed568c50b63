"""Arrivals are dated by the kernel, so that a farm that reads late blames nobody for it."""

from __future__ import annotations

import sys
import time

import pytest

from amble.testing.farm import Site
from amble.testing.farm.limits import bucket, refusing

from .conftest import Start
from .helpers import Busy, raw, send, settled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux dates what it receives")


def test_requests_read_together_keep_the_time_between_them(start: Start) -> None:
    farm = start()
    first = raw(farm, ("a.test", "/"))
    settled(farm, 1)
    with Busy(farm):
        second = raw(farm)  # the farm has accepted the first connection, and not yet this one
        before = time.monotonic()
        send(first, ("a.test", "/1"))
        time.sleep(0.1)
        send(second, ("a.test", "/2"))
        after = time.monotonic()
        time.sleep(0.1)
    _, one, two = settled(farm, 3)
    first.close()
    second.close()
    assert before - 0.001 <= one.arrived
    assert two.arrived <= after + 0.001
    assert two.arrived - one.arrived >= 0.099


def test_a_limit_judges_by_the_same_time(start: Start) -> None:
    farm = start(Site(name="a.test", limit=refusing(bucket(20.0, 1.0))))
    first = raw(farm, ("a.test", "/"))
    settled(farm, 1)
    with Busy(farm):
        second = raw(farm)
        for connection in (first, second):
            time.sleep(0.08)
            send(connection, ("a.test", "/"))
    assert not any(entry.refused for entry in settled(farm, 3))
    first.close()
    second.close()
