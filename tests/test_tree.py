"""The tree above the chunks: built as jobs, kept up to date, gone with its documents; and what it is used for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from library_samples import seen_by
from memory_desk import KINDS, open_either
from refdesk import Refdesk
from refdesk.ingest.runs import Background, BackgroundPorts, new_job
from refdesk.ingest.summarise import MOST_SECTIONS, WINDOW, clusters_of, sections_of
from refdesk.ports import NoModels
from refdesk.summaries import CLUSTER, DOCUMENT, SECTION, Proof, TreeNode
from refdesk.types import Chunk, Job, Scope, Sentence

REPORT = """# Harbour report

## Moorings

The outer buoy is moored with a cast iron sinker of 350 kg. The chain was replaced in the spring of last year.
The divers inspect every mooring of the harbour once in twelve months. They measure how far each link of the chain has
worn, and write it into the book of the harbour office. A shackle that has lost a tenth of its strength is replaced at
once, and the old one is kept for a year. The positions of all moorings are checked against the chart after each storm,
because a sinker may be dragged over the ground by a heavy sea. The outer buoy was found forty metres from its place in
January and was brought back by the tender within a week.

## Costs

The harbour spent 40,000 crowns on chains and shackles last year. Fuel for the tender cost another 12,000 crowns.
The council has granted the same sum for the coming year. Paint and brushes were paid for by the fishing club, which
uses two of the berths for its boats. The crane was rented for nine days, three fewer than in the year before, and was
paid for by the day. The insurance of the tender rose by a tenth. The income from berths was 96,000 crowns, of which
visitors paid a third between June and August. What is left over is put aside for the new pier of the inner harbour.

## Staff

