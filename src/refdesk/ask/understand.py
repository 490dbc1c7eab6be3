"""What is asked? From a question as typed to a `Query`: spelled right, standing alone, embedded, classified.

Without a model that writes, all of this is rules and the shipped embedder. With one of at least 9B, it makes follow-ups
stand alone and settles what the rules are unsure of; when it fails, the rules stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query, Question, Turn, Usage
from refdesk.ask.classify import (
    HINTS,
    INTENTS,
    SHIPPED,
    Classification,
    asks_for_number,
    classify,
    examples,
    is_errand,
    kind,
)
from refdesk.ask.followup import Rewrite, stand_alone
from refdesk.ask.spelling import Correction, correct
from refdesk.models import model_info
from refdesk.ports import LLM, Embedder, Library, Request
from refdesk.prompts import CLASSIFY_SCHEMA, CLASSIFY_SYSTEM, STAND_ALONE, STAND_ALONE_SCHEMA, STAND_ALONE_SYSTEM
from refdesk.settings import Settings
from refdesk.terms import QUERY_STOP_WORDS, query_terms, terms, words
from refdesk.text import STOP_WORDS
from refdesk.trace import Stage, Trace, in_thread
from refdesk.types import Scope

LONGEST_SPELLED = 1000  # characters; a longer question is a pasted text, and its words are what they are
REWRITE_TOKENS, CLASSIFY_TOKENS = 200, 60
TURN_CHARACTERS = 600  # of each message that a model reads for the topic
ROUTES = ("needs_retrieval", "conversational", "out_of_scope")


async def understand(
    question: Question,
    turns: Sequence[Turn],
    library: Library,
    embedder: Embedder,
    router: LLM | None,
    settings: Settings,
    trace: Trace,
) -> Query:
    """The query that is searched for; only embedding may fail, every other step is skipped when it does."""
    text = " ".join(question.text.split())
    model = router if router is not None and _is_able(router) else None
    correction = await _spelled(text, question, library, settings, trace)
    nearness = DocumentNearness(library, embedder, question.scope, settings)
    rewrite = await _alone(correction.text, question, turns, nearness, model, settings, trace)
    with trace.stage("embed", characters=len(rewrite.fullest)) as stage:
        vector = await in_thread(nearness.vector, rewrite.fullest)
        stage.gave(dimensions=len(vector))
    reading = await _read(rewrite.fullest, vector, library, embedder, model, trace)
    return Query(
        question=question.text,
        standalone=rewrite.text,
        beside=rewrite.beside,
        vector=vector,
        terms=tuple(query_terms(_telling(rewrite), library.languages)),
        corrected=correction.text if correction.changes else "",
        corrections=correction.changes,
        route=reading.route,
        intent=reading.intent,
        complexity=reading.complexity,
        hints=reading.hints,
        parts=reading.parts,
        number=asks_for_number(vector, embedder),
        is_about_library=reading.is_about_library,
    )


def _telling(rewrite: Rewrite) -> str:
    """The text whose words say what is asked: a question without any of its own ("Why?") is told by its topic."""
    return rewrite.text if _content(rewrite.text) or not rewrite.beside else rewrite.beside


# spelling


async def _spelled(text: str, question: Question, library: Library, settings: Settings, trace: Trace) -> Correction:
    why = _why_not_spelled(text, question, settings)
    if why:
        trace.skip("spell", why)
        return Correction(text)
    correction = Correction(text)
    with trace.optional("spell", words=len(text.split())) as stage:
        correction = await in_thread(spelled, text, library, question.scope)
        stage.gave(changed=len(correction.changes))
    return correction


def _why_not_spelled(text: str, question: Question, settings: Settings) -> str:
    if question.verbatim:
        return "asked for verbatim"
    if not settings.spelling:
        return "query.spelling is off"
    return "too long" if len(text) > LONGEST_SPELLED else ""


def spelled(text: str, library: Library, scope: Scope) -> Correction:
    """The question with unknown words replaced by words in scope or of the documents' languages that were meant."""
    languages = library.languages or ("en",)

    def known(asked: Sequence[str]) -> set[str]:
        stems = {word: query_terms(word, languages) for word in asked}
        counts = library.frequencies([stem for each in stems.values() for stem in each])
        return {word for word, each in stems.items() if any(counts.get(stem) for stem in each)}

    def similar(word: str, distance: int) -> list[tuple[str, int]]:
        return library.similar_words(word, distance, scope)

    return correct(text, known, similar, languages, library.chunk_count)


# standing alone


class DocumentNearness:
    """The best cosine of a text in the documents in scope; every vector is made once."""

    def __init__(self, library: Library, embedder: Embedder, scope: Scope, settings: Settings) -> None:
        self._library = library
        self._embedder = embedder
        self._scope = scope
        self._settings = settings
        self._vectors: dict[str, NDArray[np.float32]] = {}

    @property
    def space(self) -> str:
        return self._embedder.name

    def vector(self, text: str) -> NDArray[np.float32]:
        if text not in self._vectors:
            self._vectors[text] = self._embedder.embed_query(text)
        return self._vectors[text]

    def __call__(self, text: str) -> float:
        hits = self._library.search(text, self.vector(text), 1, "dense", self._scope, self._settings)
        return max((hit.cosine for hit in hits), default=0.0)


