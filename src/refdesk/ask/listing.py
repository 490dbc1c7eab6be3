"""Which lists stand in a passage, which one answers a question, and what does a whole document say in a few sentences?

"Descaling", "It takes about 25 minutes.", "1. Switch it off.", "2. Empty the tank." -> one list of two items that is
introduced by "It takes about 25 minutes." under "Descaling".

A chunk keeps the lines and blank lines of its document, and an item begins a line with a bullet, a number or a letter.
A summary is the key sentence of each section, in the document's order: one that lies near the middle of what its
section says and of what the document says. What a document says of itself is left out: its cover, who wrote it, its
contents and what it refers to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Context, Passage, Query, Retrieved
from refdesk.ask.classify import without_frame
from refdesk.ask.sentences import ENDS, FRAME, ScoredSentence, SentenceTable, sentence_text, tabulate
from refdesk.ask.wording import CELLS, Wanted, read, table_header
from refdesk.document_names import match_names
from refdesk.library import LibraryReader
from refdesk.terms import query_terms, terms
from refdesk.text import word_set
from refdesk.types import Chunk, Document, Hit, Reading, Scope

FEWEST = 2  # items
LONGEST_HEADING = 12  # words of a block that is a heading: nothing ends it
MOST_BETWEEN = 3  # sentences of a block that stands between two numbered items: the command that step 2 speaks of

MOST_REPEATED = 3  # sentences at the beginning of a chunk that end the one before

_BULLET = re.compile(r"[-*+•‣◦▪▫■□●○–—·➢✓✔➔]\s+")
# A number without a point is one of an item only where the next item has the next number.
_NUMBER = re.compile(r"(?:[Ss]tep\s+)?\(?(?P<number>\d{1,2})(?P<point>[.):]|(?=\s))\s*(?=\S)")
_LETTER = re.compile(r"\(?(?P<letter>[a-z])[.)]\s+")
_ENDS = ".!?…;。！？"


class Place(NamedTuple):
    """A sentence of a chunk; `chunk` is its place among the chunks that were looked at."""

    chunk: int
    sentence: int


class Mark(NamedTuple):
    """What an item begins with: its sort, and its number where it has one."""

    sort: str  # "bullet", "number", "letter"
    number: int = 0
    is_bare: bool = False  # a number without a point


@dataclass(frozen=True, slots=True)
class Listing:
    """One list: the sentences of each item, the heading that it stands under, and the sentence that introduces it."""

    items: tuple[tuple[Place, ...], ...]
    heading: Place | None
    lead: Place | None
    is_numbered: bool
    first: int = 1  # number of its first item


class _ListLine(NamedTuple):
    place: Place
    text: str
    begins_line: bool
    begins_block: bool


def listings(chunks: Sequence[Chunk]) -> list[Listing]:
    """The lists of neighbouring chunks of one document, in their order."""
    lines = list(_lines(chunks))
    found: list[Listing] = []
    heading: Place | None = None
    lead: Place | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.begins_line and (mark := mark_of(line.text)) is not None:
            items, stop = _items(lines, at, mark)
            if len(items) >= FEWEST:
                found.append(Listing(tuple(items), heading, lead, mark.sort != "bullet", max(1, mark.number)))
                at, lead = stop, None
                continue
        if _is_heading(lines, at):
            heading, lead = line.place, None
        else:
            lead = line.place
        at += 1
    return found


def mark_of(text: str) -> Mark | None:
    """`2. Empty the tank.` -> a number, 2."""
    if _BULLET.match(text):
        return Mark("bullet")
    if found := _NUMBER.match(text):
        return Mark("number", int(found["number"]), is_bare=not found["point"])
    if found := _LETTER.match(text):
        return Mark("letter", ord(found["letter"]) - ord("a") + 1)
    return None


def _lines(chunks: Sequence[Chunk]) -> Iterator[_ListLine]:
    """Every sentence and how it is set off; what a chunk repeats of the one before is left out."""
    before: list[str] = []
    for number, chunk in enumerate(chunks):
        own = [chunk.text[start:end].strip() for start, end, *_ in chunk.sentences]
        repeated = next((size for size in range(MOST_REPEATED, 0, -1) if own[:size] == before[-size:]), 0)
        for place in range(repeated, len(own)):
            start = chunk.sentences[place].start
            between = chunk.text[chunk.sentences[place - 1].end : start] if place else "\n\n"
            begins_line = "\n" in between or chunk.kind == "list"
            yield _ListLine(Place(number, place), own[place], begins_line, between.count("\n") > 1)
        before = own


def _is_heading(lines: Sequence[_ListLine], at: int) -> bool:
    """A short block of its own that nothing ends, with another block below it."""
    line = lines[at]
    is_alone = line.begins_block and at + 1 < len(lines) and lines[at + 1].begins_block
    return is_alone and line.text[-1:] not in f"{_ENDS}:," and len(line.text.split()) <= LONGEST_HEADING


def _items(lines: Sequence[_ListLine], at: int, first: Mark) -> tuple[list[tuple[Place, ...]], int]:
    """The items from this line on, and where they end."""
    items: list[list[Place]] = []
    number = first.number
    while at < len(lines):
        line = lines[at]
        mark = mark_of(line.text) if line.begins_line else None
        if mark is not None and _follows(mark, first, number + len(items)):
            items.append([line.place])
        elif not line.begins_block and items and (mark is None or mark.sort != first.sort):
            items[-1].append(line.place)  # the item goes on, perhaps with a list of its own
        elif stop := _resumes(lines, at, first, number + len(items)):
            items[-1] += [line.place for line in lines[at:stop]]
            at = stop
            continue
        else:
            break
        at += 1
    return [tuple(item) for item in items], at


def _follows(mark: Mark, first: Mark, number: int) -> bool:
    """Is it the next item of the list that began so? Numbers and letters count on."""
    same = mark.sort == first.sort and mark.is_bare == first.is_bare
    return same and (mark.sort == "bullet" or mark.number == number)


def _resumes(lines: Sequence[_ListLine], at: int, first: Mark, number: int) -> int:
    """Where the list goes on behind a block that belongs to its last item; 0 where it does not."""
    if first.sort != "number" or first.is_bare:
        return 0
    for stop in range(at, min(at + MOST_BETWEEN + 1, len(lines))):
        line = lines[stop]
        mark = mark_of(line.text) if line.begins_line else None
        if mark is not None and _follows(mark, first, number):
            return stop
        if _is_heading(lines, stop):
            return 0
    return 0


# --- which of them answers? One of a passage that a reader finds it in ------------------------------------------------
# A list is told by what introduces it: its items seldom hold words of the question. So the passage is chosen by what
# was read of it, and within the passage the list whose heading, introduction and items fit the question best.

# `answered` of the passage that a list is taken from. Of ten questions that were looked at, the right ones had .8 to
# 3.2; others at most .6, and those above 0 stood in the same document. No data of this kind were at hand to fit it on.
ANSWERED = 0.5
LESS = 1.0  # by how much less than the best passage it may be the one that answers
MOST_OF_ROWS = 0.8  # chance that the rows of a table are those that are meant: the reader has learned from few tables
NUMBERED = 0.3  # for numbers, where steps are asked for
UNREAD_FIT = 0.5  # coverage and cosine that a list needs which nobody has read
LESS_SUPPORT = 0.2  # by how much less it may fit than the passage of the best sentence


@dataclass(frozen=True, slots=True)
class ChosenList:
    """The sentences of its items, the one that introduces it, and the chance that it is what was asked for."""

    passage: Passage
    lead: Place | None
    items: tuple[tuple[Place, ...], ...]
    chunks: tuple[Chunk, ...]  # which the places count
    is_numbered: bool
    chance: float


def chosen_list(
    query: Query, context: Context, retrieved: Retrieved, best: ScoredSentence | None, asked: Wanted
) -> ChosenList | None:
    """The list that answers; None where a sentence does, or nothing.

    `best` is the sentence that answers best: what it says in prose is not given up for a list that fits less.
    """
    found: list[tuple[float, ChosenList]] = []
    answered = max((reading.answered for reading in retrieved.readings.values()), default=-math.inf)
    for passage in context.passages:
        chunks = passage.chunks
        table = _tabulated(query, passage, retrieved)
        for one in _lists_of(chunks, asked, query):
            reading = _read(one, chunks, retrieved.readings)
            fit = _fit(one, table, chunks)
            if reading is None:
                support = best.support - LESS_SUPPORT if best is not None else 0.0
                worth = fit - max(UNREAD_FIT, support) if not retrieved.readings else -math.inf
                chance = min(0.5, fit / 2)
            else:
                is_near = reading.answered >= max(ANSWERED, answered - LESS)
                worth = reading.answered + fit if is_near else -math.inf
                chance = 1.0 / (1.0 + math.exp(-reading.answered))
                chance = min(chance, MOST_OF_ROWS) if chunks[0].kind == "table" else chance
            worth += NUMBERED * (one.is_numbered and asked == "steps")
            if worth > 0 and not _is_less(one, fit, best, table, chunks):
                found.append((worth, ChosenList(passage, one.lead, one.items, chunks, one.is_numbered, chance)))
    return max(found, key=lambda one: one[0])[1] if found else None


def _lists_of(chunks: Sequence[Chunk], asked: Wanted, query: Query) -> list[Listing]:
    """Those of prose, and the rows of a table, which are several things and no steps."""
    if chunks[0].kind != "table":
        return listings(chunks)
    rows = [
        Place(number, row)
        for number, chunk in enumerate(chunks)
        for row in range(table_header(chunk).stop, len(chunk.sentences))
        if CELLS in sentence_text(chunk, row)
    ]
    items = tuple((place,) for place in _asked_for(chunks, rows, query))
    return [Listing(items, Place(0, 0), None, is_numbered=False)] if len(items) > 1 and asked == "several" else []


def _asked_for(chunks: Sequence[Chunk], rows: Sequence[Place], query: Query) -> list[Place]:
    """The rows that hold the words which tell some rows from others: "spare parts for the TG-4" of a price list."""
    held = {place: read(sentence_text(chunks[place.chunk], place.sentence)).terms for place in rows}
    # A word of one row alone is no kind of row: the 7 of "WB-7" is not item 7.
    telling = [term for term in set(query.terms) if sum(term in own for own in held.values()) > 1]
    worth = {place: sum(term in own for term in telling) for place, own in held.items()}
    best = max(worth.values(), default=0)
    return [place for place in rows if worth[place] == best]


def _read(listing: Listing, chunks: Sequence[Chunk], readings: Mapping[int, Reading]) -> Reading | None:
    """What was read of the part that introduces it, else of its items."""
    places = [listing.lead or listing.heading or listing.items[0][0], *(item[0] for item in listing.items)]
    own = [readings[chunks[place.chunk].id] for place in places if chunks[place.chunk].id in readings]
    return max(own, key=lambda reading: reading.answered, default=None)


# --- how well does a list fit the question? --------------------------------------------------------------------------


def _tabulated(query: Query, passage: Passage, retrieved: Retrieved) -> SentenceTable:
    placed = [(passage.number, chunk, passage.hit.score) for chunk in passage.chunks]
    documents: Mapping[str, Document] = {passage.document.id: passage.document}
    return tabulate(query, placed, retrieved.sentence_vectors, retrieved.idf, documents)


def _fit(listing: Listing, table: SentenceTable, chunks: Sequence[Chunk]) -> float:
    """The share of the question's words that it and its introduction hold, and how near its nearest sentence is."""
    places = [
        place for place in (listing.heading, listing.lead, *(item[0] for item in listing.items)) if place is not None
    ]
    rows = [_row(place, chunks) for place in places]
    return _worth(table, rows)


