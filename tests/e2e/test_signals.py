"""The real command, interrupted: once it lets what is under way end, twice it stops at once; either can be resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import duckdb
import pytest

from amble.cli import main
from amble.control.channel import Nobody, ask
from amble.testing.farm import Farm, Pages, Site
from amble.testing.farm.outages import Outage
from amble.testing.lab.servers import LogNormal
from tests.store.conftest import SmallDisk, small_disk

__all__ = ["small_disk"]  # a fixture

NAME = "127.0.0.1"  # the command knows no names of the farm's
PAGES = 60
SLOWLY = ["--pacing", "fixed", "--fixed-delay", "0.05", "--max-rate", "unlimited"]
PATIENCE_S = 60.0
FOR_EVER = ["--http-timeout", "3600", "--header-timeout-s", "3600"]  # what hangs does not end by itself


@pytest.fixture
def farm() -> Iterator[Farm]:
    with Farm([Site(name=NAME, pages=Pages(PAGES, 4_000), latency=LogNormal(0.15, 0.0))]) as served:
        yield served


@contextmanager
def amble(*words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-m", "amble", *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def output_of(*words: str) -> tuple[int, str]:
    """What comes after the interruption, in this process."""
    with redirect_stdout(StringIO()) as out:
        code = main(words)
    return code, out.getvalue()


def wait_for(happened: Callable[[], bool]) -> None:
    give_up = monotonic() + PATIENCE_S
    while not happened() and monotonic() < give_up:
        sleep(0.01)
    assert happened()


def got(farm: Farm) -> int:
    return sum(entry.complete and not entry.is_robots for entry in farm.log())


def the_job(file: str) -> dict[str, Any]:
    code, out = output_of("jobs", file, "--json")
    assert code == 0
    [job] = json.loads(out)
    assert isinstance(job, dict)
    assert job["accepted"] == job["queued"] + job["running"] + job["deferred"] + job["final"]
    return job


def resume_to_the_end(farm: Farm, file: str) -> None:
    """Whatever was left is done, once."""
    code, _ = output_of("resume", file, "--allow-private", "127.0.0.0/8")
    assert code == 0
    assert [site.missing for site in farm.judge().hosts] == [()]
    with duckdb.connect(file) as connection:
        rows = connection.execute("SELECT count(*), count(DISTINCT url), count(error_type) FROM pages").fetchall()
    assert rows == [(PAGES, PAGES, 0)]
    job = the_job(file)
    assert (job["status"], job["accepted"], job["final"]) == ("completed", PAGES, PAGES)
    assert output_of("audit", file)[0] == 0


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["Ctrl-C", "SIGTERM", "closed terminal"]
)
def test_interrupted_once_it_lets_what_is_under_way_end(farm: Farm, tmp_path: Path, number: signal.Signals) -> None:
    file = str(tmp_path / "x.duckdb")
    with amble("crawl", farm.url(NAME), "--into", file, *SLOWLY) as process:
        wait_for(lambda: got(farm) >= 12)
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert "stopping" in said
    log = farm.log()
    assert all(entry.complete for entry in log), "what was under way was cut off"
    job = the_job(file)
    pages = len({entry.target for entry in log if entry.status == 200 and not entry.is_robots})
    assert (job["status"], job["final"]) == ("paused", pages), "every answer is stored"
    assert pages < PAGES
    resume_to_the_end(farm, file)
    assert farm.judge().again == 0, "what was got is not asked for again"


ENDLESS = {
    "interrupted": "SELECT count(*) FROM range(100000000000)",
    "not to be interrupted": "SELECT levenshtein(repeat('x', 400000), repeat('y', 400000))",
    "in a function of ours": "SELECT len(css_select(repeat('<p>', 30000000), 'p'))",
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_query_under_way_keeps_no_crawl_from_ending(farm: Farm, tmp_path: Path, kind: str) -> None:
    """Whoever asked learns that the file was let go of."""
    file = str(tmp_path / "x.duckdb")
    with amble("crawl", farm.url(NAME), "--into", file, *SLOWLY) as process:
        wait_for(lambda: got(farm) >= 3)
        asking = ThreadPoolExecutor().submit(ask, file, "sql", query=ENDLESS[kind])
        wait_for(lambda: got(farm) >= 20)
        assert not asking.done()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130, said
        assert "amble: " not in said
    assert isinstance(asking.exception(PATIENCE_S), Nobody)
    resume_to_the_end(farm, file)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("presses", [1, 2])
def test_interrupted_on_a_full_disk_it_ends_and_can_be_resumed(farm: Farm, small_disk: SmallDisk, presses: int) -> None:
    """The first Ctrl-C waits as long as a closing store does, the second not even that [E11, F2]."""
    file, filler = str(small_disk.folder / "x.duckdb"), small_disk.folder / "filler"
    with amble("crawl", farm.url(NAME), "--into", file, *SLOWLY) as process:
        wait_for(lambda: got(farm) >= 12)
        fill(filler)
        wait_for(lambda: "disk" in ask(file, "status")["jobs"][0]["phase"])
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
            sleep(0.5)
        _, said = process.communicate(timeout=240)
    assert process.returncode == 1, said
    assert "could not be written" in said
    assert "Traceback" not in said
    assert "never retrieved" not in said
    filler.unlink()
    small_disk.remount("size=100m")
    resume_to_the_end(farm, file)


def fill(filler: Path) -> None:
    """Nobody else can write a byte to this disk."""
    with filler.open("wb", buffering=0) as out, suppress(OSError):
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    out.write(bytes(size))


def test_interrupted_twice_it_stops_at_once(tmp_path: Path) -> None:
    an_hour = Outage(0.0, 3_600.0, "hang")
    site = Site(name=NAME, pages=Pages(PAGES, 4_000))
    with Farm([site]) as farm:
        file = str(tmp_path / "x.duckdb")
        with amble("crawl", farm.url(NAME), "--into", file, *SLOWLY, *FOR_EVER) as process:
            wait_for(lambda: got(farm) >= 12)
            farm.replace(Site(name=NAME, pages=site.pages, outages=(an_hour,)))  # nothing ends by itself any more
            asked = len(farm.log())
            wait_for(lambda: len(farm.log()) >= asked + 3)
            process.send_signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130, said
        job = the_job(file)
        assert job["status"] == "paused"
        assert 0 < job["final"] < PAGES
        assert job["deferred"] == job["accepted"] - job["final"], "what was cut off is handed back"
        farm.replace(site)
        resume_to_the_end(farm, file)
