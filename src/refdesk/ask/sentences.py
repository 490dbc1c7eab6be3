"""Scores how well each sentence answers the question, from stored vectors and words; runs no model. Pure.

A sentence is scored by the cosine of its stored vector, by how much of the question's words it holds (weighted by their
rarity, with part of the credit for words in its heading, title and neighbouring sentences) and by its passage; where a
reader has read the passage, by what it found. The weights are learned (assets/calibration.json): the score is a
log-odds, so that two scores tell how much likelier one sentence is than the other.

The sentences of a chunk are taken apart once per question: reranking, judging and quoting share one `Evidence`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query
from refdesk.ask.citations import f1
from refdesk.ask.wording import (
    CELLS,
    KEPT,
    NUMBER,
    NUMBER_WORDS,
    STOP_TERMS,
    SentenceWords,
    read,
    read_all,
    table_header,
)
from refdesk.periods import period_of
from refdesk.summaries import ENDS
from refdesk.text import ASSETS, QUERY_STOP_WORDS, terms, word_set, words
from refdesk.types import UNIT, Chunk, Document, FoundSpan, Reading

Floats = NDArray[np.float32]
Placed = tuple[int, Chunk, float]  # (passage number, chunk, score of the passage)

# Words that frame a question and are rarely repeated by what answers it ("what kind of", "how many", "the name of").
FRAME = word_set("words", "frame")
_FRAME_TERMS = frozenset(terms(" ".join(FRAME | QUERY_STOP_WORDS)))
FRAME_WEIGHT = 0.35
BEFORE_CREDIT, AFTER_CREDIT = 0.45, 0.25  # of a word's weight when only the sentence before, or after, holds it
HEADING_CREDIT = 0.5  # when only the heading path, the document's title or the header of the table does
ALIKE_CREDIT = 0.7  # when the sentence holds a word with the same beginning: Gaul, Gaulish
SHARED_LETTERS = 4  # that words alike have in common, at least

_DIGITS = {term: str(number) for word, number in NUMBER_WORDS.items() if number for term in terms(word)}
TWINS = _DIGITS | {number: term for term, number in _DIGITS.items()}  # "five points" and "5 points"

CALIBRATION: Mapping[str, Any] = json.loads((ASSETS / "calibration.json").read_text(encoding="utf-8"))
SENTENCE: Mapping[str, float] = CALIBRATION["sentence"]
READ: Mapping[str, float] = CALIBRATION["read"]  # of sentences in passages of which some were read
# What a passage is ranked and judged by; a plateau for squad_dev11 and squadshift_reddit (docs/log.md).
COSINE, COVERAGE, PROXIMITY = 0.5, 0.4, 0.1
LONGEST_HEADING = 12  # words of a block that is a heading: nothing ends it
SKIPPED_KINDS = frozenset({"toc", "credits", "heading"})
LABEL = 2.0  # for a row whose first cell names what a number is asked of, where nobody has read it
ALMOST = 2.0  # log-odds below the best sentence (judge.py has what was measured)
MISSING = 0.3  # a word that less of than this is held is missing

_HIRAGANA = ("\u3041", "\u309f")  # the first and the last
# Volume, number and pages: "Decision Sciences, 27 (3), 451-481", "vol. 3, pp. 20–31".
_WORK = re.compile(r"\d\s?\(\d{1,3}\)\s?[,:]\s?(?:pp?\.\s?)?\d+|\bpp?\.\s?\d+\s?[-–]\s?\d+|, \d{2,4}[-–]\d{2,4}\.")
FEWEST_WORKS, WORK_LENGTH = 3, 250  # works, and characters of text for each of them
_AMOUNT = re.compile(r"\s(?:[$€£¥]\s?[\d.,]*\d|[\d.,]*\d\s?(?:[%€£¥]|EUR|USD))\Z")
_OPENING = re.compile(r"[A-Z][a-z]+(?=\s+(?:[^A-Z]|I\b))")


# --- the question ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The question, taken apart once: its content words, and its words as those of a sentence."""

    words: tuple[str, ...]
    sentence: SentenceWords
    named: frozenset[str]  # terms of its names and numbers; a first word alone ("Compare …") is no name
    metric: frozenset[str] = frozenset()  # terms that are left of it without names, numbers and frames
    framing: frozenset[str] = frozenset()  # words that only frame it; of Japanese pairs, those with hiragana

    def frames(self, word: str) -> bool:
        return word in self.framing


