"""What a page or a sitemap leads to, each URL with the reason against it if there is one. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from amble.core.frontier.changes import Final
from amble.core.frontier.recall import Leads
from amble.core.frontier.settings import VisitSettings
from amble.core.frontier.visit import FoundBy, Visit
from amble.core.scope import Scope
from amble.core.sitemap.document import SitemapEntry
from amble.core.urls import domain_of

NOFOLLOW = "nofollow"


class Found(NamedTuple):
    """One URL that was come across. `why_not` is the reason against visiting it."""

    visit: Visit | None
    why_not: str | None = None
    entry: SitemapEntry | None = None


class Inflow(NamedTuple):
    """URLs still to be taken in, a slice at a time, and the task that ends when all of them have been."""

    found: Iterator[Found]
    final: Final | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Unjudged:
    """What was found together, until it is known what the WHERE of the crawl takes of it."""

    found: Sequence[Found]
    rest: Inflow  # where it comes from

    @property
    def visits(self) -> list[Visit]:
        """Those to be judged."""
        return [found.visit for found in self.found if found.visit is not None and found.why_not is None]


def leads_to(
    visit: Visit, leads: Leads, settings: VisitSettings, scope: Scope, seen: Container[str], near: set[str],
    *, follows: bool,
) -> Iterator[Found]:  # fmt: skip
    """Everything that a page leads to, save what was seen before: of thirty links that is all but one or two.

    `follows`: links of this page are followed at all. `near` holds some of those seen, and is told of others.
    """
    depth, found_on, parent = visit.depth + 1, domain_of(visit.url), visit.url
    url = leads.canonical
    if url is not None and url != visit.task and settings.follow_canonical:  # most pages name themselves
        out = scope.judge_canonical(url, visit.url)
        yield Found(
            Visit(url, depth=visit.depth, task=url, parent=parent, found_by=FoundBy.CANONICAL, found_on=found_on),
            out.value if out else None,
        )
    if not follows:
        return
    if leads.nofollow and settings.respect_nofollow:
        yield Found(None, NOFOLLOW)
        return
    if leads.refresh is not None:  # a redirect that waits: no step deeper than the page that has it [C9]
        url = leads.refresh
        out = scope.judge(url)
        yield Found(
            Visit(url, depth=visit.depth, task=url, parent=parent, found_by=FoundBy.LINK, found_on=found_on),
            out.value if out else None,
        )
    obeys = settings.respect_nofollow
    # Most are at hand, and are left out before anything else is asked of them.
    for url, _, rel in [link for link in leads.links if link[0] not in near or link[2]]:
        if obeys and NOFOLLOW in rel:
            yield Found(None, NOFOLLOW)
            continue
        if url in seen:
            near.add(url)
            continue
        out = scope.judge_link(url, depth)
        if out is not None:
            yield Found(None, out.value)
        else:
            yield Found(Visit(url, depth=depth, task=url, parent=parent, found_by=FoundBy.LINK, found_on=found_on))


def lists(entries: list[SitemapEntry], visit: Visit, scope: Scope) -> Iterator[Found]:
    """Everything that a sitemap lists of its site."""
    found_on = domain_of(visit.url)
    for entry in entries:
        out = scope.judge(entry.url)
        if out is not None:
            yield Found(None, out.value)
            continue
        priority = 0.5 if entry.priority is None else entry.priority
        yield Found(
            Visit(entry.url, task=entry.url, parent=visit.url, found_by=FoundBy.SITEMAP, priority=priority,
                  found_on=found_on),
            None, entry,
        )  # fmt: skip
