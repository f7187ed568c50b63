"""What the markup of a calm page says, read from the tree that Lexbor builds. Pure."""

from __future__ import annotations

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from amble.core.page.guard import TAGS_MAX
from amble.core.page.markup import ANCHOR_CHARS_MAX, TITLE_CHARS_MAX, Markup, other_href, squeeze

# Anchors may lie within anchors (an <object> or a table in between allows it), and reading the text of each would visit
# the innermost nodes again and again. After so many visits only anchors that hold no other are read.
_VISITS_MAX = 1_500_000
_REPEATS_MAX = 4  # times the page, in text read
_LEVELS_MAX = 12
# With events, copying options into <selectedcontent> would be quadratic, and says nothing about links.
_WITHOUT_EVENTS = int(LexborDocumentOptions.WO_EVENTS)
_FEW = _VISITS_MAX // (TAGS_MAX + 1)  # anchors that may all be read to the innermost node


def read_tree(text: str, anchors_max: int) -> Markup:
    """The findings of one parse. Give it only text that `is_calm` has passed: it can be quadratic."""
    tree = LexborHTMLParser(text, options=_WITHOUT_EVENTS)
    markup = Markup(anchors_max)
    for name in ("base", "link", "meta"):
        for node in tree.tags(name):
            markup.add_void(name, {key: value or "" for key, value in node.attributes.items()})
    title = next((node for node in tree.tags("title") if not _is_foreign(node)), None)
    if title is not None:
        markup.title = squeeze(title.text_lexbor(), TITLE_CHARS_MAX)
    if tree.root is not None and "lang" in (attributes := tree.root.attributes):
        markup.lang = attributes["lang"] or ""
    # Elements are found by name in a fraction of the time of a CSS query, which only the order of two names needs.
    _read_anchors(tree.css("a[href],area[href]") if tree.tags("area") else tree.tags("a"), text, markup)
    return markup


def _read_anchors(nodes: list[LexborNode], text: str, markup: Markup) -> None:
    """Keep the anchors that lead somewhere, with what each says as long as reading it stays cheap."""
    if len(nodes) > _FEW or len(nodes) > markup.anchors_max:
        _read_many_anchors(nodes, text, markup)
        return
    kept = markup.anchors  # nearly all pages: nothing to be careful about, and no call more than needed
    chars_left = _REPEATS_MAX * len(text)
    for node in nodes:
        attributes = node.attributes
        href = attributes.get("href") or other_href(attributes)
        if href is None:
            continue
        said = node.text_lexbor() if chars_left > 0 else ""
        chars = len(said)
        chars_left -= chars
        said = " ".join(said.split()) if chars <= ANCHOR_CHARS_MAX else squeeze(said, ANCHOR_CHARS_MAX)
        kept.append((href, attributes.get("rel") or "", said))
    markup.anchors_seen = len(kept)


def _read_many_anchors(nodes: list[LexborNode], text: str, markup: Markup) -> None:
    """The same for a page with very many."""
    deep_reads = _VISITS_MAX // (text.count("<") + 1)
    chars_left = _REPEATS_MAX * len(text)
    for at, node in enumerate(nodes):
        attributes = node.attributes
        href = attributes.get("href") or other_href(attributes)
        if href is None:
            continue
        said = ""
        if chars_left > 0 and not markup.is_full and (deep_reads > 0 or not _holds(node, nodes[at + 1 : at + 2])):
            said = node.text_lexbor()
            deep_reads -= 1
            chars_left -= len(said)
            said = squeeze(said, ANCHOR_CHARS_MAX)
        markup.add_anchor(href, attributes.get("rel") or "", said)


def _holds(node: LexborNode, next_one: list[LexborNode]) -> bool:
    """Whether the next anchor lies not far within this one."""
    following = next_one[0] if next_one else None
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
