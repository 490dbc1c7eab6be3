"""How long a call takes, told so that it does not matter what else the machine computes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

LONGEST_S = 5.0  # a lock is waited for much longer


def quickest(call: Callable[[], Any], times: int = 20) -> float:
    """Seconds of the processor in the best of several runs of this thread: what others do meanwhile is not counted.

    Nor is waiting: what must not wait for the disk is called within `while_written`.
    """
    found = []
    for _ in range(times):
        began = time.thread_time()
        call()
        found.append(time.thread_time() - began)
    return min(found)


@contextmanager
def while_written(database: Path) -> Iterator[None]:
    """Another connection holds the database's lock for writing: a call that writes at once is seen to wait for it."""
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        letting_go = threading.Timer(LONGEST_S, other.rollback)  # so that whoever waits fails soon
        letting_go.start()
        began = time.perf_counter()
        try:
            yield
            assert time.perf_counter() - began < LONGEST_S, "it waited for a writer"
        finally:
            letting_go.cancel()
            letting_go.join()
