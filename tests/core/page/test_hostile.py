"""That no page takes more than its share of time: twice the page, at most about twice the time [A15, A16]."""

from __future__ import annotations

import pytest

from amble.core.page.page import read_page
from tests.core.page.hostile import PATTERNS
from tests.core.robots.timing import cpu_s

TIMES, RATIO_MAX = 4, 9  # what is quadratic takes 16 times as long
CHARS = 400_000
CHARS_MAX = 8_000_000


def spent_s(body: bytes, runs: int) -> float:
    return cpu_s(lambda: read_page(body, "https://a.test/", "text/html; charset=utf-8"), at_least_s=0.02, runs=runs)


@pytest.mark.parametrize("name", PATTERNS)
def test_time_is_linear_in_the_page(name: str) -> None:
    pattern = PATTERNS[name]
    small, large = pattern(CHARS), pattern(TIMES * CHARS)
    for runs in (2, 8):  # a ratio above the bound may be noise: look closer before believing it
        ratio = spent_s(large, runs) / spent_s(small, runs)
        if ratio < RATIO_MAX:
            return
    pytest.fail(f"{TIMES} times the page takes {ratio:.0f} times as long")


@pytest.mark.parametrize("name", PATTERNS)
def test_links_around_a_flood_are_found(name: str) -> None:
    """Never silently zero links: what stands before the flood is found, and the count tells of what is left out."""
    body = b"<title>t</title><a href=/first>x</a>" + PATTERNS[name](CHARS)
    page = read_page(body, "https://a.test/", "text/html; charset=utf-8")
    assert page.links[0].url == "https://a.test/first"
    assert page.title == "t"
    assert page.links_truncated or page.links_seen >= len(page.links)
