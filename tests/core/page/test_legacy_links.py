"""Links on pages in legacy encodings are encoded as browsers do: the query in the encoding of the page."""

from __future__ import annotations

import pytest

from amble.core.encodings import _LABELS
from amble.core.page.page import read_page
from amble.core.queries import legacy_encoding


@pytest.mark.parametrize(
    ("encoding", "codec", "href", "url"),
    [
        ("windows-1252", "cp1252", "/s?q=\u00e9", "https://a.test/s?q=%E9"),
        ("gbk", "gbk", "/s?q=\u4e2d", "https://a.test/s?q=%D6%D0"),
        ("shift_jis", "cp932", "/s?q=\u65e5", "https://a.test/s?q=%93%FA"),
        ("windows-1251", "cp1251", "s?q=\u0434", "https://a.test/s?q=%E4"),
        ("utf-8", "utf-8", "/s?q=\u00e9", "https://a.test/s?q=%C3%A9"),
        ("windows-1252", "cp1252", "/\u00e9", "https://a.test/%C3%A9"),  # a path is UTF-8 always
    ],
)
@pytest.mark.parametrize("base", ["", "<base href='https://a.test/'>"])
def test_links_on_pages_in_legacy_encodings_are_encoded_as_browsers_do(
    encoding: str, codec: str, href: str, url: str, base: str
) -> None:
    body = f'{base}<a href="{href}">x</a>'.encode(codec)
    page = read_page(body, "https://a.test/", f"text/html; charset={encoding}")
    assert [link.url for link in page.links] == [url]


def test_every_encoding_of_the_web_has_a_codec_for_its_queries() -> None:
    assert [name for name in _LABELS if legacy_encoding(name) == ""] == []
