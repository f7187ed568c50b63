"""The sources of a commit in a folder of their own, run with the packages of this environment."""

from __future__ import annotations

import compileall
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Checkout(NamedTuple):
    """Sources of one commit, and how to run them with the packages of this environment."""

    name: str
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": os.pathsep.join((str(self.folder / "src"), str(self.folder)))}

    def check(self) -> None:
        """Whoever runs here must load the sources that lie here: a commit compared with itself is always as fast."""
        code = "import amble, bench._crawler; print(amble.__file__, bench._crawler.__file__, sep='\\n')"
        said = subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )
        if said.returncode:
            raise SystemExit(f"{self.name} does not run with the packages of this environment:\n{said.stderr.strip()}")
        if strangers := [line for line in said.stdout.split() if not Path(line).is_relative_to(self.folder.resolve())]:
            raise SystemExit(f"{self.name} would run {strangers[0]}, which is not its own")


def commit_of(named: str) -> str:
    """The short id of what a person calls a commit."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--verify", "--short", f"{named}^{{commit}}"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode:
        raise SystemExit(f"no commit {named!r} here")
    return said.stdout.strip()


@contextmanager
def checked_out(named: str | None) -> Iterator[Checkout]:
    """The sources of a commit in a folder of their own, which git knows nothing of: whatever ends this, there is no
    worktree to be pruned. Without a commit: the sources as they lie here."""
    if named is None:
        yield Checkout(f"this folder, at {commit_of('HEAD')}", ROOT)
        return
    commit = commit_of(named)
    with tempfile.TemporaryDirectory(prefix=f"amble-{commit}-", ignore_cleanup_errors=True) as folder:
        packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        compileall.compile_dir(folder, quiet=2)
        yield Checkout(commit, Path(folder))
