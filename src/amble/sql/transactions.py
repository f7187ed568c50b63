"""Whether somebody's transaction is open, and that no crawl takes part in it."""

from __future__ import annotations

from duckdb import DuckDBPyConnection

from amble.errors import StatementError


def in_transaction(connection: DuckDBPyConnection) -> bool:
    """Two queries in one transaction have the same number. Trying BEGIN would tell as well, and spoil it."""
    first, second = (connection.execute("SELECT txid_current()").fetchall() for _ in range(2))
    return bool(first == second)


def refuse_transaction(connection: DuckDBPyConnection, what: str) -> None:
    """A crawl commits in batches, for hours: it is no part of anybody's transaction."""
    if in_transaction(connection):
        raise StatementError(
            f"{what} cannot run inside a transaction: it commits what it fetches in batches",
            hint="COMMIT or ROLLBACK first",
        )
