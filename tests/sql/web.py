"""A small web and a connection that crawls it, for the tests of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amble.sql.connection import Connection, open_connection
from amble.testing.farm import Farm, Site
from amble.testing.farm.exchange import Request, Response
from amble.testing.farm.site import Feature

# No pace of our own: what a test is about is not how long it takes.
QUICK = "pacing = fixed, fixed_delay = 0, max_rate = unlimited"
FAST = f"WITH (follow_links = false, {QUICK})"  # the seeds alone

Answer = Callable[[Request], Response]


@dataclass(frozen=True, slots=True)
class Paths(Feature):
    """What a site answers at certain paths."""

    answers: dict[str, Response | Answer] = field(default_factory=dict)

    def answer(self, site: Site, request: Request) -> Response | None:
        found = self.answers.get(request.path)
        return found(request) if callable(found) else found


@contextmanager
def web(*sites: Site, path: str | Path = ":memory:", **options: Any) -> Iterator[tuple[Farm, Connection]]:
    """The sites, and a connection whose crawls find them."""
    with Farm(sites) as farm:
        con = open_connection(path, options, ways={"policy": farm.policy, "resolver": farm.resolver})
        try:
            yield farm, con
        finally:
            con.close()


def paths_asked(farm: Farm, host: str | None = None) -> list[str]:
    """What was asked for, robots.txt and sitemaps left out."""
    return [
        entry.target
        for entry in farm.log()
        if (host is None or entry.host == host) and not entry.is_robots and "sitemap" not in entry.path
    ]
