"""RSS and Atom, read as lists of pages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from amble.core.sitemap.document import SitemapEntry, SitemapKind
from amble.core.sitemap.read import read_sitemap
from tests.core.sitemap.documents import SITEMAP

MAY = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)

ITEMS = [
    # story, inside of the item, URL, date
    ("link and pubDate", "<link>/a</link><pubDate>Mon, 06 May 2024 09:08:09 +0200</pubDate>", "/a", MAY),
    ("W3C date of Dublin Core", "<link>/a</link><dc:date>2024-05-06T07:08:09Z</dc:date>", "/a", MAY),
    ("permalink", "<guid isPermaLink='true'>https://example.com/a</guid>", "/a", None),
    ("link before permalink", "<guid>https://example.com/g</guid><link>/a</link>", "/a", None),
    ("empty link, permalink", "<link/><guid>https://example.com/a</guid>", "/a", None),
    ("guid that is no address, link", "<guid isPermaLink='false'>tag:1</guid><link>/a</link>", "/a", None),
    ("link of another vocabulary", "<atom:link href='https://example.com/s' rel='self'/><link>/a</link>", "/a", None),
    ("date without a zone", "<link>/a</link><pubDate>06 May 2024 07:08:09</pubDate>", "/a", None),
    ("two links", "<link>/a</link><link>/b</link>", "/a", None),
    ("media with a url", "<link>/a</link><media:content><link>/m</link></media:content>", "/a", None),
]


@pytest.mark.parametrize(("item", "path", "date"), [row[1:] for row in ITEMS], ids=[row[0] for row in ITEMS])
def test_an_rss_item_is_one_page(item: str, path: str, date: datetime | None) -> None:
    channel = "<link>https://example.com/home</link><pubDate>Wed, 01 Jan 2020 00:00:00 GMT</pubDate>"
    image = "<image><url>https://example.com/i.gif</url><link>https://example.com/</link></image>"
    body = f"<rss version='2.0'><channel>{channel}{image}<item>{item}</item></channel></rss>"
    document = read_sitemap(body.encode(), SITEMAP)
    assert document.kind is SitemapKind.RSS
    assert document.entries == (SitemapEntry(f"https://example.com{path}", date),)


def test_an_item_without_an_address_is_counted() -> None:
    body = b"<rss><channel><item><guid>7bd2</guid></item><item><title>x</title></item></channel></rss>"
    document = read_sitemap(body, SITEMAP)
    assert (document.entries, sum(document.dropped.values())) == ((), 2)


def test_rss_1_items_stand_beside_the_channel() -> None:
    body = b"""<rdf:RDF xmlns:rdf="r" xmlns="http://purl.org/rss/1.0/">
      <channel rdf:about="https://example.com/feed"><link>https://example.com/home</link></channel>
      <item rdf:about="https://example.com/about"><link>https://example.com/a</link></item>
      <item rdf:about="https://example.com/b"/></rdf:RDF>"""
    document = read_sitemap(body, SITEMAP)
    assert document.kind is SitemapKind.RSS
    assert [entry.url for entry in document.entries] == ["https://example.com/a", "https://example.com/b"]


ENTRIES = [
    ("link without rel", "<link href='/a'/><updated>2024-05-06T07:08:09Z</updated>", "/a", MAY),
    ("alternate among others", "<link rel='self' href='/s'/><link rel='alternate' href='/a'/>", "/a", None),
    ("the first alternate", "<link href='/a'/><link rel='alternate' href='/b'/>", "/a", None),
    ("a link without href first", "<link/><link href='/a'/>", "/a", None),
    (
        "updated over published",
        f"<link href='/a'/><published>2020-01-01</published><updated>{MAY:%FT%TZ}</updated>",
        "/a",
        MAY,
    ),
    ("published alone", "<link href='/a'/><published>2024-05-06T07:08:09Z</published>", "/a", MAY),
    ("Atom 0.3", "<link rel='alternate' href='/a'/><issued>2024-05-06T07:08:09Z</issued>", "/a", MAY),
    ("links in the content", "<content><div><link href='/x'/></div></content><link href='/a'/>", "/a", None),
    ("dates in the source", "<link href='/a'/><source><updated>2024-05-06T07:08:09Z</updated></source>", "/a", None),
]


@pytest.mark.parametrize(("entry", "path", "date"), [row[1:] for row in ENTRIES], ids=[row[0] for row in ENTRIES])
@pytest.mark.parametrize("prefix", ["", "atom:"], ids=["plain", "prefixed"])
def test_an_atom_entry_is_one_page(entry: str, path: str, date: datetime | None, prefix: str) -> None:
    head = "<link href='https://example.com/home'/><updated>2020-01-01T00:00:00Z</updated>"
    body = f"<feed>{head}<entry>{entry}</entry></feed>"
    body = body.replace("</", "\0").replace("<", f"<{prefix}").replace("\0", f"</{prefix}")
    document = read_sitemap(body.encode(), SITEMAP)
    assert document.kind is SitemapKind.ATOM
    assert document.entries == (SitemapEntry(f"https://example.com{path}", date),)


def test_a_feed_with_a_document_type_is_refused() -> None:
    body = b"""<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "https://example.com/rss.dtd">
      <rss version="0.91"><channel><item><link>/a</link></item></channel></rss>"""
    assert read_sitemap(body, SITEMAP).entries == ()
