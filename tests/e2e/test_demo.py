"""The demonstration, as a person starts it. It takes most of a minute, and so it runs in a soak only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from amble.cli import main


def test_the_demonstration_shows_a_domain_slowed_by_a_429_and_sped_up_again(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--hypothesis-profile") != "soak":
        pytest.skip("runs in a soak: make soak")
    file = tmp_path / "demo.duckdb"
    began = monotonic()
    done = subprocess.run([sys.executable, "-m", "amble", "demo", "--into", str(file)], capture_output=True, text=True)
    took_s = monotonic() - began
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    refused = next(number for number, line in enumerate(lines) if "HTTP 429" in line)
    domain = lines[refused].split()[2]
    assert any(domain in line and "delay" in line and "->" in line for line in lines[refused:]), "sped up again"
    assert "0 broken rules" in done.stderr
    assert main(["audit", str(file)]) == 0
    assert took_s < 60, "the promise of `make crawl`"
