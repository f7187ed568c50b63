"""A bare loop of amble's parts, to be measured: libcurl, Lexbor, ada-url, a set; DuckDB's appender if a file is named.

The fastest simple loop that these parts allow, as a careful person would write it by hand. It asks no robots.txt, keeps
no pace and no receipts, guards against nothing and tries nothing twice. Seeds on standard input, its own account on
standard output as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import duckdb
import pycurl
from ada_url import join_url
from selectolax.lexbor import LexborHTMLParser

AT_ONCE = 64
KEPT_CONNECTIONS = 256
READ_BYTES = 64 * 1024
ROWS_AT_ONCE = 200
TABLE = """CREATE TABLE pages (
    url VARCHAR, status INTEGER, content_type VARCHAR, title VARCHAR, fetched_at TIMESTAMPTZ, links INTEGER,
    body VARCHAR
)"""


class Answer(NamedTuple):
    """What came back."""

    url: str
    status: int
    content_type: str | None
    body: bytes


def fetch_all(todo: list[str], port: int, on_answer: Callable[[Answer], object]) -> None:
    """Fetch until nothing is left to do, to which `on_answer` may add."""
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, KEPT_CONNECTIONS)
    idle = [_easy(port) for _ in range(AT_ONCE)]
    busy: dict[pycurl.Curl, tuple[str, list[bytes]]] = {}
    while todo or busy:
        while todo and idle:
            easy, url, parts = idle.pop(), todo.pop(), list[bytes]()  # what came last: a connection to it is open
            easy.setopt(pycurl.URL, url)
            easy.setopt(pycurl.WRITEFUNCTION, parts.append)
            busy[easy] = url, parts
            multi.add_handle(easy)
        multi.perform()
        _, succeeded, failed = multi.info_read()
        if failed:
            raise SystemExit(f"a fetch failed: {failed[0][2]}")
        for easy in succeeded:
            multi.remove_handle(easy)
            idle.append(easy)
            url, parts = busy.pop(easy)
            status, content_type = easy.getinfo(pycurl.RESPONSE_CODE), easy.getinfo(pycurl.CONTENT_TYPE)
            on_answer(Answer(url, status, content_type, b"".join(parts)))
        if not succeeded:
            multi.select(1.0)


def _easy(port: int) -> pycurl.Curl:
    easy = pycurl.Curl()
    easy.setopt(pycurl.NOSIGNAL, 1)
    easy.setopt(pycurl.PROXY, "")
    easy.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    easy.setopt(pycurl.BUFFERSIZE, READ_BYTES)
    easy.setopt(pycurl.CONNECT_TO, [f"::127.0.0.1:{port}"])  # every name is this machine
    return easy


class Crawl:
    """Links followed within their host, each URL once; rows where there is a file to put them into."""

    def __init__(self, seeds: list[str], file: str | None) -> None:
        self.pages = 0
        self._seen = set(seeds)
        self._todo = list(seeds)
        self._rows: list[tuple[object, ...]] = []
        self._connection = duckdb.connect(file, config={"threads": 1}) if file else None
        if self._connection is not None:
            self._connection.execute(TABLE)
            self._appender = self._connection.appender("pages")

    def run(self, port: int) -> None:
        fetch_all(self._todo, port, self._on_answer)
        if self._connection is not None:
            self._flush()
            self._connection.close()

    def _on_answer(self, answer: Answer) -> None:
        if answer.status != 200:
            return
        self.pages += 1
        tree = LexborHTMLParser(answer.body)
        hrefs = hrefs_of(tree)
        self._follow(answer.url, hrefs)
        if self._connection is not None:
            titles = tree.tags("title")
            title = titles[0].text() if titles else None
            self._rows.append(row_of(answer, title, len(hrefs)))
            if len(self._rows) >= ROWS_AT_ONCE:
                self._flush()

    def _follow(self, url: str, hrefs: set[str]) -> None:
        origin, seen = url[: url.index("/", 8) + 1], self._seen
        for href in hrefs:
            link = join_url(url, href)
            if link not in seen:
                seen.add(link)
                if link.startswith(origin):
                    self._todo.append(link)

    def _flush(self) -> None:
        assert self._connection is not None
        self._connection.begin()
        self._appender.append_rows(self._rows)
        self._appender.flush()
        self._connection.commit()
        self._rows.clear()


def hrefs_of(tree: LexborHTMLParser) -> set[str]:
    """What the anchors of a page say, each once and without its fragment."""
    said = {node.attributes.get("href") for node in tree.tags("a")}
    return {href.partition("#")[0] for href in said if href}


def row_of(answer: Answer, title: str | None, links: int) -> tuple[object, ...]:
    text = answer.body.decode("utf-8", "replace")
    return (answer.url, answer.status, answer.content_type, title, datetime.now(UTC), links, text)


def port_of(url: str) -> int:
    """The farm's: all its names are on one port."""
    return int(url.split("/")[2].partition(":")[2])


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    seeds = sys.stdin.read().split()
    began, before_s = time.monotonic(), cpu_s()
    crawl = Crawl(seeds, sys.argv[1] if len(sys.argv) > 1 else None)
    crawl.run(port_of(seeds[0]))
    account = {"pages": crawl.pages, "crawl_cpu_s": cpu_s() - before_s, "crawl_wall_s": time.monotonic() - began}
    print(json.dumps(account))


if __name__ == "__main__":
    main()
