"""Calls language models: OpenAI's `/chat/completions` and Anthropic's `/v1/messages`, streamed.

Servers differ in what they take. A parameter that one refuses (`temperature`, `stream_options`, a JSON schema …) is
left out or put otherwise, the request sent again, and the parameter remembered as unsupported.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import orjson

from refdesk.answer import Turn, Usage
from refdesk.errors import ExtraMissing, ProviderInterrupted, ProviderRefused, ProviderUnavailable
from refdesk.models import ModelInfo, estimate, model_info, read_head
from refdesk.ports import Piece, Request
from refdesk.providers.wire import Endpoint, Event, error_in_stream, events
from refdesk.text import rough_tokens

THINKING_TOKENS = 4096  # on top of what is asked for: hidden thoughts count as written
TOO_LONG, TOO_SLOW = "too_long", "too_slow"  # why we have ended an answer; a provider's own limit is "length"
ENVELOPE = 200  # bytes of a stream for each byte of an answer: most servers wrap every token in a line of JSON
MOST_REFUSALS = 5  # of parameters, per request

Parameters = frozenset[str]


@dataclass(frozen=True, slots=True)
class Delta:
    """What one event adds; `usage` is of the whole request so far."""

    text: str = ""
    finish: str = ""  # stop, length, too_long, too_slow, or the provider's own word
    usage: Usage | None = None
    is_end: bool = False  # nothing follows


class WireLLM(ABC):
    """One model at one endpoint. Safe to share between questions and event loops."""

    path: ClassVar[str]
    models_path: ClassVar[str]  # the list of models

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.info: ModelInfo = model_info(endpoint.name)
        self._unsupported: Parameters = frozenset()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r} at {self.address})"

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def address(self) -> str:
        return self.endpoint.address

    @abstractmethod
    def headers(self) -> Mapping[str, str]: ...

    @abstractmethod
    def payload(self, request: Request, unsupported: Parameters = frozenset()) -> dict[str, Any]:
        """The body of a request, less what this server was found to refuse."""

    @abstractmethod
    def unsupported_parameter(self, reason: str, body: Mapping[str, Any], unsupported: Parameters) -> str:
        """What to leave out next time, by what a 400 or 422 complains of; "" when it is about something else."""

    @abstractmethod
    def read(self, value: Mapping[str, Any]) -> Delta:
        """One event of the stream, or a whole answer; KeyError, TypeError and the like when it is neither."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        unsupported = self._unsupported
        while True:
            body = self.payload(request, unsupported)
            try:
                async with aclosing(self._pieces(request, body)) as pieces:
                    async for piece in pieces:
                        self._unsupported |= unsupported  # rightly: it answers
                        yield piece
                return
            except ProviderRefused as refusal:
                if refusal.status not in (400, 422) or len(unsupported - self._unsupported) >= MOST_REFUSALS:
                    raise
                parameter = self.unsupported_parameter(str(refusal).lower(), body, unsupported)
                if not parameter or parameter in unsupported:
                    raise
                unsupported |= {parameter}

    async def _pieces(self, request: Request, body: Mapping[str, Any]) -> AsyncGenerator[Piece, None]:
        """The stream as far as its bounds in bytes and time; the connection is closed there."""
        parts: list[str] = []
        so_far, room, raw_room = Delta(), self.endpoint.most_bytes, self.endpoint.most_bytes * ENVELOPE
        ends_at = time.monotonic() + self.endpoint.total_s
        try:
            async with aclosing(events(self.endpoint, self.path, self.headers(), body)) as stream:
                async for event in stream:
                    delta = self._read(event)
                    so_far = _joined(so_far, delta)
                    raw_room -= len(event.data)
                    if delta.text:
                        packed = delta.text.encode("utf-8", "replace")
                        parts.append(delta.text if len(packed) <= room else packed[:room].decode("utf-8", "ignore"))
                        room -= len(packed)
                        yield Piece(parts[-1], model=self.name)
                    if room < 0 or raw_room < 0:
                        so_far = replace(so_far, finish=TOO_LONG)
                        break
                    if time.monotonic() > ends_at and not (so_far.is_end or so_far.finish):
                        so_far = replace(so_far, finish=TOO_SLOW)
                        break
            if not (so_far.is_end or so_far.finish):
                raise ProviderInterrupted(self.endpoint.problem("ended its answer early"))
        except ProviderInterrupted as error:
            if any(parts):
                raise
            raise ProviderUnavailable(str(error)) from error  # never begun: the same model may be tried again
        usage = so_far.usage or rough_usage(request, "".join(parts))
        cost = estimate(self.name, usage.prompt_tokens, usage.completion_tokens)
        if cost is None and self.endpoint.is_loopback:
            cost = 0.0  # an unknown model of this machine
        usage = replace(usage, calls=1, cost_usd=cost)
        yield Piece(usage=usage, finish=so_far.finish or "stop", model=self.name)

    def _read(self, event: Event) -> Delta:
        if event.data.strip() == "[DONE]":
            return Delta(is_end=True)
        try:
            value = orjson.loads(event.data)
            if problem := value.get("error"):
                raise error_in_stream(self.endpoint, problem)
            return self.read(value)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise ProviderInterrupted(self.endpoint.problem("sent an invalid line")) from error


