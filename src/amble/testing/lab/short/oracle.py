"""The client that every other is measured by: it knows the limit, its credit and every outage, and where all pages lie.

It asks the site's own limiter when the next request will be admitted and sends it then; nothing that it sends is
refused or cut off. It needs no robots.txt and no links, and keeps to the crawl's own limit of requests under way.
"""

from __future__ import annotations

import heapq

from amble.testing.lab.short.host import ShortHost

AT_ONCE = 8  # requests under way at one site, as a crawl ships
_ROUNDING_S = 1e-9  # what is lost in sums of seconds must not make it wait for ever


def oracle_s(host: ShortHost) -> float:
    """Seconds from its first request to its last answer."""
    limiter, latency_s = host.limiter(), host.latency.mean_s
    now = last_s = host.clock_s
    ends: list[float] = []
    for _ in range(host.pages):
        if len(ends) >= AT_ONCE:
            now = max(now, heapq.heappop(ends))
        while True:
            down = host.downtime(now)
            if down is not None:
                now = down.to_s
                continue
            cut_off = host.cut_off(now, now + latency_s)
            if cut_off is not None:
                now = cut_off
                continue
            wait_s = limiter.wait_s(now)
            if wait_s <= 0.0:
                inside_s = limiter.admit(now, latency_s)
                if inside_s is not None:
                    break
            now += wait_s + _ROUNDING_S
        heapq.heappush(ends, now + inside_s + latency_s)
        last_s = max(last_s, now + inside_s + latency_s)
    return last_s - host.clock_s
