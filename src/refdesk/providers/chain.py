"""What happens when a model does not answer? Tried again, then skipped for a while, the next one in the chain.

    tries 3, waits 1, 2, 4 … 10 s (25 % jitter) on 429, 5xx and network errors; none on a refusal
    breaker 5 questions that failed in a row -> skipped for 60 s, then one call may try
    a stream that breaks in the middle starts over on the next model, announced with `Piece(restarted=True)`

DESIGN §5. With a single model, or on the last one, a broken stream starts over once on the same.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from refdesk.answer import Usage
from refdesk.errors import ProviderEmpty, ProviderError, ProviderInterrupted, ProviderUnavailable
from refdesk.models import estimate
from refdesk.ports import Piece, Request
from refdesk.providers.llm import WireLLM, rough_usage
from refdesk.providers.wire import LONGEST_WAIT_S, wait_before


class Breaker:
    """Whether a model may be called: after `most` failures in a row not for `seconds`, then by one caller at a time.

    A failure is that of a whole call, after its last try; those of one question count once (`ChainedLLM.counted`).
    """

    def __init__(self, most: int = 5, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.seconds, self._clock = most, seconds, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_at = 0.0
        self._is_probed = False

    def allows(self) -> bool:
        """Every call that is allowed must be followed by `succeeded`, `failed` or `left`."""
        with self._lock:
            if self._failures < self.most:
                return True
            if self._is_probed or self._clock() < self._opened_at + self.seconds:
                return False
            self._is_probed = True
            return True

    def succeeded(self) -> None:
        with self._lock:
            self._failures, self._is_probed = 0, False

    def failed(self) -> None:
        with self._lock:
            self._failures, self._is_probed = self._failures + 1, False
            if self._failures >= self.most:
                self._opened_at = self._clock()

    def left(self) -> None:
        """The call ended in a way that says nothing of the model's health: refused, or the caller went away."""
        with self._lock:
            self._is_probed = False


_breakers: dict[tuple[str, str], Breaker] = {}  # of this process, by name and address: elsewhere it is another model
_breakers_lock = threading.Lock()


def breaker_of(model: WireLLM, most: int, seconds: float) -> Breaker:
    """The one breaker this process has for a model; it takes on the newest settings."""
    with _breakers_lock:
        breaker = _breakers.setdefault((model.name, model.address), Breaker(most, seconds))
        breaker.most, breaker.seconds = most, seconds
        return breaker


def reset_breaker(model: WireLLM) -> None:
    """Somebody has seen it answer: it need not wait for its time to pass."""
    if breaker := _breakers.get((model.name, model.address)):
        breaker.succeeded()


def _unheard(event: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class ChainedLLM:
    """A model and those that stand in for it, in order. Safe to share between questions and event loops.

    `on_event` hears each try that fails, in words: "openai:gpt-4o answered 429; try 2 of 3 in 1.1 s"; `on_failure` each
    model that was given up. A breaker whose id is in `counted` has heard of the question already.
    """

    models: Sequence[WireLLM]
    tries: int = 3
    breaker_failures: int = 5
    breaker_seconds: float = 60.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    on_event: Callable[[str], None] = _unheard
    on_failure: Callable[[ProviderError], None] = _unheard
    counted: set[int] | None = None

    @property
    def name(self) -> str:
        return self.models[0].name

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        lost = Usage()  # what broken streams have cost
        shown = False  # whether the reader has text that a restart makes void
        failure: ProviderError | None = None
        begins = [*self.models, self.models[-1]]  # the last one may begin anew once, after a break
        for place, model in enumerate(begins):
            if place == len(self.models) and not isinstance(failure, ProviderInterrupted):
                break
            text = ""
            is_last = place >= len(self.models) - 1
            try:
                async with aclosing(self._tried(model, request, is_last)) as pieces:
                    async for piece in pieces:
                        if piece.usage and not text:
                            lost += piece.usage
                            raise ProviderEmpty(f"{model.name} wrote nothing")
                        if shown and piece.text:
                            yield Piece(model=model.name, restarted=True)
                            shown = False
                        text += piece.text
                        yield replace(piece, usage=piece.usage + lost) if piece.usage else piece
                return
            except ProviderError as error:
                failure = error
                error.model = model.name
                self.on_failure(error)
                if text:
                    shown = True
                    usage = rough_usage(request, text)  # a broken stream never got to say it
                    cost = estimate(model.name, usage.prompt_tokens, usage.completion_tokens)
                    lost += replace(usage, cost_usd=cost)
        assert failure is not None
        failure.spent = lost if lost.calls else None
        raise failure

    async def _tried(self, model: WireLLM, request: Request, is_last: bool) -> AsyncGenerator[Piece, None]:
        """One model with its tries; raises when they are used up, at once when it refuses or breaks off."""
        breaker = breaker_of(model, self.breaker_failures, self.breaker_seconds)
        if not breaker.allows():
            problem = f"{model.name} is skipped for a while after {breaker.most} questions in a row that it failed"
            self.on_event(problem)
            raise ProviderUnavailable(problem)
        tell = breaker.left  # also when the caller closes the stream or is cancelled, and when it refuses
        try:
            async with aclosing(self._attempts(model, request, is_last)) as pieces:
                async for piece in pieces:
                    yield piece
            tell = breaker.succeeded
        except (ProviderUnavailable, ProviderInterrupted):
            if self.counted is None or id(breaker) not in self.counted:
                tell = breaker.failed
            if self.counted is not None:
                self.counted.add(id(breaker))
            raise
        finally:
            tell()

    async def _attempts(self, model: WireLLM, request: Request, is_last: bool) -> AsyncGenerator[Piece, None]:
        for attempt in range(1, self.tries + 1):
            try:
                async with aclosing(model.stream(request)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ProviderUnavailable as error:
                asked = error.retry_after_s
                if attempt == self.tries or (asked > LONGEST_WAIT_S and not is_last):
                    self.on_event(f"{error}; given up after {attempt} of {self.tries} tries")
                    raise
                wait = wait_before(attempt + 1, asked, random.random())
                self.on_event(f"{error}; try {attempt + 1} of {self.tries} in {wait:.1f} s")
            except ProviderError as error:
                self.on_event(str(error))
                raise
            await self.sleep(wait)
