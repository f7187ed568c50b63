"""What each accepted form lists, and which bodies are refused."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest

from amble.core.sitemap.document import ChangeFreq, Drop, Invalid, ReadLimits, SitemapEntry, SitemapKind
from amble.core.sitemap.read import read_sitemap
from amble.core.urls import Refusal
from amble.errors import BadUrl
from tests.core.sitemap.documents import SITEMAP, index, locs, urlset


def urls(body: bytes | str, url: str = SITEMAP) -> list[str]:
    """The URLs a body lists."""
    body = body.encode() if isinstance(body, str) else body
    return [entry.url for entry in read_sitemap(body, url).entries]


def test_an_entry_carries_everything_its_sitemap_validly_says() -> None:
    body = urlset(
        "<loc>https://example.com/a</loc><lastmod>2024-05-06T07:08:09+02:00</lastmod>"
        "<changefreq>Daily</changefreq><priority>0.7</priority>"
    )
    document = read_sitemap(body, SITEMAP)
    assert document.kind is SitemapKind.URLSET
    assert document.entries == (
        SitemapEntry("https://example.com/a", datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC), ChangeFreq.DAILY, 0.7),
    )
    assert document.body_bytes == len(body)
    assert (document.invalid, document.broken, document.truncated) == (None, None, False)


LOCATIONS = [
    # story, text of the loc, URL
    ("white space around", "\n\t https://example.com/a \n", "https://example.com/a"),
    ("white space of other scripts", "\u00a0\u2003https://example.com/a\u3000", "https://example.com/a"),
    ("CDATA", "<![CDATA[ https://example.com/?a=1&b=2 ]]>", "https://example.com/?a=1&b=2"),
    ("text, then CDATA", "https://example.com/<![CDATA[?a=1&b=2]]>", "https://example.com/?a=1&b=2"),
    ("an entity", "https://example.com/?a=1&amp;b=2", "https://example.com/?a=1&b=2"),
    ("a character reference", "https://example.com/&#x61;&#98;", "https://example.com/ab"),
    ("a comment inside", "https://example.com/<!-- no -->a", "https://example.com/a"),
    ("an element inside", "<url>https://example.com/a</url>", "https://example.com/a"),
    ("an absolute path", "/a", "https://example.com/a"),
    ("a relative path", "a?b", "https://example.com/maps/a?b"),
    ("a scheme-relative address", "//example.com/a", "https://example.com/a"),
    ("the own host, scheme left out", "example.com/a", "https://example.com/a"),
    ("the own host and port, scheme left out", "example.com:8443/a", "https://example.com:8443/a"),
    ("the own host with www", "WWW.example.com", "https://www.example.com/"),
    (
        "a name that only begins like the own host",
        "example.community/a",
        "https://example.com/maps/example.community/a",
    ),
    ("a double slash on the own host", "https://example.com//other.example/a", "https://example.com//other.example/a"),
    ("a backslash on the own host", "https://example.com/\\other.example/a", "https://example.com//other.example/a"),
    ("a fragment", "https://example.com/a#b", "https://example.com/a"),
    ("userinfo", "https://user:secret@example.com/a", "https://example.com/a"),
    ("upper case", "HTTPS://EXAMPLE.COM/A", "https://example.com/A"),
    ("another script", "https://example.com/ä", "https://example.com/%C3%A4"),
]


@pytest.mark.parametrize(("text", "url"), [row[1:] for row in LOCATIONS], ids=[row[0] for row in LOCATIONS])
def test_a_location_is_read_as_it_was_meant(text: str, url: str) -> None:
    assert urls(locs(text)) == [url]


REFUSED = [
    # story, inside of the url element, reason
    ("no location", "<lastmod>2024-01-01</lastmod>", Drop.NO_URL),
    ("an empty location", "<loc> </loc>", Drop.NO_URL),
    ("only an image's location", "<i:image><i:loc>https://example.com/i</i:loc></i:image>", Drop.NO_URL),
    ("a file", "<loc>file:///etc/passwd</loc>", Refusal.NOT_HTTP),
    ("a script", "<loc>javascript:alert(1)</loc>", Refusal.NOT_HTTP),
    ("an address that is none", "<loc>https://exa mple.com/</loc>", Refusal.NOT_A_URL),
    ("a location of two megabytes", f"<loc>https://example.com/{'a' * 2_000_000}</loc>", Refusal.TOO_LONG),
    ("the same again", "<loc>https://EXAMPLE.com:443/first#x</loc>", Drop.DUPLICATE),
]


@pytest.mark.parametrize(("inside", "reason"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_b12_what_cannot_be_fetched_is_dropped_and_counted(inside: str, reason: Drop | Refusal) -> None:
    body = urlset("<loc>https://example.com/first</loc>", inside, "<loc>https://example.com/last</loc>")
    document = read_sitemap(body, SITEMAP)
    assert [entry.url for entry in document.entries] == ["https://example.com/first", "https://example.com/last"]
    assert document.dropped == {reason: 1}


GARBAGE = [
    ("lastmod in words", "<lastmod>yesterday</lastmod>"),
    ("lastmod in the year 9999", "<lastmod>9999-12-31</lastmod>"),
    ("changefreq unknown", "<changefreq>sometimes</changefreq>"),
    ("priority too high", "<priority>1.1</priority>"),
    ("priority negative", "<priority>-0.5</priority>"),
    ("priority no number", "<priority>nan</priority>"),
    ("priority with a comma", "<priority>0,5</priority>"),
    ("priority huge", "<priority>1e999</priority>"),
    ("all empty", "<lastmod/><changefreq/><priority/>"),
]


@pytest.mark.parametrize("garbage", [row[1] for row in GARBAGE], ids=[row[0] for row in GARBAGE])
def test_b13_a_bad_field_is_left_out_and_the_url_kept(garbage: str) -> None:
    document = read_sitemap(urlset(f"<loc>https://example.com/a</loc>{garbage}"), SITEMAP)
    assert document.entries == (SitemapEntry("https://example.com/a"),)


def test_b13_nothing_leaks_from_one_entry_to_the_next() -> None:
    full = "<lastmod>2024-01-01</lastmod><changefreq>hourly</changefreq><priority>1.0</priority>"
    document = read_sitemap(
        urlset(f"{full}<loc>/a</loc>", "<loc>/b</loc>", f"<loc></loc>{full}", "<loc>/c</loc>"), SITEMAP
    )
    january = datetime(2024, 1, 1, tzinfo=UTC)
    assert document.entries == (
        SitemapEntry("https://example.com/a", january, ChangeFreq.HOURLY, 1.0),
        SitemapEntry("https://example.com/b"),
        SitemapEntry("https://example.com/c"),
    )


def test_extensions_neither_add_urls_nor_dates() -> None:
    body = urlset(
        """<loc>https://example.com/a</loc>
           <xhtml:link rel="alternate" hreflang="de" href="https://example.com/de"/>
           <image:image><image:loc>https://example.com/i.jpg</image:loc></image:image>
           <image:loc>https://example.com/j.jpg</image:loc>
           <video:video><video:publication_date>2020-01-01</video:publication_date>
             <video:url><video:loc>https://example.com/v</video:loc></video:url></video:video>
           <news:news><news:lastmod>2020-01-01</news:lastmod></news:news>
           <PageMap xmlns="x"><DataObject><Attribute name="loc">b</Attribute><loc>/c</loc></DataObject></PageMap>"""
    )
    assert read_sitemap(body, SITEMAP).entries == (SitemapEntry("https://example.com/a"),)


NAMESPACES = [
    ("the right one", "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>/a</loc></url></urlset>"),
    ("none", "<urlset><url><loc>/a</loc></url></urlset>"),
    ("a wrong one", "<urlset xmlns='https://example.org/x'><url><loc>/a</loc></url></urlset>"),
    ("a prefix", "<s:urlset xmlns:s='x'><s:url><s:loc>/a</s:loc></s:url></s:urlset>"),
    ("a prefix nobody declared", "<s:urlset><s:url><s:loc>/a</s:loc></s:url></s:urlset>"),
    ("a prefix below the root only", "<urlset><s:url><s:loc>/a</s:loc></s:url></urlset>"),
    ("a prefix outside only", "<s:urlset><url><loc>/a</loc></url></s:urlset>"),
    ("upper case", "<URLSET><Url><LOC>/a</LOC></Url></URLSET>"),
    ("an XML declaration after white space", "\ufeff \n<?xml version='1.0'?><urlset><url><loc>/a</loc></url></urlset>"),
    ("a misspelt XML declaration", "<?xml version=1 encodin='utf8'?><urlset><url><loc>/a</loc></url></urlset>"),
    ("a comment before the declaration", "<!-- v2 --><?xml version='1.0'?><urlset><url><loc>/a</loc></url></urlset>"),
    ("a warning before the declaration", "Notice: x\n<?xml version='1.0'?><urlset><url><loc>/a</loc></url></urlset>"),
    (
        "a warning in HTML before the declaration",
        "<br /><b>Warning</b>: x\n<?xml version='1.0'?><urlset><url><loc>/a</loc></url></urlset>",
    ),
    ("a stylesheet", "<?xml-stylesheet href='x.xsl'?><urlset><url><loc>/a</loc></url></urlset>"),
    ("a comment before the root", "<!-- <html> --><urlset><url><loc>/a</loc></url></urlset>"),
    ("attributes", "<urlset a='1'><url b='2'><loc c='3'>/a</loc></url></urlset>"),
]


@pytest.mark.parametrize("body", [row[1] for row in NAMESPACES], ids=[row[0] for row in NAMESPACES])
def test_sloppy_xml_is_still_a_sitemap(body: str) -> None:
    assert urls(body) == ["https://example.com/a"]


DATED = "<lastmod>2024-01-01</lastmod>"
FORGOTTEN_TAGS = [
    ("two locations in one entry", f"<sitemap><loc>/a</loc>{DATED}<loc>/b</loc></sitemap>"),
    ("an entry inside an entry", f"<sitemap><loc>/a</loc>{DATED}<sitemap><loc>/b</loc></sitemap></sitemap>"),
    (
        "no loc around the address",
        f"<sitemap>https://example.com/a{DATED}</sitemap><sitemap>\nhttps://example.com/b\n</sitemap>",
    ),
]


@pytest.mark.parametrize("inside", [row[1] for row in FORGOTTEN_TAGS], ids=[row[0] for row in FORGOTTEN_TAGS])
def test_b15_forgotten_tags_cost_no_entry(inside: str) -> None:
    document = read_sitemap(f"<sitemapindex>{inside}</sitemapindex>".encode(), SITEMAP)
    assert document.kind is SitemapKind.INDEX
    assert document.entries == (
        SitemapEntry("https://example.com/a", datetime(2024, 1, 1, tzinfo=UTC)),
        SitemapEntry("https://example.com/b"),
    )


def test_an_index_lists_sitemaps() -> None:
    document = read_sitemap(index("/1.xml", "/2.xml.gz"), SITEMAP)
    assert document.kind is SitemapKind.INDEX
    assert [entry.url for entry in document.entries] == ["https://example.com/1.xml", "https://example.com/2.xml.gz"]


def test_an_empty_urlset_is_a_sitemap_of_nothing() -> None:
    document = read_sitemap(b"<urlset/>", SITEMAP)
    assert (document.kind, document.entries, document.invalid) == (SitemapKind.URLSET, (), None)


TEXTS = [
    ("unix line ends", b"https://example.com/a\nhttps://example.com/b\n"),
    ("windows line ends, blank lines", b"\r\n\r\nhttps://example.com/a\r\n\r\nhttps://example.com/b"),
    ("old mac line ends", b"https://example.com/a\rhttps://example.com/b\r"),
    ("byte order mark", b"\xef\xbb\xbfhttps://example.com/a\nhttps://example.com/b"),
    ("UTF-16", "\ufeffhttps://example.com/a\nhttps://example.com/b".encode("utf-16-le")),
    ("white space around", b"  https://example.com/a \t\n\thttps://example.com/b"),
    ("prose between", b"# our pages\nhttps://example.com/a\nnot a URL\nftp://example.com/x\nHTTPS://example.com/b"),
    ("scheme left out", b"example.com/a\nexample.com/b"),
    ("gzip", gzip.compress(b"https://example.com/a\nhttps://example.com/b\n")),
    ("duplicates", b"https://example.com/a\nhttps://example.com/b\nhttps://example.com/a\n"),
]


@pytest.mark.parametrize("body", [row[1] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_plain_text_lists_one_url_per_line(body: bytes) -> None:
    document = read_sitemap(body, SITEMAP)
    assert document.kind is SitemapKind.TEXT
    assert [entry.url for entry in document.entries] == ["https://example.com/a", "https://example.com/b"]


INVALID = [
    ("nothing", b"", Invalid.EMPTY),
    ("white space", b" \n " * 5000, Invalid.EMPTY),
    ("a login page", b"<!DOCTYPE html><html><form action=/login>", Invalid.HTML),
    ("a page in capitals", b"\n<HTML><body>404", Invalid.HTML),
    ("a page after a comment", b"<!-- x --> <!-- y -->\n<!doctype HTML>", Invalid.HTML),
    ("XHTML", b"<?xml version='1.0'?><!DOCTYPE html PUBLIC 'a' 'b'><html/>", Invalid.HTML),
    ("a fragment of a page", b"<div>Not found</div>", Invalid.UNKNOWN_ROOT),
    ("a page whose tags do not match", b"<p>Not found<br></p>", Invalid.UNKNOWN_ROOT),
    ("another XML", b"<svg/>", Invalid.UNKNOWN_ROOT),
    ("markup that never opens an element", b"<<<", Invalid.NOT_XML),
    ("a document type", b"<!DOCTYPE urlset><urlset/>", Invalid.DOCTYPE),
    ("prose", b"this is no sitemap", Invalid.NO_URLS),
    ("JSON", b'{"urls": ["https://example.com/a"]}', Invalid.NO_URLS),
    ("robots.txt", b"User-agent: *\nSitemap: https://example.com/sitemap.xml\n", Invalid.NO_URLS),
    ("gzip in gzip", gzip.compress(gzip.compress(locs("/a"))), Invalid.NESTED_GZIP),
    ("a tar in gzip", gzip.compress(b"sitemap.xml".ljust(257, b"\0") + b"ustar\x0000" + bytes(2000)), Invalid.ARCHIVE),
    ("a zip", b"PK\x03\x04sitemap.xml", Invalid.ARCHIVE),
    ("an image", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", Invalid.BINARY),
    ("a gzip header and garbage", b"\x1f\x8b" + b"garbage" * 99, Invalid.BAD_GZIP),
    ("two bytes of gzip", b"\x1f\x8b", Invalid.BAD_GZIP),
    ("one byte", b"\x1f", Invalid.NO_URLS),
]


@pytest.mark.parametrize(("body", "invalid"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
def test_b14_a_body_that_is_no_sitemap_is_a_value_not_an_error(body: bytes, invalid: Invalid) -> None:
    document = read_sitemap(body, SITEMAP)
    assert (document.invalid, document.kind, document.entries) == (invalid, None, ())


def test_b14_gzip_is_known_by_its_bytes_whatever_the_name_says() -> None:
    body = locs("/a", "/b")
    for url in ("https://example.com/sitemap.xml", "https://example.com/sitemap.xml.gz", "https://example.com/x.txt"):
        assert urls(gzip.compress(body), url) == urls(body, url) == ["https://example.com/a", "https://example.com/b"]


def test_b14_gzip_in_several_members_and_with_padding_is_read_whole() -> None:
    body = locs("/a", "/b")
    assert urls(gzip.compress(body[:40]) + gzip.compress(body[40:]) + bytes(512)) == urls(body)


CUT_SHORT = [
    # story, what follows <urlset><url><loc>/a</loc></url>, what is kept of it
    ("between entries", " ", []),
    ("in an opening tag", "<url><lo", []),
    ("in the middle of a location", "<url><loc>/half-of-a-na", []),
    ("at the end of a location, before its tag", "<url><loc>/maybe-whole", []),
    ("in the tag that closes a location", "<url><loc>/b</lo", ["/b"]),
    ("right after a location", "<url><loc>/b</loc>", ["/b"]),
    ("in the next field", "<url><loc>/b</loc><lastmod>2024-0", ["/b"]),
    ("in a field before the location", "<url><lastmod>2024-01-01</lastm", []),
    ("in an address without a loc around it", "<url>https://example.com/half-of-a-na", []),
    ("in CDATA", "<url><loc><![CDATA[/b", []),
    ("in a comment", "<url><loc>/b</loc><!-- ", ["/b"]),
    ("by a tag that does not match", "<url><loc>/b</loc></wrong></url><url><loc>/c</loc></url></urlset>", ["/b"]),
    ("by a bare ampersand", "<url><loc>/?a=1&b=2</loc></url><url><loc>/c</loc></url></urlset>", []),
    ("by an entity nobody defined", "<url><loc>/&eacute;</loc></url><url><loc>/c</loc></url></urlset>", []),
    ("by a control character", "<url><loc>/b</loc><x>\x01</x></url></urlset>", ["/b"]),
    ("by a second root", "</urlset><urlset><url><loc>/c</loc></url></urlset>", []),
]


@pytest.mark.parametrize(("rest", "kept"), [row[1:] for row in CUT_SHORT], ids=[row[0] for row in CUT_SHORT])
def test_b15_broken_xml_keeps_what_was_read(rest: str, kept: list[str]) -> None:
    document = read_sitemap(f"<urlset><url><loc>/a</loc></url>{rest}".encode(), SITEMAP)
    assert [entry.url for entry in document.entries] == [f"https://example.com{path}" for path in ["/a", *kept]]
    assert document.broken is not None
    assert document.broken.startswith("xml: ")
    assert document.invalid is None
    assert all(entry.lastmod is None for entry in document.entries)
    assert document.dropped == {}


def test_b15_broken_gzip_keeps_what_was_read() -> None:
    packed = gzip.compress(locs(*(f"/{number}" for number in range(5000))), mtime=0)
    cut = read_sitemap(packed[: len(packed) // 2], SITEMAP)
    assert 1000 < len(cut.entries) < 5000
    assert cut.entries[-1].url == f"https://example.com/{len(cut.entries) - 1}"
    assert cut.broken == "gzip: the data ends too early"
    text = gzip.compress("".join(f"https://example.com/{number:0100}\n" for number in range(999)).encode())
    assert all(len(entry.url) == 120 for entry in read_sitemap(text[: len(text) // 2], SITEMAP).entries)
    wrong_checksum = read_sitemap(packed[:-8] + bytes(8), SITEMAP)
    assert len(wrong_checksum.entries) == 5000
    assert wrong_checksum.broken is not None


def test_b11_the_entry_after_the_last_allowed_one_makes_it_truncated() -> None:
    limits = ReadLimits(entry_count_max=3)
    exact = read_sitemap(locs("/1", "/2", "/3", "/1", "file:///x"), SITEMAP, limits)
    assert (len(exact.entries), exact.truncated) == (3, False)
    over = read_sitemap(locs("/1", "/2", "/3", "/4", "/5"), SITEMAP, limits)
    assert ([entry.url[-1] for entry in over.entries], over.truncated) == (["1", "2", "3"], True)
    assert (over.invalid, over.broken) == (None, None)
    text = read_sitemap(b"https://example.com/1\nhttps://example.com/2\n", SITEMAP, ReadLimits(entry_count_max=1))
    assert (len(text.entries), text.truncated) == (1, True)


def test_b11_fifty_thousand_and_one_urls_give_fifty_thousand() -> None:
    body = locs(*(f"/{number}" for number in range(50_001)))
    document = read_sitemap(body, SITEMAP)
    assert (len(document.entries), document.truncated) == (50_000, True)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_b11_bytes_over_the_limit_are_not_read(pack: type[bytes]) -> None:
    body = locs(*(f"/{number:04}" for number in range(9999)))
    one = len("<url><loc>/0000</loc></url>")
    head = body.index(b"<url>")
    limits = ReadLimits(body_bytes_max=head + 100 * one + one // 2)
    document = read_sitemap(pack(body), SITEMAP, limits)
    assert (len(document.entries), document.truncated, document.broken) == (100, True, None)
    assert document.body_bytes == limits.body_bytes_max


def test_b11_the_half_line_at_the_limit_is_not_taken_for_a_url() -> None:
    document = read_sitemap(b"https://example.com/a\nhttps://example.com/bcd", SITEMAP, ReadLimits(body_bytes_max=40))
    assert ([entry.url for entry in document.entries], document.truncated) == (["https://example.com/a"], True)


def test_a_sitemap_at_no_url_is_the_callers_mistake() -> None:
    with pytest.raises(BadUrl):
        read_sitemap(b"<urlset/>", "sitemap.xml")


def test_b11_a_location_that_is_whole_at_the_limit_is_kept() -> None:
    body = locs("/a", "/b", "/c")
    limits = ReadLimits(body_bytes_max=body.index(b"/b</loc>") + len("/b</lo"))
    document = read_sitemap(body, SITEMAP, limits)
    assert [entry.url for entry in document.entries] == ["https://example.com/a", "https://example.com/b"]
    assert (document.truncated, document.broken) == (True, None)


A, B = "https://example.com/a", "https://example.com/b"


@pytest.mark.parametrize(
    ("story", "body", "listed"),
    [
        ("between entries", locs(A, B).partition(b"</url>")[0] + b"</url>", [A]),
        ("within a location", locs(A, B)[: locs(A, B).index(B.encode()) + 15], [A]),
        ("within a line", f"{A}\n{B[:-1]}".encode(), [A]),
        ("within gzip", gzip.compress(locs(A, B))[:-8], [A, B]),
    ],
)
def test_b11_a_body_that_was_cut_when_it_was_fetched_is_truncated_not_broken(
    story: str, body: bytes, listed: list[str]
) -> None:
    document = read_sitemap(body, SITEMAP, cut=True)
    assert [entry.url for entry in document.entries] == listed, story
    assert (document.truncated, document.broken, document.invalid) == (True, None, None)
