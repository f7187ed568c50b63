"""How long a full sitemap takes and how much memory it needs, beside lxml's iterparse: `python -m bench.sitemaps`.

Each reader runs in a process of its own, told how many of the 50,000 entries it must find. `amble` gives normalised,
gated URLs and dates in UTC; lxml gives the text as it stands, so it does less.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile

ENTRY_COUNT = 50_000
RUNS = 5
URL = "https://www.example.com/sitemap.xml"
_NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def full_sitemap(count: int = ENTRY_COUNT) -> bytes:
    """A urlset as generators write it: every field, an escaped ampersand, one URL per page."""
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{_NAMESPACE}">\n'
    entry = (
        " <url>\n  <loc>https://www.example.com/catalog/section-{s}/item-{n}?lang=en&amp;v=2</loc>\n"
        "  <lastmod>2024-0{m}-1{d}T08:30:00+00:00</lastmod>\n  <changefreq>weekly</changefreq>\n"
        "  <priority>0.8</priority>\n </url>\n"
    )
    body = "".join(entry.format(s=n % 97, n=n, m=n % 9 + 1, d=n % 10) for n in range(count))
    return f"{head}{body}</urlset>\n".encode()


def read_whole(body: bytes) -> int:
    """All entries kept, as `read_sitemap` returns them."""
    from amble.core.sitemap.read import read_sitemap

    return len(read_sitemap(body, URL).entries)


def read_lxml(body: bytes) -> int:
    """The usual loop with lxml: text of the children, kept; elements cleared as they close."""
    from lxml import etree

    entries = []
    tag = f"{{{_NAMESPACE}}}url"
    for _event, element in etree.iterparse(BytesIO(body), tag=tag, resolve_entities=False, no_network=True):
        entries.append({child.tag.rpartition("}")[2]: child.text for child in element})
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]
    return len(entries)


def read_lxml_and_judge(body: bytes) -> int:
    """The same loop, with the URLs gated and the dates read: the work amble does."""
    from lxml import etree

    from amble.core.sitemap.collect import Collector
    from amble.core.sitemap.document import ReadLimits

    collector = Collector(URL, ReadLimits())
    tag = f"{{{_NAMESPACE}}}url"
    for _event, element in etree.iterparse(BytesIO(body), tag=tag, resolve_entities=False, no_network=True):
        fields = {child.tag.rpartition("}")[2]: child.text for child in element}
        collector.add(fields.get("loc"), fields.get("lastmod"), fields.get("changefreq"), fields.get("priority"))
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]
    return len(collector.entries)


READERS: dict[str, Callable[[bytes], int]] = {
    "amble": read_whole,
    "lxml iterparse": read_lxml,
    "lxml iterparse, URLs and dates judged": read_lxml_and_judge,
}


def measure(name: str, path: str) -> None:
    """In a process of its own: best CPU seconds of several runs, and how far memory rose above the body itself."""
    body = Path(path).read_bytes()
    read = READERS[name]
    read(full_sitemap(10))  # imports are not what is measured
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu_s = []
    for _ in range(RUNS):
        start = time.process_time()
        found = read(body)
        cpu_s.append(time.process_time() - start)
        if found != ENTRY_COUNT:
            sys.exit(f"{name} found {found} of {ENTRY_COUNT} entries")
    rise_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    print(f"| {name} | {min(cpu_s):.3f} | {rise_mib:.1f} |")


def main() -> None:
    """One row per reader. This process stays small, because a child's peak begins at its parent's."""
    with NamedTemporaryFile(suffix=".xml") as file:
        _run("write", file.name)
        print(f"{ENTRY_COUNT} entries, {Path(file.name).stat().st_size / 1e6:.1f} MB, best of {RUNS}")
        print("| reader | CPU s | peak memory over the body, MiB |\n|---|---|---|", flush=True)
        for name in READERS:
            _run(name, file.name)


def _run(what: str, path: str) -> None:
    subprocess.run([sys.executable, "-m", "bench.sitemaps", what, path], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        Path(sys.argv[2]).write_bytes(full_sitemap())
    elif len(sys.argv) == 3:
        measure(sys.argv[1], sys.argv[2])
    else:
        main()
