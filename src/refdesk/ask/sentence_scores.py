"""How well does each sentence answer the question? Scores from stored vectors and words; no model is run. Pure.

A sentence is weighed by the cosine of its stored vector, by how much of the question's words it holds (weighted by
their rarity, with part of the credit for words in its heading, title and neighbouring sentences), by whether it holds a
thing of the kind asked for, and by its passage. The weights are learned (calibration.py): the score is a log-odds, so
that two scores tell how much likelier one sentence is than the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query
from refdesk.ask.calibration import SENTENCE
from refdesk.ask.sentence_features import CELLS, HEAD, Reading, Sought, holds, measured, read, sought, table_header
from refdesk.terms import QUERY_STOP_WORDS, terms, words
from refdesk.types import Chunk, Document

Floats = NDArray[np.float32]
Placed = tuple[int, Chunk, float]  # (passage number, chunk, score of the passage)

# Words that frame a question and are rarely repeated by what answers it ("what kind of", "how many", "the name of").
_FRAME = """
    many much name named names kind type sort year number percent percentage called call known term tell give say list
    describe explain example often long far does happen mean main may might must made make makes find found use used
    would could please um uh er sorry wait actually rather summarise summarize summary overview compare comparison
    difference differences differ
"""
FRAME = frozenset(_FRAME.split())
FRAME_WEIGHT = 0.35
BEFORE_CREDIT, AFTER_CREDIT = 0.45, 0.25  # of a word's weight when only the sentence before, or after, holds it
HEADING_CREDIT = 0.5  # when only the heading path, the document's title or the header of the table does
ENDS = frozenset(".!?…:;\"'”’»)]。！？」』")
ALIKE_CREDIT = 0.7  # when the sentence holds a word with the same beginning: Gaul, Gaulish


_SMALL = "one two three four five six seven eight nine ten eleven twelve"
_DIGITS = {term: str(number) for number, term in enumerate(terms(_SMALL), 1)}
TWINS = _DIGITS | {number: term for term, number in _DIGITS.items()}  # "five points" and "5 points"

# What a passage is ranked and judged by; a plateau for squad_dev11 and squadshift_reddit (docs/log.md).
COSINE, COVERAGE, PROXIMITY = 0.5, 0.4, 0.1
# Rows of tables beside sentences. Chosen on the even contexts of TAT-QA: the answer is then among the quotes for .944
# of the questions to table and text and .779 of those to the table; learned with the others it is .889 and .765.
ROWS = {"row": -2.5, "row_fit": 3.0, "label": 2.0}
NUMBER = 0.7  # chance from which a question is taken to ask for a number
MISSING = 0.3  # a word that less of than this is held is missing


_SEPARATORS = re.compile(r"[_\W]+")
_OPENING = re.compile(r"[A-Z][a-z]+(?=\s+(?:[^A-Z]|I\b))")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence and how well it answers; `sentence` is its place in the chunk."""

    passage: int
    chunk: Chunk
    sentence: int
    text: str
    score: float  # log-odds
    share: float = 0.0  # of all sentences' chances to be the one that answers
    fit: float = 0.0  # holds a thing of the kind asked for
    unnamed: float = 0.0  # weight of the question's names and numbers that its passage does not hold
    support: float = 0.0  # how well its whole passage fits: its nearest sentence and the words that it holds


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Every sentence of the placed chunks, one row each; `held` has a column per word of the question."""

    chunk: NDArray[np.int32]  # place in `placed`
    sentence: NDArray[np.int32]
    readings: tuple[Reading, ...]
    cosine: Floats
    held: Floats  # 1 where the sentence itself holds the word, part of it for a word alike
    credit: Floats  # `held` and what neighbours and headings add
    weights: Floats  # of the question's words, summing to 1
    coverage: Floats
    proximity: Floats
    fit: Floats  # holds a thing of the kind asked for
    novelty: Floats  # content beyond the question's own words
    passage: Floats  # score of the passage over the best one
    passage_cosine: Floats  # of the nearest sentence of the passage
    passage_coverage: Floats  # the share of the question's words that the passage holds
    unnamed: Floats  # the weight of the question's names and numbers that the passage does not hold
    row: Floats  # 1 for a row of a table
    label: Floats  # for a row, where a number is asked for: how well its first cell names of what
    row_fit: Floats  # `fit` for a row: its numbers are many, and few words of the question stand beside them


@dataclass(frozen=True, slots=True)
class Asked:
    """The question, taken apart once: its content words, what it seeks, and its own reading."""

    words: tuple[str, ...]
    seeks: Sought
    reading: Reading
    named: frozenset[str]  # terms of its names and numbers; a first word alone ("Compare …") is no name
    measured: frozenset[str] = frozenset()  # "how heavy": an adjective that a measure answers
    metric: frozenset[str] = frozenset()  # terms that are left of it without names, numbers and frames

    def frames(self, word: str) -> bool:
        """Does the word only frame the question? Of Japanese pairs, those with a grammatical letter (hiragana)."""
        return word in FRAME or word in self.measured or any("\u3041" <= letter <= "\u309f" for letter in word)


def idf(frequencies: Mapping[str, int], count: int) -> dict[str, float]:
    """The weight of each term by in how many of the library's chunks it stands (that of BM25).

    >>> idf({"anchor": 1, "the": 9}, 10)
    {'anchor': 1.99..., 'the': 0.14...}
    """
    return {
        term: math.log(1.0 + (count - min(found, count) + 0.5) / (found + 0.5)) for term, found in frequencies.items()
    }


@lru_cache(maxsize=256)
def asked(text: str) -> Asked:
    """What the question asks; all its words when it has stop words only."""
    found = words(text)
    content = [word for word in found if word not in QUERY_STOP_WORDS] or found
    reading = read(text)
    opening = _OPENING.match(text)
    named = reading.names - frozenset(terms(opening.group())) if opening else reading.names
    named |= reading.numbers
    frames = frozenset(terms(" ".join(FRAME | measured(text))))
    metric = reading.content - named - frames - frozenset(terms(" ".join(QUERY_STOP_WORDS)))
    return Asked(tuple(dict.fromkeys(content)), sought(text), reading, named, measured(text), metric)


def weigh(
    query: Query,
    placed: Sequence[Placed],
    sentence_vectors: Mapping[int, Any],
    idf: Mapping[str, float],
    documents: Mapping[str, Document] | None = None,
) -> list[Evidence]:
    """Every sentence with its scores, best first; `documents` are those of the chunks, by id."""
    table = tabulate(query, placed, sentence_vectors, idf, documents)
    scores = score(table)
    shares = np.exp(scores - scores.max()) if len(scores) else scores
    shares = shares / max(float(shares.sum()), 1e-9)
    support = table.passage_cosine + table.passage_coverage
    found = []
    for row in sorted(range(len(scores)), key=lambda row: (-scores[row], row)):
        number, chunk, _ = placed[table.chunk[row]]
        place = int(table.sentence[row])
        found.append(
            Evidence(
                passage=number,
                chunk=chunk,
                sentence=place,
                text=sentence_text(chunk, place),
                score=float(scores[row]),
                share=float(shares[row]),
                fit=float(table.fit[row]),
                unnamed=float(table.unnamed[row]),
                support=float(support[row]),
            )
        )
    return found


def sentence_text(chunk: Chunk, place: int) -> str:
    start, end = chunk.sentences[place][:2]
    return chunk.text[start:end]


def tabulate(
    query: Query,
    placed: Sequence[Placed],
    sentence_vectors: Mapping[int, Any],
    idf: Mapping[str, float],
    documents: Mapping[str, Document] | None = None,
) -> Table:
    """The features of every sentence."""
    question = asked(query.fullest)
    documents = documents or {}
    languages = {document_id: document.language or "en" for document_id, document in documents.items()}
    weights = _weights(question, languages.values(), idf)
    named = weights * np.array([(terms(word) or [word])[0] in question.named for word in question.words], np.float32)
    chunk_of: list[int] = []
    sentence_of: list[int] = []
    readings: list[Reading] = []
    held_rows, credit_rows, cosines = [], [], []
    proximity: list[float] = []
    of_passage: list[tuple[float, float]] = []
    for number, (_, chunk, _) in enumerate(placed):
        if not chunk.sentences:
            continue
        language = languages.get(chunk.document_id, "en")
        stems = _stems(question.words, language)
        own = [read(chunk.text[one.start : one.end], language) for one in chunk.sentences]
        held = np.array([[_holds(one, stem) for stem in stems] for one in own], dtype=np.float32)
        headed = read(_above(chunk, documents.get(chunk.document_id)), language)
        heading = np.array([_holds(headed, stem) for stem in stems], dtype=np.float32)
        is_table = chunk.kind == "table"
        credit = _credit(held, heading, is_table=is_table)
        if is_table:  # the names of its columns belong to a row
            credit = np.maximum(credit, held[table_header(chunk)].max(axis=0, initial=0.0))
        whole = credit.max(axis=0, initial=0.0)
        of_passage += [(float(whole @ weights), float(named @ (whole < MISSING)))] * len(own)
        credit_rows.append(credit)
        held_rows.append(held)
        chunk_of += [number] * len(own)
        sentence_of += range(len(own))
        readings += own
        proximity += [_proximity(one, stems) for one in own]
        cosines.append(_cosines(query, sentence_vectors.get(chunk.id), len(own)))
    width = len(weights)
    held = np.concatenate(held_rows) if held_rows else np.zeros((0, width), dtype=np.float32)
    credit = np.concatenate(credit_rows) if credit_rows else np.zeros((0, width), dtype=np.float32)
    cosine = _filled(np.concatenate(cosines)) if cosines else np.zeros(0, dtype=np.float32)
    best = max((one[2] for one in placed), default=0.0) or 1.0
    passages = np.array(of_passage, dtype=np.float32).reshape(-1, 2)
    is_row = np.array([placed[number][1].kind == "table" for number in chunk_of], dtype=np.float32)
    pairs = list(zip(readings, is_row, strict=True))
    fit = np.array([_fit(query, question, one, is_row=bool(row)) for one, row in pairs], dtype=np.float32)
    label = np.array([row and label_match(question, one) for one, row in pairs], dtype=np.float32)
    return Table(
        chunk=np.array(chunk_of, dtype=np.int32),
        sentence=np.array(sentence_of, dtype=np.int32),
        readings=tuple(readings),
        cosine=cosine,
        held=held,
        credit=credit,
        weights=weights,
        coverage=(credit * weights).sum(axis=1),
        proximity=np.array(proximity, dtype=np.float32),
        fit=fit,
        novelty=np.array([_novelty(one, question.reading) for one in readings], dtype=np.float32),
        passage=np.array([placed[number][2] / best for number in chunk_of], dtype=np.float32),
        passage_cosine=_best_of(cosine, np.array(chunk_of, dtype=np.int32)),
        passage_coverage=passages[:, 0],
        unnamed=passages[:, 1],
        row=is_row,
        label=label * (query.number >= NUMBER),
        row_fit=is_row * fit,
    )


def score(table: Table) -> Floats:
    """One figure per sentence: the log-odds of being the one that answers, up to a constant of the question."""
    found: Floats = sum(
        (np.float32(weight) * getattr(table, name) for name, weight in (SENTENCE | ROWS).items()),
        np.zeros(len(table.cosine), dtype=np.float32),
    )
    return found


def _above(chunk: Chunk, document: Document | None) -> str:
    """What a sentence stands under: the title, the headings, and the name of the file, whose words have any sign
    between them: "2022 Q3 AAPL.pdf", "net_sales-2019.xlsx".
    """
    name = _SEPARATORS.sub(" ", document.name) if document else ""
    return f"{chunk.context} {' '.join(chunk.heading_path)} {name}"


def label_match(question: Asked, row: Reading) -> float:
    """How well the first cell of a row names what is asked for, names and periods aside: F1 over their words.

    "What were the total assets of Kestrel in May?": 1 for "Total assets | 59,268", .8 for "Total current assets".
    """
    label = frozenset(one for one in read(row.text.partition(CELLS)[0], row.language).content if one.isalpha())
    return 2 * len(label & question.metric) / max(1, len(label) + len(question.metric))


def _fit(query: Query, question: Asked, reading: Reading, *, is_row: bool) -> float:
    """How well the sentence holds a thing of the kind asked for; of the kind that is likely, where no word names it.

    The unit of a row's numbers stands in the head of its table or above it.
    """
    is_number = query.number >= NUMBER and (is_row or not question.seeks)
    return holds("number" if is_number else question.seeks, reading, question.reading)


def _best_of(values: Floats, group: NDArray[np.int32]) -> Floats:
    """The highest value of each one's group."""
    best = np.full(int(group.max()) + 1 if len(group) else 0, -np.inf, dtype=np.float32)
    np.maximum.at(best, group, values)
    return best[group] if len(group) else values


