"""A real HTTP server on this machine that speaks the OpenAI and the Anthropic wire formats and does as it is told.

    with WireServer() as server:
        server.say("The anchor weighs 350 kg. [1]")         # the answer to the next request, streamed
        server.say("No.", model="judge")                    # kept for requests of this model
        server.fail(429, retry_after=2)                     # then an error
        server.cut("The anchor wei")                        # then a stream that breaks in the middle
        server.hang()                                       # then one that never comes
        server.answer_by(lambda request: request.question)  # whenever nothing is queued
        environment = server.openai_env("some-model")       # REFDESK_LLM, OPENAI_BASE_URL, OPENAI_API_KEY
    server.requests[0].json["messages"], .headers, .disconnected

A request for which nothing is queued gets 400, so a call too many does not pass unseen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal

from timing import PATIENCE_S

LONGEST_WAIT_S = PATIENCE_S  # for what a reply's `when` waits for
Ending = Literal["done", "cut", "hang", "malformed", "error", "silent"]  # silent: ends without saying that it is done


@dataclass
class Recorded:
    """A request as it came in; `disconnected` when the client left before the answer was whole."""

    path: str
    headers: dict[str, str]  # names in lower case
    json: dict[str, Any]
    disconnected: bool = False
    finished: bool = False
    pieces_sent: int = 0

    @property
    def model(self) -> str:
        return str(self.json.get("model", ""))

    @property
    def key(self) -> str:
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def is_anthropic(self) -> bool:
        return self.path.endswith("/messages")

    @property
    def system(self) -> str:
        """The instructions, wherever this wire format carries them."""
        if self.is_anthropic:
            return str(self.json.get("system", ""))
        return "\n".join(one["content"] for one in self.json["messages"] if one["role"] in ("system", "developer"))

    @property
    def question(self) -> str:
        """The last message of the user."""
        return next((str(one["content"]) for one in reversed(self.json["messages"]) if one["role"] == "user"), "")


@dataclass
class Reply:
    """What is done with one request: streamed pieces and how they end, or an error status."""

    pieces: Sequence[str] = ()
    ending: Ending = "done"
    status: int = 200
    message: str = ""
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    first_delay: float = 0.0  # before anything is sent, headers included
    delay: float = 0.0  # before each piece but the first
    when: Callable[[], bool] | None = None  # each piece but the first waits until this holds; too long: it is cut
    split: int = 0  # bytes per write; 0: an event per write
    usage: tuple[int, int] | None = (11, 7)  # prompt, completion; None: the server does not say
    finish: str = "stop"
    reasoning: str = ""  # sent before the text in the fields that carry hidden thoughts
    noise: bool = False  # comments, keep-alives, empty choices, unknown events in between
    raw: Sequence[bytes] | None = None  # sent as the body as it is, one after the other


class WireServer:
    """See the head of this file. Everything may be called from any thread, also while requests run."""

    def __init__(self) -> None:
        self.requests: list[Recorded] = []
        self.refused_fields: set[str] = set()  # {"stream_options"}: 400 while a request carries one of them
        self.key: str | None = None  # any other key gets 401
        self.models: list[str] | None = None  # what `/models` lists; None: there is no such place
        self.listings: list[Recorded] = []  # requests for that list
        self._script: list[tuple[str, Reply]] = []
        self._by: Callable[[Recorded], str | Reply] | None = None
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    # --- what it shall do

    def say(
        self, text: str = "", *, pieces: Sequence[str] | None = None, model: str = "", times: int = 1, **how: Any
    ) -> None:
        """Answers with this text, word by word or in the given pieces; `how` are the fields of `Reply`."""
        for _ in range(times):
            self._add(Reply(pieces=_words(text) if pieces is None else pieces, **how), model)

    def fail(
        self,
        status: int,
        message: str = "",
        *,
        code: str = "",
        retry_after: float | None = None,
        model: str = "",
        times: int = 1,
    ) -> None:
        """Answers with this status; 429 may say after how many seconds to come back."""
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
        said = message or HTTPStatus(status).phrase
        for _ in range(times):
            self._add(Reply(status=status, message=said, code=code, headers=headers), model)

    def cut(self, text: str = "", *, model: str = "", **how: Any) -> None:
        """Streams this text and then drops the connection; without text, before anything is sent."""
        self._add(Reply(pieces=_words(text), ending="cut", **how), model)

    def hang(self, text: str = "", *, model: str = "", **how: Any) -> None:
        """Streams this text and then says nothing more, with the connection open; without text, not even headers."""
        self._add(Reply(pieces=_words(text), ending="hang", **how), model)

    def malformed(self, text: str = "", *, model: str = "", **how: Any) -> None:
        """Streams this text and then an event that is not JSON."""
        self._add(Reply(pieces=_words(text), ending="malformed", **how), model)

    def error_in_stream(self, text: str = "", *, message: str = "overloaded", model: str = "", **how: Any) -> None:
        """Streams this text with status 200 and then an error object."""
        self._add(Reply(pieces=_words(text), ending="error", message=message, **how), model)

    def raw(self, *parts: bytes, model: str = "", **how: Any) -> None:
        """Answers 200 with exactly these bytes as an event stream, `delay` between the parts."""
        self._add(Reply(raw=parts, **how), model)

    def answer_by(self, function: Callable[[Recorded], str | Reply]) -> None:
        """Answers by this function whenever nothing is queued."""
        self._by = function

    # --- how to reach it

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`; the OpenAI format lives under `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    def openai_env(self, model: str = "test-model", **roles: str) -> dict[str, str]:
        """Variables that make this server answer for `openai:MODEL`; `verifier="judge"` names a model for a role."""
        named = {f"REFDESK_LLM_{role.upper()}": f"openai:{name}" for role, name in roles.items()}
        own = {"REFDESK_LLM": f"openai:{model}", "OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": "sk-test-key"}
        return own | named

    def anthropic_env(self, model: str = "claude-test", **roles: str) -> dict[str, str]:
        named = {f"REFDESK_LLM_{role.upper()}": f"anthropic:{name}" for role, name in roles.items()}
        own = {"REFDESK_LLM": f"anthropic:{model}", "ANTHROPIC_BASE_URL": self.url}
        return own | {"ANTHROPIC_API_KEY": "sk-ant-test-key"} | named

    def wait_for_disconnect(self, number: int = -1, timeout: float = PATIENCE_S) -> bool:
        """Whether the client leaves this request (the last one, if not said) within the time."""
        return self.wait_until(lambda: bool(self.requests) and self.requests[number].disconnected, timeout)

    @staticmethod
    def wait_until(condition: Callable[[], bool], timeout: float = PATIENCE_S) -> bool:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def __enter__(self) -> WireServer:
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result()
        self.port = server.sockets[0].getsockname()[1]
        self._server = server
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    # --- how it does it

    def _add(self, reply: Reply, model: str) -> None:
        with self._lock:
            self._script.append((model, reply))

    async def _stop(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _listing(self, request: Recorded) -> tuple[int, bytes]:
        """Of all models, or of the one named below `/models`."""
        if self.key is not None and request.key != self.key:
            return 401, b"{}"
        name = request.path.partition("/models")[2].lstrip("/")
        if self.models is None or (name and name not in self.models):
            return 404, b"{}"
        return 200, json.dumps({"object": "list", "data": [{"id": one} for one in self.models]}).encode()

    def _next(self, request: Recorded) -> Reply:
        sent_key = request.key
        if self.key is not None and sent_key != self.key:
            return Reply(status=401, message=f"Incorrect API key provided: {sent_key}")
        if refused := sorted(self.refused_fields & set(request.json)):
            return Reply(status=400, message=f"Unrecognized request argument supplied: {refused[0]}")
        with self._lock:
            for place, (model, reply) in enumerate(self._script):
                if model in ("", request.model):
                    del self._script[place]
                    return reply
        if self._by is not None:
            said = self._by(request)
            return Reply(pieces=_words(said)) if isinstance(said, str) else said
        return Reply(status=400, message=f"the test has queued no answer for {request.model}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = await _read_request(reader)
            if "/models" in request.path:
                self.listings.append(request)
                await _send_whole(writer, *self._listing(request), {})
                return
            self.requests.append(request)
            await self._answer(request, self._next(request), reader, writer)
        writer.transport.abort()

    async def _answer(
        self, request: Recorded, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Sends the reply while watching whether the client leaves."""
        leaving = asyncio.ensure_future(reader.read(1))  # comes back only at the end: one request per connection
        sending = asyncio.ensure_future(_send(request, reply, writer))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
            failed = sending.exception() if sending.done() else None
            request.disconnected = not sending.done() or isinstance(failed, ConnectionError)
            request.finished = sending.done() and failed is None and sending.result()
        finally:
            for task in (leaving, sending):
                task.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader) -> Recorded:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    path = head[0].split(" ")[1]
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Recorded(path, headers, json.loads(body) if body else {})


