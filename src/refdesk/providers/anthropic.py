"""Anthropic's models by their own wire format, `/v1/messages`.

JSON of a given shape comes as structured output, or from the older models, which do not have it, as the arguments of a
tool they are made to call; either way its text is streamed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from refdesk.answer import Turn, Usage
from refdesk.errors import ProviderRefused
from refdesk.models import ModelInfo
from refdesk.ports import Request
from refdesk.providers.wire import LIMITS, THINKING_TOKENS, Delta, Lessons, WireLLM, closed

VERSION = "2023-06-01"  # of the wire format; the only one there is
MOST_TOKENS = 4096  # the format demands a limit; what its oldest models can write
TOOL = "answer"
_WITHOUT_STRUCTURED_OUTPUT = re.compile(r"claude-(2|3|instant|(opus|sonnet)-4(-0|-1|-\d{8}|@|$))")
_FINISH = {"max_tokens": "length", "end_turn": "stop", "stop_sequence": "stop", "tool_use": "stop"}
_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicLLM(WireLLM):
    path = "/v1/messages"

    def headers(self) -> dict[str, str]:
        key = self.endpoint.api_key
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def payload(self, request: Request, lessons: Lessons) -> dict[str, Any]:
        return payload(self.info, request, lessons)

    def lesson_of(self, refusal: ProviderRefused, body: Mapping[str, Any], lessons: Lessons) -> str:
        return lesson_of(str(refusal), body)

    def read(self, value: Mapping[str, Any]) -> Delta:
        return read_event(value)


# --- what comes back


def read_event(value: Mapping[str, Any]) -> Delta:
    """`{"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}` -> Delta("a").

    Thoughts, pings and kinds yet to be invented add nothing.
    """
    kind = value["type"]
    if kind == "content_block_delta":
        return Delta(str(value["delta"].get("text") or value["delta"].get("partial_json") or ""))
    if kind == "message_start":
        return Delta(usage=_usage(value["message"].get("usage")))
    if kind == "message_delta":
        return Delta(finish=_finish(value["delta"]), usage=_usage(value.get("usage")))
    if kind == "message":  # from a server that does not stream
        text = "".join(map(_block_text, value["content"]))
        return Delta(text, _finish(value), _usage(value.get("usage")), is_end=True)
    return Delta(is_end=kind == "message_stop")


def _finish(value: Mapping[str, Any]) -> str:
    reason = value.get("stop_reason") or ""
    return _FINISH.get(reason, reason)


def _usage(value: Mapping[str, Any] | None) -> Usage | None:
    """Read and written; the first event counts what is read, the last what is written."""
    value = value or {}
    read, written = sum(int(value.get(name) or 0) for name in _READ), int(value.get("output_tokens") or 0)
    return Usage(read, written) if read or written else None


def _block_text(block: Mapping[str, Any]) -> str:
    if block["type"] == "tool_use":
        return orjson.dumps(block["input"]).decode()
    return str(block.get("text", "")) if block["type"] == "text" else ""


# --- what is sent


def payload(info: ModelInfo, request: Request, lessons: Lessons = frozenset()) -> dict[str, Any]:
    """The body of a request. `top_p` is never sent: the newer models refuse it beside a temperature."""
    body: dict[str, Any] = {
        "model": info.model,
        "max_tokens": (request.max_tokens or MOST_TOKENS) + (THINKING_TOKENS if info.thinks else 0),
        "messages": [{"role": turn.role, "content": turn.content} for turn in _turns(request)],
        "stream": True,
    }
    if request.system:
        body["system"] = request.system
    if not info.keeps_sampling and "temperature" not in lessons:
        body["temperature"] = min(request.temperature, 1.0)
    if stops := [stop for stop in request.stop if stop.strip()]:
        body["stop_sequences"] = stops
    if request.schema is not None and ("output_config" in lessons or _WITHOUT_STRUCTURED_OUTPUT.search(info.model)):
        tool = {"name": TOOL, "description": "Gives the answer.", "input_schema": closed(request.schema)}
        body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": TOOL}}
    elif request.schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": closed(request.schema, LIMITS)}}
    return body


def _turns(request: Request) -> list[Turn]:
    """Without empty messages, which are refused, and beginning with the user's."""
    turns = [turn for turn in request.messages if turn.content.strip()]
    while turns and turns[0].role != "user":
        turns = turns[1:]
    return turns


def lesson_of(said: str, body: Mapping[str, Any]) -> str:
    """What to leave out next time: "`temperature` is deprecated for this model." -> "temperature"."""
    said = said.lower()
    if "temperature" in body and "temperature" in said:
        return "temperature"
    if "output_config" in body and any(word in said for word in ("output_config", "structured output", "schema")):
        return "output_config"
    return ""
