"""What reading an HTML page costs, beside lxml, parsel and BeautifulSoup: `python -m bench.page_parse`.

All readers take the same 100 KB page of 190 links and give title, description, canonical, robots meta and every link
with `rel` and text. CPU time, best of many rounds in turn: only ratios within one run mean something. Readers that are
not installed are left out. Then the floods of the tests, in seconds per megabyte.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urldefrag, urljoin

from tests.core.page.hostile import PATTERNS

from amble.core.page.guard import is_calm
from amble.core.page.linear import read_tokens
from amble.core.page.page import read_page
from amble.core.page.plain import read_plain
from amble.core.page.tree import read_tree

URL = "https://www.example.com/news/index.html"
CONTENT_TYPE = "text/html; charset=utf-8"
ROUNDS = 40
LINKS = 190
CHARS = 100_000
FLOOD_CHARS = 1_000_000
ANCHORS_MAX = 20_000

Found = tuple[str, str, str, str, list[tuple[str, str, str]]]
Work = dict[str, Callable[[], object]]


# --- The page ------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes pages as content systems do: inline style and script, a menu, cards, filler."""

    words = "the of and to in is you that it was for on are as with his they at be this have from or one"

    def __init__(self) -> None:
        self.chance = random.Random(1)

    def said(self, count: int) -> str:
        return " ".join(self.chance.choices(self.words.split(), k=count))

    def link(self, number: int) -> str:
        href = f"/{self.said(1)}/{self.said(1)}-{number}.html?p={number}&amp;v=2"
        return f'<a class="link" href="{href}" title="{self.said(2)}">{self.said(3)}</a>'

    def head(self) -> str:
        metas = [f'<meta property="og:x{n}" content="{self.said(6)}">\n' for n in range(12)]
        preloads = [f'<link rel="preload" href="/js/{n}.js" as="script">\n' for n in range(12)]
        style = "".join(f".c{n}>li{{color:#{n:06x};margin:0 auto}} " for n in range(120))
        script = "".join(f'd["k{n}"]={{a:"{self.said(3)}",f:function(a){{return a<{n}&&a>0}}}};' for n in range(80))
        return (
            '<meta charset="utf-8">\n<title>An ordinary page &mdash; Example</title>\n'
            '<meta name="description" content="An ordinary page">\n<meta name="robots" content="noarchive">\n'
            f'<link rel="canonical" href="/news/">\n{"".join(metas + preloads)}'
            f"<style>{style}</style>\n<script>{script}</script>\n"
        )

    def menu(self, numbers: range) -> str:
        items = [f'<li class="item item-{n}" data-id="{n}">{self.link(n)}</li>\n' for n in numbers]
        return f"<nav><ul>{''.join(items)}</ul></nav>\n"

    def card(self, number: int) -> str:
        return (
            f'<article class="card" data-n="{number}">\n<h2 class="card-title">{self.link(number)}</h2>\n'
            f'<p class="lead">{self.said(18)} <strong>{self.said(2)}</strong> {self.said(12)}</p>\n'
            f"<p>{self.link(number + 1)} {self.said(9)}</p>\n"
            f'<img src="/i/{number}.jpg" alt="{self.said(3)}" width="300" loading="lazy">\n'
            f'<ul class="tags"><li><span>{self.said(1)}</span></li><li><em>{self.said(1)}</em></li></ul>\n'
            f"</article>\n<!-- card {number} -->\n"
        )

    def filler(self, number: int) -> str:
        return (
            f'<div class="cell" data-x="{number}"><span class="b">{self.said(5)}</span><p>{self.said(20)}</p></div>\n'
        )


