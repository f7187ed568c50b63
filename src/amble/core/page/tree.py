"""What the markup of a calm page says, read from the tree that Lexbor builds. Pure."""

from __future__ import annotations

from itertools import pairwise

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from amble.core.page.markup import ANCHOR_CHARS_MAX, TITLE_CHARS_MAX, Markup, squeeze

_WANTED = "a[href],area[href],base[href],link[href],meta[content],title"
_ANCHORS = ("a", "area")

# Anchors may lie within anchors (an <object> or a table in between allows it), and reading the text of each would visit
# the innermost nodes again and again. After so many visits only anchors that hold no other are read.
_VISITS_MAX = 1_500_000
_REPEATS_MAX = 4  # times the page, in text read
_LEVELS_MAX = 12


def read_tree(text: str, anchors_max: int) -> Markup:
    """The findings of one parse and one query. Give it only text that `is_calm` has passed: it can be quadratic."""
    # Without events: copying options into <selectedcontent> would be quadratic, and says nothing about links.
    tree = LexborHTMLParser(text, options=LexborDocumentOptions.WO_EVENTS)
    markup = Markup(anchors_max)
    deep_reads = _VISITS_MAX // (text.count("<") + 1)
    chars_left = _REPEATS_MAX * len(text)
    for node, following in pairwise([*tree.css(_WANTED), None]):
        assert node is not None
        name = node.tag
        if name == "title":
            if markup.title is None and not _is_foreign(node):
                markup.title = squeeze(node.text_lexbor(), TITLE_CHARS_MAX)
            continue
        attributes = node.attributes
        if name not in _ANCHORS:
            markup.add_void(name or "", {key: value or "" for key, value in attributes.items()})
            continue
        said = ""
        if chars_left > 0 and not markup.is_full and (deep_reads > 0 or not _holds(node, following)):
            said = node.text_lexbor()
            deep_reads -= 1
            chars_left -= len(said)
        href = attributes.get("href") or attributes.get("xlink:href") or ""  # the latter on links within drawings
        markup.add_anchor(href, attributes.get("rel") or "", squeeze(said, ANCHOR_CHARS_MAX))
    if tree.root is not None:
        markup.lang = tree.root.attributes.get("lang")
    return markup


def _holds(node: LexborNode, following: LexborNode | None) -> bool:
    """Whether the next finding lies not far within this one."""
    for _ in range(_LEVELS_MAX):
        following = following.parent if following is not None else None
        if following is None or following.mem_id == node.mem_id:
            break
    return following is not None and following.mem_id == node.mem_id


def _is_foreign(node: LexborNode) -> bool:
    """Whether a title names a drawing, not the page."""
    ancestor = node.parent
    while ancestor is not None:
        if ancestor.tag == "svg":
            return True
        ancestor = ancestor.parent
    return False
