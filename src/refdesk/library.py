"""How is a library read? Over its store and its index: searching, neighbours, words, vectors. Nothing is written."""

from __future__ import annotations

import copy
import math
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from refdesk.cells import Column, StoredTable
from refdesk.errors import IndexDamaged
from refdesk.ports import Embedder, Index, Scored
from refdesk.records import LibraryState
from refdesk.settings import Settings
from refdesk.store_ports import ChunkStore, DocumentStore, TableStore, other_embedder
from refdesk.terms import (
    EXTENSION,
    QUERY_STOP_WORDS,
    SEPARATORS,
    Period,
    document_period,
    period_of,
    query_terms,
    repeated_terms,
    terms,
    words,
)
from refdesk.text import edit_distances
from refdesk.types import EVERYTHING, Access, Box, Chunk, Document, Hit, Method, Range, Scope, Span, boxes_between

MOST_LANGUAGES = 4  # a query is stemmed in each of the library's most frequent languages
SCOPES_KEPT = 64  # lists of documents remembered for one generation
SIMILAR_CHUNKS = 50  # chunks read for the words that resemble a misspelled one
ENDINGS, SHORTEST_STEM = (2, 3, 4), 4  # letters taken off a misspelled word, and left of it


@dataclass(slots=True)
class _Lists:
    """Documents by scope, of one generation; shared by a reader and its limited ones."""

    documents: tuple[int, dict[Scope, tuple[Document, ...]]] = field(default_factory=lambda: (-1, {}))