def _worth(table: SentenceTable, rows: Sequence[int]) -> float:
    credit: Any = table.credit[list(rows)]
    return float(credit.max(axis=0) @ table.weights) + float(np.max(table.cosine[list(rows)]))


def _row(place: Place, chunks: Sequence[Chunk]) -> int:
    return sum(len(chunk.sentences) for chunk in chunks[: place.chunk]) + place.sentence


def _is_less(
    listing: Listing, fit: float, best: ScoredSentence | None, table: SentenceTable, chunks: Sequence[Chunk]
) -> bool:
    """Does a sentence beside the list, which it does not introduce, say it better?"""
    if best is None or best.chunk.id not in {chunk.id for chunk in chunks}:
        return False
    place = Place(next(at for at, chunk in enumerate(chunks) if chunk.id == best.chunk.id), best.sentence)
    own = {listing.heading, listing.lead, *(place for item in listing.items for place in item)}
    return place not in own and fit < _worth(table, [_row(place, chunks)])


# --- what does a document say, in a few sentences? --------------------------------------------------------------------

MOST_SENTENCES = 6
FEW_SECTIONS = 3  # of so many or fewer, each may give two sentences
SHORTEST, LONGEST = 5, 45  # words of a sentence that says something, and that is read at once
DOCUMENT = 0.5  # what nearness to the whole document counts beside nearness to the section
EARLY = (0.2, 0.1)  # for the first two sentences of a section: they say what it is about
NAMED = 0.5  # share of the words of a question, its frame aside, that the document's name and title hold
MOST_NAMES = 0.5  # share of the words of a sentence that are names or numbers
LONG = 20  # pages of a document whose first page is a cover
LIKE = 0.85  # cosine of two sentences of which one is enough
REFERRING = 0.5  # share of a passage's sentences that name years, pages and initials: a list of references
LEAST_HALVED = 8  # sentences of a part that is long enough to be two
PROSE = ("text", "list", "glossary")

