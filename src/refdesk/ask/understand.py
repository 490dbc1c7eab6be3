"""From a question as typed to a `Query`: corrected, standing alone, embedded, classified.

Without a model that writes, all of this is rules and the shipped embedder. With one of at least 9B, it makes follow-ups
stand alone and settles what the rules are unsure of; when it fails, the rules stand.
"""

from __future__ import annotations

import difflib
import gzip
import importlib.util
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query, Question, Turn
from refdesk.ask.classify import (
    HINTS,
    INTENTS,
    LONGEST_QUESTION,
    SHIPPED,
    UNKNOWN,
    Classification,
    asks_for_number,
    classify,
    examples,
    kind,
)
from refdesk.ask.followup import Rewrite, stand_alone
from refdesk.ask.sentences import asking_part
from refdesk.ask.table_question import asking_clause
from refdesk.ask.wording import LIKELY, POSSESSIVE, softmax
from refdesk.library import LibraryReader
from refdesk.ports import LLM, Embedder
from refdesk.prompts import (
    CLASSIFY_SCHEMA,
    CLASSIFY_SYSTEM,
    LONGEST_TEXT,
    STAND_ALONE,
    STAND_ALONE_SCHEMA,
    STAND_ALONE_SYSTEM,
)
from refdesk.settings import Settings
from refdesk.text import QUERY_STOP_WORDS, STOP_WORDS, edit_distances, query_terms, terms, words
from refdesk.trace import Stage, Trace, in_thread, is_able, json_reply
from refdesk.types import Scope

ROUTES = ("needs_retrieval", "conversational", "out_of_scope")


async def understand(
    question: Question,
    turns: Sequence[Turn],
    library: LibraryReader,
    embedder: Embedder,
    router: LLM | None,
    settings: Settings,
    trace: Trace,
) -> Query:
    """The query that is searched for; only embedding may fail, every other step is skipped when it does."""
    text = " ".join(question.text.split())
    if kind(text):  # nothing is embedded for "hello": with an embedder on the network that is a paid call
        trace.skip("embed", "small talk")
        return _said(question, await _read(text, None, 0, embedder, None, trace))
    model = router if router is not None and is_able(router) else None
    correction = await _spelled(text, question, library, settings, trace)
    nearness = DocumentNearness(library, embedder, question.scope, settings)
    rewrite = await _alone(correction.text, question, turns, nearness, model, settings, trace)
    alone, beside = (rewrite.text, rewrite.beside) if rewrite is not None else (correction.text, "")
    with trace.stage("embed", characters=len(beside or alone)) as stage:
        vector, unknown, number = await in_thread(_embedded, beside or alone, nearness, library, embedder)
        stage.gave(dimensions=len(vector))
    reading = await _read(beside or alone, vector, unknown, embedder, model, trace)
    return Query(
        question=question.text,
        standalone=alone,
        beside=beside,
        vector=vector,
        terms=tuple(query_terms(_telling(alone, beside), library.languages)),
        corrected=correction.text if correction.changes else "",
        corrections=correction.changes,
        route=reading.route,
        intent=reading.intent,
        confidence=reading.confidence,
        complexity=reading.complexity,
        hints=reading.hints,
        parts=reading.parts,
        number=number,
        catalogue=reading.catalogue,
    )


def _said(question: Question, reading: Classification) -> Query:
    """What is said and not asked: there is nothing to search for."""
    text = question.text
    return Query(text, text, np.zeros(0, np.float32), (), route=reading.route, complexity=reading.complexity)


def _telling(alone: str, beside: str) -> str:
    """The text whose words say what is asked: a question without any of its own ("Why?") is told by its topic."""
    return alone if not beside or _content(alone) else beside


# spelling


async def _spelled(
    text: str, question: Question, library: LibraryReader, settings: Settings, trace: Trace
) -> Correction:
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
    return "too long" if len(text) > LONGEST_QUESTION else ""


def spelled(text: str, library: LibraryReader, scope: Scope) -> Correction:
    """The question with unknown words replaced by words in scope or of the documents' languages that were meant."""
    languages = library.languages or ("en",)

    def known(asked: Sequence[str]) -> set[str]:
        stems = {word: query_terms(word, languages) for word in asked}
        counts = library.frequencies([stem for each in stems.values() for stem in each])
        return {word for word, each in stems.items() if any(counts.get(stem) for stem in each)}

    def similar(word: str, distance: int) -> list[tuple[str, int]]:
        return library.similar_words(word, distance, scope)

    def names() -> Collection[str]:
        return library.name_words(scope)

    return correct(text, known, similar, languages, library.chunk_count, names)


