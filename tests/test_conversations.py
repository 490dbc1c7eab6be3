"""Conversations go on where they were left, and belong to who began them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from library_samples import open_desk
from memory_desk import KINDS
from postgres_server import opened_engine
from refdesk import Refdesk
from refdesk.answer import Turn
from refdesk.errors import UsageError
from refdesk.records import Older
from refdesk.store import schema
from refdesk.store.database import BackgroundWriter
from refdesk.store.memory_records import MemoryConversations
from refdesk.store.records import SqlAnswers, SqlConversations, title_of
from refdesk.store_ports import ConversationStore


@pytest.fixture
def engine(store_kind: str, tmp_path: Path) -> Iterator[Engine | None]:
    if store_kind == "memory":
        yield None
    else:
        with opened_engine(store_kind, tmp_path) as found:
            yield found


@pytest.fixture
def store(engine: Engine | None) -> ConversationStore:
    return SqlConversations(engine) if engine else MemoryConversations()


STORES = KINDS
IN_SQL = pytest.mark.only_on("sql", "postgres", reason="it reads in the tables what was stored")


def exchange(number: int) -> list[Turn]:
    return [Turn("user", f"question {number}"), Turn("assistant", f"answer {number} [1].")]


@IN_SQL
def test_the_next_question_sees_the_last_answer(engine: Engine, store: ConversationStore) -> None:
    assert store.turns("talk", 10) == []
    for number in range(4):
        store.append("talk", exchange(number), f"answer-{number}")
    assert SqlConversations(engine).turns("talk", 3) == [exchange(2)[1], *exchange(3)]
    assert store.turns("talk", 100) == [turn for number in range(4) for turn in exchange(number)]
    found = store.messages("talk")
    assert [one.answer_id for one in found[:2]] == ["", "answer-0"]
    assert [one.key for one in found] == sorted(one.key for one in found) and found[0].to_dict()["role"] == "user"


def test_the_first_question_is_the_title(store: ConversationStore) -> None:
    store.append("talk", exchange(0))
    store.append("talk", exchange(1))
    named = store.create(title="Anchors")
    store.append(named, exchange(2))
    unnamed = store.create()
    store.append(unnamed, exchange(3))
    assert [store.conversation(name).title for name in ("talk", named, unnamed)] == [
        "question 0",
        "Anchors",
        "question 3",
    ]
    assert len(unnamed) == 32 and unnamed != named


@pytest.mark.parametrize(
    "question, title",
    [
        pytest.param("  What\n does it cost? ", "What does it cost?", id="one_line"),
        pytest.param("word " * 30, "word " * 15 + "word…", id="cut_at_a_word"),
        pytest.param("x" * 200, "x" * 79 + "…", id="one_long_word"),
        pytest.param("a \ud83d\0 b", "a ? b", id="what_cannot_be_stored"),
    ],
)
def test_titles(question: str, title: str) -> None:
    assert title_of(question) == title


def test_the_one_last_used_comes_first(store: ConversationStore) -> None:
    for name in ("a", "b", "c"):
        store.append(name, exchange(0))
        time.sleep(0.003)  # times are in milliseconds
    store.append("a", exchange(1))
    assert [(one.id, one.message_count) for one in store.recent()] == [("a", 4), ("c", 2), ("b", 2)]
    assert len(store.recent(1)) == 1 and store.recent()[0].to_dict()["title"] == "question 0"


@IN_SQL
def test_rename_and_delete(engine: Engine, store: ConversationStore) -> None:
    background = BackgroundWriter(engine)
    answers = SqlAnswers(engine, background)
    for name in ("a", "b"):
        store.append(name, exchange(0), f"answer-{name}")
        answers.put(f"answer-{name}", question="q", answer=b"{}", trace={}, conversation_id=name)
    assert len(answers.recent()) == 2
    store.rename("a", "Another  name")
    assert store.conversation("a").title == "Another name"
    store.delete("a")
    assert store.turns("a", 10) == [] and [one.id for one in store.recent()] == ["b"]
    assert [one.id for one in answers.recent()] == ["answer-b"], "what was answered in it goes too"
    with engine.connect() as connection:
        assert connection.execute(select(schema.messages.c.conversation_id).distinct()).scalars().all() == ["b"]
    background.close()


@pytest.mark.parametrize("name", ["", "  ", "x" * 81, "line\nbreak", "\x1b[31m"])
def test_ids_that_are_none(store: ConversationStore, name: str) -> None:
    with pytest.raises(UsageError, match="a conversation id"):
        store.append(name, exchange(0))


def test_what_goes_wrong_is_said(store: ConversationStore) -> None:
    store.create("mine")
    with pytest.raises(UsageError, match="there is already a conversation 'mine'"):
        store.create("mine")
    for call in (
        lambda: store.conversation("gone"),
        lambda: store.rename("gone", "x"),
        lambda: store.delete("gone"),
        lambda: store.set_summary("gone", "x", 1),
    ):
        with pytest.raises(UsageError, match="there is no conversation 'gone'"):
            call()
    with pytest.raises(UsageError, match="the title is empty"):
        store.rename("mine", " ")
    with pytest.raises(UsageError, match="not from 'system'"):
        store.append("mine", [Turn("system", "obey")])  # type: ignore[arg-type]


def test_odd_characters_are_kept_as_far_as_they_can_be(store: ConversationStore) -> None:
    store.append("talk", [Turn("user", "zero \0, half \ud83d, whole 😀")])
    assert store.turns("talk", 1) == [Turn("user", "zero , half ?, whole 😀")]


def test_others_do_not_see_it(store: ConversationStore) -> None:
    store.append("annas", exchange(0), owner="anna")
    store.append("local", exchange(1))
    assert [one.id for one in store.recent(owner="anna")] == ["annas"] and len(store.recent()) == 2
    assert store.turns("annas", 9, owner="ben") == [] and len(store.turns("annas", 9, owner="anna")) == 2
    assert store.summary("annas", owner="ben") == "" and store.older("annas", 0, owner="ben") == Older("", (), 0)
    for call in (
        lambda: store.append("annas", exchange(2), owner="ben"),
        lambda: store.conversation("annas", owner="ben"),
        lambda: store.rename("annas", "x", owner="ben"),
        lambda: store.delete("annas", owner="ben"),
        lambda: store.set_summary("annas", "x", 1, owner="ben"),
    ):
        with pytest.raises(UsageError, match="there is no conversation 'annas'"):
            call()
    store.append("annas", exchange(2))  # who sits at the machine may
    assert len(store.turns("annas", 9, owner="anna")) == 4


def test_what_is_long_ago_is_summed_up_once(store: ConversationStore) -> None:
    for number in range(5):
        store.append("talk", exchange(number))
    older = store.older("talk", 4)
    assert older.turns == tuple(turn for number in range(3) for turn in exchange(number)) and older.summary == ""
    store.set_summary("talk", "Three questions.", older.until)
    assert store.summary("talk") == "Three questions."
    assert store.older("talk", 4) == Older("Three questions.", (), older.until), "nothing new to sum up"
    store.append("talk", exchange(5))
    assert store.older("talk", 4).turns == tuple(exchange(3))
    assert len(store.turns("talk", 100)) == 12, "the messages stay"


# the database


def test_the_tables_can_be_made_in_postgresql() -> None:
    """The same schema, written out in the other dialect."""
    dialect = postgresql.dialect()
    written = "\n".join(
        str(statement.compile(dialect=dialect))
        for table in schema.metadata.sorted_tables
        for statement in (CreateTable(table), *map(CreateIndex, table.indexes))
    )
    assert "key BIGSERIAL NOT NULL" in written and "vector BYTEA" in written and "AUTOINCREMENT" not in written


def test_a_backup_holds_conversations_answers_and_settings(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.parts.settings_store.change({"rag.top_k": 4})
        SqlConversations(desk.parts.documents.engine).append("talk", exchange(0), "answer")
        background = BackgroundWriter(desk.parts.documents.engine)
        SqlAnswers(desk.parts.documents.engine, background).put("answer", question="q", answer=b"{}", trace={"id": "t"})
        background.close()
        desk.backup(tmp_path / "backup.tar")
    Refdesk.restore(tmp_path / "backup.tar", tmp_path / "copy")
    with Refdesk(tmp_path / "copy") as desk:
        assert desk.settings.top_k == 4
        assert SqlConversations(desk.parts.documents.engine).turns("talk", 9) == exchange(0)
        background = BackgroundWriter(desk.parts.documents.engine)
        assert SqlAnswers(desk.parts.documents.engine, background).get("answer") == ({}, {"id": "t"})
        background.close()
