"""Answers and traces are kept without an answer having to wait, whatever the disk does."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from sqlalchemy import Engine, event, insert, text

from answer_samples import ANSWERS, TYPICAL
from library_samples import found_by, open_desk, word
from memory_desk import KINDS
from postgres_server import opened_engine
from refdesk.answer import Answer, Citation, Turn, answer_from_dict, decode_answer, encode_answer
from refdesk.errors import DiskFull
from refdesk.settings import Settings
from refdesk.store.database import BackgroundWriter
from refdesk.store.memory_records import MemoryAnswers
from refdesk.store.records import SqlAnswers, SqlConversations
from refdesk.store.schema import state
from refdesk.store_ports import AnswerStore
from timing import PATIENCE_S

STORES = KINDS
TRACE = {"id": "t" * 32, "total_ms": 40.5, "stages": [{"name": "retrieve", "took_ms": 12.25}]}


# answers to bytes and back


@settings(max_examples=60)
@given(ANSWERS)
def test_every_answer_comes_back(answer: Answer) -> None:
    data = encode_answer(answer)
    assert decode_answer(data) == answer
    assert orjson.loads(data) == orjson.loads(orjson.dumps(answer.to_dict()))


def test_values_of_other_kinds_are_taken() -> None:
    odd = replace(
        TYPICAL,
        metrics=MappingProxyType({"total_ms": np.float32(0.5)}),
        citations=(replace(TYPICAL.citations[0], relevance_score=np.float32(0.25)),),
    )
    found = decode_answer(encode_answer(odd))
    assert found.metrics == {"total_ms": 0.5} and found.citations[0].relevance_score == 0.25


def test_half_a_surrogate_pair_does_not_lose_the_answer() -> None:
    found = decode_answer(encode_answer(replace(TYPICAL, content="It costs \ud83d 4 euros.")))
    assert found == replace(TYPICAL, content="It costs ? 4 euros.")


def test_answers_of_other_versions_are_read() -> None:
    packed = TYPICAL.to_dict()
    del packed["suggested_questions"], packed["sufficiency"], packed["citations"][0]["origin"]
    packed["mood"] = packed["citations"][0]["colour"] = packed["claims"][0]["colour"] = "unknown here"
    first, *rest = TYPICAL.citations
    known = replace(TYPICAL, citations=(replace(first, origin=(0, 0)), *rest))
    assert answer_from_dict(orjson.loads(orjson.dumps(packed))) == known
    assert isinstance(known.citations[0], Citation)


# keeping them


@pytest.fixture
def engine(store_kind: str, tmp_path: Path) -> Iterator[Engine]:
    with opened_engine(store_kind, tmp_path) as found:
        yield found


@pytest.fixture
def store(store_kind: str, engine: Engine) -> Iterator[AnswerStore]:
    background = BackgroundWriter(engine)
    yield MemoryAnswers() if store_kind == "memory" else SqlAnswers(engine, background)
    background.close()


IN_SQLITE = pytest.mark.only_on("sql", reason="it is of SQLite's file: its lock for writing, its disk, its last moment")
IN_A_DATABASE = pytest.mark.only_on("sql", "postgres", reason="they are written in the background")


def fill_disk(engine: Engine, pages_left: int) -> None:
    """From now on the database may grow by so many pages; SQLite then says what it says of a full disk."""
    with engine.connect() as connection:
        most = pages_left + int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
    event.listen(engine, "connect", lambda connection, _: connection.execute(f"PRAGMA max_page_count = {most}"))
    engine.dispose()


def put(store: AnswerStore, answer_id: str, **more: Any) -> None:
    store.put(
        answer_id, **{"question": f"what is {answer_id}?", "answer": encode_answer(TYPICAL), "trace": TRACE} | more
    )


def test_what_was_put_is_there_at_once(store: AnswerStore) -> None:
    put(store, "one")
    found = store.get("one")
    assert found is not None
    answer, trace = found
    assert answer_from_dict(answer) == TYPICAL and trace == TRACE
    assert store.get("two") is None


def test_a_question_that_failed_keeps_its_trace(store: AnswerStore) -> None:
    put(store, "failed", answer=b"", trace={"stages": [{"name": "retrieve", "error": "damaged"}]})
    assert store.get("failed") == ({}, {"stages": [{"name": "retrieve", "error": "damaged"}]})


def test_a_trace_may_hold_anything(store: AnswerStore) -> None:
    put(store, "odd", trace={"scores": np.float32(0.5), "path": Path("a"), 3: "three"})
    assert store.get("odd") == (orjson.loads(encode_answer(TYPICAL)), {"scores": 0.5, "path": "a", "3": "three"})


def test_a_trace_that_changes_later_is_kept_as_it_was(store: AnswerStore) -> None:
    trace: dict[str, Any] = {"stages": []}
    put(store, "one", trace=trace)
    trace["stages"].append("late")
    assert store.get("one") == (orjson.loads(encode_answer(TYPICAL)), {"stages": []})


def test_an_id_that_comes_again_replaces(store: AnswerStore) -> None:
    put(store, "one")
    put(store, "one", trace={"second": True})
    assert store.get("one") == (orjson.loads(encode_answer(TYPICAL)), {"second": True})
    assert len(store.recent()) == 1


def test_recent_the_newest_first(store: AnswerStore) -> None:
    for number in range(5):
        put(store, f"answer {number}", conversation_id="talk", collections=("b", "a", "b"))
        time.sleep(0.003)  # times are in milliseconds
    found = store.recent(3)
    assert [one.id for one in found] == ["answer 4", "answer 3", "answer 2"]
    assert found[0].question == "what is answer 4?" and found[0].collections == ("a", "b")
    assert found[0].to_dict()["conversation_id"] == "talk"


@pytest.mark.parametrize(
    "limits, seen",
    [
        pytest.param({}, {"finance", "below", "both", "smalltalk", "own smalltalk"}, id="nobody_is_asked"),
        pytest.param({"access": ("finance",)}, {"finance", "below"}, id="below_is_open_too"),
        pytest.param({"access": ("finance/2024",)}, {"below"}, id="above_is_closed"),
        pytest.param({"access": ("fin",)}, set(), id="not_by_the_beginning_of_a_name"),
        pytest.param({"access": ("finance", "hr")}, {"finance", "below", "both"}, id="all_of_them"),
        pytest.param({"access": ()}, set(), id="no_access"),
        pytest.param({"owner": "anna"}, {"both", "own smalltalk"}, id="own_ones"),
        pytest.param({"owner": "anna", "access": ("hr",)}, {"own smalltalk"}, id="rights_taken_away"),
    ],
)
def test_nobody_sees_what_he_may_not_read(store: AnswerStore, limits: dict[str, Any], seen: set[str]) -> None:
    put(store, "finance", collections=("finance",))
    put(store, "below", collections=("finance/2024",))
    put(store, "both", collections=("finance", "hr"), owner="anna")
    put(store, "smalltalk")
    put(store, "own smalltalk", owner="anna")
    assert {one.id for one in store.recent(**limits)} == seen
    every = ("finance", "below", "both", "smalltalk", "own smalltalk")
    assert {name for name in every if store.get(name, **limits)} == seen


@IN_A_DATABASE
def test_old_ones_go_by_themselves_when_the_owner_says_so(engine: Engine) -> None:
    background = BackgroundWriter(engine)
    kept = Settings()
    store = SqlAnswers(engine, background, lambda: kept)
    put(store, "old")
    store.recent()
    with engine.begin() as connection:
        connection.execute(text("UPDATE answers SET created_at = '2020-01-01T00:00:00.000+00:00'"))
    put(store, "second")
    assert len(store.recent()) == 2, "for ever"
    kept = Settings().changed({"answer.keep_days": 30})
    put(store, "third")
    assert {one.id for one in store.recent()} == {"second", "third"}
    background.close()


# the writer in the background


@IN_SQLITE
def test_putting_does_not_wait_for_a_writer(engine: Engine, store: AnswerStore) -> None:
    with engine.connect() as other:
        other.exec_driver_sql("ROLLBACK")
        other.exec_driver_sql("BEGIN IMMEDIATE")
        for number in range(20):
            put(store, f"answer {number}")  # would wait in vain: the lock is held until all are put
        time.sleep(0.5)  # the writer's thread now waits for the lock
    assert len(store.recent()) == 20


@IN_SQLITE
def test_a_full_disk_is_told_once_and_fails_no_answer(
    engine: Engine, store: AnswerStore, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, "before")
    assert store.get("before") is not None
    fill_disk(engine, 40)
    noise = os.urandom(400_000).hex()
    with caplog.at_level(logging.WARNING, logger="refdesk.store"):
        for number in range(3):
            put(store, f"large {number}", trace={"noise": noise})
            assert store.get(f"large {number}") is None
    assert store._background.lost == 3 and "full" in store._background.error
    assert len(caplog.records) == 1 and "cannot be saved" in caplog.text
    put(store, "after")
    assert store.get("after") is not None and store.get("before") is not None


@IN_SQLITE
def test_what_cannot_wait_says_that_the_disk_is_full(engine: Engine) -> None:
    conversations = SqlConversations(engine)
    conversations.append("talk", [Turn("user", "short")])
    fill_disk(engine, 4)
    with pytest.raises(DiskFull, match=r"the disk that holds .* is full"):
        conversations.append("talk", [Turn("user", "long " * 100_000)])
    assert conversations.turns("talk", 9) == [Turn("user", "short")]


@IN_A_DATABASE
def test_one_bad_write_does_not_take_the_others_with_it(engine: Engine) -> None:
    background = BackgroundWriter(engine)
    for name in ("a", "b", "a", "c"):
        row = {"name": name, "value": "x"}
        background.submit(lambda connection, row=row: connection.execute(insert(state).values(row)))
    background.close()
    with engine.connect() as connection:
        found = connection.execute(state.select().where(state.c.value == "x")).all()
    assert sorted(row.name for row in found) == ["a", "b", "c"] and background.lost == 1


@IN_A_DATABASE
def test_what_comes_after_closing_is_written_too(engine: Engine) -> None:
    background = BackgroundWriter(engine)
    background.close()
    store = SqlAnswers(engine, background)
    put(store, "late")
    assert store.get("late") is not None and background.lost == 0


PUTS = """
import sys, time
from pathlib import Path
from refdesk.store.records import SqlAnswers
from refdesk.store.database import BackgroundWriter
from refdesk.store.records import SqlConversations
from refdesk.store.database import open_database
engine = open_database(Path(sys.argv[1]) / "library.db")
store = SqlAnswers(engine, BackgroundWriter(engine))
store.put("first", question="q", answer=b"{}", trace={})
print("put", flush=True)
time.sleep(float(sys.argv[2]))
"""


@IN_SQLITE
def test_a_program_that_ends_without_closing_keeps_its_answers(
    engine: Engine, store: AnswerStore, tmp_path: Path
) -> None:
    subprocess.run(
        [sys.executable, "-c", PUTS, str(tmp_path), "0"], check=True, timeout=PATIENCE_S, capture_output=True
    )
    assert store.get("first") is not None


@IN_SQLITE
def test_a_killed_program_loses_the_last_moment_at_most(engine: Engine, store: AnswerStore, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", PUTS, str(tmp_path), "60"], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"put\n"
    time.sleep(1.5)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert store.get("first") is not None


@pytest.mark.timeout(120)
def test_documents_are_added_while_answers_are_written(tmp_path: Path) -> None:
    """SQLite lets no transaction write that has read before another's commit: all writers take the lock first."""
    with open_desk(tmp_path / "library") as desk:
        background = BackgroundWriter(desk.parts.documents.engine)
        store = SqlAnswers(desk.parts.documents.engine, background)
        stop = threading.Event()
        done = 0

        def answer() -> None:
            nonlocal done
            while not stop.is_set():
                put(store, f"answer {done}")
                background.flush()
                done += 1

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            for number in range(15):
                assert desk.add_text(f"note {number}", f"The buoy {word(number)} was moored.").outcome == "added"
            desk.remove("note 3")
        finally:
            stop.set()
            thread.join()
        assert found_by(desk, word(14)) == ["note 14"] and found_by(desk, word(3)) == []
        assert done > 15 and len(store.recent(10_000)) == done and background.lost == 0
        background.close()