# standing alone


class DocumentNearness:
    """The best cosine of a text in the documents in scope; every vector is made once."""

    def __init__(self, library: LibraryReader, embedder: Embedder, scope: Scope, settings: Settings) -> None:
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
) -> Rewrite | None:
    """The question made to stand alone; None where it is taken as it is."""
    why = _why_not_rewritten(text, question, turns, settings)
    if why:
        trace.skip("rewrite", why)
        return None
    rewrite: Rewrite | None = None
    with trace.optional("rewrite", turns=len(turns)) as stage:
        # How near is near was measured for the shipped embedder; with another one the words alone decide.
        measured = nearness if nearness.space == SHIPPED else None
        rewrite = await in_thread(stand_alone, text, turns, measured)
        stage.gave(changed=rewrite.text != text, why=rewrite.why, beside=rewrite.beside, by="rules")
    if model is not None:
        with trace.optional("rewrite_model", model=model.name) as stage:
            rewrite = await _written_alone(text, turns, model, rewrite or Rewrite(text), stage)
    return rewrite


def _why_not_rewritten(text: str, question: Question, turns: Sequence[Turn], settings: Settings) -> str:
    if question.verbatim:
        return "asked for verbatim"
    if not settings.query_rewriting_enabled:
        return "conversation.query_rewriting_enabled is off"
    if not any(turn.role == "user" for turn in turns):
        return "the first question of a conversation"
    return "small talk" if kind(text) else ""


async def _written_alone(text: str, turns: Sequence[Turn], model: LLM, ruled: Rewrite, stage: Stage) -> Rewrite:
    """The model's rewrite, or that of the rules when the model's is nonsense."""
    conversation = "\n".join(f"{turn.role}: {turn.content[:LONGEST_TEXT]}" for turn in turns[-6:])
    asked = STAND_ALONE.format(conversation=conversation, question=text)
    found = await json_reply(model, STAND_ALONE_SYSTEM, asked, STAND_ALONE_SCHEMA, stage)
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
    text: str, vector: NDArray[np.float32] | None, unknown: int, embedder: Embedder, model: LLM | None, trace: Trace
) -> Classification:
    reading = Classification()
    with trace.optional("classify", characters=len(text)) as stage:
        reading = classify(text, vector, examples(embedder), unknown)
        stage.gave(
            route=reading.route,
            intent=reading.intent,
            confidence=reading.confidence,
            complexity=reading.complexity,
            why=reading.why,
        )
    if model is not None and not reading.sure:
        with trace.optional("classify_model", model=model.name) as stage:
            reading = await _settled(text, model, reading, stage)
    return reading


def _embedded(
    text: str, nearness: DocumentNearness, library: LibraryReader, embedder: Embedder
) -> tuple[NDArray[np.float32], int, float]:
    """Its vector, how many of its words no document holds, and the chance that it asks for a number.

    What stands around the clause that asks ("…, and what drove it?") hides that from a vector of the whole.
    """
    vector = nearness.vector(text)
    clause = asking_clause(asking_part(text))
    parts = [vector] if clause == text or embedder.name != SHIPPED else [vector, nearness.vector(clause)]
    return vector, unknown_words(text, library), max(asks_for_number(part, embedder) for part in parts)


def unknown_words(text: str, library: LibraryReader) -> int:
    """Content words that stand in no document."""
    content = [word for word in dict.fromkeys(words(text)) if word not in STOP_WORDS and word not in QUERY_STOP_WORDS]
    stems = {word: query_terms(word, library.languages or ("en",)) for word in content}
    counts = library.frequencies([stem for each in stems.values() for stem in each])
    return len([word for word, each in stems.items() if not any(counts.get(stem) for stem in each)])


async def _settled(text: str, model: LLM, reading: Classification, stage: Stage) -> Classification:
    """The reading with what the model says of route and intent, where that makes sense."""
    found = await json_reply(model, CLASSIFY_SYSTEM, text, CLASSIFY_SCHEMA, stage)
    route = next((route for route in ROUTES if route == found.get("route")), None)
    intent = next((intent for intent in INTENTS if intent == found.get("intent")), None)
    if route is None or intent is None:
        stage.gave(fell_back="the model gave no route or intent")
        return reading
    stage.gave(route=route, intent=intent)
    confidence = reading.confidence if intent == reading.intent else UNKNOWN
    settled: dict[str, Any] = {"route": route, "intent": intent, "hints": HINTS[intent], "confidence": confidence}
    return replace(reading, **settled, why="model", sure=True)


