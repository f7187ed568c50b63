"""What a statement costs to read grows with its length, and no faster; empty statements change no answer."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest

from amble.sql import calls
from amble.sql.connection import connect
from amble.sql.tokens import Token, tokens_of

SHAPES: dict[str, Callable[[int], str]] = {
    "columns": lambda n: f"SELECT {', '.join(f'{i} AS c{i}' for i in range(n))} -- FROM crawl('x')",
    "tables": lambda n: f"SELECT 1 FROM {', '.join(f'(SELECT {i}) AS t{i}' for i in range(n))} /* crawl( */",
    "statements": lambda n: "SELECT 1; " * n + "-- crawl(",
    "parentheses": lambda n: f"SELECT {'(' * n}1{')' * n} -- crawl(",
    "words": lambda n: f"SELECT {', '.join(['crawl'] * n)} FROM (SELECT 1 AS crawl) -- crawl(",
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reading_a_statement_is_linear(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: how often a token is looked at."""
    looks = 0

    class Counted(Token):
        @property
        def word(self) -> str | None:
            nonlocal looks
            looks += 1
            return super().word

        def is_symbol(self, text: str) -> bool:
            nonlocal looks
            looks += 1
            return super().is_symbol(text)

    real = tokens_of
    monkeypatch.setattr("amble.sql.calls.tokens_of", lambda script: [Counted(*token) for token in real(script)])

    def cost(n: int) -> int:
        nonlocal looks
        looks = 0
        for piece in calls.pieces_of(SHAPES[shape](n)):
            calls.find(piece)
        return looks

    assert cost(800) < 2.5 * cost(400)


def test_a_script_is_cut_with_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = tokens_of

    def noted(script: str) -> list[Token]:
        seen.append(script)
        return real(script)

    monkeypatch.setattr("amble.sql.calls.tokens_of", noted)
    assert len(calls.pieces_of("SELECT 1; " * 50)) == 50
    assert len(seen) == 1


@pytest.mark.parametrize(
    "script",
    [
        "SELECT 1;;", "SELECT 1; ;", "SELECT 1;; -- crawl(", "; SELECT 1", ";;SELECT 1;;;/* crawl( */;",
        "SELECT 1; SELECT 2;; -- crawl(", "SELECT 1 -- crawl(", "SELECT 1; /* crawl( */",
    ],
)  # fmt: skip
def test_empty_statements_change_no_answer(script: str) -> None:
    with connect() as ours, duckdb.connect() as theirs:
        assert ours.execute(script).fetchall() == theirs.execute(script).fetchall()
