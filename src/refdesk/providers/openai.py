"""Any model behind an OpenAI-compatible `/chat/completions` endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from refdesk.answer import Usage
from refdesk.errors import ProviderRefused
from refdesk.models import ModelInfo
from refdesk.ports import Request
from refdesk.providers.wire import INSTRUCTION, THINKING_TOKENS, Delta, Lessons, WireLLM, closed


class OpenAILLM(WireLLM):
    path = "/chat/completions"

    def headers(self) -> dict[str, str]:
        key = self.endpoint.api_key
        return {"Authorization": f"Bearer {key}"} if key else {}

    def payload(self, request: Request, lessons: Lessons) -> dict[str, Any]:
        return payload(self.info, request, lessons)

    def lesson_of(self, refusal: ProviderRefused, body: Mapping[str, Any], lessons: Lessons) -> str:
        return lesson_of(str(refusal), body, lessons)

    def read(self, value: Mapping[str, Any]) -> Delta:
        return read_chunk(value)


# --- what comes back


def read_chunk(value: Mapping[str, Any]) -> Delta:
    """`{"choices": [{"delta": {"content": "a"}, "finish_reason": null}]}` -> Delta("a"); also a whole completion.

    Hidden thoughts (`reasoning`, `reasoning_content`) and tool calls are passed over.
    """
    usage = read_usage(value.get("usage") or (value.get("x_groq") or {}).get("usage"))
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


def read_usage(value: Any) -> Usage | None:
    """Thoughts count as written, also where they are only part of the total (Gemini)."""
    if not isinstance(value, dict):
        return None
    prompt, completion = int(value.get("prompt_tokens") or 0), int(value.get("completion_tokens") or 0)
    total = int(value.get("total_tokens") or 0)
    return Usage(prompt, max(completion, total - prompt)) if prompt or completion else None


# --- what is sent


def payload(info: ModelInfo, request: Request, lessons: Lessons = frozenset()) -> dict[str, Any]:
    """The body of a request, less what this server was found to refuse."""
    system, form = _form(request, lessons)
    body: dict[str, Any] = {
        "model": info.model,
        "messages": [
            *([{"role": "system", "content": system}] if system else []),
            *({"role": turn.role, "content": turn.content} for turn in request.messages),
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if form:
        body["response_format"] = form
    if request.max_tokens > 0:
        is_new = info.family in ("gpt-5", "o-series")
        name = "max_completion_tokens" if is_new != ("max_tokens" in lessons) else "max_tokens"
        body[name] = request.max_tokens + (THINKING_TOKENS if info.thinks else 0)
        if is_new:
            body["reasoning_effort"] = "low"  # the passages hold the answer; thoughts cost time and money
    if not info.keeps_sampling:
        body["temperature"] = request.temperature
        if request.top_p < 1.0:
            body["top_p"] = request.top_p
    if request.stop:
        body["stop"] = list(request.stop[:4])  # OpenAI takes four
    return {name: value for name, value in body.items() if name not in lessons or name in _PUT_OTHERWISE}


def _form(request: Request, lessons: Lessons) -> tuple[str, dict[str, Any] | None]:
    """(instructions, response_format): a schema, or where it was refused, any JSON, and then none."""
    if request.schema is None:
        return request.system, None
    schema = closed(request.schema)
    if "json_schema" not in lessons:
        named = {"name": "answer", "strict": True, "schema": schema}
        return request.system, {"type": "json_schema", "json_schema": named}
    system = f"{request.system}\n\n{INSTRUCTION}\n{orjson.dumps(schema).decode()}".strip()
    return system, None if "response_format" in lessons else {"type": "json_object"}


# --- what a refusal teaches

_PUT_OTHERWISE = frozenset({"max_tokens", "max_completion_tokens"})
_SCHEMA_WORDS = ("json_schema", "response_format", "response format", "schema", "additionalproperties", "grammar")
_FIELDS = ("stream_options", "reasoning_effort", "temperature", "top_p", "stop")


def lesson_of(said: str, body: Mapping[str, Any], lessons: Lessons) -> str:
    """What to leave out next time, by what a 400 or 422 complains of; "" when it is about something else.

    "Unsupported value: 'temperature' does not support 0.3 with this model" -> "temperature"
    """
    said = said.lower()
    if "max_tokens" not in lessons and "max_completion_tokens" in said and "max_tokens" in said:
        return "max_tokens"  # "use the other one instead"
    for field in _FIELDS:
        if field in body and field in said:
            return field
    if "response_format" in body and any(word in said for word in _SCHEMA_WORDS):
        return "response_format" if "json_schema" in lessons else "json_schema"
    if "context" in said or "stream_options" not in body:
        return ""  # too long a prompt, or nothing left to leave out
    return "stream_options"  # the newest of the fields; old servers refuse it without a name
