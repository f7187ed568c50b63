"""Everything one seed decides before the crawl begins: the sites and their links, their faults, and the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from amble.core.frontier.backlog import Window
from amble.jobs.job import WINDOW
from amble.settings import Settings
from amble.testing.lab.limiters import FixedWindow, Gcra, Limiter, SlidingLog, TokenBucket
from amble.testing.lab.modifiers import Ban
from amble.testing.lab.queues import InFlight, LeakyQueue
from amble.testing.simulation.network import DARK, LIES, NOBODY, SLOW, UNSENT, Spell
from amble.testing.simulation.retry_after import FORMS, announce
from amble.testing.simulation.robots import SAYS, RobotsFile, make_file
from amble.testing.simulation.site import BROKEN, HTML, STATUSES, Reply, Site, moved

ROOTS = ("a.test", "b.test", "c.test")
HOSTS = (*ROOTS, "www.a.test", "sub.b.test", "elsewhere.test")
ADDRESSES = ("203.0.113.1", "203.0.113.1", "203.0.113.2", "203.0.113.3")
FAULTY = ("timeout", "reset", "truncated", "503")  # from the first request to the last
FAULTS = (*UNSENT, *BROKEN, *STATUSES, "busy")
BIG_BODY = b"<!-- " + b"long " * 110_000 + b"-->"  # so long that it is read outside the event loop
OTHER_SCHEMES = ("ftp://a.test/file", "mailto:me@a.test", "javascript:void(0)", "file:///etc/passwd", "//b.test/p1")

LIMITERS: tuple[Callable[[Random], Limiter | None], ...] = (
    lambda random: None,
    lambda random: None,
    lambda random: TokenBucket(random.choice((0.3, 1.0, 4.0)), random.choice((1, 5))),
    lambda random: Gcra(random.choice((0.5, 2.0)), random.choice((0.0, 0.5))),
    lambda random: FixedWindow(random.choice((0.2, 1.0)), random.choice((10.0, 60.0)), random.random() * 10),
    lambda random: SlidingLog(random.choice((0.5, 2.0)), 10.0),
    lambda random: LeakyQueue(1.0, 2),
    lambda random: InFlight(1, 0.1),
    lambda random: Ban(TokenBucket(1.0, 2), 45.0),
)


@dataclass(frozen=True, slots=True)
class World:
    """One seed's web, and how it is crawled."""

    sites: dict[str, Site]
    seeds: tuple[str, ...]
    settings: Settings
    restarts: tuple[tuple[float, str, float], ...]  # (after so many seconds, how, seconds until the next run)
    pauses: tuple[tuple[float, float], ...]
    wall_jumps: tuple[tuple[float, float], ...]  # (when, days)
    commit_lag_s: float  # what was handed over later than this before a crash is lost
    window: Window = WINDOW
    crawls: int = 1  # of the same table, one after another
    spells: tuple[Spell, ...] = ()  # of the network
    where: int = 0  # the WHERE of the crawl leaves out one URL in so many; 0: there is none


def make_world(seed: int) -> World:
    own = {
        "max_tail": Random(f"tail {seed}").choice((10.0, 60.0, 120.0, 3_600.0)),
        "max_retry_after": Random(f"retry after {seed}").choice((86_400.0, 86_400.0, 1_000.0, 20.0)),
    }
    world = _make_web(Random(f"world {seed}"), own)
    world = replace(world, where=Random(f"where {seed}").choice((0, 0, 0, 2, 5)))
    return _add_network(world, Random(f"network {seed}"))


def _make_web(random: Random, own: dict[str, Any]) -> World:
    sites = {host: _make_site(host, random) for host in HOSTS}
    roots = random.sample(ROOTS, random.choice((1, 2, 3, 3)))
    seeds = [f"https://{root}/{random.choice(('', '', '', 'p1', 'private/p3'))}" for root in roots]
    if random.random() < 0.2:
        seeds.append(f"http://{roots[0]}/p2")
    return World(
        sites,
        tuple(seeds),
        Settings.of({**_settings(random), **own}),
        _restarts(random),
        tuple((random.uniform(0, 30), random.uniform(0, 20)) for _ in range(random.choice((0, 0, 0, 1)))),
        tuple((random.uniform(0, 60), random.choice((-1.0, 1.0))) for _ in range(random.choice((0, 0, 1, 3)))),
        random.choice((0.0, 0.2, 2.0)),
        Window(random.choice((1, 2, 4, 4, 1_000)), random.choice((3, 10, 50_000)), random.choice((1, 3, 2_000))),
        random.choice((1, 1, 2, 2, 3)),
    )


