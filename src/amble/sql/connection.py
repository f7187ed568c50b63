"""`amble.connect`: a DuckDB connection that also understands CRAWL.

Everything DuckDB's connection does, this one does by handing it on. Only text that may hold a statement of ours is
looked at more closely; a quick look for our words decides that.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import duckdb
from duckdb import DuckDBPyConnection, DuckDBPyRelation

from amble.jobs.runner import RunningJob
from amble.sql import asked, homes, listed, options, sources
from amble.sql.caller import Caller
from amble.sql.crawling import Place, run_control, run_crawl, setting_here
from amble.sql.handed_on import HandedOn
from amble.sql.merge import run_merge
from amble.sql.on_engine import Working
from amble.sql.parse import parse
from amble.sql.result import DONE, Table
from amble.sql.session import BAR, Session
from amble.sql.statements import Control, Crawl, Merge, Plain, ResetSetting, SetSetting, Statement
from amble.sql.temporary import Temporaries
from amble.store import functions
from amble.store.database import ours_alone

T = TypeVar("T")

_SET = re.compile(r"(?:\A|[\s;/])(?:re)?set\s")


def connect(path: Any = ":memory:", **duckdb_options: Any) -> Connection:
    """Open a DuckDB file, or `":memory:"`, on a connection that understands CRAWL.

    Takes the options of `duckdb.connect` (`read_only`, `config`) and raises its errors. Close it, or use it in a `with`
    block, so that the file is free for others.

        with amble.connect("site.duckdb") as con:
            con.execute("CRAWL (SELECT 'https://example.com/') INTO pages WITH (follow_links = true)")
            con.sql("SELECT url, title FROM pages").show()
    """
    return open_connection(duckdb_options.pop("database", path), duckdb_options)


def open_connection(path: Any, duckdb_options: dict[str, Any], ways: dict[str, Any] | None = None) -> Connection:
    """The same, with the ways of `Job` by which crawls of this connection reach the network."""
    name, config = str(path), duckdb_options.get("config")
    with nullcontext() if ":" in name or not name else ours_alone(name):
        duck = duckdb.connect(path, **duckdb_options)
    functions.prepare(duck)
    if name in ("", ":memory:"):  # nobody else can reach it
        return Connection(duck, Session.over(duck, object(), ways or {}, config=config))
    if ":" not in name:
        name = os.path.abspath(name)  # the folder we are in may be another by then
    base = partial(duckdb.connect, name, **duckdb_options)
    return Connection(duck, Session.over(duck, name, ways or {}, base, config))


class Connection(HandedOn):
    """A DuckDB connection that also understands CRAWL, as `amble.connect` gives it.

    Everything that DuckDB's does (`fetchall`, `df`, `begin`, `register`, ...) is handed on to it. A connection does one
    thing at a time: give each thread its own `cursor()`.
    """

    __slots__ = ("__weakref__", "_busy", "_duck", "_interrupted", "_running", "_session", "_tables")

    def __init__(self, duck: DuckDBPyConnection, session: Session) -> None:
        self._duck = duck
        self._session = session
        self._tables = Temporaries()
        self._busy = threading.RLock()  # while a statement of ours runs
        self._running: RunningJob | Working | None = None
        self._interrupted = False

    # -- statements

    def execute(self, query: Any, parameters: Any = None) -> Self:
        """Run a script; what its last statement gives is there to be fetched."""
        caller = Caller.above(1)
        self._tables.forget(self._duck)
        statements = self._ours(query)
        if statements is None:
            return self._as_ours(_told(caller, self._duck.execute, query, parameters))
        *before, last = statements
        with self._alone():
            self._run_all(before, caller)
            self._answer(last, parameters, caller)
        return self

    def executemany(self, query: Any, parameters: Any = None) -> Self:
        """Run a script once with each set of parameters."""
        caller = Caller.above(1)
        if self._ours(query) is None:
            return self._as_ours(caller.call(self._duck.executemany, query, parameters))
        for each in parameters or ():
            caller.call(self.execute, query, each)
        return self

    def sql(self, query: Any, **named: Any) -> DuckDBPyRelation:
        """Run a script; what its last statement gives is a relation."""
        return self._relation(query, named, Caller.above(1))

    query = sql
    from_query = sql

    def _relation(self, query: Any, named: dict[str, Any], caller: Caller) -> DuckDBPyRelation:
        statements = self._ours(query)
        if statements is None:
            return _told(caller, self._duck.sql, query, **named)
        *before, last = statements
        with self._alone():
            self._run_all(before, caller)
            parameters = named.pop("params", None)
            if isinstance(last, Plain):
                text, left = self._rewritten(last, caller, parameters)
            else:
                text, left = self._run(last, parameters, caller).query()
            relation = _told(caller, self._duck.sql, text, **named, **({"params": left} if left else {}))
            self._tables.hand_to(relation)
        return relation

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """As DuckDB's connections, it refuses to do two things at once."""
        if not self._busy.acquire(blocking=False):
            raise duckdb.ResourceInUseException(
                "Resource In Use Error: this connection is busy with another statement\n"
                "hint: give each thread a cursor of its own: con.cursor()"
            )
        try:
            yield
        finally:
            self._busy.release()

    def _as_ours(self, given: Any) -> Self:
        """DuckDB gives back its connection, or nothing for a text without a statement."""
        return self if given is self._duck else given

    def _ours(self, query: Any) -> list[Statement] | None:
        """The statements of a text that may hold one of ours; None for what DuckDB takes as it is."""
        if not isinstance(query, str):
            return None
        text = query.lower()
        sets = "set" in text and _SET.search(text) is not None and any(name in text for name in _NAMES)
        calls = sources.mentions(text) or asked.asks(text)
        if not sets and not calls and "crawl" not in text:
            return None
        statements = parse(query, self._session.names(self._duck) if sets else ())
        if calls:
            return [piece for statement in statements for piece in _pieces(statement)]
        return None if len(statements) == 1 and isinstance(statements[0], Plain) else statements

    def _rewritten(self, statement: Plain, caller: Caller, parameters: Any = None) -> tuple[str, Any]:
        """The statement, with what its table functions give in their place, and the parameters that are left to it."""
        text = statement.sql
        place = self._place(caller)
        if asked.asks(text.lower()):
            text = asked.with_settings(text, self._session.names(self._duck) - {BAR}, partial(setting_here, place))
        if not sources.mentions(text):
            return text, parameters
        rewritten = sources.rewrite(place, text, parameters)
        return rewritten.sql, rewritten.parameters

    def _run_all(self, statements: Iterable[Statement], caller: Caller) -> None:
        for statement in statements:
            if isinstance(statement, Plain):
                _told(caller, self._duck.execute, *self._rewritten(statement, caller))
                self._duck.complete()  # or the rows that nobody will fetch keep the connection busy
            else:
                self._run(statement, None, caller)

    def _answer(self, statement: Statement, parameters: Any, caller: Caller) -> None:
        if isinstance(statement, Plain):
            _told(caller, self._duck.execute, *self._rewritten(statement, caller, parameters))
        else:
            text, values = self._run(statement, parameters, caller).query()
            self._duck.execute(text, values or None)

    def _run(self, statement: Statement, parameters: Any, caller: Caller) -> Table:
        place = self._place(caller)
        values = options.values_of(parameters)
        match statement:
            case Crawl():
                return run_crawl(place, statement, values)
            case Control():
                return run_control(place, statement, values)
            case SetSetting() | ResetSetting():
                self._session.change(self._duck, statement)
                return DONE
            case Merge():
                return run_merge(place, statement, values)
            case Plain():
                raise AssertionError(statement)

    def _place(self, caller: Caller) -> Place:
        return Place(self._duck, self._session, caller, self._watch, self._tables)

    def _watch(self, running: RunningJob | Working | None) -> None:
        """A job, or other work, begins or is over. What was interrupted ends as any statement does that was."""
        stopped, self._running = self._running, running
        if running is None and self._interrupted and stopped is not None:
            how = homes.stopped(self._duck, stopped) if isinstance(stopped, RunningJob) else "Interrupted!"
            raise duckdb.InterruptException(f"INTERRUPT Error: {how}")
        self._interrupted = False

    # -- what gives a connection gives one of ours

    def cursor(self) -> Connection:
        """Another connection to the same database, which understands CRAWL too."""
        return Connection(self._duck.cursor(), self._session)

    duplicate = cursor

    def interrupt(self) -> None:
        """Stop what this connection is doing, from another thread: a crawl stops as at the first Ctrl-C."""
        running = self._running
        if running is not None:
            self._interrupted = True
            running.stop()
        else:
            self._duck.interrupt()

    def __enter__(self) -> Self:
        self._duck.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._duck.__exit__(kind, error, trace)

    # -- everything else

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._duck, _RENAMED.get(name, name))
        if name in _GIVE_SELF:
            return _Chained(self, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._duck), *super().__dir__(), *_RENAMED})

    def __repr__(self) -> str:
        return f"<amble.Connection over {self._duck!r}>"


def _told(caller: Caller, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What DuckDB does with it; to an unknown setting it says which of ours may have been meant."""
    try:
        return caller.call(function, *arguments, **named)
    except duckdb.CatalogException as refused:
        raise listed.with_nearest(refused) from None


def _pieces(statement: Statement) -> list[Statement]:
    if not isinstance(statement, Plain):
        return [statement]
    return [Plain(piece) for piece in sources.pieces(statement.sql)]


class _Chained:
    """A method that gives back its connection, which is then ours."""

    __slots__ = ("_connection", "_method")

    def __init__(self, connection: Connection, method: Any) -> None:
        self._connection = connection
        self._method = method

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._connection._as_ours(Caller.above(1).call(self._method, *arguments, **named))


_GIVE_SELF = frozenset({
    "append", "begin", "checkpoint", "commit", "create_function", "register", "remove_function", "rollback",
    "unregister",
})  # fmt: skip
_RENAMED = {"arrow": "to_arrow_table", "fetch_arrow_table": "to_arrow_table"}  # as connections of DuckDB 1 called it
_NAMES = (*sorted(options.names()), BAR)
