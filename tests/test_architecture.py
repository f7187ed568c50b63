"""What holds for the source as a whole: who may import whom, and the few things every file does or leaves."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "src" / "amble"

# Importing `datetime` is no sin; asking it for the time is. The rest of the clock, the disk and the network is kept
# out of the core by the import contracts in pyproject.toml.
_CLOCKS = {"now", "utcnow", "today"}
_UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, parsed, by its path below src/amble."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def source(name: str) -> str:
    """The text of a module."""
    return (PACKAGE / name).read_text("utf-8")


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    """Every call in a module."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_the_checks_look_at_the_whole_package() -> None:
    assert {"__init__.py", "errors.py", "core/urls.py", "core/pacing/pace.py"} <= modules().keys()


def test_nothing_imports_upward_and_the_core_stays_pure() -> None:
    """In a process of its own: what other tests have imported would be read along."""
    program = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    paths = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    told = subprocess.run(program, cwd=REPOSITORY, env=paths, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, tree in modules().items() if not ast.get_docstring(tree)] == []


def test_every_module_of_the_core_says_that_it_is_pure() -> None:
    def opening(tree: ast.Module) -> str:
        return (ast.get_docstring(tree) or "").partition("\n\n")[0]

    core = {name: opening(tree) for name, tree in modules().items() if name.startswith("core/")}
    assert [name for name, text in core.items() if "pure" not in text.lower()] == []


def test_the_core_is_told_the_time_and_opens_nothing() -> None:
    found = [
        f"{name}:{call.lineno}"
        for name, tree in modules().items()
        if name.startswith("core/")
        for call in calls(tree)
        if (isinstance(call.func, ast.Attribute) and call.func.attr in _CLOCKS)
        or (isinstance(call.func, ast.Name) and call.func.id in ("open", "input"))
    ]
    assert found == []


def test_only_what_talks_to_people_prints() -> None:
    found = [
        f"{name}:{call.lineno}"
        for name, tree in modules().items()
        if not name.startswith(("cli/", "testing/"))
        for call in calls(tree)
        if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]
    assert found == []


def test_nothing_is_left_for_later() -> None:
    assert [name for name in modules() if _UNFINISHED.search(source(name))] == []
