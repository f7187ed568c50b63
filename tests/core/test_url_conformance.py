"""The URL Standard's own tests, read through our own parse, join and gate."""

from __future__ import annotations

import json
from typing import Any

from amble.core.urls import Base, Refusal, Url, domain_of, join, normalize, parse
from tests.conformance import conformance


def rows(relpath: str) -> list[dict[str, Any]]:
    """The cases of a file; the strings between them are comments."""
    return [row for row in json.loads(conformance(relpath).read_text()) if isinstance(row, dict)]


def test_every_url_of_the_standard_is_parsed_as_it_says_c3() -> None:
    cases = rows("url/wpt/urltestdata.json") + rows("url/wpt/urltestdata-javascript-only.json")
    assert len(cases) > 800
    wrong = [case for case in cases if not agrees(parse(case["input"], case["base"]), case)]
    assert wrong == []


def agrees(url: Url | None, case: dict[str, Any]) -> bool:
    if url is None or case.get("failure"):
        return url is None and bool(case.get("failure"))
    return all(value == case[name] for name, value in url._asdict().items() if name in case)


def test_every_url_of_the_standard_meets_the_gate_c1_c3_c4() -> None:
    """http(s) enters without fragment and userinfo; everything else is refused for the right reason."""
    entered = refused = 0
    for case in rows("url/wpt/urltestdata.json"):
        url = normalize(case["input"], case["base"])
        if case.get("failure"):
            assert url is Refusal.NOT_A_URL, case
        elif case["protocol"] not in ("http:", "https:"):
            assert url is Refusal.NOT_HTTP, case
        elif case["port"] == "0" or ".." in case["hostname"] or case["hostname"].startswith("."):
            assert url is Refusal.BAD_HOST, case
        else:
            path = case["href"][after_host(case) :].partition("#")[0]
            assert url == f"{case['protocol']}//{case['host']}{path}", case
            entered += 1
            continue
        refused += 1
    assert entered > 200
    assert refused > 400


def after_host(case: dict[str, Any]) -> int:
    href: str = case["href"]
    return href.index("/", len(case["protocol"]) + 2)


def test_links_on_web_pages_are_joined_as_the_standard_says() -> None:
    joined = 0
    for case in rows("url/wpt/urltestdata.json"):
        base = normalize(case["base"]) if case["base"] else Refusal.NOT_A_URL
        if isinstance(base, Refusal):
            continue
        assert join(base, case["input"]) == normalize(case["input"], case["base"]), case
        joined += 1
    assert joined > 200


def test_international_names_become_ascii_as_the_standard_says_c5() -> None:
    files = ("url/wpt/toascii.json", "url/wpt/IdnaTestV2.json", "url/wpt/IdnaTestV2-removed.json")
    cases = [case for file in files for case in rows(file) if case["input"]]  # an empty host is no host
    assert len(cases) > 2700
    wrong = []
    for case in cases:
        url = parse(f"https://{case['input']}/x")
        if (url.hostname if url else None) != case["output"]:
            wrong.append(case)
    assert wrong == []


# Where Python's codec is wider or looser than the standard's encoder.
CODECS_DIFFER = {("iso-2022-jp", "\x0eA"), ("gb18030", "\ue5e5")}


def test_queries_are_percent_encoded_as_the_page_is_encoded() -> None:
    compared = 0
    for case in rows("url/wpt/percent-encoding.json"):
        for encoding, output in case["output"].items():
            if (encoding, case["input"]) in CODECS_DIFFER:
                continue
            url = Base.at("https://example.com/", encoding).join(f"?{case['input']}#{case['input']}")
            assert url == f"https://example.com/?{output}", (encoding, case)
            compared += 1
    assert compared > 10


def test_dot_segments_are_resolved_c6() -> None:
    paths: dict[str, list[tuple[str, str]]] = dict(
        json.loads(conformance("url/path_dots.json").read_text(), object_pairs_hook=list)  # the file repeats keys
    )
    assert len(paths["special"]) + len(paths["nonspecial"]) > 700
    for written, resolved in paths["special"]:
        path = resolved.replace("\\", "/")  # in a special URL the standard reads a backslash as a slash, and writes one
        assert normalize(f"http://example.com{written}") == f"http://example.com{path}"
        assert join("http://example.com/x/", f"http://example.com{written}") == f"http://example.com{path}"
    for written, resolved in paths["nonspecial"]:
        url = parse(("foo://example.com" if written.startswith("/") else "foo:") + written)
        assert url is not None
        assert url.pathname == resolved


def test_addresses_in_disguise_are_recognised_d4() -> None:
    cases: dict[str, str | None] = json.loads(conformance("url/funky_ipv4.json").read_text())
    assert len(cases) > 40
    for written, address in cases.items():
        url = normalize(f"http://{written}/")
        if address is None:  # no address: either no host at all, or a name that only looks like a number
            assert url in (Refusal.NOT_A_URL, f"http://{written}/"), written
        else:
            assert url == f"http://{address}/", written
            assert domain_of(written) == address
