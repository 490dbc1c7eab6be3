"""`refdesk keys`, `settings`, `doctor`, `serve` and `mcp`: managing and serving a library."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import ipaddress
import os
import platform
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from filelock import FileLock, Timeout

from refdesk.desk import Refdesk
from refdesk.errors import ExtraMissing, RefdeskError, UsageError
from refdesk.records import ROLES
from refdesk.serve.cli.show import (
    AsJson,
    argument,
    desk_of,
    escape,
    messages,
    option,
    out,
    print_json,
    styled,
    table,
    tell,
)
from refdesk.settings import PRESETS
from refdesk.types import Finding

# `refdesk keys`: who may use the library when it is served, in which collections.

keys_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Name = Annotated[str, argument("NAME", "Who the key is for.")]


@keys_app.callback()
def keys() -> None:
    """Manage the keys for network access to the library. Without any key, only this machine can use it."""


@keys_app.command("add")
def add_key(
    context: typer.Context,
    name: Name,
    role: Annotated[str, option("ROLE", "One of " + ", ".join(ROLES) + ".")] = "reader",
    collection: Annotated[
        list[str] | None,
        option("PATH", "Only this collection and its subcollections; repeatable.", "--collection", "-c"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key. Its secret is shown only once."""
    with desk_of(context) as desk:
        key, secret = desk.keys.add(name, role, collection)
    if as_json:
        print_json(key.to_dict() | {"secret": secret})
    else:
        out.print(secret, soft_wrap=True, highlight=False)
        owner = f"{escape(key.name)}, {role} of {escape(_where(key.collections))}"
        messages.print(f"Key for {owner}. It is shown only once.")


@keys_app.command("list")
def list_keys(context: typer.Context, as_json: AsJson = False) -> None:
    """List the keys, without their secrets."""
    with desk_of(context) as desk:
        found = desk.keys.list()
    if as_json:
        print_json(found)
    elif not found:
        messages.print("There are no keys. Create one: refdesk keys add NAME --role reader")
    else:
        rows = table("name", "role", "collections", "created", "last used", "id")
        for key in found:
            where = ", ".join(key.collections) if key.collections is not None else "all"
            used = key.last_used[:16].replace("T", " ") or "never"
            rows.add_row(escape(key.name), key.role, escape(where), key.created_at[:10], used, key.id)
        out.print(rows)