class LibraryReader:
    """One process's view of a library; safe to share between threads."""

    def __init__(
        self,
        documents: DocumentStore,
        chunks: ChunkStore,
        tables: TableStore,
        index: Index,
        embedder: Embedder,
        rebuild: Callable[[], object],
    ) -> None:
        self._documents = documents
        self._chunks = chunks
        self._tables = tables
        self._index = index
        self._embedder = embedder
        self._rebuild = rebuild
        self._healing = threading.Lock()
        self._lists = _Lists()
        self._seen = Scope()  # whose words are counted

    def limited(self, access: Access) -> LibraryReader:
        """The reader for who may read these collections alone: words that stand nowhere else count for nothing.

        A scope is asked for with every search; but how often a word stands in the library, and so whether it is taken
        for a misspelling, would tell of documents that the caller may not read.
        """
        if access is EVERYTHING:
            return self
        found = copy.copy(self)
        found._seen = Scope(access=tuple(sorted(set(access))))
        return found

    @property
    def languages(self) -> tuple[str, ...]:
        """Of its documents, the most frequent first."""
        return self._index.languages[:MOST_LANGUAGES]

    @property
    def chunk_count(self) -> int:
        return self._index.count(self._seen)

    def generation(self) -> int:
        """The version of the corpus: another number after every change."""
        return self.refresh().generation

    def search(
        self, text: str, vector: NDArray[np.float32], k: int, method: Method, scope: Scope, settings: Settings
    ) -> list[Hit]:
        """The k best chunks in scope, best first, with both true scores; a damaged index is healed on the way."""
        if method == "hybrid" and settings.fusion == "rrf":
            method = "rrf"
        weights = Weights(settings.dense_weight, settings.rrf_k, settings.candidates)
        depth: int = k
        hits: list[Hit] = []
        for _ in range(4):
            state = self.refresh()
            if method != "bm25" and state.space not in ("", self._embedder.name):
                raise other_embedder(state.space, self._embedder.name)
            wanted = repeated_terms(text, self.languages)
            found = search(self._index, wanted, vector, k=depth, method=method, scope=scope, weights=weights)
            hits = self._hits(found, state.generation)
            # A chunk that vanished between index and store was replaced or deleted this very moment: look again.
            if len(hits) >= min(k, len(found)):
                break
            depth += len(found) - len(hits)
        return hits[:k]

    def _hits(self, found: Sequence[Candidate], generation: int) -> list[Hit]:
        rows = self._chunks.hydrate([one.chunk_id for one in found], generation)
        return [
            Hit(*rows[one.chunk_id], lexical_score=one.lexical_score, cosine=one.cosine, score=one.score)
            for one in found
            if one.chunk_id in rows
        ]

    def documents(self, scope: Scope) -> tuple[Document, ...]:
        """The ready documents in scope; kept until the library changes."""
        generation = self.generation()
        if self._lists.documents[0] != generation:
            self._lists.documents = (generation, {})
        known = self._lists.documents[1]  # one dictionary per generation
        if scope not in known:
            if len(known) >= SCOPES_KEPT:
                known.clear()
            known[scope] = tuple(self._documents.documents(scope, "ready"))
        return known[scope]

    def neighbours(self, chunks: Sequence[Chunk], reach: int) -> dict[int, list[Chunk]]:
        """By the id of each of these, the chunks of its document around it, itself left out; all in one read."""
        steps = [step for step in range(-reach, reach + 1) if step]
        around = {chunk.id: [(chunk.document_id, chunk.sequence + step) for step in steps] for chunk in chunks}
        known = {(chunk.document_id, chunk.sequence): chunk for chunk in chunks}
        missing = dict.fromkeys(place for places in around.values() for place in places if place not in known)
        known |= self._chunks.chunks_at(missing, self.generation())
        return {chunk.id: [known[place] for place in around[chunk.id] if place in known] for chunk in chunks}

    def sentence_vectors(self, chunk_ids: Sequence[int]) -> dict[int, NDArray[np.int8]]:
        return self._chunks.sentence_vectors(self._embedder.name, chunk_ids, self._embedder.dimensions)

    def tables(self, chunk_ids: Sequence[int]) -> list[StoredTable]:
        rows = self._chunks.hydrate(chunk_ids, self.generation())
        ranges = [
            (
                chunk.document_id,
                min(span.origin for span in chunk.spans),
                max(_last_origin(span) for span in chunk.spans),
            )
            for chunk, _ in (rows[chunk_id] for chunk_id in chunk_ids if chunk_id in rows)
            if chunk.spans
        ]

        def first_met(table: StoredTable) -> int:
            return next(
                place
                for place, (document, start, end) in enumerate(ranges)
                if document == table.document_id and table.start < end and table.end > start
            )

        found = sorted(self._tables.between(ranges), key=lambda table: (first_met(table), table.number))
        return self._tables.with_cells(found)

    def document_tables(self, document_id: str) -> list[StoredTable]:
        return self._tables.with_cells(self._tables.of_document(document_id))

    def cell_boxes(self, table: StoredTable, ranges: Sequence[Range]) -> list[tuple[Box, ...]]:
        found: dict[Range, tuple[Box, ...]] = {}
        number = table.page
        for start, end in sorted(ranges):
            while (pages := self._documents.pages(table.document_id, number)) and start >= pages[0].page.end:
                number += 1  # the table goes on overleaf
            words = pages[0].words if pages else None
            found[start, end] = boxes_between(words, start, end) if words is not None else ()
        return [found[place] for place in ranges]

    def columns(self, table_id: int, numbers: Collection[int], *, are_placed: bool = False) -> dict[int, Column]:
        return self._tables.columns(table_id, numbers, are_placed=are_placed)

    def frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        return {term: self._index.frequency(term, self._seen) for term in terms}

    def similar_words(self, word: str, distance: int, scope: Scope) -> list[tuple[str, int]]:
        """Words of chunks in scope whose stem resembles this one's, or else what is left of it without its ending."""
        stems = query_terms(word, self.languages)
        # "definirion" has no ending that a stemmer knows, and lies far from the stem "definit"; "definir" does not.
        cut = [word[:-letters] for letters in ENDINGS if len(word) - letters >= SHORTEST_STEM]
        near = self._near(word, distance, stems, distance, scope) or self._near(word, distance, cut, 1, scope)
        return sorted(
            (one, max(self.frequencies(terms(one, language)).values(), default=0)) for one, language in near.items()
        )

    def _near(self, word: str, distance: int, stems: Sequence[str], reach: int, scope: Scope) -> dict[str, str]:
        """Words within the distance, with their language, from chunks that hold a term within `reach` of a stem."""
        generation = self.refresh().generation
        rows = self._chunks.hydrate(self._index.resembling(stems, reach, SIMILAR_CHUNKS, scope), generation)
        found: dict[str, str] = {}
        for chunk, document in rows.values():
            found.update(dict.fromkeys(words(chunk.text), document.language or "en"))
        likely = [one for one in found if abs(len(one) - len(word)) <= distance]
        edits = edit_distances(word, likely)
        return {one: found[one] for one, needed in zip(likely, edits, strict=True) if needed <= distance}

    def holding(self, stems: Sequence[str], scope: Scope) -> set[int]:
        """The ids of all chunks in scope that hold one of these terms."""
        counts = {stem: count for stem in stems if (count := self._index.frequency(stem, scope))}
        return {found for stem in counts for found, _ in self._index.lexical([stem], counts[stem], scope)}

    def chunks(self, ids: Sequence[int]) -> dict[int, tuple[Chunk, Document]]:
        return self._chunks.hydrate(ids, self.generation())

    # keeping it usable

    def refresh(self) -> LibraryState:
        try:
            return self._index.refresh()
        except IndexDamaged:
            self.heal()
            return self._index.refresh()

    def heal(self) -> None:
        """Rebuilds a search index that does not open; the store has everything it takes."""
        with self._healing:
            try:
                self._index.refresh()
            except IndexDamaged:
                # Only with the library's own embedder: nobody has asked for all vectors to be made anew.
                if (space := self._chunks.state().space) not in ("", self._embedder.name):
                    raise other_embedder(space, self._embedder.name) from None
                self._rebuild()


