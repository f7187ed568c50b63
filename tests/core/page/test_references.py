"""Character references, judged by the tree builder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from amble.core.page.references import unescape_text, unescape_value

PIECES = st.sampled_from(
    ["&", "&amp;", "&amp", "&lt", "&copy", "&copy;", "&notin;", "&notit;", "&not", "&#65;", "&#65", "&#x41;", "&#X4g",
     "&#", "&#x", "&#0;", "&#128;", "&#x80", "&#129;", "&#xD800;", "&#x110000;", "&#99999999999999999999;", "&nosuch;",
     "&Aacute", "&frac34x", "&CounterClockwiseContourIntegral;", "&NotEqualTilde;", "=", "a", "1", ";", " ", "x=", "&&",
     "&a", "\u00e9"]
)  # fmt: skip
SOUP = st.lists(PIECES, max_size=12).map("".join)


@given(SOUP)
def test_text_is_read_as_the_tree_builder_reads_it(soup: str) -> None:
    node = LexborHTMLParser(f"<p>.{soup}</p>").css_first("p")
    assert node is not None
    assert unescape_text(f".{soup}") == node.text_lexbor()


@given(SOUP)
def test_values_are_read_as_the_tree_builder_reads_them(soup: str) -> None:
    node = LexborHTMLParser(f'<p title="{soup}"></p>').css_first("p")
    assert node is not None
    assert unescape_value(soup) == (node.attributes["title"] or "")


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("?a=1&amp;b=2", "?a=1&b=2"),
        ("?a=1&b=2&copy=3&reg", "?a=1&b=2&copy=3\u00ae"),  # as browsers do, for the sake of old links
        ("?x&lt;y", "?x<y"),
        ("&" * 1000, "&" * 1000),
        ("&#" + "9" * 100_000 + ";", "\ufffd"),
        ("&#x" + "0" * 100_000 + "41;", "A"),
    ],
)
def test_values(value: str, meant: str) -> None:
    assert unescape_value(value) == meant
