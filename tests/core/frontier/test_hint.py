"""What is said where nobody answers: once in a job, after one request for the robots.txt of the other scheme."""

from __future__ import annotations

from typing import Any

import pytest

from amble.core.frontier.visit import OTHER_SCHEME
from amble.core.outcome import Failure, Phase
from amble.core.pacing.events import NetworkDown, NobodyThere
from tests.core.frontier.story import FREE, MISSING, OK, Answers, Reply, Story, broken, moved, robots, status

REFUSED = broken(Failure.NETWORK_CONNECTION_REFUSED, phase=Phase.CONNECT, detail="connection refused")
SWALLOWED = broken(Failure.NETWORK_TIMEOUT, phase=Phase.CONNECT, detail="no connection within 10 s")
NO_TLS = broken(Failure.NETWORK_TLS_ERROR, phase=Phase.CONNECT, detail="no TLS")
FOREIGN = broken(Failure.NETWORK_TLS_ERROR, phase=Phase.CONNECT, untrusted=True)
NO_NAME = broken(Failure.NETWORK_DNS_FAILURE, phase=Phase.RESOLVE, dns_error="no_such_name", detail="no such name")
SERVER, FIREWALL = (
    "is the port right, and does the server run?",
    "is the port right, and is there no firewall in between?",
)
TLS, NAME = "is it https that is served at this port?", "is the name spelled right, and known to this machine?"
HTTP, HTTPS = "http:// answers there", "https:// answers there"
QUIET: dict[str, Any] = {"discover": False, "follow_links": True}


def hints(story: Story) -> list[NobodyThere]:
    return [event for event in story.events if isinstance(event, NobodyThere)]


@pytest.mark.parametrize(
    ("why", "origin", "answer", "other", "other_answer", "check"),
    [
        ("https on an http port", "https://a.test:8080", NO_TLS, "http://a.test:8080", FREE, HTTP),
        ("a site without TLS", "https://a.test", REFUSED, "http://a.test", MISSING, HTTP),
        ("a site with nothing else", "http://a.test", SWALLOWED, "https://a.test", OK, HTTPS),
        ("an answer is an answer", "https://a.test", REFUSED, "http://a.test", status(500), HTTP),
        ("and a redirect", "https://a.test", REFUSED, "http://a.test", moved("https://a.test/x"), HTTP),
        ("neither", "https://a.test", REFUSED, "http://a.test", REFUSED, SERVER),
        ("no TLS, nor http", "https://a.test:81", NO_TLS, "http://a.test:81", REFUSED, TLS),
        ("a wrong port", "http://a.test:81", REFUSED, None, OK, SERVER),
        ("a black hole", "http://a.test:81", SWALLOWED, None, OK, FIREWALL),
        ("a mistyped name", "https://a.test", NO_NAME, None, OK, NAME),
    ],
)  # fmt: skip
def test_what_to_check(
    why: str, origin: str, answer: Reply, other: str | None, other_answer: Reply, check: str
) -> None:
    web: dict[str, Answers] = {f"{origin}/robots.txt": answer}
    if other is not None:
        web[f"{other}/robots.txt"] = other_answer
    story = Story([f"{origin}/", f"{origin}/x"], web, **QUIET).run()
    [hint] = hints(story)
    assert (hint.origin, hint.reason, hint.check) == (origin, answer.more["detail"], check)
    besides = [asked for asked in story.asked if not asked.url.startswith(origin)]
    assert [asked.url for asked in besides] == ([f"{other}/robots.txt"] if other else [])
    assert all(asked.visit.why_sent == OTHER_SCHEME for asked in besides)
    assert min(story.gaps(hint.domain)) >= 1.0, "at the pace of its domain"
    assert story.now <= 30.0


def test_it_is_said_of_the_first_alone() -> None:
    hosts = [f"https://{name}.test/" for name in "abc"]
    story = Story(
        [*hosts, "http://d.test/"], {f"{host}robots.txt": REFUSED for host in hosts} | {"http://d.test/": OK}, **QUIET
    )
    assert len(hints(story.run())) == 1
    assert len([asked for asked in story.asked if asked.visit.asks_other_scheme]) == 1


def test_a_network_that_is_down_goes_first() -> None:
    hosts = [f"https://{name}.test/" for name in "abcdefghijkl"]
    for answer in (REFUSED, NO_NAME._replace(more={**NO_NAME.more, "dns_error": "timeout"})):
        web: dict[str, Answers] = {f"{host}robots.txt": [answer, answer, FREE] for host in hosts}
        web["http://a.test/robots.txt"] = answer
        story = Story(hosts, {**web, **dict.fromkeys(hosts, OK)}, took_s=0.5, **QUIET).run()
        assert any(isinstance(event, NetworkDown) for event in story.events)
        assert hints(story) == []


def test_who_has_a_certificate_is_there() -> None:
    assert hints(Story(["https://a.test/"], {"https://a.test/robots.txt": FOREIGN}, **QUIET).run()) == []


def test_whoever_once_answered_is_there() -> None:
    web: dict[str, Answers] = {"http://a.test/": [OK], "http://a.test/1": [REFUSED, OK]}
    assert hints(Story(["http://a.test/", "http://a.test/1"], web, **QUIET).run()) == []


def test_one_try_is_enough_where_there_is_no_other() -> None:
    story = Story(["http://a.test:81/"], {"http://a.test:81/robots.txt": REFUSED}, robots_retries=0, **QUIET).run()
    assert len(hints(story)) == len(story.asked) == 1


def test_no_robots_txt_is_asked_for_twice_where_both_schemes_are_crawled() -> None:
    seeds = ["https://a.test/", "http://a.test/"]
    story = Story(seeds, {"https://a.test/robots.txt": REFUSED, "http://a.test/": OK}, **QUIET).run()
    assert len(story.times("http://a.test/robots.txt")) == 1
    assert story.end("http://a.test/") == ("done", None)


def test_what_its_robots_txt_asks_for_is_heeded() -> None:
    web: dict[str, Answers] = {
        "https://a.test/robots.txt": REFUSED,
        "http://a.test/robots.txt": robots("Crawl-delay: 40"),
    }
    story = Story(["https://a.test/"], web, **QUIET).run()
    assert story.gaps("a.test")[-1] >= 40.0


@pytest.mark.parametrize("answer", [MISSING, status(503), robots("Crawl-delay: 40", "Disallow: /")])
def test_where_none_is_heeded_the_robots_txt_of_the_other_scheme_is_asked_for_all_the_same(answer: Reply) -> None:
    web: dict[str, Answers] = {"https://a.test/": NO_TLS, "http://a.test/robots.txt": answer, "http://a.test/x": OK}
    seeds = ["https://a.test/", "http://a.test/x"]
    story = Story(seeds, web, respect_robots_txt=False, robots_retries=0, **QUIET).run()
    assert [hint.check for hint in hints(story)] == [HTTP]
    assert story.end("http://a.test/x") == ("done", None)
    assert max(story.gaps("a.test")) <= 10.0
