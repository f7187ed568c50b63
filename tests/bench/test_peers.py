"""What the contest with other crawlers says of its results, and how its contestants find their hosts."""

from __future__ import annotations

import socket
import struct

import pytest
from bench._spy import top_functions
from bench.peers.contest import Result
from bench.peers.crawlers import CRAWLERS
from bench.peers.nameserver import NameServer, answer
from bench.peers.plot import plot
from bench.peers.report import headline, text


def result(
    crawler: str, scenario: str, got: int = 100, cpu_s: float = 1.0, ended: bool = True, **more: float
) -> Result:
    known = {"refusals": 0, "under_crawl_delay": 0, "fast_s": 2.0, **more}
    return Result(
        crawler, "1.0", scenario, 100, got, got, int(known["refusals"]), 0.5, 0, int(known["under_crawl_delay"]), 0,
        cpu_s, 9.0, 50.0, ended, known["fast_s"],
    )  # fmt: skip


RESULTS = [
    result("amble", "one", cpu_s=0.1),
    result("scrapy", "one", got=50, cpu_s=0.5, ended=False),
    result("wget2", "one", cpu_s=0.025),
    result("amble", "hidden", refusals=2),
    result("crawlee", "hidden", got=50, refusals=30),
    result("crawlee", "isolation", under_crawl_delay=4, ended=False),
    result("amble", "isolation", fast_s=2.2),
    result("amble", "alone"),
    result("crawlee", "alone", fast_s=3.0),
]


@pytest.mark.parametrize(
    "line",
    [
        "| **amble** | 100 (100%) | 1,000 |  | 0.1 s | 9.0 s | 50 MB |",
        "| scrapy | 50 (50%, cut off) | 100 | 10.0 x | 0.5 s | 9.0 s | 50 MB |",
        "| wget2 | 100 (100%) | 4,000 | 0.25 x | 0.0 s | 9.0 s | 50 MB |",
        "| crawlee | 50 (50%) | 0.50 | 30 (600) | 0 | 0 | 0 | 9 s |",
        "| **amble** | 100 (100%) | 0.50 | 0 (0) | 0 | 0 | 0 | 9 s | 2.2 s, 2.0 s |",
        "| crawlee | 100 (100%, cut off) | 0.50 | 0 (0) | 0 | 4 | 0 | 9 s | cut off, 3.0 s |",
        "- scrapy 1.0: 64 at once, 8 per domain, robots.txt obeyed, 5 retries; stores nothing.",
        "off: one 40 s, hidden 45 s, isolation 50 s, alone 20 s.",
    ],
)
def test_a_run_is_told_line_by_line(line: str) -> None:
    assert line in text(RESULTS, "today").splitlines()


def test_who_keeps_to_the_rules_comes_first() -> None:
    beside = text(RESULTS, "today").split("### 20 fast hosts")[1].splitlines()
    assert [line.split(" | ")[0] for line in beside[4:6]] == ["| **amble**", "| crawlee"]


def test_the_headline_has_a_line_for_each_that_ran() -> None:
    lines = headline(RESULTS, "today").splitlines()
    assert lines[2:5] == [
        "| **amble** | 1,000 | - | - | 50 MB | 100%, 20 | 0 |",
        "| scrapy | 100 | - | - | 50 MB | - | - |",
        "| crawlee | - | - | - | - | 50%, 600 | 4 |",
    ]
    assert lines[5] == "| wget2 | 4,000 | - | - | 50 MB | - | - |"
    assert lines[-1] == "today."


def test_the_longest_bar_comes_first_and_names_are_escaped() -> None:
    drawn = plot("a & b", [("slow", 1.0), ("<fast>", 10.0)])
    assert "a &amp; b" in drawn
    assert drawn.index("&lt;fast&gt;") < drawn.index("slow")


def test_contestants_are_told_apart_by_name() -> None:
    assert len({crawler.name for crawler in CRAWLERS}) == len(CRAWLERS)


# --- Names ------------------------------------------------------------------------------------------------------------

NAME = b"\x04many\x04test\x00"
A, AAAA = 1, 28


def question(kind: int, questions: int = 1) -> bytes:
    return struct.pack("!HHHHHH", 7, 0x0100, questions, 0, 0, 0) + NAME + struct.pack("!HH", kind, 1)


@pytest.mark.parametrize(
    ("asked", "flags", "records", "ends"),
    [
        pytest.param(question(A), 0x8580, 1, b"\x7f\0\0\1", id="every name is this machine"),
        pytest.param(question(A) + b"more", 0x8580, 1, b"\x7f\0\0\1", id="what follows the question is let be"),
        pytest.param(question(AAAA), 0x8580, 0, b"\0\x1c\0\1", id="it has no other address"),
        pytest.param(question(A, 2), 0x8181, 0, b"\0\0", id="one question at a time"),
        pytest.param(question(A)[:-4], 0x8181, 0, b"\0\0", id="a question cut short"),
    ],
)
def test_a_question_gets_its_answer(asked: bytes, flags: int, records: int, ends: bytes) -> None:
    reply = answer(asked)
    assert reply is not None
    number, said, _, found, _, _ = struct.unpack_from("!HHHHHH", reply)
    assert (number, said, found) == (7, flags, records)
    assert reply.endswith(ends)


def test_noise_gets_none() -> None:
    assert answer(b"noise") is None


def test_the_server_answers_until_it_is_left() -> None:
    with NameServer("127.0.0.1", 0) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(10.0)
        for kind in (A, AAAA):
            asker.sendto(question(kind), server.address)
            assert asker.recv(512) == answer(question(kind))


# --- What py-spy saw --------------------------------------------------------------------------------------------------


def test_functions_are_counted_where_they_run_themselves() -> None:
    stacks = ["run (a.py:1);read (b.py:2) 3", "run (a.py:1) 1", "other (c.py:9);read (b.py:2) 4"]
    assert top_functions(stacks, 2) == [("read (b.py:2)", 7 / 8), ("run (a.py:1)", 1 / 8)]