def _last_origin(span: Span) -> int:
    return span.origin + span.end - span.start


# --- which documents does the question name? Names, titles, years and quarters become a soft preference --------------

# Chunks from which on a document is found better for being named. A short one is named by each of its chunks, which
# carry its title; preferring it took .02 nDCG from hotpot500, whose documents are one chunk each.
LONG = 20
OTHER_PERIOD = 0.4  # of the strength remains when the period does not agree at all
COVERED = 0.6  # share of a name, by weight, that must stand in the question
ENOUGH = 0.3  # strength below which a document is not preferred
OLDER, OLDER_TOO = 0.6, 0.8  # when the question asks for the latest, and for the latest beside earlier ones
# Share of the best strength that a document of the same name needs beside it. Reports of other years share the room
# of the one that was asked for: .5 found the page of .65 of financebench's questions, .7 and .8 that of .69.
NEAR = 0.75
MOST_PREFERRED = 200  # more documents than this are not named, they are the subject of the library
MOST_DOCUMENTS = 200_000  # beyond it the index of names costs seconds after every change
LONGEST_JOIN = 3  # "Best Buy" is BESTBUY, "Johnson & Johnson Inc" is not looked for in four words
MOST_LOOKED_AT = 2_000  # names in one question
INDEXES_KEPT = 8

