"""A connection of its own for every thread that reads, closed when the thread ends.

A server's threads come and go with the load. Connections that stayed until the library is closed would use up the
process's files.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from sqlalchemy import PoolProxiedConnection


class _Held:
    """Lives as long as the thread whose local value it is."""

    def __init__(self, connection: PoolProxiedConnection) -> None:
        self.connection = connection


class OwnConnections:
    """Safe to use from several threads."""

    def __init__(self, connect: Callable[[], PoolProxiedConnection]) -> None:
        self._connect = connect
        self._per_thread = threading.local()
        self._lock = threading.Lock()
        self._closers: list[weakref.finalize[..., _Held]] = []

    def get(self) -> PoolProxiedConnection:
        held: _Held | None = getattr(self._per_thread, "held", None)
        if held is None:
            held = self._per_thread.held = _Held(self._connect())
            closer = weakref.finalize(held, held.connection.close)
            closer.atexit = False
            with self._lock:
                self._closers = [one for one in self._closers if one.alive] + [closer]
        return held.connection

    def close(self) -> None:
        """Also those of threads that go on; whoever asks again gets a new one."""
        self._per_thread = threading.local()
        with self._lock:
            for closer in self._closers:
                closer()
            self._closers = []
