"""Documents are renamed and moved: found at once under the new place, never under the old, whatever is killed."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

from library_samples import (
    DYING_AT,
    SETTINGS,
    assert_repaired,
    assert_whole,
    found_by,
    open_desk,
    seen_by,
    start,
    word,
    write_mail,
    write_note,
)
from memory_desk import ON_DISK
from refdesk import Refdesk, UsageError
from refdesk.caller_desk import CallerDesk
from refdesk.errors import NotFound
from refdesk.records import Move
from refdesk.store.schema import documents
from timing import PATIENCE_S

STORES = ON_DISK
pytestmark = pytest.mark.usefixtures("new_folder")  # in `tmp_path / "library"`

METHODS: tuple[Any, ...] = ("bm25", "dense", "hybrid", "rrf")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    with open_desk(tmp_path / "library") as found:
        found.add_texts([(f"text {number}", f"The buoy {word(number)} was moored.") for number in range(4)])
        yield found


def places(desk: CallerDesk, number: int, **scope: Any) -> set[str]:
    """The collections in which a word is found, by every method."""
    found = [
        {
            hit.document.collection
            for hit in desk.search(word(number), k=20, method=method, **scope)
            if word(number) in hit.chunk.text
        }
        for method in METHODS
    ]
    assert all(one == found[0] for one in found), found
    return found[0]


def test_found_in_the_new_collection_at_once_and_not_in_the_old(desk: Refdesk) -> None:
    moved = desk.move("text 1", " archive/2024 ")
    assert (moved.name, moved.collection) == ("text 1", "archive/2024")
    for number, place, found in (
        (1, "archive/2024", {"archive/2024"}),
        (1, "archive", {"archive/2024"}),
        (1, "default", set[str]()),
        (2, "default", {"default"}),
    ):
        assert places(desk, number, collection=place) == places(seen_by(desk, place), number) == found
    assert places(desk, 1) == {"archive/2024"}
    assert desk.collections() == [("archive/2024", 1), ("default", 3)]
    assert_repaired(desk)
    assert_whole(desk)


def test_nothing_but_the_collection_changes(desk: Refdesk) -> None:
    before, chunks = desk.document("text 1"), desk.chunks("text 1")
    rows = desk.parts.reader.sentence_vectors([chunks[0].id])[chunks[0].id]
    hit = desk.search(word(1), method="dense")[0]
    after = desk.move(before.id, "archive")
    assert after.id == before.id and after.created_at == before.created_at and after.chunk_count == before.chunk_count
    (chunk,) = desk.chunks("text 1")
    assert (chunk.text, chunk.context, chunk.sequence, tuple(chunk.spans)) == (
        chunks[0].text,
        chunks[0].context,
        chunks[0].sequence,
        tuple(chunks[0].spans),
    )
    assert np.array_equal(desk.parts.reader.sentence_vectors([chunk.id])[chunk.id], rows)
    found = desk.search(word(1), method="dense")[0]
    assert found.document.name == "text 1" and found.cosine == pytest.approx(hit.cosine, abs=1e-3)
    assert desk.pages("text 1")[0].text.startswith("The buoy")


def test_other_readers_notice(desk: Refdesk) -> None:
    with open_desk(desk.folder) as other:
        assert places(other, 1, collection="default") == {"default"}
        generation = other.parts.reader.generation()
        desk.move("text 1", "archive")
        assert places(other, 1, collection="archive") == {"archive"}
        assert places(other, 1, collection="default") == set()
        assert other.parts.reader.generation() > generation
        desk.rename("text 1", "letter")
        assert found_by(other, word(1)) == ["letter"]


def test_an_answer_from_before_is_not_served_after(desk: Refdesk) -> None:
    question = f"What was moored with {word(1)}?"
    seen_by(desk, "default").ask_sync(question)
    assert seen_by(desk, "default").ask_sync(question).cached == "exact"
    desk.move("text 1", "archive")
    answer = seen_by(desk, "default").ask_sync(question)
    assert answer.cached == "no" and "text 1" not in {one.document_name for one in answer.citations}


@pytest.mark.only_on("sql", reason="what is read of files is the same for every store")
def test_attachments_move_along(desk: Refdesk, tmp_path: Path) -> None:
    desk.add(write_mail(tmp_path, 9))
    sheet = desk.document("sheet-9.txt")
    desk.move("mail-9.eml", "post")
    assert {one.name for one in desk.documents(collection="post")} == {"mail-9.eml", "sheet-9.txt"}
    assert places(desk, 9, collection="post") == {"post"} and places(desk, 9, collection="default") == set()
    with pytest.raises(UsageError, match="attached to another document"):
        desk.move(sheet.id, "default")
    assert_repaired(desk)
    desk.remove("mail-9.eml")
    assert places(desk, 9) == set()


def test_moved_twice_and_back(desk: Refdesk) -> None:
    for place in ("a", "b", "default", "a"):
        desk.move("text 1", place)
        assert places(desk, 1) == {place}
    generation = desk.parts.reader.generation()
    desk.move("text 1", "a")
    assert desk.parts.reader.generation() == generation, "it lies there already"
    assert desk.reindex() == 4
    assert places(desk, 1, collection="a") == {"a"}
    assert_repaired(desk)


def test_readers_see_the_old_or_the_new(desk: Refdesk) -> None:
    """Never both, never neither, while it goes to and fro."""
    stop = threading.Event()
    wrong: list[Any] = []
    looked = 0

    def look() -> None:
        nonlocal looked
        with open_desk(desk.folder) as other:
            while not stop.is_set():
                hits = other.search(word(1), k=10)
                found = [hit.document.collection for hit in hits if word(1) in hit.chunk.text]
                looked += 1
                if len(found) != 1:
                    wrong.append(found)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for turn in range(30):
            desk.move("text 1", f"place {turn % 2}")
    finally:
        stop.set()
        thread.join()
    assert looked > 10 and wrong == []


def test_chunks_of_two_generations_are_not_read_together(desk: Refdesk) -> None:
    """An index that was asked before a change, or after it, may name the old chunk, the new one, or both."""
    store, before = desk.parts.documents, desk.parts.reader.generation()
    (old,) = (one.id for one in desk.chunks("text 1"))
    assert store.hydrate([old], before).keys() == {old}
    with open_desk(desk.folder) as other:
        other.add_text("text 1", f"The buoy {word(1)} was moored elsewhere.", collection="default")
        other.move("text 1", "archive")
        (new,) = (one.id for one in other.chunks("text 1"))
    assert new != old
    assert {key: document.collection for key, (_, document) in store.hydrate([old, new], before).items()} == {
        new: "archive"
    }


@pytest.mark.only_on("sql", reason="it is refused before it is looked for")
@pytest.mark.parametrize("place", ["", "../secrets", "a//b", "."])
def test_what_is_no_collection_is_refused(desk: Refdesk, place: str) -> None:
    with pytest.raises(UsageError, match="is not a valid collection name"):
        desk.move("text 1", place)
    assert places(desk, 1) == {"default"}


def test_a_place_that_is_taken_is_refused(desk: Refdesk) -> None:
    desk.add_text("text 1", "Another one.", collection="archive")
    first = desk.documents(collection="default")[1]
    with pytest.raises(UsageError, match="there is already a document 'text 1' in 'archive'"):
        desk.move(first.id, "archive")
    with pytest.raises(UsageError, match="there is already a document 'text 2' in 'default'"):
        desk.rename(first.id, "text 2")
    assert places(desk, 1) == {"default"}


@pytest.mark.parametrize("values", [{"status": "pending"}, {"status": "processing"}, {"owner": "a run"}], ids=str)
def test_what_is_being_added_keeps_still(desk: Refdesk, values: dict[str, str]) -> None:
    with desk.parts.documents.engine.begin() as connection:
        connection.execute(update(documents).where(documents.c.name == "text 1").values(values))
    for change in (lambda: desk.move("text 1", "archive"), lambda: desk.rename("text 1", "letter")):
        with pytest.raises(UsageError, match="'text 1' is still being added"):
            change()


@pytest.mark.only_on("sql", reason="what is read of files is the same for every store")
def test_a_document_that_failed_moves_too(desk: Refdesk, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    desk.add(tmp_path / "broken.pdf")
    assert desk.move("broken.pdf", "archive").collection == "archive"
    assert desk.rename("broken.pdf", "report.pdf").status == "failed"
    assert_repaired(desk)


# names


def test_renamed(desk: Refdesk) -> None:
    before = desk.document("text 1")
    generation = desk.parts.reader.generation()
    after = desk.rename("text 1", "  The  Windermoor\nletter.md ")
    assert (after.id, after.name, after.collection) == (before.id, "The Windermoor letter.md", "default")
    assert desk.parts.reader.generation() > generation
    assert found_by(desk, word(1)) == ["The Windermoor letter.md"]
    assert desk.document("The Windermoor letter.md").id == before.id
    with pytest.raises(NotFound, match="there is no document 'text 1'"):
        desk.document("text 1")
    assert desk.add_text("text 1", "The name is free again.").outcome == "added"
    assert desk.rename("The Windermoor letter.md", "The Windermoor letter.md").id == before.id
    assert_repaired(desk)


@pytest.mark.only_on("sql", reason="it is refused before it is looked for")
@pytest.mark.parametrize("name", ["", "  \n", "\0", "x" * 501, None, 7], ids=repr)
def test_what_is_no_name_is_refused(desk: Refdesk, name: Any) -> None:
    with pytest.raises(UsageError, match="a document name must have 1 to 500 characters"):
        desk.rename("text 1", name)


# several, and whole collections


def collections(desk: Refdesk) -> dict[str, str]:
    return {one.name: one.collection for one in desk.documents()}


@pytest.mark.parametrize("at_once", [2_000, 1], ids=["in_one_step", "in_several"])
def test_a_collection_is_renamed_with_what_is_inside_it(desk: Refdesk, at_once: int) -> None:
    desk.parts.writer.changed_at_once = at_once
    desk.move_all(["text 1", "text 2"], "finance/2024")
    desk.move("text 3", "finances")
    desk.move("text 0", "finance")
    moved = desk.rename_collection("finance", " archive/money ")
    assert {one.name for one in moved} == {"text 0", "text 1", "text 2"}
    assert collections(desk) == {
        "text 0": "archive/money",
        "text 1": "archive/money/2024",
        "text 2": "archive/money/2024",
        "text 3": "finances",
    }
    for number in (1, 2):
        assert places(seen_by(desk, "archive"), number) == {"archive/money/2024"}
        assert places(seen_by(desk, "finance"), number) == set()
    assert_whole(desk)


def test_a_collection_goes_into_itself(desk: Refdesk) -> None:
    """The documents that leave their places stand in nobody's way."""
    desk.add_text("text 1", f"The crane {word(1)} was greased.", collection="default/old")
    desk.rename_collection("default", "default/old")
    found = sorted((one.name, one.collection) for one in desk.documents() if one.name == "text 1")
    assert found == [("text 1", "default/old"), ("text 1", "default/old/old")]
    assert places(desk, 1) == {"default/old", "default/old/old"}


