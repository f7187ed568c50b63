"""What the documents show can be pasted: programs and commands run as they stand there, on a site on loopback."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from amble.cli.arguments import make_parser
from amble.testing.farm import Farm, Pages, Site

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES_OF_DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?amble (.+)$", re.MULTILINE)
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


def run(command: list[str], text: str = "", env: dict[str, str] | None = None) -> str:
    env = {**os.environ, **(env or {})}
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr  # of a connection that nobody closed, as DuckDB complains of it
    return done.stdout


def stored() -> list[str]:
    with duckdb.connect("site.duckdb", read_only=True) as connection:
        return [url for (url,) in connection.execute("SELECT url FROM pages WHERE http_status = 200").fetchall()]


def here(text: str, site: str) -> str:
    """The same for a site of this machine."""
    host = site.removeprefix("http://").rstrip("/")
    files = text.replace("example.com.duckdb", f"{host.replace(':', '_')}.duckdb")
    return files.replace(SITE, site).replace("example.com", host)


def in_shell(text: str, folder: Path) -> str:
    command = folder / "bin" / "amble"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m amble "$@"\n')
    command.chmod(0o755)
    return run(["sh", "-e"], f"PATH={command.parent}{os.pathsep}$PATH\n{text}")


def test_on_the_command_line(site: str, tmp_path: Path) -> None:
    said = in_shell(here(block("sh"), site), tmp_path)
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


def test_the_first_commands(site: str, tmp_path: Path) -> None:
    (text,) = (text for _, text in BLOCK.findall(README) if text.startswith("pip install ."))
    said = in_shell(here(text.split("\n", 1)[1], site), tmp_path)
    assert "expected" in said  # plan
    assert site in said  # sql
    assert "cause" in said  # why


PROGRAMS = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in PAGES_OF_DOCS
    for number, (language, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1)
    if language == "python" and text != block("python")
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_runs(program: str, site: str) -> None:
    Path("program.py").write_text(here(program, site), encoding="utf-8")
    run([sys.executable, "-W", "error", "program.py"], env={"AMBLE_ALLOW_PRIVATE": "127.0.0.0/8"})


COMMANDS = sorted(
    {
        re.sub(r"\s{2,}#.*", "", words)
        for page in PAGES_OF_DOCS
        for _, text in BLOCK.findall(page.read_text(encoding="utf-8"))
        for words in COMMAND.findall(text)
    }
)


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_is_understood(words: str) -> None:
    assert make_parser().parse_args(shlex.split(words)).verb == words.split()[0]
