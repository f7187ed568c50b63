"""The words of the command line: the verbs, and what may follow each."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

# As `amble.settings.OWN`, which takes a while to load: what is never taken from the file of a job.
OWN = ("http_proxy", "http_proxy_username", "http_proxy_password", "no_proxy", "ca_file", "allow_private")
_HELP = """\
A polite web crawler that learns the pace each site can bear.

  amble crawl https://example.com/            crawl a site into example.com.duckdb
  amble demo                                  crawl a small web that it serves itself
  amble jobs FILE                             what was crawled into a file
  amble config show                           every setting, and where it came from
"""


class Parser(argparse.ArgumentParser):
    """Mistakes are told with the nearest word that is known."""

    later: Callable[[], None] | None = None  # adds what is known only of the verb that is called for

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **{"allow_abbrev": False, "formatter_class": _Help, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        self._complete()
        return super().parse_known_args(args, namespace)

    def _complete(self) -> None:
        if self.later is not None:
            self.later()
            self.later = None

    def error(self, message: str) -> NoReturn:
        hint = self._hint(message)
        self.exit(2, f"{self.prog}: {message}\nhint: {hint or f'`{self.prog} --help` lists what there is'}\n")

    def _hint(self, message: str) -> str | None:
        wrong = re.search(r"invalid choice: '([^']*)'", message)
        if wrong is not None:
            choices = re.findall(r"[\w-]+", message.partition("choose from")[2])
            close = get_close_matches(wrong[1], choices, n=1, cutoff=0.5)
            return f"did you mean {close[0]!r}?" if close else None
        return None

    def flags(self) -> list[str]:
        self._complete()
        return [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """What was typed. Whatever is not known ends the program with exit code 2 and the nearest word that is."""
    parser = make_parser()
    arguments: argparse.Namespace
    arguments, unknown = parser.parse_known_args(words)
    if arguments.verb is None and not arguments.version:
        parser.error(f"{unknown[0]!r} is not known here" if unknown else "a verb is missing")
    if unknown and arguments.verb is not None:
        verb = verbs_of(parser)[arguments.verb]
        flag = unknown[0].partition("=")[0]
        close = get_close_matches(flag, verb.flags(), n=1, cutoff=0.5) if flag.startswith("-") else []
        hint = f"did you mean {close[0]}?" if close else f"`{verb.prog} --help` lists what there is"
        parser.exit(2, f"{verb.prog}: {unknown[0]!r} is not known here\nhint: {hint}\n")
    return arguments


def make_parser() -> Parser:
    parser = Parser("amble", description=_HELP)
    parser.add_argument("--version", action="store_true", help="print the version and end")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)

    def verb(name: str, told: str, *, file: bool = False) -> Parser:
        made = verbs.add_parser(name, help=told, description=told)
        if file:
            made.add_argument("file", metavar="FILE", help="the DuckDB file of a crawl")
        made.add_argument("--json", action="store_true", help="print the result as JSON")
        assert isinstance(made, Parser)
        return made

    _add_seeds(verb("crawl", "crawl sites or pages into a DuckDB file"))
    _add_seeds(verb("plan", "what a crawl would do, from robots.txt and sitemaps alone"))
    demo = verb("demo", "crawl a small web that it serves itself on loopback")
    demo.add_argument("--into", metavar="FILE", default="demo.duckdb", help="(default %(default)s)")
    for name, told, default in (
        ("resume", "go on with a job: one that is paused, or one that did not finish", "the last that did not finish"),
        ("pause", "let a running crawl wait, in its place", "all that run"),
        ("stop", "end a running crawl politely, to be resumed", "all that run"),
    ):
        made = verb(name, told, file=True)
        made.add_argument("job", metavar="JOB", type=int, nargs="?", help=f"default: {default}")
        if name == "resume":
            made.add_argument("--trust-clauses", action="store_true", help="run the SQL in the file, whatever it is")
            _add_settings(made, named=OWN)
    verb("jobs", "the jobs in a file", file=True)
    verb("domains", "what was learned of each domain", file=True)
    audit = verb("audit", "check the receipts: exit code 0 only if no rule was broken", file=True)
    audit.add_argument("--domain", help="default: all of them")
    audit.add_argument("--html", metavar="TO", help="write a page to send to the owner of a site")
    audit.add_argument("--force", action="store_true", help="write over a file that is there")
    why = verb("why", "why a domain takes its time")
    why.add_argument("domain", metavar="DOMAIN")
    why.add_argument("file", metavar="FILE", nargs="?", help="default: named after the domain")
    why.add_argument("--job", type=int, help="default: the last that asked it")
    sql = verb("sql", "SQL and CRAWL on a file: a command, a script, a pipe or a prompt", file=True)
    sql.add_argument("script", metavar="SCRIPT", nargs="?", help="a file of statements; - for stdin")
    sql.add_argument("-c", dest="command", metavar="SQL", help="statements to run")
    sql.add_argument("--csv", action="store_true", help="print results as CSV")
    export = verb("export", "pages as Parquet, CSV, JSON lines or WARC", file=True)
    export.add_argument("to", metavar="TO", help="its ending says the format: .parquet .csv .jsonl .warc; - for stdout")
    export.add_argument("--format", choices=["parquet", "csv", "jsonl", "warc"], help="default: what the ending says")
    export.add_argument("--table", default="pages", help="(default %(default)s)")
    export.add_argument("--where", metavar="SQL", help="a condition for rows of the table")
    export.add_argument("--query", metavar="SQL", help="a SELECT in place of the table")
    export.add_argument(
        "--formulas", choices=["escape", "keep"], default="escape", help="text that a spreadsheet would compute"
    )
    export.add_argument("--force", action="store_true", help="write over a file that is there")
    _add_model(verb("rehearse", "the pace of a crawl against a server as one imagines it, in virtual time"))
    doctor = verb("doctor", "look whether everything is in place for a crawl")
    doctor.add_argument("file", nargs="?", metavar="FILE", help="see whether this file is whole, too")
    doctor.add_argument("--salvage", metavar="TO", help="write what can be read of a damaged FILE to a new one")
    doctor.add_argument("--host", default="example.com", help="a name to look up (default %(default)s)")
    doctor.add_argument("--into", metavar="FILE", default=".", help="where a crawl would go (default: here)")
    config = verb("config", "the settings that hold here")
    config.add_argument("what", choices=["show"], help="every setting, its value and where it came from")
    told = "a script that lets a shell complete these words"
    completion = verbs.add_parser("completion", help=told, description=told)
    completion.add_argument("shell", choices=["bash", "zsh", "fish"])
    return parser


def verbs_of(parser: Parser) -> dict[str, Parser]:
    found = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


def _add_seeds(parser: Parser) -> None:
    parser.add_argument(
        "seeds", nargs="*", metavar="URL", help="a host or root URL means the site, a longer one the page"
    )
    parser.add_argument("--seeds", dest="seeds_file", metavar="FILE", help="more of them, one per line; - for stdin")
    parser.add_argument("--into", metavar="FILE", help="default: named after the first host")
    parser.add_argument("--table", default="pages", help="the table to fill (default %(default)s)")
    _add_settings(parser)


def _add_model(parser: Parser) -> None:
    parser.add_argument("domain", metavar="DOMAIN", nargs="?", help="a server as an earlier crawl found it")
    parser.add_argument("file", metavar="FILE", nargs="?", help="the file of that crawl (default: named after it)")
    parser.add_argument("--pages", type=int, help="(default: as many as it had, or 1000)")
    model = parser.add_argument_group("the server")
    model.add_argument("--rate", type=float, help="requests per second that it allows; default: as many as come")
    model.add_argument("--burst", type=float, help="requests at once that it allows")
    model.add_argument("--window", type=float, metavar="SECONDS", help="it counts in windows of this length")
    model.add_argument("--from-first", action="store_true", default=None, help="they begin with its first request")
    model.add_argument("--queue", type=int, metavar="DEPTH", help="it answers in turn, and refuses when so many wait")
    model.add_argument("--at-once", type=int, metavar="N", help="it refuses one more while so many are under way")
    model.add_argument("--penalty", type=float, metavar="SECONDS", help="who breaks the limit is shut out so long")
    model.add_argument("--change-after", type=float, metavar="SECONDS", help="its rate changes then")
    model.add_argument("--change-to", type=float, metavar="TIMES", help="to so many times what it was (default 0.5)")
    model.add_argument("--down-after", type=float, metavar="SECONDS", help="it is down from then on")
    model.add_argument("--down-for", type=float, metavar="SECONDS", help="for so long (default 10)")
    model.add_argument("--up-for", type=float, metavar="SECONDS", help="and again after so long; default: once")
    model.add_argument("--retry-after", action="store_true", default=None, help="it says how long to wait")
    model.add_argument(
        "--headers", choices=["structured", "split", "x-delta", "x-epoch"], help="it tells its quota in these fields"
    )
    model.add_argument("--latency", type=float, metavar="SECONDS", help="how long an answer takes")
    model.add_argument("--crawl-delay", type=float, metavar="SECONDS", help="what its robots.txt asks for")
    _add_settings(parser, ("pacing",))


def _add_settings(parser: Parser, only: Sequence[str] = (), named: Sequence[str] = ()) -> None:
    def add() -> None:
        from amble.cli.flags import add_settings  # the models of all settings: they take a while to load

        add_settings(parser, only, named)

    parser.later = add
