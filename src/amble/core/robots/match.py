"""Whether the rules of one crawler allow a path: the longest matching pattern decides, Allow wins ties. Pure.

RFC 9309 2.2.2. A file may hold tens of thousands of rules and is asked for every URL of its site, so they are not tried
one by one. Rules without a star are found by bisection; those with stars hang in a tree (`stars.py`) below the literal
text that they begin with.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from amble.core.robots.stars import Starred, StarTree, last_places


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
