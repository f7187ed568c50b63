"""How deep the elements of a page nest at most, counted tag by tag, in time linear in the page. Pure.

A tree builder walks the stack of open elements, so that its time is the product of tags and levels. Counting levels
lets long but shallow pages (a table of 20,000 cells) be told from towers. The count errs to the high side only: the
stack is kept as the standard says (HTML 13.2.6), and where that would take long, or hangs on more than the stack, a
doubt is put on top of it. What lies below a doubt is never closed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile

from amble.core.page.tokens import RAW_TEXT, TAG, between_tags, end_of_drawing, end_of_raw_text

_NEXT = re.compile(between_tags(cdata=False) + TAG.pattern)
_ANY_DOCTYPE = re.compile(r"<!doctype", re.IGNORECASE)
# 13.2.6.4.1: those in use that are sure not to ask for quirks.
_STRICT_DOCTYPE = re.compile(
    r"\s*+<!doctype\s++html(?>\s++public\s++\"-//W3C//DTD X?HTML (?:4\.01|1\.[01])[^\">]*+\"\s++"
    r"\"http://www\.w3\.org/[^\">]*+\")?+\s*+>",
    re.IGNORECASE | re.ASCII,
)

_Names = frozenset[str]
_NEVER_NEST = frozenset({"br", "embed", "hr", "img", "meta"})  # 13.2.6.5: not even in a drawing, which they end
_PASSED_OVER = frozenset(
    {"area", "base", "basefont", "bgsound", "br", "embed", "image", "img", "keygen", "link", "meta", "param", "source",
     "track", "wbr", "html", "head", "body", "frame", *RAW_TEXT}
)  # fmt: skip
_FORMATTING = frozenset(
    {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
)
# 13.2.6.4.7: start tags that close a <p>, and whose end tags close everything down to their element.
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset",
     "figcaption", "figure", "footer", "header", "hgroup", "listing", "main", "menu", "nav", "ol", "p", "pre", "search",
     "section", "summary", "ul"}
)  # fmt: skip
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_ITEMS = frozenset({"li", "dd", "dt"})
_RUBY = frozenset({"rb", "rp", "rt", "rtc"})
_EMBEDDED = frozenset({"applet", "marquee", "object"})
_RANKS = {"table": 0, "caption": 1, "colgroup": 1, "tbody": 1, "thead": 1, "tfoot": 1, "tr": 2, "td": 3, "th": 3}
_PARTS = frozenset(_RANKS)
_CELLS = frozenset({"td", "th", "caption"})
_MARKERS = _CELLS | _EMBEDDED | {"template"}  # 13.2.4.3: formatting around them is not opened again within
_SCOPE = _PARTS | _EMBEDDED | {"select", "template"}  # 13.2.4.2: what ends a search for an open element
_LEFT_FORM = "*form"  # one that its end tag has not reached, and no other end tag will
_SPECIAL = (_BLOCKS - {"dialog"}) | _HEADINGS | _ITEMS | _SCOPE | {"button", "form", _LEFT_FORM, "noscript"}
_IMPLIED = _ITEMS | _RUBY | {"optgroup", "option", "p"}  # 13.2.6.3: those whose end tags are

_DOUBT = ""
_STUCK = "*"  # a formatting element whose end tag may be passed over
_KEPT = _FORMATTING | {_STUCK}
_ALIKE_MAX = 3  # 13.2.4.3: formatting elements with one name that are sure to be remembered
_ADOPTED_MAX = 7  # 13.2.6.4.7: blocks in a formatting element that its end tag is sure to go through
_DRAWING_LEVELS = 36  # of ordinary drawings, which are not looked into, and of <html> and <body>
_LOOK_BACK = 64  # open elements a tag is compared with


def levels(text: str) -> int:
    """An upper bound of the depth of the tree."""
    page = _Page(text)
    stack = page.stack
    deepest, at, foreign = 0, 0, False
    while tag := _NEXT.match(text, at):
        name, begins, at = tag[2].lower(), at, tag.end()
        if tag[1]:
            if stack and stack[-1] == name and name not in ("form", "template"):
                stack.pop()
            elif not foreign:
                _ENDS.get(name, _Page.end)(page, name)
            continue
        if name in ("svg", "math") and not foreign:
            drawing = end_of_drawing(text, text.rindex("<", begins, tag.start(2)))
            foreign = drawing is None  # from here on raw text may be markup, and anything may nest
            if drawing is not None:
                at = drawing
                continue
        if name == "frameset":
            return text.count("<") + _DRAWING_LEVELS  # other rules altogether
        if foreign:
            if name not in _NEVER_NEST:
                stack.append(name)
        elif name == "plaintext":
            break
        else:
            _STARTS.get(name, _Page.start)(page, name)
            if name in RAW_TEXT:
                found = end_of_raw_text(text, name, at)
                if found is None:
                    break
                at = found
        if len(stack) > deepest:
            deepest = len(stack)
    # Three times: formatting opened again, rows implied after a drawing, and forms that only the tree keeps: no tag.
    return 3 * deepest + _DRAWING_LEVELS


class _Page:
    """The elements that are open, innermost last. Formatting is among them from its start tag to its end tag.

    Where a block closes around formatting, the tree builder closes that too, and opens it again behind the block.
    """

    def __init__(self, text: str) -> None:
        self.stack: list[str] = []
        self.templates: list[int] = []  # their places: nothing but its end tag closes a template
        self.settled: dict[str, int] = {}  # name -> the doubt below which no such element is open
        self.in_form = False
        strict = _STRICT_DOCTYPE.match(text) is not None
        self.table_closes_p = None if not strict and _ANY_DOCTYPE.search(text) else strict  # None: hard to tell

    def start(self, name: str) -> None:
        self.stack.append(name)

    def pass_over(self, name: str) -> None:
        pass

    def end(self, name: str) -> None:
        self._close(self._find(frozenset((name,)), _SPECIAL))

    # --- Blocks

    def start_block(self, name: str) -> None:
        self.close_p(name)
        self.stack.append(name)

    def close_p(self, name: str) -> None:
        if self.stack and self.stack[-1] not in _NO_P_BELOW:
            self._close(self._find(_P, _NO_P_BELOW))

    def start_heading(self, name: str) -> None:
        self.close_p(name)
        self._pop(_HEADINGS, once=True)
        self.stack.append(name)

    def start_item(self, name: str) -> None:
        self._close(self._find(_LI if name == "li" else _DD_DT, _ITEM_STOPS))
        self.start_block(name)

    def start_rule(self, name: str) -> None:
        self.close_p(name)
        if self._innermost() in _IMPLIED and self._find(_SELECT, _SCOPE) >= 0:
            self._pop(_IMPLIED)

    def end_block(self, name: str) -> None:
        self._close(self._find(frozenset((name,)), _SCOPE))

    def end_li(self, name: str) -> None:
        self._close(self._find(_LI, _SCOPE | {"ol", "ul"}))

    def end_heading(self, name: str) -> None:
        self._close(self._find(_HEADINGS, _SCOPE))

    def start_ruby(self, name: str) -> None:
        if self._find(_RUBY_ROOT, _SCOPE) >= 0:
            self._pop(_IMPLIED if name in ("rb", "rtc") else _IMPLIED - {"rtc"})
        self.stack.append(name)

    def start_template(self, name: str) -> None:
        self.templates.append(len(self.stack))
        self.stack += (_DOUBT, name)  # within it, rows need no table

    def end_template(self, name: str) -> None:
        if self.templates:
            place = self.templates.pop()
            within = self.stack[place + 2 :]
            del self.stack[place:]
            self.settled.clear()
            if _DOUBT in within or not _MARKERS.isdisjoint(within):
                self.stack += [inner for inner in within if inner in _KEPT]  # only one marker is cleared away
                self._doubt()

    # --- Forms

    def start_form(self, name: str) -> None:
        if self.in_form and not self.templates:
            return
        self.in_form = self.in_form or not self.templates
        place = self._find(_PARTS, _NONE, _EMBEDDED)
        if self._in_doubt():
            self.stack.append(_DOUBT)
        elif place < 0 or self.stack[place] in _CELLS:  # directly in a table it holds nothing
            self.start_block(name)

    def end_form(self, name: str) -> None:
        if self.templates:
            self._doubt()
        elif self.in_form:
            self.in_form = False
            place = self._find(_FORM, _SCOPE)
            if place >= 0:
                self._pop(_IMPLIED)
                del self.stack[place]
            elif (place := self._find(_FORM, _NONE)) >= 0:
                self.stack[place] = _LEFT_FORM

    def start_button(self, name: str) -> None:
        self._close(self._find(_BUTTON, _SCOPE, settles=True))
        self.stack.append(name)

    def close_select(self, name: str) -> None:
        self._close(self._find(_SELECT, _SCOPE, settles=True))

    def start_select(self, name: str) -> None:
        place = self._find(_SELECT, _SCOPE, settles=True)
        if place >= 0:
            self._close(place)
        else:
            self.stack.append(_DOUBT if self._in_doubt() else name)

    def start_option(self, name: str) -> None:
        if self._find(_SELECT, _SCOPE) >= 0:
            self._pop(_IMPLIED if name == "optgroup" else _IMPLIED - {"optgroup"})
        else:
            self._pop(_OPTION, once=True)
        self.stack.append(name)

    # --- Tables

    def start_table(self, name: str) -> None:
        while (place := self._find(_PARTS, _NONE, _EMBEDDED, settles=True)) >= 0 and self.stack[place] not in _CELLS:
            self._close(self._find(_TABLE, _NONE))
        if self.table_closes_p:
            self.close_p(name)
        elif self.table_closes_p is None and self._find(_P, _NO_P_BELOW) >= 0:
            self._doubt()
        self.stack.append(name)

    def start_part(self, name: str) -> None:
        """Close what is open in the table down to where such a part stands, and open what the part implies."""
        stack = self.stack
        rank = _RANKS[name]
        place = self._find(_PARTS, _NONE, _EMBEDDED)
        while place >= 0 and (_RANKS[stack[place]] >= rank or stack[place] in ("caption", "colgroup")):
            self._close(place)
            place = self._find(_PARTS, _NONE, _EMBEDDED)
        if place >= 0:
            self._close(place + 1)
            stack += ("tbody", "tr")[_RANKS[stack[place]] : rank - 1]
            stack.append(name)
        elif self._in_doubt():
            stack.append(_DOUBT)

    def start_column(self, name: str) -> None:
        if not self.stack or self.stack[-1] != "colgroup":
            self.start_part("colgroup")

    def end_part(self, name: str) -> None:
        self._close(self._find(frozenset((name,)), _TABLE, _EMBEDDED))

    # --- Formatting

    def start_formatting(self, name: str) -> None:
        if len(self.stack) > _LOOK_BACK or self.stack.count(name) >= _ALIKE_MAX:
            self._forget(name)
        self.stack.append(name)

    def _forget(self, name: str) -> None:
        """13.2.4.3, the "Noah's Ark clause": of many like it, the outer ones are no longer found by their end tags."""
        stack, alike = self.stack, 0
        for place in range(len(stack) - 1, max(-1, len(stack) - 1 - _LOOK_BACK), -1):
            if stack[place] == name:
                alike += 1
                if alike == _ALIKE_MAX:
                    stack[place] = _STUCK
                    return
            elif stack[place] in _MARKERS or stack[place] == _DOUBT:
                return
        if len(stack) > _LOOK_BACK:
            self._doubt()

    def start_a(self, name: str) -> None:
        place = self._find(_A, _MARKERS, settles=True)
        if place >= 0:
            if _SCOPE.isdisjoint(self.stack[place:]):
                self._adopt(place)
            else:
                del self.stack[place]
        self.stack.append(name)

    def start_nobr(self, name: str) -> None:
        self.end_formatting(name)
        self.stack.append(name)

    def end_formatting(self, name: str) -> None:
        place = self._find(frozenset((name,)), _SCOPE)
        if place >= 0:
            self._adopt(place)

    def _adopt(self, place: int) -> None:
        """13.2.6.4.7, "adoption agency": of what is open within formatting that ends, the blocks stay so."""
        within = self.stack[place + 1 :]
        if not _RUBY.isdisjoint(within) or sum(name in _SPECIAL for name in within) > _ADOPTED_MAX:
            self._doubt()
        else:
            self.stack[place:] = [name for name in within if name in _SPECIAL or name in _KEPT]

    # --- The stack

    def _find(self, wanted: _Names, stops: _Names, doubtful: _Names = frozenset(), settles: bool = False) -> int:
        """Where the innermost of the elements `wanted` is, unless one that `stops` the search is further in; or -1.

        A search that comes upon a doubt leaves another one. A start tag that `settles` a matter, as it closes the only
        element of the kind that can be open, does so once.
        """
        stack = self.stack
        last = len(stack) - 1
        if last >= 0 and (stack[last] in wanted or stack[last] in stops):
            return last if stack[last] in wanted else -1  # most often
        for place in range(last, max(-1, last - _LOOK_BACK), -1):
            name = stack[place]
            if name in wanted:
                return place
            if name in stops:
                return -1
            if name == _DOUBT or name in doubtful:
                if settles and self.settled.get(min(wanted)) == place:
                    return -1
                break
        else:
            if last < _LOOK_BACK:
                return -1
        self._doubt()
        if not _SCOPE.isdisjoint(wanted):
            self.settled.clear()  # what it hid may be found now
        if settles:
            self.settled[min(wanted)] = len(stack) - 1
        return -1

    def _doubt(self) -> None:
        if not self._in_doubt():
            self.stack.append(_DOUBT)

    def _in_doubt(self) -> bool:
        return bool(self.stack) and self.stack[-1] == _DOUBT

    def _close(self, place: int) -> None:
        """Close the element at a place, and all within it but formatting that is opened again."""
        stack = self.stack
        if place == len(stack) - 1 and stack and stack[place] not in _KEPT:
            stack.pop()  # most often
        elif 0 <= place < len(stack):
            opened_again = takewhile(lambda name: name not in _MARKERS, stack[place:])
            stack[place:] = [name for name in opened_again if name in _KEPT]

    def _pop(self, names: _Names, once: bool = False) -> None:
        """Close the innermost element as long as it is one of `names`."""
        stack = self.stack
        while stack and stack[-1] in names:
            stack.pop()
            if once:
                return
        if stack and stack[-1] in _KEPT and self._innermost() in names:
            self._doubt()  # formatting may be waiting to be opened again, and then it is not in the way

    def _innermost(self) -> str:
        """The innermost element but for formatting."""
        within = self.stack[-_LOOK_BACK:]
        while within and within[-1] in _KEPT:
            within.pop()
        if len(self.stack) > _LOOK_BACK and not within:
            self._doubt()
        return within[-1] if within else _DOUBT


_NONE: _Names = frozenset()
_A, _BUTTON, _FORM, _LI, _OPTION, _P, _RUBY_ROOT, _SELECT, _TABLE = (
    frozenset((name,)) for name in ("a", "button", "form", "li", "option", "p", "ruby", "select", "table")
)
_DD_DT = frozenset({"dd", "dt"})
_ITEM_STOPS = _SPECIAL - {"address", "div", "p"}
_NO_P_BELOW = (_SCOPE | _BLOCKS | _HEADINGS | _ITEMS | {"button"}) - {"p"}

_Handler = Callable[[_Page, str], None]
_STARTS: dict[str, _Handler] = {
    **dict.fromkeys(_PASSED_OVER, _Page.pass_over),
    **dict.fromkeys(_BLOCKS, _Page.start_block),
    **dict.fromkeys(_HEADINGS, _Page.start_heading),
    **dict.fromkeys(_ITEMS, _Page.start_item),
    **dict.fromkeys(_RUBY, _Page.start_ruby),
    **dict.fromkeys(_PARTS, _Page.start_part),
    **dict.fromkeys(_FORMATTING, _Page.start_formatting),
    "a": _Page.start_a, "button": _Page.start_button, "col": _Page.start_column, "form": _Page.start_form,
    "hr": _Page.start_rule, "input": _Page.close_select, "nobr": _Page.start_nobr, "optgroup": _Page.start_option,
    "option": _Page.start_option, "select": _Page.start_select, "table": _Page.start_table,
    "template": _Page.start_template, "xmp": _Page.close_p,
}  # fmt: skip
_ENDS: dict[str, _Handler] = {
    **dict.fromkeys(_PASSED_OVER | {"col", "hr", "input"}, _Page.pass_over),
    **dict.fromkeys(_BLOCKS | _ITEMS | _EMBEDDED | {"button", "select"}, _Page.end_block),
    **dict.fromkeys(_HEADINGS, _Page.end_heading),
    **dict.fromkeys(_PARTS, _Page.end_part),
    **dict.fromkeys(_FORMATTING, _Page.end_formatting),
    "colgroup": _Page.pass_over,  # it is not open any more unless it is the innermost
    "form": _Page.end_form, "li": _Page.end_li, "p": _Page.close_p, "template": _Page.end_template,
}  # fmt: skip
