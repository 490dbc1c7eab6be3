"""Any ONNX cross-encoder in a folder reranks; a folder that does not fit is refused in one sentence."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evidence_samples import add, ask, find
from memory_desk import KINDS, AnyDesk, kept_in
from onnx_samples import write_reranker
from refdesk import ModelError, Refdesk
from refdesk.errors import ExtraMissing
from refdesk.providers.extras import OnnxReranker
from refdesk.types import Hit

STORES = KINDS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    with Refdesk(tmp_path_factory.mktemp("onnx")) as opened:
        add(opened)
        yield opened


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def rerank(desk: AnyDesk, folder: Path) -> list[Hit]:
    query = ask(desk, "How heavy is lunch?")
    found = find(desk, query)
    return OnnxReranker(folder).rerank(query, found.hits, found.sentence_vectors, found.idf)


def chance(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def test_the_model_decides_the_order(desk: AnyDesk, tmp_path: Path) -> None:
    ranked = rerank(desk, write_reranker(tmp_path / "model"))
    scores = {hit.document.name: hit.score for hit in ranked}
    assert ranked[0].document.name == "anchor"
    # "anchor" and "iron" of the passage count, "lunch" of the question does not
    assert scores["anchor"] == pytest.approx(chance(3.0))
    assert scores["parking"] == pytest.approx(0.5)
    assert ranked[-1].document.name == "canteen"
    assert scores["canteen"] == pytest.approx(chance(-1.0))  # "fish"; "Lunch" is another word to this tokenizer
    assert len(ranked) == 6


def test_two_classes_are_read_as_no_and_yes(desk: AnyDesk, tmp_path: Path) -> None:
    ranked = rerank(desk, write_reranker(tmp_path / "model", columns=2))
    assert ranked[0].document.name == "anchor"
    assert ranked[0].score == pytest.approx(chance(2 * 3.0 - 3.0))


def test_a_model_without_token_types_will_do(desk: AnyDesk, tmp_path: Path) -> None:
    ranked = rerank(desk, write_reranker(tmp_path / "model", inputs=("input_ids", "attention_mask")))
    assert ranked[0].document.name == "anchor"
    assert ranked[0].score == pytest.approx(chance(3.0 - 2.0))  # now "lunch" of the question counts too


@pytest.mark.parametrize(
    ("file", "key", "value", "score"),
    [
        ("tokenizer_config.json", "model_max_length", 12, 0.5),  # room for the question and little more
        ("config.json", "max_position_embeddings", 12, 0.5),
        ("tokenizer_config.json", "model_max_length", 1e30, chance(3.0)),
    ],
)
def test_passages_are_cut_to_what_the_model_reads(
    desk: AnyDesk, tmp_path: Path, file: str, key: str, value: float, score: float
) -> None:
    folder = write_reranker(tmp_path / "model")
    (folder / file).write_text(json.dumps({key: value}))
    scores = {hit.document.name: hit.score for hit in rerank(desk, folder)}
    assert scores["anchor"] == pytest.approx(score)


def test_nothing_to_rerank_loads_nothing(desk: AnyDesk, tmp_path: Path) -> None:
    assert OnnxReranker(tmp_path / "missing").rerank(ask(desk, "x"), [], {}, {}) == []


def broken(folder: Path, what: str) -> Path:
    if what == "folder":
        return folder / "missing"
    write_reranker(folder, columns=3 if what == "columns" else 1)
    if what in ("model.onnx", "tokenizer.json"):
        (folder / what).unlink()
    elif what == "not a model":
        (folder / "model.onnx").write_bytes(b"hello")
    elif what == "not a tokenizer":
        (folder / "tokenizer.json").write_text("{}")
    elif what == "inputs":
        write_reranker(folder, inputs=("pixels",))
    elif what == "config":
        (folder / "config.json").write_text("{")
    return folder


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("folder", "there is no folder"),
        ("model.onnx", "holds no model.onnx"),
        ("tokenizer.json", "holds no tokenizer.json"),
        ("not a model", "is no ONNX model"),
        ("not a tokenizer", "is no tokenizer"),
        ("inputs", "is no cross-encoder: it wants pixels"),
        ("columns", "6 × 3 values, not one score per passage"),
        ("config", "cannot be read"),
    ],
)
def test_what_does_not_fit_is_said_in_one_sentence(desk: AnyDesk, tmp_path: Path, what: str, said: str) -> None:
    with pytest.raises(ModelError) as raised:
        rerank(desk, broken(tmp_path / "model", what))
    assert said in str(raised.value)
    assert "\n" not in raised.value.sentence
    assert "rag.reranker" in raised.value.hint


def test_without_its_package_the_extra_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, desk: AnyDesk
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # as if it were not installed
    write_reranker(tmp_path)
    with pytest.raises(ExtraMissing, match="needs an extra package") as caught:
        rerank(desk, tmp_path)
    assert caught.value.hint == "pip install 'refdesk[rerank]'"
