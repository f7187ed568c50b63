"""How often Python looks for cyclic garbage while jobs run: seldom, since they make next to none.

Rows, visits and links are tuples that live until they are stored: a look at every 700 new objects goes through them
again and again and finds nothing. That took about a twelfth of the processor time of a crawl.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_MAX = 20_000  # new objects, some hundred pages, before a look

_lock = threading.Lock()
_jobs = 0
_before = gc.get_threshold()


@contextmanager
def seldom() -> Iterator[None]:
    """For as long as any job runs; then as whoever runs this process has it. Who looks even less often, keeps that."""
    global _jobs, _before
    with _lock:
        if not _jobs:
            _before = gc.get_threshold()
            if 0 < _before[0] < YOUNG_MAX:
                gc.set_threshold(YOUNG_MAX, *_before[1:])
        _jobs += 1
    try:
        yield
    finally:
        with _lock:
            _jobs -= 1
            if not _jobs:
                gc.set_threshold(*_before)
