"""Two commits are compared as they are: each with its own sources, in pairs, and nothing is left lying about."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

import pytest
from bench._against import compare, shortened, summary
from bench._checkout import ROOT, Checkout, checked_out, commit_of
from bench._scenarios import THROUGHPUT

in_a_checkout = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no commits without git")


@in_a_checkout
def test_a_commit_is_unpacked_runs_its_own_sources_and_leaves_nothing_behind() -> None:
    with checked_out("HEAD") as checkout:
        assert (checkout.folder / "src" / "amble" / "__init__.py").exists()
        assert checkout.name == commit_of("HEAD")
        checkout.check()
    assert not checkout.folder.exists()


@in_a_checkout
def test_a_commit_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SystemExit, match="no commit 'nonsense'"):
        commit_of("nonsense")


def test_sources_that_load_others_than_their_own_are_refused(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "bench", tmp_path / "bench")  # and no amble, which this environment has elsewhere
    with pytest.raises(SystemExit, match=r"old would run .*amble/__init__\.py, which is not its own"):
        Checkout("old", tmp_path).check()


def test_sources_that_do_not_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").touch()
    with pytest.raises(SystemExit, match="old does not run"):
        Checkout("old", tmp_path).check()


@pytest.mark.parametrize(("name", "hosts", "pages"), [("one", 1, 500), ("many", 20, 25), ("crowd", 1_000, 3)])
def test_a_share_of_a_web_has_so_much_of_its_work(name: str, hosts: int, pages: int) -> None:
    sites = shortened(THROUGHPUT[name].sites(), 0.1)
    assert (len(sites), {site.pages.count for site in sites}) == (hosts, {pages})


def test_one_pair_that_a_neighbour_disturbed_does_not_move_the_median() -> None:
    assert summary(THROUGHPUT["one"], [0.99, 1.0, 2.4, 0.98, 0.97]).split(" | ")[1:5] == [
        "5", "**0.990**", "0.980 to 1.000", "0.970 to 2.400",
    ]  # fmt: skip
    assert "| 0 | -" in summary(THROUGHPUT["one"], [])


def test_both_crawl_everything_in_turn() -> None:
    here, said = Checkout("here", ROOT), list[str]()
    assert compare(["one"], here, here, pairs=2, share=0.004, minutes=1.0, say=said.append)
    pairs = [line.split(" | ") for line in said[1:-1]]
    assert [pair[1] for pair in pairs] == ["1", "2"]
    ratios = [float(pair[4].strip("| ")) for pair in pairs]
    assert f"**{statistics.median(ratios):.3f}**"[:6] in said[-1]


def test_no_pair_begins_when_the_time_is_up_but_the_first() -> None:
    here, said = Checkout("here", ROOT), list[str]()
    assert compare(["one"], here, here, pairs=9, share=0.004, minutes=0.0, say=said.append)
    assert len(said) == 3