Placed = tuple[Chunk, int]  # a chunk and a place among its sentences

_ORDERS = frozenset(terms(" ".join(word_set("words", "cache: orders") | FRAME)))
_REFERENCE = re.compile(r"\((?:19|20)\d\d[a-z]?\)|\bet al\.|\bpp?\. ?\d|\bpages \d|\bvol\.|\bdoi\b|https?://|\^ ")
_ADDRESS = re.compile(r"\S@\S|https?://|www\.")


def named_document(query: Query, retrieved: Retrieved, library: LibraryReader, scope: Scope) -> Document | None:
    """The document that is to be summed up: the only one in scope, or the one that the question names best."""
    documents = library.documents(scope)
    if len(documents) == 1:
        return documents[0]
    worth: dict[str, float] = {}
    for hit in retrieved.hits:
        worth[hit.document.id] = worth.get(hit.document.id, 0.0) + hit.score
    subject = frozenset(query_terms(without_frame(query.fullest, "summary"))) - _ORDERS
    found = match_names(query.fullest, documents, long=1)
    shares = {document.id: len(subject & _label(document)) / max(1, len(subject)) for document in documents}
    likely = [
        document
        for document in documents
        if document.id in found or (document.id in worth and shares[document.id] >= NAMED)
    ]
    # Of several that are named alike, as the reports of one company, the newest.
    return max(
        likely,
        key=lambda one: (found.get(one.id, 0.0) + shares[one.id], one.date, worth.get(one.id, 0.0)),
        default=None,
    )


