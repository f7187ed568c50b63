"""Where a process that has a file open can be spoken to: a socket beside the file, for its owner alone.

Beside the file, because whoever knows the file then knows the place, whatever the environment of the two processes. A
path too long for a socket, or a disk that knows none, gets a place in a folder of ours among the temporary files.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

SUFFIX = ".control"
SOCKET_PATH_BYTES_MAX = 100  # of sun_path: 108 on Linux, 104 elsewhere


def places(file: str | os.PathLike[str]) -> Iterator[Path]:
    """Where to listen, or to look for a listener, best first."""
    path = Path(file).resolve()
    beside = path.with_name(path.name + SUFFIX)
    if len(os.fsencode(beside)) <= SOCKET_PATH_BYTES_MAX:
        yield beside
    folder = _own_folder()
    if folder is not None:
        yield folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:24]}{SUFFIX}"


def _own_folder() -> Path | None:
    """A folder that only we can enter; None if somebody else has taken its name."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir(), f"amble-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and (os.name == "nt" or (found.st_uid == user and not found.st_mode & 0o077))
    return folder if ours else None
