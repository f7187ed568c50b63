"""Garbage is looked for seldom while jobs run, and as before when the last of them has ended."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from amble.collecting import YOUNG_MAX, seldom


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [
        pytest.param((700, 10, 10), YOUNG_MAX, id="as shipped: seldom"),
        pytest.param((YOUNG_MAX * 2, 5, 5), YOUNG_MAX * 2, id="even more seldom: left so"),
        pytest.param((0, 10, 10), 0, id="switched off: left so"),
    ],
)
def test_while_jobs_run(before: tuple[int, int, int], meanwhile: int) -> None:
    gc.set_threshold(*before)
    with seldom():
        assert gc.get_threshold() == (meanwhile, *before[1:])
        with pytest.raises(ZeroDivisionError), seldom():
            raise ZeroDivisionError  # one of two jobs fails
        assert gc.get_threshold() == (meanwhile, *before[1:])
    assert gc.get_threshold() == before
