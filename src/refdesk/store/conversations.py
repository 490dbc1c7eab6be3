"""Conversations and their messages in SQL: what was asked and answered, in order, under an id."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, get_args

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from refdesk.answer import Role, Turn
from refdesk.errors import NotFound, UsageError
from refdesk.records import Conversation, Message, Older
from refdesk.store.database import changes, storable
from refdesk.store.rows import now
from refdesk.store.schema import answers, conversations, messages

LONGEST_ID = 80
LONGEST_TITLE = 80
ROLES: tuple[Role, ...] = get_args(Role)


class SqlConversations:
    """The `ConversationStore` port."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # messages

    def turns(self, conversation_id: str, most: int, *, owner: str | None = None) -> list[Turn]:
        return answered(self.messages(conversation_id, most, owner=owner))

    def messages(self, conversation_id: str, most: int | None = None, *, owner: str | None = None) -> list[Message]:
        query = select(*(messages.c[name] for name in Message.__slots__))
        query = query.where(messages.c.conversation_id == conversation_id).order_by(messages.c.key.desc()).limit(most)
        if owner is not None:
            query = query.join(conversations).where(conversations.c.owner == owner)
        with self._engine.connect() as connection:
            return [Message(*row) for row in connection.execute(query)][::-1]

    def append(self, conversation_id: str, turns: Sequence[Turn], answer_id: str = "", *, owner: str = "") -> None:
        checked = checked_id(conversation_id)
        check_turns(turns)
        if not turns:
            return
        moment = now()
        rows = [
            {
                "conversation_id": checked,
                "role": turn.role,
                "content": storable(turn.content),
                "answer_id": answer_id if turn.role == "assistant" else "",
                "created_at": moment,
            }
            for turn in turns
        ]
        first = next((turn.content for turn in turns if turn.role == "user"), "")
        with changes(self._engine) as connection:
            known = self._row(connection, checked, None)
            if known is None:
                _insert(connection, checked, title_of(first), owner)
            elif owner and known.owner != owner:
                raise unknown_conversation(conversation_id)
            else:
                values = {"updated_at": moment} | ({} if known.title else {"title": title_of(first)})
                connection.execute(update(conversations).where(conversations.c.id == checked).values(values))
            connection.execute(insert(messages), rows)

    def take_back(self, conversation_id: str, answer_id: str, *, owner: str | None = None) -> None:
        said = self.messages(conversation_id, 2, owner=owner)
        if len(said) == 2 and said[1].answer_id == answer_id:
            with changes(self._engine) as connection:
                connection.execute(delete(messages).where(messages.c.key.in_([one.key for one in said])))

    def check_speaker(self, conversation_id: str, owner: str) -> None:
        with self._engine.connect() as connection:
            row = self._row(connection, conversation_id, None)
        if owner and row is not None and row.owner != owner:
            raise unknown_conversation(conversation_id)

    # conversations

    def create(self, conversation_id: str = "", *, title: str = "", owner: str = "") -> str:
        made = checked_id(conversation_id) if conversation_id else uuid.uuid4().hex
        with changes(self._engine) as connection:
            if self._row(connection, made, None) is not None:
                raise UsageError(f"there is a conversation '{made}' already")
            _insert(connection, made, title_of(title), owner)
        return made

    def conversation(self, conversation_id: str, *, owner: str | None = None) -> Conversation:
        found = self._listed(conversations.c.id == conversation_id, owner, 1)
        if not found:
            raise unknown_conversation(conversation_id)
        return found[0]

    def recent(self, limit: int = 50, *, owner: str | None = None) -> list[Conversation]:
        return self._listed(None, owner, limit)

    def rename(self, conversation_id: str, title: str, *, owner: str | None = None) -> None:
        if not title.strip():
            raise UsageError("a title needs a word")
        self._change(conversation_id, owner, {"title": title_of(title)})

    def delete(self, conversation_id: str, *, owner: str | None = None) -> None:
        with changes(self._engine) as connection:
            if self._row(connection, conversation_id, owner) is None:
                raise unknown_conversation(conversation_id)
            connection.execute(delete(answers).where(answers.c.conversation_id == conversation_id))
            connection.execute(delete(conversations).where(conversations.c.id == conversation_id))

    # the summary of what is long ago

    def summary(self, conversation_id: str, *, owner: str | None = None) -> str:
        with self._engine.connect() as connection:
            row = self._row(connection, conversation_id, owner)
        return "" if row is None else str(row.summary)

    def older(self, conversation_id: str, keep: int, *, owner: str | None = None) -> Older:
        """The messages before the last `keep` that the summary does not know yet."""
        with self._engine.connect() as connection:
            row = self._row(connection, conversation_id, owner)
            if row is None:
                return Older("", (), 0)
            query = select(messages.c.key, messages.c.role, messages.c.content).order_by(messages.c.key)
            query = query.where(messages.c.conversation_id == conversation_id, messages.c.key > row.summarised_until)
            rows = connection.execute(query).all()
        early = rows[: max(0, len(rows) - keep)]
        turns = tuple(Turn(role, content) for _, role, content in early)
        return Older(row.summary, turns, early[-1].key if early else row.summarised_until)

    def set_summary(self, conversation_id: str, summary: str, until: int, *, owner: str | None = None) -> None:
        self._change(conversation_id, owner, {"summary": storable(summary), "summarised_until": until})

    # rows

    def _row(self, connection: Connection, conversation_id: str, owner: str | None) -> Any:
        query = select(conversations).where(conversations.c.id == conversation_id)
        if owner is not None:
            query = query.where(conversations.c.owner == owner)
        return connection.execute(query).first()

    def _change(self, conversation_id: str, owner: str | None, values: dict[str, Any]) -> None:
        change = update(conversations).where(conversations.c.id == conversation_id).values(values)
        if owner is not None:
            change = change.where(conversations.c.owner == owner)
        with changes(self._engine) as connection:
            if not connection.execute(change).rowcount:
                raise unknown_conversation(conversation_id)

    def _listed(self, condition: Any, owner: str | None, limit: int) -> list[Conversation]:
        table = conversations.c
        count = (
            select(func.count())
            .where(messages.c.conversation_id == table.id)
            .correlate(conversations)
            .scalar_subquery()
        )
        query = select(table.id, table.title, table.owner, count, table.created_at, table.updated_at)
        query = query.order_by(table.updated_at.desc(), table.id).limit(limit)
        if condition is not None:
            query = query.where(condition)
        if owner is not None:
            query = query.where(table.owner == owner)
        with self._engine.connect() as connection:
            return [Conversation(*row) for row in connection.execute(query)]


