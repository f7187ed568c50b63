"""Where pages and the state of crawls are kept."""

from amble.core.seen import SeenSet
from amble.store.duckdb_store import DuckDBStore
from amble.store.names import TableName
from amble.store.query import QueryResult
from amble.store.seam import (
    FINAL,
    UNFINISHED,
    Batch,
    Counts,
    DomainRow,
    JobChange,
    JobRow,
    JobStatus,
    KnownPage,
    LinkRow,
    PageConfirmed,
    PageRow,
    RequestRow,
    SitemapUrlRow,
    Store,
    StoreState,
    TaskDone,
    TaskRow,
    TaskState,
)
from amble.store.writer import WriterLimits

__all__ = [
    "FINAL",
    "UNFINISHED",
    "Batch",
    "Counts",
    "DomainRow",
    "DuckDBStore",
    "JobChange",
    "JobRow",
    "JobStatus",
    "KnownPage",
    "LinkRow",
    "PageConfirmed",
    "PageRow",
    "QueryResult",
    "RequestRow",
    "SeenSet",
    "SitemapUrlRow",
    "Store",
    "StoreState",
    "TableName",
    "TaskDone",
    "TaskRow",
    "TaskState",
    "WriterLimits",
]
