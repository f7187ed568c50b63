"""A connection of ours does what DuckDB's does: the same calls on both, the same answers and the same errors."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from amble.sql.connection import Connection, connect

SCRIPT = "CREATE TABLE t (a INT, b VARCHAR); INSERT INTO t VALUES (1, 'x'), (2, 'y;'), (3, NULL)"


def local_variable(con: Any) -> Any:
    numbers = {"n": np.arange(4)}
    assert numbers
    return con.execute("SELECT sum(n) FROM numbers").fetchall(), con.sql("FROM numbers").fetchall()


def relation_of_a_variable_that_is_gone(con: Any) -> Any:
    def make() -> Any:
        numbers = {"n": np.arange(4)}
        assert numbers
        return con.sql("SELECT * FROM numbers WHERE n > 1")

    return make().fetchall()


def prepared_statement_object(con: Any) -> Any:
    first, second = con.extract_statements("SELECT 1; SELECT $a")
    return con.execute(first).fetchall(), con.execute(second, {"a": 7}).fetchall(), second.named_parameters


def transaction(con: Any) -> Any:
    con.begin()
    con.execute("INSERT INTO t VALUES (9, 'z')")
    con.rollback()
    con.begin().execute("INSERT INTO t VALUES (8, 'z')")
    con.commit()
    return con.execute("SELECT a FROM t ORDER BY a").fetchall()


def cursor_of_its_own(con: Any) -> Any:
    with closing(con.cursor()) as cursor:
        con.execute("SELECT 1")
        cursor.execute("SELECT 2")
        return con.fetchall(), cursor.fetchall(), type(cursor) is type(con)


def function_of_python(con: Any) -> Any:
    con.create_function("plus_one", lambda x: x + 1, ["BIGINT"], "BIGINT")
    found = con.execute("SELECT plus_one(41)").fetchall()
    con.remove_function("plus_one")
    return found


def closed(con: Any) -> Any:
    with con.cursor() as cursor:
        cursor.execute("SELECT 1")
    return cursor.execute("SELECT 1")


def rows_one_by_one(con: Any) -> Any:
    con.execute("SELECT a FROM t ORDER BY a")
    return con.fetchone(), con.fetchmany(1), con.fetchall(), con.fetchone()


def settings_of_duckdb(con: Any) -> Any:
    con.execute("SET threads = 1; SET http_proxy = 'http://p:1'; SET memory_limit = '1GB'; RESET http_proxy")
    return con.execute("SELECT current_setting('threads'), current_setting('http_proxy')").fetchall()


def registered(con: Any) -> Any:
    con.register("held", con.sql("SELECT 42 AS n"))
    found = con.execute("FROM held").fetchall()
    con.unregister("held")
    return found


def appended(con: Any) -> Any:
    with con.appender("t") as appender:
        appender.append_row(5, "five")
    return con.execute("SELECT count(*) FROM t").fetchall()


def run(sql: str, *arguments: Any) -> Callable[[Any], Any]:
    return lambda con: con.execute(sql, *arguments).fetchall()


BEHAVIOURS: dict[str, Callable[[Any], Any]] = {
    "select": run("SELECT * FROM t ORDER BY a"),
    "several statements": run("SELECT 1; INSERT INTO t VALUES (4, 'w'); SELECT count(*) FROM t;"),
    "words of ours as names": run("SELECT 1 AS crawl, 2 AS crawling, 'CRAWL (SELECT 1) INTO t' AS resume"),
    "a table named crawl": run("CREATE TABLE crawl (sites INT); INSERT INTO crawl VALUES (1); SELECT sites FROM crawl"),
    "an update that sets": run("UPDATE t SET b = 'CRAWL' WHERE a = 1; SELECT b FROM t WHERE a = 1"),
    "positional parameters": run("SELECT ?, ?", [1, "a"]),
    "numbered parameters": run("SELECT $2, $1", [1, "a"]),
    "named parameters": run("SELECT $b, $a", {"a": 1, "b": 2}),
    "parameters by keyword": lambda con: con.execute(query="SELECT ?", parameters=[3]).fetchall(),
    "parameters of an earlier statement": run("SELECT ?; SELECT 1", [1]),
    "too many parameters": run("SELECT 1", [1]),
    "a missing parameter": run("SELECT $1"),
    "non-ASCII text": run("SELECT 'é😀' AS ü"),
    "half a character": run("SELECT '\ud800'"),
    "a character that ends strings in C": run("SELECT 'a\0b'"),
    "no statement": run(""),
    "a comment alone": run("-- nothing"),
    "an error of the parser": run("SELEKT 1"),
    "an error of the binder": run("SELECT nothing FROM t"),
    "an unknown setting": run("SET nothing_of_the_kind = 1"),
    "an error in the second statement": run("INSERT INTO t VALUES (7, 'q'); SELECT * FROM absent"),
    "not text": run(42),  # type: ignore[arg-type]
    "executemany": lambda con: (
        con.executemany("INSERT INTO t VALUES (?, ?)", [[5, "e"], [6, "f"]])
        .execute("SELECT count(*) FROM t")
        .fetchall()
    ),
    "sql": lambda con: con.sql("SELECT * FROM t ORDER BY a").fetchall(),
    "sql with parameters": lambda con: con.sql("SELECT $1 + 1", params=[1]).fetchall(),
    "sql with an alias": lambda con: con.sql("SELECT 1 AS n", alias="q").alias,
    "a relation of a relation": lambda con: con.sql("SELECT a FROM t").filter("a > 1").aggregate("sum(a)").fetchall(),
    "query": lambda con: con.query("SELECT 5").fetchall(),
    "from_query": lambda con: con.from_query("SELECT 6").fetchall(),
    "table": lambda con: con.table("t").order("a").fetchall(),
    "values": lambda con: con.values([1, 2]).fetchall(),
    "columns of a description": lambda con: [column[0] for column in con.execute("FROM t").description],
    "description before anything": lambda con: con.cursor().description,
    "rowcount": lambda con: con.execute("INSERT INTO t VALUES (1, 'a')").rowcount,
    "numpy": lambda con: con.execute("SELECT a FROM t ORDER BY a").fetchnumpy()["a"].tolist(),
    "names of tables": lambda con: con.get_table_names("SELECT * FROM t, s.u"),
    "types": lambda con: str(con.struct_type({"a": con.sqltype("INTEGER")})),
    "an unknown attribute": lambda con: con.nothing_of_the_kind,
    "pickling": lambda con: pickle.dumps(con),
    "chains": lambda con: con.begin().commit().checkpoint().execute("SELECT 1").fetchall(),
    "a nested transaction": lambda con: con.begin().begin(),
    "local variables": local_variable,
    "a variable that is gone": relation_of_a_variable_that_is_gone,
    "statement objects": prepared_statement_object,
    "transactions": transaction,
    "cursors": cursor_of_its_own,
    "functions": function_of_python,
    "a closed connection": closed,
    "rows one by one": rows_one_by_one,
    "settings": settings_of_duckdb,
    "registering": registered,
    "appending": appended,
    "duplicate": lambda con: con.duplicate().execute("SELECT count(*) FROM t").fetchall(),
    "interrupting nothing": lambda con: con.interrupt(),
}


@pytest.fixture
def both() -> Iterator[tuple[Any, Any]]:
    with ExitStack() as stack:
        pair = duckdb.connect(), connect()
        for con in pair:
            stack.callback(con.close)
            con.execute(SCRIPT)
        yield pair


def observed(behaviour: Callable[[Any], Any], con: Any) -> Any:
    try:
        return behaviour(con)
    except Exception as error:
        kind = type(error)
        return kind, str(error)


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_both_connections_do_the_same(name: str, both: tuple[Any, Any]) -> None:
    theirs, ours = (observed(BEHAVIOURS[name], con) for con in both)
    if name in ("an unknown attribute", "pickling"):  # the words are Python's
        theirs, ours = theirs[0], ours[0]
    assert ours == theirs


def test_every_public_attribute_is_there(both: tuple[Any, Any]) -> None:
    theirs, ours = both
    public = {name for name in dir(theirs) if not name.startswith("_")}
    assert public <= set(dir(ours))
    for name in public:
        assert hasattr(ours, name), name


def test_methods_that_give_their_connection_give_ours(both: tuple[Any, Any]) -> None:
    theirs, ours = both
    calls: dict[str, Callable[[Any], Any]] = {
        "begin": lambda con: con.begin(),
        "commit": lambda con: con.commit(),
        "checkpoint": lambda con: con.checkpoint(),
        "execute": lambda con: con.execute("SELECT 1"),
        "executemany": lambda con: con.executemany("SELECT ?", [[1]]),
        "register": lambda con: con.register("v", con.sql("SELECT 1")),
        "unregister": lambda con: con.unregister("v"),
        "create_function": lambda con: con.create_function("f", abs, ["BIGINT"], "BIGINT"),
        "remove_function": lambda con: con.remove_function("f"),
        "__enter__": lambda con: con.__enter__(),
    }
    for name, call in calls.items():
        assert call(theirs) is theirs, name
        assert call(ours) is ours, name


def test_a_file_is_closed_with_the_with_block_and_can_be_opened_by_duckdb(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with connect(file) as con:
        con.execute(SCRIPT)
    with duckdb.connect(str(file), read_only=True) as plain:
        assert plain.execute("SELECT count(*) FROM t").fetchall() == [(3,)]


def test_arrow_tables_come_by_the_names_that_connections_used_to_have() -> None:
    with connect() as con:
        assert {"arrow", "fetch_arrow_table"} <= set(dir(con))
        for fetch in ("arrow", "fetch_arrow_table"):
            con.execute("SELECT 42 AS n")
            with pytest.warns(UserWarning, match="extra copy"):  # DuckDB's word on it
                found = getattr(con, fetch)()
            assert found.to_pydict() == {"n": [42]}


def test_options_of_duckdb_are_handed_on(tmp_path: Path) -> None:
    with connect(config={"threads": 1}) as con:
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(1,)]
    with connect(tmp_path / "x.duckdb"):
        pass
    with connect(tmp_path / "x.duckdb", read_only=True) as con, pytest.raises(duckdb.InvalidInputException):
        con.execute(SCRIPT)


def test_errors_of_opening_are_duckdbs(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"not a database, whatever its name says" * 100)
    with pytest.raises(duckdb.IOException):
        connect(tmp_path / "x")


def test_signatures_are_those_of_duckdb() -> None:
    assert list(inspect.signature(Connection.execute).parameters) == ["self", "query", "parameters"]
    assert list(inspect.signature(Connection.executemany).parameters) == ["self", "query", "parameters"]
