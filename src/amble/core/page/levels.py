"""How deep the elements of a page nest at most, counted tag by tag, in time linear in the page. Pure.

A tree builder walks the stack of open elements, so that its time is the product of tags and levels. Counting levels
lets long but shallow pages (a table of 20,000 cells) be told from towers. The count errs to the high side only.

What is counted is a stack: an end tag closes its element where that is the innermost one, and in the upper part of the
stack, which is known to be as the tree builder has it, tags close what they do in HTML 13.2.6. Whatever makes that hard
to tell ends the part that is known; the elements below are closed by their own end tags alone.
"""

from __future__ import annotations

import re
from itertools import takewhile

from amble.core.page.tokens import CHOICES, RAW_TEXT, TAG, between_tags, end_of_drawing, end_of_raw_text

_NEXT = re.compile(between_tags(cdata=False) + TAG.pattern)
_CHOICES = re.compile(CHOICES)
_STRICT_DOCTYPE = re.compile(r"\s*+<!doctype\s++html\s*+>", re.IGNORECASE)
_NEVER_NEST = frozenset({"br", "embed", "hr", "img", "meta"})  # 13.2.6.5: not even in a drawing, which they end
_DRAWING_LEVELS = 36  # of ordinary drawings, which are not looked into, and of <html> and <body>
_LOOK_BACK = 64  # open elements a tag is compared with

_Names = frozenset[str]
_PASSED_OVER = frozenset(
    {"area", "base", "basefont", "bgsound", "body", "br", "col", "embed", "frame", "head", "hr", "html", "image", "img",
     "input", "keygen", "link", "meta", "param", "source", "track", "wbr", *RAW_TEXT}
)  # fmt: skip
_FORMATTING = frozenset({"a", "b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"})
# 13.2.6.4.7: start tags that close a <p>, and whose end tags close everything down to their element.
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset",
     "figcaption", "figure", "footer", "header", "hgroup", "listing", "main", "menu", "nav", "ol", "p", "pre", "search",
     "section", "summary", "ul"}
)  # fmt: skip
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_ITEMS = frozenset({"li", "dd", "dt"})
_RANKS = {"table": 0, "caption": 1, "colgroup": 1, "tbody": 1, "thead": 1, "tfoot": 1, "tr": 2, "td": 3, "th": 3}
_PARTS = frozenset(_RANKS)
_BEFORE_ROWS = frozenset({"caption", "colgroup"})
_CELLS = frozenset({"td", "th", "caption"})  # 13.2.4.3: formatting around them is not opened again within
# Rules of their own: as long as one is open, nothing is known of the stack.
_ODD = frozenset(
    {"applet", "marquee", "nobr", "object", "optgroup", "option", "rb", "rp", "rt", "rtc", "ruby", "select",
     "template"}
)  # fmt: skip
_SPECIAL = (_BLOCKS - {"dialog"}) | _HEADINGS | _ITEMS | _PARTS | {"button", "form", "noscript"}
_ITEM_STOPS = _SPECIAL - {"address", "div", "p"}
_NO_P_BELOW = (_PARTS | _BLOCKS | _HEADINGS | _ITEMS | {"button"}) - {"p"}
_P, _LI, _TABLE = (frozenset((name,)) for name in ("p", "li", "table"))
# By tag: what it closes, the innermost of some elements, and what ends the search for it.
_Closes = tuple[_Names, _Names]
_CLOSES_P: _Closes = (_P, _NO_P_BELOW)
_AT_START: dict[str, tuple[_Closes, ...]] = {
    **dict.fromkeys((*_BLOCKS, *_HEADINGS, "hr", "xmp"), (_CLOSES_P,)),
    **dict.fromkeys(_ITEMS, ((_ITEMS - _LI, _ITEM_STOPS), _CLOSES_P)),
    "li": ((_LI, _ITEM_STOPS), _CLOSES_P),
}
_AT_END: dict[str, _Closes] = {
    **{name: (frozenset((name,)), _PARTS) for name in (*_BLOCKS, *_ITEMS, "button")},
    **dict.fromkeys(_HEADINGS, (_HEADINGS, _PARTS)),
    **{name: (frozenset((name,)), _TABLE) for name in _PARTS},
    "li": (_LI, _PARTS | {"ol", "ul"}),
}
_ALIKE_MAX = 3  # 13.2.4.3: formatting elements with one name that are sure to be remembered
_ADOPTED_MAX = 7  # 13.2.6.4.7: blocks in a formatting element that its end tag is sure to go through


