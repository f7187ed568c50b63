"""Whether a page may be given to a tree builder whose worst cases are not linear. Pure.

Building an HTML tree as the standard describes it is quadratic at heart, and Lexbor does as it says. Measured on it:
  - each tag may walk the whole stack of open elements: 8,000 nested tags take 0.1 s, 100,000 take more than 20 s;
  - after each block, open formatting elements (<b>, <a>, ...) are created anew, with all attributes: 2,000 pairs of
    `<p><b id=n>` take 0.2 s, 4,000 pairs more than 6 s, and the nesting is never deeper than the page looks;
  - each attribute is compared with all others of its element: 32,000 on one tag take 2 s.
So three numbers are bounded: tags, the product of tags and formatting, attributes per tag. Any of them can be hidden
from a search for `<` or `>` in comments, scripts and quoted values, so the text is run over with the exact grammar of
tags. What cannot be told for sure is not calm; the linear reader takes it [A15].
"""

from __future__ import annotations

import re

from amble.core.page.tokens import RAW_TEXT, TAG, attribute_count, end_of_drawing, end_of_raw_text, skipper

TAGS_MAX = 6_000
ATTRIBUTES_MAX = 32
RECREATED_MAX = 1_000_000  # elements and attributes that formatting may create again
_ROOT_TAGS_MAX = 16  # the attributes of every further <html> and <body> are merged into the first

# HTML 13.1: what the list of active formatting elements may hold. <a> is not here: the list holds but one of it.
_FORMATTING = ("b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u")
_ROOTS = ("html", "body")
_FOREIGN = ("svg", "math")

_CALM = re.compile(
    skipper(
        starts=(*RAW_TEXT, "plaintext", *_FOREIGN, *_ROOTS, *_FORMATTING),
        ends=(),
        plain=_FORMATTING,
        attributes_max=ATTRIBUTES_MAX,
    )
)
_COPIES = 3  # of like elements the list holds three (13.2.4.3, the "Noah's Ark clause")


def is_calm(text: str) -> bool:
    """Whether the tree of a page can be built in a time near that of any ordinary page."""
    tags = text.count("<")
    return tags <= TAGS_MAX and Scan(text, RECREATED_MAX // (tags + 1)).run()


class Scan:
    """One pass over a page, stopping only where a tag bears on the tree."""

    def __init__(self, text: str, weight_max: int) -> None:
        self.text = text
        self.weight_max = weight_max
        # Elements without attributes are all alike, and one <a> may be open.
        self.weight = _COPIES * len(_FORMATTING) + 1 + ATTRIBUTES_MAX
        self.formatting: set[tuple[str, str]] = set()
        self.roots = 0
        self.maybe_foreign = False

    def run(self) -> bool:
        at, end = 0, len(self.text)
        while (at := _CALM.match(self.text, at).end()) < end:  # type: ignore[union-attr]  # matches everywhere
            tag = TAG.match(self.text, at)
            after = None if tag is None else self._pass(tag)
            if after is None:
                return False
            at = after
        return not (self.maybe_foreign and "<![CDATA[" in self.text)

    def _pass(self, tag: re.Match[str]) -> int | None:
        """Where to go on after a tag that the pattern stops at; None if the page is not calm."""
        name = tag[2].lower()
        if tag[1]:
            return None  # an end tag with too many attributes
        if name in RAW_TEXT or name == "plaintext":
            return self._after_raw_text(name, tag.end())
        if name in _FOREIGN:
            return self._after_foreign(tag)
        attributes = attribute_count(tag[3], ATTRIBUTES_MAX + 1)
        if attributes > ATTRIBUTES_MAX:
            return None
        if name in _ROOTS:
            self.roots += 1
            return tag.end() if self.roots <= _ROOT_TAGS_MAX else None
        if name not in _FORMATTING:
            return None  # an ordinary tag with too many attributes
        if (name, tag[3]) not in self.formatting:
            self.formatting.add((name, tag[3]))
            self.weight += _COPIES * (1 + attributes)
        return tag.end() if self.weight <= self.weight_max else None

    def _after_raw_text(self, name: str, at: int) -> int | None:
        """Past a <script> and its like. Inside an <svg> it would be markup: then only content without any will do."""
        found = None if name == "plaintext" else end_of_raw_text(self.text, name, at)
        end = len(self.text) if found is None else found
        return None if self.maybe_foreign and self.text.find("<", at, end) >= 0 else end

    def _after_foreign(self, tag: re.Match[str]) -> int:
        end = None if self.maybe_foreign else end_of_drawing(self.text, tag.start())
        if end is None:
            self.maybe_foreign = True
        return end or tag.end()
