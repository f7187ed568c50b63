"""Documents made to do harm: nothing is opened, memory and time stay bounded, what came before is kept."""

from __future__ import annotations

import gc
import gzip
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from amble.core.sitemap.collect import Collector
from amble.core.sitemap.document import Invalid, ReadLimits, Verdict
from amble.core.sitemap.read import read_sitemap
from amble.core.sitemap.xml import DEPTH_MAX, NAMES_MAX, TOKEN_BYTES_MAX, XmlBody
from tests.core.sitemap.documents import SITEMAP, locs, urlset

MIB = 1024 * 1024

_touched: list[str] | None = None


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if _touched is not None and event.startswith(("open", "socket", "os.", "subprocess", "urllib", "import", "glob")):
        _touched.append(f"{event} {arguments!r}"[:200])


@contextmanager
def nothing_touched() -> Iterator[list[str]]:
    """Collects every file opened, name resolved, socket connected and module imported inside the block."""
    global _touched
    if not getattr(sys, "_amble_watched", False):
        sys.addaudithook(_watch)  # cannot be removed again, so there is one, which rests outside the block
        sys._amble_watched = True  # type: ignore[attr-defined]
    found: list[str] = []
    _touched = found
    try:
        yield found
    finally:
        _touched = None


def test_the_watch_sees_an_open_file() -> None:
    with nothing_touched() as touched, open(__file__):
        pass
    assert len(touched) == 1


LAUGHS = "".join(
    f'<!ENTITY l{level} "{f"&l{level - 1};" * 10}">' if level else '<!ENTITY l0 "ha">' for level in range(10)
)
A18 = [
    ("billion laughs", f"<!DOCTYPE urlset [{LAUGHS}]><urlset><url><loc>&l9;</loc></url></urlset>"),
    (
        "quadratic blowup",
        f'<!DOCTYPE u [<!ENTITY a "{"a" * 50_000}">]><urlset><url><loc>{"&a;" * 50_000}</loc></url></urlset>',
    ),
    (
        "a file as an entity",
        '<!DOCTYPE u [<!ENTITY a SYSTEM "file:///etc/passwd">]><urlset><url><loc>&a;</loc></url></urlset>',
    ),
    (
        "a URL as an entity",
        '<!DOCTYPE u [<!ENTITY a SYSTEM "http://127.0.0.1:9/">]><urlset><url><loc>&a;</loc></url></urlset>',
    ),
    (
        "a parameter entity",
        '<!DOCTYPE u [<!ENTITY % a SYSTEM "http://127.0.0.1:9/x.dtd"> %a;]><urlset><url><loc>/x</loc></url></urlset>',
    ),
    ("an external subset", '<!DOCTYPE urlset SYSTEM "file:///etc/passwd"><urlset><url><loc>/x</loc></url></urlset>'),
]


@pytest.mark.parametrize("body", [row[1] for row in A18], ids=[row[0] for row in A18])
def test_a18_a_document_type_is_refused_unread(body: str) -> None:
    read_sitemap(b"<urlset/>", SITEMAP)
    with nothing_touched() as touched:
        document = read_sitemap(body.encode(), SITEMAP)
    assert touched == []
    assert (document.invalid, document.entries) == (Invalid.DOCTYPE, ())


def test_a18_inclusion_and_stylesheets_are_not_followed() -> None:
    body = b"""<?xml-stylesheet href="http://127.0.0.1:9/x.xsl" type="text/xsl"?>
      <urlset xmlns:xi="http://www.w3.org/2001/XInclude" xsi:schemaLocation="x http://127.0.0.1:9/x.xsd">
      <url><loc><xi:include href="file:///etc/passwd" parse="text"/></loc></url>
      <xi:include href="http://127.0.0.1:9/"/><url><loc>/a</loc></url></urlset>"""
    with nothing_touched() as touched:
        document = read_sitemap(body, SITEMAP)
    assert touched == []
    assert [entry.url for entry in document.entries] == ["https://example.com/a"]


