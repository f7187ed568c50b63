"""What a crawl would do, and why a domain took its time, by the words a person types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amble.cli import main
from amble.core.urls import domain_of
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, Pages, Site
from amble.testing.farm.robots import Robots
from amble.testing.farm.sitemap import Sitemap

NAME = "127.0.0.1"
QUICK = ["--pacing", "fixed", "--fixed-delay", "0"]


def test_a_plan_asks_for_no_page_and_why_tells_the_pace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    site = Site(name=NAME, pages=Pages(4, 500), sitemap=Sitemap(), robots=Robots(crawl_delay_s=0.2))
    with Farm([site]) as farm:
        url = farm.url(NAME)
        assert main(["plan", url, "--json", *QUICK]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [(domain["to_fetch"], domain["why"]) for domain in found["domains"]] == [(4, "robots")]
        assert {entry.target for entry in farm.log()} <= {"/robots.txt", "/sitemap.xml"}
        assert list(tmp_path.iterdir()) == [], "a plan leaves no file"

        with DuckDBStore.open("busy.duckdb"):  # as a crawl would hold it
            assert main(["plan", url, "--into", "busy.duckdb", "--json", *QUICK]) == 0
        said = capsys.readouterr()
        assert "without what it knows" in said.err
        assert json.loads(said.out)["requests"] == found["requests"]

        assert main(["crawl", url, *QUICK]) == 0
        capsys.readouterr()
        domain = domain_of(url)
        assert main(["why", domain, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["requests"] == 6
        assert main(["why", url]) == 0
        assert "crawl delay" in capsys.readouterr().out
        assert main(["why", "other.test", f"{domain.replace(':', '_')}.duckdb"]) == 1
        assert domain in capsys.readouterr().err

        file = f"{domain.replace(':', '_')}.duckdb"
        assert main(["export", file, "pages.csv", "--query", "SELECT url FROM pages ORDER BY url", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"rows": 4, "format": "csv", "path": "pages.csv"}
        assert Path("pages.csv").read_text().splitlines()[1] == url
        assert main(["export", file, "pages.csv"]) == 1, "nothing is written over"
        assert main(["export", file, "pages.csv", "--force", "--where", "http_status = 404"]) == 0
        assert main(["audit", file, "--domain", domain, "--html", "audit.html"]) == 0
        assert domain in Path("audit.html").read_text()
        assert main(["audit", file, "--html", "audit.html"]) == 1
        capsys.readouterr()
        assert main(["rehearse", domain, file, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["pages"] >= 4
        assert main(["export", "none.duckdb", "pages.csv"]) == 1
        assert not Path("none.duckdb").exists()


def test_without_a_file_it_says_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["why", "a.test"]) == 1
    assert "amble why a.test FILE" in capsys.readouterr().err


def test_a_rehearsal_meets_the_limit_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rehearse", "--pages", "300", "--rate", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["refusals"] >= 1
    assert found["seconds"] > 140
    assert main(["rehearse", "--pages", "300", "--rate", "2", "--max-rate", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["refusals"] == 0
    assert main(["rehearse", "--pages", "300", "--rate=-2"]) == 2
    assert "hint:" in capsys.readouterr().err
