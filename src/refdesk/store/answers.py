"""Answers and their traces by id, written in the background so that no answer waits for the disk."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, bindparam, delete, func, insert, select

from refdesk.answer import Spent
from refdesk.errors import NotFound, UsageError
from refdesk.records import JUDGEMENTS, AskedQuestion, Caller, Feedback, Judgement, Measured, may_see
from refdesk.settings import Settings
from refdesk.store.analytics import analytics
from refdesk.store.database import BackgroundWriter, SqlStatement, changes, storable
from refdesk.store.rows import now
from refdesk.store.schema import answer_collections, answers, feedback
from refdesk.types import EVERYTHING, Access

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

    def prune(self, days: float) -> int:
        checked_days(days)
        self._background.flush()
        with changes(self._engine) as connection:
            return _prune(connection, days)

    def _write(self, connection: Connection, row: dict[str, Any], answer: bytes, trace: bytes) -> None:
        """On the background writer's thread; now and then it also prunes what `answer.keep_days` lets go."""
        packed = {"answer": zlib.compress(answer or b"{}"), "trace": zlib.compress(trace)}
        _REMOVE.run(connection, gone=row["id"])
        _INSERT.run(connection, **row, **packed)
        placed = [{"answer_id": row["id"], "collection": one} for one in orjson.loads(row["collections"])]
        _INSERT_COLLECTION.run_many(connection, placed)
        if time.monotonic() - self._pruned > PRUNE_EVERY_S and (days := self._settings().keep_days):
            _prune(connection, days)
            self._pruned = time.monotonic()


def _measured(measured: Measured) -> dict[str, Any]:
    own = {name: getattr(measured, name) for name in measured.__slots__}
    packed = orjson.dumps(dict(measured.stages), option=JSON_OPTIONS).decode()
    failed = orjson.dumps([(storable(model), code) for model, code in measured.failed_models]).decode()
    own |= {"stages": packed, "failed_models": failed}
    return own | {"is_answered": int(measured.is_answered), "model": storable(measured.model)}


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


def checked_days(days: float) -> float:
    if not 0 <= days < 100_000:
        raise UsageError(f"answers are kept for a number of days, not {days}")
    return days


def _prune(connection: Connection, days: float) -> int:
    before = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
    return connection.execute(delete(answers).where(answers.c.created_at < before)).rowcount


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
    judgement = next((one for one in JUDGEMENTS if one == verdict), None)
    if judgement is None:
        raise UsageError(f"an answer is {' or '.join(JUDGEMENTS)}, not '{verdict}'")
    if not isinstance(correction, str) or len(correction) > LONGEST_CORRECTION:
        raise UsageError(f"a correction is a text of {LONGEST_CORRECTION:,} characters at most")
    return judgement, storable(correction).strip()


def unknown_answer(answer_id: str) -> NotFound:
    return NotFound(f"there is no answer '{answer_id}'")
