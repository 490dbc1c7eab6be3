"""Token vectors: how a question's words are met, on files and in memory; kept in step with the library."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from library_samples import open_desk
from memory_desk import KINDS, open_either
from onnx_samples import write_colbert
from refdesk.answer import Query
from refdesk.ask.strategies import STRATEGIES
from refdesk.errors import ModelError
from refdesk.index.tokens import components, packed, reduced
from refdesk.library import EngineHits, SearchPorts
from refdesk.providers.extras import token_embedder
from refdesk.text import query_terms
from refdesk.trace import Trace
from refdesk.types import Scope

TEXTS = {
    "quay": "The quay was built of oak in 1911. A mooring at the quay costs 24 crowns a night.",
    "lamp": "The harbour lamp is lit at dusk. Its keeper is Ulla Brandt, who lives by the quay.",
    "ferry": "The ferry departs at a quarter past eight and takes twelve passengers.",
}


def searched(desk: Any, text: str, trace: Trace | None = None) -> EngineHits:
    asked = Query(text, text, desk.parts.embedder.embed_query(text), tuple(query_terms(text)))
    ports = SearchPorts(desk.parts.reader, desk.parts.embedder, desk.settings, Scope(), 3, trace=trace or Trace())
    (found,) = asyncio.run(STRATEGIES["late_interaction"](asked, ports))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_chunk_that_meets_the_words_is_first(kind: str, tmp_path: Path) -> None:
    with open_either(kind, tmp_path / "library") as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        trace = Trace()
        assert searched(desk, "When does the ferry depart?", trace).engine == "hybrid"
        assert any("ingest.token_vectors" in stage.skipped for stage in trace.stages)
        assert desk.tokens.sync() == 3 and desk.tokens.count == 3 and desk.tokens.nbytes > 0
        found = searched(desk, "Who is the keeper of the harbour lamp?")
        assert found.engine == "late_interaction" and found.hits[0].document.name == "lamp"
        scores = desk.tokens.scores("Who is the keeper of the harbour lamp?", [hit.chunk.id for hit in found.hits])
        assert max(scores, key=lambda one: scores[one]) == found.hits[0].chunk.id
        assert all(-1.0 <= score <= 1.0 for score in scores.values())
        assert desk.tokens.sync() == 0


def test_what_is_gone_is_let_go_and_what_is_new_embedded(tmp_path: Path) -> None:
    with open_either("memory", tmp_path / "library") as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        desk.tokens.sync()
        before = desk.tokens.nbytes
        (gone,) = [chunk.id for chunk in desk.chunks("ferry")]
        desk.remove("ferry")
        desk.tokens.sync()
        assert desk.tokens.count == 2 and desk.tokens.nbytes < before
        assert desk.tokens.scores("ferry", [gone]) == {}
        desk.add_text("crane", "The crane lifts forty tonnes.")
        assert desk.tokens.sync() == 1 and desk.tokens.count == 3


def test_a_library_that_wants_them_keeps_them_in_step(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    with open_desk(folder, **{"ingest.token_vectors": True}) as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        assert desk.tokens.count == 3
        desk.remove("ferry")
        assert desk.tokens.count == 2
        assert len(list((folder / "index").glob("tokens-*"))) == 1
    with open_desk(folder, **{"ingest.token_vectors": True}) as desk:
        assert searched(desk, "Who is the keeper of the harbour lamp?").engine == "late_interaction"
        for path in (folder / "index").glob("tokens-*/vectors.npy"):
            path.write_bytes(b"damaged")
    with open_desk(folder, **{"ingest.token_vectors": True}) as desk:
        assert desk.tokens.count == 0  # damaged ones are not read
        desk.reindex()
        assert desk.tokens.count == 2
    with open_desk(folder) as desk:  # no longer wanted
        desk.add_text("crane", "The crane lifts forty tonnes.")
        assert desk.tokens.count == 0 and not list((folder / "index").glob("tokens-*"))


def test_little_is_lost_on_the_way_to_bytes() -> None:
    _, states = token_embedder("").query_tokens(" ".join(TEXTS.values()))
    projection = components([states], layers=2)
    kept = packed(states, projection).astype(np.float32) / 127.0
    assert np.abs(kept - reduced(states, projection)).max() <= 0.5 / 127 + 1e-6
    assert kept.shape == (len(states), 2, 64)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no model\.onnx"):
        token_embedder(str(tmp_path)).query_tokens("quay")


def test_a_colbert_model_from_a_folder_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    folder = write_colbert(tmp_path / "colbert")
    settings = {"ingest.token_vectors": True, "ingest.token_model": str(folder)}
    with open_desk(tmp_path / "library", **settings) as desk:
        desk.add_texts([{"name": "deck", "text": "anchor iron"}, {"name": "galley", "text": "lunch fish"}])
        assert desk.tokens.count == 2
        ids = {name: desk.chunks(name)[0].id for name in ("deck", "galley")}
        scores = desk.tokens.scores("anchor", list(ids.values()))
        assert scores[ids["deck"]] > scores[ids["galley"]]
    with open_desk(tmp_path / "library", **{"ingest.token_vectors": True}) as desk:
        desk.add_text("hold", "fish")
        assert desk.tokens.count == 3  # all of them by the shipped model: vectors of two are never mixed
        assert searched(desk, "anchor").hits[0].document.name == "deck"
