"""From words to one call, and from its end to an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from amble.cli.arguments import make_parser
from amble.cli.crawl import crawl, resume
from amble.cli.demo import demo
from amble.cli.look import audit, domains, jobs
from amble.errors import AmbleError, SettingsError

_VERBS: dict[str, Callable[..., int]] = {
    "crawl": crawl,
    "demo": demo,
    "resume": resume,
    "jobs": jobs,
    "domains": domains,
    "audit": audit,
}


def main(words: Sequence[str] | None = None) -> int:
    arguments = make_parser().parse_args(words)
    try:
        return int(_VERBS[arguments.verb](arguments))
    except SettingsError as error:
        sys.stderr.write(f"amble: {error}\n")
        return 2
    except AmbleError as error:
        sys.stderr.write(f"amble: {error}\n")
        return 1
    except BrokenPipeError:
        return 1
