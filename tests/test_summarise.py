"""Functional summaries by a model: what they cost is said first, what is malformed is left out, none is ever quoted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_desk import KINDS, ON_DISK, open_either
from refdesk import Refdesk
from refdesk.errors import LibraryError, UsageError
from refdesk.ingest.summarise import usable
from refdesk.summaries import WrittenSummary
from refdesk.types import Chunk, Scope, Sentence
from wire_server import Recorded, WireServer

STORES = ON_DISK

TEXTS = [
    (
        "anchors.txt",
        "The anchor of the outer buoy weighs 350 kg. It is a cast iron sinker with an eye of forged steel.",
    ),
    ("paint.txt", "The hull of the tender is painted yellow every other spring, in calm and dry weather only."),
]
TOKEN = "zqsummary"  # a word that only a model's summary has
SURVEY = {"rag.strategy": "survey"}


def chunk(sequence: int, text: str = "word " * 100) -> Chunk:
    return Chunk("d", sequence, "text", text, (), (1,), (), (Sentence(0, len(text), 1),), 100)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(
            '{"chunks": [{"chunk": 1, "summary": " A\\n b ", "questions": ["Q?"]}]}', {1: ("A b", ("Q?",))}, id="one"
        ),
        pytest.param('```{"chunks": [{"chunk": 1, "summary": "A"}]}```', {1: ("A", ())}, id="fenced:no_questions"),
        pytest.param('{"chunks": [{"chunk": 9, "summary": "A", "questions": []}]}', {}, id="unknown"),
        pytest.param(
            '{"chunks": [{"chunk": "1", "summary": "A"}, 7, {"chunk": true, "summary": "A"}]}', {}, id="types"
        ),
        pytest.param('{"chunks": [{"chunk": 1, "summary": "' + "long " * 99 + '"}]}', {}, id="as_long_as_the_chunk"),
        pytest.param('{"chunks": [{"chunk": 1, "summary": ""}]}', {}, id="empty"),
        pytest.param('{"chunks": {"1": "A"}}', {}, id="another_shape"),
        pytest.param("Chunk 1 is about words.", {}, id="prose"),
        pytest.param('{"chunks": [{"chunk": 1, "summ', {}, id="cut_off"),
    ],
)
def test_what_a_model_wrote_is_checked(said: str, expected: dict[int, Any]) -> None:
    assert usable(said, [chunk(1), chunk(2)]) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_store_keeps_them_beside_the_chunks_own(kind: str, tmp_path: Path) -> None:
    with open_either(kind, tmp_path) as desk:
        desk.add_texts(TEXTS)
        reader, embedder = desk.parts.reader, desk.parts.embedder.name
        store = reader._summaries._store
        document = desk.document("anchors.txt")
        rows = np.ones((2, desk.parts.embedder.dimensions), dtype=np.int8)
        written = WrittenSummary(1, f"{TOKEN} DEFINES: sinker", ("How heavy?",), rows, "openai:m")
        assert store.put_written(document, embedder, [written])
        seen = {one.document_id: one for one in reader.summaries(Scope())}
        assert seen[document.id].summary == f"{TOKEN} DEFINES: sinker" and seen[document.id].is_written
        assert desk.chunks("anchors.txt")[0].summary.startswith("The anchor"), "its own is as it was"
        assert store.written("another") == {}, "of another embedder"
        assert np.array_equal(store.written(embedder)[document.id][1].vectors, rows)
        desk.move("anchors.txt", "elsewhere")
        assert len(reader.summaries(Scope(collections=("elsewhere",)))) == 1
        assert next(one for one in reader.summaries(Scope()) if one.document_id == document.id).is_written
        desk.add_text("anchors.txt", "Quite another text.", collection="elsewhere")
        assert not store.written(embedder) and not store.put_written(document, embedder, [written]), "another version"
        desk.remove("anchors.txt")
        assert [one.is_written for one in reader.summaries(Scope())] == [False]


# --- a whole job, with a model behind a real server -------------------------------------------------------------------


def reply(request: Recorded) -> str:
    numbers = [int(one) for one in re.findall(r"^--- CHUNK (\d+) ", request.question, re.MULTILINE)]
    rows = [
        {"chunk": one, "summary": f"{TOKEN} weights. DEFINES: sinker", "questions": ["Which iron?"]} for one in numbers
    ]
    return json.dumps({"chunks": rows})


@pytest.fixture
def folder(new_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in server.openai_env("gpt-4o", summariser="gpt-4o-mini").items():
        monkeypatch.setenv(name, value)
    return new_folder.parent


def opened(folder: Path) -> Refdesk:
    return Refdesk(folder / "library", settings={"ingest.workers": 1, "llm.tries": 1})


def test_the_cost_is_told_and_every_chunk_summed_up_once(folder: Path, server: WireServer) -> None:
    server.answer_by(reply)
    with opened(folder) as desk:
        desk.add_texts(TEXTS)
        cost = desk.summary_cost()
        assert cost.model == "openai:gpt-4o-mini" and cost.chunks == 2 and 0 < (cost.cost_usd or 0) < 0.01
        assert cost.sentence.startswith("2 chunks, about ") and not server.requests
        seen: list[tuple[int, int]] = []
        job = desk.summarise(on_progress=lambda now: seen.append((now.chunks_done, now.chunks_total)))
        assert job.status == "ready" and job.reason == "" and seen[-1] == (2, 2)
        assert {request.model for request in server.requests} == {"gpt-4o-mini"}
        assert "80 to 90 % shorter" in server.requests[0].system
        asked = len(server.requests)
        assert desk.summary_cost().chunks == 0 and desk.summarise().chunks_total == 0
        assert len(server.requests) == asked, "nothing is paid for twice"
        desk.add_text("rope.txt", "The rope is forty metres long and made of hemp.")
        assert desk.summary_cost().chunks == 1 and desk.summary_cost("elsewhere").chunks == 0


def test_they_are_searched_and_never_quoted(folder: Path, server: WireServer) -> None:
    server.answer_by(reply)
    with opened(folder) as desk:
        desk.add_texts(TEXTS)
        desk.summarise()
        off = {"llm.enabled": False}
        answer = Refdesk(folder / "library", settings=off).ask_sync("Which iron?", settings=SURVEY, cache=False)
        assert TOKEN not in json.dumps(answer.to_dict()["content"]) and TOKEN not in str(answer.citations)
        vector = desk.parts.embedder.embed_query("Which iron?")
        cosines = desk.parts.reader.summary_cosines(desk.parts.reader.summaries(Scope()), vector)
        assert cosines.min() > 0.98, "the question that was written beside the summary"
        assert not desk.search(TOKEN, method="bm25"), "a passage with the word would be shown as a source"


def test_what_comes_out_malformed_is_asked_once_more_and_then_left(folder: Path, server: WireServer) -> None:
    server.say('{"chunks": [')
    server.say("no")
    server.answer_by(lambda request: "no" if "yellow" in request.question else reply(request))
    with opened(folder) as desk:
        desk.add_texts(TEXTS)
        job = desk.summarise()
        assert job.status == "ready"
        assert job.reason in ("1 chunk got no summary that can be used", "2 chunks got no summary that can be used")
        assert desk.summary_cost().chunks >= 1, "it is tried again the next time"


def test_a_model_that_refuses_ends_the_job_with_a_sentence(folder: Path, server: WireServer) -> None:
    server.fail(401, times=9)
    with opened(folder) as desk:
        desk.add_texts(TEXTS)
        with pytest.raises(LibraryError, match="401"):
            desk.summarise()
        assert not desk.background_jobs()


def test_without_a_model_it_is_said(tmp_path: Path) -> None:
    with Refdesk(tmp_path) as desk, pytest.raises(UsageError, match="no model is set"):
        desk.summary_cost()


def test_a_job_in_the_list_can_be_cancelled_and_only_one_of_a_kind_waits(folder: Path) -> None:
    with opened(folder) as desk:
        job = desk.submit_background("summaries")
        with pytest.raises(UsageError, match="being made already"):
            desk.submit_background("summaries")
        desk.cancel_background(job.id)
        assert not desk.background_jobs()
