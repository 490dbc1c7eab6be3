"""A library in PostgreSQL: many processes, kills, restarts, the graph under filters, segments, and its errors in words.

What it shares with every other kind of library is held by tests/test_ports.py.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import postgres_server
from library_samples import (
    ADDING,
    DYING_AT,
    SETTINGS,
    assert_repaired,
    assert_whole,
    finish,
    open_desk,
    start,
    wait_until,
    write_notes,
)
from memory_desk import MemoryDesk
from refdesk import Refdesk
from refdesk.config import load_config
from refdesk.errors import LibraryError, LibraryTooNew, UsageError
from refdesk.index.postgres_tables import graph_condition
from refdesk.store.database import PreparedReader, open_server
from refdesk.store.jobs import SqlJobs
from refdesk.store.postgres import PostgresServer
from refdesk.types import Job, Scope


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a library's database, as the environment names it."""
    with postgres_server.database() as found:
        monkeypatch.setenv("REFDESK_DATABASE_URL", found)
        yield found


# several processes


def test_many_processes_open_a_new_library_at_once(tmp_path: Path) -> None:
    with postgres_server.database(empty=True) as url:
        opening = [
            start(ADDING, tmp_path / "library", env=os.environ | {"REFDESK_DATABASE_URL": url}) for _ in range(4)
        ]
        assert [finish(process) for process in opening] == ["open\n[]\n"] * 4


def test_two_add_different_folders(tmp_path: Path, url: str) -> None:
    library = tmp_path / "library"
    one, two = write_notes(tmp_path / "one", 12), write_notes(tmp_path / "two", 12, first=12)
    adding = [start(ADDING, library, one), start(ADDING, library, two)]
    with open_desk(library) as desk:
        while any(process.poll() is None for process in adding):
            assert all(finding.well for finding in desk.check())  # at every moment
        for process in adding:
            finish(process)
        assert len(desk.documents(status="ready")) == len(desk.documents()) == 24
        assert_whole(desk)
        assert_repaired(desk)


