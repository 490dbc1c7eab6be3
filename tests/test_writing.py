"""What a store asks of the database: a few statements for each document, none that reads a whole table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import event

from library_samples import assert_repaired, open_desk
from refdesk import Refdesk
from refdesk.ports import Embedded
from refdesk.records import Prepared
from refdesk.store_ports import Ready
from refdesk.types import Chunk, Document, Page, Sentence, Span


def ready(desk: Refdesk, number: int, text: str = "The buoy was moored.") -> Ready:
    """A text of one chunk with its vector."""
    chunk = Chunk("", 1, "text", text, (), (1,), (Span(0, len(text), 0, 1),), (Sentence(0, len(text), 1),), 5)
    vector = np.zeros(desk.parts.embedder.dimensions, dtype=np.float32)
    vector[number % len(vector)] = 1.0
    embedded = Embedded(vector, np.rint(vector[None, :] * 127).astype(np.int8))
    document = Document("", f"text {number}", "default", f"{number:064d}", "pending", language="en", chunk_count=1)
    return Ready(Prepared(document, text, (Page(1, 0, len(text)),), (chunk,)), [embedded])


PICKED = ("CO-ROUTINE", "MATERIALIZE")


@contextmanager
def statements(desk: Refdesk) -> Iterator[list[tuple[str, Any]]]:
    """What the engine's connections run meanwhile, each call of the driver once."""
    seen: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        seen.append((statement, parameters[0] if many else parameters))

    event.listen(desk._engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(desk._engine, "before_cursor_execute", note)


@contextmanager
def traced(desk: Refdesk) -> Iterator[list[str]]:
    """What the engine's connections run meanwhile, with its values, whoever prepared it."""
    seen: list[str] = []

    def begin(connection: Any, *_: Any) -> None:
        connection.set_trace_callback(seen.append)

    def end(connection: Any, *_: Any) -> None:
        connection.set_trace_callback(None)

    event.listen(desk._engine, "checkout", begin)
    event.listen(desk._engine, "checkin", end)
    try:
        yield seen
    finally:
        event.remove(desk._engine, "checkout", begin)
        event.remove(desk._engine, "checkin", end)


def test_a_document_takes_two_statements(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.parts.writer.store([ready(desk, 0)])
        with statements(desk) as few:
            desk.parts.writer.store([ready(desk, number) for number in range(1, 6)])
        with statements(desk) as many:
            stored = desk.parts.writer.store([ready(desk, number) for number in range(6, 46)])
        assert [outcome for _, outcome in stored] == ["added"] * 40
        assert len(many) - len(few) <= 2 * (40 - 5), "one looks it up, one writes its row"
        assert_repaired(desk)


def test_what_is_given_back_is_what_is_stored(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        first = desk.parts.writer.store([ready(desk, number) for number in range(3)])
        assert [document for document, _ in first] == [desk.document(f"text {number}") for number in range(3)]
        again = desk.parts.writer.store([ready(desk, 1, "The lamp was lit."), ready(desk, 3)])
        assert [outcome for _, outcome in again] == ["replaced", "added"]
        for document, _ in again:
            assert document == desk.document(document.name)
        assert again[0][0].id == first[1][0].id and again[0][0].created_at == first[1][0].created_at
        assert [chunk.text for chunk in desk.chunks("text 1")] == ["The lamp was lit."]
        assert_repaired(desk)


def test_no_statement_of_a_store_reads_a_whole_table(tmp_path: Path) -> None:
    """A text was looked up among all texts of its collection: adding to 100,000 took ever longer."""
    with open_desk(tmp_path / "library") as desk:
        with traced(desk) as seen:
            desk.parts.writer.store([ready(desk, number) for number in range(3)])
            desk.parts.writer.store([ready(desk, number, "The lamp was lit.") for number in range(3)])
        looked_up = False
        with desk._engine.connect() as connection:
            for statement in seen:
                if not statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
                    continue
                plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")]
                # A handful of rows, and what a sub-select has picked by its key.
                small = ("state", "dropped", *(step.split()[-1] for step in plan if step.startswith(PICKED)))
                assert not [step for step in plan if "SCAN" in step and not step.endswith(small)], (statement, plan)
                looked_up |= any("collection=? AND source=? AND name=?" in step for step in plan)
        assert looked_up


def test_the_languages_of_the_library_are_followed(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:

        def spoken(number: int, language: str) -> Ready:
            made = ready(desk, number)
            document = replace(made.prepared.document, language=language)
            return replace(made, prepared=replace(made.prepared, document=document))

        def languages() -> tuple[str, ...]:
            desk.parts.index.refresh()
            assert desk.parts.documents.spoken() == set(desk.parts.reader.languages)
            return desk.parts.reader.languages

        desk.parts.writer.store([spoken(number, "en") for number in range(300)])
        assert languages() == ("en",)
        desk.parts.writer.store([spoken(300, "de"), spoken(301, "")])  # too few for all to be counted again
        assert languages() == ("en", "de")
        desk.remove("text 300")
        assert languages() == ("en",)
        desk.parts.writer.store([spoken(number, "de") for number in range(200)])
        assert languages() == ("de", "en")
