"""A crawl seen by py-spy: which functions it is in, moment by moment, as a flame graph and as a list."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from amble.testing.farm import FarmProcess
from bench._crawl_once import crawler
from bench._scenarios import Scenario, run_measured

RATE = 250  # looks a second


def py_spy() -> str | None:
    """Where it is installed: beside this interpreter, or on the path."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


def record(program: str, scenario: Scenario, farm: FarmProcess, kind: str, into: Path) -> None:
    """Crawl once under the eyes of py-spy, which keeps to itself what the crawl says."""
    farm.clear()
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        options = ["--rate", str(RATE), "--format", kind, "--output", str(into), "--function"]
        command = [program, "record", *options, "--", *crawler(scenario, Path(folder) / "pages.duckdb")]
        used = run_measured(command, given="\n".join(farm.roots()))
    got = farm.judge().got
    if used.status or not got:
        raise SystemExit(f"py-spy ended with {used.status} after {got} pages")


def top_functions(stacks: Iterable[str], count: int) -> list[tuple[str, float]]:
    """The functions that were running themselves most often, as shares, from stacks in py-spy's raw format."""
    own: Counter[str] = Counter()
    for stack in stacks:
        frames, _, times = stack.rstrip().rpartition(" ")
        own[frames.rpartition(";")[2]] += int(times)
    return [(name, times / own.total()) for name, times in own.most_common(count)]
