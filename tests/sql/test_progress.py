"""The bar of a crawl: for terminals and notebooks, one line, gone at the end, and off when it is switched off."""

from __future__ import annotations

import io
import sys

import duckdb
import pytest

from amble.sql import progress
from amble.testing.farm import Pages, Robots, Site
from tests.sql.web import QUICK, web, when

SITE = Site(name="a.test", pages=Pages(12, size_bytes=2_000), robots=Robots(crawl_delay_s=0.05))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, script: str = "") -> str:
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    monkeypatch.setattr(progress.TerminalBar, "every_s", 0.02)  # often, however soon it is over
    with web(SITE) as (farm, con):
        con.execute(f"{script} CRAWL (SELECT ?) INTO pages WITH (follow_links true, {QUICK})", [farm.url("a.test")])
    return stderr.getvalue()


def test_a_terminal_sees_one_line_written_over_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(monkeypatch, Terminal())
    assert "\n" not in said
    lines = said.split("\r\x1b[K")
    assert "of 12 URLs" in lines[-2]
    assert "pages/s" in lines[-2]
    assert lines[-1] == ""


@pytest.mark.parametrize(
    ("terminal", "script", "seen"),
    [
        (False, "", False),
        (False, "SET enable_progress_bar = true;", False),
        (True, "SET enable_progress_bar = true;", True),
        (True, "SET enable_progress_bar = false;", False),
        (True, "SET enable_progress_bar = false; RESET enable_progress_bar;", True),
        (True, "SET enable_progress_bar = true; PRAGMA disable_progress_bar;", True),  # of DuckDB's own alone
    ],
)
def test_the_bar_is_for_terminals_and_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, script: str, seen: bool
) -> None:
    assert bool(shown(monkeypatch, Terminal() if terminal else io.StringIO(), script)) is seen


def test_a_dumb_terminal_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert progress.make_bar().every_s is None


def test_a_line_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    said = shown(monkeypatch, Terminal())
    assert max(len(line) for line in said.split("\r\x1b[K")) < 20


def test_below_a_cell_the_line_is_shown_once_and_then_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    """With IPython's own display machinery, and a shell that says that it has a kernel."""
    pytest.importorskip("IPython")
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    publisher = CapturingDisplayPublisher()  # type: ignore[no-untyped-call]
    monkeypatch.setattr(shell, "display_pub", publisher)
    monkeypatch.setattr(type(shell), "kernel", object(), raising=False)
    try:
        assert shown(monkeypatch, io.StringIO()) == ""
    finally:
        InteractiveShell.clear_instance()
    first, *updates = publisher.outputs
    assert updates
    assert not first["update"]
    assert all(output["update"] for output in updates)
    assert len({output["transient"]["display_id"] for output in publisher.outputs}) == 1
    assert "URLs" in updates[-1]["data"]["text/plain"]


def test_a_crawl_that_waits_for_its_network_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """F10: whoever named a proxy that is not there sees why nothing happens."""
    said = Terminal()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress.TerminalBar, "every_s", 0.02)
    with web(*(Site(name=f"{letter}.test") for letter in "abcd")) as (farm, con):
        stopper = when(lambda: "waiting for the network" in said.getvalue(), con.interrupt)
        seeds = ", ".join(f"'{farm.url(f'{letter}.test')}'" for letter in "abcd")
        with pytest.raises(duckdb.InterruptException):
            con.execute(
                f"CRAWL (SELECT unnest([{seeds}])) INTO pages WITH (http_proxy = 'http://127.0.0.1:9', {QUICK})"
            )
        stopper.join()
