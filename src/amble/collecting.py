"""How often Python looks for cyclic garbage while jobs run or modules are loaded: seldom, since these make hardly any.

What was there before the first job counts as old, as if Python had just been through it: else the first look goes
through every module that is loaded, for as long as a hundred pages take. Only once: where jobs are many and short,
nobody would ever look.

Rows, visits and links are tuples that live until they are stored: a look at every 700 new objects goes through them
again and again and finds nothing. That took about a twelfth of the processor time of a crawl, and a twentieth of that
of loading all modules.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_MAX = 50_000  # new objects, many hundred pages, before a look

_lock = threading.Lock()
_under_way = 0
_is_first = True
_before = gc.get_threshold()


@contextmanager
def seldom() -> Iterator[None]:
    """For as long as anything within it is under way; then as whoever runs this process has it.

    Who looks even less often, keeps that.
    """
    global _under_way, _before, _is_first
    with _lock:
        if not _under_way:
            if _is_first:
                _count_as_old()
            _is_first = False
            _before = gc.get_threshold()
            if 0 < _before[0] < YOUNG_MAX:
                gc.set_threshold(YOUNG_MAX, *_before[1:])
        _under_way += 1
    try:
        yield
    finally:
        with _lock:
            _under_way -= 1
            if not _under_way:
                gc.set_threshold(*_before)


def _count_as_old() -> None:
    if not gc.get_freeze_count():  # else somebody has set objects apart, and they are to stay so
        gc.freeze()
        gc.unfreeze()
