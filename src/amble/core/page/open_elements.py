"""The elements of a page that are open at one moment, kept as the standard's tree builder keeps them. Pure.

For counting levels: where the standard's way would take long, or hangs on more than the stack (HTML 13.2.6), a doubt is
put on top of it. What lies below a doubt is never closed again, so that no element is thought closed that is open.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile

from amble.core.page.tokens import RAW_TEXT

_ANY_DOCTYPE = re.compile(r"<!doctype", re.IGNORECASE)
# 13.2.6.4.1: those in use that are sure not to ask for quirks.
_STRICT_DOCTYPE = re.compile(
    r"\s*+<!doctype\s++html(?>\s++public\s++\"-//W3C//DTD X?HTML (?:4\.01|1\.[01])[^\">]*+\"\s++"
    r"\"http://www\.w3\.org/[^\">]*+\")?+\s*+>",
    re.IGNORECASE | re.ASCII,
)

_Names = frozenset[str]
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
_LOOK_BACK = 64  # open elements a tag is compared with


class OpenElements:
    """The elements that are open, innermost last. Formatting is among them from its start tag to its end tag.

    Where a block closes around formatting, the tree builder closes that too, and opens it again behind the block.
    """

    def __init__(self, text: str) -> None:
        self.stack: list[str] = []
        self._templates: list[int] = []  # their places: nothing but its end tag closes a template
        self._settled: dict[str, int] = {}  # name -> the doubt below which no such element is open
        self._in_form = False
        strict = _STRICT_DOCTYPE.match(text) is not None
        self._table_closes_p = None if not strict and _ANY_DOCTYPE.search(text) else strict  # None: hard to tell

    def start_tag(self, name: str) -> None:
        _STARTS.get(name, OpenElements._start)(self, name)

    def end_tag(self, name: str) -> None:
        if self.stack and self.stack[-1] == name and name not in ("form", "template"):
            self.stack.pop()
        else:
            _ENDS.get(name, OpenElements._end)(self, name)

    def _start(self, name: str) -> None:
        self.stack.append(name)

    def _pass_over(self, name: str) -> None:
        pass

    def _end(self, name: str) -> None:
        self._close(self._find(frozenset((name,)), _SPECIAL))

    # --- Blocks

    def _start_block(self, name: str) -> None:
        self._close_p(name)
        self.stack.append(name)

    def _close_p(self, name: str) -> None:
        if self.stack and self.stack[-1] not in _NO_P_BELOW:
            self._close(self._find(_P, _NO_P_BELOW))

    def _start_heading(self, name: str) -> None:
        self._close_p(name)
        self._pop(_HEADINGS, once=True)
        self.stack.append(name)

    def _start_item(self, name: str) -> None:
        self._close(self._find(_LI if name == "li" else _DD_DT, _ITEM_STOPS))
        self._start_block(name)

    def _start_rule(self, name: str) -> None:
        self._close_p(name)
        if self._innermost() in _IMPLIED and self._find(_SELECT, _SCOPE) >= 0:
            self._pop(_IMPLIED)

    def _end_block(self, name: str) -> None:
        self._close(self._find(frozenset((name,)), _SCOPE))

    def _end_li(self, name: str) -> None:
        self._close(self._find(_LI, _SCOPE | {"ol", "ul"}))

    def _end_heading(self, name: str) -> None:
        self._close(self._find(_HEADINGS, _SCOPE))

    def _start_ruby(self, name: str) -> None:
        if self._find(_RUBY_ROOT, _SCOPE) >= 0:
            self._pop(_IMPLIED if name in ("rb", "rtc") else _IMPLIED - {"rtc"})
        self.stack.append(name)

    def _start_template(self, name: str) -> None:
        self._templates.append(len(self.stack))
        self.stack += (_DOUBT, name)  # within it, rows need no table

    def _end_template(self, name: str) -> None:
        if self._templates:
            place = self._templates.pop()
            within = self.stack[place + 2 :]
            del self.stack[place:]
            self._settled.clear()
            if _DOUBT in within or not _MARKERS.isdisjoint(within):
                self.stack += [inner for inner in within if inner in _KEPT]  # only one marker is cleared away
                self._doubt()

    # --- Forms

    def _start_form(self, name: str) -> None:
        if self._in_form and not self._templates:
            return
        self._in_form = self._in_form or not self._templates
        place = self._find(_PARTS, _NONE, _EMBEDDED)
        if self._in_doubt():
            self.stack.append(_DOUBT)
        elif place < 0 or self.stack[place] in _CELLS:  # directly in a table it holds nothing
            self._start_block(name)

    def _end_form(self, name: str) -> None:
        if self._templates:
            self._doubt()
        elif self._in_form:
            self._in_form = False
            place = self._find(_FORM, _SCOPE)
            if place >= 0:
                self._pop(_IMPLIED)
                del self.stack[place]
            elif (place := self._find(_FORM, _NONE)) >= 0:
                self.stack[place] = _LEFT_FORM

    def _start_button(self, name: str) -> None:
        self._close(self._find(_BUTTON, _SCOPE, settles=True))
        self.stack.append(name)

    def _close_select(self, name: str) -> None:
        self._close(self._find(_SELECT, _SCOPE, settles=True))

    def _start_select(self, name: str) -> None:
        place = self._find(_SELECT, _SCOPE, settles=True)
        if place >= 0:
            self._close(place)
        else:
            self.stack.append(_DOUBT if self._in_doubt() else name)

    def _start_option(self, name: str) -> None:
        if self._find(_SELECT, _SCOPE) >= 0:
            self._pop(_IMPLIED if name == "optgroup" else _IMPLIED - {"optgroup"})
        else:
            self._pop(_OPTION, once=True)
        self.stack.append(name)

    # --- Tables

    def _start_table(self, name: str) -> None:
        while (place := self._find(_PARTS, _NONE, _EMBEDDED, settles=True)) >= 0 and self.stack[place] not in _CELLS:
            self._close(self._find(_TABLE, _NONE))
        if self._table_closes_p:
            self._close_p(name)
        elif self._table_closes_p is None and self._find(_P, _NO_P_BELOW) >= 0:
            self._doubt()
        self.stack.append(name)

    def _start_part(self, name: str) -> None:
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

    def _start_column(self, name: str) -> None:
        if not self.stack or self.stack[-1] != "colgroup":
            self._start_part("colgroup")

    def _end_part(self, name: str) -> None:
        self._close(self._find(frozenset((name,)), _TABLE, _EMBEDDED))

    # --- Formatting

    def _start_formatting(self, name: str) -> None:
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

    def _start_a(self, name: str) -> None:
        place = self._find(_A, _MARKERS, settles=True)
        if place >= 0:
            if _SCOPE.isdisjoint(self.stack[place:]):
                self._adopt(place)
            else:
                del self.stack[place]
        self.stack.append(name)

    def _start_nobr(self, name: str) -> None:
        self._end_formatting(name)
        self.stack.append(name)

    def _end_formatting(self, name: str) -> None:
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
                if settles and self._settled.get(min(wanted)) == place:
                    return -1
                break
        else:
            if last < _LOOK_BACK:
                return -1
        self._doubt()
        if not _SCOPE.isdisjoint(wanted):
            self._settled.clear()  # what it hid may be found now
        if settles:
            self._settled[min(wanted)] = len(stack) - 1
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
        if stack and stack[-1] in names and self._may_open_again():
            self._doubt()  # text in it has opened formatting again, which is then the innermost
            return
        while stack and stack[-1] in names:
            stack.pop()
            if once:
                return
        if stack and stack[-1] in _KEPT and self._innermost() in names:
            self._doubt()  # formatting may be waiting to be opened again, and then it is not in the way

    def _may_open_again(self) -> bool:
        """Whether formatting around the innermost element may have been closed with a block, and waits for text."""
        within = self.stack[-_LOOK_BACK:]
        return "select" not in within and (len(self.stack) > _LOOK_BACK or not _KEPT.isdisjoint(within))

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

_Handler = Callable[[OpenElements, str], None]
_STARTS: dict[str, _Handler] = {
    **dict.fromkeys(_PASSED_OVER, OpenElements._pass_over),
    **dict.fromkeys(_BLOCKS, OpenElements._start_block),
    **dict.fromkeys(_HEADINGS, OpenElements._start_heading),
    **dict.fromkeys(_ITEMS, OpenElements._start_item),
    **dict.fromkeys(_RUBY, OpenElements._start_ruby),
    **dict.fromkeys(_PARTS, OpenElements._start_part),
    **dict.fromkeys(_FORMATTING, OpenElements._start_formatting),
    "a": OpenElements._start_a,
    "button": OpenElements._start_button,
    "col": OpenElements._start_column,
    "form": OpenElements._start_form,
    "hr": OpenElements._start_rule,
    "input": OpenElements._close_select,
    "nobr": OpenElements._start_nobr,
    "optgroup": OpenElements._start_option,
    "option": OpenElements._start_option,
    "select": OpenElements._start_select,
    "table": OpenElements._start_table,
    "template": OpenElements._start_template,
    "xmp": OpenElements._close_p,
}
_ENDS: dict[str, _Handler] = {
    **dict.fromkeys(_PASSED_OVER | {"col", "hr", "input"}, OpenElements._pass_over),
    **dict.fromkeys(_BLOCKS | _ITEMS | _EMBEDDED | {"button", "select"}, OpenElements._end_block),
    **dict.fromkeys(_HEADINGS, OpenElements._end_heading),
    **dict.fromkeys(_PARTS, OpenElements._end_part),
    **dict.fromkeys(_FORMATTING, OpenElements._end_formatting),
    "colgroup": OpenElements._pass_over,  # it is not open any more unless it is the innermost
    "form": OpenElements._end_form,
    "li": OpenElements._end_li,
    "p": OpenElements._close_p,
    "template": OpenElements._end_template,
}
