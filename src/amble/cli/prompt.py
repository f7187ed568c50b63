"""Lines typed at a prompt: with a history that is kept, and words that can be completed, where readline is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from amble.cli.shown import say

HISTORY_LINES_MAX = 2_000
_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "COUNT", "DESCRIBE", "SHOW TABLES", "INSERT", "UPDATE",
    "DELETE", "CREATE TABLE", "CRAWL", "CRAWL SITES", "EXPLAIN CRAWL", "INTO", "EXTRACT", "WITH", "RESUME CRAWL",
    "PAUSE CRAWL", "STOP CRAWL", "CRAWLING MERGE INTO", "css_select", "htmlpath", "page_info", "surt", "domain_of",
)  # fmt: skip


class Prompt:
    def __init__(self, file: str, names: Callable[[], list[str]]) -> None:
        self._file = file
        self._names = names
        self._readline = _readline()
        self._history = _history_file()

    def texts(self, is_complete: Callable[[str], bool]) -> Iterator[str]:
        """What is typed, each time it is complete; until Ctrl-D."""
        say(f"{self._file}: SQL and CRAWL, ended by a semicolon; Ctrl-D to leave")
        self._begin()
        lines: list[str] = []
        while True:
            try:
                lines.append(input("   ...> " if lines else "amble> "))
            except KeyboardInterrupt:
                say("")
                lines.clear()
                continue
            except EOFError:
                say("")
                return
            if lines == ["exit"] or lines == ["quit"]:
                return
            text = "\n".join(lines)
            if is_complete(text):
                lines.clear()
                yield text
                self._save()

    def _begin(self) -> None:
        if self._readline is None:
            return
        with suppress(OSError):
            self._readline.read_history_file(self._history)
        self._readline.set_history_length(HISTORY_LINES_MAX)
        self._readline.set_completer(self._complete)
        self._readline.parse_and_bind("tab: complete")

    def _save(self) -> None:
        if self._readline is not None:
            with suppress(OSError):
                self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._readline.write_history_file(self._history)

    def _complete(self, typed: str, number: int) -> str | None:
        if number == 0:
            self._found = complete(typed, [*_WORDS, *self._names()])
        return self._found[number] if number < len(self._found) else None


def complete(typed: str, words: list[str]) -> list[str]:
    """The words that begin so, in the case in which they were begun."""
    low = typed.lower()
    fitting = dict.fromkeys(word for word in words if word.lower().startswith(low))
    return [word.lower() if typed and typed.islower() and word.isupper() else word for word in fitting]


def _history_file() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base, "amble", "sql_history")


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline
