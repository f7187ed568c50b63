"""robots.txt files as sites write them, typos and all, and URLs to try on them: strategies for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

AGENTS = ("FooBot", "foobot", "BarBot", "Foo-Bot", "foo_bot", "Qux")

_KEYS = (
    b"User-agent|user-agent|useragent|user agent|USER-AGENT|user-agents|user_agent|Allow|allow|ALLOW|allowed|alow|"
    b"Disallow|disallow|dissallow|dissalow|disalow|diasllow|disallaw|disalllow|Sitemap|site-map|Crawl-delay|Host||<html>"
).split(b"|")
_SEPARATORS = b":|: |: |: | : |:\t| |\t| \t |::||\x0b|=".split(b"|")
_NAMES = (
    b"*|* |* all|*\tall|*x|FooBot|foobot|FooBot/1.0|FooBot 2|FooBotX|Foo Bot|Foo-Bot|foo_bot|BarBot|123||Foo*|"
    b"\xc3\xa1bot|FooBot#x"
).split(b"|")
_PATTERN_PIECES = (
    b"a|b|ab|/|/|*|*|**|$|?|=|.|foo|.php|xxxxxxxxxxxxxxxxxxxx|/index.htm|/index.html|%2f|%2F|%e3%81|%zz|%|"
    b"\xc3\xa9|\xff| |\x00|#"
).split(b"|")
_ENDS = b"\n|\n|\n|\r\n|\r|\n\n|\n\r|\r\r\n|\x0c".split(b"|")
_BOMS = b"|||\xef\xbb\xbf|\xef\xbb|\xef|\xef\xef|\xbb\xbf|\xfe\xff".split(b"|")
_URL_PIECES = (
    b"a|b|ab|/|/|?|=|.|foo|.php|index.html|index.htm|%2f|%2F|%E3%81|%C3%A9|%FF|$|*|;|xxxxxxxxxxxxxxxxxxxx|//|#|://"
).split(b"|")

patterns = st.builds(
    lambda start, pieces: start + b"".join(pieces),
    st.sampled_from((b"/", b"/", b"/", b"*", b"")),
    st.lists(st.sampled_from(_PATTERN_PIECES), max_size=7),
)


@st.composite
def _lines(draw: st.DrawFn) -> bytes:
    key = draw(st.sampled_from(_KEYS))
    value: bytes = draw(st.sampled_from(_NAMES) if key[:4].lower() == b"user" else patterns)
    before = draw(st.sampled_from((b"", b"", b"", b" ", b"\xef\xbb\xbf", b"-")))
    after = draw(st.sampled_from((b"", b"", b"", b" ", b"\t", b" # why", b"#why", b" x")))
    return before + key + draw(st.sampled_from(_SEPARATORS)) + value + after + draw(st.sampled_from(_ENDS))


bodies = st.builds(
    lambda bom, lines: bom + b"".join(lines), st.sampled_from(_BOMS), st.lists(_lines(), min_size=1, max_size=14)
)

urls = st.builds(
    lambda start, pieces: start + b"".join(pieces).decode(),
    st.sampled_from(("http://foo.bar/", "http://foo.bar/", "https://x.y:80/", "http://foo.bar", "", "//a/", "/")),
    st.lists(st.sampled_from(_URL_PIECES), max_size=7),
)

paths = st.builds(
    lambda pieces: "/" + b"".join(pieces).replace(b"#", b"").decode(),
    st.lists(st.sampled_from(_URL_PIECES), max_size=8),
)