def _add_network(world: World, random: Random) -> World:
    """What lies between: hosts that never answer, connections that break, times in which nothing works."""
    for site in world.sites.values():
        site.keeps = random.choice(("nothing", "all", "some", "one"))
        if site.keeps == "one" and random.random() < 0.4:
            site.silences = tuple(random.uniform(0, 60) for _ in range(2))
        if site.keeps == "one" and random.random() < 0.2:
            site.refuses_share = random.choice((0.1, 0.9))
    if random.random() < 0.15:
        begins = random.uniform(0, 30)
        cut = Spell(begins, begins + random.choice((5, 60, 400)), random.choice((*DARK, SLOW)))
        world = replace(world, spells=(cut,))
    elif random.random() < 0.05:  # from the beginning
        world = replace(world, spells=(Spell(0.0, random.choice((20, 400, 1e9)), random.choice(LIES)),))
    if random.random() < 0.3:
        world = _add_dead_hosts(world, random)
    if random.random() < 0.12:
        world = _add_good_hosts(world, random)
    return world


def _add_good_hosts(world: World, random: Random) -> World:
    """Hosts to which nothing ever happens, save what happens to everybody: some are done when it begins."""
    seeds = list(world.seeds)
    for number in range(random.choice((4, 12))):
        host = f"good{number}.test"
        site = Site(host, f"192.0.2.{number}", Random(f"{host} {random.random()}"))
        site.keeps = random.choice(("nothing", "all"))
        paths = ["/", *(f"/p{page}" for page in range(random.choice((1, 4, 30))))]
        site.pages = {path: Reply(200, b"alive", (HTML,)) for path in paths}
        site.robots = [(0.0, RobotsFile())]
        world.sites[host] = site
        seeds += [f"https://{host}{path}" for path in paths]
    begins = random.uniform(2, 12)
    cut = Spell(begins, begins + random.choice((10, 50)), random.choice((*LIES, *DARK)))
    restarts = world.restarts if random.random() < 0.3 else ()
    return replace(world, seeds=tuple(seeds), spells=(cut,), crawls=1, restarts=restarts)


def _add_dead_hosts(world: World, random: Random) -> World:
    seeds = list(world.seeds)
    for number in range(random.choice((1, 2, 4, 9))):
        host = f"dead{number}.test"
        site = Site(host, f"198.51.100.{number}", Random(f"{host} {random.random()}"))
        site.trouble = random.choice((*NOBODY, *FAULTY))
        site.trouble_spares_robots = site.trouble in FAULTY and random.random() < 0.5
        if site.trouble in ("refused", "no_tls", "tls") and random.random() < 0.5:
            site.trouble_schemes = ("https",)
        site.pages = {path: Reply(200, b"alive", (HTML,)) for path in ("/", "/p1", "/p2", "/p3")}
        site.robots = [(0.0, RobotsFile())]
        world.sites[host] = site
        seeds += [f"https://{host}{path}" for path in random.sample(list(site.pages), random.choice((1, 1, 4)))]
    random.shuffle(seeds)
    return replace(world, seeds=tuple(seeds))


def _restarts(random: Random) -> tuple[tuple[float, str, float], ...]:
    count = random.choice((0, 0, 1, 1, 2))
    ways = ("drain", "stop", "crash")
    longest_s = random.choice((2.0, 20.0, 200.0))
    return tuple(
        (random.uniform(0, longest_s), random.choice(ways), random.choice((0.0, 0.5, 70.0))) for _ in range(count)
    )


