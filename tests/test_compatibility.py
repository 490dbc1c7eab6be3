"""Clients, programs and environments of the five designs (docs/seeds.md) work as they are."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from http_server import Server, serving
from refdesk import Refdesk, UsageError
from refdesk.config import initial_settings, load_config, variable_of
from refdesk.models import PROVIDERS
from refdesk.settings import specs
from wire_server import WireServer

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
SEVERAL = "Why did the tide gauge drift?"  # three chunks answer it


@pytest.fixture(scope="module")
def served(examples: Refdesk) -> Iterator[Server]:
    with serving(examples) as found:
        yield found


# shapes


def test_there_is_a_source_for_every_cited_chunk(served: Server) -> None:
    answer = served.post("/api/query", json={"q": SEVERAL}).json()
    cited = {one["chunk_id"]: one for one in answer["citations"]}
    sources = answer["sources"]
    assert len(cited) > 1 and sorted(one["chunk_id"] for one in sources) == sorted(cited)
    for one in sources:
        assert one["doc_name"] == cited[one["chunk_id"]]["document_name"]
        assert one["chunk_sequence"] == cited[one["chunk_id"]]["chunk_sequence"] and one["markers"] and one["pages"]


def test_the_list_of_documents_has_sources_too(served: Server) -> None:
    answer = served.post("/api/query", json={"q": "Which documents are there?"}).json()
    assert len({one["document_id"] for one in answer["sources"]}) > 3 and not answer["citations"]
    assert all(one["doc_name"] for one in answer["sources"])


def test_relevance_is_what_hits_are_ranked_by_and_support_what_proves(served: Server, examples: Refdesk) -> None:
    answer = served.post("/api/query", json={"q": SEVERAL}).json()
    looked_at = {one["chunk_id"]: one for one in served.get(f"/api/traces/{answer['id']}").json()["passages"]}
    for one in answer["citations"]:
        if one["chunk_id"] in looked_at:
            assert one["relevance_score"] == pytest.approx(looked_at[one["chunk_id"]]["score"], abs=1e-3)
            assert one["similarity_score"] == pytest.approx(looked_at[one["chunk_id"]]["cosine"], abs=1e-3)
    scores = {one["relevance_score"] for one in answer["sources"]}
    assert len(scores) > 1 and all(0.0 < one <= 1.0 for one in scores), "a client can rank by it"
    assert all(0.0 < one["support_score"] <= 1.0 for one in answer["citations"])


def test_a_marker_has_its_brackets_beside_its_number(served: Server) -> None:
    answer = served.post("/api/query", json={"q": QUESTION}).json()
    assert all(
        one["label"] == f"[{one['marker']}]" and one["label"] in answer["content"] for one in answer["citations"]
    )


def test_how_sure_the_classification_is(examples: Refdesk) -> None:
    sure = examples.ask_sync("List all spare parts of the WB-7.", cache=False)
    plain = examples.ask_sync("spare parts of the WB-7", cache=False)
    assert sure.intent == "list" and 0.5 < plain.intent_confidence <= 1.0 and 0.5 < sure.intent_confidence <= 1.0
    stages = {one["name"]: one["output"] for one in examples.trace(sure.id)["stages"]}
    assert stages["classify"]["confidence"] == sure.intent_confidence
    assert sure.to_dict()["intent_confidence"] != plain.to_dict()["intent_confidence"]


def test_nothing_is_embedded_for_hello(examples: Refdesk) -> None:
    answer = examples.ask_sync("Hello!", cache=False)
    assert answer.route == "conversational"
    stages = {one["name"]: one["skipped"] for one in examples.trace(answer.id)["stages"]}
    assert stages["embed"] == "small talk" and "spell" not in stages


def test_every_event_says_its_type_where_that_is_asked_for(served: Server) -> None:
    body = {"message": QUESTION, "cache": False, "envelope": True}
    events = served.events("/api/chat/stream", body)
    assert all(set(data) == {"type", "data"} and data["type"] == name for name, data, _ in events)
    assert {data["type"] for _, data, _ in events} >= {"thinking", "sources", "content", "verification", "done"}
    assert events[-1][1]["data"]["traceUrl"].startswith("/api/traces/")
    assert served.events("/api/chat/stream", body, last=events[2][2]) == events[3:], "also when it is taken up again"


# names


def test_other_designs_names_of_the_same_fields(served: Server, examples: Refdesk) -> None:
    chosen = examples.document("budget-2026.xlsx").id
    body = {"query": QUESTION, "topK": 3, "document_ids": [chosen], "responseMode": "quick", "cache": False}
    answer = served.post("/api/query", json=body).json()
    assert answer["metadata"]["chunksRetrieved"] <= 3 and answer["response_mode"] == "quick"
    assert {one["document_id"] for one in answer["relatedDocs"]} <= {chosen}
    hits = served.post("/api/search", json={"q": "anchor", "document_ids": [chosen]}).json()["hits"]
    assert {one["document_id"] for one in hits} == {chosen}
    nowhere = served.post("/api/query", json={"q": QUESTION, "collection_name": "nowhere"}).json()
    assert nowhere["confidence"]["reason"] == "there are no documents to search"


def test_one_field_under_two_names_is_refused(served: Server) -> None:
    response = served.post("/api/query", json={"q": QUESTION, "topK": 3, "top_k": 4})
    assert response.status_code == 400 and "'topK' and 'top_k' are the same field" in response.json()["message"]
    response = served.post("/api/query", json={"q": QUESTION, "topK": 0})
    assert response.status_code == 400 and "topK" in response.json()["message"]


def test_collections_have_labels(own_examples: Refdesk) -> None:
    own_examples.add_text("wages.txt", "Wages are paid on the 25th of each month.", collection="hr/pay/2026")
    own_examples.change_settings({"serve.labels": "hr/pay = Pay and pensions, default=Handbooks"})
    with serving(own_examples) as server:
        answer = server.post("/api/query", json={"q": "When are wages paid?"}).json()
        assert {"Pay and pensions"} <= {one["category"] for one in answer["relatedDocs"]}
        labels = {one["name"]: one["label"] for one in server.get("/api/collections").json()["collections"]}
        assert labels == {"default": "Handbooks", "hr/pay/2026": "Pay and pensions"}
    with pytest.raises(UsageError, match="'nonsense', which is not COLLECTION=LABEL"):
        own_examples.change_settings({"serve.labels": "nonsense"})


def test_a_document_is_indexed_on_demand(own_examples: Refdesk) -> None:
    found = own_examples.document("budget-2026.xlsx")
    with serving(own_examples) as server:
        said = server.post("/api/ingest/index", params={"doc_id": found.id}).json()
        assert said["status"] == "ready" and said["indexed"] == said["chunks"] == len(own_examples.chunks(found.id)) > 0
        assert server.post("/api/ingest/index", params={"doc_id": "nowhere"}).status_code == 404
        assert server.post("/api/ingest/index").status_code == 400


# the environment


FORMS = {"serve.labels": "hr=Staff", "prompt.collection_rules": '{"hr": "Be kind."}'}  # texts with a form of their own


def test_every_setting_can_be_given_by_the_environment(tmp_path: Path) -> None:
    for spec in specs():
        other = spec.default
        if spec.choices:
            other = next(one for one in spec.choices if one != spec.default)
        elif isinstance(spec.default, bool):
            other = not spec.default
        elif isinstance(spec.default, int | float):
            other = spec.default + 1 if spec.maximum is None or spec.default + 1 <= spec.maximum else spec.minimum
        elif spec.name in FORMS:
            other = FORMS[spec.name]
        else:
            other = "openai:other" if spec.name.startswith("llm.") else "x"
        config = load_config(tmp_path, {variable_of(spec.name): str(other)})
        kept = {name: value for name, value, _ in initial_settings(config)[0].items()}
        role = spec.name.replace(".", "_")
        assert str(other) in (str(kept[spec.name]), getattr(config, role, None)), spec.name


def test_a_wrong_value_in_the_environment_gets_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REFDESK_RAG_TOP_K", "many")
    with pytest.raises(UsageError, match=r"REFDESK_RAG_TOP_K: rag\.top_k must be a whole number, not 'many'"):
        Refdesk(tmp_path)
    monkeypatch.setenv("REFDESK_RAG_TOP_K", "7")
    monkeypatch.setenv("RELEVANCE_THRESHOLD", "high")  # of another program
    with caplog.at_level(logging.WARNING, "refdesk"), Refdesk(tmp_path) as desk:
        assert desk.settings.top_k == 7 and desk.settings.similarity_threshold == 0.35
        places = {one["name"]: one["from"] for one in desk.list_settings()}
        assert places["rag.top_k"] == "environment" and places["rag.rrf_k"] == "default"
        desk.change_settings({"rag.top_k": 8})
        assert desk.settings.top_k == 8, "the library's own settings go before the environment"
    assert "RELEVANCE_THRESHOLD is ignored" in caplog.text


SEED_002 = {
    "RETRIEVAL_TOP_K": ("rag.top_k", "4", 4),
    "RELEVANCE_THRESHOLD": ("rag.similarity_threshold", "0.15", 0.15),
    "MAX_CONTEXT_TOKENS": ("rag.max_context_tokens", "2000", 2000),
    "LLM_TEMPERATURE": ("answer.temperature", "0.3", 0.3),
    "LLM_MAX_TOKENS": ("answer.max_tokens", "500", 500),
}


@pytest.mark.parametrize("variable", SEED_002)
def test_variables_of_seed_002(tmp_path: Path, variable: str) -> None:
    name, text, value = SEED_002[variable]

    def kept(environment: dict[str, str]) -> Any:
        return {one: found for one, found, _ in initial_settings(load_config(tmp_path, environment))[0].items()}[name]

    assert kept({variable: text}) == value != kept({})
    (tmp_path / "refdesk.toml").write_text(f'[settings]\n"{name}" = 1\n')
    assert kept({variable: text}) == 1, "what is said to Refdesk itself goes first"


@pytest.mark.parametrize(
    ("environment", "model", "address"),
    [
        ({"LLM_MODEL": "m"}, "", ""),
        ({"LLM_API_KEY": "k"}, "", ""),
        ({"LLM_MODEL": "m", "LLM_API_KEY": "k"}, "groq:m", "https://api.groq.com/openai/v1"),
        ({"LLM_MODEL": "m", "LLM_BASE_URL": "http://box:8000/v1"}, "openai:m", "http://box:8000/v1"),
        ({"LLM_MODEL": "m", "LLM_BASE_URL": "https://api.mistral.ai/v1/", "LLM_API_KEY": "k"}, "mistral:m", ""),
        ({"LLM_MODEL": "m", "LLM_PROVIDER": "Anthropic", "LLM_API_KEY": "k"}, "anthropic:m", ""),
        ({"LLM_MODEL": "ollama:qwen2.5:7b"}, "ollama:qwen2.5:7b", ""),
        ({"LLM_MODEL": "m", "LLM_PROVIDER": "nobody", "LLM_API_KEY": "k"}, "", ""),
        ({"LLM_MODEL": "m", "LLM_API_KEY": "k", "REFDESK_LLM": "ollama:x"}, "ollama:x", ""),
    ],
)
def test_the_model_of_seeds_002_and_003(tmp_path: Path, environment: dict[str, str], model: str, address: str) -> None:
    config = load_config(tmp_path, environment)
    assert config.llm == model
    if address:
        access = config.access(PROVIDERS[model.partition(":")[0]])
        assert access.base_url == address and access.api_key == environment.get("LLM_API_KEY", "")


def test_their_key_goes_to_their_provider_only(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"LLM_MODEL": "m", "LLM_API_KEY": "k", "LLM_PROVIDER": "groq"})
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        config.access(PROVIDERS["openai"])
    own = load_config(tmp_path, {"LLM_MODEL": "m", "LLM_API_KEY": "k", "REFDESK_LLM": "groq:other"})
    with pytest.raises(UsageError, match="GROQ_API_KEY is not set"):
        own.access(PROVIDERS["groq"])


def test_a_question_by_the_variables_of_seed_002(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"LLM_MODEL": "llama-3.1-8b-instant", "LLM_BASE_URL": f"{server.url}/v1", "LLM_API_KEY": "sk-seed"}
    for name, value in (named | {"LLM_TEMPERATURE": "0.3", "LLM_MAX_TOKENS": "500"}).items():
        monkeypatch.setenv(name, value)
    server.say("The anchor weighs 350 kg [1].")
    with Refdesk(own_folder) as desk:
        desk.ask_sync(QUESTION, cache=False)
    (sent,) = server.requests
    assert sent.key == "sk-seed" and sent.json["temperature"] == 0.3 and sent.json["max_tokens"] == 500


# sampling


@pytest.mark.parametrize("is_anthropic", [False, True], ids=["openai", "anthropic"])
def test_the_number_of_words_to_choose_among_is_sent(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, is_anthropic: bool
) -> None:
    for name, value in (server.anthropic_env("claude-3-test") if is_anthropic else server.openai_env()).items():
        monkeypatch.setenv(name, value)
    server.answer_by(lambda request: "The anchor weighs 350 kg [1].")
    with Refdesk(own_folder) as desk:
        desk.ask_sync(QUESTION, cache=False, settings={"answer.sampling_top_k": 40})
        desk.ask_sync(QUESTION, cache=False)
        server.refused_fields.add("top_k")
        desk.ask_sync(QUESTION, cache=False, settings={"answer.sampling_top_k": 40})
    sent = [one.json.get("top_k") for one in server.requests]
    assert sent == [40, None, 40, None], "one that refuses it is asked again without"


# what was found a moment ago


def stages(desk: Refdesk, answer_id: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in desk.trace(answer_id)["stages"]}


def test_hits_are_found_once(own_examples: Refdesk) -> None:
    first = own_examples.ask_sync(QUESTION)
    other = own_examples.ask_sync(QUESTION, response_mode="thorough", settings={"answer.max_sentences": 1})
    assert stages(own_examples, first.id)["retrieve"]["output"]["cached"] is False
    assert stages(own_examples, other.id)["retrieve"]["output"]["cached"] is True
    assert other.cached == "no" and "search" not in stages(own_examples, other.id)
    assert other.citations[0].chunk_id == first.citations[0].chunk_id
    for changed in ({"k": 3}, {"settings": {"rag.top_k": 4}}, {"document": "budget-2026.xlsx"}, {"cache": False}):
        again = own_examples.ask_sync(QUESTION, response_mode="quick", **changed)
        assert stages(own_examples, again.id)["retrieve"]["output"]["cached"] is False, changed


def test_hits_and_contexts_go_with_every_change_and_when_cleared(own_examples: Refdesk) -> None:
    asking = own_examples.parts.asking
    own_examples.ask_sync(QUESTION)
    assert len(asking.recent_hits._kept) == len(asking.recent_contexts._kept) == 1
    own_examples.add_text("new.txt", "The anchor of the standard wave buoy mooring weighs 400 kg since May.")
    answer = own_examples.ask_sync(QUESTION, response_mode="quick")
    assert "400 kg" in json.dumps(answer.to_dict()) and len(asking.recent_hits._kept) == 2
    own_examples.clear_cache()
    assert not asking.recent_hits._kept and not asking.recent_contexts._kept


def test_a_context_is_assembled_once(own_examples: Refdesk) -> None:
    kept = own_examples.parts.asking.recent_contexts._kept
    own_examples.ask_sync(QUESTION)
    (context,) = kept.values()
    own_examples.ask_sync(QUESTION, response_mode="thorough")
    assert list(kept.values()) == [context] and next(iter(kept.values())) is context
    own_examples.ask_sync(QUESTION, max_context_chars=3000)
    assert len(kept) == 2


def test_as_many_are_kept_as_the_settings_say(own_folder: Path) -> None:
    sizes = {"cache.hits_entries": 2, "cache.context_entries": 0}
    with Refdesk(own_folder, settings=sizes) as desk:
        for k in (3, 4, 5):
            desk.ask_sync(QUESTION, k=k)
        assert len(desk.parts.asking.recent_hits._kept) == 2 and not desk.parts.asking.recent_contexts._kept
        answer = desk.ask_sync(QUESTION, k=5, response_mode="quick")
        assert stages(desk, answer.id)["retrieve"]["output"]["cached"] is True, "the last ones stay"


# switches of seed 001


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("rag.query_expansion_enabled", "variants"),
        ("rag.hyde_enabled", "variants"),
        ("rag.knowledge_graph_enabled", "graph"),
    ],
)
def test_engines_are_switched_on_one_by_one(own_examples: Refdesk, name: str, stage: str) -> None:
    plain = own_examples.ask_sync(QUESTION, cache=False)
    other = own_examples.ask_sync(QUESTION, cache=False, settings={name: True})
    assert stage not in stages(own_examples, plain.id) and stage in stages(own_examples, other.id)
    assert "350 kg" in other.content and other.strategy == plain.strategy


def test_voting_is_asked_for_by_its_own_field(
    own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.openai_env("writer-70b").items():
        monkeypatch.setenv(name, value)
    server.answer_by(lambda request: "The anchor weighs 350 kg [1].")
    with Refdesk(own_folder) as desk, serving(desk) as http:
        counts = []
        for voting in (True, False):
            before = len(server.requests)
            body = {"message": QUESTION, "ensemble_voting": voting, "enable_verification": False, "cache": False}
            assert http.post("/api/chat", json=body).status_code == 200
            counts.append(len(server.requests) - before)
    assert counts[0] == counts[1] + 2, "three drafts instead of one"
