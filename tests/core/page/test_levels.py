"""How deep a page nests: never less than the tree that is built of it, and little for long shallow pages [A15]."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from amble.core.page.levels import levels

NAMES = ["a", "b", "div", "p", "span", "li", "ul", "button", "form", "svg", "g", "foreignobject", "title", "math", "mi",
         "select", "option", "x", "h1", "template", "object", "dt", "dd", "script", "frameset", "marquee"]  # fmt: skip


def depth_of(html: str) -> int:
    root = LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS).root
    deepest, waiting = 0, [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        assert isinstance(node, LexborNode)
        deepest = max(deepest, depth)
        child = node.first_child
        while child is not None:
            waiting.append((child, depth + 1))
            child = child.next
    return deepest


tags = st.builds(
    "<{}{}{}>".format, st.sampled_from(["", "", "/"]), st.sampled_from(NAMES), st.sampled_from(["", "/", " a=1"])
)


@settings(max_examples=300, deadline=None)
@given(st.lists(tags, min_size=1, max_size=6).map("".join), st.integers(1, 120), st.sampled_from(["", "<svg>"]))
@example("<b><div></b>", 120, "")  # the <div> stays open
@example("<span><div></span>", 120, "")  # so it does here: the end tag is passed over
@example("<p><button></p>", 120, "")
@example("<td><div></td>", 120, "")  # no table, so no cell
@example("<col><col a=1>", 120, "<svg>")
def test_no_soup_nests_deeper_than_counted(unit: str, times: int, before: str) -> None:
    html = before + unit * times
    assert depth_of(html) <= levels(html)


@pytest.mark.parametrize(
    "unit",
    [
        "<table><tr><td><a href=x>1</a></td><td class=b>2</td></tr></table>",
        "<li>one<li>two",
        "<p>a<br>b<img src=x><p>c",
        "<dl><dt>a<dd>b<dt>c<dd>d</dl>",
        "<svg viewBox='0 0 1 1'><path d='M0'/><g><path/></g></svg>",
        "<script>if (a<b) c = '<div>'</script>",
        "<div><span>a</span><b>c</b></div>",
    ],
)
def test_long_pages_that_are_shallow_count_as_shallow(unit: str) -> None:
    assert levels("<!doctype html><body>" + unit * 2_000) < 100
