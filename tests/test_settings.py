"""Settings are one frozen value whose every field has a name, a help and a check."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from refdesk import Settings, UsageError


def test_every_setting_has_a_name_and_help() -> None:
    names = [name for name, _, _ in Settings().items()]
    assert len(names) == len(set(names)) == len(fields(Settings))
    for name, _, help_text in Settings().items():
        assert name.split(".")[0] in ("rag", "ingest") and len(help_text) > 10 and not help_text.endswith(".")


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
        pytest.param("rag.top_k", 0, "must lie between 1 and 1000, not 0", id="too_small"),
        pytest.param("rag.top_k", 1001, "must lie between 1 and 1000", id="too_large"),
        pytest.param("rag.dense_weight", "nan", "must be a number", id="nan"),
        pytest.param("rag.dense_weight", float("inf"), "must be a number", id="infinite"),
        pytest.param("rag.dense_weight", 1.1, "must lie between 0.0 and 1.0", id="over_1"),
        pytest.param("ingest.ocr", "maybe", "must be true or false", id="maybe"),
        pytest.param("ingest.ocr", 1, "must be true or false", id="1_is_no_bool"),
        pytest.param("ingest.memory_limit_mb", 10, "must be at least 512, not 10", id="no_upper_limit"),
        pytest.param("rag.fusion", "magic", "must be convex or rrf", id="not_a_choice"),
        pytest.param("ingest.chunk_minimum", 250, "must rise", id="minimum_over_target"),
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
