"""A store on a file of its own; a small file system that can be filled, where the machine allows one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from amble.store.duckdb_store import DuckDBStore
from amble.store.writer import WriterLimits

QUICK = WriterLimits(linger_s=0.01, retry_s=0.005, retry_s_max=0.02)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "site.duckdb"


@pytest.fixture
def store(path: Path) -> Iterator[DuckDBStore]:
    with DuckDBStore.open(path, limits=QUICK) as opened:
        yield opened


class SmallDisk:
    """A tmpfs of a few MB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.folder)], check=True, capture_output=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no small file system to fill: mounting a tmpfs is not allowed here")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