@pytest.mark.parametrize("how", ["taken_there", "twice"])
def test_when_one_cannot_go_none_does(desk: Refdesk, how: str) -> None:
    if how == "taken_there":
        desk.add_text("text 2", "Here already.", collection="archive")
    else:
        desk.add_text("text 2", "Of the same name.", collection="default/old")
    before = sorted((one.name, one.collection) for one in desk.documents())
    wanted = [one.id for one in desk.documents() if one.collection != "archive"]
    with pytest.raises(UsageError, match="there is already a document 'text 2' in 'archive'"):
        desk.move_all(wanted, "archive")
    assert sorted((one.name, one.collection) for one in desk.documents()) == before


def test_a_collection_is_removed_with_what_is_inside_it(desk: Refdesk) -> None:
    desk.move("text 1", "finance/2024")
    desk.move("text 2", "finances")
    assert [one.name for one in desk.remove_collection("finance")] == ["text 1"]
    assert set(collections(desk)) == {"text 0", "text 2", "text 3"} and places(desk, 1) == set()
    for gone in (lambda: desk.remove_collection("finance"), lambda: desk.rename_collection("finance", "archive")):
        with pytest.raises(NotFound, match="there is no collection 'finance'"):
            gone()


@pytest.mark.only_on("sql", reason="what is read of files is the same for every store")
def test_who_lay_in_one_collection_may_do_so_in_the_next(desk: Refdesk, tmp_path: Path) -> None:
    """A file and a text of one name are two documents, wherever they lie."""
    note = write_note(tmp_path / "notes", 7)
    desk.add(note, collection="a")
    desk.add_text(note.name, "Not the file.", collection="a")
    desk.rename_collection("a", "b")
    assert sorted((one.name, one.collection) for one in desk.documents(collection="b")) == [(note.name, "b")] * 2


