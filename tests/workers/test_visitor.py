"""What a visit brings to whoever decides: a robots.txt or a sitemap that is too long is read as far as it goes."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import Kind, Visit
from amble.core.robots.policy import Terms
from amble.core.sitemap.document import SitemapDocument
from amble.fetcher import FetchRequest, FetchResult
from amble.fetcher.calls import awaited
from amble.workers.errand import Visited
from amble.workers.visitor import LocalVisitor, TaskFetch, errand_of

WHOLE = b"<urlset><url><loc>http://a.test/1</loc></url></urlset>"
CUT = WHOLE.removesuffix(b"</urlset>") + b"<url><loc>http://a.test/2"


class Canned(TaskFetch):
    def __init__(self, body: bytes, truncated: bool) -> None:
        self._body, self._truncated = body, truncated

    async def fetch(self, request: FetchRequest) -> FetchResult:
        return FetchResult(request.url, 200, body=self._body, truncated=self._truncated)


@pytest.mark.parametrize(
    ("kind", "is_cut"),
    [(Kind.PAGE, False), (Kind.ROBOTS, True), (Kind.SITEMAP, True)],
)
def test_a_page_that_is_too_long_is_let_go_and_all_else_is_cut_b11(kind: Kind, is_cut: bool) -> None:
    assert errand_of(Visit("http://a.test/x", kind)).keep_prefix is is_cut


@pytest.mark.parametrize(("story", "body", "truncated"), [("whole", WHOLE, False), ("cut", CUT, True)])
def test_a_sitemap_that_was_cut_says_so_b11(story: str, body: bytes, truncated: bool) -> None:
    visitor = LocalVisitor(Canned(body, truncated), VisitSettings(), Terms("amble"))

    async def visit() -> Visited | None:
        going = partial(visitor.visit, Visit("http://a.test/sitemap.xml", Kind.SITEMAP), 0.0, lambda _: None)
        visited: Visited | None = await awaited(going)
        return visited

    visited = asyncio.run(visit())
    assert visited is not None
    document = visited.reading
    assert isinstance(document, SitemapDocument)
    assert [entry.url for entry in document.entries] == ["http://a.test/1"], story
    assert (document.truncated, document.broken) == (truncated, None)
