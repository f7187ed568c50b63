"""A refused setting leaves nothing behind, and one that does nothing is said: by the words a person types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import amble
from amble.cli import main
from amble.core.urls import domain_of
from amble.errors import SettingsError
from amble.jobs import Job
from amble.settings import Settings
from amble.sql.connection import open_connection
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, Pages, Site

NAME = "127.0.0.1"
QUICK = ["--pacing", "fixed", "--fixed-delay", "0", "--max-rate", "unlimited"]
BAD_RULE = '{"*a.test": {"delay": 1}}'
KEPT: dict[str, object] = {"max_crawl_pages": 2, "discover": False, "follow_links": True}
GOOD_RULE = '{"*.a.test": {"delay": 1}}'

REFUSED = [
    # story                               flag             value              what is said
    ("a rule for nobody", "rules", BAD_RULE, "rule pattern '*a.test' is not understood"),
    ("a rule that says nothing", "rules", '{"a.test": {"dely": 1}}', "dely"),
    ("a file that is not there", "ca_file", "/nowhere/ca.pem", "no such file"),
    ("a network that is none", "allow_private", "10.0.0.0/99", "not a network"),
]


@pytest.mark.parametrize(("name", "value", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_refused_setting_is_refused_by_config_show_and_leaves_neither_file_nor_job(
    name: str, value: str, said: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["crawl", "http://127.0.0.1:9/", f"--{name.replace('_', '-')}", value]) == 2
    assert said in capsys.readouterr().err
    given: dict[str, Any] = {name: json.loads(value) if name == "rules" else value}
    with pytest.raises(SettingsError):
        amble.crawl("http://127.0.0.1:9/", **given)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(f"AMBLE_{name.upper()}", value)
    assert main(["config", "show"]) == 2
    refusal = capsys.readouterr().err
    assert said in refusal
    assert f"{name} comes from AMBLE_{name.upper()}" in refusal


def unfinished(file: str, farm: Farm, settings: dict[str, object]) -> None:
    """A file with a job that has not begun, and that settings of another version were stored with."""
    with DuckDBStore.open(file) as store:
        Job.start(store, [farm.url(NAME)], Settings.of({"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited"}))
        store.database.connect().execute("UPDATE amble.jobs SET settings = $1", [json.dumps(settings)])


@pytest.mark.parametrize("way", ["command", "Python", "SQL"])
def test_a_job_whose_settings_are_refused_today_is_resumed_with_repaired_ones(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    allowed = ["--allow-private", "127.0.0.0/8"]
    with Farm([Site(name=NAME, pages=Pages(3))]) as farm:
        unfinished("x.duckdb", farm, {"rules": json.loads(BAD_RULE), **KEPT})
        assert main(["resume", "x.duckdb", *allowed]) == 2
        refusal = capsys.readouterr().err
        assert "settings of this job are refused today" in refusal
        assert "amble resume FILE --rules" in refusal
        if way == "command":
            assert main(["resume", "x.duckdb", *allowed, "--rules", GOOD_RULE, "--max-rate", "3"]) == 2
            assert "keeps its max_rate" in capsys.readouterr().err
            assert main(["resume", "x.duckdb", *allowed, "--rules", GOOD_RULE]) in (0, 4)
        elif way == "Python":
            amble.resume("x.duckdb", allow_private="127.0.0.0/8", rules=json.loads(GOOD_RULE))
        else:
            con = open_connection(Path("x.duckdb"), {}, {"policy": farm.policy, "resolver": farm.resolver})
            con.execute("RESUME CRAWL 1 WITH (rules = '" + GOOD_RULE + "')")
            con.close()
    with DuckDBStore.open("x.duckdb") as store:
        [job] = store.jobs()
        assert job.status.value == "completed"
        assert store.counts(1).done == 2
        assert job.settings == {"rules": {"*.a.test": {"delay": 1.0}}, **KEPT}


def test_a_setting_that_does_nothing_is_said_once_and_the_crawl_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = "initial_rps does nothing: it is for aimd, and the strategy is fixed"
    with Farm([Site(name=NAME, pages=Pages(2))]) as farm:
        assert main(["crawl", farm.url(NAME), "--initial-rps", "3", "--shards", "4", *QUICK]) == 0
        told = capsys.readouterr().err
        assert told.count(said) == told.count("shards does nothing in a crawl") == 1
        assert main(["crawl", farm.url(NAME), "--into", "y.duckdb", *QUICK]) == 0
        assert "does nothing" not in capsys.readouterr().err
    for name, value in (("PACING", "fixed"), ("INITIAL_RPS", "3")):
        monkeypatch.setenv(f"AMBLE_{name}", value)
    for words in (["config", "show"], ["rehearse", "--pages", "10"]):
        assert main(words) == 0
        assert said in capsys.readouterr().err


def test_a_limiter_says_what_does_nothing_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="amble.pacing"):
        amble.Limiter(pacing="linear", fixed_delay=3.0, shards=4)
    assert [record.getMessage() for record in caplog.records] == [
        "fixed_delay does nothing: it is for fixed, and the strategy is linear"
    ]


def test_reports_are_made_of_jobs_whose_settings_mean_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They send nothing: a proxy that nobody named here, and a rule that is refused today, are no matter to them."""
    monkeypatch.chdir(tmp_path)
    settings = {"http_proxy": "http://p.test:1", "rules": json.loads(BAD_RULE), "warp_speed": 9}
    with Farm([Site(name=NAME, pages=Pages(2))]) as farm:
        domain = domain_of(farm.url(NAME))
        assert main(["crawl", farm.url(NAME), "--into", "x.duckdb", *QUICK]) == 0
    with DuckDBStore.open("x.duckdb") as store:
        store.database.connect().execute("UPDATE amble.jobs SET settings = $1", [json.dumps(settings)])
    capsys.readouterr()
    assert main(["why", domain, "x.duckdb"]) == 0
    assert capsys.readouterr().out.startswith(f"{domain}: ")
    assert main(["audit", "x.duckdb"]) == 0