@pytest.mark.only_on("sql", reason="what is read of files is the same for every store")
def test_a_file_lies_in_a_collection_once(desk: Refdesk, tmp_path: Path) -> None:
    note = write_note(tmp_path / "notes", 7)
    desk.add(note, collection="a")
    desk.add(tmp_path / "notes", collection="b")
    one, other = (document.id for document in desk.documents() if document.source == str(note))
    desk.rename(one, "renamed.md")
    with pytest.raises(UsageError, match="already"):
        desk.move_all([one, other], "c")
    desk.move(one, "c")
    with pytest.raises(UsageError, match=r"the file of 'note-7.md' is already in 'c', as 'renamed.md'"):
        desk.move(other, "c")


def test_what_has_gone_elsewhere_since_it_was_seen_is_not_touched(desk: Refdesk) -> None:
    """Who may change one collection must not reach into another by being slow."""
    seen = desk.document("text 1")
    desk.move(seen.id, "secret")
    with pytest.raises(NotFound):
        desk.parts.writer.move([Move(seen.id, seen.collection, "open")])
    with pytest.raises(NotFound):
        desk.parts.writer.rename(seen, "renamed")
    assert desk.parts.writer.remove([seen]) == [] and desk.document("text 1").collection == "secret"


def test_another_name_in_the_same_place(desk: Refdesk) -> None:
    seen = desk.document("text 1")
    (moved,) = desk.parts.writer.move([Move(seen.id, seen.collection, seen.collection, "renamed")])
    assert moved.name == "renamed" and places(desk, 1) == {"default"}


