"""Damaged indexes heal, snapshots stay true, backups are whole, migrations lead where the schema says."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from library_samples import (
    ADDING,
    assert_repaired,
    assert_whole,
    finish,
    found_by,
    open_desk,
    start,
    wait_until,
    word,
    write_note,
    write_notes,
)
from refdesk import Refdesk
from refdesk.errors import LibraryDamaged, LibraryError, LibraryTooNew, UsageError
from refdesk.index.local import EXACT_BELOW, GRAPH, TAIL_LIMIT
from refdesk.ports import Embedded
from refdesk.records import Prepared
from refdesk.serve.cli.admin import examine
from refdesk.store import database, schema
from refdesk.store_ports import Ready
from refdesk.types import Chunk, Document, Page, Scope, Sentence, Span

DIMENSIONS = 384
CHUNKS_EACH = 200


# the lexical index


def test_what_a_commit_that_was_killed_left_is_in_nobodys_way(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        for number in range(3):
            desk.add_text(f"note {number}", f"Note {number} speaks of {word(number)}.")
        (folder,) = (tmp_path / "library" / "index").glob("lexical-*")
        meta = json.loads((folder / "meta.json").read_text())
        for segment in meta["segments"]:
            for stamp in range(meta["opstamp"], meta["opstamp"] + 10):
                (folder / f"{segment['segment_id'].replace('-', '')}.{stamp}.del").write_bytes(b"half a list")
        desk.remove("note 1")
        assert [hit.document.name for hit in desk.search(word(2), k=1, method="bm25")] == ["note 2"]
        assert desk.search(word(1), method="bm25") == []
        assert_whole(desk)


@pytest.fixture(scope="module")
def texts_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts") / "library"
    with open_desk(folder) as desk:
        for number in range(6):  # one after the other, so that there are several segments
            desk.add_text(f"text {number}", f"The buoy {word(number)} was moored.")
        desk.remove("text 5")
    return folder


def remove_index(index: Path) -> None:
    shutil.rmtree(index)


def empty_index(index: Path) -> None:
    for path in index.rglob("*"):
        if path.is_file():
            path.unlink()


def damage_meta(index: Path) -> None:
    next(index.glob("lexical-*/meta.json")).write_text('{"segments": [')


def remove_segments(index: Path) -> None:
    for path in index.glob("lexical-*/*.idx"):
        path.unlink()


@pytest.mark.parametrize("damage", [remove_index, empty_index, damage_meta, remove_segments])
def test_a_damaged_index_heals_when_the_library_is_used(
    damage: Callable[[Path], None], texts_library: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    shutil.copytree(texts_library, library)
    damage(library / "index")
    with open_desk(library) as desk:
        assert found_by(desk, word(3)) == ["text 3"] and found_by(desk, word(5)) == []
        assert_whole(desk)
    damage(library / "index")
    with open_desk(library) as desk:  # the first thing done may also be an add
        desk.add_text("more", f"The lamp {word(20)} was lit.")
        assert found_by(desk, word(20)) == ["more"]
        assert_whole(desk)
        assert_repaired(desk)


def test_reindex_and_doctor(texts_library: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(texts_library, library)
    with open_desk(library) as desk:
        assert all(finding.well or finding.name == "disk" for finding in examine(desk))
        with desk.parts.index.folder.joinpath("stray").open("w"):
            pass
        # An index that opens and is wrong is seen by the doctor, and put right by reindex.
        desk.parts.index.lexical_index.write((), drop=[(1, 2)])
        desk.parts.index.lexical_index.reload()
        ill = {finding.name: finding for finding in examine(desk) if not finding.well}
        assert "2 missing" in ill["BM25 index"].text and "reindex" in ill["BM25 index"].advice
        seen: list[tuple[int, int]] = []
        assert desk.reindex(lambda done, total: seen.append((done, total))) == 5
        assert seen[-1] == (5, 5)
        assert_repaired(desk)
        assert_whole(desk)
        assert len(list((library / "index").glob("lexical-*"))) == 1


def test_an_index_whose_terms_are_of_an_earlier_version_is_named_and_made_anew(
    texts_library: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    shutil.copytree(texts_library, library)
    with open_desk(library) as desk:
        assert desk.parts.index.lexical_index.has_current_terms
        desk.parts.index.lexical_index.folder.joinpath("terms.version").write_text("1")
        ill = {finding.name: finding for finding in examine(desk) if not finding.well}
        assert "earlier version" in ill["BM25 terms"].text and "reindex" in ill["BM25 terms"].advice
        assert found_by(desk, word(3)) == ["text 3"]  # it is still searched
        desk.reindex()
        assert "BM25 terms" not in {finding.name for finding in examine(desk) if not finding.well}


# snapshots of the vectors


def direction(name: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)


def vector_of(text: str) -> np.ndarray:
    """A direction that belongs to a text alone, near those of its document: embeddings lie in clusters too."""
    vector = direction(text.split()[0]) + direction(text)
    return vector / np.linalg.norm(vector)


def made(number: int, chunks: int = CHUNKS_EACH, version: int = 0) -> Ready:
    """A document of tiny chunks, each with a vector of its own."""
    pieces, embedded = [], []
    for sequence in range(1, chunks + 1):
        text = f"{number} {sequence} {version}"
        pieces.append(
            Chunk(
                document_id="",
                sequence=sequence,
                kind="table" if sequence % 10 == 0 else "text",
                text=text,
                heading_path=(),
                pages=(1,),
                spans=(Span(0, len(text), 0, 1),),
                sentences=(Sentence(0, len(text), 1),),
                token_count=3,
            )
        )
        vector = vector_of(text)
        embedded.append(Embedded(vector, np.rint(vector[None, :] * 127).astype(np.int8)))
    document = Document("", f"made {number}", f"part/{number % 4}", f"{number:064d}", "ready", language="en")
    return Ready(Prepared(document, "", (Page(1, 0, 0),), tuple(pieces)), embedded)


def nearest(desk: Refdesk, text: str, scope: Scope | None = None, k: int = 1) -> list[str]:
    """The texts of the chunks whose vectors are nearest to that of a text."""
    desk.parts.index.refresh()
    found = desk.parts.index.dense(vector_of(text), k, scope or Scope())
    rows = desk.parts.documents.hydrate([chunk_id for chunk_id, _ in found], desk.parts.documents.state().generation)
    return [rows[chunk_id][0].text for chunk_id, _ in found]


def test_a_library_of_a_few_thousand_chunks_gets_a_snapshot(tmp_path: Path) -> None:
    """Without one the first search of every process would read every vector from SQL."""
    with open_desk(tmp_path / "library") as desk:
        desk.parts.writer.store([made(number) for number in range(TAIL_LIMIT // CHUNKS_EACH + 1)])
        assert desk.parts.compact() and desk.parts.index.vectors.tail_length == 0
        assert not desk.parts.compact()
    with open_desk(tmp_path / "library") as desk:
        assert nearest(desk, "1 7 0") == ["1 7 0"] and desk.parts.index.vectors.tail_length == 0
        assert len(desk.parts.index.vectors) == desk.parts.documents.counts(desk.parts.embedder.name)["vectors"] < 5000
        desk.parts.writer.store([made(1, 3, version=1)])
        assert nearest(desk, "1 2 1") == ["1 2 1"]
        assert len(desk.parts.index.vectors) == desk.parts.documents.counts(desk.parts.embedder.name)["vectors"]


@pytest.fixture(scope="module")
def large_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Just over the number of chunks from which a snapshot is made."""
    folder = tmp_path_factory.mktemp("large") / "library"
    with open_desk(folder) as desk:
        count = EXACT_BELOW // CHUNKS_EACH + 1
        for first in range(0, count, 8):
            desk.parts.writer.store([made(number) for number in range(first, min(first + 8, count))])
        assert desk.parts.compact(force=True)
        assert len(list((folder / "index").glob("vectors-*"))) == 1
    return folder