def _settings(random: Random) -> dict[str, Any]:
    def one(*choices: Any) -> Any:
        return random.choice(choices)

    longest_crawl_delay_s = one(60.0, 600.0)
    follow_links = one("auto", "auto", True, True, True, False)
    return {
        "pacing": one("gauge", "gauge", "linear", "aimd", "fibonacci", "fixed"),
        "max_rate": one("unlimited", 1.0, 8.0, 8.0, 50.0),
        "default_crawl_delay": one(0.0, 0.0, 0.0, 1.0),
        "min_crawl_delay": one(0.0, 0.0, 0.3),
        "random_delay": one(0.0, 0.0, 0.5),
        "max_parallel_per_domain": one(1, 2, 8),
        "max_parallel_per_address": one(None, None, None, 1, 2),
        "min_address_delay": one(0.0, 0.0, 0.0, 0.7),
        "max_total_connections": one(1, 2, 5, 50),
        "consecutive_fail_threshold": one(2, 5),
        "min_samples_to_trip": one(3, 10),
        "open_state_duration": one(1.0, 15.0),
        "half_open_probes": one(1, 1, 2),
        "max_adaptive_delay": one(3.0, 60.0),
        "success_probe_threshold": one(3, 20),
        "max_retries": one(0, 1, 3),
        "retry_backoff": one("fibonacci", "exponential"),
        "max_domains": one(1, 200_000),
        "follow_links": follow_links,
        "discover": one(None, None, True, False),
        "allow_subdomains": one(False, True),
        "max_crawl_depth": None if follow_links is False else one(None, None, 1, 2),
        "max_crawl_pages": one(None, None, None, 6, 20),
        "max_pages_per_domain": one(None, None, None, 4, 12),
        "max_redirects": one(0, 1, 3, 10),
        "max_links_per_page": one(2, 5_000),
        "follow_canonical": one(False, True),
        "respect_nofollow": one(False, True),
        "update_stale": one(False, True),
        "sitemap_cache_hours": one(0.0, 24.0),
        "noindex": one("drop_body", "keep", "drop_row"),
        "reject_content_types": one((), ("image/*",)),
        "retry_statuses": one((), (), (404,)),
        "domain_stall_timeout": one(60.0, 1_800.0),
        "job_failure_threshold": one(2, 20, 20, 20),
        "cancel_on_limit_streak": one(None, None, 1, 3),
        "respect_robots_txt": random.random() < 0.97,
        "robots_unreachable": one("defer", "defer", "defer", "allow"),
        "robots_retries": one(0, 1, 3),
        "robots_max_age": one(2 * longest_crawl_delay_s, 86_400.0),
        "honour_crawl_delay_up_to": longest_crawl_delay_s,
        "robots_give_up_for": one(30.0, 3_600.0),
        "robots_stale_age": one(10.0, 86_400.0),
    }


# -- sites


def _make_site(host: str, random: Random) -> Site:
    site = Site(host, random.choice(ADDRESSES), Random(f"{host} {random.random()}"))
    paths = _paths(random)
    sitemaps = _add_sitemaps(site, paths, random)
    for path in paths:
        site.pages[path] = _page(path, paths, random)
    _add_redirects(site, random)
    site.robots = [(0.0, make_file(random, sitemaps, 1)), (random.uniform(5, 60), make_file(random, sitemaps, 2))]
    site.says = random.choice(SAYS)
    site.robots_target = {
        "away": f"https://{random.choice(HOSTS)}/robots.txt",
        "far": "/robots/other.txt",
        "loop": f"https://{host}/robots.txt",
        "chain": "/hop0",
        "page": "/p1",
    }.get(site.says, "")
    site.pages["/robots/other.txt"] = Reply(200, site.robots[0][1].body(), (("Content-Type", "text/plain"),))
    site.limiter = random.choice(LIMITERS)(random)
    site.refusal_status = random.choice((429, 429, 503))
    site.form = "long" if random.random() < 0.05 else random.choice(FORMS)
    site.dialect = random.choice((None, None, "structured", "split", "x-delta", "x-epoch"))
    site.faults = tuple(random.sample(FAULTS, random.choice((0, 0, 1, 3, 6))))
    site.faults_share = random.choice((0.03, 0.03, 0.1, 0.1, 0.5))
    if random.random() < 0.25:
        begins, fault = random.uniform(0, 30), random.choice(("refused", "503", "timeout", "dns", "busy"))
        site.outages = ((begins, begins + random.choice((5, 60, 400)), fault),)
    return site


def _paths(random: Random) -> list[str]:
    below = ("/", "/", "/", "/private/", "/private/open/")
    return ["/", "/p1", "/p2", "/private/p3"] + [
        f"{random.choice(below)}n{number}" for number in range(random.choice((4, 10, 20)))
    ]


