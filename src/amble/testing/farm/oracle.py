"""How long a client needs that knows every limit: the measure of those that must find them out."""

from __future__ import annotations

from amble.testing.farm.site import Site


def ideal_s(site: Site, pages: int, *, max_rate: float | None = None) -> float:
    """Seconds for so many pages of a site: the slowest of its limit, its crawl delay and the client's own cap.

    Time in which the site is down is lost to the best client too. Robots.txt, sitemaps and redirects are not counted:
    an oracle needs none of them.
    """
    if site.oracle_s is not None:
        return max(site.oracle_s, pages / max_rate if max_rate else 0.0)
    bounds_s = [site.limit.ideal_s(pages) if site.limit else 0.0]
    if site.robots and site.robots.crawl_delay_s:
        bounds_s.append(pages * site.robots.crawl_delay_s)
    if max_rate:
        bounds_s.append(pages / max_rate)
    needed_s = max(bounds_s)
    for outage in sorted(site.outages, key=lambda outage: outage.from_s):
        if outage.from_s < needed_s:
            needed_s += outage.to_s - outage.from_s
    return needed_s
