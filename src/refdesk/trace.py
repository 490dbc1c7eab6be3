"""The trace of a question: input, output, cost and skipped work of each stage.

    with trace.stage("rerank", hits=20) as stage:
        hits = …
        stage.gave(hits=8)
    trace.skip("graph", "no entity graph in this library")

Stages nest: a stage begun within another one is its child. A trace belongs to one question and is not shared.
A call of a model outside the answer itself, `json_reply`, has its cost written down here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from refdesk.answer import Turn, Usage
from refdesk.models import model_info
from refdesk.ports import LLM, Request

# Where does work run that would hold up the event loop? In threads that live as long as the process.

Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}  # by process: a fork must not use its parent's


async def in_thread(function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
    """What the function gives, computed in a thread while others go on."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool(), partial(function, *arguments, **named))


def _pool() -> ThreadPoolExecutor:
    process = os.getpid()
    if process not in _pools:
        # As many as asyncio's own default: an embedder behind a network waits, and must not stop the others.
        _pools[process] = ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4), "refdesk")
    return _pools[process]


LAST_CALLS = 5  # of a stack, in the log
REPLY_TOKENS = 600  # of a model's JSON, at most: the longest lists the parts of a report

logger = logging.getLogger("refdesk.ask")


@dataclass(slots=True)
class Stage:
    """One stage as it ran; times in milliseconds since the question came in."""

    name: str
    started_ms: float
    depth: int = 0
    took_ms: float = 0.0
    took: dict[str, Any] = field(default_factory=dict)  # sizes of what went in
    output: dict[str, Any] = field(default_factory=dict)  # sizes of what came out
    skipped: str = ""  # why it did not run
    error: str = ""  # why it ended early
    usage: Usage = field(default_factory=Usage)  # of the model that it asked

    def gave(self, **sizes: Any) -> None:
        self.output.update(sizes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "depth": self.depth,
            "started_ms": round(self.started_ms, 3),
            "took_ms": round(self.took_ms, 3),
            "input": self.took,
            "output": self.output,
            "skipped": self.skipped,
            "error": self.error,
            "cost_usd": self.usage.cost_usd or 0.0,
        }


class Trace:
    """The stages of one question, in the order they began."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.stages: list[Stage] = []
        self.passages: list[dict[str, Any]] = []  # what was looked at, and what became of it
        self._began = time.perf_counter()
        self._depth = 0

    @contextmanager
    def stage(self, name: str, **sizes: Any) -> Iterator[Stage]:
        """Times what happens within; an exception is written down and goes on."""
        stage = Stage(name, self.elapsed_ms, self._depth, took=sizes)
        self.stages.append(stage)
        self._depth += 1
        try:
            yield stage
        except BaseException as error:
            stage.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._depth -= 1
            stage.took_ms = self.elapsed_ms - stage.started_ms

    @contextmanager
    def optional(self, name: str, **sizes: Any) -> Iterator[Stage]:
        """`stage`, but an error is logged and the question goes on without it; a cancellation goes on.

        The trace says that it was skipped and why. In the log stand its kind and where it came from, not its words:
        they may be a question's.
        """
        try:
            with self.stage(name, **sizes) as stage:
                yield stage
        except Exception as error:
            stage.skipped = f"it failed: {type(error).__name__}"
            calls = traceback.extract_tb(error.__traceback__)[-LAST_CALLS:]
            at = [f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in calls]
            fields = {"stage": name, "trace_id": self.id, "error": type(error).__name__, "at": at}
            logger.warning("the optional stage '%s' failed and was skipped: %s", name, fields["error"], extra=fields)

    def skip(self, name: str, why: str) -> None:
        self.stages.append(Stage(name, self.elapsed_ms, self._depth, skipped=why))

    @property
    def failed_stage(self) -> str:
        """The stage that ended with an error, "" when none has; what an optional part within it did does not count."""
        return next(
            (stage.name for stage in reversed(self.stages) if stage.error and not stage.skipped and stage.depth == 0),
            "",
        )

    @property
    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self._began) * 1000

    def milliseconds(self) -> dict[str, float]:
        """Of every stage that ran at the top, and in all."""
        ran = [stage for stage in self.stages if stage.depth == 0 and (stage.error or not stage.skipped)]
        times = {f"{stage.name}_ms": round(stage.took_ms, 3) for stage in ran}
        return times | {"total_ms": round(self.elapsed_ms, 3)}

    def usage(self, *names: str) -> Usage:
        """What the stages of these names used together."""
        return sum((stage.usage for stage in self.stages if stage.name in names), Usage())

    def to_dict(self) -> dict[str, Any]:
        stages = [stage.to_dict() for stage in self.stages]
        return {"id": self.id, "total_ms": round(self.elapsed_ms, 3), "stages": stages, "passages": self.passages}


async def run(
    trace: Trace, name: str, function: Callable[..., Result], *arguments: Any, is_quick: bool = False
) -> Result:
    """A stage that only computes; `sizes` of values are written down. In a thread, so that other questions go on,
    unless it is quicker than the way there.
    """
    taken: dict[str, Any] = {}
    for value in arguments:
        taken |= getattr(value, "sizes", {})
    with trace.stage(name, **taken) as stage:
        result = function(*arguments) if is_quick else await in_thread(function, *arguments)
        stage.gave(**getattr(result, "sizes", {}))
    return result


# --- a call of a model outside the answer itself ----------------------------------------------------------------------


def is_able(model: LLM) -> bool:
    """Whether it rewrites better than the rules: from 9B on (seed 001 step 8)."""
    return model_info(model.name).tier not in ("tiny", "small")


async def json_reply(model: LLM, system: str, text: str, schema: Mapping[str, Any], stage: Stage) -> Mapping[str, Any]:
    """The JSON that a model answers; empty when it is none."""
    return json_object(await model_reply(model, system, text, schema, REPLY_TOKENS, stage))


def json_object(reply: str) -> dict[str, Any]:
    """The JSON object in a model's reply, whatever it says around it; empty when there is none."""
    try:
        found = json.loads(reply[reply.find("{") : reply.rfind("}") + 1])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def model_reply(
    model: LLM, system: str, text: str, schema: Mapping[str, Any], most: int, stage: Stage, role: str = "router"
) -> str:
    """All that a model writes."""
    request = Request(system, (Turn("user", text),), max_tokens=most, schema=schema, role=role)
    pieces: list[str] = []
    usage = Usage()
    async with aclosing(model.stream(request)) as stream:  # type: ignore[type-var]  # every adapter's is a generator
        async for piece in stream:
            if piece.restarted:
                pieces.clear()
            pieces.append(piece.text)
            usage += piece.usage or Usage()
    stage.usage = usage
    stage.gave(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)
    return "".join(pieces)