# --- which words of a question are misspelled, and what was meant? Word by word; a word that is known is right ------

# Which words does a language have, how common are they, and which lie near a misspelled one?

_LETTERS = 26
# What pyspellchecker's list lacks, British spellings ("harbour") above all: words of symspellpy's list (MIT).
MORE_ENGLISH = Path(__file__).parent.parent / "assets" / "english_words.txt"


@dataclass(frozen=True, slots=True, eq=False)
class WordList:
    """The words of one language with how often each is written in a billion, and per length how often which letter."""

    frequencies: Mapping[str, float]
    by_length: Mapping[int, tuple[tuple[str, ...], NDArray[np.int8]]]  # words of a to z: (words, 26) counts

    def __contains__(self, word: str) -> bool:
        return word in self.frequencies

    def near(self, word: str, distance: int) -> list[tuple[str, float]]:
        """Words whose letters differ so little that they may lie within the distance; the caller measures it."""
        own = _letter_counts((word,))[0]
        found: list[tuple[str, float]] = []
        for length in range(len(word) - distance, len(word) + distance + 1):
            if length in self.by_length:
                words, letters = self.by_length[length]
                differences = np.abs(letters - own).sum(axis=1, dtype=np.int16)
                # An edit adds a letter, drops one, or does both by replacing one; a swap changes no count.
                near = np.flatnonzero(differences <= 2 * distance)
                found += [(words[place], self.frequencies[words[place]]) for place in near]
        return found


@cache
def word_list(language: str) -> WordList | None:
    """The list of a language by its ISO 639-1 code; None where there is none."""
    package = importlib.util.find_spec("spellchecker")  # found, not imported
    if package is None or not package.submodule_search_locations or not language.isalpha():
        return None
    path = Path(package.submodule_search_locations[0]) / "resources" / f"{language}.json.gz"
    if not path.is_file():
        return None
    counts: dict[str, int] = json.loads(gzip.decompress(path.read_bytes()))
    for word in MORE_ENGLISH.read_text(encoding="utf-8").split() if language == "en" else ():
        counts.setdefault(word, 1)
    total = sum(counts.values())
    lengths: dict[int, list[str]] = {}
    for word in counts:
        if word.isascii() and word.isalpha() and word.islower():
            lengths.setdefault(len(word), []).append(word)
    by_length = {length: (tuple(words), _letter_counts(words)) for length, words in lengths.items()}
    return WordList({word: 1e9 * count / total for word, count in counts.items()}, by_length)


def _letter_counts(words: tuple[str, ...] | list[str]) -> NDArray[np.int8]:
    """How often each letter stands in each of these words of one length."""
    letters = np.zeros((len(words), _LETTERS), dtype=np.int8)
    codes = np.frombuffer("".join(words).encode(), dtype=np.uint8).astype(np.intp) - ord("a")
    np.add.at(letters, (np.repeat(np.arange(len(words)), len(words[0])), codes), 1)
    return letters


Known = Callable[[Sequence[str]], Collection[str]]  # of these words, those the documents hold
Similar = Callable[[str, int], Sequence[tuple[str, int]]]  # (word, distance) -> near words with their counts

WEIGHTS_FILE = Path(__file__).parent.parent / "assets" / "spelling.json"
SHORTEST = 3  # letters
TWO_EDITS_FROM = 8  # letters; MEASUREMENTS: one edit below, two from here on
LEAST_WORDS, LEAST_CHARACTERS = 0.5, 0.6  # shares that must survive; seed 001 step 3
_OFTEN = 50.0  # in a thousand chunks; more make a word no likelier: "create" does not make "creation" of "corelation"
_VOWELS = frozenset("aeiouy")
# Where the keys are: the rows of a keyboard, each further to the right by a part of a key.
_KEYS = {
    letter: (row, column + shift)
    for row, (letters, shift) in enumerate((("qwertyuiop", 0), ("asdfghjkl", 0.25), ("zxcvbnm", 0.75)))
    for column, letter in enumerate(letters)
}
_TOKEN = re.compile(r"[^\s]+")
_EDGES = "\"'“”‘’()[]{}<>.,;:!?…*"
_SMALL_WORDS = QUERY_STOP_WORDS | STOP_WORDS | {word.replace("'", "") for word in STOP_WORDS}  # "dont" is meant


