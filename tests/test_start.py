"""What is not needed is not loaded: a command, a script and a crawl each start in their own time."""

from __future__ import annotations

import subprocess
import sys

import pytest

_ENGINE = {"duckdb", "pydantic", "pycurl", "asyncio", "uvloop"}
_OTHERS = {"numpy", "pandas", "pyarrow", "multiprocessing", "selectolax"}


@pytest.mark.parametrize(
    ("does", "not_loaded"),
    [
        pytest.param("import amble", _ENGINE | _OTHERS, id="the package"),
        pytest.param("from amble.cli import main; main(['--version'])", _ENGINE | _OTHERS, id="the version"),
        pytest.param(
            "from amble.cli.arguments import make_parser; make_parser().format_help()", _ENGINE, id="the help"
        ),
        pytest.param("from amble.jobs import Job", _OTHERS | {"amble.testing", "amble.sql"}, id="a crawl"),
    ],
)
def test_what_is_not_needed_is_not_loaded(does: str, not_loaded: set[str]) -> None:
    script = f"import sys; {does}; sys.stderr.write(' '.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert not not_loaded & set(ran.stderr.split())