# Words of names that tell no document from another.
_GENERIC_WORDS = """
    inc corp corporation company companies co com ltd limited llc llp plc gmbh ag sa se nv bv group holding holdings
    international form report reports annual quarterly quarter filing filings document documents file copy final draft
    version scan page pages untitled new the and for pdf docx doc txt html earnings fy dated
"""
GENERIC = frozenset(_GENERIC_WORDS.split())
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TOKEN = re.compile(r"[^\W_]+(?:&[^\W_]+)?")
_LATEST = re.compile(
    r"\b(?:latest|newest|most (?:recent|current)|current (?:report|quarter|filing|year))\b", re.IGNORECASE
)
_BEFORE = re.compile(r"\b(?:previous|prior|preceding|earlier|past|over time|across)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Label:
    """What a document is called: the words of its name and of its title, and short forms of both."""

    names: tuple[tuple[str, ...], ...]
    aliases: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class NameIndex:
    """Every name of every document in a row, and in which of them each word stands.

    A document has one name or more; `owner` is the document's place, `whole` the weight of all words of the name.
    """

    documents: Sequence[Document]
    names: Sequence[tuple[str, ...]]
    owner: NDArray[np.int32]
    whole: NDArray[np.float32]
    holders: Mapping[str, NDArray[np.int32]]  # word -> places in `names`
    rarity: Mapping[str, float]  # of words and aliases: 1 in one document's name, 0 in every one's
    aliases: Mapping[str, Sequence[int]]  # short form -> places in `documents`


@dataclass(frozen=True, slots=True)
class QuestionNames:
    """The question as far as it may name documents."""

    tokens: frozenset[str]  # words, and up to three neighbours joined
    proper: frozenset[str]  # those written like a name
    aliases: frozenset[str]  # those written like a short form: JnJ, IBM
    period: Period
    older: float  # share of its strength that an older document keeps: "in the most recent report"


def match_names(question: str, documents: Sequence[Document], long: int = LONG) -> dict[str, float]:
    """Document id -> strength from 0 to 1, the strongest first; empty when the question names none.

    >>> match_names("3M's 2018 10-K: what was capital spending?", documents)
    {'b71f…': 1.0, '09aa…': 0.52}
    """
    if len(documents) < 2 or len(documents) > MOST_DOCUMENTS:
        return {}
    index = _kept_index(documents)
    asked = _asked(question)
    groups: dict[str, dict[int, float]] = {}  # documents that are named by the same name
    for place, (rarity, name) in _named(index, asked).items():
        groups.setdefault(name, {})[place] = _strength(index, place, rarity, asked, long)
    scored: dict[int, float] = {}
    for group in groups.values():
        strengths = _newest_first(index, group, asked.older)
        floor = max(ENOUGH, NEAR * max(strengths.values()))
        scored |= {place: strength for place, strength in strengths.items() if strength >= floor}
    if len(scored) > MOST_PREFERRED or len(scored) == len(documents):
        return {}
    return {documents[place].id: round(scored[place], 4) for place in sorted(scored, key=lambda p: (-scored[p], p))}


def _named(index: NameIndex, asked: QuestionNames) -> dict[int, tuple[float, str]]:
    """Place of a document -> rarity of its name and the name, for names of which most stands in the question.

    One word alone counts only when it is written like a name: "Amazon", "3M", not "summary".
    """
    matched = np.zeros(len(index.names), dtype=np.float32)
    rarest = np.zeros(len(index.names), dtype=np.float32)
    for token in asked.tokens & index.holders.keys():
        places = index.holders[token]
        matched[places] += index.rarity[token]
        rarest[places] = np.maximum(rarest[places], index.rarity[token])
    found: dict[int, tuple[float, str]] = {}
    likely = np.flatnonzero((rarest >= ENOUGH) & (matched >= COVERED * index.whole - 1e-6))
    for place in likely.tolist() if len(likely) <= MOST_LOOKED_AT else []:
        held = asked.tokens.intersection(index.names[place])
        if len(held) > 1 or held <= asked.proper:
            owner = int(index.owner[place])
            found[owner] = max((float(rarest[place]), " ".join(index.names[place])), found.get(owner, (0.0, "")))
    for alias in asked.aliases & index.aliases.keys():
        for owner in index.aliases[alias][:MOST_LOOKED_AT]:
            found[owner] = max((index.rarity[alias], alias), found.get(owner, (0.0, "")))
    return found


def _strength(index: NameIndex, place: int, rarity: float, asked: QuestionNames, long: int) -> float:
    """How rare the name is that the question holds, lowered for short documents and those of another period."""
    strength = rarity * min(1.0, index.documents[place].chunk_count / long)
    if not asked.period:
        return strength
    return strength * (OTHER_PERIOD + (1.0 - OTHER_PERIOD) * _period(index.documents[place]).agreement(asked.period))


def _newest_first(index: NameIndex, group: Mapping[int, float], older: float) -> dict[int, float]:
    """Of the documents of one name all but the newest are lowered to this share."""
    if older == 1.0:
        return dict(group)
    recency = {place: _recency(index.documents[place]) for place in group}
    newest = max(recency.values())
    return {place: strength * (1.0 if recency[place] == newest else older) for place, strength in group.items()}


# --- the question ----------------------------------------------------------------------------------------------------


def _asked(question: str) -> QuestionNames:
    found = [match.group() for match in _TOKEN.finditer(re.sub(r"['’]s\b", "", question))]
    lowered = [word.lower() for word in found]
    shouted_or_small = question.islower() or question.isupper()  # then capitals say nothing
    tokens: set[str] = set()
    proper: set[str] = set()
    for start, word in enumerate(lowered):
        for stop in range(start + 1, min(start + LONGEST_JOIN, len(found)) + 1):
            joined = "".join(lowered[start:stop])
            tokens.add(joined)
            if stop > start + 1 or (shouted_or_small and word not in QUERY_STOP_WORDS) or _is_proper(found, start):
                proper.add(joined)
    aliases = {word.lower() for word in found if sum(letter.isupper() for letter in word) >= 2}
    period, older = period_of(question), 1.0
    if _LATEST.search(question) and not period.years:
        older = OLDER_TOO if _BEFORE.search(question) else OLDER
    return QuestionNames(frozenset(tokens), frozenset(proper), frozenset(aliases), period, older)


def _is_proper(found: Sequence[str], place: int) -> bool:
    """Capitals inside a sentence, or a digit among letters; the first word is capital anyway."""
    word = found[place]
    if any(letter.isdigit() for letter in word):
        return not word.isdigit()
    return (word[0].isupper() and (place > 0 or word.lower() not in QUERY_STOP_WORDS)) or word[1:] != word[1:].lower()


# --- the documents ---------------------------------------------------------------------------------------------------

_indexes: dict[int, NameIndex] = {}  # by the identity of the documents, which the library keeps for one generation
_lock = threading.Lock()


def _kept_index(documents: Sequence[Document]) -> NameIndex:
    """The index of these very documents; holding them keeps their identity from being used again."""
    with _lock:
        index = _indexes.get(id(documents))
        if index is None or index.documents is not documents:
            index = name_index(documents)
            while len(_indexes) >= INDEXES_KEPT:
                _indexes.pop(next(iter(_indexes)))
            _indexes[id(documents)] = index
        return index


def name_index(documents: Sequence[Document]) -> NameIndex:
    labels = [_label(one.name, one.title) for one in documents]
    labels = _with_siblings(labels)
    rows = [(place, name) for place, label in enumerate(labels) for name in label.names]
    holders: dict[str, list[int]] = {}
    owners: dict[str, set[int]] = {}
    aliases: dict[str, list[int]] = {}
    for row, (place, name) in enumerate(rows):
        for word in set(name):
            holders.setdefault(word, []).append(row)
            owners.setdefault(word, set()).add(place)
    for place, label in enumerate(labels):
        for alias in label.aliases:
            aliases.setdefault(alias, []).append(place)
    rarity = {word: _rarity(len(own), len(documents)) for word, own in (*aliases.items(), *owners.items())}
    return NameIndex(
        documents,
        names=[name for _, name in rows],
        owner=np.array([place for place, _ in rows], dtype=np.int32),
        whole=np.array([sum(rarity[word] for word in set(name)) for _, name in rows], dtype=np.float32),
        holders={word: np.array(own, dtype=np.int32) for word, own in holders.items()},
        rarity=rarity,
        aliases=aliases,
    )


def _rarity(holding: int, total: int) -> float:
    """1 for a word in one document's name, 0 for one in every name.

    The square root lifts names that many documents share ("Boeing" in 40 of 400 filings) above the floor.
    """
    return math.sqrt(math.log(total / holding) / math.log(total))


def _with_siblings(labels: Sequence[Label]) -> list[Label]:
    """Files of one name lend each other their titles: `2023 Q1 INTC` is Intel's, because `2023 Q2 INTC` says so."""
    lent: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
    for label in labels:
        for title in label.names[1:]:
            counts = lent.setdefault(label.names[0], {})
            counts[title] = counts.get(title, 0) + 1
    found = []
    for label in labels:
        counts = lent.get(label.names[0], {}) if label.names else {}
        own = (*label.names, *(title for title, count in counts.items() if count >= 2 and title not in label.names))
        found.append(label if len(own) == len(label.names) else replace(label, names=own))
    return found


@lru_cache(maxsize=65_536)  # a changed library has mostly the documents it had before
def _label(name: str, title: str) -> Label:
    names = tuple(dict.fromkeys(found for found in (_name_words(EXTENSION.sub("", name)), _name_words(title)) if found))
    return Label(names, frozenset(alias for found in names for alias in _short_forms(found)))


def _period(document: Document) -> Period:
    """Of the name; where it tells none, of the title, the subject, and last the date of the file."""
    return document_period(document.name, document.title, document.metadata.get("subject", ""), document.date)


def _recency(document: Document) -> tuple[int, int, str]:
    """Year, quarter, date: what is newer is greater."""
    period = _period(document)
    return max(period.years, default=0), max(period.quarters, default=0), document.date


def _name_words(text: str) -> tuple[str, ...]:
    """`ActivisionBlizzard_2019_10K` -> ('activision', 'blizzard'): without years, forms and words all names have."""
    spaced = _CAMEL.sub(" ", SEPARATORS.sub(" ", text))
    found = [word for word in words(spaced) if word not in GENERIC and word not in QUERY_STOP_WORDS]
    return tuple(word for word in found if not _is_period(word) and len(word) > 1)


@lru_cache(maxsize=4096)
def _is_period(word: str) -> bool:
    return word.isdigit() or bool(period_of(word))


def _short_forms(name: Sequence[str]) -> Iterable[str]:
    """`('johnson', 'johnson')` -> 'jj' and 'jnj'."""
    if 2 <= len(name) <= 5:
        yield "".join(word[0] for word in name)
        yield "n".join(word[0] for word in name)


# How are the scores of two engines joined into one ranking?


def convex(lexical: Mapping[int, float], cosine: Mapping[int, float], dense_weight: float) -> list[Scored]:
    """`a · (cos + 1) / (max cos + 1) + (1 − a) · bm25 / max bm25` for every member of both, best first.

    Both mappings hold the true score of every candidate; a chunk that shares no term with the query has no BM25 score.

    >>> convex({1: 4.0}, {1: 0.2, 2: 0.8}, 0.5)
    [(1, 0.833...), (2, 0.5)]
    """
    best_lexical = max(lexical.values(), default=0.0) or 1.0
    best_cosine = max(cosine.values(), default=0.0) + 1.0 or 1.0
    fused = [
        (
            chunk_id,
            dense_weight * (cosine.get(chunk_id, -1.0) + 1.0) / best_cosine
            + (1.0 - dense_weight) * lexical.get(chunk_id, 0.0) / best_lexical,
        )
        for chunk_id in {**cosine, **lexical}
    ]
    fused.sort(key=_best_first)
    return fused


def reciprocal_rank(lists: Sequence[Sequence[int]], k: int) -> list[Scored]:
    """`Σ 1 / (k + rank)` over ranked lists of chunk ids, best first.

    >>> reciprocal_rank([[7, 8], [8]], k=30)
    [(8, 0.0635...), (7, 0.0322...)]
    """
    fused: dict[int, float] = {}
    for ranked in lists:
        for rank, chunk_id in enumerate(ranked, 1):
            fused[chunk_id] = fused.get(chunk_id, 0.0) + 1.0 / (k + rank)
    return sorted(fused.items(), key=_best_first)


def _best_first(scored: Scored) -> tuple[float, int]:
    return -scored[1], scored[0]


@dataclass(frozen=True, slots=True)
class Weights:
    """How the engines are joined; from the settings."""

    dense_weight: float
    rrf_k: int
    candidates: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that was found, with its true scores and the score it is ranked by."""

    chunk_id: int
    lexical_score: float
    cosine: float
    score: float


def search(
    index: Index,
    terms: Sequence[str],
    vector: NDArray[np.float32],
    *,
    k: int,
    method: Method,
    scope: Scope,
    weights: Weights,
) -> list[Candidate]:
    """The k best candidates, each with both true scores whatever the method."""
    depth = max(k, weights.candidates) if method in ("hybrid", "rrf") else k
    by_terms = index.lexical(terms, depth, scope) if method != "dense" else []
    by_vector = index.dense(vector, depth, scope) if method != "bm25" else []
    if method == "rrf":
        ranked = reciprocal_rank([[i for i, _ in by_terms], [i for i, _ in by_vector]], weights.rrf_k)[:k]
        wanted = [chunk_id for chunk_id, _ in ranked]
    else:
        ranked, wanted = [], [chunk_id for chunk_id, _ in (*by_terms, *by_vector)]
    lexical, cosine = dict(by_terms), dict(by_vector)
    lexical |= index.lexical_scores(terms, [i for i in wanted if i not in lexical])
    cosine |= index.cosines(vector, [i for i in wanted if i not in cosine])
    if method == "hybrid":
        ranked = convex(lexical, cosine, weights.dense_weight)[:k]
    elif method == "bm25":
        ranked = by_terms
    elif method == "dense":
        ranked = by_vector
    return [Candidate(i, lexical.get(i, 0.0), cosine.get(i, 0.0), score) for i, score in ranked]
