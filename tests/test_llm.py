"""The adapters to models, both wire formats, against a real server on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from typing import Any

import pytest

from refdesk.answer import Image, Turn, Usage
from refdesk.errors import ProviderError, ProviderInterrupted, ProviderRefused, ProviderUnavailable
from refdesk.ports import Piece, Request
from refdesk.providers.llm import AnthropicLLM, OpenAILLM, WireLLM, closed
from refdesk.providers.wire import Endpoint
from wire_server import WireServer

KEY = "sk-secret-0123456789abcdef"
REQUEST = Request("Cite every claim.", (Turn("user", "What does the anchor weigh?"),), 200, 0.3, 0.9)
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}, "score": {"type": "number", "minimum": 0}}}
BOTH = pytest.mark.parametrize("wire", ["openai", "anthropic"])


def make(server: WireServer, wire: str = "openai", model: str = "", **options: Any) -> WireLLM:
    if wire == "openai":
        return OpenAILLM(
            Endpoint(f"openai:{model or 'some-model'}", f"{server.url}/v1", KEY, "OPENAI_API_KEY", **options)
        )
    name = f"anthropic:{model or 'claude-sonnet-4-5'}"
    return AnthropicLLM(Endpoint(name, server.url, KEY, "ANTHROPIC_API_KEY", **options))


def collect(llm: WireLLM, request: Request = REQUEST) -> list[Piece]:
    async def run() -> list[Piece]:
        return [piece async for piece in llm.stream(request)]

    return asyncio.run(run())


def collect_until_error(llm: WireLLM, request: Request = REQUEST) -> tuple[str, ProviderError]:
    async def run() -> tuple[str, ProviderError]:
        text = ""
        try:
            async for piece in llm.stream(request):
                text += piece.text
        except ProviderError as error:
            return text, error
        raise AssertionError(f"no error after {text!r}")

    return asyncio.run(run())


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


# --- streaming


@BOTH
def test_text_comes_piece_by_piece_and_usage_with_the_last(server: WireServer, wire: str) -> None:
    server.say("The anchor weighs 350 kg. [1]", usage=(120, 9))
    pieces = collect(make(server, wire))
    assert [piece.text for piece in pieces] == ["The ", "anchor ", "weighs ", "350 ", "kg. ", "[1]", ""]
    assert pieces[-1].finish == "stop"
    assert pieces[-1].usage is not None
    assert (pieces[-1].usage.prompt_tokens, pieces[-1].usage.completion_tokens, pieces[-1].usage.calls) == (120, 9, 1)
    assert {piece.model for piece in pieces} == {make(server, wire).name}


@BOTH
def test_the_first_piece_comes_before_the_last_is_written(server: WireServer, wire: str) -> None:
    come: list[str] = []  # read while it grows
    server.say(pieces=["a", "b", "c"], when=lambda: len(come) >= server.requests[0].pieces_sent)

    async def run() -> None:
        nonlocal come
        async for piece in make(server, wire, timeout_s=20).stream(REQUEST):
            come += [piece.text]

    asyncio.run(run())
    assert come == ["a", "b", "c", ""]


@BOTH
@pytest.mark.parametrize("split", [1, 2, 3, 7, 50])
def test_bytes_cut_anywhere_with_noise_between(server: WireServer, wire: str, split: int) -> None:
    text = "Größe: 12 µm — 日本語 🙂 [1]"
    server.say(text, split=split, noise=True, reasoning="the user wants …")
    assert text_of(collect(make(server, wire))) == text


def test_openai_request_is_what_is_documented(server: WireServer) -> None:
    server.say("ok")
    collect(make(server))
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "some-model",
        "messages": [
            {"role": "system", "content": "Cite every claim."},
            {"role": "user", "content": "What does the anchor weigh?"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 200,
        "temperature": 0.3,
        "top_p": 0.9,
    }


def test_pictures_go_with_the_words(server: WireServer) -> None:
    turn = Turn("user", ["What is this?", Image(b"pixels")])
    assert (turn.content, turn.images) == ("What is this?", (Image(b"pixels"),))
    text = {"type": "text", "text": "What is this?"}
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,cGl4ZWxz"}}
    source = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cGl4ZWxz"}}
    for wire, packed in (("openai", url), ("anthropic", source)):
        server.say("ok")
        collect(make(server, wire), Request("", (turn,), 100))
        assert server.requests[-1].json["messages"] == [{"role": "user", "content": [text, packed]}]


def test_anthropic_request_is_what_is_documented(server: WireServer) -> None:
    server.say("ok")
    turns = (Turn("assistant", "Ask!"), Turn("user", "One?"), Turn("assistant", " "), Turn("user", "Two?"))
    collect(make(server, "anthropic"), Request("Be brief.", turns, 0, 1.5, 0.9, stop=("END", " ")))
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in request.headers
    assert request.json == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 4096,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "One?"}, {"role": "user", "content": "Two?"}],
        "stream": True,
        "temperature": 1.0,
        "stop_sequences": ["END"],
    }


@BOTH
def test_cut_by_the_limit_is_length(server: WireServer, wire: str) -> None:
    server.say("The anchor", finish="length")
    assert collect(make(server, wire))[-1].finish == "length"


@BOTH
def test_usage_that_is_not_said_is_counted_roughly(server: WireServer, wire: str) -> None:
    server.say("x" * 40, usage=None)
    usage = collect(make(server, wire))[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (11, 10)  # 44 and 40 characters


def test_cost_by_the_price_list_and_none_for_an_unknown_model_of_this_machine(server: WireServer) -> None:
    server.say("ok", usage=(1_000_000, 0), times=2)
    assert collect(make(server, model="gpt-4o-mini"))[-1].usage == Usage(1_000_000, 0, 0.15, 1)
    assert collect(make(server, model="my-own"))[-1].usage == Usage(1_000_000, 0, 0.0, 1)


@BOTH
def test_a_server_that_does_not_stream(server: WireServer, wire: str) -> None:
    body: dict[str, Any] = {"choices": [{"message": {"content": "All at once."}, "finish_reason": "stop"}]}
    if wire == "anthropic":
        body = {"type": "message", "content": [{"type": "text", "text": "All at once."}], "stop_reason": "end_turn"}
    server.raw(json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    assert text_of(collect(make(server, wire))) == "All at once."


# --- JSON of a given shape


def test_schema_over_openai(server: WireServer) -> None:
    server.say('{"verdict": "supported", "score": 1}')
    request = Request("Judge.", REQUEST.messages, 50, schema=SCHEMA)
    assert json.loads(text_of(collect(make(server), request))) == {"verdict": "supported", "score": 1}
    form = server.requests[0].json["response_format"]
    assert (form["type"], form["json_schema"]["strict"]) == ("json_schema", True)
    assert form["json_schema"]["schema"] == {
        "type": "object",
        "properties": {"verdict": {"type": "string"}, "score": {"type": "number", "minimum": 0}},
        "required": ["verdict", "score"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("model, uses_tool", [("claude-3-5-haiku-latest", True), ("claude-sonnet-4-5", False)])
def test_schema_over_anthropic(server: WireServer, model: str, uses_tool: bool) -> None:
    server.say('{"verdict": "supported", "score": 1}', split=5)
    request = Request("Judge.", REQUEST.messages, 50, schema=SCHEMA)
    pieces = collect(make(server, "anthropic", model), request)
    assert json.loads(text_of(pieces)) == {"verdict": "supported", "score": 1}
    assert pieces[-1].finish == "stop"
    sent = server.requests[0].json
    assert ("tools" in sent, "output_config" in sent) == (uses_tool, not uses_tool)
    if not uses_tool:
        assert "minimum" not in json.dumps(sent["output_config"]), "structured outputs refuse limits"


def test_properties_named_like_keywords_are_kept() -> None:
    schema = {
        "type": "object",
        "properties": {"minimum": {"type": "array", "items": {"properties": {}}, "minItems": 2}},
    }
    assert closed(schema, {"minItems", "minimum"}) == {
        "type": "object",
        "properties": {
            "minimum": {"type": "array", "items": {"properties": {}, "required": [], "additionalProperties": False}}
        },
        "required": ["minimum"],
        "additionalProperties": False,
    }


# --- servers that refuse what others take


@pytest.mark.parametrize("field", ["stream_options", "temperature", "top_p", "stop"])
def test_a_field_that_is_refused_is_left_out_and_not_sent_again(server: WireServer, field: str) -> None:
    server.refused_fields = {field}
    server.say("ok", times=2)
    llm = make(server)
    request = Request("s", REQUEST.messages, 10, 0.3, 0.9, stop=("END",))
    assert text_of(collect(llm, request)) == "ok"
    assert text_of(collect(llm, request)) == "ok"
    assert [field in one.json for one in server.requests] == [True, False, False]


def test_stream_options_refused_without_being_named(server: WireServer) -> None:
    server.fail(422, "extra fields not permitted")
    server.say("ok")
    assert text_of(collect(make(server))) == "ok"
    assert "stream_options" not in server.requests[1].json


def test_the_newer_name_of_the_token_limit(server: WireServer) -> None:
    told = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    server.fail(400, told)
    server.say("ok")
    collect(make(server))
    assert server.requests[1].json["max_completion_tokens"] == 200
    assert "max_tokens" not in server.requests[1].json


def test_schema_refused_becomes_any_json_and_then_words(server: WireServer) -> None:
    server.fail(400, "This model does not support response format `json_schema`")
    server.fail(400, "response_format is not supported")
    server.say("{}")
    collect(make(server), Request("Judge.", REQUEST.messages, 50, schema=SCHEMA))
    kinds = [one.json.get("response_format", {}).get("type") for one in server.requests]
    assert kinds == ["json_schema", "json_object", None]
    assert '"verdict"' in server.requests[2].system


def test_anthropic_model_that_keeps_its_temperature(server: WireServer) -> None:
    server.fail(400, "`temperature` is deprecated for this model.")
    server.say("ok", times=2)
    llm = make(server, "anthropic")
    collect(llm)
    collect(llm)
    assert ["temperature" in one.json for one in server.requests] == [True, False, False]


def test_anthropic_without_structured_output_is_made_to_call_a_tool(server: WireServer) -> None:
    server.fail(400, "output_config: structured outputs are not supported by this model")
    server.say('{"verdict": "no"}')
    request = Request("Judge.", REQUEST.messages, 50, schema=SCHEMA)
    assert text_of(collect(make(server, "anthropic"), request)) == '{"verdict": "no"}'
    assert server.requests[1].json["tool_choice"] == {"type": "tool", "name": "answer"}


def test_a_lesson_that_does_not_help_is_forgotten(server: WireServer) -> None:
    server.fail(400, "no", times=2)
    server.say("ok")
    llm = make(server)
    _, error = collect_until_error(llm)
    assert isinstance(error, ProviderRefused)
    collect(llm)
    assert "stream_options" in server.requests[2].json


def test_models_that_think_keep_their_sampling_and_get_room_for_thoughts() -> None:
    body = OpenAILLM(Endpoint("openai:gpt-5-mini", "")).payload(REQUEST)
    assert "temperature" not in body and "top_p" not in body and "max_tokens" not in body
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (200 + 4096, "low")


# --- errors


@BOTH
@pytest.mark.parametrize(
    "status, kind, hint",
    [
        (400, ProviderRefused, "use another model"),
        (401, ProviderRefused, "_API_KEY"),
        (403, ProviderRefused, "_API_KEY"),
        (404, ProviderRefused, "check the model's name"),
        (422, ProviderRefused, "use another model"),
        (301, ProviderRefused, "base URL"),
        (429, ProviderUnavailable, "fallback"),
        (500, ProviderUnavailable, "fallback"),
        (503, ProviderUnavailable, "fallback"),
    ],
)
def test_statuses(server: WireServer, wire: str, status: int, kind: type[ProviderError], hint: str) -> None:
    server.fail(status, f"context: the key {KEY} is wrong", times=2)
    text, error = collect_until_error(make(server, wire))
    assert (text, type(error)) == ("", kind)
    assert str(status) in str(error) and "the key … is wrong" in str(error)
    assert hint in error.hint
    assert error.retryable == (kind is ProviderUnavailable)


def test_retry_after(server: WireServer) -> None:
    server.fail(429, retry_after=7)
    _, error = collect_until_error(make(server))
    assert isinstance(error, ProviderUnavailable) and error.retry_after_s == 7


def test_an_account_without_credit_is_not_tried_again(server: WireServer) -> None:
    server.fail(429, "You exceeded your current quota", code="insufficient_quota")
    _, error = collect_until_error(make(server))
    assert isinstance(error, ProviderRefused)
    assert error.hint == "the account behind OPENAI_API_KEY has no credit left"


def test_no_server(server: WireServer) -> None:
    llm = OpenAILLM(Endpoint("openai:m", "http://127.0.0.1:9/v1", KEY))
    _, error = collect_until_error(llm)
    assert isinstance(error, ProviderUnavailable)
    assert str(error).startswith("openai:m could not be reached at 127.0.0.1:9")


@BOTH
@pytest.mark.parametrize("how", ["cut", "malformed", "error_in_stream", "silent"])
def test_a_stream_that_breaks_is_interrupted_once_text_has_begun(server: WireServer, wire: str, how: str) -> None:
    for text in ("The anchor wei", ""):
        if how == "silent":
            server.say(text, ending="silent")
        else:
            getattr(server, how)(text)
    text, error = collect_until_error(make(server, wire))
    assert (text, type(error)) == ("The anchor wei", ProviderInterrupted)
    text, error = collect_until_error(make(server, wire))
    assert (text, type(error)) == ("", ProviderUnavailable)


@BOTH
def test_time_out_to_the_first_word_and_between_words(server: WireServer, wire: str) -> None:
    server.hang()
    server.hang("The anchor")
    for text, kind in (("", ProviderUnavailable), ("The anchor", ProviderInterrupted)):
        got, error = collect_until_error(make(server, wire, timeout_s=1.0))
        assert (got, type(error)) == (text, kind)
        assert "1 s" in str(error)
    assert server.wait_for_disconnect(0) and server.wait_for_disconnect(1)


@BOTH
def test_a_slow_stream_is_no_time_out(server: WireServer, wire: str) -> None:
    server.say("a b c d e f", delay=0.7)
    assert text_of(collect(make(server, wire, timeout_s=3.5))) == "a b c d e f"


@pytest.mark.parametrize("sign", [b": keep-alive\n\n", b'event: ping\ndata: {"type": "ping"}\n\n'])
def test_keep_alives_are_no_sign_of_life(server: WireServer, sign: bytes) -> None:
    server.raw(*[sign] * 400, delay=0.1)
    _, error = collect_until_error(make(server, "anthropic", timeout_s=0.4))
    assert isinstance(error, ProviderUnavailable)
    assert server.wait_for_disconnect(), "it left before the last sign"


def test_thoughts_are_a_sign_of_life(server: WireServer) -> None:
    thought = b'data: {"choices": [{"delta": {"reasoning": "hm"}}]}\n\n'
    answer = b'data: {"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}\n\n'
    server.raw(*[thought] * 5, answer, delay=0.7)
    assert text_of(collect(make(server, timeout_s=3.5))) == "yes"


@BOTH
def test_a_connection_left_open_after_the_last_event_is_not_waited_for(server: WireServer, wire: str) -> None:
    last = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n'
    if wire == "anthropic":
        delta = b'data: {"type": "content_block_delta", "delta": {"text": "a"}}\n\n'
        last = delta + b'event: message_stop\ndata: {"type": "message_stop"}\n\n'
    server.raw(last, ending="hang")
    assert text_of(collect(make(server, wire, timeout_s=3600))) == "a"  # pytest's own limit is far below


# --- the connection ends with the reader


@BOTH
def test_closing_the_iterator_ends_the_request(server: WireServer, wire: str) -> None:
    server.say("word " * 500, delay=0.02)

    async def run() -> bool:
        async with aclosing(make(server, wire).stream(REQUEST)) as pieces:
            async for _ in pieces:
                break
        return await asyncio.to_thread(server.wait_for_disconnect)  # while the loop goes on

    assert asyncio.run(run())
    assert server.requests[0].pieces_sent < 50


@BOTH
@pytest.mark.parametrize("after", ["the_first_word", "nothing_yet"])
def test_cancelling_the_task_ends_the_request(server: WireServer, wire: str, after: str) -> None:
    if after == "nothing_yet":
        server.hang()
    else:
        server.hang("The")

    async def run() -> bool:
        async def read() -> None:
            async for _ in make(server, wire).stream(REQUEST):
                pass

        task = asyncio.create_task(read())
        has_begun = server.requests.__len__ if after == "nothing_yet" else lambda: server.requests[0].pieces_sent
        while not (server.requests and has_begun()):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.to_thread(server.wait_for_disconnect)  # while the loop goes on

    assert asyncio.run(run())


def test_many_at_once_over_one_loop(server: WireServer) -> None:
    server.answer_by(lambda request: request.question * 3)
    llm = make(server)

    async def one(number: int) -> str:
        request = Request("", (Turn("user", f"{number} "),), 5)
        return "".join([piece.text async for piece in llm.stream(request)])

    async def run() -> list[str]:
        return await asyncio.gather(*map(one, range(20)))

    assert asyncio.run(run()) == [f"{number} " * 3 for number in range(20)]


def test_a_server_on_this_machine_is_reached_past_any_proxy(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.say("ok")
    assert text_of(collect(make(server))) == "ok"


def test_a_proxy_that_cannot_be_used_gets_one_sentence(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "carrier-pigeon://127.0.0.1:9")
    _, error = collect_until_error(make(server))
    assert isinstance(error, ProviderRefused)
    assert "ALL_PROXY" in error.hint


# --- secrets


def test_the_key_is_nowhere(server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.key = "another"
    llm = make(server)
    _, error = collect_until_error(llm)
    assert isinstance(error, ProviderRefused)
    shown = f"{error} {error.hint} {error.to_dict()} {llm!r} {llm.endpoint!r} {error.__cause__!r}"
    assert KEY not in shown and KEY not in caplog.text


def test_a_key_that_the_provider_repeats_in_its_own_way(server: WireServer) -> None:
    server.fail(401, "Incorrect API key provided: sk-proj-****************cdef.")
    _, error = collect_until_error(make(server))
    assert "cdef" not in str(error) and "Incorrect API key provided: …" in str(error)


# --- events


def chunk_of(text: str, finish: str = "null") -> bytes:
    return f'{{"choices": [{{"delta": {{"content": "{text}"}}, "finish_reason": {finish}}}]}}'.encode()


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("split", [1, 3, 0])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_events_of_every_line_ending_cut_anywhere(server: WireServer, ending: bytes, split: int, mark: bytes) -> None:
    """With comments, fields that carry nothing, data without a space and data on two lines between."""
    halves = chunk_of("ä🙂\u2028", '"stop"').replace(b'"delta"', b'"delta"\n', 1).split(b"\n")
    lines = [b"data: " + chunk_of("a"), b"", b": note", b"event: x", b"id: 1", b"", b"data:" + chunk_of("b"), b""]
    lines += [b"data: " + halves[0], b"data: " + halves[1], b"", b"data: [DONE]", b"", b""]
    server.raw(mark + ending.join(lines), split=split)
    assert text_of(collect(make(server))) == "abä🙂\u2028"


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream"])
def test_a_stream_under_another_name_is_read(server: WireServer, kind: str) -> None:
    server.raw(b"data: " + chunk_of("ok", '"stop"') + b"\n\n", headers={"Content-Type": kind})
    assert text_of(collect(make(server))) == "ok"


def test_an_event_without_end_is_not_read_to_its_end(server: WireServer) -> None:
    server.raw(b"data: ", *[b"x" * (1 << 20)] * 20, ending="hang")
    _, error = collect_until_error(make(server))
    assert isinstance(error, ProviderUnavailable) and "endless event" in str(error)
    assert server.wait_for_disconnect()


@pytest.mark.parametrize(
    "chunk, text",
    [
        pytest.param({"choices": [{"delta": {"reasoning_content": "hm", "content": None}}]}, "", id="thoughts"),
        pytest.param(
            {"choices": [{"delta": {"content": [{"type": "thinking"}, {"type": "text", "text": "a"}]}}]},
            "a",
            id="parts",
        ),
        pytest.param({"choices": [{"delta": {"tool_calls": [{}]}}]}, "", id="tool_calls"),
        pytest.param({"choices": [{"delta": None, "finish_reason": "stop"}]}, "", id="no_delta"),
        pytest.param({"choices": None}, "", id="no_choices"),
    ],
)
def test_chunks_of_many_kinds(chunk: dict[str, Any], text: str) -> None:
    assert OpenAILLM(Endpoint("openai:m", "")).read(chunk).text == text


def test_usage_where_thoughts_are_only_in_the_total() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}
    assert OpenAILLM(Endpoint("openai:m", "")).read({"choices": [], "usage": usage}).usage == Usage(10, 30)
