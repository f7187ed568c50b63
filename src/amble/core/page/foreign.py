"""Where foreign content (<svg>, <math>) begins and ends, as far as links and raw text depend on it. Pure."""

from __future__ import annotations

import re

from amble.core.page.tokens import TAG, between_tags

# HTML 13.2.6.5: start tags that cannot be inside and so lead back to HTML.
_LEADS_OUT = frozenset(
    {"b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed", "h1", "h2", "h3",
     "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol", "p", "pre", "ruby", "s",
     "small", "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var"}
)  # fmt: skip
_FONT_LEADS_OUT = re.compile(r"(?i:color|face|size)")
# 13.2.6: elements of foreign content that hold HTML.
_HOLDS_HTML = frozenset({"foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext"})
_DEPTH_MAX = 256  # deeper elements are not kept apart, so that looking through the open ones stays cheap

_NEXT = re.compile(between_tags(cdata=True) + TAG.pattern)
_WORD_END = re.compile(r"[\t\n\f\r \"']")


class Foreign:
    """The open foreign elements, and whether the innermost holds HTML."""

    __slots__ = ("holds_html", "open")

    next_tag = staticmethod(_NEXT.match)

    def __init__(self) -> None:
        self.open: list[str] = []
        self.holds_html = False

    def start(self, name: str, raw_attributes: str) -> bool:
        """Take in a start tag; False if it closes the foreign content instead."""
        if self.holds_html and name not in ("svg", "math"):
            return True
        if self.open and (name in _LEADS_OUT or (name == "font" and _FONT_LEADS_OUT.search(raw_attributes))):
            while self.open and self.open[-1] not in _HOLDS_HTML:
                self.open.pop()
            self.holds_html = bool(self.open)
            return self.holds_html
        if len(self.open) < _DEPTH_MAX and not _closes_itself(raw_attributes):
            self.open.append(name)
            self.holds_html = name in _HOLDS_HTML
        return True

    def end(self, name: str) -> None:
        """Take in an end tag."""
        if name in self.open:
            while self.open.pop() != name:
                pass
            self.holds_html = bool(self.open) and self.open[-1] in _HOLDS_HTML


def _closes_itself(raw_attributes: str) -> bool:
    """Whether the slash before `>` is one, and not the end of an unquoted value."""
    if not raw_attributes.endswith("/"):
        return False
    return "=" not in _WORD_END.split(raw_attributes[-512:])[-1]
