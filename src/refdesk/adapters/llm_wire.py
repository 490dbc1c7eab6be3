"""What is the same for every wire format: one request, its stream read piece by piece, lessons learned from refusals.

Servers differ in what they take. What one refuses by name (`temperature`, `stream_options`, a JSON schema …) is left
out or put otherwise, the request sent again, and the lesson kept for the next one.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import orjson

from refdesk.adapters.llm_http import Endpoint, ServerEvent, error_in_stream, events
from refdesk.answer import Usage
from refdesk.errors import ProviderInterrupted, ProviderRefused, ProviderUnavailable
from refdesk.models import ModelInfo, model_info, price, rough_tokens
from refdesk.ports import Piece, Request

THINKING_TOKENS = 4096  # on top of what is asked for: hidden thoughts count as written
TOO_LONG, TOO_SLOW = "too_long", "too_slow"  # why we have ended an answer; a provider's own limit is "length"
ENVELOPE = 200  # bytes of a stream for each byte of an answer: most servers wrap every token in a line of JSON
MOST_LESSONS = 5  # per request; each is another refusal

Lessons = frozenset[str]


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

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.info: ModelInfo = model_info(endpoint.name)
        self._lessons: Lessons = frozenset()

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
    def payload(self, request: Request, lessons: Lessons) -> Mapping[str, Any]:
        """The body of a request, less what this server was found to refuse."""

    @abstractmethod
    def lesson_of(self, refusal: ProviderRefused, body: Mapping[str, Any], lessons: Lessons) -> str:
        """What to leave out next time; "" when the refusal is about something else."""

    @abstractmethod
    def read(self, value: Mapping[str, Any]) -> Delta:
        """One event of the stream, or a whole answer; KeyError, TypeError and the like when it is neither."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        lessons = self._lessons
        while True:
            body = self.payload(request, lessons)
            try:
                async with aclosing(self._pieces(request, body)) as pieces:
                    async for piece in pieces:
                        self._lessons |= lessons  # they were right: it answers
                        yield piece
                return
            except ProviderRefused as refusal:
                lesson = self.lesson_of(refusal, body, lessons) if refusal.status in (400, 422) else ""
                if not lesson or lesson in lessons or len(lessons - self._lessons) >= MOST_LESSONS:
                    raise
                lessons |= {lesson}

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
                        kept = _within(delta.text, room)
                        room -= len(delta.text.encode("utf-8", "replace"))
                        parts.append(kept)
                        yield Piece(kept, model=self.name)
                    if room < 0 or raw_room < 0:
                        so_far = replace(so_far, finish=TOO_LONG)
                        break
                    if time.monotonic() > ends_at and not (so_far.is_end or so_far.finish):
                        so_far = replace(so_far, finish=TOO_SLOW)
                        break
            text = "".join(parts)
            if not (so_far.is_end or so_far.finish):
                raise ProviderInterrupted(self.endpoint.problem("ended its answer in the middle"))
        except ProviderInterrupted as error:
            if any(parts):
                raise
            raise ProviderUnavailable(str(error)) from error  # never begun: the same model may be tried again
        usage = self._counted(request, text, so_far.usage)
        yield Piece(usage=usage, finish=so_far.finish or "stop", model=self.name)

    def _read(self, event: ServerEvent) -> Delta:
        if event.data.strip() == "[DONE]":
            return Delta(is_end=True)
        try:
            value = orjson.loads(event.data)
            if problem := value.get("error"):
                raise error_in_stream(self.endpoint, problem)
            return self.read(value)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise ProviderInterrupted(self.endpoint.problem("sent a line that is not what it should be")) from error

    def _counted(self, request: Request, text: str, usage: Usage | None) -> Usage:
        """As the server says it, else counted roughly, with its price; an unknown model of this machine is free."""
        if usage is None:
            prompt = request.system + "".join(turn.content for turn in request.messages)
            usage = Usage(rough_tokens(prompt), rough_tokens(text))
        cost = price(self.name, usage)
        return replace(usage, calls=1, cost_usd=0.0 if cost is None and self.endpoint.is_loopback else cost)


def _within(text: str, room: int) -> str:
    """The text, or as much of it as finds room, in bytes."""
    packed = text.encode("utf-8", "replace")
    return text if len(packed) <= room else packed[:room].decode("utf-8", "ignore")


def _joined(so_far: Delta, delta: Delta) -> Delta:
    """Of several counts the higher ones hold: some servers say them again, some in two parts."""
    usage = delta.usage or so_far.usage
    if delta.usage and so_far.usage:
        prompt = max(delta.usage.prompt_tokens, so_far.usage.prompt_tokens)
        usage = Usage(prompt, max(delta.usage.completion_tokens, so_far.usage.completion_tokens))
    return Delta("", delta.finish or so_far.finish, usage, delta.is_end or so_far.is_end)
