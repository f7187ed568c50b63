"""Whether the WHERE and EXTRACT of a job in a file may be run: the file may be anybody's, and they are SQL.

Read as a tree by DuckDB's own parser, in the very form in which they are run. Taken are the columns of a page,
constants, operators, and functions that are built in and give one value for each row, or ours. A subquery, a macro of
the file, a function that looks outside the page or leaves a trace: refused, and shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection

from amble.errors import StoreError, UntrustedClause, first_line
from amble.store.clauses import PARTS, Clauses, bind
from amble.store.tables import COLUMNS

OURS = frozenset({"surt", "domain_of", "css_select", "htmlpath", "page_info"})
_KINDS = frozenset({"BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT",
                    "FUNCTION", "LAMBDA", "OPERATOR", "TYPE"})  # fmt: skip
# Scalar, and yet they tell of this machine or this database, or change something.
_TELLING = frozenset({"current_setting", "getenv", "getvariable", "currval", "nextval", "write_log", "current_query",
                      "current_user", "current_role", "session_user", "user", "error", "sleep_ms"})  # fmt: skip
_PLAIN_MACROS = frozenset({"nullif", "split_part"})  # DuckDB's own, and expressions themselves
_STEADY = ("CONSISTENT", "CONSISTENT_WITHIN_QUERY")


class Function(NamedTuple):
    """One that can be called by a name."""

    name: str
    kind: str
    internal: bool
    database: str
    stability: str | None

    @property
    def is_macro(self) -> bool:
        return self.kind in ("macro", "table_macro")

    @property
    def is_harmless(self) -> bool:
        if self.is_macro:
            return self.internal and self.name in _PLAIN_MACROS
        ours = self.database == "system" and self.name in OURS
        return self.kind == "scalar" and self.stability in _STEADY and (self.internal or ours)


def refuse_foreign(connection: DuckDBPyConnection, job_id: int, clauses: Clauses) -> None:
    """Raise UntrustedClause for the first clause that is more than an expression over a page."""
    written = [("EXTRACT", column.expr_sql, frozenset(COLUMNS)) for column in clauses.extract]
    if clauses.where_sql is not None:
        written.append(("WHERE", clauses.where_sql, frozenset(PARTS)))
    functions = functions_of(connection)
    hidden = disguised(functions)
    for clause, sql, columns in written:
        why = hidden or _objection(connection, functions, sql, columns)
        if why is not None:
            raise UntrustedClause(
                f"the {clause} of job {job_id} in this file is not run: {why}\n  {sql}",
                hint=f"if you know who wrote it: amble resume FILE {job_id} --trust-clauses",
            )


def refuse_gone(connection: DuckDBPyConnection, job_id: int, clauses: Clauses) -> None:
    """Raise StoreError for SQL that names what is no longer there: no page could be stored."""
    try:
        bind(connection, clauses)
    except (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException) as refused:
        raise StoreError(
            f"the SQL of job {job_id} cannot be run any more: {first_line(refused)}",
            hint="make what is missing anew and resume the job; nothing of it is lost",
        ) from None


def _objection(
    connection: DuckDBPyConnection, functions: Sequence[Function], sql: str, columns: frozenset[str]
) -> str | None:
    """Why an expression is not simply one over the columns of a page."""
    if not sql.strip() or "\0" in sql:
        return "it is empty" if not sql.strip() else "it holds a NUL"
    try:
        row = connection.execute("SELECT system.main.json_serialize_sql($1)", [f"SELECT TRY(({sql}\n))"]).fetchall()
        tree = json.loads(row[0][0])
    except (duckdb.Error, UnicodeError, ValueError, RecursionError) as refused:
        return f"it cannot be read ({type(refused).__name__})"
    if tree.get("error"):
        return f"it cannot be read: {tree.get('error_message')}"
    expression = _only_expression(tree)
    if expression is None:
        return "it is more than one expression"
    try:
        nodes = list(_nodes(expression, frozenset()))
    except RecursionError:
        return "it is nested too deep"
    for node, parameters in nodes:
        why = _objection_to(node, columns | parameters)
        if why is not None:
            return why
    return _objection_to_functions(functions, {_name(node) for node, _ in nodes if node["class"] == "FUNCTION"})


def _only_expression(tree: dict[str, Any]) -> dict[str, Any] | None:
    """What stands inside of TRY, if the statement is a SELECT of that alone."""
    if len(tree["statements"]) != 1:
        return None
    node = tree["statements"][0]["node"]
    if node.get("type") != "SELECT_NODE" or (node.get("from_table") or {}).get("type") != "EMPTY":
        return None
    held = ("modifiers", "where_clause", "group_expressions", "group_sets", "having", "sample", "qualify")
    if any(node.get(part) for part in held) or node.get("cte_map", {}).get("map") or len(node["select_list"]) != 1:
        return None
    tried: dict[str, Any] = node["select_list"][0]
    children: list[dict[str, Any]] = tried.get("children") or []
    return children[0] if tried.get("type") == "OPERATOR_TRY" and len(children) == 1 else None


def _nodes(value: Any, parameters: frozenset[str]) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Every node of a tree, with the names of the lambda parameters that it may use."""
    if isinstance(value, list):
        for each in value:
            yield from _nodes(each, parameters)
    elif isinstance(value, dict):
        if value.get("class") == "LAMBDA":
            parameters |= {name for node, _ in _nodes(value["lhs"], frozenset()) if (name := _column(node))}
        if "class" in value:
            yield value, parameters
        for each in value.values():
            yield from _nodes(each, parameters)