@pytest.fixture
def large(large_library: Path, tmp_path: Path) -> Path:
    shutil.copytree(large_library, tmp_path / "library")
    return tmp_path / "library"


@pytest.mark.slow
def test_snapshot_with_additions_removals_and_filters(large: Path) -> None:
    with open_desk(large) as desk:
        assert nearest(desk, "7 3 0") == ["7 3 0"]
        assert not desk.parts.compact()  # nothing to do
        desk.parts.writer.store([made(100, 20)])
        assert nearest(desk, "100 5 0") == ["100 5 0"]
        desk.parts.writer.store([made(8, version=1)])  # replaces one that is in the snapshot
        assert nearest(desk, "8 3 1") == ["8 3 1"] and nearest(desk, "8 3 0") != ["8 3 0"]
        desk.remove("made 7")
        assert nearest(desk, "7 3 0") != ["7 3 0"]
        assert not any(text.startswith("7 ") for text in nearest(desk, "7 3 0", k=50))
        # Filters hold inside the search, for many allowed chunks and for few.
        assert nearest(desk, "5 3 0", Scope(collections=("part/1",))) == ["5 3 0"]
        assert nearest(desk, "5 3 0", Scope(collections=("part/2",))) != ["5 3 0"]
        assert len(nearest(desk, "5 3 0", Scope(collections=("part/2",)), k=40)) == 40
        only = Scope(documents=(desk.document("made 9").id,), kinds=("table",))
        assert len(nearest(desk, "5 3 0", only, k=60)) == CHUNKS_EACH // 10
        assert all(text.startswith("9 ") for text in nearest(desk, "5 3 0", only, k=60))
        assert_repaired(desk)
        before = sorted((large / "index").glob("vectors-*"))
        with open_desk(large) as reader:
            assert nearest(reader, "9 1 0") == ["9 1 0"]
            assert desk.parts.compact(force=True)
            assert sorted((large / "index").glob("vectors-*")) != before
            for one in (desk, reader):
                assert nearest(one, "9 1 0") == ["9 1 0"]
                assert nearest(one, "8 3 1") == ["8 3 1"]
                assert nearest(one, "100 5 0") == ["100 5 0"]
                assert not any(text.startswith("7 ") for text in nearest(one, "7 3 0", k=50))
        assert desk.parts.documents.dropped() == []
        assert_repaired(desk)
    with open_desk(large) as desk:
        assert nearest(desk, "8 3 1") == ["8 3 1"] and desk.parts.index.vectors.tail_length == 0


