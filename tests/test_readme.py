"""The README's three ways to the same crawl, each run as it stands there, against a site on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from amble.testing.farm import Farm, Pages, Site

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SITE = "https://example.com/"
PAGES = 7


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    with Farm([Site(name="127.0.0.1", pages=Pages(PAGES))]) as farm:
        yield farm.url("127.0.0.1")


def block(language: str) -> str:
    """The block of the section on three ways that is written in this language."""
    section = README.split("## Three ways", 1)[1].split("\n## ", 1)[0]
    (text,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert SITE in text
    return str(text)


def run(command: list[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def stored() -> list[str]:
    with duckdb.connect("site.duckdb", read_only=True) as connection:
        return [url for (url,) in connection.execute("SELECT url FROM pages WHERE http_status = 200").fetchall()]


def test_on_the_command_line(site: str, tmp_path: Path) -> None:
    command = tmp_path / "bin" / "amble"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m amble "$@"\n')
    command.chmod(0o755)
    words = f"PATH={command.parent}{os.pathsep}$PATH\n{block('sh').replace(SITE, site)}"
    said = run(["sh", "-e"], words)
    assert len(stored()) == PAGES
    assert site in said


def test_in_sql(site: str) -> None:
    Path("crawl.sql").write_text(block("sql").replace(SITE, site), encoding="utf-8")
    said = run([sys.executable, "-m", "amble", "sql", "site.duckdb", "crawl.sql"])
    assert len(stored()) == PAGES
    assert site in said


def test_in_python(site: str) -> None:
    Path("crawl_it.py").write_text(block("python").replace(SITE, site), encoding="utf-8")
    said = run([sys.executable, "crawl_it.py"])
    assert len(stored()) == PAGES
    assert site in said
