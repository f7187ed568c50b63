"""Whoever called us: DuckDB looks for Python variables that a query names where it is called, not where we stand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_NAME = "__amble_call__"
_CALL = compile(f"{_NAME}()", "<sql>", "eval")


class Caller:
    """The frame of whoever called, so that `FROM df` finds their `df`."""

    __slots__ = ("_frame",)

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame

    @classmethod
    def above(cls, levels: int) -> Caller:
        """The caller of the function that calls this (1), or further up."""
        return cls(sys._getframe(levels + 1))

    def call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """As if they had called it themselves."""
        frame = self._frame
        names = frame.f_locals
        own: dict[str, Any] = {} if names is frame.f_globals else dict(names)
        own[_NAME] = partial(function, *arguments, **named)
        found: T = eval(_CALL, frame.f_globals, own)
        return found