@dataclass(frozen=True, slots=True)
class Correction:
    """The question as it will be searched, and each word that was changed: (typed, searched for)."""

    text: str
    changes: tuple[tuple[str, str], ...] = ()


def correct(
    text: str,
    known: Known,
    similar: Similar,
    languages: Sequence[str] = ("en",),
    chunks: int = 1000,
    names: Callable[[], Collection[str]] = tuple,
) -> Correction:
    """The question with misspelled words replaced, or as it was when too little of it would survive.

    `similar` counts in how many of all `chunks` a word stands; `names` are the words that documents are called by.
    """
    places = list(candidates(text))
    in_documents = known(list(dict.fromkeys(word.lower() for _, word in places))) if places else ()
    unknown = [(start, word) for start, word in places if word.lower() not in in_documents]
    if not unknown:
        return Correction(text)
    lists = {language: found for language in languages if (found := word_list(language)) is not None}
    own = _asked_in(text, lists)
    if lists and own is None:
        return Correction(text)  # in a language that the documents are not in: none of their words is meant
    changes: list[tuple[int, str, str]] = []
    for start, word in unknown:
        lowered = word.lower()
        if any(lowered in list_ for list_ in lists.values()):
            continue
        is_name = word[0].isupper() and bool(text[:start].strip(_EDGES + " "))
        if meant := best(lowered, meanings(lowered, similar, own, chunks, names()), is_name=is_name):
            changes.append((start, word, _in_case_of(word, meant)))
    if not changes:
        return Correction(text)
    corrected = text
    for start, word, meant in reversed(changes):
        corrected = corrected[:start] + meant + corrected[start + len(word) :]
    if not _survives(text, corrected):
        return Correction(text)
    return Correction(corrected, tuple(dict.fromkeys((word, meant) for _, word, meant in changes)))


def _asked_in(text: str, lists: Mapping[str, WordList]) -> WordList | None:
    """The list of the language that most words of a question are of; a French question is not made English."""
    tokens = [word for word in words(text) if len(word) > 1 and word.isalpha()]
    # Words that are hardly ever written say nothing: "est" and "bon" stand in English lists too.
    counts = {
        language: sum(words.frequencies.get(token, 0.0) > 1.0 for token in tokens) for language, words in lists.items()
    }
    most = max(counts, key=lambda language: counts[language], default="")
    # Half of the words, or all but one: a short question may be one typo and little else.
    is_sure = bool(most) and counts[most] >= min(len(tokens) / 2, len(tokens) - 1)
    return lists[most] if is_sure else None


def candidates(text: str) -> Iterable[tuple[int, str]]:
    """Where words begin that may be misspelled: letters alone, no codes, nothing in capitals, no small words."""
    for token in _TOKEN.finditer(text):
        core = token.group().lstrip(_EDGES)
        start = token.end() - len(core)
        core = core.rstrip(_EDGES)
        core = POSSESSIVE.sub("", core)
        if not all(part.isascii() and part.isalpha() for part in core.split("-")):
            continue
        for word in core.split("-"):
            has_inner_capital = not word[1:].islower()
            if len(word) >= SHORTEST and not has_inner_capital and word.lower() not in _SMALL_WORDS:
                yield start, word
            start += len(word) + 1


def meanings(
    word: str, similar: Similar, language: WordList | None, chunks: int, names: Collection[str]
) -> dict[str, tuple[float, float, bool]]:
    """Near words: in how many of a thousand chunks and how often in a billion words each is, and whether it names a
    document."""
    allowed = 2 if len(word) >= TWO_EDITS_FROM else 1
    found = {near: (1000.0 * count / max(1, chunks), 0.0) for near, count in similar(word, allowed)}
    for near, frequency in language.near(word, allowed) if language is not None else ():
        found[near] = (found.get(near, (0.0, 0.0))[0], frequency)
    likely = [near for near in found if len(near) >= SHORTEST and near.isalpha()]
    distances = edit_distances(word, likely)
    kept = [near for near, edits in zip(likely, distances, strict=True) if 0 < edits <= allowed]
    return {near: (*found[near], near in names) for near in kept}


