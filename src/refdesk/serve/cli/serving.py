"""`refdesk serve`: the HTTP service on this machine, or on the network for those who have a key."""

from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from filelock import FileLock, Timeout

from refdesk.desk import Refdesk
from refdesk.errors import ExtraMissing, UsageError
from refdesk.serve.cli.show import desk_of, escape, messages, option

# A temporary folder that the processes of one server share; what a killed server has left goes at the next start.

PREFIX = "refdesk-workers-"
OWNER = "owner.lock"  # held by the server for as long as it lives: the system takes it back from a killed one
UNOWNED_S = 86_400.0  # one without such a lock is being made this moment, or is of a version that took none


@contextmanager
def shared_folder() -> Iterator[str]:
    clear_dead()
    made = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    with made as folder, FileLock(str(Path(folder, OWNER)), mode=0o600):
        yield folder


def clear_dead(place: Path | None = None) -> None:
    """Removes such folders of ours whose server is gone; those of other users are none of our business."""
    for folder in (place or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
        with suppress(OSError):
            state = folder.lstat()
            if stat.S_ISDIR(state.st_mode) and _is_ours(state) and _is_dead(folder, state):
                shutil.rmtree(folder, ignore_errors=True)


def _is_ours(state: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or state.st_uid == os.getuid()


def _is_dead(folder: Path, state: os.stat_result) -> bool:
    lock = folder / OWNER
    if not lock.exists():
        return time.time() - state.st_mtime > UNOWNED_S
    probe = FileLock(str(lock), mode=0o600)
    try:
        probe.acquire(timeout=0)
    except Timeout:
        return False
    probe.release()
    return True


# `refdesk serve`

APP = "refdesk.serve.http.app:app"  # imported by uvicorn, so that other commands do not wait for it
PROTOCOL = "refdesk.serve.http.limits:BoundedProtocol"
LOGGING = "refdesk.serve.http.observe"
WORKERS = "refdesk.serve.http.app"
VARIABLE = "REFDESK_SERVE"
BACKLOG = 2048  # as uvicorn's own
GRACE_S = 5  # for open connections after Ctrl-C; streams are told to end at once
HEALTH_S = 30  # a worker that gives no sign of life for so long is replaced; uvicorn's 5 are little on a busy machine
MOST_WORKERS = 64


def serve(
    context: typer.Context,
    host: Annotated[str, option("ADDRESS", "Address to listen on; 0.0.0.0: all.")] = "127.0.0.1",
    port: Annotated[int, option("PORT", "Port to listen on; 0: a free one.", min=0, max=65535)] = 8080,
    workers: Annotated[int, option("NUMBER", "Number of processes.", min=1, max=MOST_WORKERS)] = 1,
    insecure: Annotated[bool, typer.Option("--insecure", help="Let everyone in without a key.")] = False,
) -> None:
    """Serve the library over HTTP. Other machines need a key (see refdesk keys)."""
    with desk_of(context) as desk:
        folder, has_keys = desk.folder, desk.keys.exist()
        is_empty = not desk.collections()
        check_key(desk, host, insecure)
    is_local = is_loopback(host)
    options = {"library": str(folder), "settings": context.obj["settings"], "insecure": insecure, "is_local": is_local}
    listening = listen(host, port, workers)
    shown = f"[{host}]" if ":" in host else host
    who = "everyone with a key" if has_keys else "this machine" if is_local else "everyone, without a key"
    what = f"{folder}, which is empty," if is_empty else str(folder)  # perhaps another one was meant
    messages.print(
        f"Serving {escape(what)} on http://{shown}:{listening[0].getsockname()[1]} for {who}. Press Ctrl-C to stop.",
        soft_wrap=True,
    )
    with shared_folder() as shared:
        if workers > 1:
            os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", shared)
        os.environ[VARIABLE] = orjson.dumps(options | {"shared": shared if workers > 1 else ""}).decode()
        _run(listening, workers)


def _run(listening: list[socket.socket], workers: int) -> None:
    import uvicorn

    config = uvicorn.Config(
        APP,
        factory=True,
        http=PROTOCOL,
        workers=workers,
        log_config=None,  # `app` sets up the logs
        access_log=False,  # observe.py writes a line a request
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_worker_healthcheck=HEALTH_S,
        timeout_keep_alive=75,  # longer than most proxies keep theirs, so that they close first
    )
    with suppress(KeyboardInterrupt):  # the usual end of a server; uvicorn has closed everything before
        if workers > 1:
            # For the one line that says that a process has died and another one takes its place.
            import_module(LOGGING).set_up_logging(os.environ.get("REFDESK_LOG_LEVEL", "INFO").upper())
            import_module(WORKERS).Workers(config, listening).run()
        else:
            gc.disable()  # while the rest is imported; the worker turns it on again
            uvicorn.Server(config).run(listening)


def check_key(desk: Refdesk, host: str, insecure: bool) -> None:
    if not (is_loopback(host) or insecure or desk.keys.exist()):
        raise UsageError(
            f"others could reach {host}, and there is no key",
            hint="create one with `refdesk keys add NAME --role admin`, or use --insecure",
        )


def is_loopback(host: str) -> bool:
    """`localhost` and `127.0.0.2` are; `0.0.0.0` and names that lead elsewhere are not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int, workers: int = 1) -> list[socket.socket]:
    """A socket for each worker. Bound here, so that a port in use is one sentence, not a worker that dies for ever."""
    try:
        found: Any = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = [_bound(found, found[4])]
        if workers > 1:
            address = listening[0].getsockname()
            if sys.platform == "linux":
                # The first one has found out whether the port is free; those that share it would not.
                listening.pop().close()
                listening = [_bound(found, address, is_shared=True) for _ in range(workers)]
            else:
                listening *= workers
        for one in listening:
            one.listen(BACKLOG)  # who comes at once waits until the program is loaded, and is not turned away
    except OSError as error:
        raise UsageError(
            f"{host}:{port} cannot be used: {error.strerror or error}", hint="choose another --host or --port"
        ) from error
    return listening


def _bound(found: Any, address: Any, *, is_shared: bool = False) -> socket.socket:
    made = socket.socket(found[0], found[1])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(address)
    made.set_inheritable(True)
    return made


# `refdesk mcp`: the library as tools for a model, over stdio or HTTP.


def _mcp_server() -> Any:
    """Loaded by name when called: the SDK is an extra and takes a second to import; no other command waits for it."""
    try:
        return import_module("refdesk.serve.mcp")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        hint = "pip install 'refdesk[mcp]'"
        raise ExtraMissing("The Model Context Protocol needs an extra package", hint=hint) from error


def mcp(
    context: typer.Context,
    http: Annotated[
        int | None, option("PORT", "Serve over HTTP on this port, at /mcp; 0: a free one.", min=0, max=65535)
    ] = None,
    host: Annotated[str, option("ADDRESS", "Address to listen on, with --http.")] = "127.0.0.1",
    insecure: Annotated[bool, typer.Option("--insecure", help="With --http: let everyone in without a key.")] = False,
) -> None:
    """Offer the library to models as tools (Model Context Protocol), over stdio. With --http, over the network."""
    import uvicorn

    server = _mcp_server()
    with desk_of(context) as desk, desk.at_work():
        if http is None:
            server.make_server(desk).run("stdio")
            return
        check_key(desk, host, insecure)
        (listening,) = listen(host, http)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/mcp"
        messages.print(f"Serving {escape(str(desk.folder))} on {address}. Press Ctrl-C to stop.", soft_wrap=True)
        app = import_module(WORKERS).mcp_app(desk, insecure=insecure, is_local=is_loopback(host))
        config = uvicorn.Config(
            app,
            http=PROTOCOL,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        uvicorn.Server(config).run([listening])
