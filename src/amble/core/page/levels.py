"""How deep the elements of a page nest at most, counted tag by tag, in time linear in the page. Pure.

A tree builder walks the stack of open elements, so that its time is the product of tags and levels. Counting levels
lets long but shallow pages (a table of 20,000 cells) be told from towers. The count errs to the high side only: an end
tag closes something here where the standard is sure to close it, and is passed over everywhere else.
"""

from __future__ import annotations

import re

from amble.core.page.tokens import RAW_TEXT, TAG, between_tags, end_of_drawing, end_of_raw_text

_NEXT = re.compile(between_tags(cdata=False) + TAG.pattern)
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)
_FORMATTING = frozenset(
    {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
)
# HTML 13.2.6.4.7: end tags that close everything down to their element, if it is in scope.
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset",
     "figcaption", "figure", "footer", "header", "hgroup", "main", "menu", "nav", "ol", "pre", "search", "section",
     "summary", "ul", "li", "dd", "dt", "p"}
)  # fmt: skip
_CELLS = frozenset({"td", "th", "tr", "tbody", "thead", "tfoot", "table"})
# 13.2.4.2: what ends a scope; and <form>, whose end tag has rules of its own.
_BARRIERS = _CELLS | {
    "applet", "button", "caption", "colgroup", "form", "html", "marquee", "object", "template", "select", "svg", "math"
}  # fmt: skip
_TABLE_BARRIERS = (_BARRIERS - _CELLS - {"form", "button"}) | {"table"}
# 13.2.6.4.7 and .16: start tags that close their like, if that is the innermost element.
_CLOSES = {"li": "li", "option": "option", "p": "p", "dt": "dt", "dd": "dd"}
_NEVER_NEST = frozenset({"br", "embed", "hr", "img", "meta"})  # 13.2.6.5: not even in a drawing, which they end
_DRAWING_LEVELS = 36  # of ordinary drawings, which are not looked into, and of <html> and <body>
_LOOK_BACK = 64  # open elements an end tag is compared with


def levels(text: str) -> int:
    """An upper bound of the depth of the tree."""
    stack: list[str] = []
    deepest, at, foreign = 0, 0, False
    while tag := _NEXT.match(text, at):
        name, begins, at = tag[2].lower(), at, tag.end()
        if tag[1]:
            _end(stack, name, foreign)
            continue
        if name in ("svg", "math") and not foreign:
            drawing = end_of_drawing(text, text.rindex("<", begins, tag.start(2)))
            foreign = drawing is None  # from here on raw text may be markup, and anything may nest
            if drawing is not None:
                at = drawing
                continue
        if name == "frameset":
            return text.count("<") + _DRAWING_LEVELS  # other rules altogether
        if name == "plaintext" and not foreign:
            break
        if name in RAW_TEXT and not foreign:
            found = end_of_raw_text(text, name, at)
            if found is None:
                break
            at = found
            continue
        if name in _NEVER_NEST or (name in _VOID and not foreign):
            continue
        if not foreign and stack and _CLOSES.get(name) == stack[-1]:
            stack.pop()
        stack.append(name)
        deepest = max(deepest, len(stack))
    # Three times: rows that a table implies, and formatting that is opened again, stand in no tag.
    return 3 * deepest + _DRAWING_LEVELS


def _end(stack: list[str], name: str, foreign: bool) -> None:
    """Close what an end tag is sure to close."""
    if foreign:
        if stack and stack[-1] == name:
            stack.pop()
    elif name in _FORMATTING:
        place = _find(stack, name, stops=_BARRIERS)
        if place is not None:
            del stack[place]  # what is open within it stays so (13.2.6.4.7, "adoption agency")
    elif name in _BLOCKS or name in _CELLS:
        stops = _BARRIERS | {"ol", "ul"} if name == "li" else _BARRIERS if name in _BLOCKS else _TABLE_BARRIERS
        place = _find(stack, name, stops=stops)
        if place is not None and (name in _BLOCKS or "table" in stack[: place + 1]):
            del stack[place:]
    elif stack and stack[-1] == name:
        stack.pop()


def _find(stack: list[str], name: str, stops: frozenset[str]) -> int | None:
    for place in range(len(stack) - 1, max(-1, len(stack) - 1 - _LOOK_BACK), -1):
        if stack[place] == name:
            return place
        if stack[place] in stops:
            return None
    return None
