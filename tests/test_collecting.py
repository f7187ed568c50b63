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
    gc.unfreeze()


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


def test_what_was_there_before_the_first_job_counts_as_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the first look would go through every module that is loaded. Not with every job: garbage would pile up."""
    monkeypatch.setattr("amble.collecting._is_first", True)
    gc.disable()
    gc.collect(1)
    assert gc.get_count()[2] > 0
    with seldom():
        assert gc.get_count()[1:] == (0, 0)
        assert gc.get_freeze_count() == 0, "nothing is kept from being looked at for good"
    gc.collect(1)
    with seldom():
        assert gc.get_count()[2] > 0
    gc.enable()


def test_what_somebody_has_set_apart_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amble.collecting._is_first", True)
    gc.freeze()
    with seldom():
        assert gc.get_freeze_count() > 0