async def _alone(
    text: str,
    question: Question,
    turns: Sequence[Turn],
    nearness: DocumentNearness,
    model: LLM | None,
    settings: Settings,
    trace: Trace,
) -> Rewrite:
    why = _why_not_rewritten(text, question, turns, settings)
    if why:
        trace.skip("rewrite", why)
        return Rewrite(text)
    rewrite = Rewrite(text)
    with trace.optional("rewrite", turns=len(turns)) as stage:
        # How near is near was measured for the shipped embedder; with another one the words alone decide.
        measured = nearness if nearness.space == SHIPPED else None
        rewrite = await in_thread(stand_alone, text, turns, measured)
        stage.gave(changed=rewrite.text != text, why=rewrite.why, beside=rewrite.beside, by="rules")
    if model is not None:
        with trace.optional("rewrite_model", model=model.name) as stage:
            rewrite = await _written_alone(text, turns, model, rewrite, stage)
    return rewrite


def _why_not_rewritten(text: str, question: Question, turns: Sequence[Turn], settings: Settings) -> str:
    if question.verbatim:
        return "asked for verbatim"
    if not settings.query_rewriting_enabled:
        return "conversation.query_rewriting_enabled is off"
    if not any(turn.role == "user" for turn in turns):
        return "the first question of a conversation"
    return "small talk or an errand" if kind(text) or is_errand(text) else ""


async def _written_alone(text: str, turns: Sequence[Turn], model: LLM, ruled: Rewrite, stage: Stage) -> Rewrite:
    """The model's rewrite, or that of the rules when the model's is nonsense."""
    said = "\n".join(f"{turn.role}: {turn.content[:TURN_CHARACTERS]}" for turn in turns[-6:])
    asked = STAND_ALONE.format(conversation=said, question=text)
    found = await _asked(model, STAND_ALONE_SYSTEM, asked, STAND_ALONE_SCHEMA, REWRITE_TOKENS, stage)
    written = " ".join(str(found.get("question", "")).split())
    if not is_sound(text, written):
        stage.gave(fell_back="the model's question was empty, too long or another one")
        return ruled
    stage.gave(changed=written != text)
    return Rewrite(written, "model" if written != text else "")


def is_sound(asked: str, written: str) -> bool:
    """Whether a rewritten question can be one: not empty, not an essay, and still about some of the same words."""
    if not written or len(written) > 3 * len(asked) + 200:
        return False
    content = _content(asked)
    return not content or bool(content & _content(written))


def _content(text: str) -> set[str]:
    return set(terms(" ".join(word for word in words(text) if word not in QUERY_STOP_WORDS | STOP_WORDS)))


# kind


async def _read(
    text: str, vector: NDArray[np.float32], library: Library, embedder: Embedder, model: LLM | None, trace: Trace
) -> Classification:
    reading = Classification()
    with trace.optional("classify", characters=len(text)) as stage:
        unknown = await in_thread(unknown_words, text, library)
        reading = classify(text, vector, examples(embedder), unknown)
        stage.gave(route=reading.route, intent=reading.intent, complexity=reading.complexity, why=reading.why)
    if model is not None and not reading.sure:
        with trace.optional("classify_model", model=model.name) as stage:
            reading = await _settled(text, model, reading, stage)
    return reading


def unknown_words(text: str, library: Library) -> int:
    """Content words that stand in no document."""
    content = [word for word in dict.fromkeys(words(text)) if word not in STOP_WORDS and word not in QUERY_STOP_WORDS]
    stems = {word: query_terms(word, library.languages or ("en",)) for word in content}
    counts = library.frequencies([stem for each in stems.values() for stem in each])
    return len([word for word, each in stems.items() if not any(counts.get(stem) for stem in each)])


async def _settled(text: str, model: LLM, reading: Classification, stage: Stage) -> Classification:
    """The reading with what the model says of route and intent, where that makes sense."""
    found = await _asked(model, CLASSIFY_SYSTEM, text, CLASSIFY_SCHEMA, CLASSIFY_TOKENS, stage)
    route = next((one for one in ROUTES if one == found.get("route")), None)
    intent = next((one for one in INTENTS if one == found.get("intent")), None)
    if route is None or intent is None:
        stage.gave(fell_back="the model gave no route or intent")
        return reading
    stage.gave(route=route, intent=intent)
    return replace(reading, route=route, intent=intent, hints=HINTS[intent], why="model", sure=True)  # type: ignore[arg-type]


# the model


def _is_able(model: LLM) -> bool:
    """Whether it rewrites better than the rules: from 9B on (seed 001 step 8)."""
    return model_info(model.name).tier not in ("tiny", "small")


async def _asked(
    model: LLM, system: str, text: str, schema: Mapping[str, Any], most: int, stage: Stage
) -> Mapping[str, Any]:
    """The JSON that a model answers; empty when it is none."""
    request = Request(system, (Turn("user", text),), max_tokens=most, schema=schema, role="router")
    pieces: list[str] = []
    usage = Usage()
    async with aclosing(model.stream(request)) as stream:  # type: ignore[type-var]  # every adapter's is a generator
        async for piece in stream:
            if piece.restarted:
                pieces.clear()
            pieces.append(piece.text)
            usage += piece.usage or Usage()
    stage.cost_usd += usage.cost_usd or 0.0
    stage.gave(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)
    said = "".join(pieces)
    try:
        found = json.loads(said[said.find("{") : said.rfind("}") + 1])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