def answered(messages: Sequence[Message]) -> list[Turn]:
    """Without a question whose answer was stopped before its first word: nothing was said to it."""
    silent = {place for place, one in enumerate(messages) if one.role == "assistant" and not one.content}
    silent |= {place - 1 for place in silent}
    return [Turn(one.role, one.content) for place, one in enumerate(messages) if place not in silent]


def check_turns(turns: Sequence[Turn]) -> None:
    if wrong := [turn.role for turn in turns if turn.role not in ROLES]:
        raise UsageError(f"a message is of the user or the assistant, not of '{wrong[0]}'")


def title_of(question: str) -> str:
    """A question cut at a word: `title_of("What  does it cost?")` -> `What does it cost?`."""
    text = " ".join(storable(question).split())
    if len(text) <= LONGEST_TITLE:
        return text
    at = text.rfind(" ", LONGEST_TITLE // 2, LONGEST_TITLE)
    return text[: at if at > 0 else LONGEST_TITLE - 1].rstrip(" ,;:.") + "…"


def _insert(connection: Connection, conversation_id: str, title: str, owner: str) -> None:
    moment = now()
    values = {"id": conversation_id, "title": title, "owner": owner, "created_at": moment, "updated_at": moment}
    connection.execute(insert(conversations).values(values | {"summary": "", "summarised_until": 0}))


def checked_id(conversation_id: str) -> str:
    if not isinstance(conversation_id, str) or not conversation_id.strip():
        raise UsageError("a conversation's id is a text that is not empty")
    if len(conversation_id) > LONGEST_ID or not conversation_id.isprintable():
        raise UsageError(f"a conversation's id has {LONGEST_ID} characters at most, none of them invisible")
    return conversation_id


def unknown_conversation(conversation_id: str) -> NotFound:
    return NotFound(f"there is no conversation '{conversation_id}'")
