"""A proxy that goes down in the middle of a real crawl, and comes back [F10]."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from amble.core.frontier import outage, patience
from amble.core.pacing.events import CircuitOpened, Event, NetworkBack, NetworkDown
from amble.jobs import Job, JobResult
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.testing.farm import Farm, Pages, Site
from amble.testing.rawserver import serve
from tests.fetcher.proxyserver import proxy

DOWN_S = 1.5


async def crawl_through_a_proxy(farm: Farm, store: DuckDBStore, events: list[Event]) -> JobResult:
    """The proxy is killed when the crawl is well on its way, and started again a little later on the same port."""
    well_on_its_way = asyncio.Event()

    def told(event: Event) -> None:
        events.append(event)
        if len(events) > 6:  # each is that of a rate that grew
            well_on_its_way.set()

    async with AsyncExitStack() as life:
        first = await life.enter_async_context(serve(proxy()))
        settings = {
            "http_proxy": f"http://127.0.0.1:{first.port}", "discover": False, "follow_links": True,
            "max_rate": 20.0, "max_retries": 1,
        }  # fmt: skip
        job = Job.start(
            store, farm.roots(), Settings.of(settings), policy=farm.policy, resolver=farm.resolver, listeners=[told]
        )
        running = asyncio.create_task(job.run())
        await well_on_its_way.wait()
        await life.aclose()
        await asyncio.sleep(DOWN_S)
        async with serve(proxy(), port=first.port):
            return await running


def test_a_proxy_that_is_killed_and_brought_back_costs_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a single retry to spend, for what was under way when it fell: whatever failed later was nobody's fault."""
    monkeypatch.setattr(outage, "PROBE_EVERY_S", 0.3)
    monkeypatch.setattr(patience, "FAULT_WAIT_S", 0.2)
    sites = [Site(name=f"site{number}.test", pages=Pages(25)) for number in (1, 2)]
    events: list[Event] = []
    with Farm(sites) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        result = asyncio.run(crawl_through_a_proxy(farm, store, events))
        report = farm.judge()
    assert {site.host: site.missing for site in report.hosts if site.missing} == {}
    assert (result.pages, result.failed) == (50, 0)
    told = [type(event) for event in events if isinstance(event, NetworkDown | NetworkBack | CircuitOpened)]
    assert told == [NetworkDown, NetworkBack]
    [back] = [event for event in events if isinstance(event, NetworkBack)]
    assert back.down_s < DOWN_S + 30.0