def asking_part(text: str) -> str:
    """Without what follows the last question mark, which says how to answer.

    >>> asking_part("What were the inventories? Answer in USD millions.")
    'What were the inventories?'
    """
    return text[: text.rfind("?") + 1] or text


@lru_cache
def question_words(text: str) -> QuestionWords:
    """What the question asks; all its words when it has stop words only."""
    found = words(text)
    content = [word for word in found if word not in QUERY_STOP_WORDS] or found
    sentence = read(text)
    opening = _OPENING.match(text)
    named = sentence.names - frozenset(terms(opening.group())) if opening else sentence.names
    named |= sentence.numbers
    metric = sentence.content - named - _FRAME_TERMS
    asked = tuple(dict.fromkeys(content))
    framing = frozenset(
        word for word in asked if word in FRAME or any(_HIRAGANA[0] <= letter <= _HIRAGANA[1] for letter in word)
    )
    return QuestionWords(asked, sentence, named, metric, framing)


# --- the sentences of one chunk --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ChunkSentences:
    """What was read of a chunk for one question; the matrices have a row per sentence and a column per word."""

    stems: tuple[str, ...]  # of the question's words

    sentences: Sequence[SentenceWords]
    held: Floats  # 1 where the sentence itself holds the word, part of it for a word alike
    credit: Floats  # `held` and what neighbours and headings add
    cosine: Floats  # NaN where no vectors are at hand, as for a neighbour that was joined to a hit
    is_table: bool

    @cached_property
    def proximity(self) -> Floats:
        """Only where two neighbouring words of the question stand in the sentence."""
        whole = self.held >= 1.0
        found = np.zeros(len(self.sentences), dtype=np.float32)
        for row in np.flatnonzero((whole[:, :-1] & whole[:, 1:]).any(axis=1)).tolist():
            found[row] = _proximity(self.sentences[row], self.stems)
        return found


class Evidence(dict[int, NDArray[np.int8]]):
    """The vectors of sentences by the id of their chunk, and what one question has read of them so far."""

    def __init__(self, vectors: Mapping[int, NDArray[np.int8]] = {}) -> None:
        super().__init__(vectors)
        self._read: dict[tuple[str, int], ChunkSentences] = {}

    def chunks(self, query: Query, chunks: Sequence[Chunk], documents: Mapping[str, Document]) -> list[ChunkSentences]:
        """The sentences of these chunks; those that are new are read in one pass."""
        text = query.fullest
        new = {chunk.id: chunk for chunk in chunks if (text, chunk.id) not in self._read}
        by_language: dict[str, list[Chunk]] = {}
        for chunk in new.values():
            document = documents.get(chunk.document_id)
            by_language.setdefault((document.language if document else "") or "en", []).append(chunk)
        for language, own in by_language.items():
            for chunk, found in zip(own, _take_apart(query, own, documents, self, language), strict=True):
                self._read[text, chunk.id] = found
        return [self._read[text, chunk.id] for chunk in chunks]


