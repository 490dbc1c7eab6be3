"""Records other than documents: answers and their traces, feedback, conversations, and the library's settings.

Answers are written in the background, so that none waits for the disk. Settings are changed while programs run, and
seen by each of them at its next question.
"""

from __future__ import annotations

import threading
import time
import uuid
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any, get_args

import orjson
from sqlalchemy import Connection, Engine, bindparam, delete, func, insert, select, update

from refdesk.answer import Role, Spent, Turn
from refdesk.errors import NotFound, UsageError
from refdesk.records import (
    JUDGEMENTS,
    AskedQuestion,
    Caller,
    Conversation,
    Feedback,
    Judgement,
    Measured,
    Message,
    Older,
    may_see,
)
from refdesk.settings import Settings, preset, specs
from refdesk.store.analytics import analytics
from refdesk.store.database import BackgroundWriter, PreparedReader, SqlStatement, changes, storable
from refdesk.store.rows import bump, now
from refdesk.store.schema import answer_collections, answers, conversations, feedback, messages, state
from refdesk.store.schema import settings as table
from refdesk.types import EVERYTHING, Access

# --- answers and their traces by id, and feedback ---------------------------------------------------------------------

JSON_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
PRUNE_EVERY_S = 3600.0
_LEARNED_FROM = 50  # answers; the lengths of older ones say less of the models of today
_FETCH = 200  # rows at a time while looking for those that may be seen


# Every question writes these; put together anew each time, they cost more than all the rest of a known answer.
_REMOVE = SqlStatement(delete(answers).where(answers.c.id == bindparam("gone")))
_INSERT, _INSERT_COLLECTION = SqlStatement(insert(answers)), SqlStatement(insert(answer_collections))


