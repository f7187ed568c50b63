"""Every block of SQL in the documents runs as it stands there, one after the other, on sites on loopback."""

from __future__ import annotations

import re

from amble.sql.calls import pieces_of
from amble.sql.connection import Connection
from amble.testing.farm import Farm, Pages, Site, Sitemap
from amble.testing.farm.exchange import html
from tests.conformance import REPOSITORY
from tests.sql.web import QUICK, Paths, proxy_server, web

BLOCK = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
URL = re.compile(r"https://([a-z.]+)(/[^' ]*)")

PRICES = html("<table class=prices><tr><th>what<th>price<tr><td>tea<td>2</table>")
EXAMPLE = Site(name="example.com", pages=Pages(4, size_bytes=500), sitemap=Sitemap(), features=(
    Paths({"/prices": PRICES}),
))  # fmt: skip
SHOP = Site(name="shop.example", pages=Pages(0), features=(Paths({
    "/": html('<a href="/product/1">1</a> <a href="/product/2">2</a> <a href="/about">-</a>'),
    "/product/1": html('<p class=price>1.50</p><img src="/1.png">'),
    "/product/2": html("<p class=price>on request</p>"),
}),))  # fmt: skip


def blocks(page: str, farm: Farm) -> list[str]:
    """The blocks of a page, about sites of this machine."""
    text = (REPOSITORY / "docs" / page).read_text("utf-8")
    return [URL.sub(lambda url: farm.url(url[1], url[2]), block) for block in BLOCK.findall(text)]


def quick(con: Connection) -> None:
    for setting in QUICK.split(", "):
        con.execute(f"SET {setting}")


def test_the_page_about_crawl() -> None:
    with proxy_server() as proxy, web(EXAMPLE) as (farm, con):
        quick(con)
        for block in blocks("sql.md", farm):
            con.execute(block.replace("http://proxy.example.com:8080", f"http://127.0.0.1:{proxy.server_port}"))
            assert con.fetchall(), block
        assert con.execute("SELECT count(*) FROM pages WHERE http_status = 200").fetchall() == [(4,)]


def test_the_page_about_pages_in_queries() -> None:
    with web(EXAMPLE, SHOP) as (farm, con):
        quick(con)
        crawl, queries, merge = blocks("sql-queries.md", farm)
        con.execute(crawl)
        products = "SELECT price, len(images) FROM products WHERE url LIKE '%/product/%' ORDER BY url"
        assert con.execute(products).fetchall() == [(1.5, 1), (None, 0)]
        con.execute(f"CREATE TABLE seeds AS SELECT '{farm.url('example.com', '/prices')}' AS url")
        for query in pieces_of(queries):
            con.execute(query)
            assert con.fetchall(), query
        con.execute("ALTER TABLE products ADD COLUMN is_deleted BOOLEAN")
        con.execute(merge)
        deleted = con.execute("SELECT url FROM products WHERE is_deleted").fetchall()
        assert deleted == [(farm.url("shop.example", "/about"),)]  # out of scope at first, and now asked for: 404