def _joined(so_far: Delta, delta: Delta) -> Delta:
    """Of several counts the higher ones hold: some servers say them again, some in two parts."""
    usage = delta.usage or so_far.usage
    if delta.usage and so_far.usage:
        prompt = max(delta.usage.prompt_tokens, so_far.usage.prompt_tokens)
        usage = Usage(prompt, max(delta.usage.completion_tokens, so_far.usage.completion_tokens))
    return Delta("", delta.finish or so_far.finish, usage, delta.is_end or so_far.is_end)


def rough_usage(request: Request, text: str) -> Usage:
    """What a call has read and written where its server did not say it."""
    prompt = request.system + "".join(turn.content for turn in request.messages)
    return Usage(rough_tokens(prompt), rough_tokens(text), calls=1)


def _content(turn: Turn, packed: Callable[[str, str], dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Words alone as every server takes them; with pictures, part by part."""
    if not turn.images:
        return turn.content
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else packed(part.media_type, base64.b64encode(part.data).decode())
        for part in turn.parts
    ]


def _openai_image(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}


def _anthropic_image(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


# --- OpenAI and all who speak as it does

INSTRUCTION = "Answer with one JSON object of this JSON schema and with nothing else:"
_RENAMED = frozenset({"max_tokens", "max_completion_tokens"})  # refused under one name, sent under the other
_SCHEMA_WORDS = ("json_schema", "response_format", "response format", "schema", "additionalproperties", "grammar")
_OPTIONAL = ("stream_options", "reasoning_effort", "temperature", "top_p", "top_k", "stop")


class OpenAILLM(WireLLM):
    path, models_path = "/chat/completions", "/models"

    def headers(self) -> dict[str, str]:
        key = self.endpoint.api_key
        return {"Authorization": f"Bearer {key}"} if key else {}

    def payload(self, request: Request, unsupported: Parameters = frozenset()) -> dict[str, Any]:
        info = self.info
        system, form = _response_format(request, unsupported)
        body: dict[str, Any] = {
            "model": info.model,
            "messages": [
                *([{"role": "system", "content": system}] if system else []),
                *({"role": turn.role, "content": _content(turn, _openai_image)} for turn in request.messages),
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if form:
            body["response_format"] = form
        if request.max_tokens > 0:
            is_new = info.family in ("gpt-5", "o-series")
            name = "max_completion_tokens" if is_new != ("max_tokens" in unsupported) else "max_tokens"
            body[name] = request.max_tokens + (max(THINKING_TOKENS, request.thinking) if info.thinks else 0)
            if request.thinking and info.thinking == "effort":
                body["reasoning_effort"] = "high"
            elif is_new:
                body["reasoning_effort"] = "low"  # the passages hold the answer; thoughts cost time and money
        if not info.keeps_sampling:
            body["temperature"] = request.temperature
            if request.top_p < 1.0:
                body["top_p"] = request.top_p
            if request.top_k > 0:  # not in OpenAI's own; most who speak as it does take it
                body["top_k"] = request.top_k
        if request.stop:
            body["stop"] = list(request.stop[:4])  # OpenAI takes four
        return {name: value for name, value in body.items() if name not in unsupported or name in _RENAMED}

    def unsupported_parameter(self, reason: str, body: Mapping[str, Any], unsupported: Parameters) -> str:
        """ "Unsupported value: 'temperature' does not support 0.3 with this model" -> "temperature"."""
        if "max_tokens" not in unsupported and "max_completion_tokens" in reason and "max_tokens" in reason:
            return "max_tokens"  # "use the other one instead"
        for name in _OPTIONAL:
            if name in body and name in reason:
                return name
        if "response_format" in body and any(word in reason for word in _SCHEMA_WORDS):
            return "response_format" if "json_schema" in unsupported else "json_schema"
        if "context" in reason or "stream_options" not in body:
            return ""  # too long a prompt, or nothing left to leave out
        return "stream_options"  # the newest of the parameters; old servers refuse it without a name

    def read(self, value: Mapping[str, Any]) -> Delta:
        """`{"choices": [{"delta": {"content": "a"}, "finish_reason": null}]}` -> Delta("a"); also a whole completion.

        Hidden thoughts (`reasoning`, `reasoning_content`) and tool calls are passed over.
        """
        usage = _openai_usage(value.get("usage") or (value.get("x_groq") or {}).get("usage"))
        choices = value.get("choices") or []
        if not choices:
            return Delta(usage=usage)
        choice = choices[0]
        content = (choice.get("delta") or choice.get("message") or {}).get("content") or ""
        if isinstance(content, list):  # parts, as Mistral's reasoning models write them
            content = "".join(part.get("text", "") for part in content if part.get("type") == "text")
        if not isinstance(content, str):
            raise TypeError("content is no text")
        return Delta(content, choice.get("finish_reason") or "", usage)


def _openai_usage(value: Any) -> Usage | None:
    """Thoughts count as written, also where they are only part of the total (Gemini)."""
    if not isinstance(value, dict):
        return None
    prompt, completion = int(value.get("prompt_tokens") or 0), int(value.get("completion_tokens") or 0)
    total = int(value.get("total_tokens") or 0)
    return Usage(prompt, max(completion, total - prompt)) if prompt or completion else None


def _response_format(request: Request, unsupported: Parameters) -> tuple[str, dict[str, Any] | None]:
    """(instructions, response_format): a schema, or where it was refused, any JSON, and then none."""
    if request.schema is None:
        return request.system, None
    schema = closed(request.schema)
    if "json_schema" not in unsupported:
        named = {"name": "answer", "strict": True, "schema": schema}
        return request.system, {"type": "json_schema", "json_schema": named}
    system = f"{request.system}\n\n{INSTRUCTION}\n{orjson.dumps(schema).decode()}".strip()
    return system, None if "response_format" in unsupported else {"type": "json_object"}


# --- Anthropic. JSON of a given shape comes as structured output, or from the older models, which do not have it, as
# the arguments of a tool they are made to call; either way its text is streamed.

VERSION = "2023-06-01"  # of the wire format; the only one there is
MOST_TOKENS = 4096  # the format demands a limit; what its oldest models can write
TOOL = "answer"
_WITHOUT_STRUCTURED_OUTPUT = re.compile(r"claude-(2|3|instant|(opus|sonnet)-4(-0|-1|-\d{8}|@|$))")
_FINISH = {"max_tokens": "length", "end_turn": "stop", "stop_sequence": "stop", "tool_use": "stop"}
_PROMPT_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicLLM(WireLLM):
    path, models_path = "/v1/messages", "/v1/models"

    def headers(self) -> dict[str, str]:
        key = self.endpoint.api_key
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def payload(self, request: Request, unsupported: Parameters = frozenset()) -> dict[str, Any]:
        """`top_p` is never sent: the newer models refuse it beside a temperature."""
        info = self.info
        turns = [turn for turn in request.messages if turn.content.strip() or turn.images]  # empty ones are refused
        while turns and turns[0].role != "user":
            turns = turns[1:]
        body: dict[str, Any] = {
            "model": info.model,
            "max_tokens": (request.max_tokens or MOST_TOKENS) + (THINKING_TOKENS if info.thinks else 0),
            "messages": [{"role": turn.role, "content": _content(turn, _anthropic_image)} for turn in turns],
            "stream": True,
        }
        if request.system:
            body["system"] = request.system
        if request.thinking and info.thinking and request.schema is None and "thinking" not in unsupported:
            body |= _thinking(info, request.thinking)
            body["max_tokens"] += request.thinking
        elif not info.keeps_sampling and "temperature" not in unsupported:
            body["temperature"] = min(request.temperature, 1.0)
        if request.top_k > 0 and not info.keeps_sampling and "top_k" not in unsupported:
            body["top_k"] = request.top_k
        if stops := [stop for stop in request.stop if stop.strip()]:
            body["stop_sequences"] = stops
        if request.schema is None:
            return body
        if "output_config" in unsupported or _WITHOUT_STRUCTURED_OUTPUT.search(info.model):
            tool = {"name": TOOL, "description": "Gives the answer.", "input_schema": closed(request.schema)}
            return body | {"tools": [tool], "tool_choice": {"type": "tool", "name": TOOL}}
        return body | {"output_config": {"format": {"type": "json_schema", "schema": closed(request.schema, LIMITS)}}}

    def unsupported_parameter(self, reason: str, body: Mapping[str, Any], unsupported: Parameters) -> str:
        """ "`temperature` is deprecated for this model." -> "temperature"."""
        if "thinking" in body and any(word in reason for word in ("thinking", "effort", "output_config")):
            return "thinking"
        for name in ("top_k", "temperature"):
            if name in body and name in reason:
                return name
        names_schema = any(word in reason for word in ("output_config", "structured output", "schema"))
        return "output_config" if "output_config" in body and names_schema else ""

    def read(self, value: Mapping[str, Any]) -> Delta:
        """`{"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}` -> Delta("a").

        Thoughts, pings and kinds yet to be invented add nothing.
        """
        kind = value["type"]
        if kind == "content_block_delta":
            return Delta(str(value["delta"].get("text") or value["delta"].get("partial_json") or ""))
        if kind == "message_start":
            return Delta(usage=_anthropic_usage(value["message"].get("usage")))
        if kind == "message_delta":
            return Delta(finish=_finish(value["delta"]), usage=_anthropic_usage(value.get("usage")))
        if kind == "message":  # from a server that does not stream
            text = "".join(map(_block_text, value["content"]))
            return Delta(text, _finish(value), _anthropic_usage(value.get("usage")), is_end=True)
        return Delta(is_end=kind == "message_stop")


def _thinking(info: ModelInfo, tokens: int) -> dict[str, Any]:
    """A model that is told to think takes no temperature beside it."""
    if info.thinking == "budget":
        return {"thinking": {"type": "enabled", "budget_tokens": tokens}}
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}


def _finish(value: Mapping[str, Any]) -> str:
    reason = value.get("stop_reason") or ""
    return _FINISH.get(reason, reason)


def _anthropic_usage(value: Mapping[str, Any] | None) -> Usage | None:
    """The first event counts what is read, the last what is written."""
    value = value or {}
    prompt = sum(int(value.get(name) or 0) for name in _PROMPT_TOKENS)
    completion = int(value.get("output_tokens") or 0)
    return Usage(prompt, completion) if prompt or completion else None


def _block_text(block: Mapping[str, Any]) -> str:
    if block["type"] == "tool_use":
        return orjson.dumps(block["input"]).decode()
    return str(block.get("text", "")) if block["type"] == "text" else ""


# --- the shape of JSON as the providers want it described: every object closed, every property required

# What Anthropic's structured outputs refuse; the caller checks values anyway.
LIMITS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) | frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "uniqueItems"}
)


def closed(schema: Mapping[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    """The schema with `additionalProperties: false` and all properties required in each object, as strict modes demand.

    {"type": "object", "properties": {"a": {"type": "string"}}}
    -> {"type": "object", "properties": {…}, "required": ["a"], "additionalProperties": False}
    """
    new: dict[str, Any] = {}
    for name, value in schema.items():
        if name in without:
            continue
        if name in ("properties", "$defs", "definitions"):
            new[name] = {key: closed(inner, without) for key, inner in value.items()}
        elif isinstance(value, Mapping):
            new[name] = closed(value, without)
        elif isinstance(value, list | tuple):
            new[name] = [closed(inner, without) if isinstance(inner, Mapping) else inner for inner in value]
        else:
            new[name] = value
    if "properties" in new:
        new |= {"required": list(new["properties"]), "additionalProperties": False}
    return new


# --- a model in a file: llama.cpp in this process (`refdesk[local]`), loaded at the first question --------------------
# It listens on a port of this machine that only this process has the key to, and is asked like any other server of
# OpenAI's format: so streaming, time-outs, JSON schemas and cancelling are those of every model.


PACKAGE, EXTRA = "xllamacpp", "pip install 'refdesk[local]'"
# Of prompts that were read. One question asks for an answer, a check, a choice of chunks …, whose prompts begin in
# different ways; with the last one alone each pushes the others out, and is read anew from its first word. 30 kB a
# token for 1.5 billion parameters, 130 kB for 8 billion; whatever does not fit goes, the oldest first.
CACHE_MIB = 512


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
        parameters.cache_ram_mib = CACHE_MIB
        parameters.verbosity = -1  # its log would stand between the lines of an answer
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = cores
        try:
            return xllamacpp.Server(parameters)
        except (RuntimeError, OSError, MemoryError) as error:
            hint = "check that the file is complete and that there is enough memory"
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
