"""How long a call takes, told so that it matters neither what machine this is nor what else it computes."""

from __future__ import annotations

import gc
import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from refdesk.store.database import PreparedReader

PATIENCE_S = 200.0  # nobody waits so long for what works, however busy the machine; less than pytest waits for a test


def cpu(call: Callable[[], Any], times: int = 1) -> float:
    """Seconds of the processor in the best of several runs of this thread; only to be compared with one another.

    Without collecting garbage: what all tests before have left would be looked through again and again.
    """
    found = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            began = time.thread_time()
            call()
            found.append(time.thread_time() - began)
    finally:
        gc.enable()
    return min(found)


def steepness(work: Callable[[int], Any], small: int, times: int = 16) -> float:
    """The power of the size with which the time of a piece of work grows: 1 is linear, 2 quadratic.

    Told over a long way, where the two are 16 and 256 times: a processor that is shared with others, or a cache that
    they have emptied, makes a call two or three times as long, and not sixteen.
    """
    least = cpu(lambda: work(small), 5)
    return math.log(cpu(lambda: work(small * times)) / max(least, 1e-6), times)


@contextmanager
def statements(reader: PreparedReader) -> Iterator[list[str]]:
    """The statements that this thread's connection runs until the block ends."""
    connection: Any = reader._connections.get()
    found: list[str] = []
    connection.set_trace_callback(found.append)
    try:
        yield found
    finally:
        connection.set_trace_callback(None)


@contextmanager
def while_written(database: Path) -> Iterator[None]:
    """Another connection holds the database's lock for writing until the block ends: who waits for it waits in vain."""
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.rollback()
