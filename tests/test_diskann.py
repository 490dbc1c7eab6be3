"""The graph of pgvectorscale, in a server that has it: REFDESK_TEST_DISKANN_URL names one (docs/postgresql.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import postgres_server
from library_samples import assert_repaired, assert_whole, open_desk
from refdesk import Refdesk
from refdesk.index.postgres_tables import graph_condition, nearest_by_diskann
from refdesk.types import Scope


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with postgres_server.database_on("REFDESK_TEST_DISKANN_URL") as found:
        monkeypatch.setenv("REFDESK_DATABASE_URL", found)
        yield found


def install(url: str) -> None:
    postgres_server.run("CREATE EXTENSION vectorscale CASCADE", url)


def graphs(url: str) -> list[tuple[str, str]]:
    """How each is made, and its name."""
    asked = "SELECT a.amname, i.relname FROM pg_class i JOIN pg_am a ON a.oid = i.relam"
    found = postgres_server.run(f"{asked} WHERE a.amname IN ('hnsw', 'diskann')", url)
    return sorted((kind, name) for kind, name in found)


def words_of(number: int) -> str:
    return f"Buoy zq{number}v0 lies {'near' if number % 3 else 'far off'} the quay. " + "harbour " * (number % 7) + "."


def of_few(desk: Refdesk) -> Any:
    """The index of a library that has a graph from a hundred chunks on, and asks it under every filter."""
    index = desk.parts.index
    index.exact_below, index.scanned_at_most, index.tail_least = 100, 0, 10
    return index


def assert_found(desk: Refdesk, scopes: tuple[Scope, ...] = (Scope(),), count: int = 20) -> None:
    """By the graph and by the scan beside it; by their scores, as several texts are nearly the same."""
    random = np.random.default_rng(7)
    embedder, documents = desk.parts.embedder, desk.parts.documents
    ids, matrix = documents.vectors_after(embedder.name, 0, embedder.dimensions)
    for scope in scopes:
        allowed = np.isin(ids, documents.chunk_ids(scope))
        for place in (0, len(ids) // 2, len(ids) - 1):
            asked = matrix[place] + random.normal(0, 0.02, matrix.shape[1])
            vector = (asked / np.linalg.norm(asked)).astype(np.float32)
            truth = np.sort(np.where(allowed, matrix @ vector, -2))[::-1][:count]
            found = desk.parts.index.dense(vector, count, scope)
            assert len(found) == count
            assert {i for i, _ in found} <= set(ids[allowed].tolist())
            assert np.mean(np.array([score for _, score in found]) >= truth[-1] - 2e-3) >= 0.95


def test_it_keeps_its_recall_under_filters(tmp_path: Path, url: str) -> None:
    install(url)
    with open_desk(tmp_path / "library") as desk:
        of_few(desk)
        desk.add_texts(
            {"name": f"text {n}", "text": words_of(n), "collection": f"part/{n % 10}", "metadata": {"row": str(n % 2)}}
            for n in range(400)
        )
        desk.parts.compact()
        assert [kind for kind, _ in graphs(url)] == ["diskann"]
        half, few = Scope(metadata=(("row", "1"),)), Scope(collections=("part/3",))
        assert_found(desk, (Scope(), half, few))
        assert "graph by DiskANN (pgvectorscale)" in desk.check_database().text
        assert_whole(desk)


def test_it_grows_and_is_made_anew_beside_searches(tmp_path: Path, url: str) -> None:
    import psycopg

    install(url)
    with open_desk(tmp_path / "library") as desk:
        index = of_few(desk)
        desk.add_texts([(f"text {n}", words_of(n)) for n in range(200)])
        (first,) = graphs(url)
        assert first[0] == "diskann"
        assert_found(desk)
        desk.add_texts([(f"text {n}", words_of(n)) for n in range(200, 212)])
        assert graphs(url) == [first], "it has grown"
        desk.remove("text 3")
        desk.remove("text 205")
        assert postgres_server.run("SELECT chunks, in_graph FROM search_indexes", url) == [(210, 210)]
        assert_found(desk)
        before = index._corpus
        with psycopg.connect(url) as reading:  # as a copy of the database does, for hours
            reading.execute("SELECT count(*) FROM search_0_chunks")
            desk.add_texts([(f"text {n}", words_of(n)) for n in range(300, 400)])
            assert len(graphs(url)) == 2, "the old one cannot go now, and nobody waits for that"
            assert_found(desk)
        index.refresh()
        index._corpus, after = before, index._corpus  # as a process that has not looked since
        assert_found(desk)
        index._corpus = after
        desk.parts.compact(force=True)
        ((kind, left),) = graphs(url)
        assert kind == "diskann" and left != first[1]
        asked = str([1.0] * desk.parts.embedder.dimensions)
        statement = nearest_by_diskann("search_0_chunks", graph_condition(after[3]), desk.parts.embedder.dimensions, 5)
        with psycopg.connect(url) as looking:
            looking.execute("SET enable_seqscan = off")
            explained = looking.execute(f"EXPLAIN {statement}", (asked, asked)).fetchall()  # type: ignore[arg-type]
        assert left in str(explained)
        assert_repaired(desk)


def test_a_library_that_was_there_before_keeps_its_graph_until_it_is_indexed_anew(tmp_path: Path, url: str) -> None:
    with open_desk(tmp_path / "library") as desk:
        of_few(desk)
        assert "no graph yet" in desk.check_database().text
        desk.add_texts([(f"text {n}", words_of(n)) for n in range(150)])
        assert [kind for kind, _ in graphs(url)] == ["hnsw"]
        assert desk.check_database().text.endswith("graph by HNSW")
        install(url)
        assert "pgvectorscale is installed, run `refdesk reindex`" in desk.check_database().text
        assert_found(desk)
        with open_desk(tmp_path / "library") as other:
            of_few(other)
            other.parts.index.refresh()
            desk.reindex()
            assert [kind for kind, _ in graphs(url)] == ["diskann"]
            assert_found(desk)
            other.parts.index.refresh()
            assert other.parts.index._graph == "diskann"
            assert_found(other)


def test_a_graph_that_went_with_its_extension_is_made_again(tmp_path: Path, url: str) -> None:
    install(url)
    with open_desk(tmp_path / "library") as desk:
        of_few(desk)
        desk.add_texts([(f"text {n}", words_of(n)) for n in range(150)])
        assert [kind for kind, _ in graphs(url)] == ["diskann"]
        postgres_server.run("DROP EXTENSION vectorscale CASCADE", url)
        assert graphs(url) == []
        assert_found(desk)  # as a process that does not know yet
    with open_desk(tmp_path / "library") as desk:
        of_few(desk)
        assert "no graph yet" in desk.check_database().text
        assert_found(desk)
        desk.parts.compact()
        assert [kind for kind, _ in graphs(url)] == ["hnsw"]
        assert_found(desk)
        assert_repaired(desk)
