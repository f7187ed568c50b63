"""Tables and lists as rows: heads name columns, spans are spread, names are unique."""

from __future__ import annotations

import pytest

from amble.core.page.grid import read_grid


@pytest.mark.parametrize(
    ("html", "selector", "columns", "rows"),
    [
        ("<table><tr><th>A<th>B<tr><td>1<td>2<tr><td>3", "table", ("A", "B"), [("1", "2"), ("3", None)]),
        (
            "<table><thead><tr><td>A<td>A<tbody><tr><td>1<td>2<tfoot><tr><td>s<td>t",
            "table", ("A", "A_2"), [("1", "2"), ("s", "t")],
        ),
        ("<table><tr><td>1<td>2", "table", ("column1", "column2"), [("1", "2")]),
        (
            "<table><tr><th colspan=2>A<th>B<tr><td rowspan=2>x<td>1<td>2<tr><td>3<td>4",
            "table", ("A", "A_2", "B"), [("x", "1", "2"), ("x", "3", "4")],
        ),
        (
            "<table><tr><th>A<th>B<tr><td rowspan=3>x<td>1<tr><td>2<tr><td>3<tr><td>y<td>4",
            "table", ("A", "B"), [("x", "1"), ("x", "2"), ("x", "3"), ("y", "4")],
        ),
        ("<table><tr><th>N<tr><td><table><tr><td>inner</table>", "table", ("N",), [("inner",)]),
        ("<table><tr><th>a<th>A<th></table>", "table", ("a", "A_2", "column3"), []),
        ("<ul><li>one <a href=/1>x</a><li>two</ul>", "ul", ("text", "href"), [("one x", "/1"), ("two", None)]),
        ("<dl><dt>k<dd>v<dd>w<dt>l<dd>z</dl>", "dl", ("term", "definition"), [("k", "v"), ("k", "w"), ("l", "z")]),
        ("<p class=x>1<p class=x><a href=y>2</a>", ".x", ("text", "href"), [("1", None), ("2", "y")]),
        ("<a href=1>a</a><a href=2>b</a>", "a", ("text", "href"), [("a", "1"), ("b", "2")]),
        ("<table><tr><td colspan=99999999>w", "table", None, None),
        ("<table></table>", "table", (), []),
    ],
)  # fmt: skip
def test_what_is_read(
    html: str, selector: str, columns: tuple[str, ...] | None, rows: list[tuple[str | None, ...]] | None
) -> None:
    grid = read_grid(html, selector)
    assert grid is not None
    if columns is None:
        assert len(grid.columns) == 1_000  # no wider than a browser makes it
    else:
        assert grid == (columns, rows)


def test_nothing_found_is_none() -> None:
    assert read_grid("<p>x", "table") is None
    assert read_grid("<div>" * 50_000, "table") is None