class SqlAnswers:
    """The `AnswerStore` port."""

    def __init__(
        self, engine: Engine, background: BackgroundWriter, settings: Callable[[], Settings] = Settings
    ) -> None:
        self._engine = engine
        self._background = background
        self._settings = settings
        self._pruned = -PRUNE_EVERY_S  # when

    def put(
        self,
        answer_id: str,
        *,
        question: str,
        answer: bytes,
        trace: Mapping[str, Any],
        conversation_id: str = "",
        owner: str = "",
        collections: Sequence[str] = (),
        measured: Measured | None = None,
        error: str = "",
    ) -> None:
        packed = orjson.dumps(trace, default=str, option=JSON_OPTIONS)  # now: the caller may go on changing it
        row: dict[str, Any] = {
            "id": answer_id,
            "conversation_id": conversation_id,
            "owner": owner,
            "question": storable(question),
            "collections": orjson.dumps(sorted(set(collections))).decode(),
            "created_at": now(),
            "error": error,
        }
        row |= _measured(measured) if measured is not None else dict.fromkeys(Measured.__slots__)
        self._background.submit(lambda connection: self._write(connection, row, answer, packed))

    def get(
        self, answer_id: str, *, owner: str | None = None, access: Access = EVERYTHING
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        row = self._seen(answer_id, owner, access, answers.c.answer, answers.c.trace)
        return None if row is None else (_unpacked(row.answer), _unpacked(row.trace))

    def is_seen(self, answer_id: str, *, owner: str | None = None, access: Access = EVERYTHING) -> bool:
        return self._seen(answer_id, owner, access) is not None

    def _seen(self, answer_id: str, owner: str | None, access: Access, *columns: Any) -> Any:
        """The row, with these columns; None when there is none that may be seen."""
        self._background.flush()
        query = select(answers.c.collections, *columns).where(answers.c.id == answer_id)
        if owner is not None:
            query = query.where(answers.c.owner == owner)
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return row if row is not None and may_see(orjson.loads(row.collections), owner, access) else None

    def recent(self, limit: int = 50, *, owner: str | None = None, access: Access = EVERYTHING) -> list[AskedQuestion]:
        self._background.flush()
        wanted = [answers.c[name] for name in AskedQuestion.__slots__]
        query = select(*wanted).order_by(answers.c.created_at.desc(), answers.c.id)
        if owner is not None:
            query = query.where(answers.c.owner == owner)
        found: list[AskedQuestion] = []
        with self._engine.connect() as connection:
            for rows in connection.execute(query).partitions(_FETCH):
                for row in rows:
                    collections = tuple(orjson.loads(row.collections))
                    if len(found) < limit and may_see(collections, owner, access):
                        found.append(AskedQuestion(**dict(row._mapping) | {"collections": collections}))
                if len(found) >= limit:
                    break
        return found

    def spent(self, until: datetime | None = None) -> Spent:
        self._background.flush()
        day_ago = ((until or datetime.now(UTC)) - timedelta(days=1)).isoformat(timespec="milliseconds")
        costs = select(func.coalesce(func.sum(answers.c.cost_usd), 0.0), func.count(answers.c.cost_usd))
        recent = select(answers.c.id).order_by(answers.c.created_at.desc()).limit(_FETCH)
        last = select(answers.c.trace).where(answers.c.id.in_(recent), answers.c.cached == "no", answers.c.cost_usd > 0)
        last = last.order_by(answers.c.created_at.desc()).limit(_LEARNED_FROM)
        with self._engine.connect() as connection:
            usd, questions = connection.execute(costs.where(answers.c.created_at >= day_ago)).one()
            traces = [_unpacked(packed) for packed in connection.execute(last).scalars()]
        return Spent(float(usd), int(questions), lengths_of(traces))

    def analytics(
        self, days: int = 30, *, access: Access = EVERYTHING, owner: str | None = None, today: date | None = None
    ) -> dict[str, Any]:
        self._background.flush()
        return analytics(self._engine, days, access=access, owner=owner, today=today)

    def _write(self, connection: Connection, row: dict[str, Any], answer: bytes, trace: bytes) -> None:
        """On the background writer's thread; now and then it also prunes what `answer.keep_days` lets go."""
        packed = {"answer": zlib.compress(answer or b"{}"), "trace": zlib.compress(trace)}
        _REMOVE.run(connection, gone=row["id"])
        _INSERT.run(connection, **row, **packed)
        placed = [{"answer_id": row["id"], "collection": load} for load in orjson.loads(row["collections"])]
        _INSERT_COLLECTION.run_many(connection, placed)
        if time.monotonic() - self._pruned > PRUNE_EVERY_S and (days := self._settings().keep_days):
            before = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
            connection.execute(delete(answers).where(answers.c.created_at < before))
            self._pruned = time.monotonic()


def _measured(measured: Measured) -> dict[str, Any]:
    row = {name: getattr(measured, name) for name in measured.__slots__}
    packed = orjson.dumps(dict(measured.stages), option=JSON_OPTIONS).decode()
    failed = orjson.dumps([(storable(model), code) for model, code in measured.failed_models]).decode()
    row |= {"stages": packed, "failed_models": failed}
    return row | {"is_answered": int(measured.is_answered), "model": storable(measured.model)}


def _unpacked(packed: bytes) -> Any:
    return orjson.loads(zlib.decompress(packed))


def lengths_of(traces: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Of each model in each role: tokens it wrote on average."""
    found: dict[tuple[str, str], list[int]] = {}
    for stage in (stage for trace in traces for stage in trace["stages"] if stage["name"] == "model"):
        model, role, written = (
            stage["input"].get("model"),
            stage["input"].get("role"),
            stage["output"].get("completion"),
        )
        if model and role and written:
            found.setdefault((model, role), []).append(written)
    return {key: sum(lengths) / len(lengths) for key, lengths in found.items()}


# Was the answer right? What those who asked said of it; one word for each of them and answer.

LONGEST_CORRECTION = 8_000  # characters, as of a question


class SqlFeedback:
    """The `FeedbackStore` port."""

    def __init__(self, engine: Engine, kept: SqlAnswers) -> None:
        self._engine = engine
        self._answers = kept

    def give(self, answer_id: str, verdict: str, correction: str = "", *, caller: Caller) -> Feedback:
        judgement, text = checked_feedback(verdict, correction)
        self._check(answer_id, caller)
        given = Feedback(answer_id, caller.id, judgement, text, now())
        with changes(self._engine) as connection:
            if connection.execute(select(answers.c.id).where(answers.c.id == answer_id)).first() is None:
                raise unknown_answer(answer_id)  # removed this very moment
            mine = feedback.c.answer_id == answer_id, feedback.c.owner == caller.id
            connection.execute(delete(feedback).where(*mine))
            connection.execute(insert(feedback).values(given.to_dict()))
        return given

    def of(self, answer_id: str, *, caller: Caller | None = None) -> list[Feedback]:
        if caller is not None:
            self._check(answer_id, caller)
        query = select(*(feedback.c[name] for name in Feedback.__slots__)).where(feedback.c.answer_id == answer_id)
        if caller is not None and caller.owner is not None:
            query = query.where(feedback.c.owner == caller.id)
        with self._engine.connect() as connection:
            return [Feedback(*row) for row in connection.execute(query.order_by(feedback.c.created_at.desc()))]

    def _check(self, answer_id: str, caller: Caller) -> None:
        if not self._answers.is_seen(answer_id, owner=caller.owner, access=caller.access):
            raise unknown_answer(answer_id)


def checked_feedback(verdict: str, correction: str) -> tuple[Judgement, str]:
    """The verdict, and what was said beside it as it is stored."""
    judgement = next((judgement for judgement in JUDGEMENTS if judgement == verdict), None)
    if judgement is None:
        raise UsageError(f"an answer is {' or '.join(JUDGEMENTS)}, not '{verdict}'")
    if not isinstance(correction, str) or len(correction) > LONGEST_CORRECTION:
        raise UsageError(f"a correction must be a text of at most {LONGEST_CORRECTION:,} characters")
    return judgement, storable(correction).strip()


def unknown_answer(answer_id: str) -> NotFound:
    return NotFound(f"there is no answer '{answer_id}'")


# --- conversations and their messages, in order, under an id ----------------------------------------------------------

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
        last_two = self.messages(conversation_id, 2, owner=owner)
        if len(last_two) == 2 and last_two[1].answer_id == answer_id:
            with changes(self._engine) as connection:
                connection.execute(delete(messages).where(messages.c.key.in_([message.key for message in last_two])))

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
                raise UsageError(f"there is already a conversation '{made}'")
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
            raise UsageError("the title is empty")
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
    silent = {place for place, message in enumerate(messages) if message.role == "assistant" and not message.content}
    silent |= {place - 1 for place in silent}
    return [Turn(message.role, message.content) for place, message in enumerate(messages) if place not in silent]


def check_turns(turns: Sequence[Turn]) -> None:
    if wrong := [turn.role for turn in turns if turn.role not in ROLES]:
        raise UsageError(f"a message is from the user or the assistant, not from '{wrong[0]}'")


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
        raise UsageError("a conversation id cannot be empty")
    if len(conversation_id) > LONGEST_ID or not conversation_id.isprintable():
        raise UsageError(f"a conversation id can have at most {LONGEST_ID} visible characters")
    return conversation_id


def unknown_conversation(conversation_id: str) -> NotFound:
    return NotFound(f"there is no conversation '{conversation_id}'")


# --- a library's own settings -----------------------------------------------------------------------------------------


class StoredSettings(ABC):
    """The `SettingsStore` port over values by name, kept wherever `_read` finds and `_write` leaves them."""

    def __init__(
        self,
        base: Settings | None = None,
        notes: tuple[str, ...] = (),
        own: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.base, self.own = base or Settings(), own
        self._in_use = (self.base, self.base.changed(own))
        self._lock = threading.Lock()
        self._seen: str | None = None  # the revision that these are of
        self._values: Mapping[str, Any] = {}
        self._settings = self.base
        self._base_notes = notes  # what refdesk.toml has and this version does not
        self._notes = notes

    @abstractmethod
    def _revision(self) -> str:
        """Another text after each change."""

    @abstractmethod
    def _read(self) -> dict[str, Any]:
        """What is stored, also what this version does not know."""

    @abstractmethod
    def _write(self, values: Mapping[str, Any], gone: Iterable[str]) -> None: ...

    def load(self) -> dict[str, Any]:
        """The values that are set and that this version knows; read anew only when somebody has changed one."""
        self._refresh()
        return dict(self._values)

    def current(self) -> Settings:
        self._refresh()
        return self._settings

    def in_use(self) -> Settings:
        seen, made = self._in_use
        if (now := self.current()) is not seen:
            made = now.changed(self.own)
            self._in_use = (now, made)
        return made

    @property
    def notes(self) -> tuple[str, ...]:
        self._refresh()
        return self._notes

    def reset(self, name: str | None = None) -> None:
        stored = self._read()
        if name is not None and name not in stored and name not in {spec.name for spec in specs()}:
            raise NotFound(f"there is no setting '{name}'", hint="see docs/settings.md")
        self.change({}, stored if name is None else [name])

    def use_preset(self, name: str) -> None:
        self.change(*preset(name))

    def change(self, values: Mapping[str, Any], reset: Iterable[str] = ()) -> None:
        gone = set(reset) - values.keys()
        left = {name: value for name, value in self.load().items() if name not in gone}
        checked = {name: value for name, value, _ in self.base.changed(left | dict(values)).items()}
        self._write({name: checked[name] for name in values}, gone)

    def _refresh(self) -> None:
        revision = self._revision()
        if revision == self._seen:
            return
        stored = self._read()
        with self._lock:
            self._values, self._settings, notes = _usable(self.base, stored)
            self._notes = (*self._base_notes, *notes)
            self._seen = revision


class SqlSettings(StoredSettings):
    def __init__(
        self,
        reader: PreparedReader,
        base: Settings | None = None,
        notes: tuple[str, ...] = (),
        own: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(base, notes, own)
        self._reader = reader
        self._find_revision = SqlStatement(select(state.c.value).where(state.c.name == "settings"))
        self._find = SqlStatement(select(table.c.name, table.c.value).order_by(table.c.name))

    def _revision(self) -> str:
        rows = self._reader.rows(self._find_revision)
        return str(rows[0][0]) if rows else ""

    def _read(self) -> dict[str, Any]:
        return {name: orjson.loads(value) for name, value in self._reader.rows(self._find)}

    def _write(self, values: Mapping[str, Any], gone: Iterable[str]) -> None:
        moment = now()
        with changes(self._reader.engine) as connection:
            connection.execute(delete(table).where(table.c.name.in_([*gone, *values])))
            for name, value in values.items():
                row = {"name": name, "value": orjson.dumps(value).decode(), "updated_at": moment}
                connection.execute(insert(table).values(row))
            bump(connection, "settings")


class MemorySettings(StoredSettings):
    def __init__(self, base: Settings | None = None) -> None:
        super().__init__(base)
        self._stored: dict[str, Any] = {}
        self._changes = 0

    def _revision(self) -> str:
        return str(self._changes)

    def _read(self) -> dict[str, Any]:
        return dict(sorted(self._stored.items()))

    def _write(self, values: Mapping[str, Any], gone: Iterable[str]) -> None:
        self._stored = {name: value for name, value in self._stored.items() if name not in set(gone)} | dict(values)
        self._changes += 1


def _usable(base: Settings, stored: Mapping[str, Any]) -> tuple[dict[str, Any], Settings, tuple[str, ...]]:
    """What of the stored values can be used; a newer version may have written others, or other bounds."""
    try:
        return dict(stored), base.changed(stored), ()
    except UsageError:
        pass  # now one by one
    used: dict[str, Any] = {}
    notes: list[str] = []
    for name, value in stored.items():
        try:
            base.changed(used | {name: value})
        except UsageError as error:
            notes.append(f"the library's setting {name} is ignored: {error}")
        else:
            used[name] = value
    return used, base.changed(used), tuple(notes)
