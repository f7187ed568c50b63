"""What the store gives up on ends the crawl at once: nothing is fetched in vain, and a later run gets it all."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amble.errors import StoreError
from amble.jobs import Job
from amble.settings import Settings
from amble.store.commit import Committer
from amble.store.duckdb_store import DuckDBStore
from amble.store.rows import Encoded
from amble.store.seam import JobStatus
from amble.testing.farm import Farm, Pages, Site

SETTINGS = {"pacing": "fixed", "fixed_delay": 0.01, "max_rate": "unlimited", "follow_links": True, "threads": 1}
PAGES = 400


def test_what_cannot_be_stored_ends_the_crawl_and_is_fetched_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, refused = Committer.commit, list[int]()

    def once_broken(self: Committer, encoded: Encoded, *, straight: bool = False) -> None:
        if encoded.page_count and not refused:
            refused.append(encoded.page_count)
            raise StoreError("the database cannot be used any more")
        commit(self, encoded, straight=straight)

    monkeypatch.setattr(Committer, "commit", once_broken)
    with Farm([Site(name="a.test", pages=Pages(PAGES))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        job = Job.start(store, farm.roots(), Settings.of(SETTINGS), **ways)
        with pytest.raises(StoreError, match="cannot be used any more"):
            asyncio.run(job.run())
        assert refused
        assert job.result.requests < PAGES / 2, "it went on fetching"
        assert store.jobs()[0].status is not JobStatus.COMPLETED

        asyncio.run(Job.take_up(store, job.row.id, **ways).run())
        with store.database.reading() as connection:
            assert connection.execute("SELECT count(*), count(body) FROM pages").fetchall() == [(PAGES, PAGES)]
