"""Conversations, answers, feedback, keys, sign-ins, settings and the cache in memory, for one process."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk.answer import Spent, Turn
from refdesk.errors import UsageError
from refdesk.records import AskedQuestion, Caller, Conversation, Feedback, Measured, Message, Older, may_see
from refdesk.settings import Settings
from refdesk.store.analytics import COLUMNS, UsageTally, accuracy, window
from refdesk.store.database import storable
from refdesk.store.keys import MemoryKeys, new_secret
from refdesk.store.records import (
    JSON_OPTIONS,
    answered,
    check_turns,
    checked_feedback,
    checked_id,
    lengths_of,
    title_of,
    unknown_answer,
    unknown_conversation,
)
from refdesk.store.rows import now
from refdesk.types import EVERYTHING, Access


@dataclass(slots=True)
class _Talk:
    conversation: Conversation
    messages: list[Message] = field(default_factory=list)
    summary: str = ""
    summarised_until: int = 0


class MemoryConversations:
    """The `ConversationStore` port."""

    def __init__(self, answers: MemoryAnswers | None = None) -> None:
        self._talks: dict[str, _Talk] = {}
        self._keys = 0
        self._answers = answers

    def turns(self, conversation_id: str, most: int, *, owner: str | None = None) -> list[Turn]:
        return answered(self.messages(conversation_id, most, owner=owner))

    def messages(self, conversation_id: str, most: int | None = None, *, owner: str | None = None) -> list[Message]:
        talk = self._find(conversation_id, owner)
        found = talk.messages if talk else []
        return found[max(0, len(found) - most) :] if most is not None else list(found)

    def append(self, conversation_id: str, turns: Sequence[Turn], answer_id: str = "", *, owner: str = "") -> None:
        checked = checked_id(conversation_id)
        check_turns(turns)
        if not turns:
            return
        first = title_of(next((turn.content for turn in turns if turn.role == "user"), ""))
        self.check_speaker(checked, owner)
        if checked not in self._talks:
            self.create(checked, title=first, owner=owner)
        talk = self._talks[checked]
        for turn in turns:
            self._keys += 1
            answer = answer_id if turn.role == "assistant" else ""
            talk.messages.append(Message(self._keys, turn.role, storable(turn.content), answer, now()))
        title = talk.conversation.title or first
        talk.conversation = replace(talk.conversation, title=title, updated_at=now())

    def take_back(self, conversation_id: str, answer_id: str, *, owner: str | None = None) -> None:
        last = self.messages(conversation_id, 2, owner=owner)
        if len(last) == 2 and last[1].answer_id == answer_id:
            del self._talks[conversation_id].messages[-2:]

    def check_speaker(self, conversation_id: str, owner: str) -> None:
        talk = self._talks.get(conversation_id)
        if owner and talk is not None and talk.conversation.owner != owner:
            raise unknown_conversation(conversation_id)

    def create(self, conversation_id: str = "", *, title: str = "", owner: str = "") -> str:
        made = checked_id(conversation_id) if conversation_id else uuid.uuid4().hex
        if made in self._talks:
            raise UsageError(f"there is already a conversation '{made}'")
        self._talks[made] = _Talk(Conversation(made, title_of(title), owner, 0, now(), now()))
        return made

    def conversation(self, conversation_id: str, *, owner: str | None = None) -> Conversation:
        talk = self._known(conversation_id, owner)
        return replace(talk.conversation, message_count=len(talk.messages))

    def recent(self, limit: int = 50, *, owner: str | None = None) -> list[Conversation]:
        found = [self.conversation(name) for name in self._talks if self._find(name, owner)]
        found.sort(key=lambda feedback: feedback.id)
        return sorted(found, key=lambda feedback: feedback.updated_at, reverse=True)[:limit]

    def rename(self, conversation_id: str, title: str, *, owner: str | None = None) -> None:
        if not title.strip():
            raise UsageError("the title is empty")
        talk = self._known(conversation_id, owner)
        talk.conversation = replace(talk.conversation, title=title_of(title))

    def delete(self, conversation_id: str, *, owner: str | None = None) -> None:
        self._known(conversation_id, owner)
        del self._talks[conversation_id]
        if self._answers is not None:
            self._answers.drop(lambda row: row["conversation_id"] == conversation_id)

    def summary(self, conversation_id: str, *, owner: str | None = None) -> str:
        talk = self._find(conversation_id, owner)
        return talk.summary if talk else ""

    def older(self, conversation_id: str, keep: int, *, owner: str | None = None) -> Older:
        talk = self._find(conversation_id, owner)
        if talk is None:
            return Older("", (), 0)
        new = [message for message in talk.messages if message.key > talk.summarised_until]
        early = new[: max(0, len(new) - keep)]
        turns = tuple(Turn(message.role, message.content) for message in early)
        return Older(talk.summary, turns, early[-1].key if early else talk.summarised_until)

    def set_summary(self, conversation_id: str, summary: str, until: int, *, owner: str | None = None) -> None:
        talk = self._known(conversation_id, owner)
        talk.summary, talk.summarised_until = storable(summary), until

    def _find(self, conversation_id: str, owner: str | None) -> _Talk | None:
        talk = self._talks.get(conversation_id)
        return talk if talk is not None and owner in (None, talk.conversation.owner) else None

    def _known(self, conversation_id: str, owner: str | None) -> _Talk:
        talk = self._find(conversation_id, owner)
        if talk is None:
            raise unknown_conversation(conversation_id)
        return talk


class MemoryAnswers:
    """The `AnswerStore` port."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}
        self.feedback: dict[tuple[str, str], Feedback] = {}  # by answer and owner

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
        self._rows.pop(answer_id, None)
        self._rows[answer_id] = {name: getattr(measured, name, None) for name in Measured.__slots__} | {
            "id": answer_id,
            "question": storable(question),
            "answer": orjson.loads(answer or b"{}"),
            "trace": orjson.loads(orjson.dumps(trace, default=str, option=JSON_OPTIONS)),
            "conversation_id": conversation_id,
            "owner": owner,
            "collections": tuple(sorted(set(collections))),
            "error": error,
            "created_at": now(),
        }

    def get(
        self, answer_id: str, *, owner: str | None = None, access: Access = EVERYTHING
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        row = self._rows.get(answer_id)
        return (row["answer"], row["trace"]) if row is not None and _is_seen(row, owner, access) else None

    def is_seen(self, answer_id: str, *, owner: str | None = None, access: Access = EVERYTHING) -> bool:
        return self.get(answer_id, owner=owner, access=access) is not None

    def recent(self, limit: int = 50, *, owner: str | None = None, access: Access = EVERYTHING) -> list[AskedQuestion]:
        seen = [row for row in self._rows.values() if _is_seen(row, owner, access)]
        seen.sort(key=lambda row: row["id"])
        seen.sort(key=lambda row: row["created_at"], reverse=True)
        return [AskedQuestion(**{name: row[name] for name in AskedQuestion.__slots__}) for row in seen[:limit]]

    def spent(self) -> Spent:
        day_ago = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="milliseconds")
        rows = self._rows.values()
        costs = [row["cost_usd"] for row in rows if row["created_at"] >= day_ago and row["cost_usd"] is not None]
        written = [row["trace"] for row in rows if row["cached"] == "no" and row["cost_usd"]]
        return Spent(sum(costs), len(costs), lengths_of(written[::-1]))

    def drop(self, goes: Callable[[dict[str, Any]], bool]) -> None:
        """Removes rows, and the feedback on them."""
        gone = [name for name, row in self._rows.items() if goes(row)]
        for name in gone:
            del self._rows[name]
        self.feedback = {key: feedback for key, feedback in self.feedback.items() if key[0] not in gone}

    def analytics(
        self, days: int = 30, *, access: Access = EVERYTHING, owner: str | None = None, today: date | None = None
    ) -> dict[str, Any]:
        first, last = window(days, today)
        seen = {
            name: row
            for name, row in self._rows.items()
            if _is_seen(row, owner, access) and row["created_at"] >= first.isoformat()
        }
        tally = UsageTally(first, last)
        for row in seen.values():
            packed = {name: orjson.dumps(row[name]).decode() for name in ("stages", "failed_models") if row[name]}
            tally.count(tuple((row | packed)[name] for name in COLUMNS))
        verdicts: dict[str, int] = defaultdict(int)
        placed: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for (name, _), feedback in self.feedback.items():
            if name in seen:
                verdicts[feedback.verdict] += 1
                for collection in seen[name]["collections"]:
                    placed[collection][feedback.verdict] += 1
        return tally.to_dict() | {"feedback": accuracy(verdicts, placed)}


