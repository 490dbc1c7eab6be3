"""Looks up the cache before a question; stores conversation, trace and cache entry afterwards.

An answer written with a conversation in view is kept for that conversation alone; one written without may serve every
question that means the same, in the same namespace: scope, access, level, mode, settings, models and corpus version.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import orjson

from refdesk.answer import (
    CHANCE_DIGITS,
    Answer,
    Cached,
    Citation,
    Confidence,
    Content,
    Context,
    Done,
    Event,
    Failed,
    Plan,
    Query,
    Question,
    Replace,
    Retrieved,
    Sources,
    Spent,
    Turn,
    Usage,
    decode_answer,
    encode_answer,
)
from refdesk.ask.judge import MOST_TOPICS
from refdesk.ask.plan import longest
from refdesk.ask.wording import same_question, threshold
from refdesk.errors import LibraryError, ProviderError, RefdeskError
from refdesk.library import LibraryReader
from refdesk.models import model_info
from refdesk.ports import LLM, Cache, Conversations, Embedder, ModelRole, Models, NoReader, Reader, Request, Reranker
from refdesk.prompts import CONVERSATION_CLOSES, CONVERSATION_OPENS, MOST_TURNS, SUMMARISE_CONVERSATION
from refdesk.settings import Settings
from refdesk.text import CHARACTERS_PER_TOKEN, rough_tokens, sentences
from refdesk.trace import Trace, in_thread
from refdesk.types import EVERYTHING, Box, Chunk, Document, Scope

# Which earlier answer may stand for this question's? Names the namespace in which answers are kept.


def cache_namespace(
    question: Question, settings: Settings, models: str, generation: int, turns: Sequence[Turn] = ()
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
        [_digest(image.data) for image in question.images],
        question.conversation_id if turns else "",  # its summary may hold more than these turns
    ]
    try:
        packed = orjson.dumps(parts)
    except orjson.JSONEncodeError:  # half of a surrogate pair in what was said
        packed = repr(parts).encode("utf-8", "backslashreplace")
    return f"{generation}-{_digest(packed)}"


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


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


logger = logging.getLogger("refdesk.ask")

NEAREST = 5  # earlier questions a new one is compared with
BESIDE = (  # calls that no draft counts
    *("rewrite_model", "classify_model", "survey", "plan_model", "summarise"),
    *("parts_model", "note_model", "look"),
)
ROLES: tuple[ModelRole, ...] = get_args(ModelRole)
WITHOUT_MODEL = "small"  # the tier whose memory an answer without a model has


def no_picture(document: Document, chunk: Chunk, width: int) -> bytes | None:
    """There is none."""


def no_place(chunk: Chunk) -> Box | None:
    """It is not known."""


# What was found and assembled a moment ago? Another level of checking or another model asks for the same passages.

# Of settings and plans, what changes neither the hits nor the context. A new setting counts until it is listed here.
ASIDE = ("answer.", "cache.", "conversation.", "ingest.", "llm.", "query.", "serve.")
UNCHECKED: Mapping[str, Any] = {"verify": False, "reconcile": False, "ask_verifier": True, "ask_reconciler": True}
UNWRITTEN: Mapping[str, Any] = {"reasoning": False, "template": "factual", "skipped": ()}


class Recent:
    """Values of the last questions of this process by their keys; the least recently used is dropped first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Any:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: str, value: Any, most: int) -> None:
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > most:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


