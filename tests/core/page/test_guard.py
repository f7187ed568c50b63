"""Which pages the tree builder may have, and that nothing can be smuggled past [A15]."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from amble.core.page.guard import ATTRIBUTES_MAX, TAGS_MAX, Scan, is_calm


def attributes(count: int) -> str:
    return "".join(f" a{number:x}" for number in range(count))


FORMATTING = "".join(f"<p><b id={number}>" for number in range(500))
ICONS = "".join(f"<i class='icon-{number}'></i>" for number in range(20))
FLOOD = f"<p{attributes(5000)}>"
ORDINARY = "<!doctype html><html lang=en><head><title>x</title></head><body class=y>"


@pytest.mark.parametrize(
    ("page", "calm"),
    [
        ("", True),
        (ORDINARY + "<p>words <b>bold</b> <a href=x>link</a></p>" * 500, True),
        (ORDINARY + "<script>if (a<b && c>d) { x = '<b id=1>' }</script>" * 50, True),
        (ORDINARY + ICONS * 20, True),
        (ORDINARY + "<svg class=x><path d='M0 0'/></svg><script>a<b</script>" * 50, True),
        (ORDINARY + "<img alt='a > b' src='" + "x" * 100_000 + "'>", True),
        (ORDINARY + "<!-- " + FLOOD + " -->", True),
        (ORDINARY + "<script>" + FLOOD + "</script>", True),
        (ORDINARY + "<p title='" + FLOOD + "'>", True),
        (ORDINARY + "<plaintext>" + FLOOD, True),
        ("<div>" * TAGS_MAX, True),
        ("<div>" * (TAGS_MAX + 1), False),
        ("< " * (TAGS_MAX + 1), False),
        (f"<p{attributes(ATTRIBUTES_MAX)}>", True),
        (f"<p{attributes(ATTRIBUTES_MAX + 1)}>", False),
        (f"</p{attributes(ATTRIBUTES_MAX + 1)}>", False),
        (f"<b{attributes(ATTRIBUTES_MAX + 1)}>", False),
        (f"<body{attributes(ATTRIBUTES_MAX + 1)}>", False),
        ("".join(f"<body a{number}>" for number in range(100)), False),
        ("".join(f"<html a{number}>" for number in range(100)), False),
        (FLOOD, False),
        ("<a " * 1000, False),  # never ends: not ordinary
        ("<p a='>'" + "".join(f" b{number}='>'" for number in range(100)) + ">", False),
        ("<p a='>'" + "".join(f"b{number}='>'" for number in range(100)) + ">", False),
        (FORMATTING, False),
        (FORMATTING.upper(), False),
        (FORMATTING.replace("<b", "<b\n\f"), False),
        (FORMATTING.replace("<b id", "<font/color"), False),
        ("<!-- > -->" + FORMATTING, False),
        ("<!--" + FORMATTING, False),  # a comment that never ends
        ("<p a=b='" + FORMATTING + "'>", False),  # no quote at all: an unquoted value that begins with b=
        ("<p ='" + FORMATTING + "'>", False),  # the name of an attribute
        ("<p a'" + FORMATTING + "'>", False),
        ("<p='" + FORMATTING + "'>", False),  # the name of a tag
        ("<svg><script>" + FORMATTING + "</script>", False),  # markup, inside of a drawing
        ("<svg><title>x</title></svg><script>" + FORMATTING + "</script>", False),  # maybe inside
        ("<svg><path></svg><svg/><script>" + FORMATTING + "</script>", False),
        ("<svg a=b/><path></svg><script>" + FORMATTING + "</script>", True),  # the slash is part of the value
        ("<math><style>" + FORMATTING + "</style>", False),
        ("<svg><![CDATA[>" + FORMATTING + "]]>", False),
        ("<svg><p><![CDATA[>" + FORMATTING + "]]>", False),
        ("<script><!--<script></script>" + FORMATTING + "</script>", True),  # all of it script
        ("<script><!--<script></script>--></script>" + FORMATTING, False),
        ("<textarea></title></textarea>" + FORMATTING, False),
    ],
)
def test_calm_pages(page: str, calm: bool) -> None:
    assert is_calm(page) is calm


# What may stand before an attack to make our reading and the tree builder's drift apart.
PIECES = """
    <!-- --> --!> <!--> <! <? < > </ /> " ' = / x & a= =' <p' <p" <script> </script> <script <style> </style>
    <svg> <svg/> </svg> <math> </math> <mi> <title> </title> <desc> </desc> <foreignObject> </foreignObject> <g> </g>
    <path/> <textarea> </textarea> <![CDATA[ ]]> <template> </template> <select> </select> <table> <td> </table>
    <b> </b> <p> </p> <a> <noscript> </noscript> <iframe> </iframe> <frameset> <noframes> <xmp> <plaintext> <head>
    </head> <body> <br/>
"""
SPACED = ("<p a=", "<p a='", '<p a="', "<p =", "<p ", "<font color>", "<annotation-xml encoding=text/html>", " ", "\n")
SOUP = st.lists(st.sampled_from((*PIECES.split(), *SPACED)), max_size=10).map("".join)

RECREATED = "".join(f"<p><b id={number}>" for number in range(400))
CROWDED = f"<i{attributes(400)}>"


@given(SOUP, SOUP, st.sampled_from([RECREATED, CROWDED]))
def test_no_prefix_hides_an_attack(before: str, after: str, attack: str) -> None:
    """What the scan lets through, the tree builder does not blow up: its own count of nodes is the judge."""
    text = before + attack + after
    scan = Scan(text, weight_max=10**9)
    if not scan.run():
        return
    nodes = LexborHTMLParser(text, options=LexborDocumentOptions.WO_EVENTS).css("*")
    assert len(nodes) <= (text.count("<") + 10) * scan.weight
    allowed = 3 * ATTRIBUTES_MAX  # <html> and <body> gather those of several tags
    assert max((len(node.attributes) for node in nodes), default=0) <= allowed
