"""Summaries of the tree by a model: their cost is said first, they are searched and never quoted, they go with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import run_refdesk
from refdesk import Refdesk
from refdesk.errors import LibraryError, UsageError
from refdesk.summaries import CLUSTER, DOCUMENT, SECTION, TreeNode
from refdesk.types import Scope
from wire_server import Recorded, Reply, WireServer

ANCHORS = "The anchor of the outer buoy weighs 350 kg. It is a cast iron sinker with an eye of forged steel. "
PAINT = "The hull of the tender is painted yellow every other spring. Two coats are given in calm and dry weather. "
MANUAL = f"# Anchors\n\n{8 * ANCHORS}\n\n# Paint\n\n{8 * PAINT}\n"
TOKEN = "zqsummary"  # a word that only the model writes


def reply(request: Recorded) -> str:
    return json.dumps({"summary": f"{TOKEN} of {request.question.partition('Section: ')[2].partition(chr(10))[0]}"})


def add(desk: Refdesk, folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    desk.add(folder / name)


@pytest.fixture
def desk(tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in server.openai_env("writer-8b").items():
        monkeypatch.setenv(name, value)
    with Refdesk(tmp_path / "library") as found:
        add(found, tmp_path, "manual.md", MANUAL)
        yield found


def nodes(desk: Refdesk, level: int) -> list[TreeNode]:
    store = desk.parts.reader._summaries._store
    return store.nodes(desk.parts.embedder.name, level)


def test_cost_is_said_and_sections_then_documents_are_summed_up(desk: Refdesk, server: WireServer) -> None:
    server.answer_by(reply)
    cost = desk.tree_summary_cost()
    assert (cost.model, cost.chunks) == ("openai:writer-8b", 3) and cost.prompt_tokens > 100
    assert cost.sentence.startswith("3 sections or documents, about ")
    assert server.requests == [], "nothing is asked before it is begun"
    desk.build_tree()
    quoted = {node.title: node for node in nodes(desk, SECTION)}
    job = desk.summarise_tree()
    assert (job.status, job.chunks_done, job.reason) == ("ready", 3, "")
    written = {node.title: node for node in nodes(desk, SECTION)}
    assert {node.text for node in written.values()} == {f"{TOKEN} of Anchors", f"{TOKEN} of Paint"}
    (whole,) = nodes(desk, DOCUMENT)
    assert TOKEN in whole.text and whole.model == "openai:writer-8b"
    assert "350 kg" in server.requests[0].question and "350 kg" not in server.requests[2].question
    assert f"{TOKEN} of Paint" in server.requests[2].question, "a document is summed up from its sections"
    for title, node in written.items():
        assert node.proofs == quoted[title].proofs and node.model == "openai:writer-8b", "the sentences prove it still"
        vector = desk.parts.embedder.embed_query(node.text)
        assert vector @ node.vector > vector @ quoted[title].vector and np.isclose(
            np.linalg.norm(node.vector), 1.0, atol=0.01
        )
    assert desk.tree_summary_cost().chunks == 0
    asked = len(server.requests)
    desk.summarise_tree()
    assert len(server.requests) == asked, "what is there is not made again"


def test_new_documents_alone_are_asked_for_and_clusters_follow(
    desk: Refdesk, server: WireServer, tmp_path: Path
) -> None:
    server.answer_by(reply)
    desk.summarise_tree()
    asked = len(server.requests)
    add(desk, tmp_path, "ropes.md", "# Ropes\n\nRopes of the tender are replaced every third year.")
    assert desk.tree_summary_cost().chunks == 2
    desk.summarise_tree()
    assert len(server.requests) == asked + 2
    (cluster,) = nodes(desk, CLUSTER)
    assert len(cluster.members) == 2
    desk.remove("ropes.md")
    assert not nodes(desk, CLUSTER) and len(nodes(desk, DOCUMENT)) == 1


def test_no_summary_is_ever_quoted(desk: Refdesk, server: WireServer) -> None:
    server.answer_by(reply)
    desk.summarise_tree()
    server.answer_by(lambda request: "The anchor weighs 350 kg [1].")
    answer = desk.ask_sync("How heavy is the anchor?", cache=False, settings={"rag.strategy": "hierarchical"})
    assert "350 kg" in answer.content and TOKEN not in server.requests[-1].question
    assert all(TOKEN not in citation.quote for citation in answer.citations)


@pytest.mark.parametrize("said", ["prose", '{"summary": 7}', '{"summary": ""}', json.dumps({"summary": "long " * 400})])
def test_what_cannot_be_used_is_left_as_it_was(desk: Refdesk, server: WireServer, said: str) -> None:
    server.answer_by(lambda request: said)
    job = desk.summarise_tree()
    assert (job.status, job.reason) == ("ready", "3 of them got no summary that can be used")
    assert all(node.model == "" and node.text for node in (*nodes(desk, SECTION), *nodes(desk, DOCUMENT)))
    assert desk.tree_summary_cost().chunks == 3, "it is asked for again at the next time"


def test_a_model_that_refuses_ends_the_job_with_its_reason(desk: Refdesk, server: WireServer) -> None:
    server.answer_by(lambda request: Reply(status=401, message="wrong key"))
    with pytest.raises(LibraryError, match="key"):
        desk.summarise_tree()
    assert len(nodes(desk, SECTION)) == 2, "the tree itself is built"
    assert not desk.background_jobs()


def test_without_a_model_it_is_said(tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk, pytest.raises(UsageError, match="no model is set"):
        desk.tree_summary_cost()


def test_on_the_command_line(desk: Refdesk, server: WireServer, tmp_path: Path) -> None:
    server.answer_by(reply)
    desk.close()
    environment = server.openai_env("writer-8b")
    unasked = run_refdesk("--library", str(tmp_path / "library"), "tree", "--by-model", **environment)
    assert unasked.returncode == 2 and "3 sections or documents" in unasked.stderr and server.requests == []
    done = run_refdesk("--library", str(tmp_path / "library"), "tree", "--by-model", "--yes", **environment)
    assert done.returncode == 0 and "3 sections and documents summarised." in done.stdout
    with Refdesk(tmp_path / "library") as again:
        assert len(again.parts.reader.tree_nodes(DOCUMENT, Scope())) == 1
