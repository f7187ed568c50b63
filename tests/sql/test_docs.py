"""Every statement in the documents about SQL can be read."""

from __future__ import annotations

import re

import pytest

from amble.sql.calls import find, pieces_of
from amble.sql.options import names
from amble.sql.parse import parse
from amble.sql.statements import Plain
from tests.conformance import REPOSITORY

BLOCK = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["sql.md", "sql-queries.md"])
def test_the_statements_of_a_page_are_read(page: str) -> None:
    blocks = BLOCK.findall((REPOSITORY / "docs" / page).read_text("utf-8"))
    assert blocks
    for block in blocks:
        for statement in parse(block, names()):
            if isinstance(statement, Plain):
                assert all(find(piece) for piece in pieces_of(statement.sql)), statement.sql
