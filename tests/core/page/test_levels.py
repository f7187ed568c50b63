"""How deep a page nests: never less than the tree that is built of it, and little for long shallow pages [A15]."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from amble.core.page.levels import levels

NAMES = ["a", "b", "font", "nobr", "div", "p", "span", "x", "li", "ul", "dt", "dd", "h1", "h2", "button", "form", "svg",
         "g", "foreignobject", "title", "math", "mi", "select", "option", "optgroup", "input", "hr", "template",
         "object", "dialog", "script", "frameset", "table", "caption", "col", "tbody", "tr", "td", "th", "ruby", "rt",
         "body"]  # fmt: skip
STRICT = "<!doctype html>"


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
    "<{}{}{}>".format, st.sampled_from(["", "", "/"]), st.sampled_from(NAMES), st.sampled_from(["", "/", " a=1", ' a"'])
)


before = st.sampled_from(["", STRICT, "<svg>", "<table>", "<select>", "<template>", STRICT + "<table><td>"])


@settings(max_examples=150, deadline=None)
@given(st.lists(tags | st.just("x"), min_size=1, max_size=8).map("".join), st.integers(1, 120), before)
@example("<b><div></b>", 120, "")  # the <div> stays open
@example("<span><div></span>", 120, "")  # so it does here: the end tag is passed over
@example("<p><button></p>", 120, "")
@example("<td><div></td>", 120, "")  # no table, so no cell
@example("<col><col a=1>", 120, "<svg>")
@example("<p><a><dialog>x", 120, "")  # the <a> is opened again within the <dialog>
@example("<frameset><table><th>", 120, "<svg>")
def test_no_soup_nests_deeper_than_counted(unit: str, times: int, before: str) -> None:
    html = before + unit * times
    assert depth_of(html) <= levels(html)


@pytest.mark.parametrize(
    "unit",
    [
        "<p><div></p>",  # the <div> closes the <p>, whose end tag then closes nothing
        "<p><hr><x></p>",
        "<h2>x<h2></b></h2><b></h2><h2><div>",  # the text opens <b> again, so that the next heading closes none
        "<li><div><li></li><x></li>",  # the second <li> closes the first
        "<li><dialog><li></li><x></li>",  # even through a <dialog>, which is not special
        "<dd><div><dt></dt><x></dd>",
        "<button><div><button></button><x></button>",
        "<h1><h2></h2><x></h1>",
        "<option><option></option><x></option>",
        "<select><div><select><x></div>",  # a <select> in a <select> only closes it
        "<select><div><input><x></div></select>",
        "<table><td><div><td></div><x></td></table><x>",
        "<table><tr><div><td></table></div><x>",
        "<table><colgroup><x><x><x><x><x><x><x><x></colgroup><object>",  # the <x> has closed it
        "<p><b></p>x",  # formatting is opened again behind the block
        "<b><p><b></p></b>",  # its last end tag is for what waits to be opened again
        "<b><b><b><b><div></b></b></b></b></div>",  # the fourth is forgotten, so that its end tag is passed over
        "<p><b><i><u><s><tt><em><big></p><object>",  # and what is around an <object> stays open
        "<h1><b></h1>x<h2>",
        "<p><b></p><rt>x</b>",  # opened again within the <rt>, which then outlives it
        "<form><select></form>",  # out of reach: that <form> stays
        "</form><form><table></form><form></table>",
        "<template><form></template><form><div></form>",
        "</template>x<template><b a=1><object>",  # the <b> outlives its <template>
        "<p><table></p><x></table>",  # where there is no doctype, a <table> does not close a <p>
    ],
)
@pytest.mark.parametrize("before", ["", "<!--x-->" + STRICT, "<x>" * 70])
def test_what_a_start_tag_has_closed_no_end_tag_closes_again(unit: str, before: str) -> None:
    html = before + unit * 250
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
        "<p>text<div>a</div>",
        "<p>a<ul><li>b</ul></p>",
        "<p>a<table><tr><td><p>b</table>",
        "<ul><li><a href=x>a<li><a href=y>b</ul>\n",
        "<li><a href=x>text<li>",
        "<table><caption>a<tr><th>b<td>c<tr><td>d<tbody><tr><td>e</table>",
        "<tr><td>a<td>b",
        "<select><optgroup><option>a<option>b<optgroup><option>c</select>",
        "<select><option>a<option>b</select>",
        "<a href=x><h3>a</h3><p>b</p></a>",
        "<a href=x><div>a</a></div>",
        "<b><p>a</b></p>",
        "<font size=1><b>a</font></b>",
        "<form><input><p>a</form>",
        "<table><form><tr><td><input></form></table>",
        "<template><tr><td>a</td></tr></template><div><span>b</span></div>",
        "<button><div>a</button></div></p>",
    ],
)
def test_long_pages_that_are_shallow_count_as_shallow(unit: str) -> None:
    assert levels(STRICT + "<body>" + unit * 2_000) < 100
