"""The end of a crawl as it is told: what needs patience, what is left, and when there was nothing new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from amble.cli import main
from amble.cli.summary import summary
from amble.control.questions import FAILED, REFUSED
from amble.jobs import runner
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, Pages, Robots, Site
from amble.testing.farm.limits import Limit, bucket, refusing

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


@pytest.mark.parametrize("asks_again", [False, True], ids=["nothing is asked for", "its sitemap is looked for"])
def test_a_second_crawl_without_news_says_so(
    asks_again: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Farm([Site(name="127.0.0.1", pages=Pages(3))]) as farm:
        words = ["crawl", farm.url("127.0.0.1", "/"), "--into", str(tmp_path / "x.duckdb"), *QUICK]
        words += ["--sitemap-cache-hours", "0"] if asks_again else ["--follow-links", "false", "--discover", "false"]
        main(words)
        assert "already" not in capsys.readouterr().err
        main(words)
        said = capsys.readouterr().err
    assert "all of it is in the table already; --update-stale asks the site what has changed" in said
    assert ("set by" in said) is asks_again, "a table of no domains"


def test_what_a_stopped_job_has_not_come_to_is_left_for_later() -> None:
    settings = Settings.of({"pacing": "fixed", "fixed_delay": 0.2, "follow_links": True, "contact": "me@you.example"})
    with Farm([Site(name="a.test", pages=Pages(9))]) as farm, DuckDBStore.open(":memory:") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        running = runner.start(store, farm.roots(), settings, **ways)
        running.stop()
        result = running.wait()
        assert "cancelled" not in summary(running.job, result, "x.duckdb")
        assert "left for later" in summary(running.job, result, "x.duckdb")


@pytest.mark.parametrize(
    ("status", "retry_after_s", "refused", "failed"),
    [
        (200, None, False, False),
        (404, None, False, False),
        (429, None, True, False),
        (503, 2.0, True, False),
        (503, None, False, True),
        (500, 2.0, False, True),
        (None, None, False, True),
    ],
)
def test_what_counts_as_refused_and_what_as_failed(
    status: int | None, retry_after_s: float | None, refused: bool, failed: bool
) -> None:
    receipt = "SELECT $1::INTEGER AS status, $2::DOUBLE AS retry_after_s"
    query = f"SELECT {REFUSED} IS TRUE, {FAILED} IS TRUE FROM ({receipt})"
    assert duckdb.execute(query, [status, retry_after_s]).fetchall() == [(refused, failed)]


@pytest.mark.parametrize(
    ("limit", "told"),
    [(None, "finding the pace: still finding the pace: no refusal yet"),
     (refusing(bucket(3.0, 3.0), "seconds"), "at the limit: it answered no faster without refusing")],
    ids=["never refused", "refused"],
)  # fmt: skip
def test_the_slowest_domain_is_told_with_its_phase_and_a_true_reason(
    limit: Limit | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Farm([Site(name="127.0.0.1", pages=Pages(12), limit=limit)]) as farm:
        url, file = farm.url("127.0.0.1"), str(tmp_path / "x.duckdb")
        assert main(["crawl", url, "--into", file, "--max-rate", "unlimited", "--follow-links", "true"]) == 0
        assert f"; {told}\n" in capsys.readouterr().err
        assert main(["why", url.removeprefix("http://").rstrip("/"), file]) == 0
        assert f"phase: {told.partition(':')[0]}\n" in capsys.readouterr().out
