"""Where a process that has a file open can be spoken to: a socket beside the file, for its owner alone.

Beside the file, because whoever knows the file then knows the place, whatever the environment of the two processes. A
path too long for a socket, or a disk that knows none, gets a place in the folder that the processes of a user share.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from amble.runtime_folder import runtime_folder

SUFFIX = ".control"
SOCKET_PATH_BYTES_MAX = 100  # of sun_path: 108 on Linux, 104 elsewhere


def places(file: str | os.PathLike[str]) -> Iterator[Path]:
    """Where to listen, or to look for a listener, best first."""
    try:
        path = Path(file).resolve()
    except (OSError, RuntimeError):  # a link to itself
        path = Path(file).absolute()
    beside = path.with_name(path.name + SUFFIX)
    if len(os.fsencode(beside)) <= SOCKET_PATH_BYTES_MAX:
        yield beside
    folder = runtime_folder()
    if folder is not None:
        yield folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:24]}{SUFFIX}"
