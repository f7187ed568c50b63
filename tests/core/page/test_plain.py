"""Which pages are read without a tree, and that the tree shows nothing else there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.page import plain
from amble.core.page.plain import read_plain
from amble.core.page.tree import read_tree
from tests.core.page.hostile import PATTERNS, Pattern, repeated, within
from tests.core.robots.timing import cpu_s

PLAIN = [
    "",
    "no tags at all, 1 < 2",
    '<!doctype html><html lang="en"><title>x</title><p>words <a href="/x">link</a><p>more',
    '<?xml version="1.0"?><html><body><p/><br/><a href="/x">link</a></body></html> and after',
    "<div><p>left open <a href=/x>unquoted</a><ul><li>too</div></p></ul>",
    "<b><div>torn <a href='/x'>apart</a></b></div>",
    '<a href="/x"><img src="y"><br> <span class="z"><b>all</b> end</span> here <!-- </a> --></a>',
    '<a href="/x"><picture><source srcset="y"><img src="z"></picture><my-icon name="w"></my-icon> text</a>',
    "<script><!-- '<a href=/no>' --></script><a href='/x'>x</a>",
    '<a href="/x"><span>the end tag of the link ends this too</a>',
    '<a name="top"></a><a href="">here</a><a href>here</a>',
    '<a href="/x"><svg class="icon"><path d="M0"/></svg></a><svg><g><circle r="1"/></g></svg>',
    '<a href="/x" href="/y" rel="ugc" rel="nofollow">the first counts</a><a rel="a" href="/z" rel="b">y</a>',
    "<html lang=de><html lang=en><html><nobr><a href='/x'>x</a><nobr><a href='/y'>y</a></nobr>",
    "<table> <tr><td><a href='/x'>x</a></td> <!-- --> <td>y</tr></table><a href='/y'>y</a>",
    "<table><caption>z</caption><colgroup><col><tbody><tr><td><table><tr><td>x</table>y</table>",
    "<script>if (a<b) { '<a href=/no>' }</script><style>a > b</style><textarea><p></textarea>",
    "<noscript><iframe src='x'></iframe></noscript><select><option>a<option selected>b</select>",
]
NOT_PLAIN = [
    '<A HREF="/x">upper case</A>',
    '<a href = "/x">spaces</a>',
    '<a href="/x"title="y">no space</a>',
    '<a href="/x\ry">a line ends in it</a>',
    '<a class="x\ry" href="/x">here too</a>',
    '<a href="/x">never ends',
    '<a href="/x">one <a href="/y">ends the other</a>',
    '<p><a href="/x"><div>ends the paragraph, and opens the link again</div></a>',
    '<span><a href="/x">x</span>y</a>',
    '<a href="/x"><b><i></b></i></a>',
    '<table><a href="/x">moved out in front</a><tr><td>y</table>',
    '<table><tr><td>x</td><a href="/x">moved</a></tr></table>',
    '<table><tr><td>x</td></tr>moved<a href="/x">y</a></table>',
    '<template><a href="/x">inert</a></template>',
    '<frameset><a href="/x">x</a></frameset>',
    '<svg><a href="/x">x</a></svg>',
    "<svg><title>x</title></svg>",
    "<math><mi>x</math>",
    '<select><a href="/x">x</a></select>',
    "<script><!-- <script> </script> --></script>",
    "<script>never ends",
    "<title>a <b> in it</title>",
    "<title>never ends",
    "<!-- never ends",
    "<![CDATA[x]]>",
    "<plaintext><a href='/x'>x</a>",
    "<map><area href='/x'></map>",
    "<p title='never ends",
    "</a>",
    "</p class=x>",
    "x" * 300_001,
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_pages_say_what_their_tree_shows(text: str) -> None:
    assert read_plain(text, 1000) == read_tree(text, 1000)


@pytest.mark.parametrize("text", NOT_PLAIN, ids=lambda text: text[:40])
def test_what_only_a_tree_can_tell_is_not_plain(text: str) -> None:
    assert read_plain(text, 1000) is None


def test_more_anchors_than_wanted_are_for_others_to_count() -> None:
    assert read_plain("<a href='/x'>y</a>" * 50, 30) is None


# --- What is remembered --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", PLAIN)
def test_links_say_the_same_when_they_are_met_again(text: str) -> None:
    plain._known.clear()
    assert read_plain(text, 1000) == read_plain(text, 1000) == read_tree(text, 1000)


def test_remembered_links_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_KNOWN_MAX", 10)
    plain._known.clear()
    held = []
    for number in range(25):
        read_plain(f'<a href="/{number}">x</a><a href="/{"x" * 300}">too long</a><a name="to nowhere"></a>', 1000)
        held.append(len(plain._known))
    assert held == [*range(1, 11), *range(1, 11), *range(1, 6)]


# --- Against the tree, on pages where all but the writing of tags is out of order ----------------------------------

BLOCKS = (
    *("div", "p", "ul", "li", "dl", "dd", "h1", "form", "button", "pre", "object", "marquee", "fieldset", "select"),
    *("table", "tr", "td", "th", "tbody", "thead", "caption", "colgroup", "noscript", "head", "body", "frame"),
    *("option", "ruby", "rt", "custom-x", "image"),
)
FORMATTING = ("b", "i", "em", "strong", "font", "u", "s", "small", "big", "code", "tt", "strike", "nobr")
STARTS = [f"<{name}>" for name in (*BLOCKS, *FORMATTING, "span")]
ENDS = [f"</{name}>" for name in (*BLOCKS, *FORMATTING, "span")]
SINGLE = [
    *("text", "\n", "&nbsp;", "a < b", "<!-- c -->", "<br>", "<img src=x>", "<hr/>", "<input>", "<col>", "<b id=f>"),
    *("<script>a<b</script>", "<style>a>b</style>", "<textarea>x</textarea>", "<iframe>x</iframe>"),
    *("<select><option>a<option>b</select>", "<svg><g><path d='m'/></g></svg>", "<!doctype html>"),
    *("<title>one</title>", "<title></title>", "<html lang=de>", "<html lang>", "<base href=/b>"),
    *("<meta name=n content=c>", "<link rel=r href=/l>", "</br>", "</html>", "</template>", "</svg>", "</title>"),
]
ANCHORS = [
    '<a href="/x">x</a>',
    "<a rel=ugc href='/y'> <b>y</b>\n<img alt='</span>'></a>",
    "<a href='/z'><span>left open</a>",
    "<a href='/z'><b>left open</a>",
    "<a href='/z'>ended from <!-- here -->within</span> text</a>",
    "<a href='/z'>ended from within</b> text</a>",
    "<a name=n><i>nowhere</i></a>",
]
TABLE = "<table><tr><td>{}</td>\n<td></td></tr></table>"


def test_every_tag_before_and_after_a_link() -> None:
    """Exhaustive, since chance would rarely meet the one pair that matters."""
    pieces = [*STARTS, *ENDS, *SINGLE]
    around = [(before, ANCHORS[0], after) for before in pieces for after in pieces]
    around += [(before, anchor, after) for before in pieces for anchor in ANCHORS for after in ("text", *ENDS[-4:])]
    plain = 0
    for before, anchor, after in around:
        text = f"{before}{anchor}{after}<a href='/end'>end</a>"
        found = read_plain(text, 1000)
        assert found is None or found == read_tree(text, 1000), text
        plain += found is not None
    assert plain > len(around) / 2


PIECES = st.sampled_from(STARTS) | st.sampled_from(ENDS) | st.sampled_from(ANCHORS) | st.sampled_from(SINGLE)
TABLES = st.lists(PIECES, max_size=4).map(lambda cell: TABLE.format("".join(cell)))
SOUPS = st.builds(
    "{}{}".format,
    st.sampled_from(["", "<!doctype html>", "<!doctype html><html><head><title>T</title></head><body>"]),
    st.lists(PIECES | TABLES, max_size=12).map("".join),
)


@given(SOUPS)
def test_a_page_that_passes_for_plain_is(soup: str) -> None:
    """Whatever is left open, closed twice or torn apart: where this reader says something, the tree says the same."""
    found = read_plain(soup, 1000)
    assert found is None or found == read_tree(soup, 1000)


VALUES = st.lists(
    st.sampled_from(
        [
            *"abc/?=&;:.#->< \n\t\r\f'`@\u00e9\u4e2d\u2028\xa0",
            "&amp;",
            "&copy",
            "&copy=1",
            "&#65;",
            "&#x80;",
            "&#xD800;",
            "</a>",
        ]
    ),
    max_size=5,
).map("".join)
ATTRIBUTE_NAMES = st.sampled_from(
    ["href", "HREF", "rel", "REL", "data-rel", "xlink:href", "class", "onClick", "@click", ":href", "content", "lang"]
)
ATTRIBUTES = st.lists(
    st.builds(
        "{0}{1}={2}{3}{2}".format, st.sampled_from([" ", "\n "]), ATTRIBUTE_NAMES, st.sampled_from('""\''), VALUES
    )
    | ATTRIBUTE_NAMES.map(" {}".format),
    max_size=4,
).map("".join)
TAGS = st.one_of(
    st.builds('<a{} href="{}"{}>{}</a>'.format, ATTRIBUTES, VALUES, ATTRIBUTES, VALUES),
    st.builds("<{}{}>".format, st.sampled_from(["meta", "link", "base", "html", "div"]), ATTRIBUTES),
    VALUES.map("<title>{}</title>".format),
)


@given(st.lists(TAGS, max_size=3).map("".join))
def test_attributes_and_texts_are_those_of_the_tree(text: str) -> None:
    found = read_plain(text, 1000)
    assert found is None or found == read_tree(text, 1000)


# --- Time ----------------------------------------------------------------------------------------------------------

FLOODS: dict[str, Pattern] = PATTERNS | {
    "elements of the line in a link": within('<a href="x">', repeated("<b></b>"), "</a>"),
    "elements of the line that never end": repeated('<a href="x"><b>'),
    "drawings in a link": within('<a href="x">', repeated("<svg></svg>"), "</a>"),
    "drawings in links that never end": repeated('<a href="x"><svg>'),
    "attributes of a link": within('<a href="x"', repeated(" a"), ">x</a>"),
    "rows and comments": within("<table>", repeated("<tr><!-- -->")),
    "comments after a row": within("<tr>", repeated("<!-- -->")),
    "options": within("<select>", repeated("<option>")),
    "frames that never end": repeated("<iframe>"),
    "whole links": repeated('<a href="x">x</a>'),
}
CHARS = 60_000


@pytest.mark.parametrize("name", FLOODS)
def test_time_is_linear_in_the_page(name: str) -> None:
    """A15."""
    small, large = (FLOODS[name](chars).decode() for chars in (CHARS // 4, 2 * CHARS))
    for runs in (2, 8):  # a ratio above the bound may be noise: look closer before believing it
        ratio = _spent_s(large, runs) / _spent_s(small, runs)
        if ratio < 24:  # what is quadratic takes 64 times as long
            return
    pytest.fail(f"eight times the page takes {ratio:.0f} times as long")


def _spent_s(text: str, runs: int) -> float:
    return cpu_s(lambda: read_plain(text, 10_000), at_least_s=0.005, runs=runs)
