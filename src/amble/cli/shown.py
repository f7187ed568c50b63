"""Where data and talk go: standard output and standard error, both harmless on a terminal [E7]."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from amble.report.words import safe_lines

if TYPE_CHECKING:
    from amble.settings import Settings


def say(text: str) -> None:
    """Talk goes to standard error, so that data can be piped."""
    sys.stderr.write(safe_lines(text) + "\n")
    sys.stderr.flush()


def warn_of_idle(settings: Settings) -> None:
    """What was set and does nothing. A job says it itself."""
    for sentence in settings.idle():
        say(f"warning: {sentence}")


def show(text: str, end: str = "\n", *, is_data: bool = False) -> None:
    """Of data for another program every byte counts; a terminal gets it like any other text."""
    plain = text if is_data and not sys.stdout.isatty() else safe_lines(text)
    sys.stdout.write(plain + end)


def show_json(value: Any) -> None:
    show(json.dumps(value, default=str, indent=2))


def command() -> str:
    """How this program is called here: `make crawl` sets it up in an environment that no shell knows of."""
    beside = os.path.join(os.path.dirname(sys.executable), "amble")
    found = shutil.which("amble")
    if found is not None or not os.path.exists(beside):
        return "amble"
    try:
        near = os.path.relpath(beside)
    except OSError:  # the folder we are in is gone
        return beside
    return beside if near.startswith(os.pardir) else near