def _is_seen(row: Mapping[str, Any], owner: str | None, access: Access) -> bool:
    return owner in (None, row["owner"]) and may_see(row["collections"], owner, access)


class MemoryFeedback:
    """The `FeedbackStore` port."""

    def __init__(self, answers: MemoryAnswers) -> None:
        self._answers = answers

    def give(self, answer_id: str, verdict: str, correction: str = "", *, caller: Caller) -> Feedback:
        judgement, text = checked_feedback(verdict, correction)
        self._check(answer_id, caller)
        given = Feedback(answer_id, caller.id, judgement, text, now())
        self._answers.feedback.pop((answer_id, caller.id), None)
        self._answers.feedback[(answer_id, caller.id)] = given
        return given

    def of(self, answer_id: str, *, caller: Caller | None = None) -> list[Feedback]:
        if caller is not None:
            self._check(answer_id, caller)
        owner = None if caller is None or caller.owner is None else caller.id
        found = [feedback for feedback in self._answers.feedback.values() if feedback.answer_id == answer_id]
        return [feedback for feedback in found if owner in (None, feedback.owner)][::-1]

    def _check(self, answer_id: str, caller: Caller) -> None:
        if not self._answers.is_seen(answer_id, owner=caller.owner, access=caller.access):
            raise unknown_answer(answer_id)