@contextmanager
def peak_below(limit_bytes: int) -> Iterator[None]:
    """Fails when more memory than this was in use at once inside the block."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit_bytes


def long(head: bytes, filler: Callable[[int], bytes], total_bytes: int = 20 * MIB) -> bytes:
    """A document that starts as a sitemap with one good entry and goes on with filler."""
    start = b"<urlset><url><loc>/a</loc></url>" + head
    pieces, sent, number = [start], 0, 0
    while sent < total_bytes:
        pieces.append(b"".join(filler(number + at) for at in range(1000)))
        number += 1000
        sent += len(pieces[-1])
    return b"".join(pieces)


FLOODS = [
    # story, start, filler, what is said
    ("one comment", b"<!--", lambda _: b"a" * 64, f"longer than {TOKEN_BYTES_MAX}"),
    ("one tag", b"<url ", lambda n: b"a%d='' " % n, f"longer than {TOKEN_BYTES_MAX}"),
    ("one attribute", b"<url a='", lambda _: b"a" * 64, f"longer than {TOKEN_BYTES_MAX}"),
    ("one processing instruction", b"<?x ", lambda _: b"a" * 64, f"longer than {TOKEN_BYTES_MAX}"),
    ("nesting", b"", lambda _: b"<a>", f"deeper than {DEPTH_MAX}"),
    ("nesting inside a location", b"<url><loc>", lambda _: b"<a>", f"deeper than {DEPTH_MAX}"),
    ("names of elements", b"", lambda n: b"<a%d/>" % n, f"more than {NAMES_MAX} different names"),
    ("names of attributes", b"", lambda n: b"<a b%d=''/>" % n, f"more than {NAMES_MAX} different names"),
    ("text in a location", b"<url><loc>", lambda _: b"a" * 64, "no element found"),
    ("CDATA in a location", b"<url><loc><![CDATA[", lambda _: b"a" * 64, "unclosed CDATA section"),
    ("text between entries", b"", lambda _: b"a" * 64, "no element found"),
    ("white space", b"", lambda _: b" " * 64, "no element found"),
    ("empty entries", b"", lambda _: b"<url/>", None),
    ("the same entry", b"", lambda _: b"<url><loc>/a</loc></url>", None),
]


@pytest.mark.parametrize(("head", "filler", "said"), [row[1:] for row in FLOODS], ids=[row[0] for row in FLOODS])
def test_floods_end_within_little_memory_and_keep_what_came_before(
    head: bytes, filler: Callable[[int], bytes], said: str | None
) -> None:
    body = long(head, filler)
    with peak_below(12 * MIB):
        document = read_sitemap(body, SITEMAP, ReadLimits(entry_count_max=10_000))
    assert len(document.entries) == 1
    if said is None:
        assert document.truncated
    else:
        assert document.broken is not None
        assert said in document.broken


def test_many_distinct_urls_stay_within_little_memory() -> None:
    def filler(number: int) -> bytes:
        return b"<url><loc>https://example.com/some/longer/path/%d</loc></url>" % number

    body = long(b"", filler)
    with peak_below(12 * MIB):
        document = read_sitemap(body, SITEMAP, ReadLimits(entry_count_max=20_000))
    assert len(document.entries) == 20_000
    assert document.truncated


def test_a1_a_gzip_bomb_stops_at_the_limit_on_decoded_bytes() -> None:
    bomb = gzip.compress(b"<urlset><url><loc>/a</loc></url>" + b" " * (200 * MIB), compresslevel=9)
    with peak_below(8 * MIB):
        document = read_sitemap(bomb, SITEMAP)
    assert (len(document.entries), document.truncated, document.body_bytes) == (1, True, 50 * MIB)


def test_a5_a_hundred_thousand_gzip_members_are_not_all_opened() -> None:
    member = gzip.compress(b" ", mtime=0)
    document = read_sitemap(gzip.compress(b"<urlset><url><loc>/a</loc></url>") + member * 100_000, SITEMAP)
    assert document.broken is not None
    assert "members" in document.broken


def _cpu_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


SHAPES: list[tuple[str, Callable[[int], bytes]]] = [
    ("entries", lambda n: locs(*(f"/{number}" for number in range(n)))),
    ("text in a location", lambda n: urlset(f"<loc>{'a' * n * 20}</loc>")),
    ("entities in a location", lambda n: urlset(f"<loc>{'&amp;' * n * 4}</loc>")),
    ("elements in a location", lambda n: urlset(f"<loc>{'a<b/>' * n * 4}</loc>")),
    ("comments", lambda n: urlset("<!-- x -->" * n * 4)),
    ("comments before the root", lambda n: b"<!--a-->" * n + b"<urlset/>"),
    ("half comments before the root", lambda n: b"<!-" * n * 8),
    ("text lines", lambda n: b"https://example.com/\n" * n),
    ("one text line", lambda n: b"https://example.com/" * n),
]


@pytest.mark.parametrize("shape", [row[1] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_time_grows_with_length_and_no_faster(shape: Callable[[int], bytes]) -> None:
    small, large = shape(10_000), shape(40_000)
    limits = ReadLimits(entry_count_max=100_000)
    ratio = _cpu_s(lambda: read_sitemap(large, SITEMAP, limits)) / max(
        _cpu_s(lambda: read_sitemap(small, SITEMAP, limits)), 0.002
    )
    assert ratio < 9  # 4 times the length; quadratic would be 16


def test_a_reader_let_go_is_gone_at_once() -> None:
    """A cycle through the parser would keep 50,000 URLs per sitemap in memory until the next garbage collection."""
    gc.disable()
    try:
        collector = Collector(SITEMAP, ReadLimits())
        XmlBody(collector, Verdict()).feed(locs("/a").decode())
        gone = weakref.ref(collector)
        del collector
        assert gone() is None
    finally:
        gc.enable()