def _take_apart(
    query: Query,
    chunks: Sequence[Chunk],
    documents: Mapping[str, Document],
    vectors: Mapping[int, NDArray[np.int8]],
    language: str,
) -> list[ChunkSentences]:
    """Chunks of one language; every sentence and every heading is read in one pass."""
    stems = _stems(question_words(query.fullest).words, language)
    texts = [[chunk.text[sentence.start : sentence.end] for sentence in chunk.sentences] for chunk in chunks]
    above = [_above(chunk, documents.get(chunk.document_id)) for chunk in chunks]
    known = read_all([*above, *(text for own in texts for text in own)], language)
    credits = _credits(stems, known.values())
    cosines = _cosines(query, [vectors.get(chunk.id) for chunk in chunks], [len(own) for own in texts])
    every = _held([known[text] for own in (*texts, above) for text in own], credits, len(stems))
    found = []
    start, headings = 0, every[len(every) - len(above) :]
    for chunk, own, headed, cosine in zip(chunks, texts, headings, cosines, strict=True):
        sentences = [known[text] for text in own]
        own_words = every[start : start + len(own)]
        start += len(own)
        is_table = chunk.kind == "table"
        credit = _credit(own_words, headed, is_table=is_table)
        if is_table:  # the names of its columns belong to a row
            credit = np.maximum(credit, own_words[table_header(chunk)].max(axis=0, initial=0.0))
        found.append(ChunkSentences(stems, sentences, own_words, credit, cosine, is_table))
    return found


def _above(chunk: Chunk, document: Document | None) -> str:
    """What a sentence stands under: the title, the headings, and the name of the file, whose words have any sign
    between them: "2022 Q3 AAPL.pdf", "net_sales-2019.xlsx".
    """
    name = document.name.replace("_", " ") if document else ""
    return f"{chunk.context} {' '.join(chunk.heading_path)} {name}"


@lru_cache(maxsize=KEPT)
def _stems(found: tuple[str, ...], language: str) -> tuple[str, ...]:
    return tuple((terms(word, language) or [word])[0] for word in found)


def _credits(stems: Sequence[str], sentences: Iterable[SentenceWords]) -> dict[str, list[tuple[int, float]]]:
    """For each term that stands for words of the question: (column of the word, what it counts)."""
    found: dict[str, list[tuple[int, float]]] = {}
    by_head: dict[str, list[tuple[int, str]]] = {}
    for column, stem in enumerate(stems):
        for term in {stem, TWINS.get(stem, stem)}:
            found.setdefault(term, []).append((column, 1.0))
        if len(stem) >= SHARED_LETTERS:
            by_head.setdefault(stem[:SHARED_LETTERS], []).append((column, stem))
    every = frozenset().union(*[sentence.terms for sentence in sentences]) - STOP_TERMS
    for term in [term for term in every if term[:SHARED_LETTERS] in by_head]:
        for column, stem in by_head[term[:SHARED_LETTERS]]:
            if term != stem and are_alike(stem, term):
                found.setdefault(term, []).append((column, ALIKE_CREDIT))
    return found


def are_alike(stem: str, term: str) -> bool:
    """Do they begin alike? `intend` and `intent`, `justif` and `justifi`."""
    return term.startswith(stem[: max(SHARED_LETTERS, len(stem) - 2)]) and len(term) <= len(stem) + 4


def _held(sentences: Sequence[SentenceWords], credits: Mapping[str, Sequence[tuple[int, float]]], width: int) -> Floats:
    """How much of each word of the question each sentence holds."""
    found = np.zeros((len(sentences), width), dtype=np.float32)
    flat, counted = found.reshape(-1), credits.keys()
    for wanted in (ALIKE_CREDIT, 1.0):  # what is written last stays
        places = [
            row * width + column
            for row, sentence in enumerate(sentences)
            for term in counted & sentence.terms
            for column, credit in credits[term]
            if credit == wanted
        ]
        flat[places] = wanted
    return found


def _credit(floats: Floats, heading: Floats, *, is_table: bool) -> Floats:
    """What the sentence holds itself, and part of what stands around it; the row before is no context of a row."""
    found: Floats = np.maximum(floats, HEADING_CREDIT * heading)
    if len(floats) > 1 and not is_table:
        found[1:] = np.maximum(found[1:], BEFORE_CREDIT * floats[:-1])
        found[:-1] = np.maximum(found[:-1], AFTER_CREDIT * floats[1:])
    return found


