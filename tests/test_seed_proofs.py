"""What seeds promise and only a whole answer can prove: true figures, right places, levels that do what they say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from http_server import serving
from refdesk import Refdesk
from wire_server import Recorded, Reply, WireServer

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
WRITER, VERIFIER = (600, 20), (300, 9)  # tokens that the server says it has read and written


def is_check(request: Recorded) -> bool:
    return "verdict" in request.system or "verdict" in request.question


def writing(request: Recorded) -> Reply:
    """The answer with the number of the passage that holds it, or a verdict on it."""
    if is_check(request):
        verdicts = {"verdicts": [{"claim": 1, "verdict": "supported", "reason": ""}]}
        return Reply(pieces=[json.dumps(verdicts)], usage=VERIFIER)
    if "cast iron sinker" not in request.question:
        return Reply(pieces=["[]"], usage=WRITER)
    before = request.question[: request.question.index("cast iron sinker")]
    number = re.findall(r"^\[(\d+)\]", before, re.MULTILINE)[-1]
    return Reply(pieces=[f"The anchor weighs 350 kg [{number}]."], usage=WRITER)


@pytest.fixture
def with_model(own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    for name, value in server.openai_env("gpt-4o", verifier="gpt-4o-mini").items():
        monkeypatch.setenv(name, value)
    server.answer_by(writing)

    def ask(**fields: Any) -> dict[str, Any]:
        with Refdesk(own_folder) as desk, serving(desk) as http:
            found: dict[str, Any] = http.post("/api/query", json={"q": QUESTION, "cache": False, **fields}).json()
            return found

    return ask


def test_metrics_are_those_of_this_answer(with_model: Callable[..., Any], server: WireServer) -> None:
    answer = with_model(top_k=6, max_context_chars=6000)
    told, usage = answer["metrics"], answer["metadata"]["usage"]
    assert told["model"] == answer["metadata"]["model"] == "openai:gpt-4o"
    writer = next(one for one in server.requests if not is_check(one))
    assert 0 < told["context_length"] <= len(writer.question) + len(writer.system) <= 6000
    assert 1 <= told["chunks_retrieved"] == answer["metadata"]["chunksRetrieved"] <= 6
    read, written = WRITER[0] + VERIFIER[0], WRITER[1] + VERIFIER[1]
    assert usage == {"promptTokens": read, "completionTokens": written}
    assert told["tokens_used"]["total_tokens"] == read + written
    assert 0 < told["llm_latency_ms"] < told["total_latency_ms"] and told["retrieval_latency_ms"] > 0
    assert told["retrieval_latency_ms"] + told["llm_latency_ms"] <= told["total_latency_ms"]
    assert answer["query_id"] == answer["id"] and answer["answer"] == answer["content"]


def test_a_citation_points_at_the_chunk_that_holds_its_words(examples: Refdesk) -> None:
    """In every way that a seed names it: by document, chunk, page, section and box."""
    with serving(examples) as http:
        answer = http.post("/api/query", json={"q": QUESTION, "cache": False}).json()
    cited, source = answer["citations"][0], answer["sources"][0]
    document = examples.document(cited["document_name"])
    assert cited["doc_id"] == cited["document_id"] == source["document_id"] == document.id
    assert source["doc_name"] == document.name
    chunk = next(one for one in examples.chunks(document.id) if one.sequence == source["chunk_sequence"])
    assert source["chunk_id"] == cited["chunk_id"] == chunk.id
    assert source["heading_path"] == " > ".join(chunk.heading_path)
    words = " ".join(cited["quote"].split())
    assert "350 kg" in words and words in " ".join(chunk.text.split())
    assert cited["page"] in chunk.pages and source["page_number"] in chunk.pages
    page = next(one for one in examples.pages(document.id) if one.page.number == cited["page"])
    assert words in " ".join(page.text.split())
    assert source["snippet"] == cited["quote"][:200]
    found = {hit.chunk.id: hit.cosine for hit in examples.search(QUESTION, k=50)}
    assert cited["similarity"] == pytest.approx(found[chunk.id], abs=0.02)
    box = cited["bbox"]
    assert box["width"] > 0 and box["height"] > 0
    assert all(one["page"] == cited["page"] for one in cited["boxes"][:1])


@pytest.mark.parametrize(
    ("level", "asked"),
    [
        pytest.param("standard", set(), id="standard"),
        pytest.param("enhanced", {"graph", "multi_hop"}, id="enhanced"),
        pytest.param("maximum", {"graph", "fusion", "multi_hop", "hierarchical", "late_interaction"}, id="maximum"),
    ],
)
def test_a_level_asks_its_engines(examples: Refdesk, level: str, asked: set[str]) -> None:
    answer = examples.ask_sync(QUESTION, level=level, cache=False)
    stages = examples.trace(answer.id)["stages"]
    engines = {"graph", "fusion", "multi_hop", "hierarchical", "late_interaction", "survey"}
    assert {one["name"] for one in stages} & engines == asked
    assert {one["name"] for one in stages if one["output"].get("hits", 0) > 0} & engines == asked
    assert "350 kg" in answer.content


def test_a_level_checks_as_it_says(with_model: Callable[..., Any], server: WireServer) -> None:
    """`basic` asks nobody; `standard` has a second model read the answer; `enhanced` also reasons before it writes."""
    seen = {}
    for level in ("basic", "standard", "enhanced"):
        server.requests.clear()
        answer = with_model(level=level)
        checks = [one for one in server.requests if is_check(one)]
        written = [one for one in server.requests if one.model == "gpt-4o" and not is_check(one)]
        seen[level] = written[-1].system
        assert [one.model for one in checks] == ([] if level == "basic" else ["gpt-4o-mini"])
        assert all("350 kg" in one.question and "cast iron sinker" in one.question for one in checks)
        assert answer["claims"] and {one["verdict"] for one in answer["claims"]} == {"supported"}
        assert answer["verification"]["status"] == ("verified" if checks else answer["verification"]["status"])
    assert seen["enhanced"] != seen["standard"] and len(seen["enhanced"]) > len(seen["standard"])
