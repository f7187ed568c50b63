"""However a body is cut into pieces, and whatever it is, reading it gives the same and never raises."""

from __future__ import annotations

import gzip
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amble.core.sitemap.document import ReadLimits
from amble.core.sitemap.read import PIECE_BYTES, read_sitemap
from tests.core.sitemap.documents import SITEMAP

FRAGMENTS = [
    "<urlset>", "</urlset>", "<sitemapindex>", "</sitemapindex>", "<url>", "</url>", "<sitemap>", "</sitemap>",
    "<loc>", "</loc>", "<loc/>", "<lastmod>", "</lastmod>", "<priority>0.5</priority>",
    "<changefreq>daily</changefreq>",
    "<rss>", "<channel>", "<item>", "</item>", "<link>", "</link>", "<link href='/l'/>", "<guid>", "</guid>", "<feed>",
    "<entry>", "</entry>", "<updated>", "</updated>", "<image:loc>", "</image:loc>", "<![CDATA[", "]]>", "<!--", "-->",
    "<!DOCTYPE x>", "<?xml version='1.0'?>", "https://example.com/a", "http://example.com/b", "/c", "2024-01-01",
    "&amp;", "&", "<", ">", "\n", " ", "\0", "\ufeff", "ä", "\ud83d\ude00", "example.com/d", "<x:url>", "</x:url>",
]  # fmt: skip

texts = st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join)
well_begun = texts.map(lambda text: f"<urlset><url><loc>/first</loc></url>{text}")
bodies = st.one_of(
    st.binary(max_size=300),
    texts.map(lambda text: text.encode("utf-8", "surrogatepass")),
    well_begun.map(lambda text: text.encode("utf-8", "surrogatepass")),
    well_begun.map(lambda text: text.encode("utf-16", "surrogatepass")),
    well_begun.map(lambda text: gzip.compress(text.encode("utf-8", "surrogatepass"))),
    well_begun.map(lambda text: gzip.compress(text.encode("utf-8", "surrogatepass"))[:-9]),
)


@given(body=bodies, entry_count_max=st.integers(1, 6))
@settings(max_examples=400, deadline=None)
def test_whatever_a_body_is_it_is_read(body: bytes, entry_count_max: int) -> None:
    document = read_sitemap(body, SITEMAP, ReadLimits(entry_count_max=entry_count_max))
    assert sum(map(bool, (document.kind, document.invalid))) == 1
    assert len(document.entries) == len({entry.url for entry in document.entries}) <= entry_count_max
    assert all(entry.url.startswith(("http://", "https://")) for entry in document.entries)


STARTS = {"xml": f"<urlset><!--{'x' * PIECE_BYTES}-->", "text": "x" * PIECE_BYTES + "\n"}
LINES = "https://example.com/a\r\nhttps://example.com/b"


@given(
    text=texts,
    encoding=st.sampled_from(["utf-8", "utf-16"]),
    cuts=st.lists(st.integers(0, 400), max_size=8),
    entry_count_max=st.integers(1, 6),
)
@example(text=LINES, encoding="utf-8", cuts=[22], entry_count_max=9)
@settings(max_examples=300, deadline=None)
@pytest.mark.parametrize("form", STARTS)
def test_pieces_give_what_the_whole_gives(
    form: str, text: str, encoding: str, cuts: list[int], entry_count_max: int
) -> None:
    """What follows the first piece is read as it is unpacked, and members of a gzip file may end anywhere."""
    start, limits = STARTS[form], ReadLimits(entry_count_max=entry_count_max)
    body = f"{start}{text}".encode(encoding, "surrogatepass")
    marks = [0, *sorted(min(len(body), len(start.encode(encoding)) + cut) for cut in cuts), len(body)]
    members = b"".join(gzip.compress(body[first:last], 1) for first, last in pairwise(marks))
    whole, parts = read_sitemap(body, SITEMAP, limits), read_sitemap(members, SITEMAP, limits)
    assert parts._replace(body_bytes=0) == whole._replace(body_bytes=0)  # one that breaks off is read no further


@given(text=well_begun, cut=st.integers(0, 2000))
@settings(max_examples=300, deadline=None)
def test_b15_cutting_a_document_never_invents_or_reorders_entries(text: str, cut: int) -> None:
    body = text.encode("utf-8", "replace")
    whole = [entry.url for entry in read_sitemap(body, SITEMAP).entries]
    part = [entry.url for entry in read_sitemap(body[:cut], SITEMAP).entries]
    assert part == whole[: len(part)]