def _cosines(query: Query, vectors: Sequence[NDArray[np.int8] | None], counts: Sequence[int]) -> list[Floats]:
    """Of all sentences at once, given back by chunk."""
    usable = [rows for rows, count in zip(vectors, counts, strict=True) if rows is not None and len(rows) == count]
    every: Floats = np.zeros(0, dtype=np.float32)
    if usable:
        every = np.vecdot(np.concatenate(usable).astype(np.float32), query.vector) / np.float32(UNIT)
    found: list[Floats] = []
    start = 0
    for rows, count in zip(vectors, counts, strict=True):
        if rows is not None and len(rows) == count:
            found.append(every[start : start + count])
            start += count
        else:
            found.append(np.full(count, np.nan, dtype=np.float32))
    return found


# --- all sentences of a list of passages -----------------------------------------------------------------------------


class SentenceTable:
    """The sentences of placed chunks, one row each. A column is computed when it is first asked for."""

    def __init__(
        self,
        query: Query,
        placed: Sequence[Placed],
        chunks: Sequence[ChunkSentences],
        weights: Floats,
        readings: Mapping[int, Reading] = {},
    ) -> None:
        self._query, self._placed, self._chunks = query, placed, chunks
        self._readings = [readings.get(chunk.id) for _, chunk, _ in placed]
        self.has_readings = any(self._readings)
        self._question = question_words(query.fullest)
        counts = [len(chunk.sentences) for chunk in chunks]
        self.weights = weights  # of the question's words, summing to 1
        self.chunk = np.repeat(np.arange(len(placed), dtype=np.int32), counts)  # place in `placed`
        self.sentences = [sentence for chunk in chunks for sentence in chunk.sentences]
        self.place = [place for count in counts for place in range(count)]  # of the sentence in its chunk
        width = len(weights)
        nothing = [np.zeros((0, width), dtype=np.float32)]
        self.credit = np.concatenate([chunk.credit for chunk in chunks] or nothing)
        self.cosine = _filled(np.concatenate([chunk.cosine for chunk in chunks] or [np.zeros(0, dtype=np.float32)]))
        self.coverage = (self.credit * weights).sum(axis=1)

    @cached_property
    def proximity(self) -> Floats:
        found: Floats = np.concatenate([chunk.proximity for chunk in self._chunks] or [np.zeros(0, dtype=np.float32)])
        return found

    @cached_property
    def passage(self) -> Floats:
        """The score of the passage over the best one."""
        best = max((score for *_, score in self._placed), default=0.0) or 1.0
        return np.array([score / best for *_, score in self._placed], dtype=np.float32)[self.chunk]

    @cached_property
    def passage_cosine(self) -> Floats:
        """Of the nearest sentence of the passage."""
        best = np.full(len(self._placed), -np.inf, dtype=np.float32)
        np.maximum.at(best, self.chunk, self.cosine)
        return best[self.chunk]

    @cached_property
    def _passage_credit(self) -> Floats:
        found: Floats = np.array([chunk.credit.max(axis=0, initial=0.0) for chunk in self._chunks], dtype=np.float32)
        return found.reshape(len(self._chunks), len(self.weights))

    @cached_property
    def passage_coverage(self) -> Floats:
        """The share of the question's words that the passage holds."""
        return (self._passage_credit @ self.weights)[self.chunk]

    @cached_property
    def unnamed(self) -> Floats:
        """The weight of the question's names and numbers that the passage does not hold.

        A sentence that speaks of another year does not hold the year that is asked for, even where its passage does.
        """
        question = self._question
        stems = [(terms(word) or [word])[0] for word in question.words]
        named = self.weights * np.array([stem in question.named for stem in stems], dtype=np.float32)
        found: Floats = ((self._passage_credit < MISSING) @ named)[self.chunk]
        asked = _years(question.named)
        if asked:
            weight = self.weights @ np.array([stem in asked for stem in stems], dtype=np.float32)
            own = [_years(sentence.numbers) for sentence in self.sentences]
            is_other = np.array([bool(years) and not years & asked for years in own], dtype=np.float32)
            found = np.maximum(found, weight * is_other * (1.0 - self.row))  # the years of a row stand in its header
        return found

    @cached_property
    def row(self) -> Floats:
        """1 for a row of a table."""
        return np.array([chunk.is_table for chunk in self._chunks], dtype=np.float32)[self.chunk]

    @cached_property
    def label(self) -> Floats:
        """For a row, where a number is asked for: how well its first cell names of what."""
        if self._query.number < NUMBER:
            return np.zeros(len(self.sentences), dtype=np.float32)
        pairs = zip(self.sentences, self.row, strict=True)
        return np.array(
            [is_row and label_match(self._question, sentence_words) for sentence_words, is_row in pairs],
            dtype=np.float32,
        )

    @cached_property
    def spans(self) -> list[FoundSpan | None]:
        """What of each sentence may be the answer; None where it was not read."""
        return [
            reading.spans[place] if (reading := self._readings[chunk]) is not None else None
            for chunk, place in zip(self.chunk.tolist(), self.place, strict=True)
        ]

    @property
    def stands(self) -> list[bool]:
        """Which of them may be quoted."""
        rows = zip(self.chunk.tolist(), self.place, self.spans, strict=True)
        return [may_stand(self._placed[chunk][1], place, is_read=span is not None) for chunk, place, span in rows]

    @cached_property
    def span(self) -> Floats:
        return np.array([span.score if span else 0.0 for span in self.spans], dtype=np.float32)

    @cached_property
    def unread(self) -> Floats:
        return np.array([span is None for span in self.spans], dtype=np.float32)

    @cached_property
    def answered(self) -> Floats:
        """Whether its passage says what is asked; 0 where that was not read."""
        found = np.array([reading.answered if reading else 0.0 for reading in self._readings], dtype=np.float32)
        return found[self.chunk] * (1.0 - self.unread)

    @cached_property
    def words(self) -> Floats:
        """How well it answers by its words and its vector alone."""
        return _weighted(self, SENTENCE)


