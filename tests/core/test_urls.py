"""Which URLs may enter, what they become, and the domain each is paced under."""

from __future__ import annotations

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core import urls
from amble.core.urls import URL_CHARS_MAX, Base, Refusal, domain_of, join, normalize, origin_of, parse
from amble.errors import BadDomain, BadUrl

# --- normalize: the gate -------------------------------------------------------------------------------------------

ADMITTED = [
    # story                                   what is written                        what is asked
    ("nothing to change", "https://example.com/a?b=c", "https://example.com/a?b=c"),
    ("a path is added", "http://example.com", "http://example.com/"),
    ("C6 the host is lower-cased", "HTTP://EXAMPLE.Com/Path", "http://example.com/Path"),
    ("C6 the default port goes", "http://example.com:80/", "http://example.com/"),
    ("C6 the default port of https goes", "https://example.com:443/", "https://example.com/"),
    ("another port stays", "https://example.com:80/", "https://example.com:80/"),
    ("C6 the fragment goes", "http://example.com/a#b?c#d", "http://example.com/a"),
    ("C6 dot segments are resolved", "http://example.com/a/./b/../c/%2e%2E/d", "http://example.com/a/d"),
    ("an empty query is another URL", "http://example.com/a?", "http://example.com/a?"),
    ("%7E stays as written", "http://example.com/%7Ea", "http://example.com/%7Ea"),
    ("C4 userinfo goes", "http://user:pw@example.com/@x", "http://example.com/@x"),
    ("C4 the host is after the last at sign", "http://good.com@evil.test/", "http://evil.test/"),
    ("C4 an at sign in the password", "http://a@b:c@d@evil.test:81/", "http://evil.test:81/"),
    ("C3 a backslash ends the host", "http://a.com\\@b.com/", "http://a.com/@b.com/"),
    ("C3 backslashes for slashes", "http:\\\\x\\y", "http://x/y"),
    ("C3 tabs and newlines vanish", "ht\ntp://exa\tmple.com/a\r\nb", "http://example.com/ab"),
    ("C3 spaces around vanish", "\x00 http://example.com/a \n", "http://example.com/a"),
    ("C3 a space is encoded", "http://example.com/a b?c d", "http://example.com/a%20b?c%20d"),
    ("C3 a NUL is encoded", "http://example.com/a\x00b", "http://example.com/a%00b"),
    ("C3 encoded CR LF stay encoded", "http://example.com/%0d%0a?%00", "http://example.com/%0d%0a?%00"),
    ("C3 a lone surrogate is replaced", "http://example.com/\ud800", "http://example.com/%EF%BF%BD"),
    ("C3 a surrogate pair is a character", "http://example.com/\ud83d\ude00", "http://example.com/%F0%9F%98%80"),
    ("C5 a name is written in ASCII", "http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
    ("C5 sharp s is kept apart", "http://faß.de/", "http://xn--fa-hia.de/"),
    ("C5 a zero-width space vanishes", "http://exa\u200bmple.com/", "http://example.com/"),
    ("D4 a decimal address", "http://2130706433/", "http://127.0.0.1/"),
    ("D4 an octal address", "http://0177.0.0.1/", "http://127.0.0.1/"),
    ("D4 circled digits", "http://①②⑦.0.0.1/", "http://127.0.0.1/"),
    ("a trailing dot is another name to a server", "http://example.com./", "http://example.com./"),
    ("missing slashes", "http:example.com/x", "http://example.com/x"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "url"), [row[1:] for row in ADMITTED], ids=[row[0] for row in ADMITTED])
def test_the_gate_gives_one_spelling(text: str, url: str) -> None:
    assert normalize(text) == url
    assert normalize(url) == url


REFUSED = [
    # story                                  what is written                       why not
    ("C1 a script", "javascript:alert(1)", Refusal.NOT_HTTP),
    ("C1 a script in pieces", " java\nscript:alert(1)", Refusal.NOT_HTTP),
    ("C1 data", "data:text/html,<a href=x>", Refusal.NOT_HTTP),
    ("C1 mail", "mailto:a@example.com", Refusal.NOT_HTTP),
    ("C1 blob", "blob:http://example.com/uuid", Refusal.NOT_HTTP),
    ("C1 about", "about:blank", Refusal.NOT_HTTP),
    ("C1 vbscript", "vbscript:x", Refusal.NOT_HTTP),
    ("C1 a file", "file:///etc/passwd", Refusal.NOT_HTTP),
    ("C1 ftp", "ftp://example.com/", Refusal.NOT_HTTP),
    ("C1 a telephone", "tel:+123", Refusal.NOT_HTTP),
    ("C1 gopher", "gopher://example.com/", Refusal.NOT_HTTP),
    ("C1 a web socket", "wss://example.com/", Refusal.NOT_HTTP),
    ("C1 a scheme that begins like ours", "https+x://example.com/", Refusal.NOT_HTTP),
    ("C1 a longer scheme", "httpss://example.com/", Refusal.NOT_HTTP),
    ("nothing", "", Refusal.NOT_A_URL),
    ("no scheme", "example.com/x", Refusal.NOT_A_URL),
    ("no host", "http://", Refusal.NOT_A_URL),
    ("a space in the host", "http://exam ple.com/", Refusal.NOT_A_URL),
    ("a space after the host", "http://example.com /x", Refusal.NOT_A_URL),
    ("C3 an encoded NUL in the host", "http://a%00b/", Refusal.NOT_A_URL),
    ("a port beyond the last", "http://example.com:65536/", Refusal.NOT_A_URL),
    ("an address that is none", "http://1.2.3.256/", Refusal.NOT_A_URL),
    ("C3 a lone surrogate in the host", "http://a\ud800b/", Refusal.NOT_A_URL),
    ("port zero", "http://example.com:0/", Refusal.BAD_HOST),
    ("C5 a label of 64", f"http://{'a' * 64}.com/", Refusal.BAD_HOST),
    ("C5 a name of 254", f"http://{'a.' * 126}bc/", Refusal.BAD_HOST),
    ("an empty label", "http://a..b/", Refusal.BAD_HOST),
    ("only a dot", "http://./", Refusal.BAD_HOST),
    ("C2 one megabyte", "http://example.com/" + "a" * 1_000_000, Refusal.TOO_LONG),
    ("C2 a hundred thousand segments", "http://example.com" + "/a" * 100_000, Refusal.TOO_LONG),
    ("C5 a label of 10 kB", f"http://{'é' * 10_000}.com/", Refusal.TOO_LONG),
    ("C2 short until it is encoded", "http://example.com/" + "é" * 2000, Refusal.TOO_LONG),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_the_gate_says_why_a_text_does_not_enter(text: str, why: Refusal) -> None:
    assert normalize(text) is why


def test_the_length_cap_is_exact_and_can_be_set_c2() -> None:
    longest = "http://example.com/" + "a" * (URL_CHARS_MAX - 19)
    assert normalize(longest) == longest
    assert normalize(longest + "a") is Refusal.TOO_LONG
    assert normalize("http://example.com/a", chars_max=19) is Refusal.TOO_LONG


@given(st.text(max_size=60))
def test_whatever_enters_can_be_sent_stored_and_paced(text: str) -> None:
    for written in (text, f"http://{text}", f"https://example.com/{text}", f"http://u:{text}@example.com/?{text}"):
        url = normalize(written)
        if isinstance(url, Refusal):
            continue
        assert normalize(url) == url
        assert url.isascii()
        assert not any(char <= " " or char == "\x7f" for char in url)  # C3: nothing can split a request line
        assert "#" not in url
        assert url.startswith(origin_of(url) + "/")
        assert "@" not in origin_of(url)
        assert domain_of(url) in url
        try:
            named = domain_of(written)
        except BadDomain:
            named = None  # a text that is a URL only by the standard's mercy may be no name for a domain
        assert named in (None, domain_of(url))


# --- join: the gate for links --------------------------------------------------------------------------------------

PAGE = "https://example.com/a/b/page.html?q=1"
LINKS = [
    ("", PAGE),
    ("#top", PAGE),
    ("?", "https://example.com/a/b/page.html?"),
    ("?r=2", "https://example.com/a/b/page.html?r=2"),
    ("/", "https://example.com/"),
    ("/c/d.html?e=f#g", "https://example.com/c/d.html?e=f"),
    ("other.html", "https://example.com/a/b/other.html"),
    ("x/y/?z", "https://example.com/a/b/x/y/?z"),
    ("./x", "https://example.com/a/b/x"),
    ("../x", "https://example.com/a/x"),
    ("../../../x", "https://example.com/x"),
    ("//other.test/x", "https://other.test/x"),
    ("\\\\other.test\\x", "https://other.test/x"),
    ("http://other.test", "http://other.test/"),
    ("https://u:p@other.test:443/x?y", "https://other.test/x?y"),
    ("https://other.test?/x", "https://other.test/?/x"),
    ("https://other.test\\/x", "https://other.test//x"),
    ("https://other.test#/x", "https://other.test/"),
    ("https:rest", "https://example.com/a/b/rest"),
    ("https:/rest", "https://example.com/rest"),
    ("http:/rest", "http://rest/"),
    ("/it's?it's", "https://example.com/it's?it%27s"),
    ("/a b", "https://example.com/a%20b"),
    ("/x #frag", "https://example.com/x%20"),
    ("/x\n", "https://example.com/x"),
    ("mailto:a@example.com", Refusal.NOT_HTTP),
    ("tel:1", Refusal.NOT_HTTP),
    ("http://a b/", Refusal.NOT_A_URL),
    ("http://other.test:0/", Refusal.BAD_HOST),
    ("/" + "a" * URL_CHARS_MAX, Refusal.TOO_LONG),
    ("/" + "a" * (URL_CHARS_MAX - 5), Refusal.TOO_LONG),
]  # fmt: skip


@pytest.mark.parametrize(("href", "url"), LINKS, ids=[ascii(row[0][:30]) for row in LINKS])
def test_a_link_is_read_from_where_it_stands(href: str, url: str | Refusal) -> None:
    assert join(PAGE, href) == url
    assert normalize(href, PAGE) == url


PIECES = [
    "/", "//", ".", "..", "%2e", "%2E.", "a", "B", "-", "_", "~", "?", "#", "&", "=", "%", "%zz", "'", '"', "<", "|",
    "^", "`", "{", "[", "]", "\\", ":", ";", ",", "@", "!", "$", "*", "+", "(", " ", "\t", "\n", "\x00", "\x7f", "é",
    "\ud800", "http:", "https:", "http://", "https://", "https://example.com", "https://example.com/", "HTTP://",
    "a.test", ":80", "javascript:", "xn--", "1", "0x7f",
]  # fmt: skip
STARTS = [
    "",
    "/",
    "/a",
    "/?",
    "?",
    "a",
    "../",
    "../../../a",
    "../" * 20,
    "https://example.com",
    "https://a.test/b",
    "http://a.test:80",
    "https://U@B.test",
]
BASES = [
    PAGE, "http://example.com/", "http://example.com:8080/a/", "https://example.com/a//b", "http://[::1]/x?a/b?c/",
    "http://example.com./a/b;c/d", "https://a.test/%C3%A9",
]  # fmt: skip
bases = st.sampled_from(BASES)
hrefs = st.builds(
    lambda *parts: "".join(parts), st.sampled_from(STARTS), st.lists(st.sampled_from(PIECES)).map("".join)
)


def by_the_standard(base: str, href: str) -> str | Refusal:
    """What the standard makes of a link, without the parts that are never sent."""
    try:
        url = ada_url.URL(href.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), base)
    except ValueError:
        return Refusal.NOT_A_URL
    if url.protocol not in ("http:", "https:"):
        return Refusal.NOT_HTTP
    url.username = url.password = ""
    url.hash = ""
    if url.port == "0" or ".." in url.hostname or url.hostname.startswith("."):
        return Refusal.BAD_HOST
    return url.href


def test_the_short_way_to_join_equals_the_standard() -> None:
    """Every start with every two pieces behind it: a property test would rarely meet the one pair that matters."""
    base = Base.at(PAGE)
    for start in STARTS:
        for first in ["", *PIECES]:
            for second in ["", *PIECES]:
                href = start + first + second
                assert base.join(href) == by_the_standard(PAGE, href), ascii(href)


@given(base=bases, href=hrefs)
def test_the_short_way_to_join_equals_the_standard_on_any_page(base: str, href: str) -> None:
    assert join(base, href) == normalize(href, base) == by_the_standard(base, href)


@given(base=bases, href=hrefs)
def test_parse_and_join_agree_on_the_origin(base: str, href: str) -> None:
    url = join(base, href)
    if isinstance(url, Refusal):
        return
    parts = parse(href, base)
    assert parts is not None
    assert origin_of(url) == f"{parts.protocol}//{parts.host}"


LEGACY = [
    # encoding       link                       URL
    ("utf-8", "?é", "?%C3%A9"),
    ("utf-16-le", "?é", "?%C3%A9"),
    ("cp1252", "?a=é#é", "?a=%E9"),
    ("cp1252", "/é?é", "/%C3%A9?%E9"),
    ("cp1252", "?\u2212", "?%26%238722%3B"),
    ("cp1252", "?\ud800", "?%26%2365533%3B"),
    ("cp1251", "?q=Ж", "?q=%C6"),
    ("shift_jis", "?q=日", "?q=%93%FA"),
    ("iso2022_jp", "?q=日", "?q=%1B$BF|%1B(B"),
    ("gb18030", "?q=日'", "?q=%C8%D5%27"),
]


@pytest.mark.parametrize(("encoding", "href", "rest"), LEGACY)
def test_a_query_is_written_in_the_encoding_of_its_page(encoding: str, href: str, rest: str) -> None:
    assert Base.at("https://example.com/", encoding).join(href) == "https://example.com/" + rest.removeprefix("/")


def test_an_unknown_encoding_is_our_own_mistake() -> None:
    with pytest.raises(LookupError):
        Base.at("https://example.com/", "klingon")


def test_a_base_names_its_parts() -> None:
    assert Base.at(PAGE) == Base(PAGE, "https://example.com", "https://example.com/a/b/")
    assert Base.at("http://a.test:81/?x/y").directory == "http://a.test:81/"


# --- origin_of -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://example.com/a/b?c", "https://example.com"),
        ("http://example.com:80/", "http://example.com"),
        ("http://example.com:443/", "http://example.com:443"),
        ("https://u:p@Example.COM/", "https://example.com"),
        ("https:///example.com/x", "https://example.com"),
        ("http://[::1]:8080/x", "http://[::1]:8080"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin


def test_origins_are_remembered_by_what_stands_before_the_path_and_not_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(urls, "_known", {})
    monkeypatch.setattr(urls, "_KNOWN_MAX", 2)
    written = {f"http://U@{name}.Test:8{path}": f"{name}.test:8" for name in "abcdef" for path in ("/x/y", "/x?/", "")}
    for _ in range(2):  # read, and then perhaps remembered
        assert {url: domain_of(url) for url in written} == written
        assert {url: origin_of(url) for url in written} == {url: f"http://{name}" for url, name in written.items()}
    assert 0 < len(urls._known) <= 2
    assert domain_of(f"http://{'a' * 50}.{'b' * 50}.test/") not in {known.domain for known in urls._known.values()}


@pytest.mark.parametrize(
    "url", ["", "example.com", "ftp://example.com/", "http://a b/", "http://example.com /x", "http://a:0/"]
)
def test_what_is_no_web_url_has_no_origin(url: str) -> None:
    with pytest.raises(BadUrl) as refused:
        origin_of(url)
    assert refused.value.hint


# --- domain_of -----------------------------------------------------------------------------------------------------

ONE_DOMAIN = [
    # what is written                        the key
    ("http://example.com/", "example.com"),
    ("https://example.com/", "example.com"),
    ("HTTPS://EXAMPLE.COM/Path", "example.com"),
    ("http://example.com:80/a", "example.com"),
    ("https://example.com:443", "example.com"),
    ("http://example.com:0080/", "example.com"),
    ("http://example.com:443/", "example.com:443"),
    ("https://example.com:8443/x?y#z", "example.com:8443"),
    ("http://user:secret@example.com/", "example.com"),
    ("http://good.com@evil.test/", "evil.test"),
    ("http://a.com\\@b.com/", "a.com"),
    ("http:\\\\a.com\\b", "a.com"),
    ("http:/a.com/b/c", "a.com"),
    ("https:a.com/b/c", "a.com"),
    ("https:///a.com/b/c", "a.com"),
    ("http://a.com?b=/c/d", "a.com"),
    ("http://a.com#/b", "a.com"),
    ("  http://a.com/\n", "a.com"),
    ("http://ex\tample.com/", "example.com"),
    ("example.com", "example.com"),
    ("Example.COM.", "example.com"),
    ("http://example.com./a", "example.com"),
    ("example.com:8080", "example.com:8080"),
    ("example.com:08080", "example.com:8080"),
    ("http:8080", "http:8080"),
    ("localhost", "localhost"),
    ("my_host", "my_host"),
    ("bücher.example", "xn--bcher-kva.example"),
    ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
    ("http://faß.de/", "xn--fa-hia.de"),
    ("http://①②⑦.0.0.1/", "127.0.0.1"),
    ("2130706433", "127.0.0.1"),
    ("0x7f.1:81", "127.0.0.1:81"),
    ("127.0.0.1.", "127.0.0.1"),
    ("[0:0:0:0:0:0:0:1]", "[::1]"),
    ("[::1]:8080", "[::1]:8080"),
    ("http://[::FFFF:127.0.0.1]:80/", "[::ffff:7f00:1]"),
    ("a." * 126 + "b", "a." * 126 + "b"),
    ("a" * 63 + ".b", "a" * 63 + ".b"),
]


@pytest.mark.parametrize(("text", "domain"), ONE_DOMAIN, ids=[repr(row[0][:40]) for row in ONE_DOMAIN])
def test_a_domain_is_the_lower_case_ascii_host_and_an_unusual_port(text: str, domain: str) -> None:
    assert domain_of(text) == domain
    assert domain_of(domain) == domain


NO_DOMAIN = [
    "", " ", ".", "..", ":", ":80", "/", "//example.com", "?", "#", "@", "http:", "http://", "https:///", "http://:80/",
    "exam ple.com", " example.com", "example.com\n", "a\tb.com", "a\x00b", "a\x7fb", "http://a b/", "http://a%00b/",
    "example.com/path", "user@example.com", "a\\b", "a?b", "a#b", "a<b>", "a^b", "a|b", "ex%00.com", "a%2Fb",
    "a..b", ".a", "a..", "a" * 64 + ".com", "a." * 127 + "b", "b" * 254, "http://" + "a" * 64 + "/",
    "http://" + "é" * 10_000 + ".com/", "é" * 10_000,
    "a:", "a:nan", "a:-1", "a:0", "a:65536", "a:999999", "a:８０", "a:80:80", "a:8e1", "http://a:0/", "http://a:65536/",
    "http://a:nan/", "::1", "[::1", "[::1]x", "[::g]", "[1.2.3.4]", "http://[::1%25eth0]/", "[]", "1.2.3.256", "09.1",
    "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "mailto:a@b.com", "data:text/html,x", "ws://a/",
    "x://http://a/", "a\ud800b", "http://a\ud800b/", "\u202eexample.com", "a\u3000b",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_DOMAIN, ids=[ascii(text[:40]) for text in NO_DOMAIN])
def test_text_that_names_no_host_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadDomain) as refused:
        domain_of(text)
    assert refused.value.hint
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("value", [None, 1, 1.5, float("nan"), b"example.com", ["example.com"], {}, True])
def test_only_text_names_a_domain(value: object) -> None:
    with pytest.raises(BadDomain, match="is text"):
        domain_of(value)  # type: ignore[arg-type]


def test_a_refusal_does_not_repeat_the_password_c4() -> None:
    with pytest.raises(BadDomain) as refused:
        domain_of("http://user:secret@exa mple.com/")
    assert "secret" not in str(refused.value)


label = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=20).filter(
    lambda text: not text[2:].startswith("--")
)
host = st.builds(lambda labels: ".".join([*labels, "example"]), st.lists(label, min_size=1, max_size=5))


