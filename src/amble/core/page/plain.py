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

from amble.core.page.markup import ANCHOR_CHARS_MAX, TITLE_CHARS_MAX, Markup, other_href, squeeze
from amble.core.page.references import unescape_text, unescape_value
from amble.core.page.tokens import ANY_MARKUP, COMMENT, DRAWING, W, attributes_of

_CHARS_MAX = 300_000  # of longer pages too much would be held at once

# --- Tags as nearly all are written --------------------------------------------------------------------------------

_S = rf"[{W}]"
_VALUE = rf"(?:\"[^\"\r]*+\"|'[^'\r]*+'|[^{W}\"'=<>`]++)"
_ATTRIBUTES = rf"(?:{_S}++[A-Za-z0-9:_@.-]++(?:={_VALUE})?+)*+"
_VOID_END = rf"{_S}*+/?+>"


def _name_but(stops: Iterable[str]) -> str:
    """A tag name that is none of `stops`, told by its first letter where possible."""
    rests: dict[str, list[str]] = {}
    for name in stops:
        rests.setdefault(name[0], []).append(name[1:])
    free = "".join(letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in rests)
    bound = (f"{letter}(?!(?:{'|'.join(rest)})[{W}/>])" for letter, rest in rests.items())
    return rf"(?:{'|'.join([f'[{free}]', *bound])})[a-z0-9-]*+"


def _element(name: str, content: str) -> str:
    """An element from its name on, with what may stand in it."""
    return rf"{name}{_ATTRIBUTES}{_S}*+>{content}</{name}{_S}*+>"


def _raw_text(name: str) -> str:
    any_case = "".join(f"[{letter}{letter.upper()}]" for letter in name)
    slash = "/?" if name == "script" else "/"  # a <script> may hide the end of the one it stands in (13.2.5.27)
    return _element(name, rf"(?:[^<]++|<(?!{slash}{any_case}[{W}/>]))*+")


# --- What is passed over -------------------------------------------------------------------------------------------

_CELLS = ("td", "th", "caption")  # hold what a page holds
_ROWS = ("tr", "tbody", "thead", "tfoot", "colgroup", "col")
_PARTS = "|".join((*_CELLS, *_ROWS))
_THEN_A_PART = rf"(?={_S}*+(?:<{COMMENT}{_S}*+)*+<(?:/?(?:{_PARTS})|/table)[{W}/>])"
_RAW_TEXT = ("iframe", "script", "style", "textarea")
_ITEMS = ("a", "base", "html", "link", "meta", "title")
_NEVER = ("area", "frameset", "math", "noembed", "noframes", "plaintext", "template", "xmp")  # on a plain page
_SPECIAL = (*_ITEMS, *_NEVER, *_RAW_TEXT, *_CELLS, *_ROWS, "table", "select", "svg")

_PASSED_OVER = "|".join(
    [
        rf"/{_name_but(('a', *_CELLS, *_ROWS))}{_S}*+>",
        rf"{_name_but(_SPECIAL)}{_ATTRIBUTES}{_VOID_END}",
        rf"(?:{'|'.join(_CELLS)}){_ATTRIBUTES}{_VOID_END}",
        rf"(?:table|{'|'.join(_ROWS)}){_ATTRIBUTES}{_VOID_END}{_THEN_A_PART}",
        rf"/(?:{_PARTS}){_S}*+>{_THEN_A_PART}",
        COMMENT,
        *map(_raw_text, _RAW_TEXT),
        DRAWING,
        _element("select", rf"(?:[^<]++|</?(?:option|optgroup){_ATTRIBUTES}{_VOID_END})*+"),
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
_SAID = rf"(>[^<]*+(?:<(?:(?:{_IN_LINE}){_ATTRIBUTES}{_S}*+>|/(?:{_IN_LINE}){_S}*+>|{_OTHERS_IN_LINE})[^<]*+)*+)"
_NOT_HREF = rf"(?:{_S}++(?!href[{W}=/>])[a-z0-9:_@.-]++(?:={_VALUE})?+)*+"
_ITEM = "|".join(
    [
        rf"a({_NOT_HREF}){_S}++href=\"([^\"\r]++)\"({_NOT_HREF}){_S}*+{_SAID}</a{_S}*+>",  # nearly all links
        rf"a({_ATTRIBUTES}){_S}*+{_SAID}</a{_S}*+>",
        rf"(base|html|link|meta)({_ATTRIBUTES}){_VOID_END}",
        rf"title{_ATTRIBUTES}{_S}*+(>[^<]*+)</title{_S}*+>",
    ]
)
# Each match runs up to the next item, and the last one takes in all that is not plain: nothing is left out in between.
_NEXT = re.compile(rf"[^<]*+(?:<(?:{_PASSED_OVER})[^<]*+)*+(?:<(?:{_ITEM})|\Z|(<(?s:.*)))")


def read_plain(text: str, anchors_max: int) -> Markup | None:
    """The findings of one pass; None if the page is not plain."""
    found = _NEXT.findall(text) if len(text) <= _CHARS_MAX else []
    if not 0 < len(found) <= anchors_max or any(rest for *_, rest in found[-2:]):
        return None
    markup = Markup(anchors_max)
    for before, href, after, content, raw, other_content, name, void_raw, title, _ in found:
        if href:
            said = _said(content)
            if said is None:
                return None
            rel = attributes_of(before + after).get("rel", "") if "rel" in before or "rel" in after else ""
            markup.anchors.append((unescape_value(href), rel, said))
        elif other_content:
            said = _said(other_content)
            if said is None:
                return None
            _add_anchor(markup, attributes_of(raw), said)
        elif name:
            _add_void(markup, name, attributes_of(void_raw))
        elif title and markup.title is None:
            markup.title = squeeze(unescape_text(title[1:]), TITLE_CHARS_MAX)
    markup.anchors_seen = len(markup.anchors)
    return markup


def _said(content: str) -> str | None:
    """The text of what stands between the name of an <a> and its end; None if a tag in it ends what began outside."""
    if "<" in content:
        if not _ends_what_it_begins(content):
            return None
        content = ANY_MARKUP.sub("", content)
    return squeeze(unescape_text(content[1:]), ANCHOR_CHARS_MAX)


def _ends_what_it_begins(content: str) -> bool:
    opened: list[str] = []
    for end, name in _LINE_TAG.findall(content):
        if not end:
            opened += [name] if name else []  # an image or a comment begins nothing
        elif not opened or opened.pop() != name:
            return False
    return True


def _add_anchor(markup: Markup, attributes: dict[str, str], said: str) -> None:
    href = attributes.get("href") or other_href(attributes)
    if href is not None:
        markup.anchors.append((href, attributes.get("rel", ""), said))


def _add_void(markup: Markup, name: str, attributes: dict[str, str]) -> None:
    if name != "html":
        markup.add_void(name, attributes)
    elif markup.lang is None:
        markup.lang = attributes.get("lang")