async def _send(request: Recorded, reply: Reply, writer: asyncio.StreamWriter) -> bool:
    """Whether the answer came to its proper end."""
    await asyncio.sleep(reply.first_delay)
    if reply.status != 200:
        await _send_whole(writer, reply.status, _error_body(request, reply), reply.headers)
        return True
    is_empty = not reply.pieces and reply.raw is None
    if is_empty and reply.ending == "hang":
        await asyncio.sleep(3600)
    if is_empty and reply.ending == "cut":
        return False
    if not request.json.get("stream"):
        await _send_whole(writer, 200, _whole_body(request, reply), reply.headers)
        return True
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n"
    extra = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    writer.write((head + extra + "Connection: close\r\n\r\n").encode())
    for event, is_piece in _events(request, reply):
        if is_piece and request.pieces_sent:
            await asyncio.sleep(reply.delay)
            until = time.monotonic() + LONGEST_WAIT_S
            while reply.when is not None and not reply.when():
                if time.monotonic() > until:
                    return False
                await asyncio.sleep(0.005)
        for start in range(0, len(event), reply.split or len(event)):
            part = event[start : start + (reply.split or len(event))]
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
            if reply.split:
                await asyncio.sleep(0)  # so that each part is a packet of its own
        request.pieces_sent += is_piece
    if reply.ending == "hang":
        await asyncio.sleep(3600)
    if reply.ending == "cut":
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    return True


