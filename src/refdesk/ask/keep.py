"""What is known already, and what is kept? The cache before a question, the conversation, trace and cache after.

An answer written with a conversation in view is kept for that conversation alone; one written without may serve every
question that means the same, in the same realm: scope, access, level, mode, settings, models and corpus version.
"""

from __future__ import annotations

import hashlib
import logging
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import orjson

from refdesk.answer import (
    Answer,
    Cached,
    Citation,
    Confidence,
    Query,
    Question,
    Turn,
    Usage,
    decode_answer,
    encode_answer,
)
from refdesk.ask.memory import exchanges_kept, gist, remember, summarise
from refdesk.ask.paraphrase import same_question, threshold
from refdesk.errors import LibraryError
from refdesk.events import Content, Done, Event, Failed, Replace, Sources
from refdesk.models import model_info
from refdesk.ports import LLM, Desk, ModelRole
from refdesk.settings import Settings
from refdesk.trace import Trace, aside
from refdesk.types import EVERYTHING, Scope

# Which earlier answer may stand for this question's? Names the realm in which answers are kept.


def realm(
    question: Question,
    settings: Settings,
    models: str,
    generation: int,
    turns: Sequence[Turn] = (),
) -> str:
    """Everything but the question's words that an answer hangs on: `17-` (the corpus version) and a hash.

    `models` names all that take part, the embedder included; `turns` are what was said before.
    """
    parts = [
        _scope(question.scope),
        question.level,
        question.mode,
        question.response_mode,
        question.verbatim,
        question.k,
        question.max_context_chars,
        settings.fingerprint,
        models,
        [(turn.role, turn.content) for turn in turns],
        question.conversation_id if turns else "",  # its summary may hold more than these turns
    ]
    try:
        packed = orjson.dumps(parts)
    except orjson.JSONEncodeError:  # half of a surrogate pair in what was said
        packed = repr(parts).encode("utf-8", "backslashreplace")
    return f"{generation}-{hashlib.blake2b(packed, digest_size=16).hexdigest()}"


def same_words(text: str) -> str:
    """The question by which the exact cache finds it: white space and Unicode's composition do not count, case does.

    >>> same_words("  What does  the US\\nowe us? ")
    'What does the US owe us?'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def _scope(scope: Scope) -> list[Any]:
    """In an order that does not hang on the caller's; no access at all (an empty list) is not every access."""
    return [
        sorted(set(scope.collections)),
        sorted(set(scope.documents)),
        sorted(set(scope.kinds)),
        scope.pages,
        scope.date_from,
        scope.date_to,
        sorted(set(scope.metadata)),
        None if scope.access is EVERYTHING else sorted(set(scope.access)),
    ]


logger = logging.getLogger("refdesk.ask")

HANDED_IN = 20  # messages of a caller's own history: the last ten exchanges (seed 000)
NEAREST = 5  # earlier questions a new one is compared with
SUGGESTED = 3
BESIDE = ("rewrite_model", "classify_model", "summarise")  # calls that no draft counts
ROLES: tuple[ModelRole, ...] = get_args(ModelRole)
WITHOUT_MODEL = "small"  # the tier whose memory an answer without a model has


