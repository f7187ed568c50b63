"""A second crawl into a file that holds pages already: one row for each URL, the newer one."""

from __future__ import annotations

from pathlib import Path

import duckdb

from amble.testing.farm import Farm, Pages, Site
from amble.testing.farm.outages import Outage
from tests.e2e.test_farm import crawl, missing

QUICK = {"pacing": "fixed", "fixed_delay": 0.0, "max_rate": "unlimited", "discover": False, "follow_links": True}


def titles(file: Path) -> dict[str, str | None]:
    with duckdb.connect(str(file)) as connection:
        return dict(connection.execute("SELECT url, title FROM pages").fetchall())


def test_a_page_that_changed_replaces_its_row(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with Farm([Site(name="a.test", pages=Pages(20))]) as farm:
        crawl(farm, file, **QUICK)
        before = titles(file)
        farm.replace(Site(name="a.test", pages=Pages(20, edition=2)))
        farm.clear()
        again = crawl(farm, file, **QUICK)
        assert missing(again.report) == {}
    after = titles(file)
    assert after.keys() == before.keys()
    changed = {url for url in after if after[url] != before[url]}
    assert len(changed) == 4, "every fifth page has a second edition"
    assert all("edition 2" in (after[url] or "") for url in changed)


def test_urls_that_failed_are_got_when_they_can_be(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    down = Site(name="a.test", pages=Pages(20), outages=(Outage(0.3, 600.0, "error"),))
    with Farm([down]) as farm:
        impatient = {"fixed_delay": 0.05, "max_retries": 0, "open_state_duration": 0.1, "open_state_duration_max": 0.1}
        crawl(farm, file, **QUICK | impatient)
        failed = [url for url, title in titles(file).items() if title is None]
        assert failed
        farm.replace(Site(name="a.test", pages=Pages(20)))
        crawl(farm, file, **QUICK)
    after = titles(file)
    assert len(after) == 20
    assert all(after.values())
