"""One crawl of a farm, in a process that is measured from outside and gives an account of itself."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from amble.testing.farm import FarmProcess
from bench._checkout import Checkout
from bench._scenarios import Scenario, Used, rows_in, run_measured


class Cost(NamedTuple):
    """What one crawl took, and what came of it."""

    account: dict[str, Any]
    used: Used
    rows: int
    file_mb: float
    got: int
    pages: int
    broken: int

    @property
    def complete(self) -> bool:
        """Whether every page was got, stored as one row, and no rule was broken on the way."""
        return self.got == self.pages == self.rows == self.account["pages"] and not self.broken


def crawler(scenario: Scenario, file: Path) -> list[str]:
    """The command that crawls into a file what is named on its standard input."""
    settings = json.dumps(dict(scenario.settings))
    return [sys.executable, "-m", "bench._crawler", str(file), "--settings", settings]


def crawl_once(
    scenario: Scenario, farm: FarmProcess, *more: str, checkout: Checkout | None = None, timeout_s: float = 600.0
) -> Cost:
    """Crawl a farm in a new process, into a new file; with the sources of another commit, if that is wanted."""
    env, where = (None, None) if checkout is None else (checkout.env, checkout.folder)
    farm.clear()
    with tempfile.TemporaryDirectory(prefix="amble-bench-") as folder:
        file = Path(folder) / "pages.duckdb"
        command, roots = [*crawler(scenario, file), *more], "\n".join(farm.roots())
        used = run_measured(command, given=roots, timeout_s=timeout_s, env=env, folder=where)
        if used.status:
            raise SystemExit(f"the crawl ended with {used.status}")
        report = farm.judge()
        account = json.loads(used.output)
        return Cost(
            account, used, rows_in(file), file.stat().st_size / 1e6, report.got, report.pages, report.violations
        )
