"""However a body is cut into pieces, and whatever it is, reading it gives the same and never raises."""

from __future__ import annotations

import gzip
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from amble.core.sitemap.document import ReadLimits, SitemapDocument
from amble.core.sitemap.read import SitemapReader, read_sitemap
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


@given(body=bodies, cuts=st.lists(st.integers(0, 400), max_size=8), entry_count_max=st.integers(1, 6))
@example(body=b"https://example.com/a\r\nhttps://example.com/b", cuts=[22], entry_count_max=9)
@settings(max_examples=400, deadline=None)
def test_pieces_give_what_the_whole_gives(body: bytes, cuts: list[int], entry_count_max: int) -> None:
    limits = ReadLimits(entry_count_max=entry_count_max)
    whole = read_sitemap(body, SITEMAP, limits)
    assert in_pieces(body, cuts, limits) == whole
    assert sum(map(bool, (whole.kind, whole.invalid))) == 1
    assert len(whole.entries) == len({entry.url for entry in whole.entries}) <= entry_count_max
    assert all(entry.url.startswith(("http://", "https://")) for entry in whole.entries)


def in_pieces(body: bytes, cuts: list[int], limits: ReadLimits) -> SitemapDocument:
    """The document as a reader puts it together."""
    reader = SitemapReader(SITEMAP, limits)
    entries = []
    marks = [0, *sorted(cuts), len(body)]
    for start, end in pairwise(marks):
        entries += reader.feed(body[start:end])
    entries += reader.close()
    return reader.document(entries)


@given(text=well_begun, cut=st.integers(0, 2000))
@settings(max_examples=300, deadline=None)
def test_b15_cutting_a_document_never_invents_or_reorders_entries(text: str, cut: int) -> None:
    body = text.encode("utf-8", "replace")
    whole = [entry.url for entry in read_sitemap(body, SITEMAP).entries]
    part = [entry.url for entry in read_sitemap(body[:cut], SITEMAP).entries]
    assert part == whole[: len(part)]


@given(body=st.binary(max_size=500))
@settings(max_examples=300, deadline=None)
def test_a_document_can_be_fed_after_it_has_finished(body: bytes) -> None:
    reader = SitemapReader(SITEMAP, ReadLimits(body_bytes_max=50))
    entries = reader.feed(body) + reader.feed(body) + reader.close()
    document = reader.document(entries)
    assert document.body_bytes <= 50
    assert reader.feed(b"https://example.com/late\n") == []
