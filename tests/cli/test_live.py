"""How a running crawl looks: nothing wider than the terminal, nothing that a site wrote does anything to it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from amble.cli.live import block, duration, one_line
from amble.cli.screen import Screen
from amble.cli.told import MISSED_TOLD_MAX, Told
from amble.control.progress import DomainProgress, JobProgress
from amble.core.pacing.events import (
    BlockClosed,
    BlockOpened,
    CircuitClosed,
    CircuitOpened,
    Event,
    NobodyThere,
    PaceChanged,
    Paused,
    RobotsMissed,
    TailBegan,
)
from amble.core.pacing.snapshot import DomainSnapshot

PACE = DomainSnapshot(
    domain="shop.example", strategy="gauge", phase="at the limit", delay_s=0.25, source="learned", rate=4.0,
    floor_s=0.2, reason="",
    crawl_delay_s=None, next_in_s=0.1, in_flight=2, parallel=8, waiting=5, latency_s=0.1, latency_p95_s=0.3,
    error_rate=0.0, circuit="closed", success_streak=3, error_streak=0, blocked_s=0.0, requests=9, successes=9,
    limited=1, failures=0,
)  # fmt: skip
SHOP = DomainProgress(PACE, queued=50, eta_s=12.6)
PROGRESS = JobProgress(
    job_id=3, status="running", phase="crawling", accepted=200, final=50, deferred=0, under_way=2, pages=48, failed=2,
    requests=60, limited=1, body_bytes=3_400_000, seconds=12.0, held="", domains_known=1, domains=(SHOP,), eta_s=12.6,
)  # fmt: skip


def text_of(progress: JobProgress, columns: int = 80, rows: int = 24) -> list[str]:
    return [text for text, _ in block(progress, "x.duckdb", columns, rows)]


def test_everything_a_person_asks_for_is_there() -> None:
    assert text_of(PROGRESS) == [
        "",
        "job 3: crawling, 12 s, into x.duckdb",
        "50 of 200 URLs (25 %), 4.0 pages/s, 3.4 MB, 1 x 429, 2 under way, 2 failed",
        "about 13 s left",
        "domain              delay      set by  now  queue    p95   next    left",
        "shop.example        0.25s     learned  2/8     50  0.30s  0.10s    13 s",
    ]


@pytest.mark.parametrize("columns", [20, 30, 44, 80, 132])
@pytest.mark.parametrize("rows", [5, 8, 24])
def test_it_fits_any_terminal(columns: int, rows: int) -> None:
    many = tuple(replace(SHOP, pace=replace(PACE, domain=f"{'sub.' * i}shop.example")) for i in range(30))
    lines = text_of(replace(PROGRESS, domains=many, domains_known=900), columns, rows)
    assert max(map(len, lines)) < columns
    assert len(lines) < rows


def test_more_domains_than_shown_are_counted() -> None:
    assert text_of(replace(PROGRESS, domains_known=900))[-1] == " and 899 more domains"


def test_what_a_site_wrote_cannot_move_the_cursor() -> None:
    """E7."""
    nasty = replace(SHOP, pace=replace(PACE, domain="\x1b]0;owned\x07\u202eevil\r\n"))
    shown = "\n".join(text_of(replace(PROGRESS, domains=(nasty,), held="\x1b[2Jgone", phase="waiting for the disk")))
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(shown)


@pytest.mark.parametrize(
    ("change", "said", "colour"),
    [
        ({"blocked_s": 3.0}, "blocked", "yellow"),
        ({"circuit": "open"}, "failing", "red"),
        ({"source": "crawl_delay"}, "crawl_delay", ""),
    ],
)
def test_what_holds_a_domain_is_told_and_coloured(change: dict[str, object], said: str, colour: str) -> None:
    domain = replace(SHOP, pace=replace(PACE, **change))  # type: ignore[arg-type]
    text, shade = block(replace(PROGRESS, domains=(domain,)), "x", 80, 24)[-1]
    assert (said in text, shade) == (True, colour)


def test_another_process_that_asks_a_domain_is_told_of() -> None:
    crowded = replace(SHOP, pace=replace(PACE, others_ask=True))
    assert text_of(replace(PROGRESS, domains=(crowded,)))[-1] == " another amble is asking shop.example, too"
    assert one_line(replace(PROGRESS, domains=(crowded, crowded))).endswith(
        ", another amble is asking shop.example and 1 more, too"
    )


def test_without_a_terminal_one_plain_line() -> None:
    assert one_line(PROGRESS) == "   12.0 s  50 of 200 URLs, 2 under way, 4.0 pages/s, 3.4 MB, 1 x 429"
    assert one_line(replace(PROGRESS, phase="waiting for the disk", held="disk full")).endswith(
        ", waiting for the disk: disk full"
    )


@pytest.mark.parametrize(("seconds", "said"), [(0.4, "0 s"), (59, "59 s"), (61, "1:01 min"), (11_400, "3:10 h")])
def test_durations_read_like_a_clock(seconds: float, said: str) -> None:
    assert duration(seconds) == said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_scroll_above_the_block_which_is_drawn_anew() -> None:
    terminal = Terminal()
    screen = Screen(terminal, {"TERM": "xterm"})
    screen.block(["one", "two"])
    screen.line("event")
    screen.close()
    assert terminal.getvalue() == "one\ntwo\n" + "\r\x1b[2A\x1b[J" + "event\none\ntwo\n" + "\r\x1b[2A\x1b[J"


@pytest.mark.parametrize(
    ("stream", "environ", "live", "coloured"),
    [
        (Terminal, {"TERM": "xterm"}, True, True),
        (Terminal, {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        (Terminal, {"TERM": "dumb"}, False, False),
        (Terminal, {}, False, False),
        (io.StringIO, {"TERM": "xterm"}, False, False),
    ],
)
def test_control_characters_only_where_they_are_understood(
    stream: type[io.StringIO], environ: dict[str, str], live: bool, coloured: bool
) -> None:
    out = stream()
    screen = Screen(out, environ)
    assert (screen.live, screen.coloured) == (live, coloured)
    screen.block(["never seen"])
    screen.line(screen.paint("text", "red"))
    assert ("\x1b" in out.getvalue()) is live
    assert ("\x1b[31m" in out.getvalue()) is coloured


def test_a_terminal_that_was_closed_ends_no_crawl() -> None:
    """F2: SIGHUP."""

    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    screen = Screen(Gone(), {"TERM": "xterm"})
    screen.block(["x"])
    screen.line("y")


def test_of_sites_without_a_robots_txt_the_first_are_told_and_when_they_are_given_up() -> None:
    told = Told()

    def line(domain: str, tries: int, wait_s: float | None) -> str | None:
        return told.line(RobotsMissed(domain, "no such name", tries, wait_s))

    again = "robots.txt cannot be had (no such name): asked for again in 12 s, and until then nothing else"
    assert line("a.test", 1, 12.4) == again
    assert line("a.test", 2, 30.0) is None
    assert line("a.test", 3, None) == "no robots.txt after 3 tries (no such name): nothing of it may be fetched"
    others = [line(f"{number}.test", 1, 9.0) for number in range(MISSED_TOLD_MAX)]
    assert [other is not None for other in others] == [True] * (MISSED_TOLD_MAX - 1) + [False]
    assert line(f"{MISSED_TOLD_MAX - 1}.test", 2, None) is None, "who was not told of is not told of later"


def test_which_events_are_worth_a_line() -> None:
    told = Told()
    events: list[tuple[Event, str | None]] = [
        (PaceChanged("a.test", 0.4, 0.5, 0, "faster"), None),
        (BlockOpened("a.test", 2.0, None, 1, "HTTP 429"), "HTTP 429: left alone for 2.0 s"),
        (PaceChanged("a.test", 0.16, 0.17, 1, "limited"), None),
        (BlockClosed("a.test", 2.0, 0.5, "limit measured"), "answers again: limit measured, 2.00 requests/s"),
        (BlockClosed("a.test", 2.0, 0.0, "no delay"), "answers again: no delay"),
        (PaceChanged("a.test", 0.4, 0.5, 0, "probing"), "delay 0.50 s -> 0.40 s: probing"),
        (PaceChanged("a.test", 0.6, 0.5, 0, "slower"), None),
        (PaceChanged("b.test", 0.4, 0.5, 0, "probing"), None),
        (Paused("a.test", 30.0, "its quota is used up"), "asked for 30.0 s of pause: its quota is used up"),
        (CircuitOpened("a.test", 15.0, 5, "5 failures"), "circuit open for 15 s: 5 failures"),
        (CircuitClosed("a.test", 16.0, "it answered"), "circuit closed after 16 s"),
        (
            NobodyThere("a.test", "https://a.test", "connection refused", "http:// answers there"),
            "nobody answers at https://a.test (connection refused): http:// answers there",
        ),
        (
            TailBegan("tail", ["a", "b", "c", "d"], 110.0, 1, 1_800.0),
            "nothing but failing domains is left; 4 domains without a page (a, b, c and 1 more): given up in 110 s;"
            " 1 domain that had answered: up to 1800 s",
        ),
    ]
    assert [told.line(event) for event, _ in events] == [line for _, line in events]
