"""Settings are one frozen value whose every field has a name, a help and a check."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from refdesk import Settings, UsageError
from refdesk.settings import ONLINE, PRESETS, preset, specs

SECTIONS = ("rag", "query", "answer", "agent", "prompt", "llm", "cache", "conversation", "serve", "ingest")


def test_every_setting_has_a_name_and_help() -> None:
    names = [name for name, _, _ in Settings().items()]
    assert len(names) == len(set(names)) == len(fields(Settings))
    for name, _, help_text in Settings().items():
        assert name.split(".")[0] in SECTIONS and len(help_text) > 10 and not help_text.endswith(".")
    assert max(map(len, names)) <= 80, "the column of the table"


def test_every_seed_has_its_settings() -> None:
    """The configuration reference of the systems that Refdesk does the work of."""
    names = {name for name, _, _ in Settings().items()}
    assert names >= {
        "rag.top_k",
        "rag.similarity_threshold",
        "rag.use_hybrid_search",
        "rag.query_expansion_enabled",
        "rag.hyde_enabled",
        "rag.knowledge_graph_enabled",
        "rag.verification_enabled",
        "rag.rrf_k",
        "cache.enabled",
        "cache.max_entries",
        "cache.default_ttl_seconds",
        "cache.threshold_mode",
        "conversation.query_rewriting_enabled",
        "conversation.db_rehydration_enabled",
        "conversation.max_history_turns",
    }


def test_every_default_passes_its_own_check() -> None:
    defaults = {name: value for name, value, _ in Settings().items()}
    assert Settings().changed(defaults) == Settings()
    assert Settings().changed({name: str(value) for name, value in defaults.items()}) == Settings(), "as --set gives it"


@pytest.mark.parametrize(
    "name, value, kept",
    [
        pytest.param("rag.top_k", "5", 5, id="text_to_whole_number"),
        pytest.param("rag.top_k", 5.0, 5, id="whole_float"),
        pytest.param("rag.dense_weight", "0", 0.0, id="text_to_number"),
        pytest.param("ingest.ocr", "No", False, id="no"),
        pytest.param("ingest.ocr", "TRUE", True, id="true"),
        pytest.param("ingest.ocr", False, False, id="a_bool"),
        pytest.param("rag.fusion", "rrf", "rrf", id="a_choice"),
    ],
)
def test_values_are_read_as_people_write_them(name: str, value: Any, kept: Any) -> None:
    changed = {key: content for key, content, _ in Settings().changed({name: value}).items()}
    assert changed[name] == kept and type(changed[name]) is type(kept)


@pytest.mark.parametrize(
    "name, value, message",
    [
        pytest.param("rag.topk", 5, "there is no setting 'rag.topk'", id="unknown"),
        pytest.param("rag.top_k", "many", "rag.top_k must be a whole number, not 'many'", id="not_a_number"),
        pytest.param("rag.top_k", 5.5, "must be a whole number", id="a_fraction"),
        pytest.param("rag.top_k", True, "must be a whole number", id="true_is_no_number"),
        pytest.param("rag.top_k", None, "must be a whole number", id="none"),
        pytest.param("rag.top_k", 0, "must be between 1 and 1000, not 0", id="too_small"),
        pytest.param("rag.top_k", 1001, "must be between 1 and 1000", id="too_large"),
        pytest.param("rag.dense_weight", "nan", "must be a number", id="nan"),
        pytest.param("rag.dense_weight", float("inf"), "must be a number", id="infinite"),
        pytest.param("rag.dense_weight", 1.1, "must be between 0.0 and 1.0", id="over_1"),
        pytest.param("ingest.ocr", "maybe", "must be true or false", id="maybe"),
        pytest.param("ingest.ocr", 1, "must be true or false", id="1_is_no_bool"),
        pytest.param("ingest.memory_limit_mb", 10, "must be at least 512, not 10", id="no_upper_limit"),
        pytest.param("rag.fusion", "magic", "must be convex or rrf", id="not_a_choice"),
        pytest.param("ingest.chunk_minimum", 250, "must be in ascending order", id="minimum_over_target"),
        pytest.param("answer.ensemble_voting", True, "was removed: it had no effect", id="removed"),
        pytest.param("answer.level", "Basic", "must be basic, standard, enhanced or maximum, not 'Basic'", id="case"),
    ],
)
def test_wrong_values_get_one_sentence(name: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Settings().changed({name: value})


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().top_k = 3  # type: ignore[misc]


def test_the_fingerprint_is_equal_exactly_when_the_settings_are() -> None:
    base = Settings()
    assert base.fingerprint == Settings().fingerprint == base.changed({"rag.top_k": base.top_k}).fingerprint
    assert len(base.fingerprint) == 12
    others = {
        base.changed({name: value}).fingerprint
        for name, value in (("rag.top_k", 11), ("rag.dense_weight", 0.5), ("ingest.ocr", False), ("rag.fusion", "rrf"))
    }
    assert len(others | {base.fingerprint}) == 5


# per request


@pytest.mark.parametrize(
    "name, value",
    [("rag.top_k", 3), ("answer.level", "basic"), ("cache.enabled", False), ("conversation.max_history_turns", 2)],
)
def test_a_caller_changes_what_concerns_his_own_question(name: str, value: Any) -> None:
    assert Settings().for_request({name: value}) == Settings().changed({name: value}) != Settings()


@pytest.mark.parametrize(
    "name, value",
    [
        pytest.param("llm.answer", "openai:mine", id="another_model"),
        pytest.param("llm.enabled", True, id="leaving_the_machine"),
        pytest.param("answer.cost_limit_usd", 100, id="spending"),
        pytest.param("rag.reranker", "/etc", id="reading_the_disk"),
        pytest.param("cache.max_entries", 10, id="memory_of_all"),
        pytest.param("query.max_characters", 100_000, id="limits"),
        pytest.param("ingest.workers", 64, id="taking_in"),
    ],
)
def test_a_caller_does_not_change_what_is_the_owners(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be changed for one question"):
        Settings().for_request({"rag.top_k": 3, name: value})


def test_a_wrong_value_of_a_caller_is_refused_too() -> None:
    with pytest.raises(UsageError, match="must be between"):
        Settings().for_request({"rag.top_k": 0})
    with pytest.raises(UsageError, match="there is no setting 'nonsense'"):
        Settings().for_request({"nonsense": 1})


# specs, presets


def test_specs_say_what_the_check_holds() -> None:
    found = {spec.name: spec for spec in specs()}
    assert [spec.name for spec in specs()] == [name for name, _, _ in Settings().items()]
    assert {spec.section for spec in specs()} == set(SECTIONS)
    assert found["rag.top_k"].allowed == "1 to 1000" and found["rag.fusion"].allowed == "convex or rrf"
    assert found["ingest.ocr"].allowed == "true or false" and found["llm.answer"].allowed == "text"
    assert found["cache.exact_ttl_seconds"].allowed == "1 or more"
    for spec in specs():
        for choice in spec.choices:
            assert Settings().changed({spec.name: choice})
        for bound in (spec.minimum, spec.maximum):
            if bound is not None and not spec.name.startswith("ingest.chunk_"):  # those also depend on one another
                assert Settings().changed({spec.name: bound})


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid(name: str) -> None:
    values, reset = preset(name)
    assert (Settings().changed(values) == Settings()) is (name == "balanced")
    assert not reset & values.keys() and reset <= {spec.name for spec in specs()}


def test_presets_do_not_mix() -> None:
    named = {setting for values in PRESETS.values() for setting in values}
    for name in PRESETS:
        values, reset = preset(name)
        assert values.keys() | reset | {ONLINE} == named
    assert ONLINE in preset("balanced")[1]
    assert not any(ONLINE in preset(name)[1] for name in ("speed", "quality")), "nothing leaves the machine unasked"
    with pytest.raises(UsageError, match="there is no preset 'fast'") as refused:
        preset("fast")
    assert refused.value.hint == "use speed, balanced, quality or offline"
