"""What the markup of any page says, read tag by tag without a tree, in time linear in the page. Pure.

For pages that are too large or too strange for the tree builder. On ordinary pages it finds what the tree shows: it
knows comments, raw text, inert templates and foreign content, and leaves aside only how misplaced tags are moved about.
"""

from __future__ import annotations

import re

from amble.core.page.foreign import Foreign
from amble.core.page.markup import ANCHOR_CHARS_MAX, TITLE_CHARS_MAX, Markup, squeeze
from amble.core.page.references import unescape_text
from amble.core.page.tokens import ANY_MARKUP, RAW_TEXT, TAG, attributes_of, end_of_raw_text, skipper

_VOID = ("base", "link", "meta")
_WANTED = ("a", "area", "html", *_VOID)
_STARTS = (*_WANTED, *RAW_TEXT, "plaintext", "template", "svg", "math")
# With neither an <a> nor a <template> open, their ends and an <a> without attributes mean nothing.
_NEXT_IDLE = re.compile(skipper(starts=_STARTS, ends=(), plain=("a",)) + TAG.pattern)
_NEXT_OPEN = re.compile(skipper(starts=_STARTS, ends=("a", "template")) + TAG.pattern)
_ANCHOR_SOURCE_MAX = 16 * 1024  # how much markup is read for the text of one link


def read_tokens(text: str, anchors_max: int) -> Markup:
    """The findings of one pass over the text."""
    return _Reader(text, anchors_max).read()


class _Reader:
    """Walks from one tag of interest to the next."""

    def __init__(self, text: str, anchors_max: int) -> None:
        self.text = text
        self.markup = Markup(anchors_max)
        self.anchor: tuple[dict[str, str], int] | None = None  # the open <a href> and where its content begins
        self.templates = 0  # what a template holds is not on the page
        self.foreign = Foreign()

    def read(self) -> Markup:
        at: int | None = 0
        while at is not None:
            if self.foreign.open:
                next_tag, take = self.foreign.next_tag, self._foreign_tag
            else:
                next_tag = (_NEXT_IDLE if self.anchor is None and not self.templates else _NEXT_OPEN).match
                take = self._tag
            tag = next_tag(self.text, at)
            at = None if tag is None else take(tag)
        self._close_anchor(len(self.text))
        return self.markup

    def _tag(self, tag: re.Match[str]) -> int | None:
        """Take in one tag; gives the place to go on at, or None at the end of the page."""
        name = tag[2].lower()
        if tag[1]:
            self._end_tag(name, tag)
            return tag.end()
        if name in RAW_TEXT:
            return self._raw_text(name, tag.end())
        if name == "plaintext":
            return None
        if name == "template":
            self.templates += 1
        elif name in ("svg", "math"):
            self.foreign.start(name, tag[3])
        elif not self.templates:
            self._element(name, tag)
        return tag.end()

    def _end_tag(self, name: str, tag: re.Match[str]) -> None:
        if name == "a":
            self._close_anchor(_start(tag))
        elif name == "template":
            self.templates = max(0, self.templates - 1)

    def _foreign_tag(self, tag: re.Match[str]) -> int | None:
        """Take in one tag inside <svg> or <math>, where raw text elements are ordinary and all names may matter."""
        name = tag[2].lower()
        if tag[1]:
            self.foreign.end(name)
            self._end_tag(name, tag)
            return tag.end()
        if not self.foreign.start(name, tag[3]):
            return _start(tag)  # it led out of the foreign content: read it again as HTML
        if self.foreign.holds_html and name in RAW_TEXT:
            return end_of_raw_text(self.text, name, tag.end())
        if name in _WANTED and not self.templates:
            self._element(name, tag)
        return tag.end()

    def _element(self, name: str, tag: re.Match[str]) -> None:
        attributes = attributes_of(tag[3])
        if self.foreign.open and "xlink:href" in attributes:
            attributes.setdefault("href", attributes["xlink:href"])
        if name in _VOID:
            self.markup.add_void(name, attributes)
        elif name == "html":
            if self.markup.lang is None:
                self.markup.lang = attributes.get("lang")
        elif name == "area":
            if "href" in attributes:
                self.markup.add_anchor(attributes["href"], attributes.get("rel", ""), "")
        else:
            self._close_anchor(_start(tag))  # an <a> ends the one before it (HTML 13.2.6.4.7)
            if "href" in attributes:
                self.anchor = attributes, tag.end()

    def _raw_text(self, name: str, at: int) -> int | None:
        end = end_of_raw_text(self.text, name, at)
        if name == "title" and self.markup.title is None and not self.templates:
            self.markup.title = squeeze(unescape_text(self.text[at:end]), TITLE_CHARS_MAX)
        return end

    def _close_anchor(self, end: int) -> None:
        if self.anchor is not None:
            attributes, start = self.anchor
            said = "" if self.markup.is_full else self._said(start, end)
            self.markup.add_anchor(attributes["href"], attributes.get("rel", ""), said)
            self.anchor = None

    def _said(self, start: int, end: int) -> str:
        source = self.text[start : min(end, start + _ANCHOR_SOURCE_MAX)]
        if "<" in source:
            source = ANY_MARKUP.sub("", source)
        if end - start > _ANCHOR_SOURCE_MAX and ">" not in source[source.rfind("<") :]:
            source = source[: source.rfind("<")]  # a tag was cut in two
        return squeeze(unescape_text(source), ANCHOR_CHARS_MAX)


def _start(tag: re.Match[str]) -> int:
    return tag.start(1) - 1