def levels(text: str) -> int:
    """An upper bound of the depth of the tree."""
    elements = _OpenElements(text)
    stack = elements.stack
    deepest, at, foreign = 0, 0, False
    while tag := _NEXT.match(text, at):
        name, begins, at = tag[2].lower(), at, tag.end()
        if tag[1]:
            if not foreign:
                elements.end_tag(name)
            elif stack and stack[-1] == name and name not in ("form", "template"):
                stack.pop()
            continue
        if name in ("svg", "math") and not foreign:
            drawing = end_of_drawing(text, text.rindex("<", begins, tag.start(2)))
            foreign = drawing is None  # from here on raw text may be markup, and anything may nest
            if drawing is not None:
                at = drawing
                continue
        if name == "select" and not elements.odd and (choices := _CHOICES.match(text, at)):
            at = choices.end()
            continue
        if name == "frameset":
            return 3 * text.count("<") + _DRAWING_LEVELS  # other rules altogether
        if foreign:
            if name not in _NEVER_NEST:
                stack.append(name)
        elif name == "plaintext":
            break
        else:
            elements.start_tag(name)
            if name in RAW_TEXT:
                found = end_of_raw_text(text, name, at)
                if found is None:
                    break
                at = found
        if len(stack) > deepest:
            deepest = len(stack)
    # Three times: formatting opened again, rows implied after a drawing, and forms that only the tree keeps: no tag.
    return 3 * deepest + _DRAWING_LEVELS


