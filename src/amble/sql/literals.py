"""Which seeds a person has written into a query: the strings of `SELECT '...'` and `VALUES ('...')`, and nothing else.

Read from the tree that DuckDB's own parser makes. A query that reads a table, calls a function or takes a parameter
has no such seeds: what it gives may be anybody's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from duckdb import DuckDBPyConnection

_LISTS = ("list_value", "unnest")  # SELECT unnest(['a', 'b'])
_PLAIN = ("where_clause", "having", "qualify", "sample")


def literals_of(connection: DuckDBPyConnection, select: str) -> list[str]:
    """The strings in the first column of a query that is made of literals alone; of any other, none."""
    with connection.cursor() as cursor:
        tree = json.loads(cursor.execute("SELECT system.main.json_serialize_sql($1)", [select]).fetchall()[0][0])
    if tree.get("error") or len(tree["statements"]) != 1:
        return []
    try:
        return list(_of_query(tree["statements"][0]["node"]))
    except _NotTyped:
        return []


class _NotTyped(Exception):
    """Something in the query is no literal."""


def _of_query(node: dict[str, Any]) -> Iterator[str]:
    if node.get("cte_map", {}).get("map"):
        raise _NotTyped
    if node["type"] == "SET_OPERATION_NODE" and node.get("setop_type") == "UNION":
        for child in node["children"]:
            yield from _of_query(child)
        return
    if node["type"] != "SELECT_NODE" or any(node.get(clause) for clause in _PLAIN) or node.get("group_expressions"):
        raise _NotTyped
    table = node.get("from_table") or {}
    if table.get("type") == "EMPTY":
        yield from _of_row(node["select_list"])
    elif table.get("type") == "EXPRESSION_LIST" and [each["type"] for each in node["select_list"]] == ["STAR"]:
        for row in table["values"]:
            yield from _of_row(row)
    else:
        raise _NotTyped


def _of_row(row: list[dict[str, Any]]) -> Iterator[str]:
    """The first value of a row, which holds the seed."""
    yield from _of_value(row[0])


def _of_value(value: dict[str, Any]) -> Iterator[str]:
    if value["type"] == "VALUE_CONSTANT" and value["literal"]["kind"] == "STRING":
        yield value["literal"]["text"]
    elif value["type"] == "VALUE_CONSTANT" and value["literal"]["kind"] == "NULL_LITERAL":
        return
    elif value["type"] == "FUNCTION" and value["qualified_name"]["path"] in [[name] for name in _LISTS]:
        for argument in value["arguments"]:
            yield from _of_value(argument["expression"])
    else:
        raise _NotTyped
