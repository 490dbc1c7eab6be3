"""Threads come and go; their connections go with them."""

from __future__ import annotations

import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from refdesk import Refdesk


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_the_connections_of_threads_that_ended_are_closed(own_examples: Refdesk) -> None:
    def work() -> None:
        own_examples.search("tide gauge", k=3)
        own_examples.parts.settings_store.current()

    def in_threads(count: int) -> int:
        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(list(Path("/proc/self/fd").iterdir()))

    before = in_threads(4)
    for _ in range(5):
        assert in_threads(4) <= before


def test_after_closing_there_is_a_new_one(tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        first = desk.parts.documents._readers.get()
        assert desk.parts.documents._readers.get() is first
        held = first.dbapi_connection
        desk.parts.documents.close()
        assert isinstance(held, sqlite3.Connection)
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            held.execute("SELECT 1")
        assert desk.parts.documents.state().generation == 0
