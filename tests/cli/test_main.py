"""The command as a person types it: words in, rows and an exit code out."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import duckdb
import pytest

from amble.cli import main

OF_FILE = ["--allow-private", "127.0.0.0/8"]  # what stands in a file was not typed
QUICK = ["--pacing", "fixed", "--fixed-delay", "0", "--max-rate", "unlimited"]


class Handler(BaseHTTPRequestHandler):
    """Three pages with a hostile title, one that robots.txt forbids, one that is missing."""

    def do_GET(self) -> None:
        pages = {"/": "<a href=/a>a<a href=/b>b<a href=/secret>s", "/a": "<title>\x1b[31mred</title>", "/b": "b"}
        path = self.path.partition("?")[0]
        body = "User-agent: *\nDisallow: /secret" if path == "/robots.txt" else pages.get(path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write((body or "").encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_typed_site_is_crawled_into_a_file(site: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.duckdb"
    assert main(["crawl", site, "--into", str(file), *QUICK]) == 0
    said = capsys.readouterr()
    assert "3 pages" in said.err
    assert "1 robots_disallowed" in said.err
    assert "slowest: 127.0.0.1" in said.err
    domain = site.removeprefix("http://").rstrip("/")
    assert any(line.split()[:4] == [domain, "6", "0", "0"] for line in said.err.splitlines()), "its row of the table"
    assert said.out == "", "data goes to standard output, talk to standard error"
    with duckdb.connect(str(file)) as connection:
        rows = connection.execute("SELECT url, http_status, error_type FROM pages ORDER BY url").fetchall()
    assert rows == [
        (site, 200, None),
        (f"{site}a", 200, None),
        (f"{site}b", 200, None),
        (f"{site}secret", None, "robots_disallowed"),
    ]


def test_jobs_domains_and_audit_read_what_was_stored(
    site: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "x.duckdb")
    main(["crawl", site, "--into", file, *QUICK])
    capsys.readouterr()
    assert main(["jobs", file, "--json"]) == 0
    [job] = json.loads(capsys.readouterr().out)
    assert (job["status"], job["accepted"], job["final"], job["queued"]) == ("completed", 4, 4, 0)
    assert main(["domains", file, "--json"]) == 0
    [domain] = json.loads(capsys.readouterr().out)
    assert domain["requests"] >= 4
    assert main(["audit", file]) == 0
    assert "no rule was broken" in capsys.readouterr().out
    assert main(["resume", file]) == 0
    assert "finished" in capsys.readouterr().err
    assert main(["resume", file, "1"]) == 0
    assert capsys.readouterr().err == "job 1 is completed\n", "nothing is asked for"

    main(["crawl", f"{site}missing", "--into", file, *QUICK])
    capsys.readouterr()
    assert main(["jobs", file]) == 0
    assert "job 2: no domain is left: 1 http_client_error" in capsys.readouterr().err
    assert main(["domains", file, "--json"]) == 0
    [again] = json.loads(capsys.readouterr().out)
    assert again["requests"] == domain["requests"] + 1, "of all its jobs; its robots.txt was known"


def test_seeds_come_from_a_file_with_comments(site: str, tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(f"# two pages\n{site}a\n\n{site}b\n", encoding="utf-8")
    file = tmp_path / "x.duckdb"
    assert main(["crawl", "--seeds", str(seeds), "--into", str(file), *QUICK, *OF_FILE]) == 0
    with duckdb.connect(str(file)) as connection:
        assert connection.execute("SELECT count(*) FROM pages").fetchall() == [(2,)]


def test_seeds_come_from_a_pipe(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{site}a\n{site}b\n"))
    file = tmp_path / "x.duckdb"
    assert main(["crawl", "--seeds", "-", "--into", str(file), *QUICK, *OF_FILE]) == 0
    with duckdb.connect(str(file)) as connection:
        assert connection.execute("SELECT count(*) FROM pages").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("pages", "flags", "warned"), [(101, [], 1), (100, [], 0), (101, ["--contact", "https://you.example/bot"], 0)]
)
def test_more_than_a_hundred_pages_without_a_contact_warn_once(
    pages: int, flags: list[str], warned: int, site: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("".join(f"{site}a?{number}\n" for number in range(pages)), encoding="utf-8")
    assert (
        main(
            [
                "crawl",
                "--seeds",
                str(seeds),
                "--into",
                str(tmp_path / "x.duckdb"),
                *QUICK,
                *flags,
                "--allow-private",
                "127.0.0.0/8",
            ]
        )
        == 0
    )
    assert capsys.readouterr().err.count("warning: more than 100 pages") == warned


def test_a_limit_that_was_met_is_told_by_the_exit_code(site: str, tmp_path: Path) -> None:
    assert main(["crawl", site, "--into", str(tmp_path / "x.duckdb"), "--max-crawl-pages", "2", *QUICK]) == 4


def test_a_result_as_json_can_be_piped(site: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crawl", f"{site}missing", "--into", str(tmp_path / "x.duckdb"), "--json", *QUICK]) == 3
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["ends"]) == ("failed", {"http_client_error": 1})


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["crawl"], 2, "nothing to crawl"),
        (["crawl", "ftp://a.test/"], 2, "only http and https"),
        (["crawl", "a.test", "http://[::1", "--into", "x.duckdb"], 2, "is no seed"),
        (["why", "http://"], 2, "is no seed"),
        (["crawl", "http://a.test/", "--max-rate=-3"], 2, "greater than 0"),
        (["crawl", "--seeds", "no such file"], 1, "cannot be read"),
        (["resume", "no such file"], 1, "there is no file"),
    ],
)
def test_mistakes_are_told_with_a_hint(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(words) == code
    error = capsys.readouterr().err
    assert said in error
    assert "hint:" in error
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_flag_is_not_taken_for_a_known_one() -> None:
    with pytest.raises(SystemExit) as refused:
        main(["crawl", "http://a.test/", "--max-rat", "3"])
    assert refused.value.code == 2
