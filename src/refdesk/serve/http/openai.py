"""The OpenAI-compatible API: programs written for OpenAI can use the library unchanged.

The last message of the user is the question, what was said before is the history. System messages are not heard: how
an answer is written, checked and cited is the library's, and what a caller may read comes from the key alone. Markers
such as [1] stay in the text; `refdesk` beside it carries the citations, on the message or on the last chunk.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, get_args

from fastapi import APIRouter, Request
from starlette.responses import Response

from refdesk.answer import Answer, Content, Done, Event, Failed, Level, Replace
from refdesk.caller_desk import CallerDesk
from refdesk.errors import NotFound
from refdesk.serve.http import responses as shapes
from refdesk.serve.http.asking import ask_once, begin_stream, citation_shape, counted, token_counts
from refdesk.serve.http.guard import Desk, Service, Serving
from refdesk.serve.http.observe import problem, reply
from refdesk.serve.http.openapi import about, failures, returns, returns_events
from refdesk.serve.http.requests import CompletionRequest
from refdesk.serve.http.sse import EventResponse, Named, PlainStream
from refdesk.trace import in_thread

router = APIRouter(prefix="/v1", tags=["OpenAI"])
OWNER = "refdesk"
LEVELS: dict[str, Level | None] = {"refdesk": None} | {f"refdesk-{level}": level for level in get_args(Level)}
MOST_TOKENS = 100_000  # of the setting answer.max_tokens; clients ask for all that their own models could write
CORRECTED = "\n\nCorrected answer:\n\n"
MARKERS = re.compile(r"(?<!\s)\s*\[\d{1,4}(?:, ?\d{1,4})*\]")
RESPONSES = returns(shapes.Completion) | failures(404, 501, 502)
RESPONSES[200]["content"] |= returns_events(data=shapes.CompletionChunk)[200]["content"]


@router.get("/models", **about("List models", shapes.ModelList))
def models(desk: Desk) -> Response:
    """`refdesk` and its levels, and any models a question may choose."""
    listed = [_listed(name) for name in (*LEVELS, *_choices(desk))]
    return reply({"object": "list", "data": listed})


@router.get("/models/{name}", **about("Get a model", shapes.Model))
def model(desk: Desk, name: str) -> Response:
    if name not in LEVELS and name not in _choices(desk):
        raise _unknown(name, desk)
    return reply(_listed(name))


def _listed(name: str) -> dict[str, Any]:
    owner = OWNER if name in LEVELS else name.partition(":")[0]
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}


def _choices(desk: CallerDesk) -> list[str]:
    """The models that questions may be put to, where there is a choice."""
    found = desk.allowed_models()
    return found if len(found) > 1 else []


@router.post("/chat/completions", summary="Ask, in OpenAI's format", responses=RESPONSES)
async def completions(request: Request, service: Serving, desk: Desk, body: CompletionRequest) -> Response:
    """Streams events if `stream` is set. Ignores unsupported OpenAI parameters."""
    text, options = await in_thread(asked, body, desk)
    if not body.stream:
        answer = await ask_once(request, service, desk, text, options)
        return reply(_completion(answer, body.model))
    events, end = await begin_stream(service, desk, text, options)
    with_usage = body.stream_options is not None and body.stream_options.include_usage
    chunks = _chunks(request, service, events, body.model, with_usage)
    return EventResponse(service.streams.begin(desk.caller.id, chunks, request.state.request_id, end, kind=PlainStream))


def asked(body: CompletionRequest, desk: CallerDesk) -> tuple[str, dict[str, Any]]:
    """The question and the options of `desk.ask`."""
    last = max(place for place, message in enumerate(body.messages) if message.role == "user")
    before = body.messages[:last]
    history = [
        (chat_message.role, chat_message.text)
        for chat_message in before
        if chat_message.role in ("user", "assistant") and chat_message.text
    ]
    options = body.refdesk.options() if body.refdesk is not None else {}
    if history:
        options["history"] = history
    if images := body.messages[last].images:
        options["images"] = images
    if body.model not in LEVELS:
        if body.model not in _choices(desk):
            raise _unknown(body.model, desk)
        options["model"] = body.model
    elif (level := LEVELS[body.model]) is not None:
        options["level"] = level
    longest = body.max_completion_tokens or body.max_tokens
    given = {"answer.temperature": body.temperature, "answer.max_tokens": longest and min(longest, MOST_TOKENS)}
    if settings := {name: value for name, value in given.items() if value is not None} | options.get("settings", {}):
        options["settings"] = settings
    return body.messages[last].text, options


def _unknown(name: str, desk: CallerDesk) -> NotFound:
    return NotFound(f"there is no model '{name}'", hint=f"use one of {', '.join((*LEVELS, *_choices(desk)))}")


def _completion(answer: Answer, name: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.content, "refusal": None, "refdesk": _extension(answer)}
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": name,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": token_counts(answer),
    }


def _extension(answer: Answer) -> dict[str, Any]:
    """What OpenAI's shape has no place for."""
    fields = answer.to_dict() | {"citations": [citation_shape(citation) for citation in answer.citations]}
    return {name: fields[name] for name in shapes.EXTENSION}


async def _chunks(
    request: Request, service: Service, events: AsyncGenerator[Event, None], name: str, with_usage: bool
) -> AsyncGenerator[Named, None]:
    """`data: {…}` for each token; the last chunk carries `refdesk`; then `data: [DONE]`."""
    head = {
        "id": f"chatcmpl-{request.state.request_id}",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": name,
    }

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> Named:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return "chunk", head | {"choices": [choice]} | more

    yield chunk({"role": "assistant", "content": ""})
    sent = ""
    async with aclosing(counted(request, service, events)) as stream:
        async for event in stream:
            if isinstance(event, Content):
                sent += event.token
                yield chunk({"content": event.token})
            elif isinstance(event, Replace) and (rest := _amended(sent, event.content)):
                sent += rest
                yield chunk({"content": rest})
            elif isinstance(event, Failed):
                yield "error", problem(event.error, request.state.request_id)
            elif isinstance(event, Done):
                yield chunk({}, "stop", refdesk=_extension(event.answer))
                if with_usage:
                    yield "usage", head | {"choices": [], "usage": token_counts(event.answer)}
    yield "end", None


def _amended(sent: str, content: str) -> str:
    """What to send when an answer is replaced: a client cannot take back what it has shown.

    Other markers alone are no other answer: the extension has the final text.

    >>> _amended("It weighs 300 kg. [3]", "It weighs 350 kg. [1]")
    '\\n\\nCorrected answer:\\n\\nIt weighs 350 kg. [1]'
    """
    if content.startswith(sent):
        return content[len(sent) :]
    if MARKERS.sub("", sent).strip() == MARKERS.sub("", content).strip():
        return ""
    return CORRECTED + content
