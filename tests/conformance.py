"""Where outside test data lies, when it is there: a folder `shared/conformance` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("AMBLE_CONFORMANCE", REPOSITORY.parent / "shared" / "conformance"))


def conformance(relpath: str) -> Path:
    """The path of one outside test file; skips the calling test, saying so, where the data is absent."""
    path = FOLDER / relpath
    if not path.exists():
        pytest.skip(f"outside test data not found: {path} (set AMBLE_CONFORMANCE to its folder)")
    return path