class Keeper:
    """One question's memory: made with the question, in a thread, for it reads what was said before."""

    def __init__(self, question: Question, desk: Desk, trace: Trace) -> None:
        self._question = question
        self._desk = desk
        self._trace = trace
        self._llm = desk.models.role("answer")
        self.turns = self._said_before()
        self._near_miss = ""
        self._generation = desk.library.generation()
        self._names = " ".join([desk.embedder.name, *(_name(desk.models.role(role)) for role in ROLES)])

    def _said_before(self) -> tuple[Turn, ...]:
        question, settings = self._question, self._desk.settings
        if question.history:
            return question.history[-min(HANDED_IN, 2 * settings.max_history_turns) :]
        if not question.conversation_id or not settings.db_rehydration_enabled or not settings.max_history_turns:
            return ()
        most = 2 * exchanges_kept(self._tier, settings.max_history_turns)
        owner = question.owner or None
        return tuple(self._desk.conversations.turns(question.conversation_id, most, owner=owner))

    @property
    def _tier(self) -> str:
        return model_info(self._llm.name).tier if self._llm is not None else WITHOUT_MODEL

    # before

    async def recall(self) -> tuple[Event, ...]:
        """The events of an answer to the very same question, none when there is no such answer."""
        if not self._question.use_cache:
            self._trace.skip("recall", "the cache is off")
            return ()
        with self._trace.optional("recall") as stage:
            words = same_words(self._question.text)
            found = await aside(self._desk.cache.get, self._realm(self.turns), words)
            stage.gave(found=found is not None)
            if found is not None:
                return await self._served(decode_answer(found), "exact")
        return ()

    async def recall_similar(self, query: Query) -> tuple[Event, ...]:
        """The events of an answer to a question that means the same; one that only resembles it is offered later."""
        if not self._question.use_cache or self.turns or query.route != "needs_retrieval":
            return ()
        with self._trace.optional("recall_similar") as stage:
            near = await aside(self._desk.cache.nearest, self._realm(()), query.vector, NEAREST)
            needed = threshold(self._desk.settings.cache_threshold_mode, query.standalone)
            for earlier, cosine, found in near:
                if cosine >= needed and same_question(query.standalone, earlier):
                    stage.gave(found=True, cosine=round(cosine, 3))
                    return await self._served(decode_answer(found), "semantic")
            stage.gave(found=False, compared=len(near))
            best = near[0] if near else None
            if best is not None and best[1] >= needed and same_words(best[0]) != same_words(query.standalone):
                self._near_miss = best[0]
        return ()

    async def _served(self, known: Answer, how: Cached) -> tuple[Event, ...]:
        answer = replace(
            known,
            id=self._trace.id,
            trace_id=self._trace.id,
            question=self._question.text,
            conversation_id=self._question.conversation_id,
            cached=how,
            usage=Usage(),
            metrics={**known.metrics, **self._trace.milliseconds()},
        )
        await self._append(answer)
        await self._record(answer)
        return (Sources(answer.citations), Content(answer.content), Done(answer))

    # meanwhile

    async def memory(self, budget_tokens: int) -> tuple[Turn, ...]:
        """What a model is given of the conversation: a summary of what is long ago, then the last exchanges."""
        if not self.turns or self._llm is None:
            return ()
        summary = ""
        with self._trace.optional("memory", turns=len(self.turns), budget=budget_tokens) as stage:
            summary = await self._summary(budget_tokens)
            settings = self._desk.settings
            kept = remember(self.turns, self._tier, budget_tokens, summary, most=settings.max_history_turns)
            stage.gave(turns=len(kept.turns), dropped=kept.dropped, summary=len(kept.summary))
            before = (Turn("user", f"Earlier in this conversation:\n{kept.summary}"),) if kept.summary else ()
            return before + kept.turns
        return ()

    async def _summary(self, budget_tokens: int) -> str:
        """Of what was said before the turns at hand; brought up to date when a model can do it."""
        question, conversations = self._question, self._desk.conversations
        if not question.conversation_id or question.history:
            return ""
        owner = question.owner or None
        older = await aside(conversations.older, question.conversation_id, len(self.turns), owner=owner)
        if not older.turns:
            return older.summary
        if (llm := self._desk.models.role("summariser")) is None:
            return gist(older.turns, budget_tokens // 4, older.summary)
        summary = await summarise(older.turns, llm, self._trace, older.summary)
        await aside(conversations.set_summary, question.conversation_id, summary, older.until, owner=owner)
        return summary

    # after

    async def keep(self, answer: Answer, query: Query) -> Answer:
        """The answer with what it took, written where it will be looked for."""
        if self._near_miss and self._desk.settings.suggest_questions:
            offered = dict.fromkeys((self._near_miss, *answer.suggested_questions))
            answer = replace(answer, suggested_questions=tuple(offered)[:SUGGESTED])
        answer = replace(answer, notes=(*self._desk.notes, *answer.notes))
        beside = Usage(cost_usd=self._trace.cost_usd(*BESIDE))
        answer = replace(answer, metrics={**answer.metrics, **self._trace.milliseconds()}, usage=answer.usage + beside)
        if self._question.use_cache and self._is_worth_keeping(answer):
            await aside(self._put, answer, query)
        await self._append(answer)
        await self._record(answer)
        return answer

    def _put(self, answer: Answer, query: Query) -> None:
        packed, typed, meant = encode_answer(answer), same_words(self._question.text), same_words(query.standalone)
        if not self.turns:
            self._desk.cache.put(self._realm(()), meant, query.vector, packed)
        if self.turns or typed != meant:
            self._desk.cache.put(self._realm(self.turns), typed, None, packed)

    def _is_worth_keeping(self, answer: Answer) -> bool:
        """Not what was answered while a model was down: the next one who asks may get the better answer."""
        is_sound = answer.verification.status != "failed" and not answer.failed_models
        return answer.route == "needs_retrieval" and is_sound

    async def _append(self, answer: Answer) -> None:
        question, append = self._question, self._desk.conversations.append
        if question.conversation_id:
            said = (Turn("user", question.text), Turn("assistant", answer.content))
            try:
                await aside(append, question.conversation_id, said, answer.id, owner=question.owner)
            except LibraryError as error:  # a full disk costs the conversation this turn, not the answer
                logger.warning("a turn of a conversation cannot be kept: %s", error)

    async def _record(self, answer: Answer) -> None:
        with self._trace.optional("record"):
            await aside(self._desk.record, answer, self._trace)

    def _realm(self, turns: tuple[Turn, ...]) -> str:
        return realm(self._question, self._desk.settings, self._names, self._generation, turns)


def _name(llm: LLM | None) -> str:
    return llm.name if llm is not None else "-"


# What is kept of an answer that was stopped? The question and what was shown until then, marked as stopped.

REASON = "it was stopped before it was complete, so it was not checked"


class Shown:
    """What a reader has been told so far."""

    def __init__(self) -> None:
        self.content = ""
        self.citations: tuple[Citation, ...] = ()
        self.is_whole = False

    def hear(self, event: Event) -> None:
        if isinstance(event, Content):
            self.content += event.token
        elif isinstance(event, Replace):
            self.content = event.content
        elif isinstance(event, Sources):
            self.citations = event.citations
        elif isinstance(event, Done | Failed):
            self.is_whole = True


async def keep_stopped(question: Question, desk: Desk, trace: Trace, shown: Shown) -> None:
    """Writes the exchange into its conversation, if it has one; without one, nobody could find it again."""
    if shown.is_whole or not question.conversation_id:
        return
    content = shown.content.strip()
    answer = Answer(
        id=trace.id,
        question=question.text,
        content=content,
        citations=tuple(one for one in shown.citations if f"[{one.marker}]" in content),
        confidence=Confidence(0.0, "low", REASON),
        standalone_question=question.text,
        level=question.level,
        mode=question.mode,
        response_mode=question.response_mode,
        model="none",
        conversation_id=question.conversation_id,
        trace_id=trace.id,
        settings_fingerprint=desk.settings.fingerprint,
        metrics=trace.milliseconds(),
        is_answered=False,
        stopped=True,
    )
    trace.skip("stopped", "the reader left or stopped it")

    def write() -> None:
        with trace.optional("record"):
            said = (Turn("user", question.text), Turn("assistant", content))
            desk.record(answer, trace)
            desk.conversations.append(question.conversation_id, said, answer.id, owner=question.owner)

    await aside(write)