def _page(path: str, paths: list[str], random: Random) -> Reply:
    kind = random.random() if path != "/" else 1.0  # the first page leads on
    if kind < 0.06:
        return Reply(random.choice((404, 500, 204, 401)), b"", (HTML,), note="bad page")
    if kind < 0.1:
        return Reply(200, b"\x89PNG", (("Content-Type", "image/png"),), note="image")
    lines = ["<!doctype html><title>page</title>"]
    if random.random() < 0.07 * kind:
        lines.append(f"<meta name=robots content={random.choice(('nofollow', 'noindex', 'none'))}>")
    if random.random() < 0.15:
        lines.append(f'<link rel=canonical href="{random.choice((random.choice(paths), "https://b.test/p1"))}">')
    for _ in range(8 if path == "/" else random.choice((1, 4, 8))):
        rel = " rel=nofollow" if random.random() < 0.1 else ""
        lines.append(f'<a href="{_link(paths, random)}"{rel}>link</a>')
    body = "\n".join(lines).encode()
    etag = (("ETag", f'"{random.randrange(1_000_000)}"'),) if random.random() < 0.6 else ()
    odd = "says 304" if random.random() < 0.03 else ""
    return Reply(200, body + BIG_BODY if random.random() < 0.004 else body, (HTML, *etag), note=odd)


def _link(paths: list[str], random: Random) -> str:
    draw = random.random()
    if draw < 0.5:
        return random.choice(paths)
    if draw < 0.65:
        return f"/go{random.randrange(6)}"
    if draw < 0.75:
        return f"/missing{random.randrange(3)}"
    if draw < 0.8:
        return random.choice(OTHER_SCHEMES)
    scheme = random.choice(("https", "https", "http"))
    return f"{scheme}://{random.choice(HOSTS)}{random.choice(paths)}"


def _add_redirects(site: Site, random: Random) -> None:
    other = random.choice(HOSTS)
    site.pages |= {
        "/go0": moved("/p1", "redirect", 301),
        "/go1": moved(f"https://{other}/p2", "redirect to another host", 307),
        "/go2": moved("/go2" if random.random() < 0.5 else "/go3", "redirect loop"),
        "/go3": moved("/go2", "redirect loop"),
        "/go4": moved(random.choice(("ftp://a.test/", "", "/private/p3", "http://[bad")), "redirect nowhere"),
        "/go5": moved("/hop0", "redirect chain"),
    }
    for hop in range(12):
        site.pages[f"/hop{hop}"] = moved(f"/hop{hop + 1}", "redirect chain")
    site.pages["/hop12"] = Reply(200, b"the end", (HTML,))
    if random.random() < 0.3:
        later = announce("seconds", 0.0, 10.0, random)
        site.pages["/go0"] = site.pages["/go0"]._replace(
            headers=(("Location", "/p1"), *later.items()), note="redirect with Retry-After"
        )


def _add_sitemaps(site: Site, paths: list[str], random: Random) -> tuple[str, ...]:
    """Sitemaps of one site, and which of them its robots.txt names."""
    kind = random.choice(("none",) * 6 + ("usual", "named", "index", "moved", "broken", "away"))
    if kind == "none":
        return ()
    listed = "".join(f"<url><loc>https://{site.host}{path}</loc></url>" for path in random.sample(paths, 3))
    plain = Reply(200, f"<urlset>{listed}</urlset>".encode(), (("Content-Type", "text/xml"),), note=f"sitemap {kind}")
    if kind == "usual":
        site.pages["/sitemap.xml"] = plain
        return ()
    site.pages["/map.xml"] = plain
    if kind == "index":
        index = f"<sitemapindex><sitemap><loc>https://{site.host}/map.xml</loc></sitemap></sitemapindex>"
        site.pages["/index.xml"] = plain._replace(body=index.encode())
        return (f"https://{site.host}/index.xml",)
    if kind == "moved":
        site.pages["/old.xml"] = moved("/map.xml", "sitemap moved")
        return (f"https://{site.host}/old.xml",)
    if kind == "broken":
        site.pages["/map.xml"] = plain._replace(body=b"<urlset><url><loc>", note="sitemap broken")
    host = random.choice(HOSTS) if kind == "away" else site.host
    return (f"https://{host}/map.xml", "/private/map.xml")
