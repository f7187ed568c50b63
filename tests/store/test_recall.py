"""What a later crawl asks of the store: which pages are there, where they lead, what sitemaps said about them."""

from __future__ import annotations

from datetime import timedelta

from amble.core.page.links import Link
from amble.core.sitemap.document import ChangeFreq, SitemapEntry
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, LinkRow, SitemapListing, TaskState
from tests.store.support import BEGAN, ask, new_job, page, page_links, task

DAY = timedelta(days=1)
ONE, TWO, THREE = "https://a.test/1", "https://a.test/2", "https://a.test/3"


def test_stored_are_the_urls_of_rows_without_an_error(store: DuckDBStore) -> None:
    job_id, other = new_job(store), new_job(store, "others")
    rows = [
        page(job_id, 1),
        page(job_id, 2, error_type="network_timeout", http_status=None),
        page(job_id, 3, body=None),
    ]
    store.submit(Batch(pages=[*rows, page(other, 4)]), urgent=True).result()
    found = store.stored(job_id)
    assert [number for number in range(1, 5) if f"https://a.test/{number}" in found] == [1, 3]
    store.submit(Batch(pages=[page(job_id, 1, error_type="http_client_error")]), urgent=True).result()
    assert ONE not in store.stored(job_id)


def test_the_links_of_a_page_are_packed_and_read_back(store: DuckDBStore) -> None:
    job_id = new_job(store)
    links = [Link(TWO, "two\twords\n", ("nofollow", "ugc")), Link("https://b.test/", ""), Link("https://b.test/x", "x")]
    batch = Batch(
        page_links=[page_links(job_id, ONE, links), page_links(job_id, TWO, []), page_links(1, THREE, [Link(ONE, "")])],
    )
    store.submit(batch, urgent=True).result()
    assert store.links_of([ONE, TWO, THREE]) == {
        ONE: [
            LinkRow(TWO, "nofollow ugc", "two words "),
            LinkRow("https://b.test/"),
            LinkRow("https://b.test/x", None, "x"),
        ],
        THREE: [LinkRow(ONE)],
    }


def test_what_sitemaps_said_last_is_known_by_page_and_by_sitemap(store: DuckDBStore) -> None:
    job_id = new_job(store)
    index, part = "https://a.test/index.xml", "https://a.test/part.xml"
    older = [SitemapEntry(ONE, BEGAN - DAY, ChangeFreq.DAILY, 0.3)]
    newer = [SitemapEntry(ONE, BEGAN, None, 0.8), SitemapEntry(TWO)]
    for batch in (
        Batch(listings=[SitemapListing(job_id, part, BEGAN - 2 * DAY, older)]),
        Batch(listings=[SitemapListing(job_id, part, BEGAN, newer)]),
        Batch(listings=[SitemapListing(job_id, index, BEGAN - DAY, [SitemapEntry(part)], is_index=True)]),
    ):
        store.submit(batch, urgent=True).result()
    said = store.listed([ONE, TWO, part, "https://a.test/unlisted"])
    assert {url: (row.lastmod, row.changefreq, row.priority) for url, row in said.items()} == {
        ONE: (BEGAN, None, 0.8),
        TWO: (None, None, None),
    }
    assert store.sitemaps_read(BEGAN - DAY / 2) == {part}
    assert store.sitemaps_read(BEGAN - 3 * DAY) == {part, index}
    assert [row.kind for row in store.load_sitemap_urls(index)] == ["sitemap"]
    assert ask(store, "SELECT count(*) FROM amble.sitemap_urls WHERE kind IS NULL") == [(3,)]


def test_accepted_tasks_are_counted_by_domain(store: DuckDBStore) -> None:
    job_id = new_job(store)
    rows = [task(job_id, n) for n in range(70)] + [task(job_id, n, TaskState.RUNNING, "b.test") for n in range(3)]
    store.submit(Batch(discovered=rows), urgent=True).result()
    assert store.accepted_by_domain(job_id) == {"a.test": 70, "b.test": 3}
