"""Which of many patterns with stars match a path: trees over the pieces between the stars. Pure.

Taking each piece at its first occurrence is never wrong, for taking a later one never helps. So patterns that begin
with the same pieces share one walk along the path. Before a piece is looked for, one pair of its characters, the rarest
of the file, must stand somewhere ahead: a hostile file cannot make each of its rules cost a search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

_FEW = 100  # patterns of a beginning up to which each piece is simply looked for
_MANY = 24  # branches of a node from which on they are found by their pair
_LONG = 8  # pieces of a node from which on it pays to see whether the last one is there at all
_PAIRS_LOOKED_AT = 32  # per node, when its rarest pair is chosen


class Starred(NamedTuple):
    """A pattern behind its literal beginning: pieces in order, then the end of the path if there is a tail."""

    pieces: tuple[str, ...]
    tail: str
    score: int


class _Node:
    """A run of pieces, then what may follow."""

    __slots__ = ("branches", "by_pair", "final", "pair", "pieces", "score", "top")

    def __init__(self, pieces: tuple[str, ...], below: list[Starred]) -> None:
        self.pieces = pieces
        self.score = 0  # of the pattern that ends here, if one does
        self.top = max([pattern.score for pattern in below])  # in the subtree: it cannot do better
        self.branches: Sequence[_Node] = ()
        self.by_pair: dict[str, list[_Node]] | None = None
        # In crowded trees, what must stand ahead in the path (empty: nothing known):
        self.pair = ""  # two neighbours that the pieces contain
        self.final = ""  # a character that all patterns below contain, towards their end


class StarTree:
    """All patterns of one literal beginning: a tree for each tail, the empty one included."""

    __slots__ = ("_roots", "_tail_lengths", "crowded", "top")

    def __init__(self, patterns: Sequence[Starred]) -> None:
        by_tail: dict[str, list[Starred]] = {}
        for pattern in patterns:
            by_tail.setdefault(pattern.tail, []).append(pattern)
        self._roots = {tail: _grown(alike) for tail, alike in by_tail.items()}
        self._tail_lengths = sorted({len(tail) for tail in by_tail})
        self.top = max(root.top for root in self._roots.values())
        self.crowded = max(map(len, by_tail.values())) > _FEW

    def best(self, path: str, start: int, best: int, ahead: dict[str, int]) -> int:
        """The best score of the patterns that match the rest of the path from `start`, if better than `best`.

        `ahead` says what stands where in the path; it is used where the tree is crowded.
        """
        for length in self._tail_lengths:
            end = len(path) - length
            if end < start:
                break
            root = self._roots.get(path[end:])
            if root is not None and root.top > best:
                best = _best_below(root, path, start, end, best, ahead)
        return best


def last_places(path: str) -> dict[str, int]:
    """Where every character and every pair of neighbours stands for the last time; nothing stands at the end."""
    places = {char: at for at, char in enumerate(path)}
    places.update({pair: at for at, pair in enumerate(map(str.__add__, path, path[1:]))})
    places[""] = len(path)
    return places


def _best_below(root: _Node, path: str, at: int, end: int, best: int, ahead: dict[str, int]) -> int:
    best = max(best, root.score)
    walking = [(root, at)]
    while walking:
        node, at = walking.pop()
        if node.top <= best or (node.final and ahead.get(node.final, -1) < at):
            continue
        branches = node.branches
        if node.by_pair is not None:
            branches = [branch for pair in node.by_pair.keys() & ahead.keys() for branch in node.by_pair[pair]]
        for branch in branches:
            if branch.top <= best or (branch.pair and ahead.get(branch.pair, -1) < at):
                continue
            found = _after(branch.pieces, path, at, end)
            if found < 0:
                continue
            if branch.score > best:
                best = branch.score
            if branch.branches and branch.top > best:
                walking.append((branch, found))
    return best


def _after(pieces: tuple[str, ...], path: str, at: int, end: int) -> int:
    """Where the path goes on after these pieces, each at its first occurrence; -1 if one is missing before the end."""
    if len(pieces) > _LONG and path.rfind(pieces[-1], at, end) < 0:
        return -1
    for piece in pieces:
        at = path.find(piece, at, end)
        if at < 0:
            return -1
        at += len(piece)
    return at


# --- Growing a tree ------------------------------------------------------------------------------------------------

_Growth = tuple[_Node, list[Starred], int]


def _grown(patterns: list[Starred]) -> _Node:
    """The tree of patterns that share beginning and tail."""
    patterns.sort()
    root = _Node((), patterns)
    growing: list[_Growth] = [(root, patterns, 0)]
    nodes = [root]
    while growing:  # not by recursion: a hostile file nests as deep as a line is long
        node, below, depth = growing.pop()
        growing += _branch(node, below, depth)
        nodes += node.branches
    if len(patterns) > _FEW:
        _choose_pairs(nodes)
        _choose_finals(nodes)
    return root


def _branch(node: _Node, below: list[Starred], depth: int) -> list[_Growth]:
    """End or divide the patterns (sorted, alike in their first `depth` pieces) below a node."""
    start = 0
    while start < len(below) and len(below[start].pieces) == depth:
        node.score = max(node.score, below[start].score)
        start += 1
    growth = []
    while start < len(below):
        piece = below[start].pieces[depth]
        stop = start + 1
        while stop < len(below) and below[stop].pieces[depth] == piece:
            stop += 1
        alike = below[start:stop]
        shared = _shared(alike[0].pieces, alike[-1].pieces, depth)
        growth.append((_Node(alike[0].pieces[depth:shared], alike), alike, shared))
        start = stop
    node.branches = sorted([child for child, _, _ in growth], key=lambda child: -child.top)
    return growth


def _shared(first: tuple[str, ...], last: tuple[str, ...], depth: int) -> int:
    """How many pieces all patterns from the first to the last have in common; they are sorted."""
    while depth < min(len(first), len(last)) and first[depth] == last[depth]:
        depth += 1
    return depth


def _choose_pairs(nodes: list[_Node]) -> None:
    """Give every node the rarest of its pairs, and file the branches of nodes that have many under theirs."""
    pairs = [_pairs_of(node.pieces) for node in nodes]
    frequency = Counter([pair for found in pairs for pair in found])
    for node, found in zip(nodes, pairs, strict=True):
        node.pair = min(found, key=frequency.__getitem__, default="")
    for node in nodes:
        if len(node.branches) >= _MANY:
            node.by_pair = {}
            for branch in node.branches:
                node.by_pair.setdefault(branch.pair, []).append(branch)


def _choose_finals(nodes: list[_Node]) -> None:
    needed: dict[_Node, str] = {}  # a character that every pattern which comes to a node has in it or behind it
    for node in reversed(nodes):  # branches stand behind their node
        below = {needed[branch] for branch in node.branches}
        node.final = below.pop() if len(below) == 1 else ""
        own = node.pieces[-1][-1] if node.pieces else ""
        needed[node] = own if node.score else node.final or own


def _pairs_of(pieces: tuple[str, ...]) -> set[str]:
    """Pairs of neighbours that the pieces contain, those of the last pieces first; a lone character counts as one."""
    found: set[str] = set()
    for piece in reversed(pieces):
        found.update(map(str.__add__, piece, piece[1:]) if len(piece) > 1 else piece)
        if len(found) >= _PAIRS_LOOKED_AT:
            break
    return found