def ordinary_page(links: int = LINKS, chars: int = CHARS) -> str:
    """The same page each time."""
    writer = _Writer()
    menu = writer.menu(range(links // 5))
    cards = "".join(writer.card(number) for number in range(links // 5, links, 2))
    head = f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{writer.head()}</head>\n'
    page = f'{head}<body class="home">\n{menu}<main>\n{cards}</main>\n'
    while len(page) < chars:
        page += writer.filler(len(page))
    return f"{page}</body>\n</html>\n"


# --- The same work with each ---------------------------------------------------------------------------------------


def with_lxml(text: str) -> Found:
    tree: Any = import_module("lxml.html").document_fromstring(text)

    def first(path: str) -> str:
        return next(iter(tree.xpath(path)), "")

    anchors = tree.xpath("//a[@href]|//area[@href]")
    return (
        first("//title/text()"),
        first("//meta[@name='description']/@content"),
        first("//link[@rel='canonical']/@href"),
        first("//meta[@name='robots']/@content"),
        [(a.get("href"), a.get("rel", ""), " ".join(a.text_content().split())) for a in anchors],
    )


def with_parsel(text: str) -> Found:
    tree: Any = import_module("parsel").Selector(text)
    anchors = tree.css("a[href],area[href]")
    return (
        tree.css("title::text").get(""),
        tree.css("meta[name=description]::attr(content)").get(""),
        tree.css("link[rel=canonical]::attr(href)").get(""),
        tree.css("meta[name=robots]::attr(content)").get(""),
        [
            (a.attrib["href"], a.attrib.get("rel", ""), " ".join("".join(a.xpath(".//text()").getall()).split()))
            for a in anchors
        ],
    )


def with_beautifulsoup(text: str) -> Found:
    tree: Any = import_module("bs4").BeautifulSoup(text, "html.parser")

    def first(tag: str, attribute: str, wanted: dict[str, str]) -> str:
        found = tree.find(tag, attrs=wanted)
        return str(found[attribute]) if found else ""

    anchors = tree.find_all(["a", "area"], href=True)
    return (
        tree.title.get_text(),
        first("meta", "content", {"name": "description"}),
        first("link", "href", {"rel": "canonical"}),
        first("meta", "content", {"name": "robots"}),
        [(a["href"], " ".join(a.get("rel") or []), " ".join(a.get_text().split())) for a in anchors],
    )


def with_lxml_and_urljoin(body: bytes) -> int:
    """What a crawler does next with hrefs, with the standard library."""
    return len({urldefrag(urljoin(URL, href)).url for href, _, _ in with_lxml(body.decode())[-1]})


# --- Measuring -----------------------------------------------------------------------------------------------------


def best_of(work: Work, rounds: int) -> dict[str, float]:
    """CPU seconds of each, taken in turn so that a busy machine treats all alike."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, call in work.items():
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    return best


def show(title: str, spent: dict[str, float]) -> None:
    unit = next(iter(spent.values()))
    print(title)
    for name, seconds in spent.items():
        print(f"  {name:<32} {seconds * 1e6:8.0f} us  {seconds / unit:6.2f} x")


def readers(text: str) -> None:
    work: Work = {
        "amble, plain": partial(read_plain, text, ANCHORS_MAX),
        "amble, guard and tree": lambda: is_calm(text) and read_tree(text, ANCHORS_MAX),
        "  the guard alone": partial(is_calm, text),
        "  the tree alone (Lexbor)": partial(read_tree, text, ANCHORS_MAX),
        "amble, tokens": partial(read_tokens, text, ANCHORS_MAX),
    }
    for name, peer in (("lxml", with_lxml), ("parsel", with_parsel), ("bs4", with_beautifulsoup)):
        if find_spec(name):
            work[name] = partial(peer, text)
    show("text to title, metas and links", best_of(work, ROUNDS))


def whole(text: str) -> None:
    body = text.encode()
    work: Work = {"amble, read_page": partial(read_page, body, URL, CONTENT_TYPE)}
    if find_spec("lxml"):
        work["lxml, urljoin, urldefrag"] = partial(with_lxml_and_urljoin, body)
    show("bytes to resolved links", best_of(work, ROUNDS))


def floods() -> None:
    spent = {}
    for name, pattern in PATTERNS.items():
        body = pattern(FLOOD_CHARS)
        spent[name] = best_of({name: partial(read_page, body, URL, CONTENT_TYPE)}, 3)[name] / (len(body) / 1e6)
    print(f"floods of {FLOOD_CHARS / 1e6:g} MB, the ten slowest of {len(spent)}")
    for name, seconds in sorted(spent.items(), key=lambda item: -item[1])[:10]:
        print(f"  {name:<32} {seconds:8.3f} s/MB")


def main() -> None:
    text = ordinary_page()
    print(f"{len(text)} characters, {text.count('<')} times `<`, {len(read_tree(text, ANCHORS_MAX).anchors)} links")
    readers(text)
    whole(text)
    floods()


if __name__ == "__main__":
    main()