async def _send_whole(writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str]) -> None:
    own = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in (own | headers).items())
    writer.write(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode() + body)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


def _error_body(request: Recorded, reply: Reply) -> bytes:
    problem = {"type": "invalid_request_error" if reply.status < 429 else "api_error", "message": reply.message}
    problem |= {"code": reply.code} if reply.code else {}
    return json.dumps({"type": "error", "error": problem} if request.is_anthropic else {"error": problem}).encode()


def _whole_body(request: Recorded, reply: Reply) -> bytes:
    """The answer to a request that asks for no stream."""
    if reply.raw is not None:
        return b"".join(reply.raw)
    text, (prompt, completion) = "".join(reply.pieces), reply.usage or (0, 0)
    if request.is_anthropic:
        block = {"type": "text", "text": text}
        if forced := _forced_tool(request):
            block = {"type": "tool_use", "id": "toolu_1", "name": forced, "input": json.loads(text)}
        usage = {"input_tokens": prompt, "output_tokens": completion}
        return json.dumps(
            {"type": "message", "role": "assistant", "content": [block], "stop_reason": "end_turn", "usage": usage}
        ).encode()
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reply.finish}
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def _events(request: Recorded, reply: Reply) -> Iterator[tuple[bytes, bool]]:
    """(bytes, whether they carry a piece of the text), in the order they are sent."""
    if reply.raw is not None:
        yield from ((part, True) for part in reply.raw)
        return
    yield from _anthropic_events(request, reply) if request.is_anthropic else _openai_events(request, reply)


