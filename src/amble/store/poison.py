"""Which rows of a batch cannot be stored: found by halving, so that one of them never costs the others [E5]. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Row = TypeVar("Row")


def isolate(
    rows: Sequence[Row], fits: Callable[[Sequence[Row]], str | None]
) -> tuple[list[Row], list[tuple[Row, str]]]:
    """The rows that fit, in their order, and those that do not, each with the reason.

    `fits` tries rows together and returns why not, or None. A part is always tried together with what was already
    found good, so that of two rows which only clash with each other the second is the one refused.
    """
    good: list[Row] = []
    bad: list[tuple[Row, str]] = []
    parts: list[Sequence[Row]] = [rows] if rows else []
    while parts:
        part = parts.pop()
        reason = fits([*good, *part])
        if reason is None:
            good += part
        elif len(part) == 1:
            bad.append((part[0], reason))
        else:
            half = len(part) // 2
            parts += [part[half:], part[:half]]
    return good, bad