class MemorySessions:
    """The `SessionStore` port."""

    def __init__(self, keys: MemoryKeys) -> None:
        self._keys = keys
        self._tokens: dict[str, tuple[str, float]] = {}

    def begin(self, key_id: str, seconds: float) -> str:
        token = new_secret()
        self._tokens[token] = (key_id, time.time() + seconds)
        return token

    def key_id(self, token: str) -> str | None:
        key_id, until = self._tokens.get(token, ("", 0.0))
        return key_id if until > time.time() and any(key.id == key_id for key in self._keys.list()) else None

    def end(self, token: str) -> None:
        self._tokens.pop(token, None)


@dataclass(frozen=True, slots=True, eq=False)
class _Cached:
    answer: bytes
    vector: NDArray[np.float32] | None
    created_at: float


class MemoryCache:
    """The `Cache` port."""

    def __init__(self, settings: Callable[[], Settings] = Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._clock = settings, clock
        self._namespaces: dict[str, dict[str, _Cached]] = {}

    def get(self, namespace: str, question: str) -> bytes | None:
        found = self._namespaces.get(namespace, {}).get(question)
        since = self._clock() - self._settings().cache_exact_ttl_s
        return found.answer if found is not None and found.created_at >= since else None

    def nearest(self, namespace: str, vector: NDArray[np.float32], k: int) -> list[tuple[str, float, bytes]]:
        since = self._clock() - self._settings().cache_ttl_s
        entries = list(self._namespaces.get(namespace, {}).items())[-self._settings().cache_max_entries :]
        near = [
            (question, float(np.vecdot(entry.vector.astype(np.float16).astype(np.float32), vector)), entry.answer)
            for question, entry in entries
            if entry.vector is not None and entry.created_at >= since
        ]
        return sorted(near, key=lambda found: -found[1])[:k]

    def put(self, namespace: str, question: str, vector: NDArray[np.float32] | None, answer: bytes) -> None:
        generation = _generation(namespace)
        self._namespaces = {name: known for name, known in self._namespaces.items() if _generation(name) >= generation}
        known = self._namespaces.setdefault(namespace, {})
        known.pop(question, None)
        known[question] = _Cached(answer, vector, self._clock())

    def clear(self) -> None:
        self._namespaces.clear()


def _generation(namespace: str) -> int:
    number = namespace.partition("-")[0]
    return int(number) if number.isdigit() else 0
