"""The whole crawler in virtual time, against webs made of seeds: nothing the servers could complain about."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from amble.testing.simulation import simulate
from amble.testing.simulation.__main__ import failure_line, main
from amble.testing.simulation.network import DARK, UNSENT
from amble.testing.simulation.site import BROKEN, STATUSES
from amble.testing.simulation.world import make_world
from amble.testing.virtual import TICK_S
from tests.simulation.mutants import MUTANTS, SOURCE

SEEDS = 200
CHUNKS = 8
LONGER = SEEDS // CHUNKS

# What must happen somewhere among the default seeds; a branch that is never reached is not tested by them.
SOMETIMES = {
    *(f"fault {fault}" for fault in (*UNSENT, *BROKEN, *STATUSES, "busy")),
    *(f"robots {what}" for what in ("304", "403", "404", "429", "broken", "changed", "shaky", "stale")),
    *(f"robots redirected: {what}" for what in ("away", "far", "loop", "chain", "page")),
    *(f"limit, {form}" for form in ("silent", "seconds", "date", "rfc850", "asctime", "epoch", "zero", "words")),
    *(f"sitemap {kind}" for kind in ("usual", "named", "index", "moved", "broken")),
    *(f"redirect {kind}" for kind in ("loop", "nowhere", "chain", "to another host", "with Retry-After")),
    *(f"state {state}" for state in ("done", "failed", "skipped", "deferred")),
    *(f"failure {kind}" for kind in ("robots_disallowed", "robots_unreachable", "crawl_delay_too_long", "cancelled")),
    *(f"failure {kind}" for kind in ("too_many_redirects", "out_of_scope", "address_forbidden", "http_rate_limited")),
    *(f"left out: {why}" for why in ("max_crawl_pages", "max_pages_per_domain", "nofollow", "other_host", "too_deep")),
    *("BlockOpened", "BlockClosed", "CircuitOpened", "CircuitHalfOpened", "CircuitClosed", "ConcurrencyChanged"),
    *("drain", "stop", "crash", "paused", "cancelled under way", "wall clock set"),
    *(f"everybody: {fault}" for fault in DARK),
    *("a slow lookup", "a kept connection broke", "a new connection refused its request"),
    *("a silent connection", "a silent connection, again", "NetworkDown", "NetworkBack", "a trial that cost no try"),
    *("TailBegan", "NobodyThere", "failure domain_given_up", "asked with the other scheme"),
    *("a full domain", "every place taken", "without a place", "Retry-After", "a long page"),
    *("left to the store", "claimed", "recalled", "sitemap recalled", "stored already", "crawled again"),
    *("no sitemap recalled", "judged", "refused by the WHERE"),
    *("page 304", "304 unasked", "confirmed", "kept, though it could not be had again"),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_where_the_monotonic_clock_began_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """T2: the same requests and answers in the same order, at the same instants. Time ticks: of two things that happen
    at one instant, rounding would else decide which is first, and rounds otherwise where the clock shows other digits.
    """

    def exchanges(began: float) -> list[str]:
        monkeypatch.setattr(import_module("amble.testing.simulation.simulate"), "CLOCK_BEGINS", (began, began))
        return [line for line in simulate(seed, tick_s=TICK_S).lines if line.split(" ")[1] in ("ask", "got")]

    assert exchanges(9_876_543.25) == exchanges(1_000.0)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_breaks_a_rule(chunk: int) -> None:
    """P1 P2 P3 P5 R1 R2 L1 L3 L4 S1 V1 V5 V6; each line of a failure says how to repeat it."""
    traces = [simulate(seed) for seed in range(chunk * LONGER, (chunk + 1) * LONGER)]
    assert [failure_line(trace) for trace in traces if trace.violations] == []
    assert sum(trace.requests for trace in traces) > 5 * LONGER


def test_every_fault_and_rare_branch_is_met_by_the_default_seeds() -> None:
    hits: Counter[str] = Counter()
    for seed in range(SEEDS):
        hits += simulate(seed).hits
        if hits.keys() >= SOMETIMES:
            return
    assert sorted(SOMETIMES - hits.keys()) == []


@pytest.mark.parametrize("seed", range(0, SEEDS, 8))
def test_the_same_seed_tells_the_same_story(seed: int) -> None:
    assert simulate(seed).lines == simulate(seed).lines


def test_another_process_tells_the_same_story() -> None:
    code = "from amble.testing.simulation import simulate; print(*(simulate(seed).digest for seed in range(20)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert told.stdout.split() == [simulate(seed).digest for seed in range(20)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("days", [1.0, -1.0])
def test_setting_the_wall_clock_changes_nothing(seed: int, days: float) -> None:
    """T1: with the clock set by a day in the midst of it, the same requests leave at the same instants."""

    def jump(days: float) -> list[str]:
        jumps = ((0.3, days), (5.0, days), (40.0, -days))
        return simulate(seed, replace(make_world(seed), restarts=(), crawls=1, wall_jumps=jumps)).lines

    assert jump(0.0) == jump(days)


def test_the_command_says_how_to_repeat_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amble.testing.simulation.judge.Judge.gap_s", lambda judge, host: 1e9)
    assert main(["--seeds", "3"]) == 1
    assert "P1 https://" in (said := capsys.readouterr().out)
    assert "repro: python -m amble.testing.simulation --seed 0" in said


def test_the_command_is_content_with_good_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--from", "5"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["--seed", "5"]) == 0
    assert "ask robots https://" in capsys.readouterr().out


def test_every_mutant_is_in_the_docs_and_still_applies() -> None:
    """Whether the simulation notices them is tried in `make soak`."""
    docs = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text("utf-8")
    assert [mutant.name for mutant in MUTANTS if f"| `{mutant.file}` | {mutant.name} |" not in docs] == []
    texts = {mutant.file: (SOURCE / "amble" / mutant.file).read_text("utf-8") for mutant in MUTANTS}
    assert [mutant.name for mutant in MUTANTS if texts[mutant.file].count(mutant.old) != 1] == []
