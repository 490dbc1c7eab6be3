"""Was the answer right? What those who asked said of it; one word for each of them and answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from sqlalchemy import Engine, delete, insert, select

from refdesk.adapters.answers import AnswerStore
from refdesk.adapters.database import changes, storable
from refdesk.adapters.rows import now
from refdesk.adapters.schema import answers, feedback
from refdesk.errors import NotFound, UsageError
from refdesk.types import Access

Judgement = Literal["correct", "wrong"]
JUDGEMENTS: tuple[Judgement, ...] = get_args(Judgement)
LONGEST_CORRECTION = 8_000  # characters, as of a question


class Judge(Protocol):
    """Who gives feedback; a `Caller` is one."""

    @property
    def id(self) -> str: ...

    @property
    def owner(self) -> str | None: ...

    @property
    def access(self) -> Access: ...


@dataclass(frozen=True, slots=True)
class Feedback:
    answer_id: str
    owner: str
    verdict: str
    correction: str
    created_at: str

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class FeedbackStore:
    """`desk.feedback`."""

    def __init__(self, engine: Engine, kept: AnswerStore) -> None:
        self._engine = engine
        self._answers = kept

    def give(self, answer_id: str, verdict: str, correction: str = "", *, caller: Judge) -> Feedback:
        """Says of an answer that the caller may see whether it was right; a later word replaces the one before."""
        if verdict not in JUDGEMENTS:
            raise UsageError(f"an answer is {' or '.join(JUDGEMENTS)}, not '{verdict}'")
        if not isinstance(correction, str) or len(correction) > LONGEST_CORRECTION:
            raise UsageError(f"a correction is a text of {LONGEST_CORRECTION:,} characters at most")
        self._check(answer_id, caller)
        given = Feedback(answer_id, caller.id, verdict, storable(correction).strip(), now())
        with changes(self._engine) as connection:
            if connection.execute(select(answers.c.id).where(answers.c.id == answer_id)).first() is None:
                raise _unknown(answer_id)  # removed this very moment
            mine = feedback.c.answer_id == answer_id, feedback.c.owner == caller.id
            connection.execute(delete(feedback).where(*mine))
            connection.execute(insert(feedback).values(given.to_dict()))
        return given

    def of(self, answer_id: str, *, caller: Judge | None = None) -> list[Feedback]:
        """What was said of an answer, the last word first; who does not see everyone's answers sees only his own."""
        if caller is not None:
            self._check(answer_id, caller)
        query = select(*(feedback.c[name] for name in Feedback.__slots__)).where(feedback.c.answer_id == answer_id)
        if caller is not None and caller.owner is not None:
            query = query.where(feedback.c.owner == caller.id)
        with self._engine.connect() as connection:
            return [Feedback(*row) for row in connection.execute(query.order_by(feedback.c.created_at.desc()))]

    def _check(self, answer_id: str, caller: Judge) -> None:
        if not self._answers.is_seen(answer_id, owner=caller.owner, access=caller.access):
            raise _unknown(answer_id)


def _unknown(answer_id: str) -> NotFound:
    return NotFound(f"there is no answer '{answer_id}'")
