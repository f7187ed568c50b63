"""What robots.txt rules mean, one by one: the slow and plain way that the index is compared with."""

from __future__ import annotations

from collections.abc import Iterable

from amble.core.robots.match import Rule, Rules, path_of
from amble.core.robots.parse import parse


def rules_for(body: bytes, token: str) -> Rules:
    return Rules(parse(body).group_for(token).rules)


def allows(body: bytes, token: str, url: str) -> bool:
    """Whether a crawler may fetch a URL, which is taken as it is spelled."""
    return rules_for(body, token).allows(path_of(url))


def matches(pattern: str, path: str) -> bool:
    """Whether one pattern matches: from the start of the path, `*` for anything, a final `$` for the path's end.

    Each piece between stars is taken at its first occurrence: taking a later one never helps. So there is no
    backtracking, whatever the pattern.
    """
    anchored = pattern.endswith("$")
    head, *pieces = (pattern[:-1] if anchored else pattern).split("*")
    if not path.startswith(head):
        return False
    if not pieces:
        return not anchored or len(path) == len(head)
    tail = pieces.pop() if anchored else ""
    at = len(head)
    for piece in pieces:
        found = path.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return path.endswith(tail) and len(path) - len(tail) >= at


def deciding_rule(rules: Iterable[Rule], path: str) -> Rule | None:
    """The rule that decides about a path: every rule is tried. None if no rule matches."""
    weighed = [(_weight(rule, path), rule) for rule in rules]
    best, rule = max(weighed, key=lambda pair: pair[0], default=(0, None))
    return rule if best else None


def _weight(rule: Rule, path: str) -> int:
    patterns = [rule.pattern]
    directory, slash, name = rule.pattern.rpartition("/")
    if rule.allow and slash and name.startswith("index.htm"):  # allows the URL of the directory, too
        patterns.append(f"{directory}/$")
    return max((2 * len(each) + rule.allow for each in patterns if each and matches(each, path)), default=0)
