"""The HTTP embedder against a real server on this machine."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from embedding_endpoint import DIMENSIONS, Endpoint, Reply, running_endpoint, unit, vector_of
from refdesk.errors import ModelError, UsageError
from refdesk.providers.extras import HttpEmbedder
from refdesk.types import Chunk, Sentence


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with running_endpoint() as found:
        yield found


def embedder(endpoint: Endpoint, **options: Any) -> HttpEmbedder:
    return HttpEmbedder("some-model", endpoint.url, "secret-key", **({"pause_s": 0.01} | options))


def chunk(text: str, *sentences: str, context: str = "") -> Chunk:
    ranges = tuple(Sentence(text.index(part), text.index(part) + len(part), 1) for part in sentences)
    return Chunk("d", 1, "text", text, (), (1,), (), ranges, 0, context=context)


def test_query_is_a_unit_vector_and_the_request_is_what_openai_documents(endpoint: Endpoint) -> None:
    vector = embedder(endpoint).embed_query("Which pump?")
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, unit("Which pump?"), atol=1e-6)
    (request,) = endpoint.requests
    assert request == {
        "model": "some-model",
        "input": ["Which pump?"],
        "encoding_format": "float",
        "path": "/v1/embeddings",
    }
    assert endpoint.headers[0]["Authorization"] == "Bearer secret-key"


def test_chunks_and_sentences_come_back_in_order_from_several_requests(endpoint: Endpoint) -> None:
    chunks = [chunk(f"Pump {i} failed. It was old {i}.", f"Pump {i} failed.", f"It was old {i}.") for i in range(40)]
    embedded = embedder(endpoint).embed_chunks(chunks)
    assert [len(request["input"]) for request in endpoint.requests] == [64, 56]
    for i, one in enumerate(embedded):
        np.testing.assert_allclose(one.vector, unit(chunks[i].text), atol=1e-6)
        expected = np.stack([unit(f"Pump {i} failed."), unit(f"It was old {i}.")])
        np.testing.assert_array_equal(one.sentences, np.rint(expected * 127).astype(np.int8))


def test_context_is_read_with_the_chunk_and_the_same_text_is_sent_once(endpoint: Endpoint) -> None:
    one = chunk("Pumps fail.", "Pumps fail.", context="Manual › Pumps")
    embedder(endpoint).embed_chunks([one, chunk("Pumps fail.", "Pumps fail.")])
    assert endpoint.requests[0]["input"] == ["Manual › Pumps\nPumps fail.", "Pumps fail."]


def test_no_chunks_and_no_sentences(endpoint: Endpoint) -> None:
    assert embedder(endpoint).embed_chunks([]) == []
    assert endpoint.requests == []
    assert embedder(endpoint).embed_chunks([chunk("Pumps")])[0].sentences.shape == (0, DIMENSIONS)


def test_empty_text_is_never_sent(endpoint: Endpoint) -> None:
    assert embedder(endpoint).embed_query("").shape == (DIMENSIONS,)
    assert endpoint.requests[0]["input"] == ["."]


def test_half_a_surrogate_pair_is_sent_as_a_question_mark(endpoint: Endpoint) -> None:
    embedder(endpoint).embed_query("a\ud800b")
    assert endpoint.requests[0]["input"] == ["a?b"]


def test_long_text_is_cut_to_the_window(endpoint: Endpoint) -> None:
    embedder(endpoint, max_tokens=12).embed_query("pump " * 50)
    assert endpoint.requests[0]["input"][0].split() == ["pump"] * 10


def test_base64_answers_are_read(endpoint: Endpoint) -> None:
    raw = base64.b64encode(np.array(vector_of("x"), dtype="<f4").tobytes()).decode()
    endpoint.answer = lambda request: {"data": [{"index": 0, "embedding": raw}]}
    np.testing.assert_allclose(embedder(endpoint).embed_query("x"), unit("x"), atol=1e-6)


def test_dimensions_are_learned_or_asked_for(endpoint: Endpoint) -> None:
    assert embedder(endpoint).dimensions == DIMENSIONS
    assert "dimensions" not in endpoint.requests[0]
    asked = embedder(endpoint, dimensions=DIMENSIONS)
    assert (asked.dimensions, asked.name, len(endpoint.requests)) == (DIMENSIONS, "some-model@8", 1)
    asked.embed_query("x")
    assert endpoint.requests[1]["dimensions"] == DIMENSIONS


def test_another_number_of_dimensions_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(ModelError, match="8 dimensions where 16 were expected"):
        embedder(endpoint, dimensions=16).embed_query("x")


@pytest.mark.parametrize(
    "failures",
    [
        pytest.param([Reply(429, b"slow down")], id="429:tried_again"),
        pytest.param([Reply(500, b""), Reply(503, b"<html>")], id="two_5xx:tried_again"),
        pytest.param([Reply(200, b"{}", **{"Content-Length": "99"})], id="connection_breaks:tried_again"),
    ],
)
def test_passing_failures_are_tried_again(endpoint: Endpoint, failures: list[Reply]) -> None:
    endpoint.script = list(failures)
    np.testing.assert_allclose(embedder(endpoint).embed_query("x"), unit("x"), atol=1e-6)
    assert len(endpoint.requests) == len(failures) + 1


def test_gives_up_after_three_tries_and_says_that_it_may_work_later(endpoint: Endpoint) -> None:
    endpoint.script = [Reply(500, b'{"error": {"message": "out of memory"}}')] * 5
    with pytest.raises(ModelError, match="answered 500: out of memory after 3 attempts") as caught:
        embedder(endpoint).embed_query("x")
    assert caught.value.retryable
    assert len(endpoint.requests) == 3


def waits(endpoint: Endpoint) -> list[float]:
    """The seconds between tries, as the endpoint has seen them."""
    return [after - before for before, after in pairwise(endpoint.moments)]


def test_waits_double_with_a_quarter_of_jitter(endpoint: Endpoint) -> None:
    endpoint.script = [Reply(500, b"")] * 2
    embedder(endpoint, pause_s=0.8).embed_query("x")
    first, second = waits(endpoint)
    # What a busy machine adds is not more than the difference to the next one.
    assert 0.75 * 0.8 <= first <= 1.25 * 0.8 + 0.5 and 0.75 * 1.6 <= second <= 1.25 * 1.6 + 0.5


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(endpoint: Endpoint, form: str) -> None:
    asked = "1" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)
    endpoint.script = [Reply(429, b"", Retry_After=asked)]
    embedder(endpoint).embed_query("x")
    (waited,) = waits(endpoint)
    assert waited > 0.5, "the wait that is not asked for has hundredths of a second"


def test_an_endpoint_that_wants_an_hour_is_given_up_at_once(endpoint: Endpoint) -> None:
    endpoint.script = [Reply(429, b"", Retry_After="3600")]
    with pytest.raises(ModelError, match="asks to wait 3600 s"):
        embedder(endpoint).embed_query("x")
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("reply", "message", "hint"),
    [
        pytest.param(Reply(400, b'{"error": {"message": "bad input"}}'), "answered 400: bad input", "", id="400"),
        pytest.param(Reply(401, b'{"error": "no secret-key"}'), "answered 401: no …", "API key", id="401:no_key_shown"),
        pytest.param(Reply(404, b"nope"), "answered 404: nope", "base URL", id="404"),
        pytest.param(Reply(302, b"", Location="http://127.0.0.1:9/"), "answered 302", "", id="redirect:not_followed"),
        pytest.param(Reply(200, b"<html>hello"), "unreadable answer", "", id="not_json"),
        pytest.param(Reply(200, b"[]"), "unreadable answer", "", id="json_of_another_shape"),
        pytest.param(Reply(200, b'{"data": []}'), "0 vectors for 1 texts", "", id="wrong_count"),
        pytest.param(Reply(200, b'{"data": [{"index": 3, "embedding": [1]}]}'), "index 3", "", id="wrong_index"),
        pytest.param(Reply(200, b'{"data": [{"embedding": "?"}]}'), "not base64", "", id="broken_base64"),
        pytest.param(Reply(200, b'{"data": [{"embedding": [[1]]}]}'), "unreadable answer", "", id="nested_vector"),
        pytest.param(Reply(200, b'{"data": [{"embedding": [0, 0]}]}'), "zero vector", "", id="zero_vector"),
    ],
)
def test_final_failures_are_one_clear_sentence(endpoint: Endpoint, reply: Reply, message: str, hint: str) -> None:
    endpoint.script = [reply]
    with pytest.raises(ModelError, match=message) as caught:
        embedder(endpoint).embed_query("x")
    assert hint in caught.value.hint
    assert "secret-key" not in caught.value.sentence
    assert not caught.value.retryable
    assert len(endpoint.requests) == 1


def test_a_slow_endpoint_runs_into_the_time_limit(endpoint: Endpoint) -> None:
    endpoint.script = [Reply(delay=0.6)] * 3
    with pytest.raises(ModelError, match=r"sent nothing for 0\.1 s after 3 attempts"):
        embedder(endpoint, timeout_s=0.1).embed_query("x")


def test_nobody_listens() -> None:
    closed = Endpoint()
    closed.server.server_close()
    with pytest.raises(ModelError, match=r"could not be reached at 127\.0\.0\.1") as caught:
        embedder(closed).embed_query("x")
    assert caught.value.retryable


@pytest.mark.parametrize("url", ["", "localhost:8080", "file:///etc/passwd", "http://"])
def test_base_url_must_be_http(url: str) -> None:
    with pytest.raises(UsageError, match="not an http or https address"):
        HttpEmbedder("m", url, "")


def test_tokens_are_counted_by_the_shipped_tokenizer(endpoint: Endpoint) -> None:
    assert embedder(endpoint).count_tokens(["Pumps fail.", ""]) == [3, 0]
    assert endpoint.requests == []
