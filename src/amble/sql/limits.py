"""How many rows of a table function its query can use at most: what LIMIT leaves of them, where nothing else may want
to see the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from amble.sql.statements import Parameter
from amble.sql.tokens import Kind, Token, name_of

# Words that make the rows of a query others than the first rows of its table.
_RESHAPES = frozenset({"DISTINCT", "FILTER", "FROM", "OVER", "SELECT", "UNNEST", "WITHIN"})
_SETS = frozenset({"UNION", "EXCEPT", "INTERSECT"})
# Words before a parenthesis that call no function, or one that gives a row for each row.
_HARMLESS = frozenset(
    {"AND", "CASE", "CAST", "COALESCE", "COLUMNS", "ELSE", "EXCLUDE", "IN", "LIKE", "NOT", "NULLIF", "OR", "RENAME",
     "REPLACE", "THEN", "TRY", "TRY_CAST", "WHEN"}
)  # fmt: skip


class Taken(NamedTuple):
    """The first rows of a table, as many as these numbers together, if these functions give a row for each row."""

    numbers: tuple[int | Parameter, ...]
    functions: frozenset[str]


def taken(tokens: Sequence[Token], begin: int, end: int, alias: int) -> Taken | None:
    """What the query around `tokens[begin:end]` takes of it, `alias` being how many tokens name it; None: all.

    The query is what stands between the innermost parentheses: a subquery, a CTE, or what is copied.
    """
    first, last = _block(tokens, begin, end)
    selected = _select_list(tokens[first : begin - 1])
    if selected is None or tokens[begin - 1].word != "FROM":
        return None
    numbers = _limit([token for token in tokens[end + alias : last] if not token.is_symbol(";")])
    functions = _functions(selected)
    return None if numbers is None or functions is None else Taken(numbers, functions)


def _block(tokens: Sequence[Token], begin: int, end: int) -> tuple[int, int]:
    """Where the innermost parentheses around these tokens open and close."""
    first, last = _unmatched(tokens[:begin][::-1], ")", "("), _unmatched(tokens[end:], "(", ")")
    return (0 if first is None else begin - first), (len(tokens) if last is None else end + last)


def _unmatched(tokens: Sequence[Token], opens: str, closes: str) -> int | None:
    depth = 0
    for n, token in enumerate(tokens):
        depth += token.is_symbol(opens) - token.is_symbol(closes)
        if depth < 0:
            return n
    return None


def _select_list(tokens: Sequence[Token]) -> Sequence[Token] | None:
    """What a query selects, of the tokens before its FROM: nothing where FROM comes first; None: rows are united."""
    depth, begin = 0, len(tokens)
    for n, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.word in _SETS:
            return None
        if depth == 0 and token.word == "SELECT":
            begin = n + 1
    return tokens[begin:]


def _functions(select_list: Sequence[Token]) -> frozenset[str] | None:
    """What a select list calls; None where it may give other rows than the table has."""
    if any(token.word in _RESHAPES for token in select_list):
        return None
    called = (before for before, token in pairwise(select_list) if token.is_symbol("(") and before.kind is Kind.WORD)
    return frozenset(name_of(token).lower() for token in called if token.word not in _HARMLESS)


def _limit(tokens: Sequence[Token]) -> tuple[int | Parameter, ...] | None:
    """The numbers of LIMIT and OFFSET, where they are all that follows."""
    words, numbers, rest = [], list[int | Parameter](), list(tokens)
    while rest:
        words.append(rest.pop(0).word)
        is_parameter = bool(rest) and rest[0].is_symbol("$")
        rest = rest[1:] if is_parameter else rest
        if not rest:
            return None
        text = rest.pop(0).text
        if not is_parameter and not text.isdigit():
            return None
        numbers.append(Parameter(text) if is_parameter else int(text))
    return tuple(numbers) if sorted(map(str, words)) in (["LIMIT"], ["LIMIT", "OFFSET"]) else None
