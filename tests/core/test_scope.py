"""Which URLs a crawl may follow."""

from __future__ import annotations

import pytest

from amble.core.scope import OutOfScope, Scope, roots_of
from amble.core.urls import URL_CHARS_MAX

SEEDS = ["https://example.com/", "http://www.shop.test/", "http://localhost:8000/", "http://10.0.0.1/"]
HERE = Scope(roots_of(SEEDS))
BELOW = Scope(roots_of(SEEDS), allow_subdomains=True)

HOSTS = [
    # URL                                here   with subdomains
    ("https://example.com/a", True, True),
    ("http://example.com:80/a", True, True),
    ("https://www.example.com/a", True, True),  # sites send their visitors to and from www.
    ("https://shop.test/", True, True),
    ("https://www.shop.test/", True, True),
    ("https://blog.example.com/", False, True),
    ("https://a.b.example.com/", False, True),
    ("https://www2.example.com/", False, True),
    ("https://a.shop.test/", False, True),
    ("https://notexample.com/", False, False),
    ("https://example.com.evil.test/", False, False),
    ("https://example.org/", False, False),
    ("https://com/", False, False),
    ("https://example.com:8443/", False, False),  # another port is another server
    ("http://localhost:8000/x", True, True),
    ("http://a.localhost:8000/x", False, True),
    ("http://localhost:9000/x", False, False),
    ("http://localhost/x", False, False),
    ("http://10.0.0.1/x", True, True),
    ("http://10.0.0.2/x", False, False),
    ("http://www.test/", False, False),
]


@pytest.mark.parametrize(("url", "here", "below"), HOSTS)
def test_a_crawl_stays_with_its_seeds(url: str, here: bool, below: bool) -> None:
    assert HERE.judge(url) is (None if here else OutOfScope.OTHER_HOST)
    assert BELOW.judge(url) is (None if below else OutOfScope.OTHER_HOST)
    assert HERE.judge_link(url, 1) is HERE.judge(url)


def test_www_is_no_prefix_of_a_top_level_name() -> None:
    assert roots_of(["http://www.test/", "http://www.localhost/", "http://www.example.com/"]) == {
        "www.test",
        "www.localhost",
        "example.com",
    }


@pytest.mark.parametrize(
    ("depth", "max_crawl_depth", "why"),
    [(1, None, None), (10_000, None, None), (1, 1, None), (2, 1, OutOfScope.TOO_DEEP), (1, 0, OutOfScope.TOO_DEEP)],
)
def test_links_lead_so_deep_and_no_deeper(depth: int, max_crawl_depth: int | None, why: OutOfScope | None) -> None:
    scope = Scope(HERE.roots, max_crawl_depth=max_crawl_depth)
    assert scope.judge_link("https://example.com/a", depth) is why


def test_without_following_links_redirects_still_arrive_d3() -> None:
    scope = Scope(HERE.roots, follow_links=False)
    assert scope.judge_link("https://example.com/a", 1) is OutOfScope.LINKS_NOT_FOLLOWED
    assert scope.judge("https://www.example.com/a") is None
    assert scope.judge("https://evil.test/a") is OutOfScope.OTHER_HOST


SHAPES = [
    # story                              path and query                          why not
    ("an ordinary page", "/a/b/c.html?x=1&y=2", None),
    ("three of a kind", "/a/b/a/b/a/b", None),
    ("C7 four of a kind", "/a/a/a/a", OutOfScope.REPEATED_SEGMENTS),
    ("C7 a link that keeps growing", "/x/a/b/a/b/a/b/a/b/", OutOfScope.REPEATED_SEGMENTS),
    ("C7 slashes in a row", "/a////////b", OutOfScope.REPEATED_SEGMENTS),
    ("a long path of different names", "/" + "/".join(map(str, range(100))), None),
    ("repeated in the query only", "/a?b=/c/c/c/c/c/c", None),
    ("many parameters", "/?" + "&".join(f"p{n}" for n in range(32)), None),
    ("C2 too many parameters", "/?" + "&".join(f"p{n}" for n in range(33)), OutOfScope.TOO_MANY_PARAMETERS),
    ("C2 separated in the old way", "/?" + ";".join(f"p{n}" for n in range(33)), OutOfScope.TOO_MANY_PARAMETERS),
    ("C2 too long", "/" + "a" * URL_CHARS_MAX, OutOfScope.URL_TOO_LONG),
]


@pytest.mark.parametrize(("rest", "why"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_the_shapes_of_traps_are_left_alone(rest: str, why: OutOfScope | None) -> None:
    url = "https://example.com" + rest
    assert HERE.judge(url) is why
    assert HERE.judge_link(url, 1) is why
    assert HERE.judge_canonical(url, "https://example.com/") is why


def test_bounds_can_be_moved_and_taken_away() -> None:
    strict = Scope(HERE.roots, repeats_max=1, parameters_max=0, url_chars_max=30)
    assert strict.judge("https://example.com/a/b") is None
    assert strict.judge("https://example.com/a/a") is OutOfScope.REPEATED_SEGMENTS
    assert strict.judge("https://example.com/?a") is OutOfScope.TOO_MANY_PARAMETERS
    assert strict.judge("https://example.com/?") is None
    assert strict.judge("https://example.com/aaaaaaaaaaa") is OutOfScope.URL_TOO_LONG
    loose = Scope(HERE.roots, repeats_max=None, parameters_max=None)
    assert loose.judge("https://example.com" + "/a" * 50 + "?" + "&a" * 500) is None


@pytest.mark.parametrize(
    ("canonical", "why"),
    [
        ("https://example.com/b", None),
        ("http://example.com/b", None),
        ("https://www.example.com/b", OutOfScope.OTHER_HOST),
        ("https://shop.test/b", OutOfScope.OTHER_HOST),  # in scope, but not this page's to speak for
        ("https://evil.test/b", OutOfScope.OTHER_HOST),
        ("https://example.com:8443/b", OutOfScope.OTHER_HOST),
    ],
)
def test_a_page_names_its_true_url_on_its_own_host_only_c8(canonical: str, why: OutOfScope | None) -> None:
    assert HERE.judge_canonical(canonical, "https://example.com/a") is why
