"""Where paths lead on a page: elements, attributes, metas, and into the JSON that pages carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.core.page.htmlpath import htmlpath, walk
from amble.errors import BadSelector

PAGE = """<!doctype html><meta property="og:title" content="Shown"><meta name=Author content="">
<h1>Head <i>line</i></h1>
<a class=next href="/p?a=1@b">Next</a><input id=jobs value='[{"id": 1}, {"id": 2, "x.y": "dotted"}]'>
<script type="application/ld+json">not json</script>
<script type="application/LD+JSON">{"@graph": [{"@type": "WebPage", "name": "page"},
  {"@type": ["Thing", "Product"], "name": "Mug", "offers": [{"price": 9.5, "ok": true}, {"price": 12}], "sku": null}]}
</script>
<script id=data>{"a": {"b": [10, 20, 30]}, "s": "text", "e": []};</script>"""


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("h1", "Head line"),
        ("h1 i@html", "<i>line</i>"),
        ("a.next@href", "/p?a=1@b"),
        (' a[href*="@b"]@text ', "Next"),
        ("a@title", None),
        ("h6", None),
        ("meta:og:title", "Shown"),
        ("meta:author", ""),
        ("meta:none", None),
        ("jsonld:Product.name", "Mug"),
        ("jsonld:WebPage.name", "page"),
        ("jsonld:Product.offers.price", "9.5"),  # a key on a list: of its first
        ("jsonld:Product.offers[1].price", "12"),
        ("jsonld:Product.offers[-1]", '{"price": 12}'),
        ("jsonld:Product.offers[*].price", "[9.5, 12]"),
        ("jsonld:Product.offers[0].ok", "true"),
        ("jsonld:Product.sku", None),
        ("jsonld:Event.name", None),
        ("jsonld:*.name", "page"),
        ('script[type="application/ld+json" i]@text["@graph"][1].name', "Mug"),
        ("#data@text.a.b[2]", "30"),
        ("#data@text.a.b[3]", None),
        ("#data@text.s", "text"),
        ("#data@text.s.t", None),
        ("#data@text.e", "[]"),
        ("#data@text.e.f", None),
        ("#jobs@value[1].id", "2"),
        ('#jobs@value[1]["x.y"]', "dotted"),
        ("#jobs@value[*].id", "[1, 2]"),
    ],
)
def test_paths_lead_to_the_first_value(path: str, value: str | None) -> None:
    assert htmlpath(PAGE, path) == value


@pytest.mark.parametrize("path", ["", "[", "a@", "a@ href", "a@text.", "a@text[x]", "a@text.b[", "jsonld:A.b..c"])
def test_what_is_no_path_is_an_error_with_a_hint(path: str) -> None:
    with pytest.raises(BadSelector) as refused:
        htmlpath(PAGE, path)
    assert refused.value.hint


@pytest.mark.parametrize("json", ["[" * 100_000, "{", "NaN", '"' + "x" * 10 + '"', "1" * 5_000, "\\ud800"])
def test_json_of_any_kind_is_no_error(json: str) -> None:
    page = f'<script type="application/ld+json">{json}</script>'
    assert htmlpath(page, "jsonld:*.name") is None
    assert htmlpath(page, "script@text.name") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


@given(json_values, st.lists(st.sampled_from(["a", "b", 0, -1, 7, None]), max_size=4).map(tuple))
def test_steps_never_fail_whatever_they_meet(value: object, steps: tuple[str | int | None, ...]) -> None:
    walk(value, steps)
