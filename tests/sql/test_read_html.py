"""What read_html says where it cannot give a table."""

from __future__ import annotations

import pytest

from amble.errors import StatementError
from amble.testing.farm import Pages, Site
from amble.testing.farm.exchange import html
from tests.sql.web import Paths, web

TABLE = "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>"


def test_read_html_on_a_noindex_page_says_what_to_do() -> None:
    page = html(f"<meta name=robots content=noindex>{TABLE}")
    site = Site(name="a.test", pages=Pages(0), features=(Paths({"/x": page}),))
    with web(site) as (farm, con):
        ask = f"SELECT * FROM read_html('{farm.url('a.test', '/x')}', 'table', pacing := 'fixed'"
        with pytest.raises(StatementError, match="noindex") as refused:
            con.execute(f"{ask})")
        assert "noindex := 'keep'" in str(refused.value.hint)
        assert con.execute(f"{ask}, noindex := 'keep')").fetchall() == [("1",)]
