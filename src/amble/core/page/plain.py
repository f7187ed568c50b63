"""What the markup of a plain page says, read in one go: a page whose tags cannot be misplaced. Pure.

A tree is needed to know where a browser puts what stands in the wrong place. On most pages nothing does, as far as the
links and the head are concerned, and then the order of the tags is that of the tree. This is what makes a page plain,
by the rules of tree construction (HTML 13.2.6); any other is left to the readers that know more:
  - tags are written as nearly all are: lower case, attributes apart, values in quotes or without anything special;
  - an <a> holds text, images, drawings and elements of the line that end within it. So nothing ends the <a> but its own
    end tag, and it is never opened again (13.2.4.3: only what is left open is);
  - between the parts of a table stands white space alone, so nothing is moved out in front of it (13.2.6.1);
  - nothing is inert or other than HTML: no <template>, no <frameset>, drawings of shapes alone, options in a <select>.
Blocks may be left open or closed in any order, and formatting may be torn apart by them: copies are made of formatting
elements alone, and what is moved with them keeps its order (13.2.6.4.7, "adoption agency").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from string import ascii_lowercase

from amble.core.page.markup import ANCHOR_CHARS_MAX, TITLE_CHARS_MAX, Markup, other_href, squeeze
from amble.core.page.references import unescape_text, unescape_value
from amble.core.page.tokens import ANY_MARKUP, COMMENT, DRAWING, W, attributes_of

_CHARS_MAX = 300_000  # of longer pages too much would be held at once

# --- Tags as nearly all are written --------------------------------------------------------------------------------

_S = rf"[{W}]"
_VALUE = rf"(?:\"[^\"\r]*+\"|'[^'\r]*+'|[^{W}\"'=<>`]++)"
_ATTRIBUTES = rf"(?>{_S}++[A-Za-z0-9:_@.-]++(?>={_VALUE})?+)*+"
_VOID_END = rf"{_S}*+/?+>"


def _name_but(stops: Iterable[str]) -> str:
    """A tag name that is none of `stops`, told by its first letter where possible."""
    rests: dict[str, list[str]] = {}
    for name in stops:
        rests.setdefault(name[0], []).append(name[1:])
    bound = (f"{letter}(?!(?:{'|'.join(rest)})[{W}/>])" for letter, rest in rests.items())
    return rf"(?:{'|'.join([_letter_but(rests), *bound])})[a-z0-9-]*+"


def _letter_but(stops: Iterable[str]) -> str:
    """A letter that none of `stops` begins with."""
    first = {name[0] for name in stops}
    return f"[{''.join(letter for letter in ascii_lowercase if letter not in first)}]"


def _element(name: str, content: str) -> str:
    """An element from its name on, with what may stand in it."""
    return rf"{name}{_ATTRIBUTES}{_S}*+>{content}</{name}{_S}*+>"


def _raw_text(name: str) -> str:
    any_case = "".join(f"[{letter}{letter.upper()}]" for letter in name)
    slash = "/?" if name == "script" else "/"  # a <script> may hide the end of the one it stands in (13.2.5.27)
    return _element(name, rf"(?>[^<]++|<(?!{slash}{any_case}[{W}/>]))*+")


# --- What is passed over -------------------------------------------------------------------------------------------

_CELLS = ("td", "th", "caption")  # hold what a page holds
_ROWS = ("tr", "tbody", "thead", "tfoot", "colgroup", "col")
_PARTS = "|".join((*_CELLS, *_ROWS))
_THEN_A_PART = rf"(?={_S}*+(?><{COMMENT}{_S}*+)*+<(?:/?(?:{_PARTS})|/table)[{W}/>])"
_RAW_TEXT = ("iframe", "script", "style", "textarea")
_ITEMS = ("a", "base", "html", "link", "meta", "title")
_NEVER = ("area", "frameset", "math", "noembed", "noframes", "plaintext", "template", "xmp")  # on a plain page
_SPECIAL = (*_ITEMS, *_NEVER, *_RAW_TEXT, *_ROWS, "table", "select", "svg")
_SPECIAL_ENDS = ("a", *_CELLS, *_ROWS)

# An expression tries its branches in turn, and looks ahead in five times the time of a letter. So what is written most
# often comes first: end tags whose first letter says that they are passed over, and two that pages are full of.
_PASSED_OVER = "|".join(
    [
        rf"/{_letter_but(_SPECIAL_ENDS)}[a-z0-9-]*+>|p>|li>",
        rf"/{_name_but(_SPECIAL_ENDS)}{_S}*+>",
        rf"{_name_but(_SPECIAL)}(?:>|{_ATTRIBUTES}{_VOID_END})",
        rf"(?:table|{'|'.join(_ROWS)}){_ATTRIBUTES}{_VOID_END}{_THEN_A_PART}",
        rf"/(?:{_PARTS}){_S}*+>{_THEN_A_PART}",
        COMMENT,
        *map(_raw_text, _RAW_TEXT),
        DRAWING,
        _element("select", rf"(?>[^<]++|</?(?:option|optgroup){_ATTRIBUTES}{_VOID_END})*+"),
        r"![dD][oO][cC][tT][yY][pP][eE][^>]*+>|\?[^>]*+>",
        r"(?![A-Za-z/!?])",
    ]
)

# --- What is looked for --------------------------------------------------------------------------------------------

_IN_LINE = (
    "abbr|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|picture|q|s|samp|small|span|strike|strong|sub|sup"
    "|time|tt|u|var|[a-z]++-[a-z0-9-]++"
)
_OTHERS_IN_LINE = rf"(?:br|img|source|wbr){_ATTRIBUTES}{_VOID_END}|{COMMENT}|{DRAWING}"
_LINE_TAG = re.compile(rf"<(?:(/?)({_IN_LINE}){_ATTRIBUTES}{_S}*+>|{_OTHERS_IN_LINE})")
_LINE = rf"[^<]*+(?><(?:(?:{_IN_LINE}){_ATTRIBUTES}{_S}*+>|/(?:{_IN_LINE}){_S}*+>|{_OTHERS_IN_LINE})[^<]*+)*+"
_ITEM = "|".join(
    [
        rf"a{_ATTRIBUTES}{_S}*+>{_LINE}</a{_S}*+>",
        rf"(?:base|html|link|meta){_ATTRIBUTES}{_VOID_END}",
        rf"title{_ATTRIBUTES}{_S}*+>[^<]*+</title{_S}*+>",
    ]
)
_SHORT_LINK = r"a href=\"[^\"\r]++\">[^<]*+</a>"  # finds nothing that the others would not, only sooner
# Each match runs up to the next item, and the last one takes in all that is not plain: nothing is left out in between.
_NEXT = re.compile(rf"[^<]*+(?><(?:{_PASSED_OVER})[^<]*+)*+(?:<({_SHORT_LINK}|{_ITEM}|(?s:.*))|\Z)")

# --- What is found -------------------------------------------------------------------------------------------------

_NOT_HREF = rf"(?>{_S}++(?!href[{W}=/>])[a-z0-9:_@.-]++(?>={_VALUE})?+)*+"
_SHORT = re.compile(r"a href=\"([^\"]++)\">([^<]*+)</a>")
_LONG = re.compile(rf"a({_NOT_HREF}){_S}++href=\"([^\"]++)\"({_NOT_HREF}){_S}*+>(.*)</a{_S}*+>", re.DOTALL)
_TAG = re.compile(r"([a-z]++)((?>[^\"'>]++|\"[^\"]*+\"|'[^']*+')*+)>")  # in an item, quotes do nothing but hold values

# An <a> as written -> its href, rel and text. The pages of a site share many.
_known: dict[str, tuple[str, str, str]] = {}
_KNOWN_MAX = 20_000
_KNOWN_CHARS_MAX = 300  # longer ones are read, not remembered: a cache must not be a way to fill memory


def read_plain(text: str, anchors_max: int) -> Markup | None:
    """The findings of one pass; None if the page is not plain."""
    found = _NEXT.findall(text) if len(text) <= _CHARS_MAX else []
    if not 0 < len(found) <= anchors_max or not all(map(_is_item, found[-2:])):
        return None
    markup = Markup(anchors_max)
    known, keep = _known.get, markup.anchors.append
    for raw in found:
        anchor = known(raw)
        if anchor is not None:
            keep(anchor)
        elif raw and not _read(raw, markup):
            return None
    markup.anchors_seen = len(markup.anchors)
    return markup


def _is_item(raw: str) -> bool:
    """Whether this is an item, or the empty end of a page; all that follows something not plain is neither."""
    return not raw or re.fullmatch(_ITEM, raw) is not None  # compiled when first asked: few pages end with an item


def _read(raw: str, markup: Markup) -> bool:
    """Take in what an item says; False if only a tree can tell."""
    if raw[0] == "a":
        return _read_anchor(raw, markup)
    name, attributes, content = _parts(raw) if len(raw) <= _KNOWN_CHARS_MAX else _parts.__wrapped__(raw)
    if name == "title":
        markup.title = squeeze(unescape_text(content), TITLE_CHARS_MAX) if markup.title is None else markup.title
    elif name != "html":
        markup.add_void(name, attributes)
    elif markup.lang is None:
        markup.lang = attributes.get("lang")
    return True


@lru_cache(maxsize=1024)
def _parts(raw: str) -> tuple[str, dict[str, str], str]:
    """The name of an item, its attributes, and what stands in it."""
    tag = _TAG.match(raw)
    assert tag is not None, "an item begins with a tag"
    return tag[1], attributes_of(tag[2]) if tag[2] else {}, raw[tag.end() : raw.rfind("<")]


def _read_anchor(raw: str, markup: Markup) -> bool:
    """Take in an <a>, and remember what it says; False if a tag in it ends what began outside."""
    href, rel, content = _link_parts(raw)
    if "<" in content:
        if not _ends_what_it_begins(content):
            return False
        content = ANY_MARKUP.sub("", content)
    if href is not None:
        anchor = (href, rel, squeeze(unescape_text(content), ANCHOR_CHARS_MAX))
        markup.anchors.append(anchor)
        if len(raw) <= _KNOWN_CHARS_MAX:
            if len(_known) >= _KNOWN_MAX:
                _known.clear()
            _known[raw] = anchor
    return True


def _link_parts(raw: str) -> tuple[str | None, str, str]:
    """Where an <a> leads if anywhere, its `rel`, and what stands in it."""
    if short := _SHORT.fullmatch(raw):
        return unescape_value(short[1]), "", short[2]
    if long := _LONG.fullmatch(raw):
        before, href, after, content = long.groups()
        rel = attributes_of(before + after).get("rel", "") if "rel" in before or "rel" in after else ""
        return unescape_value(href), rel, content
    _, attributes, content = _parts.__wrapped__(raw)
    return attributes.get("href") or other_href(attributes), attributes.get("rel", ""), content


def _ends_what_it_begins(content: str) -> bool:
    opened: list[str] = []
    for end, name in _LINE_TAG.findall(content):
        if not end:
            opened += [name] if name else []  # an image or a comment begins nothing
        elif not opened or opened.pop() != name:
            return False
    return True
