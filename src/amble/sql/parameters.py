"""Parameters in queries that call table functions of ours: every `?` gets its number, so that what is left of the query
when the calls are gone still means the values that it meant."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from amble.errors import StatementError
from amble.sql.statements import Parameter, Value
from amble.sql.tokens import tokens_of


def numbered(query: str) -> str:
    """The same with `$1`, `$2`, ... for each `?`, as DuckDB counts them."""
    marks = [token for token in tokens_of(query) if token.is_symbol("?")]
    for n, mark in reversed(list(enumerate(marks, 1))):
        query = f"{query[: mark.at]}${n}{query[mark.end :]}"
    return query


def named_in(sql: str) -> set[str]:
    """The parameters that a numbered piece of SQL names."""
    return {after.text for token, after in pairwise(tokens_of(sql)) if token.is_symbol("$")}


def named_by(value: Value) -> set[str]:
    """The same for the value of an option."""
    if isinstance(value, Parameter):
        return {value.name}
    return {name for item in value for name in named_by(item)} if isinstance(value, tuple) else set()


def bound(sql: str, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of the values those that this SQL names; None where it names none."""
    return {name: values[name] for name in sorted(named_in(sql))} or None


def refuse_mismatch(values: Mapping[str, Any], named: set[str]) -> None:
    """A value that goes nowhere is a mistake, as it is to DuckDB; so is a parameter without a value."""
    missing, unused = sorted(named - set(values)), sorted(set(values) - named)
    if missing:
        raise StatementError(
            f"there is no value for the parameter ${missing[0]}", hint="give it to execute(sql, parameters)"
        )
    if unused:
        raise StatementError(f"no place in the statement takes the parameter ${unused[0]}", hint="give one value each")
