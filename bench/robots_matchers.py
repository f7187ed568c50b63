"""How long robots.txt files take to read and to ask, beside other parsers: `python -m bench.robots_matchers`.

Protego, robotspy and Google's own C++ parser (jwm.robotstxt) are measured where they are installed; Google's has no
step of reading, it parses the file for every question. Times are CPU time, best of several runs in one process; the
ratio is to amble in the same run. A verdict that differs from Google's, or from amble's without it, is marked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple
from urllib.robotparser import RobotFileParser

from amble.core.robots.match import Rules, path_of
from amble.core.robots.parse import parse

AGENT = "amble"
HOST = "https://www.example.com"
Check = Callable[[str], bool]


class Case(NamedTuple):
    """A robots.txt and the paths that are asked."""

    name: str
    body: bytes
    paths: tuple[str, ...]


def cases() -> Iterator[Case]:
    """Files as they are met: a blog's, a shop's; and as they are feared."""
    blog = ["/wp-admin/", "/cgi-bin/", "/*?s=", "/*.pdf$", "/trackback", "/comments/feed", "/*/attachment/"]
    pages = ("/", "/2024/05/a-page-about-walking/", "/wp-admin/options.php", "/?s=boots", "/files/map.pdf")
    yield Case("blog, 7 rules", _file(blog), pages)
    shop = [f"/category-{n}/filter" for n in range(200)] + [f"/*?*sort{n}=*" for n in range(40)] + ["/*.json$", "/cart"]
    goods = ("/category-7/boots/leather-boot-42?color=brown&size=44", "/category-9/filter?x", "/cart", "/a?b&sort3=up")
    yield Case("shop, 242 rules", _file(shop), goods)
    yield Case("20,000 plain", _file(f"/p{n}/q" for n in range(20_000)), ("/p777/q/r", "/none", "/p19999"))
    yield Case("20,000 with stars", _file(f"/*a{n}*b$" for n in range(20_000)), ("/x/a77/b", "/a1/a2/a3", "/none"))
    growing = _file(f"/{'*a' * 3}*{n}" for n in range(20_000))
    yield Case("20,000 built to be slow", growing, ("/" + "a" * 60, "/aaaaaaaa/19", "/" + "a" * 300 + "b"))


def _file(patterns: Any) -> bytes:
    return ("User-agent: *\n" + "".join(f"Disallow: {pattern}\n" for pattern in patterns)).encode()


# --- The parsers ---------------------------------------------------------------------------------------------------


def read_with_amble(body: bytes) -> Check:
    rules = Rules(parse(body).group_for(AGENT).rules)
    return lambda url: rules.allows(path_of(url))


def read_with_protego(body: bytes) -> Check:
    file = import_module("protego").Protego.parse(body.decode())
    return lambda url: bool(file.can_fetch(url, AGENT))


def read_with_robotspy(body: bytes) -> Check:
    file = import_module("robots").RobotsParser.from_string(body.decode())
    return lambda url: bool(file.can_fetch(AGENT, url))


def read_with_urllib(body: bytes) -> Check:
    file = RobotFileParser()
    file.parse(body.decode().splitlines())
    return lambda url: file.can_fetch(AGENT, url)


def read_with_google(body: bytes) -> Check:
    matcher = import_module("jwm.robotstxt.googlebot").RobotsMatcher()
    return lambda url: bool(matcher.OneAgentAllowedByRobots(body, AGENT, url))


READERS: dict[str, Callable[[bytes], Check]] = {
    "amble": read_with_amble,
    "google (C++)": read_with_google,
    "protego": read_with_protego,
    "robotspy": read_with_robotspy,
    "urllib": read_with_urllib,
}


# --- Measuring -----------------------------------------------------------------------------------------------------


def best_s(work: Callable[[], object], *, budget_s: float = 0.4) -> float:
    """CPU seconds of one call: the best of as many batches as the budget allows, at least two."""
    count, spent_s, best = 1, 0.0, float("inf")
    batches = 0
    while spent_s < budget_s or batches < 2:
        start = time.process_time()
        for _ in range(count):
            work()
        batch_s = time.process_time() - start
        best, spent_s, batches = min(best, batch_s / count), spent_s + batch_s, batches + 1
        if batch_s < 0.01:
            count *= 4
        elif batch_s > budget_s:
            break
    return best


def measure(case: Case) -> None:
    print(f"\n{case.name} ({len(case.body):,} bytes)")
    print(f"  {'':14}{'read ms':>10}{'ratio':>8}{'ask us':>11}{'ratio':>9}")
    urls = [HOST + path for path in case.paths]
    ours: tuple[float, float] | None = None
    expected: list[bool] | None = None
    for name, read in READERS.items():
        try:
            check = read(case.body)
        except ModuleNotFoundError as missing:
            print(f"  {name:14}{missing.name} is not installed")
            continue
        verdicts = [check(url) for url in urls]
        read_s = best_s(lambda read=read: read(case.body))  # type: ignore[misc]
        ask_s = best_s(lambda check=check: [check(url) for url in urls]) / len(urls)  # type: ignore[misc]
        ours = ours or (read_s, ask_s)
        expected = verdicts if expected is None or name.startswith("google") else expected
        differs = sum(verdict != wanted for verdict, wanted in zip(verdicts, expected, strict=True))
        note = f"  {differs} of {len(urls)} verdicts differ" if differs else ""
        ratios = (read_s / ours[0], ask_s / ours[1])
        print(f"  {name:14}{read_s * 1e3:10.3f}{ratios[0]:8.2f}{ask_s * 1e6:11.2f}{ratios[1]:9.2f}{note}")


def main() -> None:
    for case in cases():
        measure(case)


if __name__ == "__main__":
    main()
