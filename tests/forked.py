"""`refdesk` as a process of its own, forked from one that has imported the engine: most of a command's time is imports.

Its process is as real as the installed program's: own environment, own standard streams, own exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from refdesk.serve.cli.main import main

_server = multiprocessing.get_context("forkserver")
# Not the commands themselves: they make consoles as wide as their environment says.
_server.set_forkserver_preload(
    [
        "forked",
        "refdesk.desk",
        "rich.progress",
        "rich.table",
        "pydantic.type_adapter",
        "onnxruntime",
        "numpy.ma",
        "pytest",
    ]
)


def run(arguments: Sequence[str], environment: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        process = _server.Process(target=_command, args=(arguments, dict(environment), Path.cwd(), Path(folder)))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["refdesk", *arguments], seconds)
        out, error = (Path(folder, name).read_text(encoding="utf-8") for name in ("out", "error"))
        return subprocess.CompletedProcess(["refdesk", *arguments], process.exitcode, out, error)


def _command(arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, folder: Path) -> None:
    for number, name in ((1, "out"), (2, "error")):
        with (folder / name).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["refdesk", *arguments]
    try:
        main()
    finally:
        with contextlib.suppress(ValueError):
            sys.stdout.flush()
        atexit._run_exitfuncs()
