"""Finds the lists in a passage and the one that answers, and summarises a whole document in a few sentences.

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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from refdesk.answer import Context, Passage, Query, Retrieved
from refdesk.ask.sentences import (
    FRAME,
    LONGEST_HEADING,
    ScoredSentence,
    SentenceTable,
    may_stand,
    sentence_text,
    tabulate,
)
from refdesk.ask.told import another
from refdesk.ask.wording import CELLS, Wanted, cells, read, table_header, without_frame
from refdesk.document_names import GENERIC, match_names
from refdesk.library import LibraryReader
from refdesk.negation import is_negated
from refdesk.summaries import TreeNode, key_sentences, says_something, telling_chunks
from refdesk.text import query_terms, terms
from refdesk.types import Chunk, Document, Hit, Reading, Scope

FEWEST = 2  # items
SECTION = 3  # sentences of an item that may answer by itself
MOST_BETWEEN = 3  # sentences of a block that stands between two numbered items: the command that step 2 speaks of

MOST_REPEATED = 3  # sentences at the beginning of a chunk that end the one before

BULLET = re.compile(r"[-*+•‣◦▪▫■□●○–—·➢✓✔➔]\s+")
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


def without_bullet(text: str) -> str:
    bullet = BULLET.match(text)
    return text[bullet.end() :] if bullet else text


def mark_of(text: str) -> Mark | None:
    """`2. Empty the tank.` -> a number, 2."""
    if BULLET.match(text):
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
        elif items and (stop := _resumes(lines, at, first, number + len(items)) or _ends_item(lines, at)):
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
    """Where the list goes on behind a block that belongs to its last item; 0 where it does not.

    One with bullets goes on only where its item broke off: what stands between two lists ends the first.
    """
    if first.is_bare or first.sort == "letter" or (first.sort == "bullet" and not _breaks_off(lines, at)):
        return 0
    for stop in range(at, min(at + MOST_BETWEEN + 1, len(lines))):
        line = lines[stop]
        mark = mark_of(line.text) if line.begins_line else None
        if mark is not None and _follows(mark, first, number):
            return stop
        if _is_heading(lines, stop):
            return 0
    return 0


def _ends_item(lines: Sequence[_ListLine], at: int) -> int:
    """Where the last item ends that broke off before this line; 0 where the line does not go on with it."""
    goes_on = _breaks_off(lines, at) and lines[at].text[:1].islower()
    return at + 1 if goes_on else 0


def _breaks_off(lines: Sequence[_ListLine], at: int) -> bool:
    """Did the line before end in the middle of a sentence? `Mail: U.S. Department of`, set with a hanging indent."""
    return lines[at - 1].text[-1:] not in f"{_ENDS}:,"


# --- which of them answers? One of a passage that a reader finds it in ------------------------------------------------
# A list is told by what introduces it: its items seldom hold words of the question. So the passage is chosen by what
# was read of it, and within the passage the list whose heading, introduction and items fit the question best.

# `answered` of the passage that a list is taken from. Of ten questions that were looked at, the right ones had .8 to
# 3.2; others at most .6, and those above 0 stood in the same document. No data of this kind were at hand to fit it on.
ANSWERED = 0.5
LESS = 1.0  # by how much less than the best passage it may be the one that answers
TOLD_BESIDE = 3.0  # log-odds by which a sentence beside a list answers better than its items
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
        for candidate in _lists_of(chunks, asked, query):
            reading = _read(candidate, chunks, retrieved.readings)
            fit = _fit(candidate, table, chunks)
            if reading is None:
                support = best.support - LESS_SUPPORT if best is not None else 0.0
                worth = fit - max(UNREAD_FIT, support) if not retrieved.readings else -math.inf
                chance = min(0.5, fit / 2)
            else:
                is_near = reading.answered >= max(ANSWERED, answered - LESS) or _holds(candidate, best, chunks)
                worth = max(reading.answered, 0.0) + fit if is_near else -math.inf
                chance = 1.0 / (1.0 + math.exp(-reading.answered))
                chance = min(chance, MOST_OF_ROWS) if chunks[0].kind == "table" else chance
            worth += NUMBERED * (candidate.is_numbered and asked == "steps")
            is_found = reading is not None and _has_answer(candidate, chunks, retrieved.readings)
            if _tells_in_one(candidate, chunks, retrieved.readings, table):
                continue
            if asked == "steps" and _names_sections(candidate, chunks, retrieved):
                continue
            if asked == "steps" and reading is not None and not (candidate.is_numbered or is_found):
                continue  # what is needed for it
            if asked == "several" and _is_told_beside(candidate, chunks, retrieved.readings):
                continue
            if worth > 0 and (is_found or not _is_less(candidate, fit, best, table, chunks)):
                found.append(
                    (worth, ChosenList(passage, candidate.lead, candidate.items, chunks, candidate.is_numbered, chance))
                )
    return max(found, key=lambda candidate: candidate[0])[1] if found else None


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
    texts = {place: sentence_text(chunks[place.chunk], place.sentence) for place in rows}
    row_terms = {place: read(text).terms for place, text in texts.items()}
    whole = {place: {read(cell).terms for cell in cells(text)} for place, text in texts.items()}
    # A word of one row alone is no kind of row: the 7 of "WB-7" is not item 7.
    telling = [term for term in set(query.terms) if sum(term in own for own in row_terms.values()) > 1]
    # A word that is all of some cells tells what these rows are: "open" is a state, and "does not open" is none.
    states = {
        term for term in telling if term.isalpha() and sum(frozenset((term,)) in own for own in whole.values()) > 1
    }
    worth = {
        place: sum(frozenset((term,)) in whole[place] if term in states else term in own for term in telling)
        for place, own in row_terms.items()
    }
    best = max(worth.values(), default=0)
    return [place for place in rows if worth[place] == best]


def _read(listing: Listing, chunks: Sequence[Chunk], readings: Mapping[int, Reading]) -> Reading | None:
    """What was read of the part that introduces it, else of its items."""
    places = [listing.lead or listing.heading or listing.items[0][0], *(item[0] for item in listing.items)]
    own = [readings[chunks[place.chunk].id] for place in places if chunks[place.chunk].id in readings]
    return max(own, key=lambda reading: reading.answered, default=None)


def _has_answer(listing: Listing, chunks: Sequence[Chunk], readings: Mapping[int, Reading]) -> bool:
    """Is the likeliest answer of what was read one of its items? Beside them, a line may hold more of the words."""
    return _likeliest(chunks, readings) in {place for item in listing.items for place in item}


def _likeliest(chunks: Sequence[Chunk], readings: Mapping[int, Reading]) -> Place | None:
    spans = [
        (span.score, Place(number, place))
        for number, chunk in enumerate(chunks)
        if chunk.id in readings
        for place, span in enumerate(readings[chunk.id].spans)
        if span is not None
    ]
    return max(spans)[1] if spans else None


def _tells_in_one(
    listing: Listing, chunks: Sequence[Chunk], readings: Mapping[int, Reading], table: SentenceTable
) -> bool:
    """Is it a list of sections, one of which answers? A long item that fits better than what introduces the list."""
    likeliest = _likeliest(chunks, readings)
    item = next((item for item in listing.items if likeliest in item), ())
    above = [place for place in (listing.heading, listing.lead) if place is not None]
    if len(item) < SECTION:
        return False
    own = _worth(table, [_row(place, chunks) for place in item])
    return not above or own > _worth(table, [_row(place, chunks) for place in above])


def _is_told_beside(listing: Listing, chunks: Sequence[Chunk], readings: Mapping[int, Reading]) -> bool:
    """Does a sentence that does not lead to the list answer by itself, and none of its items nearly as well?"""
    place = _likeliest(chunks, readings)
    items = [place for item in listing.items for place in item]
    if place is None or place in items or not may_stand(chunks[place.chunk], place.sentence, is_read=True):
        return False
    return _span_score(place, chunks, readings) > TOLD_BESIDE + max(
        _span_score(item, chunks, readings) for item in items
    )


def _names_sections(listing: Listing, chunks: Sequence[Chunk], retrieved: Retrieved) -> bool:
    """Does it list sections of its document that were found as well? What is to be done stands in these."""
    found = [hit.chunk for hit in (*retrieved.hits, *retrieved.considered)]
    headings = {"".join(chunk.heading_path[-1:]) for chunk in found if chunk.document_id == chunks[0].document_id}
    items = [sentence_text(chunks[item[0].chunk], item[0].sentence) for item in listing.items]
    return sum(without_bullet(item) in headings for item in items) >= FEWEST


def _span_score(place: Place, chunks: Sequence[Chunk], readings: Mapping[int, Reading]) -> float:
    reading = readings.get(chunks[place.chunk].id)
    span = reading.spans[place.sentence] if reading is not None else None
    return 0.0 if span is None else max(0.0, span.score)


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


def _holds(listing: Listing, best: ScoredSentence | None, chunks: Sequence[Chunk]) -> bool:
    """Is the sentence that answers best one of its items? Then all of them are asked for, not this one alone."""
    if best is None:
        return False
    own = {(chunks[place.chunk].id, place.sentence) for item in listing.items for place in item}
    return (best.chunk.id, best.sentence) in own


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

MOST_SECTIONS = 12  # that are told of one by one
NAMED = 0.5  # share of the words of a question, its frame aside, that the document's name and title hold


_ORDERS = frozenset(terms(" ".join(FRAME)))
_ANY_DOCUMENT = frozenset(terms(" ".join(GENERIC)))


class Subject(NamedTuple):
    """What is to be summed up: a document, or what stands in it under the headings that hold these stems."""

    document: Document
    aspect: frozenset[str] = frozenset()

    def is_told_in(self, chunk: Chunk) -> bool:
        return share(self.aspect, terms(" ".join(chunk.heading_path))) >= NAMED


def subject_of(query: Query, retrieved: Retrieved, library: LibraryReader, scope: Scope) -> Subject | None:
    """The only document in scope, or the one that the question names best; None where it asks for something else.

    "What are the main risk factors for Lund?" names reports of Lund and asks for one section of them. Words that the
    report does not say either ("takeaways", "gist") are words of asking.
    """
    documents = library.documents(scope)
    worth: dict[str, float] = {}
    for hit in retrieved.hits:
        worth[hit.document.id] = worth.get(hit.document.id, 0.0) + hit.score
    asked = frozenset(query_terms(without_frame(query.fullest))) - _ORDERS - _ANY_DOCUMENT
    found = match_names(query.fullest, documents, long=1)
    shares = {document.id: share(asked, called(document)) for document in documents}
    likely = {
        document.id: document
        for document in documents
        if len(documents) == 1 or document.id in found or (document.id in worth and shares[document.id] >= NAMED)
    }
    hits = [hit for hit in retrieved.considered if hit.document.id in likely]
    left = asked.difference(*map(called, likely.values()))
    aspect = left.intersection(stem for hit in hits for stem in terms(hit.chunk.text))
    if aspect:
        told: dict[str, float] = {}
        for hit in hits:
            if Subject(hit.document, aspect).is_told_in(hit.chunk):
                told[hit.document.id] = told.get(hit.document.id, 0.0) + hit.score
        return Subject(likely[max(told, key=lambda name: told[name])], aspect) if told else None
    # Of several that are named alike, as the reports of one company, the newest.
    best = max(
        likely.values(),
        key=lambda candidate: (
            found.get(candidate.id, 0.0) + shares[candidate.id],
            candidate.date,
            worth.get(candidate.id, 0.0),
        ),
        default=None,
    )
    return None if best is None else Subject(best)


def share(wanted: frozenset[str], found: Collection[str]) -> float:
    """Of the stems that are wanted, how many are found? All of none."""
    return len(wanted.intersection(found)) / len(wanted) if wanted else 1.0


def called(document: Document) -> frozenset[str]:
    """Stems of its name and its title."""
    return frozenset(terms(f"{document.name} {document.title}".replace("_", " ")))


# --- its key sentences -----------------------------------------------------------------------------------------------


def summed_up(
    query: Query, retrieved: Retrieved, library: LibraryReader, scope: Scope, *, for_model: bool = False
) -> Retrieved:
    """What is read of the document or section that is named: the chunks of its key sentences; as it was where none is.

    Where a tree was built, section by section. `for_model`: only then, and only what is read.
    """
    subject = subject_of(query, retrieved, library, scope)
    if subject is None:
        return retrieved
    document = subject.document
    sections = library.sections([document.id]) if not subject.aspect else []
    if for_model and len(sections) < 2:
        return retrieved
    chunks = telling_chunks(document, library.document_chunks(document.id))
    if subject.aspect:
        chunks = [chunk for chunk in chunks if subject.is_told_in(chunk)]
    vectors = library.sentence_vectors([chunk.id for chunk in chunks])
    told = by_section(sections, chunks)
    keys = [(chunk.id, place) for _, chunk, place in told] or key_sentences(chunks, vectors)
    by_id = {chunk.id: chunk for chunk in chunks}
    known = {hit.chunk.id: hit for hit in (*retrieved.considered, *retrieved.hits)}
    hits = [
        known.get(chunk_id) or Hit(by_id[chunk_id], document, 0.0, 0.0, 0.0)
        for chunk_id in dict.fromkeys(chunk_id for chunk_id, _ in keys)
    ]
    if not hits:
        return retrieved
    own = {**retrieved.sentence_vectors, **{hit.chunk.id: vectors[hit.chunk.id] for hit in hits}}
    read = replace(retrieved, hits=tuple(hits), sentence_vectors=own)
    titles = tuple(title for title, _, _ in told)
    return read if for_model else replace(read, key_sentences=tuple(keys), key_titles=titles, readings={})


def by_section(sections: Sequence[TreeNode], chunks: Sequence[Chunk]) -> list[tuple[str, Chunk, int]]:
    """(title, chunk, sentence) of the sections that say something; of very many, the longest. None of one or none."""
    by_sequence = {chunk.sequence: chunk for chunk in chunks}
    found = []
    for node in sections:
        proven = [
            (by_sequence[proof.sequence], proof.sentence) for proof in node.proofs if proof.sequence in by_sequence
        ]
        if whole := [(chunk, place) for chunk, place in proven if says_something(chunk, place)]:
            found.append((node.sequences[1] - node.sequences[0], node.title, *whole[0]))
    longest = sorted(range(len(found)), key=lambda place: -found[place][0])[:MOST_SECTIONS]
    told = [found[place][1:] for place in sorted(longest)]
    return told if len(told) > 1 else []


def with_leads(chosen: Sequence[ScoredSentence]) -> list[ScoredSentence]:
    """An item of a list that denies it comes behind what says so: "We do not pay for:", "- damage by storm"."""
    placed: list[ScoredSentence] = []
    for sentence in chosen:
        own = Place(0, sentence.sentence)
        lists = listings([sentence.chunk]) if mark_of(sentence.text.strip()) else []
        for lead in [one.lead for one in lists if any(own in item for item in one.items)]:
            before = another(sentence, lead.sentence) if lead is not None else sentence
            if before.text.rstrip().endswith(":") and is_negated(before.text) and before not in placed:
                placed.append(before)
        placed.append(sentence)
    return placed
