"""After every story of a domain: nothing of it is known to the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amble.core.pacing.strategies.gauge_found import NOTHING, Found


@pytest.fixture(autouse=True)
def what_domains_share_stays_empty() -> Iterator[None]:
    yield
    found = {name: getattr(NOTHING, name) for name in Found.__slots__}
    NOTHING.__init__()  # type: ignore[misc]  # the next test begins with nothing, whatever became of this one
    assert found == {name: getattr(NOTHING, name) for name in Found.__slots__}