def _openai_events(request: Recorded, reply: Reply) -> Iterator[tuple[bytes, bool]]:
    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return _data({"id": "c1", "object": "chat.completion.chunk", "model": request.model, "choices": choices} | more)

    yield chunk({"role": "assistant", "content": ""}), False
    if reply.reasoning:
        yield chunk({"reasoning_content": reply.reasoning, "reasoning": reply.reasoning, "content": None}), False
    for piece in reply.pieces:
        if reply.noise:
            yield b": keep-alive\n\n", False
            yield b"event: ping\nid: 7\nretry: 10\n\n", False
            yield _data({"object": "chat.completion.chunk", "choices": []}), False
        yield chunk({"content": piece}), True
    if reply.ending == "malformed":
        yield b'data: {"choices": [{"delta": {"conte\n\n', False
        return
    if reply.ending == "error":
        yield _data({"error": {"message": reply.message, "type": "server_error", "code": 500}}), False
        return
    if reply.ending == "done":
        yield chunk({}, reply.finish), False
        if reply.usage and request.json.get("stream_options", {}).get("include_usage"):
            prompt, completion = reply.usage
            usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
            yield _data({"object": "chat.completion.chunk", "choices": [], "usage": usage}), False
        yield b"data: [DONE]\n\n", False


def _anthropic_events(request: Recorded, reply: Reply) -> Iterator[tuple[bytes, bool]]:
    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\n".encode() + _data({"type": kind} | fields)

    prompt, completion = reply.usage or (0, 0)
    usage = {"input_tokens": prompt, "output_tokens": 1} if reply.usage else {}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": request.model, "content": []}
    yield event("message_start", message=message | {"usage": usage}), False
    index = 0
    if reply.reasoning:
        yield event("content_block_start", index=0, content_block={"type": "thinking", "thinking": ""}), False
        thought = {"type": "thinking_delta", "thinking": reply.reasoning}
        yield event("content_block_delta", index=0, delta=thought), False
        yield event("content_block_stop", index=0), False
        index = 1
    tool = _forced_tool(request)
    block: dict[str, Any] = {"type": "text", "text": ""}
    if tool:
        block = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
    yield event("content_block_start", index=index, content_block=block), False
    yield event("ping"), False
    for piece in reply.pieces:
        if reply.noise:
            yield b": keep-alive\n\n", False
            yield event("something_new", value=1), False
        delta = {"type": "input_json_delta", "partial_json": piece} if tool else {"type": "text_delta", "text": piece}
        yield event("content_block_delta", index=index, delta=delta), True
    if reply.ending == "malformed":
        yield b'event: content_block_delta\ndata: {"type": "content_bl\n\n', False
        return
    if reply.ending == "error":
        yield event("error", error={"type": "overloaded_error", "message": reply.message}), False
        return
    if reply.ending == "done":
        yield event("content_block_stop", index=index), False
        reason = "max_tokens" if reply.finish == "length" else "tool_use" if tool else "end_turn"
        usage = {"output_tokens": completion} if reply.usage else {}
        yield event("message_delta", delta={"stop_reason": reason}, usage=usage), False
        yield event("message_stop"), False


def _forced_tool(request: Recorded) -> str:
    choice = request.json.get("tool_choice", {})
    return str(choice.get("name", "")) if choice.get("type") == "tool" else ""


def _data(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _words(text: str) -> list[str]:
    """`"a b"` -> `["a ", "b"]`."""
    return [word + " " for word in text.split(" ")[:-1]] + ([last] if (last := text.split(" ")[-1]) else [])
