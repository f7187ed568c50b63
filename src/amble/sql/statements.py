"""What a script may hold: the statements of ours, as frozen values, and everything else as the text it was.

```
[EXPLAIN] CRAWL [SITES] ( <select> ) INTO <table>
    [EXTRACT ( <expr> [AS name], ... )] [WHERE <predicate>] [WITH ( option [=] value, ... )] [LIMIT n]
RESUME CRAWL <job> [WITH ( option [=] value, ... )]          STOP CRAWL <job>          PAUSE CRAWL <job>
CRAWLING MERGE INTO <table> USING ( <crawl query> ) [AS] s ON ( ... ) WHEN ... THEN ... [LIMIT n]
SET <setting of ours> = <value>          RESET <setting of ours>
```
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Parameter(NamedTuple):
    """A value given with the statement: `$name`, `$1`, or `?`, which counts from one as DuckDB counts."""

    name: str


Scalar = bool | int | float | str | None
Value = Scalar | Parameter | tuple["Value", ...]
TablePath = tuple[str, ...]  # identifiers without their quotes: table, schema.table or database.schema.table


class Option(NamedTuple):
    """One of `WITH (...)`. `at` is where its name begins in the script, in characters."""

    name: str
    value: Value
    at: int


class Extract(NamedTuple):
    """One column of `EXTRACT (...)`. Without a name DuckDB names it."""

    expr_sql: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Plain:
    """Ordinary SQL, one statement or several, untouched."""

    sql: str


@dataclass(frozen=True, slots=True)
class Crawl:
    """`CRAWL`: crawl the URLs of a query into a table. `target` is empty inside `CRAWLING MERGE`."""

    select: str  # its `?` are numbered: `$1`
    target: TablePath = ()
    extract: tuple[Extract, ...] = ()
    where_sql: str | None = None
    options: tuple[Option, ...] = ()
    limit: int | Parameter | None = None
    sites: bool = False  # each seed means its site, whatever its path
    explain: bool = False
    typed: bool = True  # whether literals of the SELECT are what somebody wrote as seeds of a CRAWL


@dataclass(frozen=True, slots=True)
class Merge:
    """`CRAWLING MERGE`: DuckDB's MERGE INTO, with what a crawl found as its source.

    The source is a `CRAWL` without its INTO, or a query that holds `crawl(...)`.
    """

    target: TablePath
    source: Crawl | str
    on_sql: str
    clauses_sql: str  # from the first WHEN to the end
    alias: str | None = None
    target_alias: str | None = None
    limit: int | Parameter | None = None


class Verb(StrEnum):
    RESUME = "RESUME"
    PAUSE = "PAUSE"
    STOP = "STOP"


@dataclass(frozen=True, slots=True)
class Control:
    """`RESUME`, `PAUSE` or `STOP CRAWL job`."""

    verb: Verb
    job: int | Parameter
    options: tuple[Option, ...] = ()  # of RESUME: what is never taken from the file


@dataclass(frozen=True, slots=True)
class SetSetting:
    """`SET name = value` of a setting of a crawl that DuckDB does not have."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class ResetSetting:
    """`RESET name` of such a setting."""

    name: str


Statement = Plain | Crawl | Merge | Control | SetSetting | ResetSetting