def remove_file(path: Path) -> None:
    path.unlink()


def truncate_file(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def overwrite_file(path: Path) -> None:
    path.write_bytes(b"not what it should be" * 50)


@pytest.mark.slow
def test_a_damaged_snapshot_does_no_harm(large: Path) -> None:
    harm = {
        GRAPH: (remove_file, overwrite_file),
        "ids.npy": (truncate_file,),
        "vectors.npy": (remove_file, truncate_file),
    }
    [snapshot] = (large / "index").glob("vectors-*")
    for name, damages in harm.items():
        whole = (snapshot / name).read_bytes()
        for damage in damages:
            damage(snapshot / name)
            with open_desk(large) as desk:
                assert nearest(desk, "7 3 0") == ["7 3 0"], (name, damage)
                assert len(desk.parts.index.vectors) == desk.parts.documents.counts(desk.parts.embedder.name)["vectors"]
            (snapshot / name).unlink(missing_ok=True)
            (snapshot / name).write_bytes(whole)
    truncate_file(snapshot / GRAPH)
    with open_desk(large) as desk:
        desk.add_text("one more", "A small text.")  # writers see that the tail is long, and make a new one
        assert nearest(desk, "7 3 0") == ["7 3 0"] and desk.parts.index.vectors.tail_length == 0
        assert_repaired(desk)


@pytest.mark.slow
def test_large_library_is_rebuilt_from_sql(large: Path) -> None:
    shutil.rmtree(large / "index")
    with open_desk(large) as desk:
        assert found_by(desk, "7 3 0") != [] and nearest(desk, "7 3 0") == ["7 3 0"]
        assert desk.parts.index.vectors.tail_length == 0
        assert_repaired(desk)


# another embedder


@pytest.fixture
def endpoint() -> Iterator[str]:
    """An embeddings endpoint whose vectors are hashed words in 64 dimensions."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            data = [{"index": place, "embedding": hashed(text)} for place, text in enumerate(texts)]
            body = json.dumps({"data": data}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    def hashed(text: str) -> list[float]:
        vector = [0.01] * 64
        for one in text.lower().split():
            vector[hashlib.sha256(one.encode()).digest()[0] % 64] += 1.0
        return vector

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_change_of_embedder(
    endpoint: str, texts_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    shutil.copytree(texts_library, library)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint)
    monkeypatch.setenv("REFDESK_EMBEDDER", "openai:hashed")
    with open_desk(library) as desk:
        for add in (lambda: desk.add_text("new", "The lamp was lit."), lambda: desk.add(write_note(tmp_path, 1))):
            with pytest.raises(UsageError, match="vectors were made by") as refused:
                add()
            assert "reindex" in refused.value.sentence
        assert {document.name for document in desk.documents()} == {f"text {number}" for number in range(5)}
        assert found_by(desk, word(2)) == ["text 2"]  # words are still found
        assert desk.reindex() == 5
        assert desk.add_text("new", f"The lamp {word(9)} was lit.").outcome == "added"
        assert found_by(desk, word(9), "dense") == ["new"] and found_by(desk, word(2), "hybrid") == ["text 2"]
        assert_repaired(desk)
    monkeypatch.delenv("REFDESK_EMBEDDER")
    with open_desk(library) as desk:
        with pytest.raises(UsageError):
            desk.add_text("newer", "The lamp was lit again.")
        assert desk.reindex() == 6
        assert found_by(desk, word(9), "dense") == ["new"]
        assert_repaired(desk)


# backup and restore


def test_backup_while_another_process_adds(tmp_path: Path) -> None:
    library, notes = tmp_path / "library", write_notes(tmp_path / "notes", 150)
    adding = start(ADDING, library, notes)
    with open_desk(library) as desk:
        assert wait_until(lambda: len(desk.documents(status="ready")) > 0)
        files = [desk.backup(tmp_path / f"backup-{number}.tar") for number in range(3)]
        finish(adding)
    counts = []
    for number, file in enumerate(files):
        folder = Refdesk.restore(file, tmp_path / f"restored {number}")
        with open_desk(folder) as restored:
            ready = restored.documents(status="ready")
            counts.append(len(ready))
            assert_whole(restored)
            assert_repaired(restored)
            for document in ready:
                assert (folder / "files" / document.content_hash[:2] / document.content_hash).is_file()
    assert 0 < counts[0] <= counts[1] <= counts[2]
    with open_desk(tmp_path / "restored 0") as restored:  # what was unfinished is taken up again
        restored.add()
        assert len(restored.documents(status="ready")) == len(restored.documents()) == 150
        assert_repaired(restored)
    assert not list(library.glob(".backup-*")) and not list(tmp_path.glob("*.building"))


def test_restore_refuses_what_it_should(texts_library: Path, tmp_path: Path) -> None:
    with open_desk(texts_library) as desk:
        whole = desk.backup(tmp_path / "whole.tar")
    existing = tmp_path / "existing"
    with open_desk(existing) as desk:
        desk.add_text("mine", f"The lamp {word(30)} was lit.")
    with pytest.raises(UsageError, match="holds a library already"):
        Refdesk.restore(whole, existing)
    with pytest.raises(UsageError, match="no file"):
        Refdesk.restore(tmp_path / "nowhere.tar", tmp_path / "fresh")
    data = whole.read_bytes()
    bad = tmp_path / "bad.tar"
    with tarfile.open(whole) as archive:
        after_database = archive.getmembers()[1].offset
    for content in (data[: len(data) // 2], data[:after_database], data[:100], b"", b"not a backup" * 100):
        bad.write_bytes(content)
        with pytest.raises(LibraryDamaged, match="not a whole backup"):
            Refdesk.restore(bad, existing, replace=True)
    with tarfile.open(bad, "w") as archive:
        archive.add(__file__, "something-else.py")
    with pytest.raises(LibraryDamaged, match="not a whole backup"):
        Refdesk.restore(bad, tmp_path / "fresh")
    assert not (tmp_path / "fresh" / "library.db").exists()
    with open_desk(existing) as desk:
        assert found_by(desk, word(30)) == ["mine"]
    Refdesk.restore(whole, existing, replace=True)
    with open_desk(existing) as desk:
        assert found_by(desk, word(30)) == [] and found_by(desk, word(1)) == ["text 1"]
        assert_repaired(desk)


@pytest.mark.parametrize("has_filters", [True, False], ids=["this_python", "python_3.11.0"])
def test_a_backup_holds_plain_files_alone(
    texts_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_filters: bool
) -> None:
    if not has_filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with open_desk(texts_library) as desk:
        whole = desk.backup(tmp_path / "whole.tar")
    outside = tarfile.TarInfo("../outside")
    link, device = tarfile.TarInfo("link"), tarfile.TarInfo("device")
    link.type, link.linkname, device.type = tarfile.SYMTYPE, "/etc", tarfile.CHRTYPE
    for member in (outside, link, device):
        bad = Path(shutil.copy(whole, tmp_path / "bad.tar"))
        with tarfile.open(bad, "a") as archive:
            archive.addfile(member)
        with pytest.raises(LibraryDamaged, match="not a whole backup"):
            Refdesk.restore(bad, tmp_path / "fresh")
        assert not (tmp_path / "fresh").exists() and not (tmp_path / "outside").exists()
    with open_desk(Refdesk.restore(whole, tmp_path / "fresh")) as desk:
        assert found_by(desk, word(1)) == ["text 1"]


# the database


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "of_0_1_0"])
def test_a_library_has_the_tables_that_the_schema_says(is_new: bool, tmp_path: Path) -> None:
    if not is_new:  # what was released stays what migrations start from
        with tarfile.open(Path(__file__).parent / "golden" / "backup-0.1.tar") as archive:
            archive.extract("library.db", tmp_path, filter="data")
    database.open_database(tmp_path / "library.db").dispose()
    engine = create_engine(f"sqlite:///{tmp_path / 'library.db'}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        assert context.get_current_revision() == database.HEAD
    engine.dispose()
    versions = Path(database.__file__).parent / "migrations" / "versions"
    assert max(path.stem[:4] for path in versions.glob("[0-9]*.py")) == database.HEAD


def test_a_library_from_before_the_first_release_is_left_alone(texts_library: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(texts_library, library)
    with sqlite3.connect(library / "library.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
    connection.close()
    with pytest.raises(LibraryError, match=r"before 0\.1\.0 .*0003"):
        open_desk(library)


def test_a_library_of_a_newer_version_is_left_alone(texts_library: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(texts_library, library)
    with sqlite3.connect(library / "library.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(LibraryTooNew, match="9999") as refused:
        open_desk(library)
    assert "upgrade" in refused.value.sentence


@pytest.mark.parametrize("content", [b"this is no database " * 500, b"SQLite format 3\x00" + b"\xff" * 8000])
def test_a_damaged_database_says_so(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "library.db").write_bytes(content)
    with pytest.raises(LibraryDamaged, match="does not open") as refused:
        open_desk(tmp_path / "library")
    assert "restore" in refused.value.sentence
