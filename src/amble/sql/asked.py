"""`current_setting('max_rate')` in a query: what a setting of ours would be for the next crawl on this connection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from amble.sql.tokens import Kind, Token, text_of, tokens_of
from amble.store.database import quote_text

_FUNCTION = "current_setting"


def asks(text: str) -> bool:
    """A quick look, at a text in small letters: whether a setting may be asked for."""
    return _FUNCTION in text


def with_settings(query: str, names: Collection[str], value_of: Callable[[str], Any]) -> str:
    """The query with what we know put in the place of each call that asks for a setting of ours."""
    tokens = [token for token in tokens_of(query) if token.kind is not Kind.COMMENT]
    for name, first, last in reversed(list(_calls(tokens))):
        if name in names:
            query = f"{query[: first.at]}{_literal(value_of(name))}{query[last.end :]}"
    return query


def _calls(tokens: list[Token]) -> Iterator[tuple[str, Token, Token]]:
    for i in range(len(tokens) - 3):
        word, opens, text, closes = tokens[i : i + 4]
        if word.word != _FUNCTION.upper() or not opens.is_symbol("(") or not closes.is_symbol(")"):
            continue
        if text.kind is Kind.STRING and (name := text_of(text)) is not None:
            yield name.lower(), word, closes


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return f"({value!r})" if isinstance(value, int) else f"{value!r}::DOUBLE"  # or it would be a DECIMAL
    if isinstance(value, list | tuple | set | frozenset):
        return f"[{', '.join(map(_literal, value))}]::VARCHAR[]"
    return quote_text(str(value))