The harbour employs a master, two pilots and four boatmen. Anna Berg, Per Lund, Ole Dahl.
The pilots are on duty from six in the morning until ten at night.
"""


async def _nothing() -> None:
    """No model was asked."""


def ports(desk: Any) -> BackgroundPorts:
    parts = desk.parts
    store = parts.reader._summaries._store
    stores = (parts.documents, parts.chunks, store, parts.reader._graph)
    return BackgroundPorts(*stores, desk.jobs, parts.embedder, NoModels, _nothing)


def build(desk: Any, *, collection: str = "", check: Callable[[], None] = lambda: None) -> Job:
    """What is asked of `check` is asked after every document."""
    with desk.at_work() as run:
        (job,) = desk.jobs.submit([new_job("tree", collection, "", [])])
        done = Background(ports(desk), run.worker, lambda now: None, check, tell_s=0.0).work(job.id)
    assert done is not None
    return done


def nodes(desk: Any, level: int) -> list[TreeNode]:
    found: list[TreeNode] = ports(desk).summaries.nodes(desk.parts.embedder.name, level)
    return found


def chunk(sequence: int, *path: str) -> Chunk:
    return Chunk("d", sequence, "text", "A.", path, (1,), (), (Sentence(0, 2, 1),), 2, id=sequence)


@contextmanager
def library(kind: str, folder: Path) -> Any:
    with open_either(kind, folder) as desk:
        desk.add_text("report.md", REPORT, format="markdown")
        desk.add_text("paint.txt", "The hull of the tender is painted yellow every other spring by the boatmen.")
        yield desk


def test_sections_are_as_deep_as_leaves_few_enough() -> None:
    assert [title for title, _ in sections_of([chunk(1, "A", "B"), chunk(2, "A", "C"), chunk(3, "A", "C")])] == [
        "B",
        "C",
    ]
    many = [chunk(number, f"Part {number % 7 // 4}", f"S{number}") for number in range(1, MOST_SECTIONS + 20)]
    assert len(sections_of(many)) <= MOST_SECTIONS
    plain = sections_of([chunk(number) for number in range(1, 3 * WINDOW)])
    assert [len(own) for _, own in plain] == [WINDOW, WINDOW, WINDOW - 1]


def test_clusters_put_together_what_is_alike() -> None:
    def node(place: int, vector: tuple[float, float]) -> TreeNode:
        return TreeNode(DOCUMENT, f"T{place}", "One. Two.", (Proof(f"d{place}", 1, 0),), np.array(vector), f"d{place}")

    alike = [node(place, (1.0, 0.01 * place)) for place in range(10)]
    other = [node(place, (0.01 * place, 1.0)) for place in range(10, 20)]
    found = clusters_of("default", [*alike, *other])
    assert sorted(len(one.members) for one in found) == [10, 10]
    assert all(len({int(member[1:]) // 10 for member in one.members}) == 1 for one in found)
    assert found[0].text.startswith("One.") and found[0].proofs and not clusters_of("default", alike[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_three_levels_whose_sentences_stand_in_the_chunks_below(kind: str, tmp_path: Path) -> None:
    with library(kind, tmp_path) as desk:
        job = build(desk)
        assert job.status == "ready" and job.chunks_done == job.chunks_total > 0
        report = desk.document("report.md")
        chunks = {one.sequence: one for one in desk.chunks("report.md")}
        own = [node for node in nodes(desk, SECTION) if node.document_id == report.id]
        assert [node.title for node in own] == ["Moorings", "Costs", "Staff"]
        for node in [*own, *nodes(desk, DOCUMENT)]:
            for proof in node.proofs if node.document_id == report.id else ():
                sentence = chunks[proof.sequence].sentences[proof.sentence]
                assert chunks[proof.sequence].text[sentence.start : sentence.end] in node.text
        assert not any("Anna Berg" in node.text for node in own), "no lines of names"
        (cluster,) = nodes(desk, CLUSTER)
        assert set(cluster.members) == {report.id, desk.document("paint.txt").id}


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_has_changed_is_built_again(kind: str, tmp_path: Path) -> None:
    with library(kind, tmp_path) as desk:
        build(desk)
        before = {node.id for node in nodes(desk, SECTION)}
        assert build(desk).chunks_total == 0
        desk.add_text("rope.txt", "The rope of the tender is forty metres long and made of hemp.")
        assert build(desk).chunks_total == 1
        assert before < {node.id for node in nodes(desk, SECTION)}, "the others are as they were"
        assert len(nodes(desk, CLUSTER)[0].members) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_go_with_their_documents(kind: str, tmp_path: Path) -> None:
    with library(kind, tmp_path) as desk:
        build(desk)
        desk.add_text("report.md", REPORT.replace("350 kg", "400 kg"), format="markdown")
        assert not any("350 kg" in node.text for level in (1, 2, 3) for node in nodes(desk, level))
        assert not nodes(desk, CLUSTER), "what was said of several documents goes when one of them changes"
        build(desk)
        assert len(nodes(desk, CLUSTER)) == 1
        desk.move("paint.txt", "elsewhere")
        assert not nodes(desk, CLUSTER) and len(nodes(desk, DOCUMENT)) == 2, "its own nodes go along"
        desk.remove("report.md")
        left = [node for level in (1, 2, 3) for node in nodes(desk, level)]
        assert {node.document_id for node in left} == {desk.document("paint.txt").id}


def test_nothing_is_left_in_the_tables(tmp_path: Path) -> None:
    with library("sql", tmp_path) as desk:
        build(desk)
        desk.remove("report.md", "paint.txt")
        with desk._engine.connect() as connection:
            for table in ("tree_nodes", "tree_members", "written_summaries"):
                assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0


class Ended(BaseException):
    """As a kill: nothing is cleared up."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_is_put_down_goes_on_where_it_was(kind: str, tmp_path: Path) -> None:
    with library(kind, tmp_path) as desk:
        looked = 0

        def check() -> None:
            nonlocal looked
            looked += 1
            if looked == 2:  # after the first document
                raise Ended

        with pytest.raises(Ended):
            build(desk, check=check)
        assert len(nodes(desk, DOCUMENT)) == 1
        (waiting,) = desk.jobs.all(("tree",)).values()
        with desk.at_work() as run:
            done = Background(ports(desk), run.worker, lambda now: None, lambda: None).work()
        assert done is not None and done.id == waiting.id and done.status == "ready"
        assert done.chunks_total < sum(one.chunk_count for one in desk.documents()), "the first was not made again"
        assert len(nodes(desk, DOCUMENT)) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_can_be_cancelled(kind: str, tmp_path: Path) -> None:
    with library(kind, tmp_path) as desk:
        job = build(desk, check=lambda: desk.jobs.cancel(desk.jobs.all(("tree",))))
        assert job.status == "cancelled" and not desk.jobs.all(("tree",))


