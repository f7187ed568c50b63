"""What each part costs alone, to be measured: the pages named on standard input, through one part after the other.

For every stage of a crawl that has a part at its heart: the processor time of that part for a page, with nothing around
it. Least of a few rounds; as JSON on standard output.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import duckdb
from ada_url import join_url
from selectolax.lexbor import LexborHTMLParser

from bench._bare import ROWS_AT_ONCE, TABLE, Answer, fetch_all, hrefs_of, port_of, row_of

ROUNDS = 5


class Part(NamedTuple):
    """The heart of a stage."""

    stage: str
    says: str
    work: Callable[[], object]


class Pages:
    """The pages, fetched once and kept."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.answers: list[Answer] = []
        fetch_all(list(urls), port_of(urls[0]), self.answers.append)
        self.texts = [answer.body.decode() for answer in self.answers]
        self.hrefs = [(a.url, hrefs_of(LexborHTMLParser(a.body))) for a in self.answers]
        self.links = [[join_url(url, href) for href in hrefs] for url, hrefs in self.hrefs]

    def parts(self) -> list[Part]:
        return [
            Part("fetch", "libcurl, the body thrown away", self._fetch),
            Part("page: tree", "Lexbor, the tree built and freed", self._tree),
            Part("page: links", "ada-url joining each href", self._join),
            Part("page: guard", "counting `<`", self._count),
            Part("page: rest", "decoding and SHA-256", self._digest),
            Part("frontier", "every link looked up in a set", self._look_up),
            Part("store: writer thread", "DuckDB's appender, 7 columns, 200 rows to a transaction", self._store),
        ]

    def _fetch(self) -> None:
        fetch_all(list(self.urls), port_of(self.urls[0]), lambda _: None)

    def _tree(self) -> None:
        for answer in self.answers:
            LexborHTMLParser(answer.body)

    def _join(self) -> None:
        for url, hrefs in self.hrefs:
            for href in hrefs:
                join_url(url, href)

    def _count(self) -> None:
        for text in self.texts:
            text.count("<")

    def _digest(self) -> None:
        for answer in self.answers:
            answer.body.decode()
            sha256(answer.body).hexdigest()

    def _look_up(self) -> None:
        seen: set[str] = set()
        for links in self.links:
            for link in links:
                if link not in seen:
                    seen.add(link)

    def _store(self) -> None:
        with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
            connection = duckdb.connect(Path(folder) / "pages.duckdb", config={"threads": 1})
            connection.execute(TABLE)
            appender = connection.appender("pages")
            for at in range(0, len(self.answers), ROWS_AT_ONCE):
                connection.begin()
                appender.append_rows([row_of(answer, "", 0) for answer in self.answers[at : at + ROWS_AT_ONCE]])
                appender.flush()
                connection.commit()
            connection.close()


def main() -> None:
    pages = Pages(sys.stdin.read().split())
    parts = pages.parts()
    least = dict.fromkeys((part.stage for part in parts), float("inf"))
    for _ in range(ROUNDS):
        for part in parts:  # in turn: a busy moment is nobody's alone
            before_s = time.process_time()
            part.work()
            least[part.stage] = min(least[part.stage], time.process_time() - before_s)
    print(json.dumps({part.stage: (least[part.stage] / len(pages.urls), part.says) for part in parts}))


if __name__ == "__main__":
    main()
