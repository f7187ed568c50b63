"""What a whole crawl of a small site does under given settings: what was asked for, and what was stored."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from amble.core.addresses import AddressPolicy
from amble.fetcher import Resolution
from amble.jobs import runner
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, PageRow
from amble.store.writer import WriterLimits

SLOW_S = 0.25
BASE: dict[str, Any] = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited", "max_retries": 0}

PAGES = {
    "/": "<a href=/a>a</a><a href=/n rel=nofollow>n</a><a href=/secret>s</a><a href=/pdf>p</a><a href=/gone>g</a>"
    "<a href=/r1>r</a><a href=/noindex>x</a><a href=/copy>c</a><a href=/slow>w</a><a href=/long>l</a>"
    "<a href=http://sub.a.test:{port}/>sub</a><a href=/teapot>t</a>",
    "/a": "<title>a</title><a href=/deep>d</a>",
    "/deep": "deep",
    "/n": "n",
    "/noindex": "<meta name=robots content=noindex>hidden",
    "/copy": "<link rel=canonical href=/true>copy",
    "/true": "true",
    "/slow": "slow",
    "/long": "x" * 30_000,
    "/pdf": "%PDF",
    "/r3": "at last",
    "/listed": "listed",
}


class Site(ThreadingHTTPServer):
    daemon_threads = True
    sitemap = False
    failing = False
    mute = False
    refusing = 0  # so many requests more

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.log: list[tuple[str, dict[str, str]]] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.log.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        self._answer(urlsplit(self.path).path)
        with self.server.lock:
            self.server.at_once -= 1

    def _answer(self, path: str) -> None:
        port = self.server.server_address[1]
        if path == "/slow":
            time.sleep(SLOW_S)
        if self.server.failing and path not in ("/robots.txt", "/"):
            return self._send(403, "")  # perhaps all of it: a page that is missing speaks of itself alone
        if self.server.mute and path == "/a":
            self.close_connection = True
            return None
        if self.server.refusing and path == "/a":
            self.server.refusing -= 1
            return self._send(429, "", retry_after="1")
        if path == "/robots.txt":
            line = f"Sitemap: http://a.test:{port}/map.xml\n" if self.server.sitemap else ""
            return self._send(200, f"User-agent: *\nDisallow: /secret\n{line}", "text/plain")
        if path == "/map.xml":
            return self._send(200, f"<urlset><url><loc>http://a.test:{port}/listed</loc></url></urlset>", "text/xml")
        if path in ("/r1", "/r2"):
            return self._send(302, "", location=f"/r{int(path[2]) + 1}")
        if path == "/teapot":
            return self._send(418, "")
        kind = "application/pdf" if path == "/pdf" else "text/html"
        body = PAGES.get(path)
        return self._send(200 if body else 404, (body or "").replace("{port}", str(port)), kind)

    def _send(self, status: int, text: str, kind: str = "text/html", **headers: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Names:
    """Every name is here."""

    async def resolve(self, host: str) -> Resolution:
        return Resolution(("127.0.0.1",))

    def close(self) -> None:
        pass


@contextmanager
def site(*, sitemap: bool = False, failing: bool = False) -> Iterator[Site]:
    with Site() as server:
        server.sitemap, server.failing = sitemap, failing
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def crawl(server: Site, store: DuckDBStore, settings: Settings, path: str = "/") -> Any:
    """What a crawl leaves, but for times and the port."""
    port = server.server_address[1]
    seen = len(server.log)
    policy = AddressPolicy.of(opened=["127.0.0.0/8"])
    job = runner.start(store, [f"http://a.test:{port}{path}"], settings, policy=policy, resolver=Names())
    try:
        result = job.wait(30)
    finally:
        job.stop(now=True)
        job.wait()
    asked = Counter(name.replace(f":{port}", "") for name, _ in server.log[seen:])
    headers = sorted({tuple(sorted(_plain(given).items())) for _, given in server.log[seen:]})
    with store.database.reading() as connection:
        query = "SELECT url, http_status, error_type, body IS NULL, attempts FROM pages ORDER BY url"
        rows = [(url.replace(f":{port}", ""), *rest) for url, *rest in connection.execute(query).fetchall()]
    return result.status, dict(result.left_out), asked, headers, rows


def _plain(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "host"}


def once(settings: Settings, **kind: bool) -> Any:
    with site(**kind) as server, DuckDBStore.open(":memory:") as store:
        return crawl(server, store, settings)


def twice(settings: Settings) -> Any:
    """The second crawl into the same table."""
    with site(sitemap=True) as server, DuckDBStore.open(":memory:") as store:
        crawl(server, store, settings)
        return crawl(server, store, settings)


def of_a_page(settings: Settings) -> Any:
    with site(sitemap=True) as server, DuckDBStore.open(":memory:") as store:
        return crawl(server, store, settings, "/a")


def of_a_page_that_is_refused(settings: Settings) -> Any:
    with site() as server, DuckDBStore.open(":memory:") as store:
        server.refusing = 1
        return crawl(server, store, settings, "/a")


def of_a_page_that_never_comes(settings: Settings) -> Any:
    with site() as server, DuckDBStore.open(":memory:") as store:
        server.mute = True
        return crawl(server, store, settings, "/a")


def stored_early(settings: Settings) -> bool:
    """Whether twenty pages are stored, in a store where a job has run, before anybody has waited for company."""
    with site() as server, DuckDBStore.open(":memory:", limits=WriterLimits(linger_s=3_600.0)) as store:
        crawl(server, store, settings, "/a")
        pages = [PageRow(f"http://a.test/{number}", job_id=1) for number in range(20)]
        stored = [store.submit(Batch(pages=[page])) for page in pages]
        with suppress(TimeoutError):
            stored[0].result(10.0 if settings.visiting.batch_size <= len(pages) else 0.1)
        return stored[0].done()


def most_at_once(settings: Settings) -> bool:
    with site() as server, DuckDBStore.open(":memory:") as store:
        crawl(server, store, settings)
        return server.most_at_once > 1


def through_a_proxy(settings: Settings) -> Any:
    """The site stands behind itself: a request that went through a proxy names a whole URL."""
    with site() as server, DuckDBStore.open(":memory:") as store:
        named = {**settings.given(), "http_proxy_password": settings.fetching.http_proxy_password}
        if named.get("http_proxy"):
            named["http_proxy"] = f"http://127.0.0.1:{server.server_address[1]}"
        named = {name: value for name, value in named.items() if value is not None}
        _, _, asked, headers, _ = crawl(server, store, Settings.of(named), "/a")
        return asked, [dict(each).get("proxy-authorization") for each in headers]