def _years(numbers: Iterable[str]) -> frozenset[str]:
    return frozenset(number for number in numbers if len(number) == 4 and number.isdigit())


def tabulate(
    query: Query,
    placed: Sequence[Placed],
    vectors: Mapping[int, Any],
    idf: Mapping[str, float],
    documents: Mapping[str, Document] | None = None,
    readings: Mapping[int, Reading] = {},
) -> SentenceTable:
    """The features of every sentence; `documents` are those of the chunks, by id, and so are `readings`."""
    evidence = vectors if isinstance(vectors, Evidence) else Evidence(vectors)
    documents = documents or {}
    chunks = evidence.chunks(query, [chunk for _, chunk, _ in placed], documents)
    languages = {document.language or "en" for document in documents.values()}
    return SentenceTable(query, placed, chunks, _weights(question_words(query.fullest), languages, idf), readings)


def _weights(question: QuestionWords, languages: Iterable[str], idf: Mapping[str, float]) -> Floats:
    """The share of each word; one that is stemmed in several languages weighs as its most frequent stem."""
    unknown = max(idf.values(), default=1.0)
    by_language = [_stems(question.words, language) for language in sorted({"en", *languages})]
    found = []
    for place, word in enumerate(question.words):
        known = [idf[stems[place]] for stems in by_language if stems[place] in idf]
        found.append(min(known, default=unknown) * (FRAME_WEIGHT if question.frames(word) else 1.0))
    weights = np.array(found, dtype=np.float32)
    return weights / max(float(weights.sum()), 1e-6)


