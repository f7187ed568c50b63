"""The examples run, against a server on loopback that refuses now and then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from amble.testing.farm import Farm, Pages
from amble.testing.farm import Site as FarmSite

EXAMPLES = Path(__file__).parents[1] / "examples"


class Site(ThreadingHTTPServer):
    """Refuses one request, with a Retry-After of one second; knows no page called `missing`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refuses_after = 1
        self.statuses: list[int] = []
        self.lock = threading.Lock()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        site = self.server
        assert isinstance(site, Site)
        with site.lock:
            status = 404 if "missing" in self.path else 200
            if len(site.statuses) == site.refuses_after:
                status = 429
            site.statuses.append(status)
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:
        """In silence."""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(example: str, *arguments: str) -> list[str]:
    """What an example says; it must end well and complain of nothing."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / example), *arguments]
    direct = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=direct)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_every_example_is_run_by_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "crawl_in_coroutine.py",
        "crawl_site.py",
        "learned_state.py",
        "limiter_httpx.py",
        "limiter_requests.py",
        "limiter_threads.py",
    }


def test_the_limiter_with_httpx(site: Site) -> None:
    said = run("limiter_httpx.py", *(site.url(path) for path in ("one", "two", "missing")))
    pages = [line for line in said if " http://" in line]
    assert sorted(line.split()[0] for line in pages) == ["200", "200", "404"]
    assert "4 requests, 1 refused" in said[-2]
    assert any("BlockOpened" in line and "Retry-After 1 s" in line for line in said)
    assert said[-1].startswith(f"127.0.0.1:{site.server_port}: one request per")


def test_the_limiter_with_httpx_where_nobody_answers(site: Site) -> None:
    closed = site.url("gone").replace(str(site.server_port), "9")
    said = run("limiter_httpx.py", closed)
    assert said[0].startswith(("---", "    CircuitOpened"))
    assert site.statuses == []


def test_the_limiter_in_threads(site: Site) -> None:
    said = run("limiter_threads.py", *(site.url(path) for path in ("one", "two", "three", "missing")))
    assert sorted(line.split()[0] for line in said[:-1]) == sorted(str(status) for status in site.statuses)
    assert said[-1] == "4 requests, 1 refused, 0 failed"


def test_what_was_learned_is_kept(site: Site, tmp_path: Path) -> None:
    state = tmp_path / "learned.json"
    site.refuses_after = 10  # a refusal among the first few says too little of a limit
    first = run("learned_state.py", str(state), *(site.url(str(number)) for number in range(12)))
    assert first[0] == "0 sites known from earlier runs"
    assert first[-1] == "1 sites known now"
    (row,) = json.loads(state.read_text())
    assert row["domain"] == f"127.0.0.1:{site.server_port}"
    second = run("learned_state.py", str(state), site.url("four"))
    assert second[0] == "1 sites known from earlier runs"
    waited_s = float(second[1].split()[-2])
    assert waited_s == pytest.approx(row["adaptive_delay_seconds"], rel=0.25)  # a delay of silence comes first


def test_a_site_into_a_file(tmp_path: Path) -> None:
    with Farm([FarmSite(name="127.0.0.1", pages=Pages(6))]) as farm:
        first = run("crawl_site.py", farm.url("127.0.0.1"), str(tmp_path / "site.duckdb"))
        again = run("crawl_site.py", farm.url("127.0.0.1"), str(tmp_path / "site.duckdb"))
        asked = [entry.path for entry in farm.log() if entry.path in farm_paths(farm)]
    assert first[1] == "completed: 6 pages, 0 failed"
    assert len([line for line in first if line.startswith("  ")]) == 5
    assert first[-1].startswith(f"127.0.0.1:{farm.port}: ")
    assert again[1].startswith("completed: ")
    assert len(asked) == 6, "the second run fetched no page again"


def farm_paths(farm: Farm) -> set[str]:
    return {path for site in farm.sites for path in site.paths()}


def test_several_sites_from_a_coroutine() -> None:
    with (
        Farm([FarmSite(name="127.0.0.1", pages=Pages(3))]) as one,
        Farm([FarmSite(name="127.0.0.1", pages=Pages(4))]) as two,
    ):
        said = run("crawl_in_coroutine.py", one.url("127.0.0.1"), two.url("127.0.0.1"))
    assert [line.split(": ")[1].split(",")[:2] for line in said] == [
        ["completed", " 3 pages"],
        ["completed", " 4 pages"],
    ]


def test_the_limiter_inside_requests(site: Site) -> None:
    said = run("limiter_requests.py", *(site.url(path) for path in ("one", "two", "three")))
    assert [line.split()[0] for line in said[:-1]] == ["200", "429", "200"]
    assert said[-1].startswith("3 requests, 1 refused, ")
