"""How does a model in a file answer? llama.cpp in this process (`refdesk[local]`), loaded at the first question.

It listens on a port of this machine that only this process has the key to, and is asked like any other server of
OpenAI's format: so streaming, time-outs, JSON schemas and cancelling are those of every model.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from refdesk.errors import ExtraMissing, ProviderRefused
from refdesk.gguf import read_head
from refdesk.ports import Piece, Request
from refdesk.providers.llm import OpenAILLM
from refdesk.providers.wire import Endpoint

PACKAGE, EXTRA = "xllamacpp", "pip install 'refdesk[local]'"


class GgufLLM(OpenAILLM):
    """A model of this process; all those of one file share what is loaded."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._file = loaded_file(Path(self.info.model).expanduser().absolute(), self.info.context_window)

    @property
    def address(self) -> str:
        return "this machine"  # the port is another one at each start, and nobody's business

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        url, key = await asyncio.to_thread(self._file.started, self.name)
        self.endpoint = replace(self.endpoint, base_url=url, api_key=key)
        async with aclosing(super().stream(request)) as pieces:
            async for piece in pieces:
                yield piece


class GgufFile:
    """One file, loaded when it is first asked and until nobody holds it; one answer is written at a time."""

    def __init__(self, path: Path, window: int) -> None:
        self._path, self._window = path, window
        self._loading = threading.Lock()
        self._server: Any = None
        self._key = secrets.token_urlsafe(24)

    def started(self, name: str) -> tuple[str, str]:
        """(address, key) of the server."""
        with self._loading:
            if self._server is None:
                self._server = self._load(name)
        return f"{self._server.listening_address}/v1", self._key

    def _load(self, name: str) -> Any:
        # Threads that wait for one another by spinning take the cores from whatever else this process does.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        import xllamacpp

        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self._path)
        parameters.n_ctx, parameters.n_parallel = self._window, 1
        parameters.port, parameters.api_keys, parameters.ui = 0, [self._key], False
        parameters.endpoint_slots = False  # it would show prompts to whoever has the key
        parameters.cache_ram_mib = 0  # of earlier conversations nothing is kept beside the last one
        parameters.verbosity = -1  # its log would stand between the lines of an answer
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = cores
        try:
            return xllamacpp.Server(parameters)
        except (RuntimeError, OSError, MemoryError) as error:
            hint = "check that the file is whole, and that there is memory for it"
            raise ProviderRefused(f"{name} could not be loaded", hint=hint) from error


_files: WeakValueDictionary[tuple[Path, int, int], GgufFile] = WeakValueDictionary()
_finding = threading.Lock()


def loaded_file(path: Path, window: int) -> GgufFile:
    """The file as this process has it, not loaded yet; raises when it cannot be used at all."""
    read_head(path)
    if find_spec(PACKAGE) is None:
        raise ExtraMissing("a model in a GGUF file needs an extra package", hint=EXTRA)
    with _finding:
        key = (path, path.stat().st_mtime_ns, window)
        return _files.setdefault(key, GgufFile(path, window))
