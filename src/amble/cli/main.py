"""From words to one call, and from its end to an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from amble.cli.arguments import parse
from amble.cli.shown import show
from amble.collecting import seldom
from amble.errors import AmbleError, BadDomain, BadUrl, SettingsError

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


@seldom()
def main(words: Sequence[str] | None = None) -> int:
    arguments = parse(words)
    try:
        if arguments.version:
            import amble

            show(f"amble {amble.__version__}")
            return 0
        verb = getattr(import_module(f"amble.cli.{_HOMES[arguments.verb]}"), arguments.verb)
        code = int(verb(arguments))
        sys.stdout.flush()
        return code
    except (SettingsError, BadUrl, BadDomain) as error:  # what was typed cannot be meant
        sys.stderr.write(f"amble: {error}\n")
        return 2
    except AmbleError as error:
        sys.stderr.write(f"amble: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("amble: interrupted\n")
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does. Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
