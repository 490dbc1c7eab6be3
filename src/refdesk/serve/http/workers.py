"""Several processes that serve one address, each with a listening socket of its own.

On one socket for all of them, whoever wakes up first takes most of what comes at once, and its streams wait for one
another. Linux deals connections out among sockets of one address.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence

from uvicorn import Config
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

logger = logging.getLogger("refdesk.serve")


class Workers(Multiprocess):
    """As uvicorn looks after its processes; each step is taken for every socket with the process that listens on it."""

    def __init__(self, config: Config, sockets: Sequence[socket.socket]) -> None:
        super().__init__(config, [])
        self.processes_num = 1  # on each socket
        self._listening: list[tuple[socket.socket, list[Process]]] = [(one, []) for one in sockets]

    def _each(self, step: Callable[[], None]) -> None:
        for one, processes in self._listening:
            self.sockets, self.processes = [one], processes
            step()

    def init_processes(self) -> None:
        self._each(super().init_processes)

    def keep_subprocess_alive(self) -> None:
        self._each(super().keep_subprocess_alive)

    def restart_all(self) -> None:
        self._each(super().restart_all)

    def terminate_all(self) -> None:
        self._each(super().terminate_all)

    def join_all(self) -> None:
        self._each(super().join_all)

    def handle_ttin(self) -> None:
        logger.warning("the number of processes stays as --workers says")

    handle_ttou = handle_ttin
