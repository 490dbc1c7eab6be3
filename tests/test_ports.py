"""What a store, an index, files and jobs are held to: the implementations in SQL and folders, and those in memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import postgres_server
from library_samples import seen_by, write_mail, write_note
from memory_desk import KINDS, open_either
from refdesk.errors import AccessDenied, NotFound, UsageError
from refdesk.files.local import LocalFiles, MemoryFiles
from refdesk.files.remote import RemoteFiles
from refdesk.index.lexical import _rounded
from refdesk.records import Caller
from refdesk.store.database import PreparedReader, open_database, open_server
from refdesk.store.jobs import MemoryJobs, SqlJobs, new_run
from refdesk.store.postgres import PostgresServer
from refdesk.store_ports import Files, Jobs
from refdesk.text import query_terms
from refdesk.types import Job, Scope
from s3_server import S3Server, running_s3
from upload_samples import work_off

TEXTS = {
    "quay": "The quay was built of oak in 1911. The quay is long. A mooring at the quay costs 24 crowns a night.",
    "lamp": "The harbour lamp is lit at dusk. Its keeper is Ulla Brandt, who lives by the quay.",
    "ferry": "The ferry departs at a quarter past eight and takes twelve passengers. " * 12,
    "crane": "The harbour crane lifts forty tonnes, and its driver climbs forty steps.",
}


@pytest.fixture(params=KINDS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_either(request.param, tmp_path / "library") as found:
        found.add_texts([{"name": name, "text": text} for name, text in TEXTS.items() if name != "crane"])
        found.add_text("crane", TEXTS["crane"], collection="harbour/cranes", date="2024-05-01", metadata={"by": "Ulla"})
        yield found


def names(hits: Any) -> list[str]:
    return [hit.document.name for hit in hits]


SCOPES = [
    ({}, {"quay", "lamp", "ferry", "crane"}),
    ({"collection": "harbour"}, {"crane"}),
    ({"collection": "harb"}, set()),
    ({"access": ("default",)}, {"quay", "lamp", "ferry"}),
    ({"access": ()}, set()),
    ({"document": "lamp"}, {"lamp"}),
    ({"date_from": "2024-01-01"}, {"crane"}),
    ({"date_to": "2024-01-01"}, set()),
    ({"metadata": {"by": "Ulla"}}, {"crane"}),
    ({"kind": "table"}, set()),
    ({"pages": (2, 3)}, set()),
]


@pytest.mark.parametrize(
    "scope, wanted", SCOPES, ids=lambda value: str(sorted(value) if isinstance(value, set) else value)
)
def test_a_scope_is_kept(desk: Any, scope: dict[str, Any], wanted: set[str]) -> None:
    query = "harbour quay ferry crane"
    if "access" in scope:
        desk, scope = seen_by(desk, *scope["access"]), {}
    for method in ("bm25", "dense", "hybrid", "rrf"):
        assert set(names(desk.search(query, k=10, method=method, **scope))) == wanted
    resolved = desk.scope(**scope)
    assert desk.parts.index.count(resolved) == len(wanted)
    assert (
        {one.name for one in desk.parts.documents.documents(resolved)} == wanted
        or scope.get("kind")
        or scope.get("pages")
    )


def test_all_kinds_score_alike(tmp_path: Path) -> None:
    found = []
    for kind in KINDS:
        with open_either(kind, tmp_path / kind) as desk:
            desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
            terms = query_terms("Which quay costs forty crowns, and which ferry departs? The quay!", ("en",))
            vector = desk.parts.embedder.embed_query("the harbour quay")
            everything = [*desk.parts.documents.chunk_ids(Scope())]
            by_name = {chunk.id: document.name for document, chunk in desk.parts.documents.all_chunks()}
            lexical = {by_name[i]: score for i, score in desk.parts.index.lexical([*terms, terms[0]], 10, Scope())}
            some = {
                by_name[i]: score
                for i, score in desk.parts.index.lexical_scores([*terms, terms[0]], everything).items()
            }
            dense = {by_name[i]: score for i, score in desk.parts.index.dense(vector, 10, Scope())}
            assert some == pytest.approx(lexical)
            frequencies = {term: desk.parts.index.frequency(term, Scope()) for term in terms}
            near = {by_name[i] for i in desk.parts.index.resembling(["qauy", "feri"], 1, 10, Scope())}
            found.append((lexical, dense, frequencies, near))
    for other in found[1:]:
        assert found[0][0] == pytest.approx(other[0], rel=1e-4) and list(found[0][0]) == list(other[0])
        assert found[0][1] == pytest.approx(other[1], abs=2e-3)
        assert found[0][2:] == other[2:]


@pytest.mark.parametrize("length, kept", [(5, 5), (39, 39), (40, 40), (41, 40), (57, 56), (63, 60), (300, 280)])
def test_lengths_are_kept_in_a_byte(length: int, kept: int) -> None:
    assert _rounded(length) == kept


def test_a_changed_text_takes_the_place_of_the_old(desk: Any) -> None:
    before = desk.document("lamp")
    assert desk.add_text("lamp", "The lantern burns three litres of oil a night.").outcome == "replaced"
    after = desk.document("lamp")
    assert (after.id, after.created_at) == (before.id, before.created_at) and after.content_hash != before.content_hash
    assert names(desk.search("keeper Ulla Brandt", method="bm25")) == []
    assert names(desk.search("litres of oil", method="bm25")) == ["lamp"]
    assert desk.add_text("lamp", "The lantern burns three litres of oil a night.").outcome == "unchanged"
    assert all(one.well for one in desk.check())


def test_an_answer_quotes_it(desk: Any) -> None:
    answer = desk.ask_sync("When was the quay built?", conversation_id="talk")
    assert answer.is_answered and "1911" in answer.content and answer.cached == "no"
    assert desk.ask_sync("When was the quay built?", conversation_id="other").cached == "exact"
    assert [one.role for one in desk.messages("talk")] == ["user", "assistant"]
    assert desk.recent_questions()[-1].question == "When was the quay built?"
    assert desk.trace(answer.id)["passages"] and desk.answer_kept(answer.id)["content"] == answer.content
    assert desk.analytics(1)["questions"] == 2


def test_files_and_what_is_attached_to_them(desk: Any, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    write_note(folder, 1)
    write_mail(folder, 7)
    assert {one.name: one.outcome for one in desk.add(folder)} == {
        "note-1.md": "added",
        "mail-7.eml": "added",
        "sheet-7.txt": "added",
    }
    assert {one.outcome for one in desk.add(folder)} == {"unchanged"}
    mail = desk.document("mail-7.eml")
    assert [one.name for one in desk.parts.documents.children(mail.id)] == ["sheet-7.txt"]
    moved = desk.move("mail-7.eml", "post")
    assert moved.collection == desk.document("sheet-7.txt").collection == "post"
    with pytest.raises(UsageError, match="attached to another document"):
        desk.move("sheet-7.txt", "default")
    assert {one.outcome for one in desk.add(folder)} == {"unchanged"}, "it is known where it was added"
    assert desk.original("note-1.md").read_bytes() == (folder / "note-1.md").read_bytes()
    assert {one.name for one in desk.remove("mail-7.eml")} == {"mail-7.eml", "sheet-7.txt"}
    assert all(one.well for one in (*desk.check(), *desk.check_files()))


def test_moved_and_renamed(desk: Any) -> None:
    generation = desk.parts.reader.generation()
    desk.move("quay", "harbour/quays")
    assert desk.collections() == [("default", 2), ("harbour/cranes", 1), ("harbour/quays", 1)]
    assert names(desk.search("oak 1911", method="bm25", collection="harbour")) == ["quay"]
    assert names(seen_by(desk, "default").search("oak 1911", method="bm25")) == []
    assert desk.parts.reader.generation() > generation
    desk.add_text("quay", "Another quay.")
    with pytest.raises(UsageError, match="there is already a document 'quay' in 'default'"):
        desk.move("crane", "default", name="quay")
    with pytest.raises(UsageError, match="2 documents are called 'quay'"):
        desk.document("quay")
    desk.rename_collection("harbour", "port")
    assert [one for one, _ in desk.collections()] == ["default", "port/cranes", "port/quays"]
    assert desk.rename("crane", "derrick").name == "derrick" and names(desk.search("tonnes", k=1)) == ["derrick"]
    with pytest.raises(NotFound):
        desk.document("crane")


def test_lists_of_documents(desk: Any) -> None:
    found, total = desk.list_documents(text="A", limit=2, sort="name")
    assert ([one.name for one in found], total) == (["crane", "lamp"], 3)
    found, total = desk.list_documents(limit=2, offset=2, sort="name", is_falling=True)
    assert ([one.name for one in found], total) == (["ferry", "crane"], 4)
    with pytest.raises(NotFound):
        desk.find_document(desk.document("crane").id[:-1])
    assert desk.document(desk.document("crane").id[:8]).name == "crane"


def test_rebuilt_it_is_the_same(desk: Any) -> None:
    before = names(desk.search("harbour", k=4))
    assert desk.reindex() == desk.parts.documents.counts(desk.parts.embedder.name)["chunks"]
    assert names(desk.search("harbour", k=4)) == before
    assert all(one.well for one in desk.check())


def test_pages_and_neighbours(desk: Any) -> None:
    (page,) = desk.pages("quay")
    assert page.text.startswith("The quay was built")
    chunks = desk.chunks("ferry")
    around = desk.parts.reader.neighbours(chunks[:1], 1)
    assert [one.sequence for one in around[chunks[0].id]] == [1][: len(chunks) - 1]
    vectors = desk.parts.reader.sentence_vectors([chunks[0].id])[chunks[0].id]
    assert vectors.shape == (len(chunks[0].sentences), desk.parts.embedder.dimensions) and vectors.dtype == np.int8


# files and jobs


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as found:
        yield found


@pytest.fixture(params=[LocalFiles, MemoryFiles, RemoteFiles])
def files(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    if request.param is RemoteFiles:
        server = request.getfixturevalue("s3")
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        return RemoteFiles(tmp_path / "library", f"s3://{server.bucket}/{tmp_path.name}")
    made: Files = request.param(tmp_path / "library") if request.param is LocalFiles else request.param()
    return made


def test_files_are_known_by_their_content(files: Files, tmp_path: Path) -> None:
    kept = files.put(b"oak")
    (tmp_path / "spruce").write_bytes(b"spruce")
    other = files.put(b"spruce")
    files.adopt(tmp_path / "spruce", other)
    assert files.path(kept).read_bytes() == b"oak" and files.put(b"oak") == kept
    assert files.hashes() == {kept, other} and files.damage(kept) == ""
    assert not (tmp_path / "spruce").exists() and files.path(other).read_bytes() == b"spruce"
    files.remove([kept])
    assert not files.has(kept) and files.damage(kept) == "missing" and not files.path(kept).exists()


def test_bytes_wait_until_a_job_adds_them(files: Files) -> None:
    with files.receiving() as (lost, file):
        file.write(b"half")
    assert not files.staged(lost).exists()
    with files.receiving() as (kept, file):
        file.write(b"oak")
        content_hash = files.stage(kept, file)
    assert files.staged(kept).read_bytes() == b"oak" and content_hash == files.put(b"oak")
    files.clear_staged([])
    assert files.staged(kept).exists(), "somebody may be about to submit its job"
    files.unstage([kept, "unknown"])
    assert not files.staged(kept).exists()


def test_a_workspace_lasts_as_long_as_its_block(files: Files) -> None:
    with files.workspace("mine") as folder:
        (folder / "page").write_bytes(b"oak")
        assert not files.clear_workspaces(lambda: {"mine"}) and (folder / "page").exists()
        files.adopt(folder / "page", files.put(b"oak"))
    assert not folder.exists() and not files.clear_workspaces(set)


@pytest.fixture(params=KINDS)
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Jobs]:
    with ExitStack() as stack:
        if request.param == "memory":
            yield MemoryJobs()
            return
        if request.param == "postgres":
            reader = PreparedReader(open_server(PostgresServer(stack.enter_context(postgres_server.database()))))
        else:
            reader = PreparedReader(open_database(tmp_path / "library.db"))
        yield SqlJobs(reader)
        reader.close()
        reader.engine.dispose()


def submitted(jobs: Jobs, *names: str, **fields: Any) -> list[Job]:
    return jobs.submit([Job("", name, "default", password="secret", **fields) for name in names])


def everything(free: list[Job]) -> list[Job]:
    return free


def test_what_is_submitted_waits_in_its_order(jobs: Jobs) -> None:
    version = jobs.version()
    first, second = submitted(jobs, "a", "b", metadata={"by": "Ulla"})
    submitted(jobs, "c", kind="file", source="/c")
    assert jobs.version() != version and list(jobs.all().values()) == [first, second]
    assert first.created_at < second.created_at and first.source == f"upload:{first.id}"
    assert [one.name for one in jobs.all(("file",)).values()] == ["c"]
    version = jobs.version()
    (changed,) = jobs.change([replace(first, status="failed", reason="torn", password=None)])
    assert jobs.all()[first.id] == changed and jobs.version() != version
    jobs.remove([first.id, "unknown"])
    assert list(jobs.all()) == [second.id] and jobs.change([changed]) == []


def test_a_job_is_taken_once_and_comes_back_when_the_run_ends(jobs: Jobs) -> None:
    submitted(jobs, "a", "b", "c")
    mine, other = jobs.start(), jobs.start()
    assert jobs.alive() == {mine, other}
    taken = jobs.take(mine, lambda free: free[:2])
    assert [(one.name, one.worker, one.attempts) for one in taken] == [("a", mine, 1), ("b", mine, 1)]
    assert jobs.take(other, everything, alone=True) == [], "another one is at it"
    assert [one.name for one in jobs.take(other, everything)] == ["c"]
    (begun,) = jobs.change([replace(taken[0], status="processing", pages_done=3)], mine)
    assert jobs.change([replace(taken[1], status="processing")], other) == [], "it is not theirs"
    jobs.end(mine)
    assert jobs.alive() == {other} and jobs.change([begun], mine) == []
    again = jobs.take(other, everything, alone=True)
    assert [(one.name, one.status, one.pages_done, one.attempts) for one in again] == [
        ("a", "processing", 3, 2),
        ("b", "pending", 0, 2),
    ]
    jobs.change([replace(one, status="ready", worker="") for one in again], other)
    assert jobs.take(other, everything) == []


def test_a_run_that_is_not_heard_of_is_at_an_end(jobs: Jobs) -> None:
    submitted(jobs, "a")
    heard = jobs.start()
    last_heard = replace(new_run(), lease_until=time.time() + 2.0)  # as one that began 58 seconds ago
    silent = jobs.submit([last_heard])[0].id
    jobs.take(silent, everything)
    jobs.beat(heard)
    assert jobs.alive() == {silent, heard}
    time.sleep(max(0.0, last_heard.lease_until - time.time()) + 0.1)
    assert [one.name for one in jobs.take(heard, everything, alone=True)] == ["a"]
    assert jobs.alive() == {heard}
    jobs.beat(silent)  # it had slept: it is at work again, and its job is another one's
    assert jobs.alive() == {silent, heard} and jobs.all()[next(iter(jobs.all()))].worker == heard


def test_a_run_whose_process_is_dead_is_at_an_end_at_once(jobs: Jobs) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    machine, _, _, token = new_run().id.rsplit(".", 3)
    if machine == "elsewhere":
        pytest.skip("processes cannot be looked at here")
    started = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    ids = [f"{machine}.{process.pid}.{started}.{token}", f"elsewhere.{process.pid}.{started}.{token}"]
    jobs.submit([replace(new_run(), id=one, worker=one) for one in ids])
    submitted(jobs, "a", worker=ids[0])
    assert jobs.alive() == set(ids)
    process.communicate(b"\n")
    assert jobs.alive() == {ids[1]}, "of another machine only its lease can tell"
    assert [one.worker for one in jobs.all().values()] == [""]


def test_what_is_cancelled_is_seen_by_who_is_at_it(jobs: Jobs) -> None:
    waiting, running = submitted(jobs, "a", "b")
    mine = jobs.start()
    (taken,) = jobs.take(mine, lambda free: [one for one in free if one.id == running.id])
    jobs.cancel([waiting.id, running.id, "unknown"])
    assert jobs.all() == {} and jobs.take(mine, everything) == []
    assert [one.name for one in jobs.cancelled(mine)] == ["b"] and [one.name for one in jobs.cancelled()] == ["a"]
    assert jobs.change([replace(taken, status="ready", worker="")], mine) == []
    jobs.end(mine)
    assert [one.name for one in jobs.cancelled()] == ["a", "b"]


def test_jobs_become_documents(desk: Any) -> None:
    ids = {}
    for name in ("pier.md", "twin.md", "torn.pdf"):
        with desk.files.receiving() as (job_id, file):
            file.write(b"%PDF-1.7 torn" if name == "torn.pdf" else b"The pier was built of iron in 1933.")
            ids[name] = job_id
            desk.jobs.submit([Job(job_id, name, "default", content_hash=desk.files.stage(job_id, file))])
    assert {one.name: one.outcome for one in work_off(desk)} == {
        "pier.md": "added",
        "twin.md": "unchanged",
        "torn.pdf": "failed",
    }
    found = {one.name: (one.status, one.outcome, one.worker) for one in desk.jobs.all().values()}
    assert found["pier.md"] == ("ready", "added", "") and found["twin.md"] == ("ready", "unchanged", "")
    assert found["torn.pdf"] == ("failed", "", "") and desk.jobs.alive() == set()
    assert [desk.files.staged(one).exists() for one in ids.values()] == [False, False, True]
    assert names(desk.search("iron 1933", method="bm25")) == ["pier.md"]


# a desk for each caller


def test_a_caller_sees_his_collections_and_what_is_his(desk: Any) -> None:
    reader = Caller("anna", "Anna", "reader", ("harbour",))
    editor = Caller("ben", "Ben", "editor", ("harbour",))
    anna, ben = desk.for_caller(reader), desk.for_caller(editor)
    assert [one.name for one in anna.documents()] == ["crane"] and anna.collections() == [("harbour/cranes", 1)]
    assert names(anna.search("quay harbour ferry")) == ["crane"]
    with pytest.raises(NotFound):
        anna.document("quay")
    answer = anna.ask_sync("What does the harbour crane lift?", conversation_id="talk")
    assert answer.is_answered and [one.id for one in anna.conversations()] == ["talk"]
    assert ben.conversations() == [] and ben.recent_questions() == []
    for look in (lambda: ben.trace(answer.id), lambda: ben.answer_kept(answer.id), lambda: ben.conversation("talk")):
        with pytest.raises(NotFound):
            look()
    assert anna.give_feedback(answer.id, "correct").owner == "anna" and len(anna.feedback_of(answer.id)) == 1
    assert (anna.analytics(1)["questions"], ben.analytics(1)["questions"]) == (1, 0)
    with pytest.raises(AccessDenied, match="a reader may not rename documents"):
        anna.rename("crane", "derrick")
    assert ben.rename("crane", "derrick").name == "derrick"
    with pytest.raises(AccessDenied, match="may not move documents in 'default'"):
        ben.move("derrick", "default")
    assert [one.name for one in ben.remove("derrick")] == ["derrick"]
    anna.remove_conversation("talk")
    assert anna.conversations() == [] and anna.recent_questions() == []
