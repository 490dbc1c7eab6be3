"""The HTTP application: a list of routers behind three layers of middleware.

    Observe (id, log, figures, the last word)  →  Guard (who asks, how much)  →  the routes

`create_app` takes an open library; `app` opens one for `refdesk serve`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from fastapi import FastAPI
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from refdesk import __version__
from refdesk.desk import Refdesk
from refdesk.serve.http import admin, asking, documents, openai, page
from refdesk.serve.http.guard import SILENCE_S, Guard, Limits, Service
from refdesk.serve.http.observe import Figures, Observe, add_handlers, make_spans, set_up_logging
from refdesk.serve.http.openapi import describe
from refdesk.serve.http.shared import Presence, RedisCounts, RedisEvents, SqlCounts
from refdesk.serve.http.sse import Streams, Waits

# Stages that compute take turns at one interpreter lock: more threads finish no sooner and hold up those who stream.
THREADS = 4
ROUTERS = (*asking.ROUTERS, *documents.ROUTERS, *admin.ROUTERS, openai.router, page.router)


def create_app(
    desk: Refdesk,
    *,
    insecure: bool = False,
    is_local: bool = True,
    shared: Path | None = None,
    waits: Waits = Waits(),  # noqa: B008
    silence_s: float = SILENCE_S,
    on_end: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The service over an open library; whoever opened it closes it, such as with `on_end`.

    `is_local`: bound to this machine alone, and then only called by its names. `insecure`: open to everyone without a
    key. `shared`: a folder of all processes that serve the same library, for the limits of a key. `waits` and
    `silence_s`: for how long a reader who has left, and a body that does not come, are waited for.
    """
    presence = None if desk.redis is None else Presence(desk.redis)
    limits, streams = Limits(shared), Streams(shared, waits)
    if presence is not None:  # of many machines
        limits = Limits(RedisCounts(presence, SqlCounts(shared)))
        streams = Streams(RedisEvents(presence), waits)
    service = Service(desk, limits=limits, streams=streams, spans=make_spans())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        put_back = _on_signals(service)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "refdesk-stage"))
        try:
            yield
        finally:
            put_back()
            service.streams.stop()
            await desk.aclose()
            if service.spans is not None:
                await asyncio.to_thread(service.spans.close)
            if presence is not None:
                await asyncio.to_thread(presence.close)
            on_end()

    app = FastAPI(
        title="Refdesk",
        version=__version__,
        description="Answers in which every sentence points at the page and the lines that prove it.",
        docs_url=None,  # FastAPI's page loads its scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        # `asking_query`: what generated clients call their functions.
        generate_unique_id_function=lambda route: "_".join((*map(str, route.tags[:1]), route.name)),
    )
    app.state.service = service
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    add_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    # The last one added is the first to see a request.
    app.add_middleware(
        Guard,
        desk=desk,
        limits=service.limits,
        is_local=is_local and not insecure,
        needs_key=not is_local and not insecure,
        silence_s=silence_s,
    )
    app.add_middleware(Observe, figures=service.figures, spans=service.spans)
    return app


def mcp_app(desk: Refdesk, *, insecure: bool = False, is_local: bool = True) -> ASGIApp:
    """`refdesk mcp --http`: the tools at /mcp, behind the same two layers. The SDK is an extra, so imported by name."""
    limits, is_local, needs_key = Limits(), is_local and not insecure, not is_local and not insecure
    tools: Any = import_module("refdesk.serve.mcp")
    app = tools.http_app(desk, lambda caller: limits.asking(caller, desk.settings), is_local=is_local)
    return Observe(Guard(app, desk, limits, is_local=is_local, needs_key=needs_key), Figures())


def _on_signals(service: Service) -> Callable[[], None]:
    """Ends running streams when the server is told to end, before it waits for its connections to close."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    loop = asyncio.get_running_loop()
    before: dict[int, Any] = {}

    def on_signal(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(service.streams.stop)
        if callable(before[number]):
            before[number](number, frame)

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, on_signal)

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return put_back


# One process of `refdesk serve`: opens the library that the environment names, makes the app, closes it at the end.

# Seconds a thread that computes may hold up the one that writes events; Python's 0.005 adds up with several of them.
SWITCH_S = 0.001
VARIABLE = "REFDESK_SERVE"  # JSON, handed from the command to its workers


def app() -> FastAPI:
    """What uvicorn calls; in each worker once."""
    sys.setswitchinterval(SWITCH_S)
    set_up_logging(os.environ.get("REFDESK_LOG_LEVEL", "INFO").upper())
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # what is wrong with a form, its sender is told
    options: dict[str, Any] = orjson.loads(os.environ[VARIABLE])
    desk = Refdesk(options["library"], settings=options["settings"])
    shared = Path(options["shared"]) if options["shared"] else None
    reach = {name: options[name] for name in ("insecure", "is_local")}
    made = create_app(desk, **reach, shared=shared, on_end=desk.close)
    # What is loaded now stays: looking through it for garbage would hold up every stream for 70 ms now and then.
    gc.freeze()
    gc.enable()
    return made


# Several processes that serve one address, each with a listening socket of its own.

logger = logging.getLogger("refdesk.serve")


class Workers(Multiprocess):
    """As uvicorn looks after its processes; each step is taken for every socket with the process that listens on it."""

    def __init__(self, config: Config, sockets: Sequence[socket.socket]) -> None:
        super().__init__(config, [])
        self.processes_num = 1  # on each socket
        self._listening: list[tuple[socket.socket, list[Process]]] = [(socket, []) for socket in sockets]
        self._asked: WeakKeyDictionary[Process, float] = WeakKeyDictionary()  # since when each owes a sign of life

    def _each(self, step: Callable[[], None]) -> None:
        for listener, processes in self._listening:
            self.sockets, self.processes = [listener], processes
            step()

    def init_processes(self) -> None:
        self._each(super().init_processes)

    def keep_subprocess_alive(self) -> None:
        """Replaces who has ended, or has given no sign of life for too long.

        Uvicorn asks one after the other and waits for the answer, up to the whole limit, also for that of a process
        that was killed after it was asked; meanwhile another one that dies is not replaced, and no signal is heard.
        """
        for _, processes in self._listening:
            for process in processes:
                if process.process.is_alive() and not self._is_heard(process):
                    process.process.kill()
                    process.process.join()
        self._each(self._replace_ended)

    def _is_heard(self, process: Process) -> bool:
        """Whether it has answered, or still has time to. Who has answered is asked again."""
        try:
            while process.parent_conn.poll():
                process.parent_conn.recv()
                self._asked.pop(process, None)
            if process not in self._asked:
                process.parent_conn.send(b"ping")
                self._asked[process] = time.monotonic()
        except (OSError, EOFError):
            return False
        return time.monotonic() - self._asked[process] < self.config.timeout_worker_healthcheck

    def _replace_ended(self) -> None:
        if not all(process.process.is_alive() for process in self.processes):
            super().keep_subprocess_alive()

    def restart_all(self) -> None:
        self._each(super().restart_all)

    def terminate_all(self) -> None:
        self._each(super().terminate_all)

    def join_all(self) -> None:
        self._each(super().join_all)

    def handle_ttin(self) -> None:
        logger.warning("the number of processes is fixed by --workers")

    handle_ttou = handle_ttin
