"""How paths and patterns are spelled, and whether rules allow a path: the longest match decides, Allow wins ties. Pure.

RFC 9309 2.2.2. A file may hold tens of thousands of rules and is asked for every URL of its site, so they are not tried
one by one. Rules without a star are found by bisection; those with stars hang in a tree below the literal text that
they begin with.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Rule(NamedTuple):
    """One Allow or Disallow line, its pattern escaped."""

    allow: bool
    pattern: str


def score(pattern: str, favoured: bool) -> int:
    """The rank of a pattern among those that match: its length, and the favoured kind before the other."""
    return 2 * len(pattern) + favoured


class Rules:
    """The rules of one crawler, compiled. `best` is the highest score among the patterns that match a path.

    Among the plain beginnings that a path has, the longest is found by bisection, and each carries the best score of
    all shorter ones that it extends: one step up the chain of prefixes is enough.
    """

    __slots__ = ("_exact", "_heads", "_scores", "_shorter", "_starred", "_trees")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._exact: dict[str, int] = {}
        plain: dict[str, int] = {}
        starred: dict[str, list[Starred]] = {}
        for pattern, points in _scored(rules):
            anchored = pattern.endswith("$")
            head, *pieces = (pattern[:-1] if anchored else pattern).split("*")
            tail = pieces.pop() if anchored and pieces else ""
            middle = tuple(filter(None, pieces))
            if middle or tail:
                starred.setdefault(head, []).append(Starred(middle, tail, points))
            else:
                where = self._exact if pattern == head + "$" else plain
                where[head] = max(points, where.get(head, 0))
        self._index(plain, starred)

    def _index(self, plain: dict[str, int], starred: dict[str, list[Starred]]) -> None:
        """Parallel lists over all beginnings, sorted; `shorter` and `starred` point to the next one up the chain."""
        self._heads = sorted(plain.keys() | starred.keys())
        self._scores: list[int] = []
        self._shorter: list[int] = []
        self._starred: list[int] = []
        self._trees: dict[int, StarTree] = {}
        chain: list[int] = []
        for index, head in enumerate(self._heads):
            while chain and not head.startswith(self._heads[chain[-1]]):
                chain.pop()
            shorter = chain[-1] if chain else -1
            self._shorter.append(shorter)
            self._scores.append(max(plain.get(head, 0), self._scores[shorter] if chain else 0))
            self._starred.append(self._starred[shorter] if chain else -1)
            if head in starred:
                self._trees[index] = StarTree(starred[head])
                self._starred[index] = index
            chain.append(index)

    def best(self, path: str) -> int:
        """The score of the deciding pattern, 0 if none matches. Odd scores are those of the favoured kind."""
        best = self._exact.get(path, 0) if self._exact else 0
        index = bisect_right(self._heads, path) - 1
        while index >= 0 and not path.startswith(self._heads[index]):
            index = self._shorter[index]
        if index < 0:
            return best
        best = max(best, self._scores[index])
        index = self._starred[index]
        return best if index < 0 else self._best_starred(path, index, best)

    def _best_starred(self, path: str, index: int, best: int) -> int:
        ahead: dict[str, int] = {}
        while index >= 0:
            tree = self._trees[index]
            if tree.top > best:
                if tree.crowded and not ahead:
                    ahead = last_places(path)
                best = tree.best(path, len(self._heads[index]), best, ahead)
            shorter = self._shorter[index]
            index = self._starred[shorter] if shorter >= 0 else -1
        return best

    def allows(self, path: str) -> bool:
        """Whether a path, which starts with `/` and is percent-encoded, may be fetched."""
        best = self.best(path)
        return best == 0 or best % 2 == 1

    def __bool__(self) -> bool:
        return bool(self._heads or self._exact)

    def __repr__(self) -> str:
        return f"<Rules {len(self._heads) + len(self._exact)} beginnings, {len(self._trees)} with stars>"


def _scored(rules: Iterable[Rule]) -> Iterable[tuple[str, int]]:
    for rule in rules:
        if not rule.pattern:
            continue  # an empty value matches everything with no weight at all: it decides nothing
        yield rule.pattern, score(rule.pattern, rule.allow)
        if rule.allow:
            # Google: allowing a directory's index page allows the directory's own URL.
            directory, slash, name = rule.pattern.rpartition("/")
            if slash and name.startswith("index.htm"):
                pattern = f"{directory}/$"
                yield pattern, score(pattern, True)


# --- Spelling: RFC 9309 2.2.2, 2.2.3 ---------------------------------------------------------------------------------

# Authority, if any, then what a rule is compared with: path, parameters and query, up to the fragment.
_URL = re.compile(r"(?://)?(?:[^/?;#]*?://)?[^/?;#]*(?P<path>[/?;][^#\0]*)?")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
# Of a letter, a digit, or one of -._~
_UNRESERVED = re.compile(r"%(?:2[DEde]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])")
_NOT_ASCII = {octet: f"%{octet:02X}" for octet in range(0x80, 0x100)}


def path_of(url: str) -> str:
    """The part of a URL that rules speak about; `/` where it has none. Text is taken as it stands, not normalised."""
    match = _URL.match(url)
    path = match["path"] if match else None
    if not path:
        return "/"
    return path if path[0] == "/" else f"/{path}"


def path_in(url: str) -> str:
    """The same of a URL that has passed the gate: its first slash behind the scheme's two is where the path begins."""
    return url[url.find("/", 8) :]


def escape(value: bytes) -> str:
    """A pattern in its one spelling: octets beyond ASCII percent-encoded, the digits of escapes in upper case."""
    text = value.decode("latin-1")
    if "%" not in text and text.isascii():
        return text
    return _upper_escapes(text.translate(_NOT_ASCII))


def escape_path(path: str) -> str:
    """A path in the spelling of patterns, so that `%e3` in a URL and `%E3` in a rule are the same octet."""
    if path.isascii():
        return _upper_escapes(path) if "%" in path else path
    path = path.encode("utf-8", "replace").decode("latin-1").translate(_NOT_ASCII)
    return _upper_escapes(path)


def decode_unreserved(text: str) -> str:
    """`%62` is `b`: escapes of characters that need none say nothing (RFC 9309 2.2.2, RFC 3986 6.2.2.2)."""
    return _UNRESERVED.sub(lambda escape: chr(int(escape[0][1:], 16)), text) if "%" in text else text


def _upper_escapes(text: str) -> str:
    return _ESCAPE.sub(lambda escape: escape[0].upper(), text)


# --- Patterns with stars ---------------------------------------------------------------------------------------------

# Trees over the pieces between the stars. Taking each piece at its first occurrence is never wrong, for taking a later
# one never helps; so patterns that begin with the same pieces share one walk along the path. Before a piece is looked
# for, one pair of its characters, the rarest of the file, must stand somewhere ahead: a hostile file cannot make each
# of its rules cost a search.
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
