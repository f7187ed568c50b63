"""One call from bytes to everything a page says."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.body_kind import Kind
from amble.core.charset import Charset, CharsetSource
from amble.core.headers import Headers
from amble.core.page.canonical import Canonical
from amble.core.page.guard import TAGS_MAX
from amble.core.page.lines import LinkLines
from amble.core.page.links import Link
from amble.core.page.page import Page, read_page
from amble.core.page.refresh import Refresh
from amble.errors import BadUrl
from tests.conformance import conformance

URL = "https://a.test/dir/page"
BODY = """<!doctype html>
<html lang="en-GB">
<head>
<meta charset="utf-8">
<title>A caf\u00e9
  &amp; more</title>
<base href="/base/">
<meta name="Description" content=" What it   is about ">
<meta name="robots" content="noarchive">
<meta name="amble" content="nofollow">
<meta http-equiv="Refresh" content="30; url=later">
<link rel="canonical" href="page">
</head>
<body>
<a href="one">First</a> <a href="two#part" rel="nofollow ugc"><b>Second</b></a>
<a href="one">again</a> <a href="#here">here</a> <a href="javascript:go()">go</a> <a href="//b.test/">B</a>
</body></html>
""".encode()


def test_an_ordinary_page() -> None:
    page = read_page(BODY, URL, "text/html", [("X-Robots-Tag", "otherbot: noindex"), ("x-robots-tag", "nosnippet")])
    assert page == Page(
        url=URL,
        kind=Kind.HTML,
        content_type="text/html",
        charset=Charset("utf-8", CharsetSource.META),
        text=BODY.decode(),
        digest=sha256(BODY).hexdigest(),
        title="A caf\u00e9 & more",
        description="What it is about",
        lang="en-GB",
        base="https://a.test/base/",
        canonical=Canonical("https://a.test/base/page", "tag"),
        refresh=Refresh(30, "https://a.test/base/later"),
        robots=page.robots,
        links=(
            Link("https://a.test/base/one", "First"),
            Link("https://a.test/base/two", "Second", ("nofollow", "ugc")),
            Link("https://b.test/", "B"),
        ),
        links_seen=6,
        links_truncated=False,
        links_dropped=(("fragment", 1), ("javascript", 1)),
        reader="plain",
        lines=LinkLines(
            5,
            "https://a.test/base/one\t\tFirst\nhttps://a.test/base/two\tnofollow ugc\tSecond\nhttps://b.test/\t\tB\n"
            "https://a.test/base/page\tcanonical\t\nhttps://a.test/base/later\trefresh\t",
        ),
    )
    assert page.robots.restrictions == {"noarchive", "nofollow", "nosnippet"}


def test_a_large_page_says_the_same_through_the_other_reader() -> None:
    page = read_page(BODY + b"<I>" * (TAGS_MAX + 1), URL, "text/html")
    small = read_page(BODY, URL, "text/html")
    assert (page.reader, small.reader) == ("tokens", "plain")
    for name in ("title", "description", "lang", "base", "canonical", "refresh", "robots", "links", "links_dropped"):
        assert getattr(page, name) == getattr(small, name)


def test_a_page_cannot_be_changed() -> None:
    page = read_page(b"", URL)
    with pytest.raises(AttributeError):
        page.title = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("content_type", "body", "kind", "text"),
    [
        ("text/plain", b"<a href=x>", Kind.TEXT, "<a href=x>"),
        ("image/png", b"\x89PNG\r\n\x1a\n", Kind.BINARY, None),
        ("text/html", b"\x89PNG\r\n\x1a\n", Kind.BINARY, None),
        ("application/rss+xml", b"<rss>\xc3\xa9", Kind.XML, "<rss>\u00e9"),
        (None, b"", Kind.TEXT, ""),
    ],
)
def test_what_is_no_html_has_no_links_but_heeds_its_headers(
    content_type: str | None, body: bytes, kind: Kind, text: str | None
) -> None:
    headers = Headers([("Link", "</c>; rel=canonical"), ("X-Robots-Tag", "noindex"), ("Refresh", "1; url=/r")])
    page = read_page(body, URL, content_type, headers)
    assert (page.kind, page.text, page.links, page.title, page.reader) == (kind, text, (), None, None)
    assert page.canonical == Canonical("https://a.test/c", "header")
    assert page.refresh == Refresh(1, "https://a.test/r")
    assert page.robots.noindex


def test_the_header_tells_the_type_unless_the_caller_does() -> None:
    headers = [("Content-Type", "text/html; charset=koi8-r")]
    assert read_page(b"\xd0", URL, None, headers).text == "\u043f"
    assert read_page(b"\xd0", URL, "text/plain; charset=latin1", headers).text == "\u00d0"


def test_an_image_that_is_html_is_read_as_html() -> None:
    """A17."""
    page = read_page(b"<!doctype html><a href=x>y</a>", URL, "image/png")
    assert [link.url for link in page.links] == ["https://a.test/dir/x"]


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("/b/", "https://a.test/b/x"),
        ("//b.test/b/c?q#f", "https://b.test/b/x"),
        ("", "https://a.test/dir/x"),
        ("javascript:alert(1)//", "https://a.test/dir/x"),
        ("data:text/html,", "https://a.test/dir/x"),
        ("ftp://a.test/", "https://a.test/dir/x"),
        ("http://[", "https://a.test/dir/x"),
    ],
)
def test_a_base_that_is_not_http_is_ignored(base: str, link: str) -> None:
    """C8. It counts for links that stand before it, too."""
    page = read_page(f"<a href=x>y</a><base href='{base}'><base href=/second/>".encode(), URL, "text/html")
    assert [found.url for found in page.links] == [link]


def test_a_canonical_of_another_host_is_flagged() -> None:
    """C8."""
    page = read_page(b"<link rel=canonical href=https://b.test/>", URL, "text/html")
    assert page.canonical == Canonical("https://b.test/", "tag")


def test_a_million_links_are_counted_and_few_are_kept() -> None:
    """A16."""
    body = b"".join(b"<a href=/%d>" % number for number in range(100_000))
    page = read_page(body, URL, "text/html")
    assert (len(page.links), page.links_seen, page.links_truncated) == (5000, 100_000, True)
    page = read_page(body[:5000], URL, "text/html", max_links=10)
    assert (len(page.links), page.links_truncated) == (10, True)
    assert page.links_seen > 100


def test_many_links_to_few_urls_are_not_truncated() -> None:
    page = read_page(b"<a href=/x>" * 2000, URL, "text/html", max_links=1)
    assert (len(page.links), page.links_seen, page.links_truncated) == (1, 2000, False)


def test_no_max_links_means_no_links() -> None:
    page = read_page(b"<a href=/x>y</a>", URL, "text/html", max_links=0)
    assert (page.links, page.links_seen, page.links_truncated) == ((), 1, True)


@pytest.mark.parametrize("label", ["punycode", "idna", "unicode_escape", "utf-7"])
def test_a_hostile_charset_is_no_charset(label: str) -> None:
    """A14."""
    page = read_page(b"<a href=x>a-b+AGE-</a>", URL, f"text/html; charset={label}")
    assert page.charset == Charset("windows-1252", CharsetSource.DEFAULT)
    assert page.links[0].text == "a-b+AGE-"


def test_every_string_fits_every_store() -> None:
    """A14: NUL, lone surrogates in bytes, references and UTF-16."""
    body = b"<title>a\0b&#xD800;&#0;\xed\xa0\x80</title><a href='x\0&#xDFFF;'>\0</a>"
    page = read_page(body, URL, "text/html; charset=utf-8")
    for text in (page.title, page.text, *(part for link in page.links for part in (link.url, link.text))):
        assert text is not None
        assert "\0" not in text
        text.encode("utf-8")


@pytest.mark.parametrize("name", ["XSS-Jhaddix.txt", "XSS-Vectors-Mario.txt", "URI-XSS.fuzzdb.txt", "blns.json"])
def test_naughty_strings_as_pages_titles_and_links(name: str) -> None:
    raw = conformance(f"security/{name}").read_bytes()
    strings = json.loads(raw) if name.endswith("json") else raw.decode("utf-8", "replace").splitlines()
    for text in strings:
        for body in (
            text,
            f"<title>{text}</title>",
            f'<a href="{text}">{text}</a>',
            f"<p>{text}" * 20 + "<i>" * TAGS_MAX,
        ):
            page = read_page(body.encode("utf-8", "replace"), URL, "text/html; charset=utf-8")
            assert all(link.url.startswith(("http://", "https://")) for link in page.links)


def test_a_url_that_has_not_passed_the_gate_is_a_mistake() -> None:
    with pytest.raises(BadUrl):
        read_page(b"", "ftp://a.test/")


@given(
    st.binary(max_size=300),
    st.sampled_from([None, "text/html", "text/html; charset=utf-16", "text/plain", "x", "application/xml"]),
    st.lists(st.tuples(st.sampled_from(["Link", "Refresh", "X-Robots-Tag", "Content-Type"]), st.text()), max_size=2),
)
def test_any_body_is_read(body: bytes, content_type: str | None, headers: list[tuple[str, str]]) -> None:
    page = read_page(body, URL, content_type, headers)
    assert (page.text is None) == (page.kind is Kind.BINARY)
    assert page.links_seen >= len(page.links)


def test_a_page_shows_itself_without_its_text_and_links() -> None:
    shown = repr(read_page(b"<title>T</title>words <a href=/x>link</a>", URL, "text/html"))
    assert shown.startswith(f"Page(url={URL!r}, kind=<Kind.HTML: 'html'>, ")
    assert "title='T'" in shown
    assert "words" not in shown
    assert "link'" not in shown
