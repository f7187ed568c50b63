"""That the linear reader finds on ordinary pages what the tree shows, and on any page what is plainly there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.page.linear import read_tokens
from amble.core.page.markup import Anchor, Markup
from amble.core.page.tree import read_tree

# --- Ordinary pages ------------------------------------------------------------------------------------------------

WORDS = st.text("abcdef \n\u00e9\u4e2d", min_size=1, max_size=8)
PIECES = st.sampled_from(["&amp;", "&lt;b&gt;", "&nbsp;", "&#8212;", "1 > 0", "a < b", "'", '"'])
TEXT = st.lists(WORDS | PIECES, max_size=3).map("".join)
INLINE = st.sampled_from(["<b>x</b> y", "<img alt='a > b' src=x>z", "<!-- > -->w", "<svg><path d='m'/></svg>v"])
VALUE = st.text("abc/?=&;:.#->< \n\u00e9", max_size=10)
NAMES = st.sampled_from(["class", "id", "data-x", "title", "onclick", "aria-label"])


@st.composite
def attribute(draw: st.DrawFn, name: str | None = None) -> str:
    name, value = name or draw(NAMES), draw(VALUE)
    quote = draw(st.sampled_from(['"', "'"]))
    space = draw(st.sampled_from([" ", "\n  ", "\t"]))
    equals = draw(st.sampled_from(["=", " = ", "="]))
    if value and not set(value) & set(" \n><=&;/") and draw(st.booleans()):
        return f"{space}{name}{equals}{value}"
    return f"{space}{name}{equals}{quote}{value}{quote}" if value else f"{space}{name}"


ATTRIBUTES = st.lists(attribute(), max_size=3).map("".join)
CASE = st.sampled_from([str.lower, str.upper])


@st.composite
def anchor(draw: st.DrawFn) -> str:
    rel = draw(st.sampled_from(["", " rel=nofollow", " rel='ugc Sponsored'"]))
    inner = draw(TEXT | INLINE)
    name = draw(CASE)("a")
    return f"<{name}{draw(ATTRIBUTES)}{draw(attribute('href'))}{rel}>{inner}</{name}>"


LEAVES = st.one_of(
    TEXT,
    anchor(),
    st.sampled_from(
        [
            "<br>",
            "<img src=x alt='<a href=no>'>",
            "<input disabled>",
            "<area href=/area rel=nofollow>",
            "<!-- <a href=no>x</a> -->",
            "<!---->",
            "<!-->",
            "<script>var a = '<a href=no>' < 1; /* </b> */</script>",
            "<script><!-- <script>'</script><a href=no>'</script> --></script>",
            "<style>a > b { content: '<a href=no>' }</style>",
            "<textarea><a href=no>x</a></textarea>",
            "<template><a href=no>x</a><template></template><a href=no>y</a></template>",
            "<noscript><a href=/noscript>x</a></noscript>",
            "<iframe><a href=no></iframe>",
            "<svg id='0 0'><title>not this</title><style><a href=/styled>s</a></style><g><path d='M0'/></g></svg>",
            "<svg><a xlink:href=/drawn>d</a><![CDATA[<a href=no>]]></svg>",
            "<math><mi>x</mi><annotation-xml><p><a href=/math>m</a></p></annotation-xml></math>",
            "<?php echo '<a href=no>' ?>",
            "<svg/>",
            "<link rel=next href=/next>",
        ]
    ),
)
BLOCKS = st.sampled_from(["div", "section", "article", "main", "blockquote", "ul", "nav"])


@st.composite
def block(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    name = draw(BLOCKS)
    return f"<{name}{draw(ATTRIBUTES)}>{''.join(draw(st.lists(inner, max_size=3)))}</{name}>\n"


BODIES = st.lists(st.recursive(LEAVES, block, max_leaves=12), max_size=4).map("".join)


@st.composite
def page(draw: st.DrawFn) -> str:
    head = draw(
        st.lists(
            st.sampled_from(
                [
                    "<title> A &amp; B\n C </title>",
                    "<title>second</title>",
                    "<base href='/base/'>",
                    "<base target=x>",
                    '<meta name="description" content="d &quot;x&quot;">',
                    "<meta name=robots content=noindex>",
                    "<META HTTP-EQUIV=refresh CONTENT='3; url=/x'>",
                    "<link rel=canonical href=/c>",
                    "<link rel=stylesheet href=/s.css>",
                    "<script>document.write('<title>no</title>')</script>",
                ]
            ),
            max_size=5,
        )
    )
    lang = draw(st.sampled_from(["", " lang=de", " lang='en-GB' class=x"]))
    body = f"<body{draw(ATTRIBUTES)}>{draw(BODIES)}</body>"
    return f"<!doctype html>\n<html{lang}>\n<head>{''.join(head)}</head>\n{body}</html>"


@given(page())
def test_both_readers_find_the_same_on_ordinary_pages(text: str) -> None:
    assert read_tokens(text, 1000) == read_tree(text, 1000)


# --- What is plainly there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [read_tree, read_tokens])
@pytest.mark.parametrize(
    ("text", "anchors"),
    [
        ("<a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<A\nHREF = '1'REL=\"Nofollow\" >x", [Anchor("1", "Nofollow", "x")]),
        ("<a href=1 href=2>x</a>", [Anchor("1", "", "x")]),
        ("<a/href=1/>x", [Anchor("1/", "", "x")]),
        ("<a href>x</a>", [Anchor("", "", "x")]),
        ("<a name=1>x</a>", []),
        ("<a href=1>x<a href=2>y", [Anchor("1", "", "x"), Anchor("2", "", "y")]),
        ("<a href='1>x</a><a href=2>y</a>", []),  # the quote never closes
        ("<a href='1'>x</a><a href='2", [Anchor("1", "", "x")]),
        ("<a title=\"'\" href=1>x</a>", [Anchor("1", "", "x")]),
        ('<a b" href=1 c">x</a>', [Anchor("1", "", "x")]),
        ("<a =\"x\" href=1>x</a>", [Anchor("1", "", "x")]),
        ("<a b=c=\"d href=1>x</a>", [Anchor("1", "", "x")]),
        ("</a href=0><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("< a href=0><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<a href=1> x \n <b>y</b>&amp;\u00a0z </a>", [Anchor("1", "", "x y& z")]),
        ("<!-- > <a href=0> --!><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<!--><a href=1>x</a>-->", [Anchor("1", "", "x")]),
        ("<![CDATA[<a href=0>x</a>]]>", []),  # outside of drawings a comment that ends at the first `>`
        ("<![CDATA[x><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<svg><![CDATA[<a href=0>]]></svg><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<svg><p><a href=1>x</a><script><a href=0></script>", [Anchor("1", "", "x")]),
        ("<svg><foreignObject><script><a href=0></script></foreignObject><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<svg><g><desc><p></desc></g></svg><script><a href=0></script><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<script><a href=0></scripty></script ><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<script><!-- <a href=0> </script><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<script><!--><script></script><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<style><a href=0></STYLE/><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<xmp><a href=0></xmp><noembed><a href=0></noembed><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<a href=1>x</a><plaintext><a href=0>", [Anchor("1", "", "x")]),
        ("<title><a href=0></title><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<template><a href=0></template></template><a href=1>x</a>", [Anchor("1", "", "x")]),
        ("<map><area href=1 alt=y></map>", [Anchor("1", "", "")]),
        ("<table><tr><a href=1>x</a><td><a href=2>y</a></table>", [Anchor("1", "", "x"), Anchor("2", "", "y")]),
        ("<a href='&#x6a;avascript&colon;x&amp;y'>x</a>", [Anchor("javascript:x&y", "", "x")]),
        ("<a href=\"x\ufffdy\">\ufffd</a>", [Anchor("x\ufffdy", "", "\ufffd")]),
        ("", []),
    ],
)  # fmt: skip
def test_anchors(text: str, anchors: list[Anchor], reader: object) -> None:
    assert callable(reader)
    found = reader(text, 1000)
    assert isinstance(found, Markup)
    assert found.anchors == anchors


@pytest.mark.parametrize("reader", [read_tree, read_tokens])
@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("<title>a</title><title>b</title>", "a"),
        ("<title>a &amp; <b>b</b></title>", "a & <b>b</b>"),
        ("<title>\n a\t b </title>", "a b"),
        ("<title></title>", ""),
        ("<title>never ends", "never ends"),
        ("<svg><title>drawing</title></svg><title>page</title>", "page"),
        ("<svg><title>drawing</title></svg>", None),
        ("<template><title>a</title></template>", None),
        ("<p>x", None),
        ("<title>" + "x" * 10_000 + "</title>", "x" * 4096),
    ],
)
def test_titles(text: str, title: str | None, reader: object) -> None:
    assert callable(reader)
    found = reader(text, 1000)
    assert isinstance(found, Markup)
    assert found.title == title


@pytest.mark.parametrize("reader", [read_tree, read_tokens])
def test_anchors_beyond_the_bound_are_counted(reader: object) -> None:
    """A16."""
    assert callable(reader)
    found = reader("<a href=x>y</a><area href=z>" * 50, 30)
    assert isinstance(found, Markup)
    assert (len(found.anchors), found.anchors_seen) == (30, 100)


def test_the_text_of_anchors_within_anchors_is_not_read_over_and_over() -> None:
    """A15: an <object> lets anchors nest; the tree then repeats the text of the innermost for each."""
    text = "<a href=x><object>" * 2900 + "y" * 1_000_000
    anchors = read_tree(text, 10_000).anchors
    assert len(anchors) == 2900
    assert sum(bool(said) for _, _, said in anchors) < 10


def test_a_page_with_very_many_anchors_is_read_as_one_with_few() -> None:
    one = "<p><a href=x rel=ugc> y\n z </a><a href>e</a><a name=n>no</a><svg><a xlink:href=d>s</a></svg>"
    few = read_tree(one, 10_000)
    assert few.anchors == [("x", "ugc", "y z"), ("", "", "e"), ("d", "", "s")]
    many = read_tree(one * 100, 10_000)
    assert many.anchors == few.anchors * 100
    assert (few.anchors_seen, many.anchors_seen) == (3, 300)


@given(st.text("<>/=\"'! -ahref?p&;[CDAT", max_size=60))
def test_any_soup_is_read(soup: str) -> None:
    read_tokens(soup, 100)
    read_tree(soup, 100)


def test_what_is_asked_for_is_found_behind_a_flood_of_attributes() -> None:
    """A15: the flood itself is not kept."""
    flood = "".join(f" a{number}=x" for number in range(20_000))
    found = read_tokens(f"<a{flood} href=1 rel=ugc>x</a><meta{flood} name=robots content=noindex>", 10)
    assert found.anchors == [Anchor("1", "ugc", "x")]
    assert found.metas[0].items() >= {"name": "robots", "content": "noindex"}.items()
    assert len(found.metas[0]) < 1000
