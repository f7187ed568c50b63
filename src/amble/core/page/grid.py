"""A table or a list of a page as rows of text, with names for its columns. Pure."""

from __future__ import annotations

from typing import NamedTuple

from selectolax.lexbor import LexborNode

from amble.core.page.select import TextReader, check_selector, tree_of

_SPAN_MAX = 1_000  # HTML 4.9.11: a colspan of more is one of 1000
_COLUMNS_MAX = 1_000
_CELLS_MAX = 5_000_000
_LISTS = frozenset({"ul", "ol", "menu"})


class Grid(NamedTuple):
    columns: tuple[str, ...]
    rows: list[tuple[str | None, ...]]


def read_grid(html: str, selector: str = "table") -> Grid | None:
    """The first element that the selector finds: a table, a list, a definition list, or several elements of one kind.

    None where nothing is found, or the page cannot be read.
    """
    check_selector(selector)
    tree = tree_of(html)
    found = tree.css(selector) if tree is not None else []
    if not found:
        return None
    first = found[0]
    if first.tag == "table":
        return _table(first)
    if first.tag == "dl":
        return _definitions(first)
    if first.tag in _LISTS:
        return _items([node for node in _children(first) if node.tag == "li"])
    return _items(found)


def _table(table: LexborNode) -> Grid:
    rows, heads = _rows(table)
    cells = _spread(rows)
    width = min(max((len(row) for row in cells), default=0), _COLUMNS_MAX)
    head: list[str | None] = []
    if heads:
        head = list(cells[heads - 1])
        cells = cells[heads:]
    names = _names([*head, *[None] * (width - len(head))][:width])
    return Grid(names, [tuple([*row, *[None] * (width - len(row))][:width]) for row in cells])


def _rows(table: LexborNode) -> tuple[list[LexborNode], int]:
    """The rows of a table and not of those within it, and how many of the first are its head."""
    rows: list[LexborNode] = []
    heads = 0
    for part in _children(table):
        if part.tag in ("thead", "tbody", "tfoot"):
            inner = [node for node in _children(part) if node.tag == "tr"]
            heads += len(inner) if part.tag == "thead" and len(rows) == heads else 0
            rows += inner
    if not heads and rows and all(cell.tag == "th" for cell in _children(rows[0])):
        heads = 1
    return rows, heads


def _spread(rows: list[LexborNode]) -> list[list[str | None]]:
    """Cells where they are shown: one that spans several rows or columns stands in each of them (HTML 4.9.12)."""
    text = TextReader()
    spread: list[list[str | None]] = []
    below: dict[int, tuple[int, str]] = {}  # column -> rows left, text
    cells = 0
    for row in rows:
        line: list[str | None] = []
        _fill(line, below)
        for cell in _children(row):
            if cell.tag not in ("td", "th") or cells > _CELLS_MAX:
                continue
            said, down = text.of(cell), _span(cell, "rowspan")
            for _ in range(min(_span(cell, "colspan"), _COLUMNS_MAX - len(line))):
                if down > 1:
                    below[len(line)] = (down - 1, said)
                line.append(said)
                cells += 1
            _fill(line, below)
        spread.append(line)
    return spread


def _fill(line: list[str | None], below: dict[int, tuple[int, str]]) -> None:
    """Put in what hangs down from the rows above."""
    while (hanging := below.pop(len(line), None)) is not None:
        left, said = hanging
        if left > 1:
            below[len(line)] = (left - 1, said)
        line.append(said)


def _span(cell: LexborNode, name: str) -> int:
    said = (cell.attributes.get(name) or "").strip()
    return max(1, min(int(said), _SPAN_MAX)) if said.isascii() and said.isdigit() and len(said) < 10 else 1


def _definitions(node: LexborNode) -> Grid:
    text = TextReader()
    rows: list[tuple[str | None, ...]] = []
    term: str | None = None
    for child in node.css("dt, dd"):
        if child.tag == "dt":
            term = text.of(child)
        else:
            rows.append((term, text.of(child)))
    return Grid(("term", "definition"), rows)


def _items(nodes: list[LexborNode]) -> Grid:
    """The text of each, and where its first link leads."""
    text = TextReader()
    rows: list[tuple[str | None, ...]] = []
    for node in nodes:
        link = node if node.tag == "a" else node.css_first("a[href]")
        rows.append((text.of(node), link.attributes.get("href") if link is not None else None))
    return Grid(("text", "href"), rows)


def _children(node: LexborNode) -> list[LexborNode]:
    return [child for child in node.iter(include_text=False) if child.tag is not None]


def _names(head: list[str | None]) -> tuple[str, ...]:
    """A name for each column, each once whatever its case."""
    names: list[str] = []
    taken: set[str] = set()
    for place, said in enumerate(head, 1):
        name = base = (said or f"column{place}")[:200]
        again = 1
        while name.casefold() in taken:
            again += 1
            name = f"{base}_{again}"
        taken.add(name.casefold())
        names.append(name)
    return tuple(names)