@dataclass(frozen=True, slots=True)
class AskPorts:
    """Everything a question is answered with; `settings` are those of this one question."""

    library: LibraryReader
    embedder: Embedder
    reranker: Reranker
    models: Models
    cache: Cache
    conversations: Conversations
    settings: Settings
    record: Callable[[Answer, Trace], None]  # keeps an answer and its trace; must not hold it up
    record_failure: Callable[[RefdeskError, Trace], None]  # the same for a question that has none
    notes: tuple[str, ...] = ()  # what every answer is to say, such as that a named model cannot be used
    reader: Reader = field(default_factory=NoReader)
    spent: Callable[[], Spent] = Spent  # what the last day's answers cost; blocking
    picture: Callable[[Document, Chunk, int], bytes | None] = no_picture  # of a chunk, so many pixels wide; blocking
    figure_place: Callable[[Chunk], Box | None] = no_place  # where on its page a figure was cut out
    recent_hits: Recent = field(default_factory=Recent)
    recent_contexts: Recent = field(default_factory=Recent)


class Keeper:
    """One question's memory: made with the question, in a thread, for it reads what was said before."""

    def __init__(self, question: Question, desk: AskPorts, trace: Trace) -> None:
        self._question = question
        self._desk = desk
        self._trace = trace
        self._llm = desk.models.role("answer")
        self.notes: list[str] = []  # what the reader of the answer should know, whoever answers
        self.turns = self._said_before()
        self._near_miss = ""
        self._found_as = ""
        self._generation = desk.library.generation()
        self._names = " ".join([desk.embedder.name, *(_name(desk.models.role(role)) for role in ROLES)])

    def _said_before(self) -> tuple[Turn, ...]:
        question, settings = self._question, self._desk.settings
        if question.history:
            return question.history[-min(MOST_TURNS, 2 * settings.max_history_turns) :]
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
            found = await in_thread(self._desk.cache.get, self._namespace(self.turns), words)
            stage.gave(found=found is not None)
            if found is not None:
                return await self._served(decode_answer(found), "exact")
        return ()

    async def recall_similar(self, query: Query) -> tuple[Event, ...]:
        """The events of an answer to a question that means the same; one that only resembles it is offered later."""
        if not self._question.use_cache or self.turns or query.route != "needs_retrieval":
            return ()
        with self._trace.optional("recall_similar") as stage:
            near = await in_thread(self._desk.cache.nearest, self._namespace(()), query.vector, NEAREST)
            needed = threshold(self._desk.settings.cache_threshold_mode, query.standalone)
            for earlier, cosine, found in near:
                if cosine >= needed and same_question(query.standalone, earlier):
                    stage.gave(found=True, cosine=round(cosine, CHANCE_DIGITS))
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

    async def hits(self, query: Query, plan: Plan, find: Callable[[], Awaitable[Retrieved]]) -> Retrieved:
        """What the search gives, or gave a moment ago to the same question under the same settings of searching."""
        self._found_as = self._search_key(query, replace(plan, **UNCHECKED, **UNWRITTEN))
        with self._trace.stage("retrieve", **plan.sizes) as stage:
            known: Retrieved | None = self._desk.recent_hits.get(self._found_as) if self._may_reuse else None
            before = len(self._trace.stages)
            found = await find() if known is None else known
            # What a question reads of the vectors it notes in them: each has its own.
            own = replace(found, sentence_vectors=type(found.sentence_vectors)(found.sentence_vectors))  # type: ignore
            is_whole = not any(stage.error for stage in self._trace.stages[before:])
            if known is None and is_whole and self._may_reuse:
                self._desk.recent_hits.put(self._found_as, own, self._desk.settings.cache_hits_entries)
            stage.gave(**found.sizes, cached=known is not None)
        return found if known is None else own

    def context(self, plan: Plan, budget: object, make: Callable[[], Context]) -> Context:
        """What is assembled of the hits, or was a moment ago with as much room."""
        if not self._may_reuse or not self._found_as:  # several searches have no one key
            return make()
        room = (replace(plan, **UNCHECKED, **UNWRITTEN), budget, self._question.max_context_chars)
        key = f"{self._found_as} {room!r}"
        context: Context | None = self._desk.recent_contexts.get(key)
        if context is None:
            context = make()
            self._desk.recent_contexts.put(key, context, self._desk.settings.cache_context_entries)
        return context

    @property
    def _may_reuse(self) -> bool:
        return self._question.use_cache

    def _search_key(self, query: Query, plan: Plan) -> str:
        settings = [own for own in self._desk.settings.by_name.items() if not own[0].startswith(ASIDE)]
        asked = (query.question, query.standalone, query.beside, query.route, query.intent, query.parts, query.terms)
        turns = [(turn.role, turn.content) for turn in self.turns]
        names = (self._names, self._desk.reranker.name, self._desk.reader.name)
        key = repr((self._generation, asked, _scope(self._question.scope), plan, settings, names, turns))
        return _digest(key.encode("utf-8", "backslashreplace"))

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
        older = await in_thread(conversations.older, question.conversation_id, len(self.turns), owner=owner)
        if not older.turns:
            return older.summary
        if (llm := self._desk.models.role("summariser")) is None:
            return gist(older.turns, int(SUMMARY_SHARE * budget_tokens), older.summary)
        summary = await summarise(older.turns, llm, self._trace, older.summary)
        await in_thread(conversations.set_summary, question.conversation_id, summary, older.until, owner=owner)
        return summary

    # after

    async def keep(self, answer: Answer, query: Query) -> Answer:
        """The answer with what it took, written where it will be looked for."""
        if self._near_miss and self._desk.settings.suggest_questions:
            offered = dict.fromkeys((self._near_miss, *answer.suggested_questions))
            answer = replace(answer, suggested_questions=tuple(offered)[:MOST_TOPICS])
        answer = replace(answer, notes=(*self._desk.notes, *self.notes, *answer.notes))
        usage = answer.usage + self._trace.usage(*BESIDE)
        answer = replace(answer, metrics={**answer.metrics, **self._trace.milliseconds()}, usage=usage)
        if self._question.use_cache and self._is_worth_keeping(answer, query):
            await in_thread(self._put, answer, query)
        await self._append(answer)
        await self._record(answer)
        return answer

    def _put(self, answer: Answer, query: Query) -> None:
        packed, typed, meant = encode_answer(answer), same_words(self._question.text), same_words(query.standalone)
        if not self.turns:
            self._desk.cache.put(self._namespace(()), meant, query.vector, packed)
        if self.turns or typed != meant:
            self._desk.cache.put(self._namespace(self.turns), typed, None, packed)

    def _is_worth_keeping(self, answer: Answer, query: Query) -> bool:
        """Not what was answered while a model was down: the next one who asks may get the better answer.

        Nor what the list of documents answers: it takes no time, and "this week" is another one tomorrow.
        """
        is_sound = answer.verification.status != "failed" and not answer.failed_models
        return answer.route == "needs_retrieval" and is_sound and not query.catalogue

    async def _append(self, answer: Answer) -> None:
        question, append = self._question, self._desk.conversations.append
        if question.conversation_id:
            turns = (Turn("user", question.text), Turn("assistant", answer.content))
            try:
                await in_thread(append, question.conversation_id, turns, answer.id, owner=question.owner)
            except LibraryError as error:  # a full disk costs the conversation this turn, not the answer
                logger.warning("a turn of a conversation cannot be saved: %s", error)

    async def _record(self, answer: Answer) -> None:
        with self._trace.optional("record"):
            await in_thread(self._desk.record, answer, self._trace)

    def _namespace(self, turns: tuple[Turn, ...]) -> str:
        return cache_namespace(self._question, self._desk.settings, self._names, self._generation, turns)