class _OpenElements:
    """The elements that are open, innermost last. Formatting is among them from its start tag to its end tag.

    Where a block closes around formatting, the tree builder closes that too, and opens it again behind the block.
    """

    def __init__(self, text: str) -> None:
        self.stack: list[str] = []
        self.odd = 0  # how many odd elements are open
        self._known_from = 0  # what lies below may be closed already
        self._in_form: bool | None = False  # None: hard to tell from now on
        self._form_is_open = False  # of a form directly in a table there is nothing to close
        self._table_closes_p = _STRICT_DOCTYPE.match(text) is not None

    def start_tag(self, name: str) -> None:
        for wanted, stops in _AT_START.get(name, ()):
            self._close(self._find(wanted, stops))
        if name in _PARTS or name == "col":
            self._start_part(name)
        elif name in _FORMATTING:
            self._start_formatting(name)
        elif name == "form":
            self._start_form()
        elif name not in _PASSED_OVER:
            if name in _HEADINGS:
                self._end_heading()
            known = name != "button" or self._find(frozenset((name,)), _PARTS) == -1
            self.stack.append(name)
            self.odd += name in _ODD
            if not known:
                self._doubt()
        if self.odd:
            self._doubt()

    def end_tag(self, name: str) -> None:
        stack = self.stack
        if name == "form":
            self._end_form()
        elif stack and stack[-1] == name:
            stack.pop()
            self.odd -= name in _ODD
        elif name in _FORMATTING:
            self._adopt(self._find(frozenset((name,)), _PARTS))
        elif name not in _PASSED_OVER and name != "colgroup":  # which is not open any more unless it is the innermost
            self._close(self._find(*_AT_END.get(name, (frozenset((name,)), _SPECIAL))))
        self._known_from = min(self._known_from, len(stack))

    def _end_heading(self) -> None:
        """A heading ends the one that it stands directly in."""
        within = self.stack[-_LOOK_BACK:]
        innermost = next((each for each in reversed(within) if each not in _FORMATTING), "")
        if innermost in _HEADINGS:
            if _FORMATTING.isdisjoint(within) and len(within) < _LOOK_BACK:
                self.stack.pop()
            else:  # text may have opened formatting again, and then that is the innermost
                self._doubt()

    # --- Forms

    def _start_form(self) -> None:
        if self.odd:
            self._in_form = None
        if self._in_form:
            return
        place = self._find(_PARTS, frozenset())
        if self._in_form is False:
            self._in_form = True
            self._form_is_open = place is None or place < 0 or self.stack[place] in _CELLS
            if not self._form_is_open:
                return
        self._close(self._find(*_CLOSES_P))
        self.stack.append("form")
        if place is None:
            self._doubt()

    def _end_form(self) -> None:
        if self.odd:
            self._in_form = None
        if self._in_form:
            self._in_form = False
            place = self._find(frozenset(("form",)), _PARTS) if self._form_is_open else -1
            if place is not None and place >= 0:
                del self.stack[place]
            elif self._form_is_open:
                self._in_form = None

    # --- Tables

    def _start_part(self, name: str) -> None:
        """Close what is open in the table down to where such a part stands, and open what the part implies."""
        stack = self.stack
        if name == "col":
            if stack and stack[-1] == "colgroup":
                return
            name = "colgroup"
        rank, place = _RANKS[name], self._find(_PARTS, frozenset())
        if name == "table":
            p = self._find(*_CLOSES_P)
            if self._table_closes_p:
                self._close(p)
            elif p != -1:
                place = None
            if place is not None and place >= 0 and stack[place] not in _CELLS:
                place = None  # it ends the table that it stands in
        elif place == -1:
            return
        else:
            while place is not None and place >= 0 and (_RANKS[stack[place]] >= rank or stack[place] in _BEFORE_ROWS):
                self._close(place)
                place = self._find(_PARTS, frozenset())
            if place is not None and place >= 0:
                self._close(place + 1)
                stack += ("tbody", "tr")[_RANKS[stack[place]] : rank - 1]
        stack.append(name)
        if place is None:
            self._doubt()

    # --- Formatting

    def _start_formatting(self, name: str) -> None:
        if name == "a":
            place = self._find(frozenset((name,)), _CELLS)
            if place is not None and place >= 0 and not _PARTS.isdisjoint(self.stack[place:]):
                del self.stack[place]
            else:
                self._adopt(place)
        self.stack.append(name)
        if len(self.stack) > _LOOK_BACK or self.stack.count(name) > _ALIKE_MAX:
            self._doubt()

    def _adopt(self, place: int | None) -> None:
        """13.2.6.4.7, "adoption agency": of what is open within formatting that ends, the blocks stay so."""
        if place is None:
            self._doubt()
        elif place >= 0:
            within = self.stack[place + 1 :]
            # A <dialog> is a block that is not special: it may lie around formatting that was opened again.
            if "dialog" in within or sum(name in _SPECIAL for name in within) > _ADOPTED_MAX:
                self._doubt()
            else:
                self.stack[place:] = [name for name in within if name in _SPECIAL or name in _FORMATTING]

    # --- The stack

    def _find(self, wanted: _Names, stops: _Names) -> int | None:
        """Where the innermost of the elements `wanted` is, unless one that `stops` the search is further in; -1 where
        none is open; None where that cannot be told."""
        stack = self.stack
        known_from = max(self._known_from, len(stack) - _LOOK_BACK)
        for place in range(len(stack) - 1, known_from - 1, -1):
            name = stack[place]
            if name in wanted:
                return place
            if name in stops:
                return -1
        return -1 if known_from <= _LOOK_BACK and wanted.isdisjoint(stack[:known_from]) else None

    def _close(self, place: int | None) -> None:
        """Close the element at a place, and all within it but formatting that is opened again."""
        if place is None:
            self._doubt()
        elif place >= 0:
            opened_again = takewhile(lambda name: name not in _CELLS, self.stack[place:])
            self.stack[place:] = [name for name in opened_again if name in _FORMATTING]

    def _doubt(self) -> None:
        self._known_from = len(self.stack)