def test_many_are_removed_in_several_steps(desk: Refdesk) -> None:
    desk.parts.writer.changed_at_once = 1
    assert len(desk.remove_collection("default")) == 4 and desk.documents() == []
    assert_whole(desk)


@pytest.mark.only_on("sql", reason="PostgreSQL's indexes are not in the folder")
@pytest.mark.parametrize("change", ["rename", "remove_collection", "rename_collection", "move"])
def test_a_lost_index_is_made_anew_first(desk: Refdesk, change: str) -> None:
    desk.close()
    shutil.rmtree(desk.folder / "index")
    with open_desk(desk.folder) as again:
        work: dict[str, Callable[[], object]] = {
            "rename": lambda: again.rename("text 1", "renamed"),
            "remove_collection": lambda: again.remove_collection("default"),
            "rename_collection": lambda: again.rename_collection("default", "x"),
            "move": lambda: again.move("text 1", "x"),
        }
        work[change]()
        assert_whole(again)


def test_a_name_that_becomes_too_long(desk: Refdesk) -> None:
    desk.move("text 1", "a/" + "b" * 300)
    with pytest.raises(UsageError, match="at most 500 characters"):
        desk.rename_collection("a", "c" * 300)
    assert collections(desk)["text 1"] == "a/" + "b" * 300


# killed