def _objection_to(node: dict[str, Any], columns: frozenset[str]) -> str | None:
    kind = node["class"]
    if kind not in _KINDS:
        return f"a {kind.lower().replace('_', ' ')} is more than it may hold"
    if kind == "COLUMN_REF":
        path = [name.lower() for name in node["column_names"]]
        first = path[1] if path[0] == "page" and len(path) > 1 else path[0]
        return None if first in columns else f"{node['column_names'][0]} is no column of a page"
    if kind == "FUNCTION":
        if len(node["qualified_name"]["path"]) > 1 or node.get("schema") or node.get("catalog"):
            return f"{'.'.join(node['qualified_name']['path'])} names a function of a schema"
        if node.get("filter") or node.get("distinct") or node.get("order_bys", {}).get("orders"):
            return f"{_name(node)} is called as an aggregate"
    return None


def disguised(functions: Iterable[Function]) -> str | None:
    """A macro of the file with the name of a function that is built in is called in its place, by operators too."""
    functions = list(functions)
    built_in = {each.name for each in functions if each.internal} | OURS
    taken = sorted(each.name for each in functions if each.is_macro and not each.internal and each.name in built_in)
    return f"the file has a macro {taken[0]} in place of the function" if taken else None


def functions_of(connection: DuckDBPyConnection) -> list[Function]:
    """All that may be called. Asked without any function that a macro of the file could stand in for."""
    rows = connection.execute(
        "SELECT function_name, function_type, internal, database_name, stability FROM system.main.duckdb_functions()"
    ).fetchall()
    return [Function(name.lower(), *rest) for name, *rest in rows]


def _objection_to_functions(functions: Sequence[Function], names: set[str]) -> str | None:
    """All that go by these names must be harmless, whichever of them a call means."""
    telling = sorted(names & _TELLING)
    if telling:
        return f"{telling[0]} looks beyond the page"
    known = {each.name for each in functions}
    harmful = {each.name for each in functions if not each.is_harmless}
    wrong = sorted(name for name in names if name not in known or name in harmful)
    return f"{wrong[0]} is no function that is built in and gives one value for each row" if wrong else None


def _name(node: dict[str, Any]) -> str:
    return str(node["function_name"]).lower()


def _column(node: dict[str, Any]) -> str | None:
    return str(node["column_names"][0]).lower() if node["class"] == "COLUMN_REF" else None
