"""A library goes into PostgreSQL and back: the same rows, the same answers, whatever happens on the way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import postgres_server
from conftest import run_refdesk
from library_samples import DYING_AT, SETTINGS, finish, open_desk, start, write_notes
from refdesk import Refdesk
from refdesk.errors import LibraryDamaged, UsageError
from refdesk.types import Scope

QUESTIONS = json.loads((Path(__file__).parent.parent / "examples" / "questions.json").read_text(encoding="utf-8"))
MIGRATING = f"""
import sys
from refdesk import Refdesk
with Refdesk(sys.argv[1], settings={SETTINGS!r}, database="") as desk:
    print(desk.migrate(sys.argv[2])["chunks"])
"""


@pytest.fixture
def url() -> Iterator[str]:
    with postgres_server.database(empty=True) as found:
        yield found


def held(desk: Refdesk) -> dict[str, Any]:
    """All that a library holds of its documents."""
    found: dict[str, Any] = {}
    for document in desk.documents():
        pages = [(page.page, page.text) for page in desk.pages(document.id)]
        tables = desk.parts.tables.with_cells(desk.parts.tables.of_document(document.id), None)
        cells = [[column.texts for column in table.columns] for table in tables]
        found[document.id] = (document, pages, desk.chunks(document.id), cells)
    return found


def vectors(desk: Refdesk) -> Any:
    ids, matrix = desk.parts.documents.vectors_after(desk.parts.embedder.name, 0, desk.parts.embedder.dimensions)
    return dict(zip(ids.tolist(), matrix, strict=True))


def proofs(answer: Any) -> list[Any]:
    return [(one.marker, one.document_id, one.chunk_id, one.page, one.quote, one.boxes) for one in answer.citations]


def test_the_examples_give_the_same_answers_there_and_back(own_folder: Path, tmp_path: Path, url: str) -> None:
    """The command line, as a user runs it; then every fourth question of the examples in all three."""
    done = run_refdesk("--library", own_folder, "migrate", "--to", url)
    assert done.returncode == 0 and "Copied and compared" in done.stderr, done.stderr
    back = run_refdesk("--library", own_folder, "migrate", "--to", tmp_path / "back", REFDESK_DATABASE_URL=url)
    assert back.returncode == 0, back.stderr
    said = run_refdesk("--library", own_folder, "doctor", REFDESK_DATABASE_URL=url)
    assert "PostgreSQL" in said.stdout and "problem" not in said.stdout, said.stdout
    asked = [entry["question"] for entry in QUESTIONS[::4]]
    settings = {"cache.enabled": False}
    with (
        Refdesk(own_folder, settings=settings, database="") as local,
        Refdesk(own_folder, settings=settings, database=url) as server,
        Refdesk(tmp_path / "back", settings=settings, database="") as again,
    ):
        assert held(local) == held(server) == held(again)
        there = vectors(server)
        assert all((vector == there[i]).all() for i, vector in vectors(local).items())
        for question in asked:
            first, *others = (desk.ask_sync(question) for desk in (local, server, again))
            for other in others:
                assert (other.content, other.is_answered) == (first.content, first.is_answered), question
                assert proofs(other) == proofs(first)
            names = [[hit.chunk.id for hit in desk.search(question, k=10)] for desk in (local, server)]
            assert len(set(names[0]) & set(names[1])) >= 9
        originals = [desk.original(local.documents()[0].id).read_bytes() for desk in (local, again)]
        assert originals[0] == originals[1]


def test_what_is_interrupted_goes_on_where_it_was(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "library"
    with open_desk(folder) as desk:
        desk.add(write_notes(tmp_path / "notes", 30))
        desk.ask_sync("Where was the buoy moored?", conversation_id="talk")
        before = held(desk)
    dying = f"{DYING_AT}\nfrom refdesk.store import copying\ncopying.BATCH = 7\n"
    dying += f"die_at(copying.SqlStatement, 'run_many', 12, 'after')\n{MIGRATING}"
    process = start(dying, folder, url)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 9, said
    arrived = postgres_server.run("SELECT key, xmin::text FROM documents", url)
    assert 0 < len(arrived) <= 30
    with pytest.raises(LibraryDamaged, match="is being copied"):
        Refdesk(folder, database=url)
    assert finish(start(MIGRATING, folder, url)) == "30\n"
    assert set(arrived) <= set(postgres_server.run("SELECT key, xmin::text FROM documents", url)), "they stayed"
    with Refdesk(folder, settings=SETTINGS, database=url) as desk:
        assert held(desk) == before
        assert [one.role for one in desk.messages("talk")] == ["user", "assistant"]
        assert desk.add_text("new", "The new buoy has a number of its own.").outcome == "added"
        assert len(desk.parts.index.dense(np.ones(384, np.float32), 100, Scope())) == 31
        assert all(finding.well for finding in desk.check())


def test_what_has_changed_since_begins_anew(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "library"
    with open_desk(folder) as desk:
        desk.add_texts([(f"text {n}", f"The buoy zq{n}v0 was moored.") for n in range(3)])
    dying = f"{DYING_AT}\nfrom refdesk.store import copying\ndie_at(copying, '_compared', 1, 'before')\n{MIGRATING}"
    process = start(dying, folder, url)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 9, said
    with open_desk(folder) as desk:
        desk.remove("text 1")
        desk.add_text("text 2", "The buoy zq2v1 was painted.")
        before = held(desk)
    assert finish(start(MIGRATING, folder, url)) == "2\n"
    with Refdesk(folder, settings=SETTINGS, database=url) as desk:
        assert held(desk) == before


def test_nothing_is_written_over(tmp_path: Path, url: str) -> None:
    with open_desk(tmp_path / "one") as desk:
        desk.add_text("quay", "The quay was built of oak in 1911.")
        desk.migrate(url)
        with pytest.raises(UsageError, match="the target already contains a library"):
            desk.migrate(url)
        with pytest.raises(UsageError, match="already"):
            desk.migrate(str(tmp_path / "one"))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with (
        Refdesk(tmp_path / "one", settings=SETTINGS, database=url) as desk,
        pytest.raises(UsageError, match="the target already"),
    ):
        desk.migrate(str(tmp_path / "two"))