@pytest.mark.parametrize("place", ["SqlWriter._insert_content", "SqlWriter._fold", "PostgresIndex._write"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_that_is_killed_leaves_nothing_half_done(tmp_path: Path, url: str, place: str, when: str) -> None:
    notes = write_notes(tmp_path / "notes", 3)
    owner, name = place.split(".")
    module = "refdesk.index.postgres" if owner == "PostgresIndex" else "refdesk.store.writer"
    dying = f"{DYING_AT}\nfrom {module} import {owner}\ndie_at({owner}, {name!r}, 1, {when!r})\n{ADDING}"
    process = start(dying, tmp_path / "library", notes)
    process.communicate(timeout=100)
    assert process.returncode == 9
    with open_desk(tmp_path / "library") as desk:
        assert_whole(desk)
        assert {one.outcome for one in desk.add(notes)} == {"added"}
        assert_whole(desk)
        assert_repaired(desk)


def test_jobs_are_taken_once_by_many_at_a_time(url: str) -> None:
    readers = [PreparedReader(open_server(PostgresServer(url))) for _ in range(4)]
    many = [SqlJobs(reader) for reader in readers]
    many[0].submit([Job("", f"file {number}", "default") for number in range(80)])
    taken: list[tuple[str, str]] = []

    def work(jobs: SqlJobs) -> None:
        run = jobs.start()
        while some := jobs.take(run, lambda free: free[:3]):
            taken.extend((job.name, run) for job in some)
            assert len(jobs.change([replace(job, status="ready", worker="") for job in some], run)) == len(some)
        jobs.end(run)

    threads = [threading.Thread(target=work, args=(jobs,)) for jobs in many]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = many[0].take(many[0].start(), lambda free: free)  # who was beaten five times in a row went home
    assert len(taken) + len(left) == len({name for name, _ in taken} | {job.name for job in left}) == 80
    assert len({run for _, run in taken}) > 1, "they worked side by side"
    for reader in readers:
        reader.engine.dispose()


def test_a_server_that_restarts_is_met_again(tmp_path: Path, url: str) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.add_text("quay", "The quay was built of oak in 1911.")
        assert desk.search("oak", k=1)
        postgres_server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'refdesk'")
        assert desk.search("oak", k=1)[0].document.name == "quay"
        postgres_server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'refdesk'")
        assert desk.add_text("lamp", "The lamp is lit at dusk.").outcome == "added"
        assert desk.ask_sync("When was the quay built?").is_answered


# the index


def words_of(number: int) -> str:
    rare = f"zq{number}v0"
    return f"Buoy {rare} lies {'near' if number % 3 else 'far off'} the quay. " + "harbour " * (number % 7) + "."


def test_segments_come_together_and_score_as_one(tmp_path: Path, url: str) -> None:
    plain = MemoryDesk()
    with open_desk(tmp_path / "library") as desk:
        index = desk.parts.index
        index.dropped_least = 5
        for number in range(40):
            for one in (desk, plain):
                one.add_text(f"text {number}", words_of(number))
        for number in range(0, 40, 2):
            for one in (desk, plain):
                one.remove(f"text {number}")
        assert len(postgres_server.run("SELECT 1 FROM search_0_segments", url)) < 16
        for step in ("with some gone", "written anew"):
            index.refresh()
            for terms in (["quay"], ["harbour", "far"], ["zq7v0", "quay", "harbour"], ["zq8v0"]):
                names = [
                    {chunk.id: document.name for document, chunk in one.parts.documents.all_chunks()}
                    for one in (desk, plain)
                ]
                found = [
                    {names[n][i]: score for i, score in one.parts.index.lexical(terms, 50, Scope())}
                    for n, one in enumerate((desk, plain))
                ]
                assert found[0] == pytest.approx(found[1], rel=1e-4), (step, terms)
                frequency = [one.parts.index.frequency(terms[0], Scope()) for one in (desk, plain)]
                assert frequency[0] == frequency[1]
            assert index.resembling(["zq8v0"], 0, 10, Scope()) == []
            desk.parts.compact(force=True)
        assert len(postgres_server.run("SELECT 1 FROM search_0_segments", url)) == 1
        assert_repaired(desk)


def test_the_graph_keeps_its_recall_under_filters(tmp_path: Path, url: str) -> None:
    """Sixty texts in a part of three hundred: a graph that filters afterwards would find a few of them."""
    random = np.random.default_rng(7)
    with open_desk(tmp_path / "library") as desk:
        texts = [
            {"name": f"text {n}", "text": words_of(n), "collection": f"part/{n % 5}", "metadata": {"row": str(n % 2)}}
            for n in range(300)
        ]
        desk.add_texts(texts)
        index = desk.parts.index
        index.exact_below, index.scanned_at_most = 100, 0
        assert desk.parts.compact() and not index.needs_compaction(0)
        ids, matrix = desk.parts.documents.vectors_after(desk.parts.embedder.name, 0, desk.parts.embedder.dimensions)
        for scope in (
            Scope(),
            Scope(collections=("part/3",)),
            Scope(metadata=(("row", "1"),), collections=("part/2",)),
        ):
            allowed = np.isin(ids, desk.parts.documents.chunk_ids(scope))
            for _ in range(5):
                asked = matrix[random.integers(len(matrix))] + random.normal(0, 0.02, matrix.shape[1])
                vector = (asked / np.linalg.norm(asked)).astype(np.float32)
                cosines = np.where(allowed, matrix @ vector, -2)
                truth = np.sort(cosines)[::-1][:20]
                found = [score for _, score in index.dense(vector, 20, scope)]
                assert len(found) == 20
                # By their scores: several texts are nearly the same.
                assert np.mean(np.array(found) >= truth[-1] - 2e-3) >= 0.95


def graphs(url: str) -> list[str]:
    found = postgres_server.run("SELECT indexname FROM pg_indexes WHERE indexdef LIKE '%USING hnsw%'", url)
    return sorted(name for (name,) in found)


def test_a_graph_is_made_grows_and_is_made_anew_beside_searches(tmp_path: Path, url: str) -> None:
    with open_desk(tmp_path / "library") as desk:
        index, documents = desk.parts.index, desk.parts.documents
        index.exact_below, index.scanned_at_most, index.tail_least = 100, 0, 10

        def assert_all_found() -> None:
            """By the graph and by the scan beside it, whatever the index believes of where one ends."""
            ids, matrix = documents.vectors_after(desk.parts.embedder.name, 0, matrix_width)
            for place in (0, len(ids) // 2, len(ids) - 1):
                truth = np.sort(matrix @ matrix[place])[::-1][:10]
                found = [score for _, score in index.dense(matrix[place], 10, Scope())]
                assert np.mean(np.array(found) >= truth[-1] - 2e-3) >= 0.9

        matrix_width = desk.parts.embedder.dimensions
        desk.add_texts([(f"text {n}", words_of(n)) for n in range(200)])
        (first,) = graphs(url)
        assert_all_found()
        desk.add_texts([(f"text {n}", words_of(n)) for n in range(200, 212)])
        assert graphs(url) == [first], "it has grown"
        ((grown,),) = postgres_server.run("SELECT count(*) FROM search_0_chunks WHERE in_graph", url)
        assert grown >= 12
        desk.remove("text 3")
        desk.remove("text 205")
        assert postgres_server.run("SELECT chunks, in_graph FROM search_indexes", url) == [(210, 210)]
        assert_all_found()
        before = index._corpus
        import psycopg

        with psycopg.connect(url) as reading:  # as a copy of the database does, for hours
            reading.execute("SELECT count(*) FROM search_0_chunks")
            desk.add_texts([(f"text {n}", words_of(n)) for n in range(300, 400)])
            assert_all_found()
            assert len(graphs(url)) == 2, "the old one cannot go now, and nobody waits for that"
        index.refresh()
        index._corpus, after = before, index._corpus  # as a process that has not looked since
        assert_all_found()
        index._corpus = after
        desk.parts.compact(force=True)
        (left,) = graphs(url)
        assert left != first
        table = "search_0_chunks WHERE " + graph_condition(after[3])
        asked = f"'{[1.0] * matrix_width}'::halfvec"
        plan = f"SET enable_seqscan = off; EXPLAIN SELECT 1 FROM {table} ORDER BY vector <=> {asked} LIMIT 5"
        with psycopg.connect(url) as looking:
            looking.execute("SET enable_seqscan = off")
            explained = looking.execute(plan.partition("; ")[2]).fetchall()  # type: ignore[arg-type]
        assert left in str(explained)
        assert_repaired(desk)


def test_a_lost_index_is_made_again(tmp_path: Path, url: str) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.add_texts([(f"text {n}", words_of(n)) for n in range(5)])
    postgres_server.run("DROP TABLE search_0_postings, search_0_chunks, search_0_segments, search_indexes", url)
    with open_desk(tmp_path / "library") as desk:
        assert [hit.document.name for hit in desk.search("zq3v0", method="bm25")] == ["text 3"]
        assert all(finding.well for finding in desk.check())


# what is said


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("mysql://root@localhost/refdesk", "'mysql' databases are not supported"),
        ("postgresql://localhost", "names no database"),
        ("not a valid address", "not a valid address"),
    ],
)
def test_an_address_that_is_none(tmp_path: Path, wrong: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Refdesk(tmp_path / "library", database=wrong)


def test_a_server_that_is_away_is_said_in_a_sentence(tmp_path: Path, url: str) -> None:
    with pytest.raises(LibraryError, match="cannot be reached") as away:
        Refdesk(tmp_path / "library", database="postgresql://anna:geheim@127.0.0.1:1/refdesk")
    assert away.value.retryable and "geheim" not in away.value.sentence and "\n" not in away.value.sentence
    with pytest.raises(LibraryError, match="there is no database") as missing:
        Refdesk(tmp_path / "library", database=url.replace("/test_", "/none_"))
    assert "create it" in missing.value.hint
    config = load_config(tmp_path, {"REFDESK_DATABASE_URL": "postgresql://anna:geheim@host/refdesk"})
    assert "geheim" not in repr(config)


def test_a_read_that_takes_too_long_is_given_up(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFDESK_DATABASE_TIMEOUT_S", "0.2")
    with open_desk(tmp_path / "library") as desk:
        with pytest.raises(LibraryError, match="took too long"):
            desk._documents.quick("SELECT pg_sleep(5)")
        assert desk.documents() == []
    monkeypatch.setenv("REFDESK_DATABASE_POOL", "none")
    with pytest.raises(UsageError, match="REFDESK_DATABASE_POOL must be a number"):
        open_desk(tmp_path / "library")


def test_doctor_says_where_it_is_kept(tmp_path: Path, url: str) -> None:
    with open_desk(tmp_path / "library") as desk:
        said = desk.check_database().text
    assert said.startswith("PostgreSQL ") and "pgvector" in said and "own tables" in said
    with Refdesk(tmp_path / "other", database="") as desk:
        assert desk.check_database().text.startswith("SQLite in")


# an older schema

COLUMNS = """
SELECT table_name, column_name, data_type, collation_name, is_nullable FROM information_schema.columns
WHERE table_schema = 'public' AND table_name NOT LIKE 'search%' ORDER BY 1, 2
"""


def test_an_older_library_gets_the_columns_of_a_new_one(tmp_path: Path, url: str) -> None:
    """Also the order of their texts, which a server has of its own where nobody says it."""
    with open_desk(tmp_path / "library") as desk:
        desk.add_text("board", "The Harbour Board met in Lisbon.")
        new = postgres_server.run(COLUMNS, url)
    for statement in (
        "DROP TABLE tree_members, tree_nodes, written_summaries",
        "ALTER TABLE entities DROP COLUMN key",
        "ALTER TABLE relations DROP COLUMN subject_key, DROP COLUMN object_key, DROP COLUMN sentence",
        "CREATE INDEX entities_by_name ON entities (name)",
        "CREATE INDEX relations_by_subject ON relations (subject)",
        "CREATE INDEX relations_by_object ON relations (object)",
        "UPDATE alembic_version SET version_num = '0008'",
    ):
        postgres_server.run(statement, url)
    with open_desk(tmp_path / "library") as desk:
        assert postgres_server.run(COLUMNS, url) == new
        keys = {key for (key,) in postgres_server.run("SELECT key FROM entities", url)}
        assert "harbour board" in keys
        assert_whole(desk)


# two versions at a time

NEWER = f"""
import sys
from sqlalchemy import Column, Text, inspect, text
from refdesk.store import database, schema
schema.documents.append_column(Column("shelf", Text, nullable=False, server_default=""))
database.HEAD = "9999"
from refdesk.store.postgres import PostgresServer
engine = database.connect_server(PostgresServer(sys.argv[2]))
with engine.begin() as connection:
    if "shelf" not in [column["name"] for column in inspect(connection).get_columns("documents")]:
        connection.execute(text("ALTER TABLE documents ADD COLUMN shelf TEXT NOT NULL DEFAULT ''"))
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("INSERT INTO state VALUES ('compatible', '0008')"))
engine.dispose()
from refdesk import Refdesk
from refdesk.store import document_rows as rows
values = rows.document_values
rows.document_values = lambda document, modified: values(document, modified) | {{"shelf": "upper"}}
with Refdesk(sys.argv[1], settings={SETTINGS!r}) as desk:
    desk.add_text("of the newer", "The newer program writes of buoys.")
    print(sorted(one.name for one in desk.documents()), flush=True)
"""


def test_two_versions_use_one_library_while_the_schema_is_expanded(tmp_path: Path, url: str) -> None:
    with open_desk(tmp_path / "library") as older:
        older.add_text("of the older", "The older program writes of quays.")
        assert finish(start(NEWER, tmp_path / "library", url)) == "['of the newer', 'of the older']\n"
        older.add_text("of the older later", "It goes on writing of quays.")
        assert {hit.document.name for hit in older.search("program writing buoys quays")} == {
            *("of the newer", "of the older", "of the older later"),
        }
    with open_desk(tmp_path / "library") as again:  # and may be started anew
        assert len(again.documents()) == 3
    postgres_server.run("UPDATE state SET value = '9999' WHERE name = 'compatible'", url)  # contracted
    with pytest.raises(LibraryTooNew):
        open_desk(tmp_path / "library")


def test_a_backup_of_it_is_a_library_in_a_folder(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.add(write_notes(tmp_path / "notes", 2))
        saved = desk.backup(tmp_path / "saved.refdesk")
    with pytest.raises(UsageError, match="restored to a folder"):
        Refdesk.restore(saved, tmp_path / "restored")
    monkeypatch.delenv("REFDESK_DATABASE_URL")
    Refdesk.restore(saved, tmp_path / "restored")
    with open_desk(tmp_path / "restored") as desk:
        assert len(desk.documents()) == 2
        assert_whole(desk)


@pytest.mark.slow
def test_a_replica_is_searched_and_the_primary_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_server.replicated() as (primary, follower):
        monkeypatch.setenv("REFDESK_DATABASE_URL", primary)
        with open_desk(tmp_path / "library") as desk:
            desk.add_text("quay", "The quay was built of oak in 1911.")
        monkeypatch.setenv("REFDESK_DATABASE_REPLICA_URL", follower)
        assert wait_until(
            lambda: postgres_server.run("SELECT to_regclass('search_0_chunks') IS NOT NULL", follower)[0][0]
        )
        with open_desk(tmp_path / "library") as desk:
            assert "replica" in desk.check_database().text
            assert wait_until(lambda: [hit.document.name for hit in desk.search("oak")] == ["quay"])
            postgres_server.run("SELECT pg_wal_replay_pause()", follower)
            desk.add_text("lamp", "The lamp is lit at dusk.")
            assert {one.name for one in desk.documents()} == {"quay", "lamp"}
            assert [hit.document.name for hit in desk.search("lamp", method="bm25")] == [], "it has not heard of it"
            assert desk.add_text("lamp", "The lamp is lit at dusk.").outcome == "unchanged"
            postgres_server.run("SELECT pg_wal_replay_resume()", follower)
            assert wait_until(lambda: desk.search("lamp", method="bm25"))
            assert desk.ask_sync("When is the lamp lit?").is_answered
            assert all(finding.well for finding in desk.check())
