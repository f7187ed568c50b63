"""The bare loop that amble is measured against does what it claims: every page, once, with its text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest
from bench._bare import Crawl, port_of

from amble.testing.farm import Farm
from amble.testing.farm.webs import throughput


@pytest.mark.parametrize("hosts", [1, 12])
def test_every_page_is_got_once_and_stored_with_its_text(hosts: int, tmp_path: Path) -> None:
    file = tmp_path / "pages.duckdb"
    with Farm(throughput(60, hosts=hosts, size_bytes=4_000)) as farm:
        crawl = Crawl(farm.roots(), str(file))
        crawl.run(port_of(farm.roots()[0]))
        asked = Counter((entry.host, entry.target) for entry in farm.log())
        wanted = set(farm.urls())
    assert set(asked.values()) == {1}
    assert crawl.pages == len(wanted) == len(asked)
    with duckdb.connect(file) as connection:
        rows = connection.execute("SELECT url, status, title, links, body FROM pages").fetchall()
    assert {url for url, *_ in rows} == wanted
    assert len(rows) == len(wanted)
    assert all(status == 200 and title and links for _, status, title, links, _ in rows)
    assert all(title in body and body.endswith("</html>\n") for _, _, title, _, body in rows)


def test_without_a_file_nothing_is_stored_and_as_much_is_got() -> None:
    with Farm(throughput(40, size_bytes=4_000)) as farm:
        crawl = Crawl(farm.roots(), None)
        crawl.run(port_of(farm.roots()[0]))
        assert farm.judge().got == crawl.pages == 40
