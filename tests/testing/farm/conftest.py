"""A farm for tests that need a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from amble.testing.farm import Farm, Site

Start = Callable[..., Farm]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a farm of these sites, which ends with the test."""
    with ExitStack() as stack:
        yield lambda *sites, port=0: stack.enter_context(Farm(sites or [Site(name="a.test")], port=port))
