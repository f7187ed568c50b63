"""Every way by which a seed gets into a crawl, against a canary on loopback: only what somebody typed reaches it [D4].

The policy is that of the product: nothing is handed in.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import amble
from amble.cli import main
from amble.errors import AddressRefused, AmbleError, SettingsError, StatementError
from amble.settings import Settings
from amble.settings_sources import resolve

QUICK: dict[str, Any] = {"pacing": "fixed", "fixed_delay": 0, "max_rate": None, "follow_links": False,
                         "respect_robots_txt": False}  # fmt: skip
WITH = "WITH (pacing = fixed, fixed_delay = 0, max_rate = none, follow_links = false, respect_robots_txt = false"
FLAGS = ["--pacing", "fixed", "--fixed-delay", "0", "--max-rate", "none", "--follow-links", "false",
         "--respect-robots-txt", "false"]  # fmt: skip


class Canary:
    """Counts who connects, and answers a page."""

    def __init__(self) -> None:
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}/"

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with caller, suppress(OSError):
                caller.settimeout(5)
                while caller.recv(65536):
                    caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def canary() -> Iterator[Canary]:
    made = Canary()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


# --- ways that nobody typed ------------------------------------------------------------------------------------------


def sql(*statements: str) -> Callable[[Canary], None]:
    def run(canary: Canary) -> None:
        with amble.connect("sql.duckdb") as con:
            for statement in statements:
                text = statement.replace("URL", canary.url)
                with suppress(StatementError):  # read_html says that it got nothing
                    con.execute(text + f" {WITH})" if text.startswith("CRAWL (") else text)
                    con.fetchall()

    return run


def parameters(canary: Canary) -> None:
    with amble.connect("sql.duckdb") as con:
        con.execute(f"CRAWL (SELECT $1) INTO pages {WITH})", [canary.url])
        con.execute(f"CRAWL (SELECT ?) INTO pages {WITH})", [canary.url])
        con.execute(f"CRAWL (SELECT unnest($u)) INTO pages {WITH})", {"u": [canary.url]})
        con.execute("FROM crawl($1, follow_links := false)", [canary.url])


def python_values(canary: Canary) -> None:
    with amble.connect("sql.duckdb") as con:
        con.register("handed_in", pyarrow.table({"url": [canary.url]}))
        con.execute(f"CRAWL (SELECT url FROM handed_in) INTO pages {WITH})")
        con.execute("SET VARIABLE seeds = ['" + canary.url + "']")
        con.execute(f"CRAWL (SELECT unnest(getvariable('seeds'))) INTO pages {WITH})")


def seeds_file(canary: Canary) -> None:
    Path("seeds.txt").write_text(f"{canary.url}\n")
    main(["crawl", "--seeds", "seeds.txt", "--into", "x.duckdb", *FLAGS])
    main(["plan", "--seeds", "seeds.txt", "--into", "x.duckdb", *FLAGS])


def python_iterables(canary: Canary) -> None:
    Path("seeds.txt").write_text(f"{canary.url}\n")
    with Path("seeds.txt").open() as lines, amble.crawl(lines, "x.duckdb", **QUICK):
        pass
    with amble.crawl((url for url in [canary.url]), "y.duckdb", **QUICK):
        pass


def foreign_job(canary: Canary, settings: dict[str, Any] | None = None) -> None:
    """A file as somebody hands it over: a job that waits."""
    with amble.connect("job.duckdb") as con:
        con.execute(f"CRAWL (SELECT NULL::VARCHAR) INTO pages {WITH})")
        seeds, told = json.dumps([canary.url]), json.dumps({**QUICK, "max_rate": None, **(settings or {})})
        con.execute("UPDATE amble.jobs SET status = 'paused', seeds = $1, settings = $2", [seeds, told])


def resumed(canary: Canary) -> None:
    foreign_job(canary)
    assert main(["resume", "job.duckdb"]) in (0, 1, 3, 5)
    with amble.connect("job.duckdb") as con, suppress(AmbleError):
        con.execute("RESUME CRAWL 1")


def resumed_with_stored_permission(canary: Canary) -> None:
    foreign_job(canary, {"allow_private": ["127.0.0.0/8"]})
    main(["resume", "job.duckdb"])


MERGE = "WHEN NOT MATCHED THEN INSERT (url) VALUES (s.url)"
MAKE = (
    "CREATE OR REPLACE TABLE seeds AS SELECT 'URL' AS url; CREATE TABLE IF NOT EXISTS kept (url VARCHAR, title VARCHAR)"
)
UNTYPED: dict[str, Callable[[Canary], None]] = {
    "a table": sql(MAKE, "CRAWL (SELECT url FROM seeds) INTO pages"),
    "a literal beside a table": sql(MAKE, "CRAWL (SELECT 'URL' FROM seeds) INTO pages"),
    "a common table expression": sql("CRAWL (WITH s AS (SELECT 'URL' AS u) SELECT u FROM s) INTO pages"),
    "a subquery": sql("CRAWL (SELECT (SELECT 'URL')) INTO pages"),
    "an expression": sql("CRAWL (SELECT 'URL' || 'x') INTO pages"),
    "a file": sql("COPY (SELECT 'URL' AS u) TO 'seeds.csv'", "CRAWL (SELECT u FROM 'seeds.csv') INTO pages"),
    "FROM crawl": sql("FROM crawl('URL', follow_links := false)"),
    "FROM crawl of a list": sql(MAKE, "FROM crawl((SELECT list(url) FROM seeds), follow_links := false)"),
    "sitemap": sql("FROM sitemap('URL')", "FROM sitemap('URLsitemap.xml')"),
    "read_html": sql("FROM read_html('URL')"),
    "MERGE of a table": sql(
        MAKE, f"CRAWLING MERGE INTO kept USING (CRAWL (SELECT url FROM seeds)) AS s ON (kept.url = s.url) {MERGE}"
    ),
    "MERGE of crawl()": sql(
        MAKE, f"CRAWLING MERGE INTO kept USING (SELECT url, title FROM crawl('URL')) AS s ON (kept.url = s.url) {MERGE}"
    ),
    "EXPLAIN of a table": sql(MAKE, "EXPLAIN CRAWL (SELECT url FROM seeds) INTO pages"),
    "parameters": parameters,
    "Python values": python_values,
    "--seeds FILE": seeds_file,
    "Python iterables": python_iterables,
    "a job that is taken up": resumed,
    "a job that brings its own permission": resumed_with_stored_permission,
}


@pytest.mark.parametrize("way", UNTYPED, ids=str)
def test_a_private_seed_that_nobody_typed_is_not_asked_d4(way: str, canary: Canary) -> None:
    UNTYPED[way](canary)
    assert canary.connections == 0


@pytest.mark.parametrize(
    "form", ["http://2130706433:{}/", "http://127.0.0.2:{}/", "http://localhost:{}/", "http://0x7f.1:{}/"]
)
def test_however_the_address_is_written_d4(form: str, canary: Canary) -> None:
    with amble.connect() as con:
        con.execute("CREATE TABLE seeds AS SELECT $1 AS url", [form.format(canary.port)])
        con.execute(f"CRAWL (SELECT url FROM seeds) INTO pages {WITH})")
        [(kind, error)] = con.execute("SELECT error_type, error FROM pages").fetchall()
    assert canary.connections == 0
    assert kind == "address_forbidden"
    assert "allow_private" in error


# --- ways that somebody typed ----------------------------------------------------------------------------------------


def words(canary: Canary) -> None:
    assert main(["crawl", canary.url, "--into", "x.duckdb", *FLAGS]) == 0


def strings(canary: Canary) -> None:
    with amble.crawl(canary.url, "x.duckdb", **QUICK) as job:
        assert job.counts["pages"] == 1
    with amble.crawl([canary.url], "y.duckdb", **QUICK) as job:
        assert job.counts["pages"] == 1


TYPED: dict[str, Callable[[Canary], None]] = {
    "words of the command": words,
    "strings of amble.crawl": strings,
    "a literal": sql("CRAWL (SELECT 'URL') INTO pages"),
    "literals": sql("CRAWL (SELECT 'URL' UNION ALL SELECT 'URL2') INTO pages"),
    "a list of literals": sql("CRAWL (SELECT unnest(['URL', 'URLb'])) INTO pages"),
    "VALUES": sql("CRAWL (VALUES ('URL'), ('URLb')) INTO pages"),
}


@pytest.mark.parametrize("way", TYPED, ids=str)
def test_a_private_seed_that_somebody_typed_is_meant(way: str, canary: Canary) -> None:
    TYPED[way](canary)
    assert canary.connections > 0


# --- allow_private ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", ["127.0.0.1:{}", "127.0.0.0/8", "10.0.0.0/8,127.0.0.1:{}"])
def test_the_setting_opens_what_nobody_typed(allowed: str, canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = allowed.format(canary.port)
    Path("seeds.txt").write_text(f"{canary.url}\n")
    assert main(["crawl", "--seeds", "seeds.txt", "--into", "x.duckdb", *FLAGS, "--allow-private", allowed]) == 0
    assert canary.connections > 0
    before = canary.connections
    foreign_job(canary)
    assert main(["resume", "job.duckdb", "--allow-private", allowed]) == 0
    assert canary.connections > before
    before = canary.connections
    Path("job.duckdb").unlink()  # what it has learned need not be asked again
    foreign_job(canary)
    monkeypatch.setenv("AMBLE_ALLOW_PRIVATE", allowed)
    amble.resume("job.duckdb").close()
    assert canary.connections > before


@pytest.mark.parametrize("allowed", ["10.0.0.0/8", "127.0.0.1", "localhost:{}", "127.0.0.1:1"])
def test_the_setting_opens_nothing_else(allowed: str, canary: Canary) -> None:
    Path("seeds.txt").write_text(f"{canary.url}\n")
    flag = ["--allow-private", allowed.format(canary.port)]
    main(["crawl", "--seeds", "seeds.txt", "--into", "x.duckdb", *FLAGS, *flag])
    assert canary.connections == 0


def test_a_resumption_that_is_refused_loses_nothing_and_says_what_would_allow_it(
    canary: Canary, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign_job(canary)
    assert main(["resume", "job.duckdb"]) == 1
    assert f"resume job.duckdb 1 --allow-private {canary.place}" in capsys.readouterr().err
    with closing(amble.connect("job.duckdb")) as con, pytest.raises(AddressRefused) as refused:
        con.execute("RESUME CRAWL 1")
    assert canary.place in (refused.value.hint or "")
    with amble.connect("job.duckdb") as con:
        con.execute(f"RESUME CRAWL 1 WITH (allow_private = '{canary.place}')")
        assert con.execute("SELECT http_status FROM pages").fetchall() == [(200,)]


def test_a_crawl_of_a_file_says_what_would_allow_it(canary: Canary, capsys: pytest.CaptureFixture[str]) -> None:
    Path("seeds.txt").write_text(f"{canary.url}\n")
    main(["crawl", "--seeds", "seeds.txt", "--into", "x.duckdb", *FLAGS])
    assert f"--allow-private {canary.place}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["allow_private", "http_proxy", "ca_file", "no_proxy"])
def test_the_file_of_a_project_opens_nothing(name: str, tmp_path: Path) -> None:
    values = {"allow_private": '["10.0.0.0/8"]', "http_proxy": '"http://127.0.0.1:1"', "no_proxy": '["a.test"]',
              "ca_file": f'"{tmp_path / "ca.pem"}"'}  # fmt: skip
    (tmp_path / "ca.pem").touch()
    (tmp_path / "amble.toml").write_text(f"{name} = {values[name]}\n")
    with pytest.raises(SettingsError, match="a project may not set"):
        resolve({}, environ={}, folder=tmp_path)
    (tmp_path / "amble.toml").unlink()
    own = tmp_path / "config" / "amble"
    own.mkdir(parents=True)
    (own / "amble.toml").write_text(f"{name} = {values[name]}\n")
    assert resolve({}, environ={"XDG_CONFIG_HOME": str(tmp_path / "config")}, folder=tmp_path).named[name]


@pytest.mark.parametrize("text", ["10.0.0.1/8", "a b/c", "http://", "::1/200"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="allow_private"):
        Settings.of({"allow_private": [text]})


def test_places_may_be_written_as_text() -> None:
    found = Settings.of({"allow_private": "10.0.0.0/8, intra.example, localhost:8000, [::1]:80, ::1"})
    assert found.fetching.allow_private == ("10.0.0.0/8", "intra.example", "localhost:8000", "[::1]:80", "::1")


def test_permission_is_not_stored_with_a_job() -> None:
    assert "allow_private" not in Settings.of({"allow_private": "10.0.0.0/8"}).given()