@given(
    host=host,
    shout=st.booleans(),
    user=st.sampled_from(["", "u@", "u:p@", "u%40:p@"]),
    dot=st.sampled_from(["", "."]),
    tail=st.sampled_from(["", "/", "/a/b/", "/A?b=/c@d", "?x", "#f", "/#//b.com/"]),
    secure=st.booleans(),
    port=st.booleans(),
)
def test_spelling_does_not_change_the_domain_c6(
    host: str, shout: bool, user: str, dot: str, tail: str, secure: bool, port: bool
) -> None:
    name = (host.upper() if shout else host) + dot
    scheme, default = ("https", ":443") if secure else ("http", ":80")
    assert domain_of(f"{scheme}://{user}{name}{default if port else ''}{tail}") == host


@given(st.text(max_size=40))
def test_a_domain_of_a_domain_is_itself(text: str) -> None:
    for written in (text, f"http://{text}", f"https://{text}/x"):
        try:
            domain = domain_of(written)
        except BadDomain:
            continue
        assert domain_of(domain) == domain
        assert domain.isascii()
        assert domain == domain.lower()
        assert not any(char <= " " for char in domain)


@pytest.mark.parametrize(
    "origin", ["http://known.test", "https://known.test:81", "http://[::1]:82", "http://known.test?q"]
)
def test_an_origin_by_itself_is_that_of_its_pages(origin: str) -> None:
    alone = origin_of(origin), domain_of(origin)
    assert (origin_of(f"{origin}/page"), domain_of(f"{origin}/page")) == alone
    assert (origin_of(origin), domain_of(origin)) == alone
