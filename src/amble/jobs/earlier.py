"""What the file of a job has learned of a domain, for those that this run learns nothing of: not to be lost with it."""

from __future__ import annotations

from collections.abc import Collection

from amble.core.pacing.learned import Learned
from amble.jobs import rows
from amble.store.duckdb_store import DuckDBStore


class Earlier:
    """Read when it is first asked for: most domains never block, and a file may know a million of them.

    From the file, not from memory: what paces have at hand may be of other jobs, and goes when the strategy changes.
    """

    def __init__(self, store: DuckDBStore) -> None:
        self._store = store
        self._known: dict[str, Learned | None] = {}

    def of(self, domain: str) -> Learned | None:
        if domain not in self._known:
            self.read([domain])
        return self._known[domain]

    def read(self, domains: Collection[str]) -> None:
        """Many at once. Those read already stay as they were when this run began."""
        new = [domain for domain in domains if domain not in self._known]
        if new:
            learned = filter(None, map(rows.learned_of, self._store.load_domains(new)))
            found = {row.domain: row for row in learned if row.adaptive_delay_seconds > 0}  # else it is but a block
            self._known |= {domain: found.get(domain) for domain in new}
