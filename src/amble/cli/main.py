"""From words to one call, and from its end to an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from amble.cli.arguments import parse
from amble.cli.shown import show
from amble.collecting import seldom
from amble.errors import AmbleError, BadDomain, BadUrl, SettingsError, first_line
from amble.report.words import safe_lines

# Imported when they are called for, so that each verb starts in its own time.
_HOMES = {
    "crawl": "crawl",
    "resume": "crawl",
    "demo": "demo",
    "jobs": "look",
    "domains": "look",
    "audit": "look",
    "pause": "look",
    "stop": "look",
    "plan": "reports",
    "why": "reports",
    "export": "reports",
    "rehearse": "rehearse",
    "sql": "sql",
    "doctor": "doctor",
    "config": "config",
    "completion": "completion",
}
_LIGHT = frozenset({"config", "completion"})  # verbs that open no file of a crawl
# Of addresses and of memory for data, in bytes: with less, libraries that we use end the process when they are refused.
_MEMORY_NEEDED = {"RLIMIT_AS": 1 << 30, "RLIMIT_DATA": 1 << 28}
_FILES_NEEDED = 32
_ONLY_OURS = 0o077  # what a crawl writes is for whoever crawls
_HINTS = {
    errno.ENOSPC: "free some disk space and try again",
    errno.EMFILE: "raise the limit of open files: ulimit -n 1024",
    errno.ENFILE: "this system has too many files open",
    errno.ENOMEM: "there is too little memory",
    errno.ENAMETOOLONG: "give it a shorter name",
}


@seldom()
def main(words: Sequence[str] | None = None) -> int:
    code = _to_the_end(words)
    database = sys.modules.get("amble.store.database")
    if database is not None and database.has_readers_left():
        _leave_at_once(code)
    return code


def _to_the_end(words: Sequence[str] | None) -> int:
    _prepare_streams()
    before = os.umask(_ONLY_OURS)
    try:
        return _run(words)
    except (SettingsError, BadUrl, BadDomain) as error:  # what was typed cannot be meant
        return _told(str(error), 2)
    except AmbleError as error:
        return _told(str(error), 1)
    except KeyboardInterrupt:
        return _told("interrupted", 130)
    except BrokenPipeError:
        _forget_stdout()  # whoever read our output has gone, as `head` does
        return 1
    except OSError as error:
        _forget_stdout()
        what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        return _told(f"{what}\nhint: {_HINTS.get(error.errno or 0, 'see that the file and its folder can be used')}", 1)
    except UnicodeError as error:
        return _told(f"a text is not UTF-8: {error}\nhint: rename the file, or write the text in UTF-8", 1)
    except MemoryError:
        return _told("there is too little memory\nhint: end other programs, or crawl fewer sites at once", 1)
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        return _told(_unforeseen(error), 1)
    finally:
        os.umask(before)


def _run(words: Sequence[str] | None) -> int:
    arguments = parse(words)
    if arguments.version:
        import amble

        show(f"amble {amble.__version__}")
        return 0
    if arguments.verb not in _LIGHT:
        _refuse_shortage()
    verb = getattr(import_module(f"amble.cli.{_HOMES[arguments.verb]}"), arguments.verb)
    code = int(verb(arguments))
    sys.stdout.flush()
    return code


def _refuse_shortage() -> None:
    """What this process is not allowed to have, and cannot do without."""
    if sys.platform == "win32":
        return
    import resource

    for name, needed in _MEMORY_NEEDED.items():
        allowed = resource.getrlimit(getattr(resource, name))[0]
        if allowed != resource.RLIM_INFINITY and allowed < needed:
            raise AmbleError(
                f"this process may have {allowed / 1e6:.0f} MB of memory and needs {needed / 1e6:.0f}",
                hint="raise the limit, or lift it: ulimit -v unlimited, ulimit -d unlimited",
            )
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # the hard limit: a crawl raises its own up to that
    if files != resource.RLIM_INFINITY and files < _FILES_NEEDED:
        raise AmbleError(f"this process may open {files} files and needs {_FILES_NEEDED}", hint=_HINTS[errno.EMFILE])


def _leave_at_once(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _told(message: str, code: int) -> int:
    with suppress(OSError, ValueError):
        sys.stderr.write(safe_lines(f"amble: {message}") + "\n")
    return code


# What libraries say, who have no error of their own for it, when this machine has no more to give.
_SHORTAGES = {
    "can't start new thread": "raise the limits of memory and processes (ulimit -v, ulimit -u)",
    "initializing curl": _HINTS[errno.EMFILE],
    "Too many open files": _HINTS[errno.EMFILE],
    "Cannot allocate memory": _HINTS[errno.ENOMEM],
}


def _unforeseen(error: Exception) -> str:
    """DuckDB says much that nobody foresaw, most of it of a file that is damaged. Of anything else we want to hear."""
    said = first_line(error)
    short = next((hint for sign, hint in _SHORTAGES.items() if sign in said), None)
    if short is not None:
        return f"{said}\nhint: {short}"
    if type(error).__module__ in ("duckdb", "_duckdb"):
        return f"{said}\nhint: see whether the file is whole, and on a disk with room; amble doctor --into FILE looks"
    return f"{type(error).__name__}: {said}\nhint: a fault of ours: python -X dev -m amble shows where"


def _prepare_streams() -> None:
    """A stream that is closed is one to nowhere: the next file to be opened must not get its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        with suppress(AttributeError, ValueError):
            getattr(sys, name).reconfigure(errors="backslashreplace")  # text of pages, whatever the terminal knows


def _forget_stdout() -> None:
    """Python would complain once more when it flushes at the end."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
