"""How deep the elements of a page nest at most, counted tag by tag, in time linear in the page. Pure.

A tree builder walks the stack of open elements, so that its time is the product of tags and levels. Counting levels
lets long but shallow pages (a table of 20,000 cells) be told from towers. The count errs to the high side only.
"""

from __future__ import annotations

import re

from amble.core.page.open_elements import OpenElements
from amble.core.page.tokens import RAW_TEXT, TAG, between_tags, end_of_drawing, end_of_raw_text

_NEXT = re.compile(between_tags(cdata=False) + TAG.pattern)
_NEVER_NEST = frozenset({"br", "embed", "hr", "img", "meta"})  # 13.2.6.5: not even in a drawing, which they end
_DRAWING_LEVELS = 36  # of ordinary drawings, which are not looked into, and of <html> and <body>


def levels(text: str) -> int:
    """An upper bound of the depth of the tree."""
    elements = OpenElements(text)
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
        if name == "frameset":
            return text.count("<") + _DRAWING_LEVELS  # other rules altogether
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
