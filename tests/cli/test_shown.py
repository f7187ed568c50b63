"""What the program calls itself, in words that can be pasted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from amble.cli.shown import command


@pytest.mark.parametrize(
    ("known", "beside", "folder", "named"),
    [
        (True, True, ".", "amble"),
        (False, True, ".", os.path.join(".venv", "bin", "amble")),
        (False, True, "elsewhere", "{root}/.venv/bin/amble"),
        (False, False, ".", "amble"),
    ],
)
def test_a_command_that_no_shell_finds_is_named_by_its_place(
    known: bool, beside: bool, folder: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ".venv" / "bin"
    place.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    if beside:
        (place / "amble").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(place / "python"))
    monkeypatch.setenv("PATH", str(place) if known else str(tmp_path))
    monkeypatch.chdir(tmp_path / folder)
    assert command() == named.format(root=tmp_path)
