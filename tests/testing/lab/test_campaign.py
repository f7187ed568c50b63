"""The table of targets, the random servers, and the verdicts drawn from scores."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from amble.testing.lab.__main__ import main
from amble.testing.lab.announce import WALL_AT_START, Dialect, Refusal, announce_quota
from amble.testing.lab.campaign import (
    RANDOM_TARGETS,
    all_rows,
    jobs,
    line,
    percentile,
    random_line,
    random_name,
    scenario,
)
from amble.testing.lab.controller import Client, Spaced
from amble.testing.lab.controllers import STRATEGIES
from amble.testing.lab.limiters import Quota, TokenBucket
from amble.testing.lab.peers import PEERS
from amble.testing.lab.randoms import KINDS, random_server
from amble.testing.lab.scenarios import Row, Scenario, pages_for, served
from amble.testing.lab.score import Score, goodput, ideal_s, judge, play
from amble.testing.lab.servers import Noise, Server
from amble.testing.lab.simulate import Run

KEPT = Score(0.9, 5.0, None, True, 0, 0, 0, 0)


def bucket_scenario(**changes: object) -> Scenario:
    plain = {"name": "b", "pages": 100, "build": served(lambda random: TokenBucket(5.0, 5.0))}
    return Scenario(**{**plain, **changes})  # type: ignore[arg-type]


def test_names_are_unique_and_every_promised_row_is_there() -> None:
    names = [one.name for row in all_rows() for one in row.scenarios]
    assert len(names) == len(set(names))
    assert {row.group for row in all_rows() if row.goodput_min} == {
        *("bucket", "window-ra", "window-1", "window-10", "window-60", "sliding", "gcra", "in-flight", "overload"),
        *("ban", "headers", "change", "second", "short"),
    }
    long_ones = [row for row in all_rows() if row.goodput_min and row.group != "short"]
    assert all(500 <= one.pages <= 10_000 for row in long_ones for one in row.scenarios)


@pytest.mark.parametrize(("rate", "pages"), [(0.2, 500), (1.0, 1000), (4.0, 2000), (50.0, 5000)])
def test_fast_sites_are_crawled_longer(rate: float, pages: int) -> None:
    assert pages_for(rate) == pages


@pytest.mark.parametrize(
    ("story", "row", "scores", "missed"),
    [
        ("all kept", (0.9, 5), [KEPT], ()),
        ("rounded like the promise", (0.9, 5), [KEPT._replace(goodput=0.8951, rejects=5.4)], ()),
        ("too slow", (0.95, 5), [KEPT], ("goodput",)),
        ("refused too often", (0.9, 4), [KEPT], ("rejects",)),
        ("recovered late", (0.9, 5), [KEPT._replace(recovery_s=99.0, in_time=False)], ("recovery",)),
        (
            "a single request inside a Retry-After",
            (None, None),
            [KEPT, KEPT._replace(inside_retry_after=1)],
            ("violations",),
        ),
        ("a single start under the crawl delay", (None, None), [KEPT._replace(under_crawl_delay=1)], ("violations",)),
        ("one request too many at once", (None, None), [KEPT._replace(over_in_flight=1)], ("violations",)),
        ("one start too early", (None, None), [KEPT._replace(over_max_rate=1)], ("violations",)),
    ],
)
def test_verdicts(
    story: str, row: tuple[float | None, float | None], scores: list[Score], missed: tuple[str, ...]
) -> None:
    found = line(Row("r", "g", (bucket_scenario(),), *row), {"b": scores})
    assert found.missed == missed, story


def test_the_random_servers_are_judged_by_percentiles() -> None:
    scores = [KEPT._replace(goodput=n / 100, rejects=float(n)) for n in range(101)]
    found = random_line(scores)
    assert list(found.measured.values()) == pytest.approx([0.10, 0.50, 50.0, 90.0])
    assert len(found.missed) == 4
    assert not random_line([KEPT._replace(goodput=0.95)]).missed


def test_percentiles_interpolate() -> None:
    assert percentile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.5
    assert percentile([7.0], 0.9) == 7.0


def test_random_servers_are_the_same_every_time_and_of_every_kind() -> None:
    assert random_server(5).name == random_server(5).name
    runs = [play(random_server(5), PEERS["heritrix"], 0)[0] for _ in range(2)]
    assert runs[0] == runs[1]
    kinds = {random_server(n).name.split(": ")[1].split()[0] for n in range(300)}
    assert kinds == set(KINDS)
    assert scenario(random_name(17)).name == random_server(17).name


def test_jobs_cover_rules_seeds_and_randoms() -> None:
    rows = [Row("r", "g", (bucket_scenario(),))]
    assert [tuple(job) for job in jobs(["x"], rows, [0, 1], 2)] == [
        ("x", "b", 0),
        ("x", "b", 1),
        ("x", "random 0", 0),
        ("x", "random 1", 0),
    ]


def test_goodput_is_the_ideal_time_over_the_time_taken_and_no_more_than_one() -> None:
    assert goodput(Run(100, done=100, lasted_s=40.0), 20.0) == pytest.approx(0.5)
    assert goodput(Run(100, done=50, lasted_s=40.0), 20.0) == pytest.approx(0.25)
    assert goodput(Run(100, done=100, slow=50, lasted_s=20.0), 20.0) == pytest.approx(0.5)
    assert goodput(Run(100, done=100, lasted_s=10.0), 20.0) == 1.0


@pytest.mark.parametrize(
    ("client", "seconds"),
    [
        (Client(), 20.0),
        (Client(max_rate=2.0), 50.0),
        (Client(crawl_delay_s=1.0), 100.0),
        (Client(max_in_flight=1, max_rate=1000.0), 20.0),
    ],
)
def test_the_ideal_client_keeps_to_its_own_settings(client: Client, seconds: float) -> None:
    one = bucket_scenario(client=client)
    assert ideal_s(one, one.build(Random(1))) == pytest.approx(seconds)


def test_a_second_run_starts_from_what_the_first_one_saved() -> None:
    loaded: list[object] = []

    class Remembering(Spaced):
        def save(self) -> object:
            return {"delay_s": self.delay_s}

        def load(self, saved: object) -> None:
            loaded.append(saved)

    def rule(client: Client, random: Random) -> Spaced:
        return Remembering(client, random, delay_s=0.25)

    judge(bucket_scenario(), rule, 0)
    assert loaded == []
    judge(bucket_scenario(second_run=True), rule, 0)
    assert loaded == [{"delay_s": 0.25}]


@pytest.mark.parametrize(
    ("dialect", "headers"),
    [
        ("structured", {"RateLimit-Policy": '"default";q=300;w=60', "RateLimit": '"default";r=12;t=35'}),
        ("split", {"RateLimit-Limit": "300", "RateLimit-Remaining": "12", "RateLimit-Reset": "35"}),
        ("x-delta", {"X-RateLimit-Limit": "300", "X-RateLimit-Remaining": "12", "X-RateLimit-Reset": "35"}),
        (
            "x-epoch",
            {
                "X-RateLimit-Limit": "300",
                "X-RateLimit-Remaining": "12",
                "X-RateLimit-Reset": str(WALL_AT_START + 135),
                "Date": "Thu, 01 Jan 2026 00:01:40 GMT",
            },
        ),
    ],
)
def test_quota_dialects(dialect: Dialect, headers: dict[str, str]) -> None:
    written: dict[str, str] = {}
    announce_quota(dialect, Quota(300, 60.0, 12, 34.2), 100.2, written)
    assert written == headers


def test_a_date_never_ends_before_the_block_does() -> None:
    headers: dict[str, str] = {}
    assert Refusal(503, "date").announce(100.7, 4.6, headers) == 106.0
    assert headers == {"Date": "Thu, 01 Jan 2026 00:01:40 GMT", "Retry-After": "Thu, 01 Jan 2026 00:01:46 GMT"}


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_breaks_a_promise(name: str) -> None:
    """F4, F5, P1: nothing inside a Retry-After, nothing under a crawl delay, nothing over the caps."""
    groups = ("window-ra", "crawl-delay", "caps")
    rows = [row for row in all_rows() if row.group in groups]
    for one in (one for row in rows for one in row.scenarios if one.pages <= 1000):
        assert judge(one, STRATEGIES[name], 1).violations == 0, one.name


def test_the_command_prints_the_table_and_the_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seeds", "1", "--processes", "1", "--group", "caps", "--strategy", "gauge", "--peer", "heritrix"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "gauge: goodput against the ideal client" in out
    assert "mean / median over rows" in out


def test_the_command_speaks_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--seeds",
        "1",
        "--processes",
        "1",
        "--group",
        "random",
        "--random",
        "2",
        "--peer",
        "heritrix",
        "--json",
    ]
    assert main(arguments) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["rule"] == "heritrix"
    assert found["randoms"]["count"] == 2


def test_the_figure_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "lab.svg"
    arguments = ["--seeds", "1", "--processes", "1", "--group", "caps", "--peer", "heritrix", "--plot", str(target)]
    assert main(arguments) == 0
    assert "<svg" in target.read_text()


def test_a_gauge_that_falls_short_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--seeds", "1", "--processes", "1", "--group", "random", "--random", "1", "--strategy", "gauge"]
    monkeypatch.setitem(RANDOM_TARGETS, "goodput median", 2.0)
    assert main(arguments) == 1
    assert "MISSED" in capsys.readouterr().out


def test_the_ideal_client_pays_for_noise_too() -> None:
    noisy = Server(TokenBucket(5.0, 5.0), Random(1), noise=Noise(share=0.5))
    assert noisy.ideal_s(100) == pytest.approx(40.0)