def label_match(question: QuestionWords, row: SentenceWords) -> float:
    """How well the first cell of a row names what is asked for, names and periods aside: F1 over their words.

    "What were the total assets of Kestrel in May?": 1 for "Total assets | 59,268", .8 for "Total current assets".
    """
    first = read(row.text.partition(CELLS)[0], row.language)
    label = frozenset(term for term in first.content if term.isalpha())
    return f1(label, question.metric)


def _proximity(sentence: SentenceWords, stems: Sequence[str]) -> float:
    """Share of neighbouring words of the question that stand near one another, in order, in the sentence."""
    near = 0.0
    wanted = frozenset(stems)
    places: dict[str, list[int]] = {}
    for place, stem in [(place, stem) for place, stem in enumerate(sentence.stems) if stem in wanted]:
        places.setdefault(stem, []).append(place)
    for one, other in pairwise(stems):
        first, second = places.get(one), places.get(other)
        if first and second:
            gap = min(abs(b - a) - (0.5 if b > a else 0.0) for a in first for b in second)
            near += 1.0 / max(1.0, gap)
    return near / (len(stems) - 1)


def _filled(cosine: Floats) -> Floats:
    """A sentence without a vector gets a cosine that a weaker one of the others has: its words must speak for it."""
    unknown = np.isnan(cosine)
    if not unknown.any():
        return cosine
    usual = 0.0 if unknown.all() else float(np.percentile(cosine[~unknown], 25))
    return np.where(unknown, np.float32(usual), cosine)


# --- the score -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A sentence and how well it answers; `sentence` is its place in the chunk."""

    passage: int
    chunk: Chunk
    sentence: int
    text: str
    score: float  # log-odds
    share: float = 0.0  # of all sentences' chances to be the one that answers
    unnamed: float = 0.0  # weight of the question's names and numbers that its passage does not hold
    support: float = 0.0  # how well its whole passage fits: its nearest sentence and the words that it holds
    span: FoundSpan | None = None  # what of it may be the answer; None where it was not read


def score_sentences(
    query: Query,
    placed: Sequence[Placed],
    vectors: Mapping[int, Any],
    idf: Mapping[str, float],
    documents: Mapping[str, Document] | None = None,
    readings: Mapping[int, Reading] = {},
) -> list[ScoredSentence]:
    """Every sentence with its scores, best first; `documents` are those of the chunks, by id."""
    table = tabulate(query, placed, vectors, idf, documents, readings)
    scores = score(table)
    shares = _shares(table, scores)
    support = table.passage_cosine + table.passage_coverage
    columns = [values.tolist() for values in (scores, shares, table.unnamed, support)]
    rows = zip(table.chunk.tolist(), table.place, table.sentences, *columns, table.spans, strict=True)
    found = [
        ScoredSentence(placed[place][0], placed[place][1], sentence, words.text, *features)
        for place, sentence, words, *features in rows
    ]
    return sorted(found, key=lambda scored: -scored.score)


def _shares(table: SentenceTable, scores: Floats) -> Floats:
    """Of each sentence that may be quoted, its share of the chances of these: a title takes nothing from them."""
    stands = np.array(table.stands, dtype=bool)
    if not stands.any():
        return np.zeros(len(scores), dtype=np.float32)
    chances = np.where(stands, np.exp(np.minimum(scores - scores[stands].max(), 0.0)), np.float32(0.0))
    found: Floats = (chances / max(float(chances.sum()), 1e-9)).astype(np.float32)
    return found


def score(table: SentenceTable) -> Floats:
    """One figure per sentence: the log-odds of being the one that answers, up to a constant of the question."""
    return _weighted(table, READ) if table.has_readings else table.words + np.float32(LABEL) * table.label


def _weighted(table: SentenceTable, weights: Mapping[str, float]) -> Floats:
    found: Floats = sum(
        (np.float32(weight) * getattr(table, name) for name, weight in weights.items()),
        np.zeros(len(table.cosine), dtype=np.float32),
    )
    return found