@keys_app.command("change")
def change_key(
    context: typer.Context,
    key: Annotated[str, argument("NAME", "Name or id.")],
    role: Annotated[str | None, option("ROLE", "One of " + ", ".join(ROLES) + ".")] = None,
    collection: Annotated[
        list[str] | None,
        option("PATH", "Only this collection and its subcollections; repeatable.", "--collection", "-c"),
    ] = None,
    every_collection: Annotated[bool, typer.Option("--every-collection", help="All collections.")] = False,
    name: Annotated[str | None, option("NAME", "New name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a key's role, collections or name. Its secret stays the same."""
    with desk_of(context) as desk:
        changed = desk.keys.change(
            key, name=name, role=role, collections=collection or None, every_collection=every_collection
        )
    sentence = f"The key of {escape(changed.name)}: {changed.role} of {escape(_where(changed.collections))}."
    tell(as_json, changed, sentence, messages)


@keys_app.command("revoke")
def revoke_key(
    context: typer.Context, name: Annotated[str, argument("NAME", "Name or id.")], as_json: AsJson = False
) -> None:
    """Revoke a key. It stops working at once."""
    with desk_of(context) as desk:
        key = desk.keys.revoke(name)
    tell(as_json, key, f"The key of {escape(key.name)} is revoked.", messages)


def _where(collections: Sequence[str] | None) -> str:
    return "every collection" if collections is None else ", ".join(collections)


# `refdesk settings`: what is set, where it comes from, and how it is changed for good.

settings_app = typer.Typer(rich_markup_mode=None, no_args_is_help=False)

SettingName = Annotated[str, argument("NAME", "For example rag.top_k.")]


@settings_app.callback(invoke_without_command=True)
def settings(
    context: typer.Context,
    changed: Annotated[bool, typer.Option("--changed", help="Only settings that differ from the default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the settings of this library, or change them. Changes apply to the next question."""
    if context.invoked_subcommand is not None:
        return
    with desk_of(context) as desk:
        rows = [row for row in _rows(desk) if row["from"] != "default" or not changed]
        notes = desk.settings_notes
    if as_json:
        print_json(rows)
        return
    if not rows:
        messages.print("Every setting is at its default.")
        return
    shown = table("", "setting", "value", "default", "from", "what it does")
    for row in rows:
        is_changed = row["from"] != "default"
        default = _written(row["default"]) if is_changed else ""
        place = row["from"] if is_changed else ""
        value = styled((_written(row["value"]), "bold" if is_changed else ""))
        shown.add_row("*" if is_changed else "", row["name"], value, escape(default), place, escape(row["help"]))
    out.print(shown)
    for note in notes:
        messages.print(escape(f"{note[0].upper()}{note[1:]}."))


@settings_app.command("get")
def get_setting(context: typer.Context, name: SettingName, as_json: AsJson = False) -> None:
    """Print the value of one setting."""
    with desk_of(context) as desk:
        found = [row for row in _rows(desk) if row["name"] == name]
    if not found:
        raise UsageError(f"there is no setting '{name}'", hint="`refdesk settings` shows them all")
    tell(as_json, found[0], escape(_written(found[0]["value"])))


@settings_app.command("set")
def set_setting(
    context: typer.Context,
    name: SettingName,
    value: Annotated[str, argument("VALUE", "New value.")],
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Check first that the provider offers the model.")
    ] = True,
) -> None:
    """Change a setting of this library."""
    with desk_of(context) as desk:
        asyncio.run(desk.check_settings({name: value}, online=check))
        _say_changes(desk.change_settings({name: value}))


@settings_app.command("reset")
def reset_setting(
    context: typer.Context, name: Annotated[str | None, argument("NAME", "Setting to reset; default: all.")] = None
) -> None:
    """Reset one or all settings to refdesk.toml or the default."""
    with desk_of(context) as desk:
        _say_changes(desk.reset_settings(name))


@settings_app.command("preset")
def use_preset(
    context: typer.Context, name: Annotated[str, argument("PRESET", "One of " + ", ".join(PRESETS) + ".")]
) -> None:
    """Change several settings at once. Settings of other presets are reset; the rest stay as they are.

    After offline, only balanced turns models on again.
    """
    with desk_of(context) as desk:
        _say_changes(desk.use_preset(name))


def _rows(desk: Refdesk) -> list[dict[str, Any]]:
    """The program that changes them is this one, by its option."""
    return [row | {"from": "--set"} if row["from"] == "program" else row for row in desk.list_settings()]


def _say_changes(changed: Mapping[str, tuple[Any, Any]]) -> None:
    lines = [f"{name}: {escape(_written(old))} → {escape(_written(new))}" for name, (old, new) in changed.items()]
    messages.print("\n".join(lines) or "Nothing changed.")


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# What `refdesk doctor` looks at: versions, models, the data folder, the indexes against SQL, free disk.

LOW_DISK = 1 << 30  # bytes free under which a library cannot grow much
_PACKAGES = ("sqlalchemy", "tantivy", "usearch", "onnxruntime", "tokenizers", "pypdfium2")


def examine(desk: Refdesk) -> Iterator[Finding]:
    """Every finding, the most general first; changes nothing."""
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield Finding("versions", True, f"Refdesk {version('refdesk')}, Python {platform.python_version()}; {versions}")
    yield desk.check_database()
    yield desk.check_embedder()
    yield from _models(desk)
    if desk.redis is not None:
        is_there = desk.redis.is_there()
        text = "answers" if is_there else desk.redis.problem
        yield Finding(
            "Redis", is_there, text, "start it, or unset REFDESK_REDIS_URL; Refdesk works without it until then"
        )
    if desk.config.files_url:
        problem = desk.files_problem()
        yield Finding("files", not problem, problem or f"reached at {desk.config.files_url}", "see docs/scaling.md")
    has_ocr = importlib.util.find_spec("rapidocr") is not None
    yield Finding(
        "OCR", True, "installed" if has_ocr else "not installed, so scans cannot be read (pip install 'refdesk[ocr]')"
    )
    usage = shutil.disk_usage(desk.folder)
    yield Finding(
        "disk",
        usage.free > LOW_DISK,
        f"{_size(usage.free)} free; the library {desk.folder} takes {_size(_folder_size(desk))}",
        "free some space, or move the library",
    )
    yield _rights(desk)
    counts = desk.counts()
    by_status = [
        f"{counts[key]} {key.removeprefix('documents_')}" for key in sorted(counts) if key.startswith("documents_")
    ]
    yield Finding("documents", True, ", ".join(by_status) or "none yet")
    waiting = counts.get("documents_pending", 0) + counts.get("documents_processing", 0)
    if waiting:
        yield Finding("unfinished", True, f"{waiting} documents are unfinished: `refdesk add --resume` finishes them")
    try:
        yield from desk.check()
        yield from desk.check_files()
    except RefdeskError as error:
        yield Finding("indexes", False, str(error), error.hint)


def _rights(desk: Refdesk) -> Finding:
    """Who else may read the library: opening it has closed what could be closed."""
    if left := desk.open_to_others():
        text = f"{len(left)} files or folders can be read by other users, for example {left[0]}"
        return Finding("rights", False, text, f"run `chmod -R go= {desk.folder}` as the owner")
    closed = desk.closed_to_others
    note = f"; {closed} files and folders were open to other users; their permissions have been fixed" if closed else ""
    return Finding("rights", True, f"only the owner can read the library{note}")


def _models(desk: Refdesk) -> Iterator[Finding]:
    """Every model that is named: whether it can be used, and its provider lists it."""
    for name, error in asyncio.run(desk.check_models()):
        text = f"{name} is available" if error is None else f"{name}: {error}"
        yield Finding("model", error is None, text, "" if error is None else error.hint)


def _folder_size(desk: Refdesk) -> int:
    total = 0
    for path in desk.folder.rglob("*"):
        with suppress(OSError):  # gone a moment later
            total += path.stat().st_size
    return total


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


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
PROTOCOL = "refdesk.serve.http.guard:BoundedProtocol"
LOGGING = "refdesk.serve.http.observe"
WORKERS = "refdesk.serve.http.app"
ADDING = "refdesk.serve.worker"
VARIABLE = "REFDESK_SERVE"
BACKLOG = 2048  # as uvicorn's own
GRACE_S = 5  # for open connections after Ctrl-C; streams are told to end at once
HEALTH_S = 120  # a worker that gives no sign of life for so long is replaced; uvicorn's 5 are little on a busy machine
MOST_WORKERS = 64


def serve(
    context: typer.Context,
    host: Annotated[str, option("ADDRESS", "Address to listen on; 0.0.0.0: all interfaces.")] = "127.0.0.1",
    port: Annotated[int, option("PORT", "Port to listen on; 0: any free port.", min=0, max=65535)] = 8080,
    workers: Annotated[int, option("NUMBER", "Number of processes.", min=1, max=MOST_WORKERS)] = 1,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow access without a key.")] = False,
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
    what = f"{folder} (empty)" if is_empty else str(folder)  # perhaps another one was meant
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
            f"{host} is reachable from other machines, but there is no key",
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
        for listener in listening:
            listener.listen(BACKLOG)  # who comes at once waits until the program is loaded, and is not turned away
    except OSError as error:
        raise UsageError(
            f"{host}:{port} cannot be used: {error.strerror or error}", hint="choose another --host or --port"
        ) from error
    return listening


def _bound(found: Any, address: Any, *, is_shared: bool = False) -> socket.socket:
    # Its protocol is named: asyncio's own loop turns Nagle's delay off only for sockets that say that they are TCP.
    made = socket.socket(*found[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(address)
    made.set_inheritable(True)
    return made


# `refdesk worker`: adds what is uploaded to any server of the library.

MOST_AT_ONCE = 64  # documents


def worker(
    context: typer.Context,
    concurrency: Annotated[
        int, option("NUMBER", "Documents processed at the same time; 0: one per core.", min=0, max=MOST_AT_ONCE)
    ] = 0,
    health: Annotated[
        int | None, option("PORT", "Serve a health check on this port; 0: any free port.", min=0, max=65535)
    ] = None,
    host: Annotated[str, option("ADDRESS", "Address of the health check, with --health.")] = "127.0.0.1",
) -> None:
    """Process uploads for the servers of this library; run any number of workers on any machine."""
    import_module(LOGGING).set_up_logging(os.environ.get("REFDESK_LOG_LEVEL", "INFO").upper())
    context.obj["settings"] |= {"ingest.workers": concurrency} if concurrency else {}
    with desk_of(context) as desk:
        adding = import_module(ADDING)
        found = adding.UploadWorker(desk, is_one_of_many=True)
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one ends it at once; others take over
            signal.signal(number, lambda number, _: (signal.signal(number, signal.SIG_DFL), found.stop()))
        address = ""
        if health is not None:
            try:
                address = f" Alive: http://{host}:{adding.tell_health(found, host, health).server_port}."
            except OSError as error:
                raise UsageError(
                    f"{host}:{health} cannot be used: {error.strerror or error}",
                    hint="choose another --health or --host",
                ) from error
        messages.print(
            f"Processing uploads for {escape(str(desk.folder))}.{address} Press Ctrl-C to stop.", soft_wrap=True
        )
        found.run()


# `refdesk mcp`: the library as tools for a model, over stdio or HTTP.


def _mcp_server() -> Any:
    """Loaded by name when called: the SDK is an extra and takes a second to import; no other command waits for it."""
    try:
        return import_module("refdesk.serve.mcp")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        hint = "pip install 'refdesk[mcp]'"
        raise ExtraMissing("MCP needs an extra package", hint=hint) from error


def mcp(
    context: typer.Context,
    http: Annotated[
        int | None, option("PORT", "Serve over HTTP on this port, at /mcp; 0: any free port.", min=0, max=65535)
    ] = None,
    host: Annotated[str, option("ADDRESS", "Address to listen on, with --http.")] = "127.0.0.1",
    insecure: Annotated[bool, typer.Option("--insecure", help="With --http: allow access without a key.")] = False,
) -> None:
    """Offer the library to AI assistants as MCP tools, over stdio. With --http, over the network."""
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