def _label(document: Document) -> frozenset[str]:
    """Stems of its name and its title."""
    return frozenset(terms(re.sub(r"[\W_]+", " ", f"{document.name} {document.title}")))


# --- its key sentences -----------------------------------------------------------------------------------------------


def summed_up(query: Query, retrieved: Retrieved, library: LibraryReader, scope: Scope) -> Retrieved:
    """What is read of the document that is named: the chunks of its key sentences; as it was where none is named."""
    document = named_document(query, retrieved, library, scope)
    if document is None:
        return retrieved
    has_cover = document.page_count > LONG
    every = library.document_chunks(document.id)
    chunks = [chunk for chunk in every if chunk.kind in PROSE and not (has_cover and chunk.page == 1)]
    vectors = library.sentence_vectors([chunk.id for chunk in chunks])
    keys = key_sentences(chunks, vectors)
    by_id = {chunk.id: chunk for chunk in chunks}
    known = {hit.chunk.id: hit for hit in (*retrieved.considered, *retrieved.hits)}
    hits = [
        known.get(chunk_id) or Hit(by_id[chunk_id], document, 0.0, 0.0, 0.0)
        for chunk_id in dict.fromkeys(chunk_id for chunk_id, _ in keys)
    ]
    if not hits:
        return retrieved
    own = {**retrieved.sentence_vectors, **{hit.chunk.id: vectors[hit.chunk.id] for hit in hits}}
    return replace(retrieved, hits=tuple(hits), sentence_vectors=own, key_sentences=tuple(keys), readings={})


def key_sentences(chunks: Sequence[Chunk], vectors: Mapping[int, NDArray[np.int8]]) -> list[tuple[int, int]]:
    """(chunk id, sentence) of each, in the document's order."""
    sections = [own for own in _sections(chunks) if not _refers(own)]
    usable = [[place for place in own if says_something(*place)] for own in sections]
    usable = [own for own in usable if own]
    if not usable:
        return []
    matrices = [np.stack([_unit(vectors, chunk, place) for chunk, place in own]) for own in usable]
    middle = _mean(np.stack([_mean(matrix) for matrix in matrices]))
    ranked: list[list[tuple[float, Chunk, int, NDArray[Any]]]] = []
    for own, matrix in zip(usable, matrices, strict=True):
        worth = matrix @ _mean(matrix) + DOCUMENT * (matrix @ middle)
        worth[: len(EARLY)] += EARLY[: len(worth)]
        order = np.argsort(-worth)
        ranked.append([(float(worth[at]), *own[at], matrix[at]) for at in order.tolist()])
    chosen = _chosen(ranked, middle)
    return [(chunk.id, place) for chunk, place, _ in sorted(chosen, key=lambda one: (one[0].sequence, one[1]))]


