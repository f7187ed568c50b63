"""Where talk goes: lines that scroll by and, on a terminal, a block below them that is drawn anew.

Told from any thread. Nobody listening any more (a closed terminal, a broken pipe) is no reason to end a crawl.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from amble.report.words import safe_lines

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_LINE = re.compile(r"((?:\x1b\[[0-9]{1,2}m)?)(.*?)((?:\x1b\[0m)?)", re.DOTALL)
_CLEAR_BELOW = "\x1b[J"


class Screen:
    def __init__(self, stream: TextIO | None = None, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()
        self._block: Sequence[str] = ()
        self._drawn = 0  # lines of the block on the screen
        self.live = self._stream.isatty() and environ.get("TERM", "") not in ("", "dumb")
        self.coloured = self.live and not environ.get("NO_COLOR")

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            found = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            found = shutil.get_terminal_size()
        return max(20, found.columns), max(5, found.lines)

    def line(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            self._write(self._up() + _harmless(text) + "\n" + self._below())

    def block(self, lines: Sequence[str]) -> None:
        """What stands below the lines; on a terminal only."""
        if self.live:
            with self._lock:
                up = self._up()
                self._block = tuple(lines)
                self._write(up + self._below())

    def close(self) -> None:
        """The block is gone; the lines stay."""
        self.block(())

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.coloured else text

    def _up(self) -> str:
        """Back to where the block begins."""
        up = f"\r\x1b[{self._drawn}A{_CLEAR_BELOW}" if self._drawn else ""
        self._drawn = 0
        return up

    def _below(self) -> str:
        self._drawn = len(self._block)
        return "".join(f"{_harmless(line)}\n" for line in self._block)

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def _harmless(text: str) -> str:
    """Our own colours stay, at the ends of a line; whatever else would steer the terminal does not [E7]."""
    found = _LINE.fullmatch(text)
    assert found is not None
    return f"{found[1]}{safe_lines(found[2])}{found[3]}"
