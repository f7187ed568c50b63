"""The words of the command line: the verbs, and a flag for every setting there is."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from amble.settings import fields

_HELP = """\
A polite web crawler that learns the pace each site can bear.

  amble crawl https://example.com/            crawl a site into example.com.duckdb
  amble demo                                  crawl a small web that it serves itself
  amble jobs FILE                             what was crawled into a file
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("amble", description=_HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    crawl = verbs.add_parser("crawl", help="crawl sites or pages into a DuckDB file", allow_abbrev=False)
    crawl.add_argument(
        "seeds", nargs="*", metavar="URL", help="a host or root URL means the site, a longer one the page"
    )
    crawl.add_argument("--seeds", dest="seeds_file", metavar="FILE", help="more of them, one per line; - for stdin")
    crawl.add_argument("--into", metavar="FILE", help="default: named after the first host")
    crawl.add_argument("--table", default="pages", help="the table to fill (default %(default)s)")
    _add_settings(crawl)

    demo = verbs.add_parser("demo", help="crawl a small web that it serves itself on loopback")
    demo.add_argument("--into", metavar="FILE", default="demo.duckdb", help="(default %(default)s)")

    resume = verbs.add_parser("resume", help="go on with a job that did not finish")
    resume.add_argument("file", metavar="FILE")
    resume.add_argument("job", type=int, nargs="?", help="default: the last one that did not finish")

    jobs = verbs.add_parser("jobs", help="the jobs in a file")
    domains = verbs.add_parser("domains", help="what was learned of each domain")
    audit = verbs.add_parser("audit", help="check the receipts: exit code 0 only if no rule was broken")
    for verb in (jobs, domains, audit):
        verb.add_argument("file", metavar="FILE")
    for verb in (crawl, demo, resume, jobs, domains, audit):
        verb.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given, by name."""
    named = {name: getattr(arguments, name, None) for _, name, _ in fields()}
    return {name: value for name, value in named.items() if value is not None}


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parts: dict[str, Any] = {}
    for part, name, info in fields():
        if name == "rules":
            continue  # a table of tables has no place on a command line
        if part not in parts:
            parts[part] = parser.add_argument_group(part)
        options: dict[str, Any] = {"help": (info.description or "").replace("%", "%%"), "dest": name}
        if _holds(info.annotation, bool):
            options |= {"nargs": "?", "const": "true", "metavar": "true|false"}
        elif "tuple" in str(info.annotation):
            options |= {"type": lambda text: tuple(part.strip() for part in text.split(",")), "metavar": "A,B"}
        else:
            options["metavar"] = name.rsplit("_", 1)[-1].upper()
        parts[part].add_argument(f"--{name.replace('_', '-')}", **options)


def _holds(annotation: Any, kind: type) -> bool:
    return annotation is kind or any(
        argument is True or _holds(argument, kind) for argument in get_args(annotation) if argument is not None
    )
