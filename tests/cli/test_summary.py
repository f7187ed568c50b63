"""The end of a crawl as it is told: what needs patience, what is left, and when there was nothing new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amble.cli import main
from amble.cli.summary import summary
from amble.jobs import runner
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, Pages, Robots, Site

QUICK = ["--pacing", "fixed", "--fixed-delay", "0", "--max-rate", "unlimited"]


@pytest.mark.parametrize(("most", "told"), [("0.1", True), ("1", False)])
def test_a_crawl_delay_above_max_crawl_delay_is_kept_and_reported(
    most: str, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(name="127.0.0.1", pages=Pages(2), robots=Robots(crawl_delay_s=0.2))
    with Farm([site]) as farm:
        words = [farm.url("127.0.0.1"), "--into", str(tmp_path / "x.duckdb"), "--max-crawl-delay", most, *QUICK]
        assert main(["plan", *words]) == 0
        assert ("asks for 0.2 s between requests, above max_crawl_delay" in capsys.readouterr().out) is told
        assert main(["crawl", *words]) == 0
        assert ("asks for 0.2 s between requests, above max_crawl_delay" in capsys.readouterr().err) is told


def test_a_second_crawl_without_news_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Farm([Site(name="127.0.0.1", pages=Pages(3))]) as farm:
        words = ["crawl", farm.url("127.0.0.1", "/"), "--into", str(tmp_path / "x.duckdb"), *QUICK]
        words += ["--follow-links", "false", "--discover", "false"]
        main(words)
        assert "already" not in capsys.readouterr().err
        main(words)
        said = capsys.readouterr().err
    assert "all of it is in the table already; --update-stale asks the site what has changed" in said
    assert "set by" not in said, "a table of no domains"


def test_what_a_stopped_job_has_not_come_to_is_left_for_later() -> None:
    settings = Settings.of({"pacing": "fixed", "fixed_delay": 0.2, "follow_links": True, "contact": "me@you.example"})
    with Farm([Site(name="a.test", pages=Pages(9))]) as farm, DuckDBStore.open(":memory:") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        running = runner.start(store, farm.roots(), settings, **ways)
        running.stop()
        result = running.wait()
        assert "cancelled" not in summary(running.job, result, "x.duckdb")
        assert "left for later" in summary(running.job, result, "x.duckdb")
