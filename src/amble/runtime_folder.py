"""A folder for what processes of one user share while they run, which nobody else can enter.

In /tmp, because every process of a user finds that, whatever session it belongs to: a session's own folder goes with
the session, and a crawl may stay; TMPDIR differs between a shell, cron and a batch system. `AMBLE_RUNTIME_DIR` names
another.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

VARIABLE = "AMBLE_RUNTIME_DIR"


_SHARED = Path("/tmp")


def runtime_folder() -> Path | None:
    """The folder, made if it is not there; None if somebody else has taken its name, or there can be none."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    named = os.environ.get(VARIABLE)
    places = [_SHARED, Path(tempfile.gettempdir())] if _SHARED.is_dir() else [Path(tempfile.gettempdir())]
    folders = [Path(named)] if named else [place / f"amble-{user}" for place in places]
    return next((folder for folder in folders if _is_ours(folder, user, parents=bool(named))), None)


def _is_ours(folder: Path, user: int, *, parents: bool) -> bool:
    try:
        folder.mkdir(mode=0o700, exist_ok=True, parents=parents)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and (os.name == "nt" or (found.st_uid == user and not found.st_mode & 0o077))
