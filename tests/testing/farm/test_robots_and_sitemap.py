"""What a site tells crawlers: its rules and its list of pages."""

from __future__ import annotations

import gzip
from urllib.robotparser import RobotFileParser
from xml.etree import ElementTree

import pytest

from amble.testing.farm import Pages, Robots, Site, Sitemap
from amble.testing.farm.exchange import Response
from amble.testing.farm.faults import Errors

from .helpers import asked, body_of

SPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


def rules(site: Site) -> RobotFileParser:
    parser = RobotFileParser()
    parser.parse(body_of(asked(site, "/robots.txt")).decode().splitlines())
    return parser


def test_robots_txt_says_what_the_judge_goes_by() -> None:
    robots = Robots(disallow=("/private/", "/tmp"), crawl_delay_s=2.0)
    read = rules(Site(name="a.test", robots=robots))
    assert str(read.crawl_delay("amble")) == "2"
    for path in ("/", "/private", "/private/1", "/tmp", "/tmpfile", "/other", "/robots.txt"):
        assert robots.forbids(path) is not read.can_fetch("amble", path) or path == "/robots.txt"
    assert not robots.forbids("/robots.txt")


def test_a_closed_site_forbids_all_but_its_robots_txt() -> None:
    robots = Robots(disallow=("/",))
    assert [robots.forbids(path) for path in ("/", "/x", "/robots.txt")] == [True, True, False]
    assert list(Site(name="a.test", robots=robots).paths()) == []


def test_an_open_one_forbids_nothing() -> None:
    assert not Robots().forbids("/x")
    assert rules(Site(name="a.test")).can_fetch("amble", "/x")


def test_robots_txt_in_other_words() -> None:
    said = Robots(crawl_delay_s=0.5, lines=("Request-rate: 1/3", "# end"))
    assert said.written() == "User-agent: *\nCrawl-delay: 0.5\nRequest-rate: 1/3\n# end\n"
    assert Robots(text="<html>").written("http://x/") == "<html>"


@pytest.mark.parametrize(
    ("robots", "status", "wait_s"),
    [(None, 404, 0.0), (Robots(status=503), 503, 0.0), (Robots(delay_s=1.5), 200, 1.5)],
    ids=["absent", "failing", "slow"],
)
def test_robots_txt_as_it_is_served(robots: Robots | None, status: int, wait_s: float) -> None:
    response = asked(Site(name="a.test", robots=robots), "/robots.txt")
    assert (response.status, response.wait_s) == (status, wait_s)


def test_robots_txt_that_has_moved() -> None:
    response = asked(Site(name="a.test", robots=Robots(status=301, location="/elsewhere.txt")), "/robots.txt")
    assert (response.status, response.headers["Location"]) == (301, "/elsewhere.txt")


def locations(response: Response) -> list[str]:
    body = body_of(response)
    if response.headers["Content-Type"] == "application/gzip":
        body = gzip.decompress(body)
    return [node.text or "" for node in ElementTree.fromstring(body).iter(f"{SPACE}loc")]


def paths_in(site: Site, url: str) -> list[str]:
    origin = f"http://{site.name}:8000"
    assert url.startswith(origin)
    response = asked(site, url.removeprefix(origin))
    assert response.status == 200
    return [found.removeprefix(origin) for found in locations(response)]


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("kind", ["urlset", "index"])
def test_a_sitemap_lists_every_page(kind: str, compressed: bool) -> None:
    sitemap = Sitemap("index" if kind == "index" else "urlset", compressed, per_file=20)
    site = Site(name="a.test", pages=Pages(50), sitemap=sitemap, features=(Errors(flaky=2),))
    told = rules(site).site_maps()
    assert told == [f"http://a.test:8000{sitemap.path}"]
    found = paths_in(site, told[0])
    if kind == "index":
        assert len(found) == 3
        assert all(path.endswith(".gz") == compressed for path in found)
        found = [path for file in found for path in paths_in(site, f"http://a.test:8000{file}")]
    assert found == list(site.paths())
    assert len(found) == 52


def test_lastmod_is_the_date_of_the_page() -> None:
    site = Site(name="a.test", pages=Pages(8), sitemap=Sitemap())
    tree = ElementTree.fromstring(body_of(asked(site, "/sitemap.xml")))
    dates = [node.text for node in tree.iter(f"{SPACE}lastmod")]
    assert dates == [f"{site.pages.changed_at(page):%Y-%m-%dT%H:%M:%SZ}" for page in range(8)]
    plain = Site(name="a.test", pages=Pages(8), sitemap=Sitemap(lastmod=False))
    assert b"lastmod" not in body_of(asked(plain, "/sitemap.xml"))


def test_a_sitemap_that_is_not_announced_lies_where_crawlers_look() -> None:
    site = Site(name="a.test", sitemap=Sitemap(announced=False))
    assert rules(site).site_maps() is None
    assert asked(site, "/sitemap.xml").status == 200


@pytest.mark.parametrize(
    "path", ["/sitemap-0.xml", "/sitemap-9.xml", "/sitemap-01.xml", "/sitemap-.xml", "/sitemap-x.xml"]
)
def test_files_that_the_index_does_not_name_are_not_there(path: str) -> None:
    assert asked(Site(name="a.test", sitemap=Sitemap("index")), path).status == 404
    assert asked(Site(name="a.test"), "/sitemap.xml").status == 404