def answer_differently(sentences: Sequence[ScoredSentence]) -> bool:
    """Does one of them answer almost as well as the best one, and with something else?"""
    ranked = sorted(
        (sentence for sentence in sentences if sentence.span is not None), key=lambda sentence: -sentence.score
    )
    near = [sentence for sentence in ranked if sentence.score >= ranked[0].score - ALMOST]
    spans = [
        read(sentence.chunk.text[sentence.span.start : sentence.span.end])
        for sentence in near
        if sentence.span is not None
    ]
    return any(not _say_the_same(spans[0], other) for other in spans[1:])


def _say_the_same(one: SentenceWords, other: SentenceWords) -> bool:
    """Do two answers share a number, or a word where one of them has none? `2000`, `January 13, 2000`."""
    if one.numbers and other.numbers:
        return not one.numbers.isdisjoint(other.numbers)
    return not one.terms.isdisjoint(other.terms)


def sentence_text(chunk: Chunk, place: int) -> str:
    start, end, *_ = chunk.sentences[place]
    return chunk.text[start:end]


def may_stand(chunk: Chunk, sentence: int, *, is_read: bool) -> bool:
    """Does it say something? Not a title, the header of a table, a lead-in or a question."""
    kind, text = chunk.kind, sentence_text(chunk, sentence).strip()
    if kind == "text" and _lists_works(chunk.text):
        return False
    if kind == "table":
        return sentence >= table_header(chunk).stop or len(chunk.sentences) == 1
    skipped = SKIPPED_KINDS - {"credits"} if is_read else SKIPPED_KINDS  # they say who paid for it
    if kind in skipped or text.endswith((":", "?", "？")) or _is_title(text, chunk):
        return kind == "code"
    if heads_text(chunk, sentence):
        return False
    # A line without an end may be a title or a scrap: it needs a reader, or a value to give ("Opened in May 1998"). So
    # may one between lists: their items begin with a sign or a number.
    is_line = kind == "text" or (kind == "list" and text[:1].isalpha())
    return not is_line or text[-1:] in ENDS or is_read or bool(read(text).numbers)


def heads_text(chunk: Chunk, sentence: int) -> bool:
    """Is it a heading within its chunk, which small sections share? A short block that nothing ends, above running
    text. Below another such block, as authors below a title, it may be anything.
    """
    if chunk.kind != "text" or sentence + 1 >= len(chunk.sentences):
        return False
    text, below = sentence_text(chunk, sentence).strip(), sentence_text(chunk, sentence + 1).strip()
    start, end, *_ = chunk.sentences[sentence]
    before = chunk.text[chunk.sentences[sentence - 1].end : start] if sentence else "\n\n"
    is_block = "\n\n" in before and "\n\n" in chunk.text[end : chunk.sentences[sentence + 1].start]
    is_below_text = not sentence or sentence_text(chunk, sentence - 1).strip()[-1:] in ENDS.difference(":")
    is_short = text[-1:] not in {*ENDS, ","} and len(text.split()) <= LONGEST_HEADING
    return is_block and is_below_text and is_short and below[-1:] in ENDS and not _says_something(text)


@lru_cache(maxsize=KEPT)
def _lists_works(text: str) -> bool:
    """Is it a list of works that are referred to? Their titles have the words of a question, and say nothing of it."""
    return len(_WORK.findall(text)) >= FEWEST_WORKS and len(_WORK.findall(text)) * WORK_LENGTH > len(text)


def _says_something(text: str) -> bool:
    """A heading that ends with an amount does, for `TOTAL $821.14` is set large; so does one that names a day."""
    return bool(_AMOUNT.search(text) or period_of(text).days)


def _is_title(text: str, chunk: Chunk) -> bool:
    """Is it a heading or the document's title, also behind a label? `Subject: Your anchor`."""
    if _says_something(text):
        return False
    titles = {*chunk.heading_path, *(part.strip() for part in chunk.context.split("›"))}
    return text in titles or text.partition(": ")[2] in titles - {""}
