"""A farm of sites on loopback, by name: the tests' judge from the server's side, and the demonstration web.

    python -m amble.testing.farm

`Farm(sites)` serves them in a thread, `FarmProcess(sites)` in a process; `farm.judge()` says from the log what was got
and which rules were broken. `webs` holds lists of sites that put one question each.
"""

from __future__ import annotations

from amble.testing.farm.demo import demo_web
from amble.testing.farm.farm import Farm, FarmProcess
from amble.testing.farm.judge import Tolerance, judge
from amble.testing.farm.log import Entry
from amble.testing.farm.pages import Pages
from amble.testing.farm.report import Report, SiteReport, slowdown
from amble.testing.farm.robots import Robots
from amble.testing.farm.site import Feature, Site
from amble.testing.farm.sitemap import Sitemap

__all__ = [
    "Entry",
    "Farm",
    "FarmProcess",
    "Feature",
    "Pages",
    "Report",
    "Robots",
    "Site",
    "SiteReport",
    "Sitemap",
    "Tolerance",
    "demo_web",
    "judge",
    "slowdown",
]