def best(word: str, near: Mapping[str, tuple[float, float, bool]], *, is_name: bool) -> str:
    """The word that was most likely meant; "" when none is likelier than all others and the word itself together."""
    weights = _weights()
    scores = {
        candidate: sum(
            weights[name] * value for name, value in features(word, candidate, *counts, is_name=is_name).items()
        )
        for candidate, counts in near.items()
    }
    itself = 0.0
    chances = dict(zip(("", *scores), softmax([itself, *scores.values()]), strict=True))
    meant = min(chances, key=lambda candidate: (-chances[candidate], candidate))
    return meant if chances[meant] > LIKELY else ""


def features(
    word: str, near: str, documents: float, language: float, names_document: bool, *, is_name: bool
) -> dict[str, float]:
    """What speaks for it that `near` was meant by `word`; those that are not 0 of an edit, of what was done, and of a
    near word, whether and how often it is written in the documents and in its language."""
    edits = list(_edits(word, near))
    found: dict[str, float] = {"any": 1.0, "length": min(len(word), 12) / 10}
    for what, place in edits:
        found[what] = found.get(what, 0.0) + 1.0
        if place == 0:
            found["first_letter"] = 1.0
        if place >= len(word) - 1:
            found["last_letter"] = 1.0
    if len(edits) > 1:
        found["two_edits"] = 1.0
    if documents:
        found |= {"in_documents": 1.0, "documents": math.log1p(min(documents, _OFTEN))}
    if language:
        found |= {"in_language": 1.0, "language": math.log1p(language) / 10}
    if is_name:  # "Amazn" beside a document of Amazon is a typo sooner than beside a mere word
        found["name_of_document" if names_document else "name"] = 1.0
    return found


@cache
def _weights() -> Mapping[str, float]:
    weights: Mapping[str, float] = json.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))["weights"]
    return weights


# --- edits -----------------------------------------------------------------------------------------------------------


def _edits(word: str, near: str) -> Iterator[tuple[str, int]]:
    """(what was done, at which letter of the word) from what was meant to what was typed, the last edit first."""
    rows = [list(range(len(near) + 1))]
    for i, letter in enumerate(word, 1):
        row = [i]
        for j, meant in enumerate(near, 1):
            cost = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (letter != meant))
            row.append(min(cost, rows[i - 2][j - 2] + 1) if _is_swapped(word, near, i, j) else cost)
        rows.append(row)
    i, j = len(word), len(near)
    while i or j:
        cost = rows[i][j]
        if i and j and word[i - 1] == near[j - 1] and cost == rows[i - 1][j - 1]:
            i, j = i - 1, j - 1
        elif _is_swapped(word, near, i, j) and cost == rows[i - 2][j - 2] + 1:
            i, j = i - 2, j - 2
            yield "swapped", i
        elif i and j and cost == rows[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
            yield _replacement(word[i], near[j]), i
        elif j and cost == rows[i][j - 1] + 1:
            j -= 1
            yield ("single_for_double" if near[j] in _beside(near, j) else "left_out"), i
        else:
            i -= 1
            yield ("double_for_single" if word[i] in _beside(word, i) else "put_in"), i


@cache
def keys_beside(letter: str) -> frozenset[str]:
    if letter not in _KEYS:
        return frozenset()
    row, place = _KEYS[letter]
    near = {key for key, (other, at) in _KEYS.items() if abs(row - other) <= 1 and abs(place - at) <= 1}
    return frozenset(near - {letter})


def _is_swapped(word: str, near: str, i: int, j: int) -> bool:
    return i > 1 and j > 1 and word[i - 1] == near[j - 2] and word[i - 2] == near[j - 1]


def _beside(word: str, place: int) -> str:
    return word[max(0, place - 1) : place] + word[place + 1 : place + 2]


def _replacement(typed: str, meant: str) -> str:
    if meant in keys_beside(typed):
        return "key_beside"
    return "vowel" if typed in _VOWELS and meant in _VOWELS else "other_letter"


def _in_case_of(typed: str, meant: str) -> str:
    return meant[0].upper() + meant[1:] if typed[0].isupper() else meant


def _survives(typed: str, corrected: str) -> bool:
    """Whether enough of the question is left as it was typed; seed 001 step 3."""
    before, after = typed.lower().split(), corrected.lower().split()
    kept = len([word for word in before if word in after]) / max(1, len(before))
    if len(before) == 1:  # a single word is changed or not; its letters decide
        kept = 1.0
    alike = difflib.SequenceMatcher(None, typed.lower(), corrected.lower(), autojunk=False).ratio()
    return kept >= LEAST_WORDS and alike >= LEAST_CHARACTERS