def test_jobs_of_other_kinds_are_left_to_others(tmp_path: Path) -> None:
    """Whoever adds files takes up files that were left, and nothing else."""
    with library("sql", tmp_path / "library") as desk:
        desk.submit_background("tree")
        (tmp_path / "note.txt").write_text("The rope is forty metres long.")
        with desk.at_work() as run:
            desk.jobs.take(run.worker, lambda free: free)  # and is killed
        assert [one.outcome for one in desk.add(tmp_path / "note.txt")] == ["added"]
        assert [one.status for one in desk.background_jobs()] == ["pending"]


def test_what_was_left_is_taken_over_and_what_is_interrupted_is_not_left(tmp_path: Path) -> None:
    def interrupt(job: Job) -> None:
        raise KeyboardInterrupt

    with library("sql", tmp_path) as desk:
        with pytest.raises(KeyboardInterrupt):
            desk.build_tree(on_progress=interrupt)
        assert not desk.background_jobs()
        desk.submit_background("tree")  # as a process that was killed has left it
        assert desk.build_tree().chunks_total > 0
        assert not desk.background_jobs()


# --- what it is used for ----------------------------------------------------------------------------------------------


def test_a_report_is_summed_up_section_by_section(tmp_path: Path) -> None:
    with library("sql", tmp_path) as desk:
        desk.build_tree()
        answer = desk.ask_sync("Summarise the harbour report", cache=False)
        lines = answer.content.splitlines()
        assert [line.split(":")[0] for line in lines] == ["- Moorings", "- Costs", "- Staff"]
        assert "Anna Berg" not in answer.content
        texts = [one.text for one in desk.chunks("report.md")]
        assert answer.citations and all(any(one.quote in text for text in texts) for one in answer.citations)
        assert all(claim.verdict == "supported" for claim in answer.claims)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_built", [True, False], ids=["with_a_tree", "without"])
def test_hierarchical_chooses_documents_first(kind: str, is_built: bool, tmp_path: Path) -> None:
    with library(kind, tmp_path) as desk:
        if is_built:
            build(desk)
        asked = "How many pilots does the harbour employ?"
        answer = desk.ask_sync(asked, settings={"rag.strategy": "hierarchical"}, cache=False)
        assert "two pilots" in answer.content and answer.strategy == "hierarchical"
        reader = desk.parts.reader
        seen = reader.tree_nodes(DOCUMENT, Scope(access=("elsewhere",)))
        assert not seen and bool(reader.tree_nodes(DOCUMENT, Scope())) == is_built


def test_a_cluster_is_seen_by_who_may_read_all_of_it(tmp_path: Path) -> None:
    with library("sql", tmp_path) as desk:
        desk.build_tree()
        assert desk.parts.reader.tree_nodes(CLUSTER, Scope(access=("default",)))
        assert not desk.parts.reader.tree_nodes(CLUSTER, Scope(access=("hr",)))
        outsider = seen_by(desk, "hr")
        answer = outsider.ask_sync("Summarise the harbour report", cache=False)
        assert "350 kg" not in answer.content and not answer.is_answered


def test_a_library_without_the_tables_gets_them(tmp_path: Path) -> None:
    with library("sql", tmp_path) as desk, desk._engine.begin() as connection:
        for table in ("tree_members", "tree_nodes", "written_summaries"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0009'")
    with Refdesk(tmp_path) as desk:
        assert desk.build_tree().chunks_total > 0
        assert "350 kg" in desk.ask_sync("How heavy is the sinker of the outer buoy?", cache=False).content
