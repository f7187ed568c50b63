"""What holds for every regular expression: it means the same to each Python that amble runs on."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import amble

# Told apart by name: these modules have no public one.
_parser: Any = importlib.import_module("re._parser")


def modules() -> Iterator[Any]:
    yield amble
    for found in pkgutil.walk_packages(amble.__path__, "amble."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def patterns_in(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, type):
        for inner in vars(value).values():
            yield from patterns_in(inner, depth - 1)
    elif depth and isinstance(value, dict):
        yield from patterns_in(list(value.values()), depth)
    elif depth and isinstance(value, (tuple, list, set, frozenset)):
        for inner in value:
            yield from patterns_in(inner, depth - 1)


def patterns() -> dict[str, re.Pattern[Any]]:
    """Every expression of the package, by where it is."""
    found: dict[str, re.Pattern[Any]] = {}
    for module in modules():
        for name, value in vars(module).items():
            for number, pattern in enumerate(patterns_in(value)):
                found[f"{module.__name__}.{name}.{number}"] = pattern
    return found


def unkept(parsed: Iterable[Any]) -> Iterator[Any]:
    """The bodies of possessive repetitions that are more than one character and not atomic."""
    for operation, argument in parsed:
        if str(operation) == "POSSESSIVE_REPEAT":
            [(body, _), *others] = argument[2]
            if others or str(body) not in {"ATOMIC_GROUP", "IN", "LITERAL", "NOT_LITERAL", "ANY"}:
                yield argument[2]
        yield from unkept_below(argument)


def unkept_below(argument: Any) -> Iterator[Any]:
    if isinstance(argument, _parser.SubPattern):
        yield from unkept(argument)
    elif isinstance(argument, (tuple, list)):
        for inner in argument:
            yield from unkept_below(inner)


@pytest.mark.parametrize(
    ("expression", "safe"),
    [
        (r"[a-z]*+b", True),
        (r"(?>ab?c)*+", True),
        (r"(?:ab?c)*+", False),  # Python 3.11.2 finds all of `aca`
        (r"x(?=y(?:ab?c){1,3}+)", False),
        (r"(?>(?:ab|cd)?+)*+", False),
        (r"(?:ab?c)*", True),
    ],
)
def test_what_the_check_sees(expression: str, safe: bool) -> None:
    assert (not list(unkept(_parser.parse(expression)))) is safe


def test_a_group_that_is_repeated_possessively_is_atomic() -> None:
    """Before 3.11.5, `(?:...)*+` did not go back to where its last, failed turn had begun; `(?>...)*+` always did, and
    means the same."""
    every = patterns()
    assert {"amble.core.page.plain._NEXT.0", "amble.core.urls._PLAIN.0"} <= every.keys()
    bad = [name for name, pattern in every.items() if list(unkept(_parser.parse(pattern.pattern, pattern.flags)))]
    assert bad == []
