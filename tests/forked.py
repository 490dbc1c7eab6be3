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


class ForkedProcess:
    """The part of `subprocess.Popen` that tests use."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], out: Path, error: Path) -> None:
        self.args = ["refdesk", *arguments]
        # A daemon ends with the tests, whatever becomes of them.
        self._process = _server.Process(
            target=_command, args=(arguments, dict(environment), Path.cwd(), out, error), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Of a command: that of the tests, without what is of whoever runs them; and where their libraries lie."""
    told = {name: os.environ[name] for name in ("REFDESK_DATABASE_URL",) if name in os.environ}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("REFDESK_", "COLUMNS"))}
    return {**inherited, **told, **own}


def run(arguments: Sequence[str], environment: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        out, error = Path(folder, "out"), Path(folder, "error")
        process = ForkedProcess(arguments, environment, out, error)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        said = [path.read_text(encoding="utf-8") for path in (out, error)]
        return subprocess.CompletedProcess(process.args, code, *said)


def _command(arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, out: Path, error: Path) -> None:
    for number, path in ((1, out), (2, error)):
        with path.open("wb") as file:
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
