"""What `WITH (...)`, `SET` and DuckDB's own settings say about a crawl, and which of them wins.

WITH > SET > the environment and the configuration files; names are those of the settings, values are judged by them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from duckdb import DuckDBPyConnection

from amble.core.checked import nearest_hint
from amble.errors import SettingsError, StatementError
from amble.settings import SYNONYMS, Settings, by_own_name, fields
from amble.settings_sources import Resolved, resolve
from amble.settings_text import setting_text
from amble.sql.statements import Crawl, Option, Parameter, Value

THREADS_MAX = 32
Values = Mapping[str, Any]  # of the parameters of a statement, by name

# Settings of DuckDB that mean the same to a crawl, with the value that says nothing.
_DUCKDB: dict[str, Any] = {
    "http_timeout": 30,
    "http_keep_alive": True,
    "http_proxy": "",
    "http_proxy_username": "",
    "http_proxy_password": "",
}
_THREADS = ("threads", "worker_threads")  # DuckDB's names for one setting


def names() -> frozenset[str]:
    """Every name that `WITH` and `SET` know."""
    return frozenset([*(name for _, name, _ in fields()), *SYNONYMS])


def values_of(parameters: Any) -> dict[str, Any]:
    """Parameters as DuckDB's `execute` takes them: a list counts from one, a mapping has names."""
    if parameters is None:
        return {}
    if isinstance(parameters, Mapping):
        return {str(name): value for name, value in parameters.items()}
    if isinstance(parameters, str) or not isinstance(parameters, Sequence):
        parameters = list(parameters)
    return {str(n): value for n, value in enumerate(parameters, 1)}


def bound(value: Value, values: Values) -> Any:
    """A value with its parameters filled in."""
    if isinstance(value, Parameter):
        if value.name not in values:
            raise StatementError(
                f"there is no value for the parameter ${value.name}", hint="give it to execute(sql, parameters)"
            )
        return values[value.name]
    if isinstance(value, tuple):
        return [bound(item, values) for item in value]
    return value


def whole(value: int | Parameter | None, values: Values, what: str) -> int | None:
    """The number that LIMIT or a job is given."""
    if value is None:
        return None
    found = bound(value, values)
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise StatementError(f"{what} takes a whole number from 1 on, not {found!r}", hint=f"{what} 10")
    return found


def said(options: Sequence[Option], values: Values) -> dict[str, Any]:
    """The options of `WITH`, by their settings' names. Unknown ones and those given twice are refused."""
    known = names()
    found: dict[str, Any] = {}
    for option in options:
        if option.name not in known:
            raise SettingsError(f"unknown option {option.name!r}", hint=nearest_hint(option.name, sorted(known)))
        if option.name in found:
            raise SettingsError(f"the option {option.name} is given twice", hint="keep one of the two")
        found[option.name] = bound(option.value, values)
    return by_own_name(found)


def check_one(name: str, value: Any) -> dict[str, Any]:
    """What `SET name = value` keeps. A value that no crawl could use is refused at once, on its own."""
    own = by_own_name({name: value})
    with_company = {"http_proxy": "http://proxy.invalid:1", "http_proxy_username": "user"}
    company = with_company if next(iter(own)).startswith("http_proxy_") else {}
    Settings.of({**company, **own})
    return own


def from_duckdb(connection: DuckDBPyConnection, threads_at_first: int | None) -> dict[str, Any]:
    """What the settings of DuckDB say, where somebody has changed them."""
    rows = connection.execute(
        "SELECT name, value FROM duckdb_settings() WHERE name IN (SELECT unnest($1::VARCHAR[]))",
        [[*_DUCKDB, "threads"]],
    ).fetchall()
    texts = {name: text for name, text in rows if text is not None}
    found = {name: text for name, text in texts.items() if name in _DUCKDB and text != setting_text(_DUCKDB[name])}
    if found.get("http_proxy", "") == "":  # a login without its proxy says nothing
        found = {name: text for name, text in found.items() if not name.startswith("http_proxy")}
    if "threads" in names() and texts.get("threads") != str(threads_at_first):
        found["threads"] = clamped(int(texts["threads"]))
    return found


def clamped(threads: int) -> int:
    return max(1, min(THREADS_MAX, threads))


def resolved_of(crawl: Crawl, values: Values, limit: int | None, kept: Mapping[str, Any], duck: Values) -> Resolved:
    """The settings of one crawl, and who said so. `kept` is what `SET` gave us, `duck` what DuckDB's own say."""
    by_with = said(crawl.options, values)
    merged = {**duck, **kept, **by_with}
    if "http_proxy" in {**kept, **by_with}:  # another proxy than DuckDB's is not told DuckDB's login
        for name in ("http_proxy_username", "http_proxy_password"):
            if name not in kept and name not in by_with:
                merged.pop(name, None)
    found = resolve(merged, said_by="the statement")
    most = found.settings.visiting.max_crawl_pages  # read by now: it may have been given as text, and by anybody
    if limit is None or (most is not None and most <= limit):
        return found
    return resolve({**merged, "max_crawl_pages": limit}, said_by="the statement")


def threads_at_first(connection: DuckDBPyConnection, config: Mapping[str, Any]) -> int | None:
    """The number of threads that says nothing of a crawl, for nobody chose it; None: `config` did."""
    if any(str(name).casefold() in _THREADS for name in config):
        return None
    row = connection.execute("SELECT current_setting('threads')").fetchall()
    return int(row[0][0]) if row else os.cpu_count() or 1