def _weights(question: Asked, languages: Iterable[str], idf: Mapping[str, float]) -> Floats:
    """The share of each word; one that is stemmed in several languages weighs as its most frequent stem."""
    unknown = max(idf.values(), default=1.0)
    by_language = [_stems(question.words, language) for language in sorted({"en", *languages})]
    found = []
    for place, word in enumerate(question.words):
        known = [idf[stems[place]] for stems in by_language if stems[place] in idf]
        found.append(min(known, default=unknown) * (FRAME_WEIGHT if question.frames(word) else 1.0))
    weights = np.array(found, dtype=np.float32)
    return weights / max(float(weights.sum()), 1e-6)


@lru_cache(maxsize=512)
def _stems(found: tuple[str, ...], language: str) -> tuple[str, ...]:
    return tuple((terms(word, language) or [word])[0] for word in found)


def _holds(reading: Reading, stem: str) -> float:
    if stem in reading.places or TWINS.get(stem) in reading.places:
        return 1.0
    return ALIKE_CREDIT if stem[:HEAD] in reading.heads and _alike(stem, reading) else 0.0


def _alike(stem: str, reading: Reading) -> bool:
    """Does the sentence hold a word with the same beginning? `intend` and `intent`, `justif` and `justifi`."""
    head = stem[: max(HEAD, len(stem) - 2)]
    return len(stem) >= HEAD and any(term.startswith(head) and len(term) <= len(stem) + 4 for term in reading.content)