def _chosen(
    ranked: Sequence[Sequence[tuple[float, Chunk, int, NDArray[Any]]]], middle: NDArray[Any]
) -> list[tuple[Chunk, int, NDArray[Any]]]:
    """The best of the sections that say most of what the document says; none says it twice."""
    order = sorted(range(len(ranked)), key=lambda at: -float(ranked[at][0][3] @ middle))
    chosen: list[tuple[Chunk, int, NDArray[Any]]] = []
    for turn in range(2 if len(ranked) <= FEW_SECTIONS else 1):
        for at in order:
            for _, chunk, place, vector in ranked[at][turn:]:
                if len(chosen) < MOST_SENTENCES and all(float(vector @ other) < LIKE for *_, other in chosen):
                    chosen.append((chunk, place, vector))
                    break
    return chosen


def _sections(chunks: Sequence[Chunk]) -> list[list[Placed]]:
    """The sentences by the headings that divide the document, in as many parts as are wanted, if it can be."""
    deepest = max((len(chunk.heading_path) for chunk in chunks), default=0)
    found: list[list[Placed]] = []
    for depth in range(deepest + 1):
        by_path: dict[tuple[str, ...], list[Placed]] = {}
        for chunk in chunks:
            by_path.setdefault(chunk.heading_path[:depth], []).extend((chunk, s) for s in range(len(chunk.sentences)))
        found = list(by_path.values())
        if len(found) >= MOST_SENTENCES:
            return found
    found = [part for own in found for part in _under_headings(own)]  # small sections stand in one chunk
    while len(found) < MOST_SENTENCES and max(map(len, found), default=0) >= LEAST_HALVED:  # few headings
        longest = max(range(len(found)), key=lambda at: len(found[at]))
        own = found[longest]
        found[longest : longest + 1] = [own[: len(own) // 2], own[len(own) // 2 :]]
    return found


def _under_headings(own: Sequence[Placed]) -> list[list[Placed]]:
    """Cut where a block begins that nothing ends: a heading."""
    found: list[list[Placed]] = [[]]
    for chunk, place in own:
        start, end = chunk.sentences[place][:2]
        begins = place == 0 or "\n\n" in chunk.text[chunk.sentences[place - 1].end : start]
        if begins and chunk.text[start:end].rstrip()[-1:] not in ENDS:
            found.append([])
        found[-1].append((chunk, place))
    return [part for part in found if part]


def _refers(own: Sequence[Placed]) -> bool:
    """Is it a list of what the document refers to?"""
    texts = [chunk.text[slice(*chunk.sentences[place][:2])] for chunk, place in own]
    refer = [_REFERENCE.search(text) is not None or _is_mostly_names(text.split()) for text in texts]
    return sum(refer) > REFERRING * len(texts)


def tells_something(chunks: Sequence[Chunk]) -> bool:
    """Whether a section says anything itself: no list of references, no cover, no addresses."""
    own = [(chunk, place) for chunk in chunks if chunk.kind in PROSE for place in range(len(chunk.sentences))]
    return not own or (not _refers(own) and any(says_something(*place) for place in own))


def _is_mostly_names(words: Sequence[str]) -> bool:
    """`Skerry Technical Report SI-TR-017, 2021.`"""
    return sum(not word[:1].islower() for word in words) >= MOST_NAMES * len(words)


def says_something(chunk: Chunk, place: int) -> bool:
    """A whole sentence that can be understood alone: no heading, author, address, question or lead-in."""
    start, end = chunk.sentences[place][:2]
    text = " ".join(chunk.text[start:end].split())
    words = text.split()
    is_whole = text[-1:] in ".!。！" and SHORTEST <= len(words) <= LONGEST and text[:1].isupper()
    return is_whole and not _is_mostly_names(words) and not _ADDRESS.search(text) and not read(text).begins_with_pronoun


def _unit(vectors: Mapping[int, NDArray[np.int8]], chunk: Chunk, place: int) -> NDArray[Any]:
    rows = vectors.get(chunk.id)
    if rows is None or place >= len(rows):
        return np.zeros(1 if not vectors else len(next(iter(vectors.values()))[0]), dtype=np.float32)
    found: NDArray[Any] = rows[place].astype(np.float32)
    return found / max(float(np.linalg.norm(found)), 1e-6)


def _mean(matrix: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = matrix.mean(axis=0)
    return found / max(float(np.linalg.norm(found)), 1e-6)