def _name(llm: LLM | None) -> str:
    return llm.name if llm is not None else "-"


# What is kept of an answer that was stopped? The question and what was shown until then, marked as stopped.

REASON = "it was stopped early, so it was not checked"


class Streamed:
    """What a reader has been told so far."""

    def __init__(self) -> None:
        self.content = ""
        self.citations: tuple[Citation, ...] = ()
        self.is_whole = False

    def notice(self, event: Event) -> None:
        if isinstance(event, Content):
            self.content += event.token
        elif isinstance(event, Replace):
            self.content = event.content
        elif isinstance(event, Sources):
            self.citations = event.citations
        elif isinstance(event, Done | Failed):
            self.is_whole = True


async def keep_stopped(question: Question, desk: AskPorts, trace: Trace, shown: Streamed) -> None:
    """Writes the exchange into its conversation, if it has one; without one, nobody could find it again."""
    if shown.is_whole or not question.conversation_id:
        return
    content = shown.content.strip()
    answer = Answer(
        id=trace.id,
        question=question.text,
        content=content,
        citations=tuple(citation for citation in shown.citations if f"[{citation.marker}]" in content),
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
    trace.skip("stopped", "the user left or stopped it")

    def write() -> None:
        with trace.optional("record"):
            turns = (Turn("user", question.text), Turn("assistant", content))
            desk.record(answer, trace)
            desk.conversations.append(question.conversation_id, turns, answer.id, owner=question.owner)

    await in_thread(write)


# --- what of a conversation is remembered? The last exchanges that fit, and a summary of those before ---------------

# Seed 001 step 8: exchanges, a question and its answer each.
EXCHANGES: Mapping[str, int] = {"tiny": 3, "small": 6, "medium": 10, "large": 15}
SUMMARY_SHARE = 0.25  # of the budget; the rest is for what was said last, word by word
TURN_SHARE = 0.5  # of the budget, for one message
SUMMARY_TOKENS = 300  # of a summary that a model writes
GIST_TOKENS = 16  # of one message, at least

_MARKERS = re.compile(r"\s?\[\d{1,3}(?:\s?,\s?\d{1,3})*\]")

Exchange = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """The turns to be read, oldest first, and a summary of the `dropped` exchanges before them."""

    turns: tuple[Turn, ...] = ()
    summary: str = ""
    dropped: int = 0


def exchanges_kept(tier: str, most: int) -> int:
    """How many exchanges a model of this size is given; `most` is `conversation.max_history_turns`."""
    return min(EXCHANGES[tier], most)


def remember(
    turns: Sequence[Turn], tier: str, budget_tokens: int, summary: str = "", *, most: int = EXCHANGES["large"]
) -> Memory:
    """The last exchanges within the budget, the newest first to get room; what is older becomes part of the summary.

    `summary` is of what was said before `turns`. Markers of earlier answers are taken out: their numbers mean nothing
    beside the passages of this question. The newest exchange always stays, shortened if it must be.
    """
    exchanges = _exchanges(turns)
    if budget_tokens <= 0 or most <= 0:
        return Memory((), "", len(exchanges))
    # Room for a summary is only set aside when there is something to sum up.
    is_long = bool(summary) or len(exchanges) > exchanges_kept(tier, most)
    is_long = is_long or sum(rough_tokens(turn.content) for turn in turns) > budget_tokens
    for_summary = int(SUMMARY_SHARE * budget_tokens) if is_long else 0
    room = budget_tokens - for_summary
    kept: list[Exchange] = []
    for exchange in reversed(exchanges[-exchanges_kept(tier, most) :]):
        fitted = _fitted(exchange, int(TURN_SHARE * budget_tokens))
        cost = sum(rough_tokens(turn.content) for turn in fitted)
        if cost > room:
            if kept:
                break
            fitted = _fitted(exchange, room // len(exchange))
            cost = sum(rough_tokens(turn.content) for turn in fitted)
        kept.append(fitted)
        room -= cost
    dropped = exchanges[: len(exchanges) - len(kept)]
    older = [turn for exchange in dropped for turn in exchange]
    return Memory(
        tuple(turn for exchange in reversed(kept) for turn in exchange), gist(older, for_summary, summary), len(dropped)
    )


def gist(turns: Sequence[Turn], budget_tokens: int, before: str = "") -> str:
    """A summary without a model: the first sentence of each message, the latest ones if not all have room.

    >>> gist([Turn("user", "What does it cost? I forgot."), Turn("assistant", "It costs 4 euros [1].")], 50)
    'User: What does it cost?\\nAssistant: It costs 4 euros.'
    """
    lines: list[str] = []
    room = budget_tokens
    for turn in reversed(turns):
        sentence = _first_sentences(_bare(turn), 1, max(int(SUMMARY_SHARE * budget_tokens), GIST_TOKENS))
        line = f"{turn.role.capitalize()}: {sentence}"
        if not sentence or rough_tokens(line) > room:
            break
        lines.append(line)
        room -= rough_tokens(line) + 1
    head = _first_sentences(before, None, room) if before else ""
    return "\n".join(filter(None, [head, *reversed(lines)]))


async def summarise(turns: Sequence[Turn], llm: LLM, trace: Trace, before: str = "") -> str:
    """A model's summary of these turns and of the summary `before` them; the extractive one when the model fails."""
    written: list[str] = []
    usage = Usage()
    request = Request(
        system=SUMMARISE_CONVERSATION,
        messages=(Turn("user", _fenced(turns, before)),),
        max_tokens=SUMMARY_TOKENS,
        role="summariser",
    )
    with trace.optional("summarise", turns=len(turns), model=llm.name) as stage:
        async for piece in llm.stream(request):
            if piece.restarted:
                written.clear()
            written.append(piece.text)
            usage = piece.usage or usage
        text = " ".join("".join(written).split())
        stage.usage = usage
        stage.gave(characters=len(text), tokens=usage.completion_tokens)
        if not text:
            raise ProviderError(f"{llm.name} gave an empty summary")
        return _first_sentences(text, None, 2 * SUMMARY_TOKENS)
    return gist(turns, SUMMARY_TOKENS, before)


def _fenced(turns: Sequence[Turn], before: str) -> str:
    """The conversation as a model reads it; nothing said in it can end the fence."""
    lines = [f"Summary so far: {before}"] if before else []
    lines += [f"{turn.role.capitalize()}: {_bare(turn)}" for turn in turns]
    text = re.sub(r"<\s*+(?:/\s*+)?conversation\s*+>", "", "\n".join(lines), flags=re.IGNORECASE)
    return f"{CONVERSATION_OPENS}\n{text}\n{CONVERSATION_CLOSES}"


def _exchanges(turns: Sequence[Turn]) -> list[Exchange]:
    """A question and what was answered; an exchange begins with every message of the user."""
    found: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "user" or not found:
            found.append([])
        found[-1].append(turn)
    return [tuple(exchange) for exchange in found]


def _fitted(exchange: Exchange, most: int) -> Exchange:
    """Each message within `most` tokens, by its first sentences; an answer without its markers."""
    bare = [Turn(turn.role, _bare(turn)) for turn in exchange]
    return tuple(Turn(turn.role, _first_sentences(turn.content, None, most)) for turn in bare)


def _bare(turn: Turn) -> str:
    return _MARKERS.sub("", turn.content) if turn.role == "assistant" else turn.content


def _first_sentences(text: str, number: int | None, most: int) -> str:
    """The first sentences of a text within `most` tokens; when not even one fits, the first words of it."""
    if number is None and rough_tokens(text) <= most:
        return text
    text = text[: most * CHARACTERS_PER_TOKEN + 1]  # no more can fit; a message may be megabytes long
    end = 0
    for _, stop in sentences(text)[:number]:
        if rough_tokens(text[:stop]) > most:
            break
        end = stop
    return text[:end].strip() or _first_words(text, most)


def _first_words(text: str, most: int) -> str:
    cut = text[: longest(len(text), lambda end: rough_tokens(text[:end] + "…") <= most)]  # with the mark of the cut
    whole = cut[: cut.rfind(" ")] if " " in cut[len(cut) // 2 :] else cut
    return f"{whole.rstrip()}…" if whole.strip() else ""
