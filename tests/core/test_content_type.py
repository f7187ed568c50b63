"""How content types are read and written, and which are wanted [A17]."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.content_type import MimeType, accepts, parse_mime_type
from amble.core.encodings import encoding_of_label
from amble.errors import SettingsError
from tests.conformance import conformance


def rows(name: str) -> list[dict[str, Any]]:
    data = json.loads(conformance(f"mime/{name}.json").read_text("utf-8"))
    return [row for row in data if isinstance(row, dict)]


def written(mime: MimeType) -> str:
    """The serialisation of 4.5."""

    def quoted(value: str) -> str:
        plain = re.fullmatch(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", value)
        return value if plain else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return mime.essence + "".join(f";{name}={quoted(value)}" for name, value in mime.parameters.items())


@pytest.mark.parametrize("name", ["mime-types", "generated-mime-types"])
def test_wpt_types_are_parsed_and_written_alike(name: str) -> None:
    cases = rows(name)
    assert len(cases) > 50
    for row in cases:
        mime = parse_mime_type(row["input"])
        assert (None if mime is None else written(mime)) == row["output"], row


def test_wpt_charsets_are_those_of_the_standard() -> None:
    for row in rows("mime-types"):
        mime = parse_mime_type(row["input"])
        named = encoding_of_label(mime.charset) if mime and mime.charset else None
        assert named == (row["encoding"].lower() if row.get("encoding") else None), row


def test_wpt_groups() -> None:
    for row in rows("mime-groups"):
        mime = parse_mime_type(row["input"])
        assert mime is not None
        told = {"HTML": mime.is_html, "XML": mime.is_xml, "JSON": mime.is_json, "JavaScript": mime.is_javascript}
        assert {name for name, member in told.items() if member} == told.keys() & set(row["groups"]), row


@pytest.mark.parametrize(
    ("text", "essence", "parameters"),
    [
        ("text/html", "text/html", {}),
        (" TEXT/Html ; Charset = utf-8", "text/html", {}),  # a space before `=` belongs to the name, which is then none
        ("text/html;CHARSET=UTF-8", "text/html", {"charset": "UTF-8"}),
        ('text/html;charset="utf-8"; x=1', "text/html", {"charset": "utf-8", "x": "1"}),
        ('text/html;charset="ut\\f\\-8" trailing;y=2', "text/html", {"charset": "utf-8", "y": "2"}),
        ("text/html;charset=a;charset=b", "text/html", {"charset": "a"}),
        ('text/html;charset="', "text/html", {"charset": ""}),
        ('text/html;a="b\\', "text/html", {"a": "b\\"}),
        ("text/html;;;a=b;", "text/html", {"a": "b"}),
    ],
)
def test_types_are_read_as_the_standard_says(text: str, essence: str, parameters: dict[str, str]) -> None:
    mime = parse_mime_type(text)
    assert mime is not None
    assert (mime.essence, dict(mime.parameters)) == (essence, parameters)


@pytest.mark.parametrize("text", ["", "text", "text/", "/html", "text /html", "te\u00e4t/html", "text/html,text/plain"])
def test_what_is_no_type(text: str) -> None:
    assert parse_mime_type(text) is None


@pytest.mark.parametrize("tail", ['charset="', "charset=", ";" * 9, '"\\', 'x="\\"'])
def test_a_megabyte_of_header_is_read_at_once(tail: str) -> None:
    """A17: `text/html; charset="` and a megabyte behind it."""
    mime = parse_mime_type("text/html; " + tail * (1_000_000 // len(tail)))
    assert mime is not None
    assert mime.essence == "text/html"


TOKENS = st.text("abcXYZ019!#$%&'*+-.^_`|~", min_size=1, max_size=8)
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=12)


@given(TOKENS, TOKENS, st.dictionaries(TOKENS.map(str.lower), VALUES, max_size=4))
def test_what_is_written_is_read_back(top: str, sub: str, parameters: dict[str, str]) -> None:
    mime = MimeType(top.lower(), sub.lower(), parameters)
    again = parse_mime_type(written(mime))
    assert again is not None
    assert (again.essence, dict(again.parameters)) == (mime.essence, parameters)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    mime = parse_mime_type(text)
    assert mime is None or parse_mime_type(written(mime)) == mime


@pytest.mark.parametrize(
    ("content_type", "accept", "reject", "wanted"),
    [
        ("text/html", [], [], True),
        ("text/html; charset=utf-8", ["text/html"], [], True),
        ("TEXT/HTML", ["text/*"], [], True),
        ("image/png", ["text/*"], [], False),
        ("text/css", ["text/*"], ["text/css"], False),
        ("text/html", ["text/*"], ["text/css"], True),
        ("text/html", ["application/pdf", "*/*"], [], True),
        ("text/html", [], ["*/*"], False),
        ("textual/html", ["text/*"], [], False),
        ("text/htmlx", ["text/html"], [], False),
        (None, ["text/html"], [], True),
        ("garbage", ["text/html"], ["image/*"], True),
        (None, [], ["*/*"], False),
        ('text/html; x="image/png"', ["text/*"], ["image/*"], True),
    ],
)
def test_wanted_types(content_type: str | None, accept: list[str], reject: list[str], wanted: bool) -> None:
    assert accepts(content_type, accept, reject) is wanted


@pytest.mark.parametrize("pattern", ["", "html", "text/", "*/html", "text/html;q=1", "a b/c"])
def test_a_pattern_that_names_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(SettingsError) as refused:
        accepts("text/html", [pattern], [])
    assert refused.value.hint
