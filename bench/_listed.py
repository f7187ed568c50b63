"""A site that has sitemaps and nothing else, written beforehand: a crawl of it shows what taking URLs in costs."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread

PER_FILE = 50_000
_PAGE = b"<title>An item</title><p>Nothing leads on from here."
_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


class ListedSite:
    """Serves from a process of its own; everything that is no sitemap is the same short page."""

    def __init__(self, host: str, urls: int) -> None:
        self._process = Popen([sys.executable, "-m", "bench._listed", host, str(urls)], stdin=PIPE, stdout=PIPE)
        assert self._process.stdout is not None
        self.url = f"http://{host}:{int(self._process.stdout.readline())}/"

    def __enter__(self) -> ListedSite:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # its standard input ends, and so does it


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if Path(self.translate_path(self.path)).is_file():
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(_PAGE)))
        self.end_headers()
        self.wfile.write(_PAGE)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def write(folder: Path, root: str, urls: int) -> None:
    """robots.txt, an index and as many sitemaps as it takes."""
    (folder / "robots.txt").write_text(f"User-agent: *\nAllow: /\n\nSitemap: {root}index.xml\n")
    files = range(0, urls, PER_FILE)
    listed = "".join(f"<sitemap><loc>{root}sitemap-{first}.xml</loc></sitemap>\n" for first in files)
    (folder / "index.xml").write_text(f"<sitemapindex {_NAMESPACE}>\n{listed}</sitemapindex>\n")
    for first in files:
        entries = "".join(
            f"<url><loc>{root}section-{n % 97}/item-{n}.html</loc><lastmod>2026-0{n % 9 + 1}-11</lastmod></url>\n"
            for n in range(first, min(first + PER_FILE, urls))
        )
        (folder / f"sitemap-{first}.xml").write_text(f"<urlset {_NAMESPACE}>\n{entries}</urlset>\n")


def serve(host: str, urls: int) -> None:
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
        server.daemon_threads = True
        port = server.server_address[1]
        write(Path(folder), f"http://{host}:{port}/", urls)
        Thread(target=server.serve_forever, daemon=True).start()
        print(port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
