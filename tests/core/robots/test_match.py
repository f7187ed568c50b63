"""Whether the rules of one crawler allow a path."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amble.core.robots.match import Rule, Rules, escape
from tests.core.robots.grammar import paths, patterns
from tests.core.robots.oracle import deciding_rule
from tests.core.robots.timing import cpu_s


def rules(*lines: str) -> list[Rule]:
    """`+/a` allows, `-/a` disallows."""
    return [Rule(line[0] == "+", line[1:]) for line in lines]


@pytest.mark.parametrize(
    ("lines", "path", "allowed"),
    [
        pytest.param([], "/x", True, id="no rule allows"),
        pytest.param(["-"], "/x", True, id="an empty Disallow says nothing"),
        pytest.param(["-/"], "/x", False, id="everything disallowed"),
        pytest.param(["-/", "+/x"], "/x/y", True, id="the longer match decides"),
        pytest.param(["+/x", "-/"], "/x/y", True, id="order does not matter"),
        pytest.param(["-/x", "+/x"], "/x", True, id="Allow wins a tie"),
        pytest.param(["-/x*", "+/x"], "/x", False, id="length is that of the pattern, stars included"),
        pytest.param(["-/x***", "+/xyz"], "/xyz", False, id="even of stars that add nothing"),
        pytest.param(["-/x*$", "+/xyz"], "/xyz", True, id="and of a final dollar"),
        pytest.param(["-/*y", "+/x"], "/xy", False, id="star before the piece"),
        pytest.param(["+/a", "-/*b$"], "/ab", False, id="tail"),
        pytest.param(["+/a", "-/*b$"], "/abc", True, id="tail elsewhere"),
        pytest.param(["-/ab*b$"], "/ab", True, id="tail may not overlap what came before"),
        pytest.param(["+/ab*z", "-/*c"], "/abc", False, id="stars behind a shorter beginning"),
        pytest.param(["-/", "+/a*y", "-/ab*z", "+/abc*x"], "/abcy", True, id="stars behind one of three beginnings"),
        pytest.param(["-/x$"], "/x", False, id="exact"),
        pytest.param(["-/x$"], "/xy", True, id="exact and longer"),
        pytest.param(["-/", "+/a/b", "-/a/b/c"], "/a/b/cd", False, id="chain of beginnings"),
        pytest.param(["-/", "+/a/b", "-/a/b/c"], "/a/b/d", True, id="chain, one link up"),
        pytest.param(["-/", "+/a/b", "-/a/b/c"], "/a/c", False, id="chain, two links up"),
        pytest.param(["-/", "+/dir/index.html"], "/dir/", True, id="index.html allowed: so is its directory"),
        pytest.param(["-/", "+/dir/index.htm"], "/dir/", True, id="index.htm likewise"),
        pytest.param(["-/", "+/dir/index.html"], "/dir/x", False, id="but nothing else in it"),
        pytest.param(["-/dir/", "+/dir/index.html"], "/dir/", True, id="directory counts its dollar"),
        pytest.param(["+/", "-/dir/index.html"], "/dir/", True, id="index.html disallowed: not its directory"),
    ],
)
def test_the_longest_match_decides(lines: list[str], path: str, allowed: bool) -> None:
    assert Rules(rules(*lines)).allows(path) is allowed
    decider = deciding_rule(rules(*lines), path)
    assert (decider is None or decider.allow) is allowed


many_rules = st.lists(st.builds(lambda allow, value: Rule(allow, escape(value)), st.booleans(), patterns), max_size=40)


@settings(deadline=None)
@given(many_rules, st.lists(paths, min_size=1, max_size=8))
def test_the_index_decides_as_trying_every_rule_does(some: list[Rule], tried: list[str]) -> None:
    compiled = Rules(some)
    for path in tried:
        decider = deciding_rule(some, path)
        assert compiled.allows(path) is (decider is None or decider.allow), path


dense = st.text(alphabet="ab*", min_size=1, max_size=9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), dense), min_size=120, max_size=260),
    st.sampled_from(["", "$", "*", "c", "*c", "ca*c"]),
    st.lists(st.tuples(st.text(alphabet="ab", max_size=12), st.sampled_from(["", "c", "ca", "cac"])), min_size=8),
)
def test_crowded_trees_decide_as_trying_every_rule_does(
    some: list[tuple[bool, str]], end: str, tried: list[tuple[str, str]]
) -> None:
    """All with one end, as in files made to be slow; the paths have it, or nearly."""
    crowd = [Rule(allow, f"/*{pattern}{end}") for allow, pattern in some]
    crowd += [Rule(not allow, f"/*{pattern}c") for allow, pattern in some[:20]]
    compiled = Rules(crowd)
    for start, finish in tried:
        path = f"/{start}{finish}"
        decider = deciding_rule(crowd, path)
        assert compiled.allows(path) is (decider is None or decider.allow), path


# --- B2: hostile files ---------------------------------------------------------------------------------------------


def disallowing(some: Iterable[str]) -> Rules:
    return Rules([Rule(False, pattern) for pattern in some])


HOSTILE: dict[str, tuple[Callable[[int], str], str]] = {
    "no star": (lambda i: f"/p{i}/q/r", "/p7/q/s"),
    "own beginnings": (lambda i: f"/p{i}/*a*a*a*b", "/p7/" + "a" * 500),
    "own ends": (lambda i: f"/{'*a' * 9}*{i}", "/" + "a" * 500),
    "own first pieces": (lambda i: f"/*x{i}*a*a*a*a*b", "/x1x2x3" + "a" * 500),
    "own tails": (lambda i: f"/*a*{i}$", "/a/9x9x"),
    "one tail": (lambda i: f"/*a{i}*.php$", "/1/2/" + "a" * 500 + ".php"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_more_rules_hardly_cost_more(name: str) -> None:
    """B2: a check of 16 times as many rules takes far less than 16 times as long."""
    pattern, path = HOSTILE[name]
    small, large = (disallowing(pattern(i) for i in range(count)) for count in (1_000, 16_000))
    assert not any(rules.best(path) for rules in (small, large)), "the hard case is the one that matches nothing"
    assert cpu_s(lambda: large.allows(path)) < 6 * cpu_s(lambda: small.allows(path))


def test_many_stars_in_one_pattern_do_not_backtrack() -> None:
    """B2: four times the stars and the path, and nowhere near the work of trying every split."""

    def check(size: int) -> float:
        hostile = disallowing(["/" + "*a" * size + "*b*c"])
        path = "/" + "a" * size * 2 + "cb"
        assert hostile.allows(path)
        return cpu_s(lambda: hostile.allows(path))

    assert check(2_000) < 12 * check(500)
