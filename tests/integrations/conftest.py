"""A server on loopback that notes when each request came, and can refuse, redirect, dawdle and hang up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest


class Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.came: list[tuple[str, float]] = []
        self.go_on = threading.Event()  # the second half of /slow
        self.lock = threading.Lock()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def gaps(self) -> list[float]:
        instants = [instant for _, instant in self.came]
        return [later - earlier for earlier, later in pairwise(instants)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        site = self.server
        assert isinstance(site, Site)
        with site.lock:
            first = self.path not in [path for path, _ in site.came]
            site.came.append((self.path, time.monotonic()))
        if self.path == "/hangup":
            self.close_connection = True
        elif self.path == "/broken":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"x" * 10)
            self.close_connection = True
        elif self.path == "/busy" and first:
            self._say(429, ("Retry-After", "1"))
        elif self.path == "/moved":
            self._say(302, ("Location", "/page"))
        elif self.path == "/slow":
            self._say(200, body=b"x" * 100, half=site.go_on)
        else:
            self._say(200)

    def _say(
        self, status: int, *headers: tuple[str, str], body: bytes = b"hello", half: threading.Event | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        if half is not None:
            half.wait(30)
        self.wfile.write(body[len(body) // 2 :])

    def log_message(self, format: str, *args: object) -> None:
        """In silence."""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.go_on.set()
        server.shutdown()
        thread.join()