# Moves a document and ends, as kill -9 does, at the nth call of a function: before it, or after.
DYING = f"""
import json, os, sys
from refdesk import Refdesk
from refdesk.index import lexical as lexical_tantivy
from refdesk.store import writer

place, name, nth, when = json.loads(sys.argv[2])
desk = Refdesk(sys.argv[1], settings={SETTINGS!r})
desk.parts.index.refresh()
{DYING_AT}
die_at(eval(place), name, nth, when)
desk.move("text 1", "archive")
os._exit(0)
"""
# Renames a collection into itself, a document at a time, and ends after the first.
DYING_BETWEEN = f"""
import os, sys
from refdesk import Refdesk
from refdesk.store import writer
from refdesk.records import Move

desk = Refdesk(sys.argv[1], settings={SETTINGS!r})
desk.parts.writer.changed_at_once = 1
{DYING_AT}
die_at(writer.SqlWriter, "_move", 1, "after")
desk.rename_collection("a", "a/old")
os._exit(0)
"""
POINTS = [
    ("writer", "departures", 1, "after"),
    ("writer.SqlWriter", "_number", 1, "after"),
    ("writer", "move_rows", 1, "after"),
    ("lexical_tantivy.LexicalIndex", "write", 1, "before"),
    ("lexical_tantivy.LexicalIndex", "write", 1, "after"),
    ("writer", "bump", 1, "after"),
    ("writer.SqlWriter", "_purge", 2, "before"),
    ("lexical_tantivy.LexicalIndex", "write", 2, "after"),
    ("lexical_tantivy.LexicalIndex", "merge", 1, "before"),
]


@pytest.mark.slow
@pytest.mark.only_on("sql", reason="the steps and the copies are of SQLite's folder; test_workers.py kills others")
def test_killed_between_two_steps(desk: Refdesk, tmp_path: Path) -> None:
    desk.close()
    ended = set()
    for number, point in enumerate(POINTS):
        library = tmp_path / str(number)
        shutil.copytree(desk.folder, library)
        process = start(DYING, library, json.dumps(point))
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 9, (point, errors)  # 0: the point was never reached
        with open_desk(library) as again:
            here = again.document("text 1").collection
            ended.add(here)
            away = {"archive": "default", "default": "archive"}[here]
            for _ in range(2):  # before the next writer has repaired it, and after
                assert places(seen_by(again, here), 1) == {here} and places(seen_by(again, away), 1) == set(), point
                assert_whole(again)
                assert_repaired(again)
            again.move("text 1", "archive")
            assert places(again, 1, collection="archive") == {"archive"}
    assert ended == {"archive", "default"}


@pytest.mark.slow
def test_killed_between_two_documents_of_one_name(desk: Refdesk) -> None:
    """The one that stands where the other goes is gone first, so that never two of a name lie in one place."""
    desk.add_text("x", f"The buoy {word(8)} was moored.", collection="a")
    desk.add_text("x", f"The buoy {word(9)} was moored.", collection="a/old")
    desk.close()
    process = start(DYING_BETWEEN, desk.folder)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 9, errors
    with open_desk(desk.folder) as again:
        assert (places(again, 8), places(again, 9)) == ({"a"}, {"a/old/old"})
        assert_whole(again)
        assert_repaired(again)
        again.rename_collection("a", "b")
        assert (places(again, 8), places(again, 9)) == ({"b"}, {"b/old/old"})


@pytest.mark.only_on("sql", reason="what is read again is the same for every store")
def test_a_folder_added_again_after_its_collection_was_moved_adds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"The buoy zq{number}v0 was moored.")
    with open_desk(tmp_path / "library") as desk:
        first = {one.name: one.document.id for one in desk.add(folder, collection="old/notes") if one.document}
        desk.rename_collection("old", "archive/2024")
        assert {one.outcome for one in desk.add(folder, collection="old/notes", sync=True)} == {"unchanged"}
        desk.move("0.txt", "other")  # and once more, a single one
        (folder / "1.txt").write_text("The buoy zq1v1 was moored.")
        results = {one.name: one.outcome for one in desk.add(folder, collection="old/notes")}
        assert results == {"0.txt": "unchanged", "1.txt": "replaced", "2.txt": "unchanged"}
        found = {one.name: (one.id, one.collection) for one in desk.documents()}
        places = {"0.txt": "other", "1.txt": "archive/2024/notes", "2.txt": "archive/2024/notes"}
        assert found == {name: (first[name], place) for name, place in places.items()}
        # Who names another collection wants them there too, and what came back is found where it is.
        assert {one.outcome for one in desk.add(folder, collection="second")} == {"added"}
        desk.move(first["0.txt"], "old/notes")
        assert {one.outcome for one in desk.add(folder, collection="old/notes")} == {"unchanged"}
        assert len(desk.documents()) == 6
