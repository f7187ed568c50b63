"""What a CSS selector finds on a page, and what is taken of it: text, markup or an attribute. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode, SelectolaxError

from amble.core.page.guard import Scan, is_calm
from amble.core.page.levels import levels
from amble.errors import BadSelector

_ALWAYS_CHARS = 16 * 1024  # nothing that fits in here takes a tenth of a second
_STEPS_MAX = 40_000_000  # tags times levels: a quarter of a second of tree building
_RECREATED_MAX = 20_000_000
_CHARS_MAX = 64 * 1024 * 1024  # of all findings together: those within one another repeat each other's text
_VISITS_MAX = 2_000_000
_SELECTOR_CHARS_MAX = 10_000
_NOT_TEXT = frozenset({"script", "style", "template", "noscript"})
_ATTRIBUTE_NAME = re.compile(r"[^\s\"'<>/=\x00-\x1f]+")


class Accessor(NamedTuple):
    """What is taken of an element: `text`, `html`, `inner_html`, or the attribute of a name."""

    kind: str
    attribute: str = ""

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, text: str) -> Accessor:
        """`text`, `html`, `inner_html`, `@name` or `attr:name`."""
        said = text.strip()
        if said.lower() in ("text", "html", "inner_html"):
            return cls(said.lower())
        prefix = "@" if said.startswith("@") else "attr:" if said.lower().startswith("attr:") else None
        name = said[len(prefix) :] if prefix else ""
        if not _ATTRIBUTE_NAME.fullmatch(name):
            raise BadSelector(
                f"{text!r} says nothing that can be taken of an element",
                hint="write text, html, inner_html, or an attribute as @href or attr:href",
            )
        return cls("attribute", name.lower())


TEXT = Accessor("text")


def tree_of(html: str) -> LexborHTMLParser | None:
    """The tree of a page; None for one that cannot be had in a reasonable time [A15]."""
    if len(html) > _ALWAYS_CHARS and not is_calm(html):
        # A page may be cut off within its last tag, which says nothing then.
        html = html[: html.rfind("<")] if html.rfind(">") < html.rfind("<") else html
        tags = html.count("<")
        if tags * levels(html) > _STEPS_MAX or not Scan(html, _RECREATED_MAX // (tags + 1)).run():
            return None
    return LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)


def select(html: str, selector: str, accessor: Accessor = TEXT) -> list[str] | None:
    """What the selector finds, in the order of the page. None where the page cannot be read, see `tree_of`.

    Elements without the attribute asked for are left out, so that nothing in the list is empty for want of it.
    """
    check_selector(selector)
    tree = tree_of(html)
    if tree is None:
        return None
    found: list[str] = []
    chars, text = 0, TextReader()
    for node in tree.css(selector):
        value = take(node, accessor, text)
        if value is not None:
            found.append(value)
            chars += len(value)
        if chars > _CHARS_MAX or text.visits > _VISITS_MAX:
            return None
    return found


def take(node: LexborNode, accessor: Accessor, text: TextReader) -> str | None:
    if accessor.kind == "text":
        return text.of(node)
    if accessor.kind == "attribute":
        attributes = node.attributes
        return attributes[accessor.attribute] or "" if accessor.attribute in attributes else None
    return (node.html if accessor.kind == "html" else node.inner_html) or ""


class TextReader:
    """The text of elements on one line, without that of scripts within them; counts how many nodes it looked at."""

    def __init__(self) -> None:
        self.visits = 0

    def of(self, node: LexborNode) -> str:
        if node.tag in _NOT_TEXT or not node.css_matches("script, style, noscript"):
            return " ".join(node.text_lexbor().split())
        return " ".join("".join(self._pieces(node)).split())

    def _pieces(self, node: LexborNode) -> Iterator[str]:
        for inner in node.traverse(include_text=True):
            self.visits += 1
            if inner.is_text_node and inner.parent is not None and inner.parent.tag not in _NOT_TEXT:
                yield inner.text_lexbor() or ""


@lru_cache(maxsize=1024)
def check_selector(selector: str) -> None:
    """Raises BadSelector for a selector that cannot be read, whatever the page."""
    try:
        if len(selector) > _SELECTOR_CHARS_MAX:
            raise BadSelector("the selector is too long", hint=f"at most {_SELECTOR_CHARS_MAX} characters")
        LexborHTMLParser("").css(selector)
    except SelectolaxError:
        raise BadSelector(
            f"{selector!r} is no CSS selector",
            hint="such as h1, .price, a[href], ul > li:nth-child(2); attributes are taken with an accessor: '@href'",
        ) from None
