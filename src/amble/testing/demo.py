"""The demonstration: crawl a small web served on loopback (or the URLs given) and show how each site's pace is learned.

python -m amble.testing.demo [URL ...]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from amble.assemble import assemble
from amble.core.frontier.changes import Changes, Ready
from amble.core.pacing.events import BlockClosed, BlockOpened, CircuitClosed, CircuitOpened, Event, PaceChanged
from amble.core.pacing.snapshot import snapshot_domain
from amble.core.seeds import Seed, seed_url
from amble.crawl import Crawl
from amble.errors import AmbleError
from amble.fetcher import FetchResult
from amble.settings import Settings
from amble.testing.farm import Farm, demo_web


class Show:
    """Prints what a person wants to follow, and counts the rest."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.ends: Counter[str] = Counter()
        self.bytes = 0
        self.limited: set[str] = set()

    def __call__(self, changes: Changes, ready: Ready | None, result: FetchResult | None, utc: datetime) -> None:
        for final in changes.finals:
            self.ends[str(final.failure or final.state)] += 1
            self.bytes += len(final.page.text or "") if final.page else 0
        for event in changes.events:
            line = self._line(event)
            if line is not None:
                self.say(f"{event.domain.partition(':')[0]:<20} {line}")

    def say(self, text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self.began:6.1f} s  {text}\n")

    def _line(self, event: Event) -> str | None:
        if isinstance(event, BlockOpened):
            self.limited.add(event.domain)
            return f"{event.reason}: left alone for {event.wait_s:.1f} s"
        if isinstance(event, BlockClosed):
            return f"answers again: {event.reason}, {1 / event.delay_s:.2f} requests/s"
        if isinstance(event, CircuitOpened):
            return f"circuit open for {event.wait_s:.0f} s: {event.reason}"
        if isinstance(event, CircuitClosed):
            return f"circuit closed after {event.open_s:.0f} s"
        if isinstance(event, PaceChanged) and event.domain in self.limited and event.delay_s < event.was_s:
            return f"delay {event.was_s:.2f} s -> {event.delay_s:.2f} s: {event.reason}"
        return None


def table(crawl: Crawl) -> str:
    """Every domain with what it was asked and what set its pace in the end."""
    now = crawl.clock.monotonic()
    domains = [snapshot_domain(lane.pace, now) for lane in crawl.plan.frontier.lanes.values()]
    lines = [f"{'domain':<22} {'requests':>8} {'429/503':>8} {'failed':>7} {'delay':>8}  set by"]
    for domain in sorted(domains, key=lambda domain: -domain.requests):
        name = domain.domain.partition(":")[0]
        counts = f"{domain.requests:>8} {domain.limited:>8} {domain.failures:>7}"
        lines.append(f"{name:<22} {counts} {domain.delay_s:>6.2f} s  {domain.source}")
    return "\n".join(lines)


async def run(seeds: Sequence[Seed], farm: Farm | None) -> None:
    show = Show()
    settings = Settings.of({"user_agent": "amble/0.1 (demonstration)"})
    known = {"policy": farm.policy, "resolver": farm.resolver} if farm else {}
    crawl, fetcher = assemble(settings, seeds, show, **known)  # type: ignore[arg-type]
    show.say(f"crawling {len(seeds)} site{'s' if len(seeds) > 1 else ''}")
    try:
        await crawl.run()
    finally:
        await fetcher.close()
    ends = ", ".join(f"{count} {kind}" for kind, count in show.ends.most_common())
    show.say(f"finished: {ends}; {show.bytes / 1e6:.1f} MB of text")
    sys.stdout.write(f"\n{table(crawl)}\n")


def main(arguments: Sequence[str]) -> int:
    try:
        if arguments:
            asyncio.run(run([seed_url(text) for text in arguments], None))
            return 0
        with Farm(demo_web()) as farm:
            asyncio.run(run([seed_url(url) for url in farm.roots()], farm))
            report = farm.judge()
        broken = sum(site.inside_retry_after + site.under_crawl_delay + site.disallowed for site in report.hosts)
        sys.stdout.write(f"\nThe sites' own logs show {broken} broken rules.\n")
    except AmbleError as error:
        sys.stderr.write(f"amble: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
