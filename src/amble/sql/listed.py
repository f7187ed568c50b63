"""`amble.settings` and `duckdb_settings()`: every setting that `SET` takes, and what the next crawl would have."""

from __future__ import annotations

from typing import Any

import duckdb

from amble.core.checked import nearest
from amble.settings import Settings, fields
from amble.settings_text import setting_text
from amble.sql import options
from amble.sql.crawling import Place, resolved_here
from amble.sql.result import Table

COLUMNS = (
    ("name", "VARCHAR"), ("value", "VARCHAR"), ("source", "VARCHAR"), ("default_value", "VARCHAR"),
    ("description", "VARCHAR"), ("input_type", "VARCHAR"),
)  # fmt: skip
_UNKNOWN = "unrecognized configuration parameter"
_KINDS = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", tuple: "VARCHAR[]"}


def settings_now(place: Place) -> Table:
    """A row for each setting of a crawl. `source`: SET, DuckDB's own setting, a variable, a file, or the default."""
    found, usual = resolved_here(place), Settings()
    rows = []
    for _, name, info in fields():
        value, default = found.settings.value(name), usual.value(name)
        kind = _KINDS.get(type(value if value is not None else default), "VARCHAR")
        rows.append((name, _text(value), found.source(name), _text(default), info.description, kind))
    return Table(COLUMNS, rows)


def duckdb_settings_sql(ours: str) -> str:
    """`duckdb_settings()`, with those of ours that DuckDB does not have itself."""
    return (
        "(FROM duckdb_settings() UNION ALL BY NAME "
        f"SELECT name, value, description, input_type, 'LOCAL' AS scope, []::VARCHAR[] AS aliases FROM {ours} "
        "WHERE name NOT IN (SELECT name FROM duckdb_settings()))"
    )


def with_nearest(refused: duckdb.CatalogException) -> duckdb.CatalogException:
    """What DuckDB says to an unknown setting, and which of ours may have been meant."""
    text = str(refused)
    unknown = text.partition(f'{_UNKNOWN} "')[2].partition('"')[0]
    close = nearest(unknown, sorted(options.names()), cutoff=0.75) if unknown else None
    return refused if close is None else duckdb.CatalogException(f"{text}\nhint: did you mean {close!r}, of CRAWL?")


def _text(value: Any) -> str | None:
    """As SET would take it."""
    return None if value is None else "" if value == () else setting_text(value)
