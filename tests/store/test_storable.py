"""Values from servers: what is stored of them [E4, A14]."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.store import storable

ANY_TEXT = st.text(st.characters())  # lone surrogates and NUL included


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        ("plain", "plain"),
        ("naïve 🦆", "naïve 🦆"),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("\udcff\0", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),  # the two halves of a pair belong together
        ("line\nbreak", "line\nbreak"),
        ("x" * 9_000, "x" * storable.TEXT_CHARS_MAX),
    ],
)
def test_text(value: str | None, stored: str | None) -> None:
    assert storable.text(value) == stored


@given(ANY_TEXT)
def test_any_text_can_be_encoded_once_it_is_stored(value: str) -> None:
    for stored in (storable.text(value), storable.mend(value), storable.line_part(value)):
        assert stored is not None
        assert "\0" not in stored
        stored.encode()
    line = storable.line_part(value)
    assert not {"\t", "\n", "\r"} & set(line)
    assert len(line.splitlines()) <= 1


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ('"abc"', True),
        ('W/"abc"', True),
        ("Mon, 01 Jan 2024 00:00:00 GMT", True),
        ("x" * 1024, True),
        (None, False),
        ("", False),
        ("x" * 1025, False),
        ("y" * 1_000_000, False),
        ('"a"\r\nX-Injected: 1', False),
        ('"a\0"', False),
        ('"\ud800"', False),
        ('"ü"', False),
        (" lead", False),
        ("trail ", False),
        ("a\tb", False),
    ],
)
def test_a_validator_is_kept_only_if_it_can_be_sent_back(value: str | None, stored: bool) -> None:
    assert storable.validator(value) == (value if stored else None)


def test_bodies_are_kept_whole_but_for_nul() -> None:
    long = "b" * 3_000_000
    assert storable.body(long) is long
    assert storable.body("a\0b") == "a\ufffdb"
    assert storable.body(None) is None


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 10**30])
def test_numbers_that_do_not_fit_are_not_stored(value: int) -> None:
    assert storable.int32(value) is None
    assert storable.int32(2**31 - 1) == 2**31 - 1
    assert storable.int32(None) is None


def test_times_lose_their_zone_and_get_it_back() -> None:
    noon = datetime(2025, 3, 1, 12, tzinfo=UTC)
    east = noon.astimezone(timezone(timedelta(hours=5)))
    assert storable.utc(noon) == storable.utc(east) == noon.replace(tzinfo=None)
    assert storable.aware(storable.utc(east)) == noon
    assert storable.utc(None) is storable.aware(None) is None
