"""A folder for what processes of one user share while they run, which nobody else can enter.

Among the temporary files, because every process of a user finds those, whatever session it belongs to; a session's own
folder goes with the session, and a crawl may stay. `AMBLE_RUNTIME_DIR` names another.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

VARIABLE = "AMBLE_RUNTIME_DIR"


def runtime_folder() -> Path | None:
    """The folder, made if it is not there; None if somebody else has taken its name, or there can be none."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else Path(tempfile.gettempdir(), f"amble-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True, parents=bool(named))
        found = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and (os.name == "nt" or (found.st_uid == user and not found.st_mode & 0o077))
    return folder if ours else None
