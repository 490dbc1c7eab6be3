"""Retries, the breaker, fallbacks and restarts, over real requests to a server on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from refdesk.answer import Turn
from refdesk.errors import ProviderEmpty, ProviderInterrupted, ProviderRefused, ProviderUnavailable
from refdesk.ports import LLM, Piece, Request
from refdesk.providers import directory as llm_chain
from refdesk.providers.directory import Breaker, ChainedLLM, ChainedModels, reset_breaker
from refdesk.providers.llm import OpenAILLM
from refdesk.providers.wire import Endpoint, wait_before
from wire_server import WireServer

REQUEST = Request("system", (Turn("user", "question"),), 50)


@pytest.fixture
def server() -> Iterator[WireServer]:
    llm_chain._breakers.clear()  # the system gives ports again; another test's breaker must not meet this server
    with WireServer() as server:
        yield server


class Chain:
    """A chain whose waits are written down instead of waited."""

    def __init__(self, server: WireServer, *names: str, **options: float) -> None:
        self.waits: list[float] = []
        self.events: list[str] = []
        models = [OpenAILLM(Endpoint(f"openai:{name}", f"{server.url}/v1", "", timeout_s=5)) for name in names]

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        self.llm = ChainedLLM(models, sleep=sleep, on_event=self.events.append, **options)  # type: ignore[arg-type]

    def pieces(self) -> list[Piece]:
        async def run() -> list[Piece]:
            return [piece async for piece in self.llm.stream(REQUEST)]

        return asyncio.run(run())

    def text(self) -> str:
        """What a reader has in the end: a restart makes void what came before."""
        text = ""
        for piece in self.pieces():
            text = piece.text if piece.restarted else text + piece.text
        return text


def asked(server: WireServer) -> list[str]:
    return [request.model for request in server.requests]


# --- tries


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_three_tries_with_growing_waits(server: WireServer, status: int) -> None:
    server.fail(status, times=2)
    server.say("ok")
    chain = Chain(server, "a")
    assert chain.text() == "ok"
    assert len(chain.waits) == 2
    assert 0.75 <= chain.waits[0] <= 1.25 and 1.5 <= chain.waits[1] <= 2.5
    assert f"answered {status}" in chain.events[0] and "attempt 2 of 3 in" in chain.events[0]


def test_waits_double_up_to_ten_seconds_within_a_quarter() -> None:
    assert [wait_before(attempt) for attempt in range(2, 8)] == [1, 2, 4, 8, 10, 10]
    assert (wait_before(2, chance=0.0), wait_before(2, chance=1.0)) == (0.75, 1.25)
    assert (wait_before(2, asked_s=6), wait_before(2, asked_s=3600)) == (6, 10)


def test_exhausted_tries_give_the_last_error(server: WireServer) -> None:
    server.fail(500, times=3)
    chain = Chain(server, "a")
    with pytest.raises(ProviderUnavailable, match="answered 500"):
        chain.pieces()
    assert len(server.requests) == 3
    assert "gave up after 3 of 3 attempts" in chain.events[-1]


def test_the_wait_that_is_asked_for(server: WireServer) -> None:
    server.fail(429, retry_after=6)
    server.fail(429, retry_after=60)
    server.say("ok")
    chain = Chain(server, "a")
    assert chain.text() == "ok"
    assert chain.waits == [6.0, 10.0]


def test_too_long_a_wait_is_left_to_the_next_model(server: WireServer) -> None:
    server.fail(429, retry_after=60, model="a")
    server.say("ok", model="b")
    chain = Chain(server, "a", "b")
    assert chain.text() == "ok"
    assert (chain.waits, asked(server)) == ([], ["a", "b"])


def test_a_refusal_is_not_tried_again(server: WireServer) -> None:
    server.fail(401)
    chain = Chain(server, "a")
    with pytest.raises(ProviderRefused):
        chain.pieces()
    assert (len(server.requests), chain.waits) == (1, [])


def test_a_server_that_is_not_there(server: WireServer) -> None:
    gone = OpenAILLM(Endpoint("openai:gone", "http://127.0.0.1:9/v1"))
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> None:
        async for _ in ChainedLLM([gone], sleep=sleep).stream(REQUEST):
            pass

    with pytest.raises(ProviderUnavailable, match="could not be reached"):
        asyncio.run(run())
    assert len(waits) == 2


def test_waits_are_real_by_default(server: WireServer) -> None:
    server.fail(503)
    server.say("ok")

    async def run() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        chain = ChainedLLM([OpenAILLM(Endpoint("openai:real-waits", f"{server.url}/v1"))])
        async for _ in chain.stream(REQUEST):
            pass
        return loop.time() - began

    assert 0.75 <= asyncio.run(run()) < 3


# --- the next in the chain


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_the_next_model_answers(server: WireServer, status: int) -> None:
    for _ in range(3):
        server.fail(status, "context", model="a")
    server.say("from b", model="b")
    pieces = Chain(server, "a", "b").pieces()
    assert "".join(piece.text for piece in pieces) == "from b"
    assert pieces[0].model == "openai:b"
    assert not any(piece.restarted for piece in pieces), "nothing was shown that had to be taken back"


def test_a_model_that_writes_nothing_is_passed_over_and_its_cost_is_kept(server: WireServer) -> None:
    server.say("", model="a", usage=(100, 50), finish="length")
    server.say("from b", model="b", usage=(10, 5))
    pieces = Chain(server, "a", "b").pieces()
    usage = pieces[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.calls) == (110, 55, 2)


def test_only_a_model_that_writes_nothing(server: WireServer) -> None:
    server.say("")
    with pytest.raises(ProviderEmpty, match="wrote nothing"):
        Chain(server, "a").pieces()


# --- broken streams


def test_a_broken_stream_begins_anew_on_the_next_model(server: WireServer) -> None:
    server.cut("The anchor wei", model="a")
    server.say("It weighs 350 kg.", model="b", usage=(10, 5))
    chain = Chain(server, "a", "b")
    pieces = chain.pieces()
    marks = [place for place, piece in enumerate(pieces) if piece.restarted]
    assert len(marks) == 1
    assert (pieces[marks[0]].model, pieces[marks[0]].text) == ("openai:b", "")
    assert "".join(piece.text for piece in pieces[: marks[0]]) == "The anchor wei"
    assert "".join(piece.text for piece in pieces[marks[0] :]) == "It weighs 350 kg."
    usage = pieces[-1].usage
    assert usage is not None
    # 14 characters of prompt and 14 of text were lost: 4 tokens each
    assert (usage.prompt_tokens, usage.completion_tokens, usage.calls) == (14, 9, 2)
    assert "lost the connection" in chain.events[0]


def test_a_single_model_begins_anew_once(server: WireServer) -> None:
    server.cut("The anchor wei")
    server.say("It weighs 350 kg.")
    chain = Chain(server, "a")
    assert chain.text() == "It weighs 350 kg."
    server.cut("The")
    server.cut("The")
    server.say("never asked for")
    with pytest.raises(ProviderInterrupted):
        Chain(server, "a").pieces()
    assert len(server.requests) == 4


def test_a_stream_that_breaks_twice_is_announced_twice(server: WireServer) -> None:
    server.cut("one", model="a")
    server.malformed("two", model="b")
    server.say("three", model="c")
    chain = Chain(server, "a", "b", "c")
    pieces = chain.pieces()
    assert [piece.model for piece in pieces if piece.restarted] == ["openai:b", "openai:c"]


def test_the_text_stays_when_no_one_can_begin_anew(server: WireServer) -> None:
    server.cut("The anchor wei", model="a")
    server.fail(401, model="b")
    seen: list[Piece] = []

    async def run() -> None:
        async for piece in Chain(server, "a", "b").llm.stream(REQUEST):
            seen.append(piece)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ProviderRefused) as caught:
        asyncio.run(run())
    assert not any(piece.restarted for piece in seen)
    assert (caught.value.spent.completion_tokens, caught.value.spent.calls) == (4, 1), "14 characters were written"


def test_broken_before_the_first_word_is_just_another_try(server: WireServer) -> None:
    server.cut()
    server.say("ok")
    chain = Chain(server, "a")
    assert [piece.restarted for piece in chain.pieces()] == [False, False]
    assert len(chain.waits) == 1


# --- the breaker


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_breaker_opens_lets_one_through_and_closes() -> None:
    clock = Clock()
    breaker = Breaker(5, 60, clock)
    for _ in range(4):
        assert breaker.allows()
        breaker.failed()
    assert breaker.allows()
    breaker.failed()
    assert not breaker.allows()
    clock.now += 59.9
    assert not breaker.allows()
    clock.now += 0.2
    assert breaker.allows(), "half open"
    assert not breaker.allows(), "one at a time"
    breaker.failed()
    assert not breaker.allows(), "open for another minute"
    clock.now += 60
    assert breaker.allows()
    breaker.left()
    assert breaker.allows(), "a caller who went away has not used up the one try"
    breaker.succeeded()
    assert breaker.allows() and breaker.allows()


def test_a_success_forgets_the_failures_before() -> None:
    breaker = Breaker(2)
    breaker.failed()
    breaker.succeeded()
    breaker.failed()
    assert breaker.allows()


def test_the_breaker_is_shared_in_the_process_and_keeps_requests_away(server: WireServer) -> None:
    server.fail(500, times=15)
    for _ in range(5):
        with pytest.raises(ProviderUnavailable, match="answered 500"):
            Chain(server, "a").pieces()
    assert len(server.requests) == 15, "five questions of three tries each"
    server.say("ok", model="b")
    chain = Chain(server, "a", "b")
    assert chain.text() == "ok"
    assert asked(server)[15:] == ["b"]
    assert "is skipped for a while after 5 questions" in chain.events[0]


def test_the_breaker_counts_questions_not_tries_or_calls(server: WireServer) -> None:
    """One question may call a model as router, writer and verifier, each with its tries."""
    server.fail(500, times=6)
    models = ChainedModels({"answer": Chain(server, "a", breaker_failures=2).llm, "verifier": Chain(server, "a").llm})
    question = models.for_question()
    for role in ("answer", "verifier"):
        llm = question.role(role)
        assert llm is not None

        async def read(llm: LLM = llm) -> None:
            async for _ in llm.stream(REQUEST):
                pass

        with pytest.raises(ProviderUnavailable, match="answered 500"):
            asyncio.run(read())
    server.say("ok")
    assert Chain(server, "a", breaker_failures=2).text() == "ok", "that was one question"


def test_a_model_that_was_seen_to_answer_is_asked_again(server: WireServer) -> None:
    server.fail(500, times=3)
    chain = Chain(server, "a", breaker_failures=1, breaker_seconds=60)
    with pytest.raises(ProviderUnavailable):
        chain.pieces()
    with pytest.raises(ProviderUnavailable, match="is skipped"):
        chain.pieces()
    reset_breaker(chain.llm.models[0])
    server.say("ok")
    assert chain.text() == "ok"


def test_after_its_time_one_call_closes_the_breaker(server: WireServer) -> None:
    server.fail(500, times=9)
    for _ in range(3):
        with pytest.raises(ProviderUnavailable):
            Chain(server, "a", breaker_failures=3, breaker_seconds=60).pieces()
    with pytest.raises(ProviderUnavailable, match="is skipped"):
        Chain(server, "a", breaker_failures=3, breaker_seconds=60).pieces()
    server.say("ok", times=2)
    asyncio.run(asyncio.sleep(0.25))
    assert Chain(server, "a", breaker_failures=3, breaker_seconds=0.2).text() == "ok"
    assert Chain(server, "a", breaker_failures=3, breaker_seconds=60).text() == "ok"


def test_refusals_do_not_open_it(server: WireServer) -> None:
    server.fail(401, times=6)
    for _ in range(6):
        with pytest.raises(ProviderRefused):
            Chain(server, "a").pieces()
    server.say("ok")
    assert Chain(server, "a").text() == "ok"


# --- the reader goes away


@pytest.mark.parametrize("how", ["close", "cancel"])
def test_the_request_ends_with_the_reader(server: WireServer, how: str) -> None:
    server.say("word " * 500, delay=0.02)
    chain = Chain(server, "a", "b").llm

    async def read() -> None:
        async with aclosing(chain.stream(REQUEST)) as pieces:
            async for _ in pieces:
                if how == "close":
                    return

    async def run() -> bool:
        task = asyncio.create_task(read())
        await asyncio.to_thread(server.wait_until, lambda: bool(server.requests and server.requests[0].pieces_sent))
        if how == "cancel":
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await asyncio.to_thread(server.wait_for_disconnect)

    assert asyncio.run(run())
    assert asked(server) == ["a"], "nobody else is asked on behalf of a reader who has left"


def test_each_question_hears_only_its_own_tries(server: WireServer) -> None:
    server.fail(500)
    server.say("ok")
    shared = Chain(server, "a")
    mine: list[str] = []

    async def run() -> None:
        async for _ in replace(shared.llm, on_event=mine.append).stream(REQUEST):
            pass

    asyncio.run(run())
    assert len(mine) == 1 and shared.events == []
    server.fail(500)
    server.say("ok")
    shared.pieces()
    assert len(mine) == 1 and len(shared.events) == 1
