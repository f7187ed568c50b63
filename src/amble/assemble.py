"""Settings and seeds in, the plan of a crawl out, and what it may connect to."""

from __future__ import annotations

from collections.abc import Iterable

from amble.core.addresses import AddressPolicy
from amble.core.frontier.backlog import Window
from amble.core.frontier.frontier import Frontier
from amble.core.frontier.intake import Held, Seen
from amble.core.frontier.plan import CrawlPlan
from amble.core.pacing.bounds import Random
from amble.core.pacing.machine import MachinePace
from amble.core.pacing.registry import Registry
from amble.core.robots.book import RobotsBook
from amble.core.scope import Scope, roots_of
from amble.core.seeds import Seed
from amble.core.seen import SeenSet
from amble.fetcher.descriptors import room_for
from amble.settings import Settings


def make_plan(
    settings: Settings,
    seeds: Iterable[Seed],
    random: Random,
    seen: Seen | None = None,
    frontier_kind: type[Frontier] = Frontier,
    *,
    stored: Held = (),
    window: Window | None = None,
    registry: Registry | None = None,
    book: RobotsBook | None = None,
    machine: MachinePace | None = None,
) -> CrawlPlan:
    """The decisions of a crawl, without a network.

    `stored` are the URLs that a store holds a success of; `window` is what is kept in memory where there is a store to
    keep the rest. Registry and book may be shared with other crawls, and `machine` with other processes.
    """
    visiting = settings.visiting
    scope = Scope(
        roots_of(seed.url for seed in seeds),
        follow_links=visiting.follow_links is not False,
        allow_subdomains=visiting.allow_subdomains,
        max_crawl_depth=visiting.max_crawl_depth,
    )
    if book is None:
        book = RobotsBook(settings.robots, settings.fetching.user_agent, random)
    if registry is None:
        registry = Registry(settings.pacing.outlasting(settings.fetching.http_timeout), random, machine=machine)
    frontier = frontier_kind(visiting, registry, book)
    frontier.backlog.window = window
    fetching = settings.fetching
    frontier.begun.most = room_for(fetching.max_total_connections, fetching.max_kept_connections).kept
    return CrawlPlan(visiting, frontier, scope, seen if seen is not None else SeenSet(), random, stored)


def address_policy(settings: Settings, typed: Iterable[str] = ()) -> AddressPolicy:
    """What a job may connect to: the public internet, the seeds somebody typed, and what `allow_private` opens."""
    return AddressPolicy.of(named=typed, opened=settings.fetching.allow_private)
