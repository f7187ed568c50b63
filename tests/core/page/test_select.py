"""What selectors find on pages, what is taken of it, and that no page makes it slow [A15]."""

from __future__ import annotations

import pytest

from amble.core.page.select import Accessor, select
from amble.errors import BadSelector

PAGE = """<!doctype html><title>T</title><body><h1> A <b>b</b>
 c</h1><a href="/x" REL=next>one</a><a>two</a><a href>three</a>
<div id=d>before<script>var x = 1</script> after<style>p{}</style></div><p>p1<p>p2"""


@pytest.mark.parametrize(
    ("selector", "accessor", "found"),
    [
        ("h1", "text", ["A b c"]),
        ("p", "text", ["p1", "p2"]),
        ("a", "@href", ["/x", ""]),  # an <a> without href has nothing to take
        ("a", "attr:REL", ["next"]),
        ("h1 b", "html", ["<b>b</b>"]),
        ("h1 b", "inner_html", ["b"]),
        ("#d", "text", ["before after"]),  # the text that is read, not the script
        ("script", "text", ["var x = 1"]),
        ("title, p:nth-of-type(2)", "text", ["T", "p2"]),
        ("article", "text", []),
    ],
)
def test_findings_are_taken_in_the_order_of_the_page(selector: str, accessor: str, found: list[str]) -> None:
    assert select(PAGE, selector, Accessor.parse(accessor)) == found


@pytest.mark.parametrize("selector", ["", "[", "a >", "::before", "p:foo(", "a@href", "x" * 20_000])
def test_a_selector_that_cannot_be_read_is_an_error_with_a_hint(selector: str) -> None:
    with pytest.raises(BadSelector) as refused:
        select("", selector)
    assert refused.value.hint


@pytest.mark.parametrize("accessor", ["", "href", "@", "attr:", "@a b", "@<x", "text()"])
def test_an_accessor_that_cannot_be_read_is_an_error_with_a_hint(accessor: str) -> None:
    with pytest.raises(BadSelector, match="hint"):
        Accessor.parse(accessor)


@pytest.mark.parametrize("odd", ["", "<", "\x00", "<p", "plain text", "\ufffd" * 100, "<!--", "<svg><p>"])
def test_odd_pages_are_read_as_they_are(odd: str) -> None:
    assert select(odd, "table") == []


def test_a_long_shallow_page_is_read() -> None:
    rows = "<tr><td><a href=x>1</a></td><td class=b>2</td></tr>" * 5_000
    found = select(f"<!doctype html><table>{rows}</table>", "td.b")
    assert found is not None
    assert len(found) == 5_000


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 50_000,
        "<b><div></b>" * 30_000,
        "".join(f"<p><b id={number}>" for number in range(20_000)),
        "<p " + " ".join(f"a{number}" for number in range(50_000)) + ">",
    ],
    ids=["tower", "misnested tower", "formatting", "attributes"],
)
def test_a_page_whose_tree_would_take_minutes_gives_nothing(page: str) -> None:
    assert select(page, "div") is None


@pytest.mark.parametrize("cut", ["<p class='", "<", "</di", "<!-- "])
def test_a_page_that_was_cut_off_is_read_up_to_there(cut: str) -> None:
    assert select("<p>word</p>" * 2_000 + cut, "p") == ["word"] * 2_000


def test_findings_within_each_other_do_not_multiply_without_bound() -> None:
    assert select("<div>" * 2_900 + "x" * 100_000, "div") is None  # 290 MB of text if all were taken
