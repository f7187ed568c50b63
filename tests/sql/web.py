"""A small web and a connection that crawls it, for the tests of SQL."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import duckdb
import pytest

from amble.sql.connection import Connection, open_connection
from amble.testing.farm import Farm, Pages, Robots, Site
from amble.testing.farm.exchange import Request, Response
from amble.testing.farm.site import Feature

# No pace of our own: what a test is about is not how long it takes.
QUICK = "pacing = fixed, fixed_delay = 0, max_rate = unlimited"
FAST = f"WITH (follow_links = false, {QUICK})"  # the seeds alone

SMALL = Pages(5, size_bytes=2_000)
SLOW = Site(name="slow.test", pages=Pages(200, size_bytes=2_000), robots=Robots(crawl_delay_s=0.05))

Answer = Callable[[Request], Response]


@dataclass(frozen=True, slots=True)
class Paths(Feature):
    """What a site answers at certain paths."""

    answers: dict[str, Response | Answer] = field(default_factory=dict)

    def answer(self, site: Site, request: Request) -> Response | None:
        found = self.answers.get(request.path)
        return found(request) if callable(found) else found


@contextmanager
def web(*sites: Site, path: str | Path = ":memory:", **options: Any) -> Iterator[tuple[Farm, Connection]]:
    """The sites, and a connection whose crawls find them."""
    with Farm(sites) as farm:
        con = open_connection(path, options, ways={"policy": farm.policy, "resolver": farm.resolver})
        try:
            yield farm, con
        finally:
            con.close()


def paths_asked(farm: Farm, host: str | None = None) -> list[str]:
    """What was asked for, robots.txt and sitemaps left out."""
    return [
        entry.target
        for entry in farm.log()
        if (host is None or entry.host == host) and not entry.is_robots and "sitemap" not in entry.path
    ]


class Proxy(BaseHTTPRequestHandler):
    """Fetches what it is asked for, from loopback whatever the name; asks for a password if there is one."""

    asked: ClassVar[list[str]]
    wanted: ClassVar[str | None]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.wanted is not None and self.headers.get("Proxy-Authorization") != self.wanted:
            self.send_response(407)
            self.send_header("Proxy-Authenticate", 'Basic realm="p"')
            self.end_headers()
            return
        place = urlsplit(self.path)
        onward = HTTPConnection("127.0.0.1", place.port or 80)
        onward.request("GET", place.path, headers={"Host": place.netloc})
        answer = onward.getresponse()
        body = answer.read()
        onward.close()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        pass


@contextmanager
def proxy_server(username: str | None = None, password: str = "") -> Iterator[ThreadingHTTPServer]:
    login = base64.b64encode(f"{username}:{password}".encode()).decode()
    kind = type("OneProxy", (Proxy,), {"asked": [], "wanted": f"Basic {login}" if username else None})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def tables(con: Connection) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = con.execute(
        "SELECT database_name, schema_name, table_name FROM duckdb_tables() ORDER BY ALL"
    ).fetchall()
    return found


def when(condition: Callable[[], Any], act: Callable[[], Any]) -> threading.Thread:
    """Do this as soon as that holds, in a thread."""

    def run() -> None:
        wait_for(condition)
        act()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_for(condition: Callable[[], Any]) -> Any:
    """Until it holds; the limit of the test is the limit."""
    while not (found := condition()):
        time.sleep(0.01)
    return found


def run_until_stopped(con: Connection, statement: str) -> None:
    """In a thread of its own; somebody interrupts it."""
    with pytest.raises(duckdb.InterruptException):
        con.execute(statement)