def _credit(held: Floats, heading: Floats, *, is_table: bool) -> Floats:
    """What the sentence holds itself, and part of what stands around it; the row before is no context of a row."""
    found: Floats = np.maximum(held, HEADING_CREDIT * heading)
    if len(held) > 1 and not is_table:
        found[1:] = np.maximum(found[1:], BEFORE_CREDIT * held[:-1])
        found[:-1] = np.maximum(found[:-1], AFTER_CREDIT * held[1:])
    return found


def _proximity(reading: Reading, stems: Sequence[str]) -> float:
    """Share of neighbouring words of the question that stand near one another, in order, in the sentence."""
    if len(stems) < 2:
        return 0.0
    near = 0.0
    for one, other in pairwise(stems):
        first, second = reading.places.get(one), reading.places.get(other)
        if first and second:
            gap = min(abs(b - a) - (0.5 if b > a else 0.0) for a in first for b in second)
            near += 1.0 / max(1.0, gap)
    return near / (len(stems) - 1)


def _novelty(reading: Reading, named: Reading) -> float:
    fresh = len(reading.content - named.content)
    return min(1.0, fresh / 4.0)


def _cosines(query: Query, vectors: Any, count: int) -> Floats:
    """NaN where no vectors are at hand, as for a neighbour that was joined to a hit."""
    if vectors is None or len(vectors) != count:
        return np.full(count, np.nan, dtype=np.float32)
    found: Floats = np.vecdot(vectors.astype(np.float32), query.vector) / 127.0
    return found


def _filled(cosine: Floats) -> Floats:
    """A sentence without a vector gets a cosine that a weaker one of the others has: its words must speak for it."""
    unknown = np.isnan(cosine)
    if not unknown.any():
        return cosine
    usual = 0.0 if unknown.all() else float(np.percentile(cosine[~unknown], 25))
    return np.where(unknown, np.float32(usual), cosine)
