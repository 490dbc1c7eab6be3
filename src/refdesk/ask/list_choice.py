"""Which list answers a question that wants steps or several things? One of a passage that a reader finds it in. Pure.

A list is told by what introduces it: its items seldom hold words of the question. So the passage is chosen by what was
read of it, and within the passage the list whose heading, introduction and items fit the question best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refdesk.answer import Context, Passage, Query, Retrieved
from refdesk.ask.answer_type import CELLS, read, table_header
from refdesk.ask.listing import Listing, Place, listings
from refdesk.ask.question_kind import Wanted, chances, wants
from refdesk.ask.sentences import NUMBER, ScoredSentence, SentenceTable, sentence_text, tabulate
from refdesk.ask.yes_no import asks_yes_or_no
from refdesk.types import Chunk, Document, Reading

SEVERAL = 0.35  # chance of wanting several things from which on a list that was found is given whole
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


def wanted(query: Query) -> Wanted:
    """What an answer is to be made of; a list only where the question asks for nothing more particular."""
    found = wants(query.fullest)
    if asks_yes_or_no(query.fullest):
        return "polar"
    if query.intent in ("summary", "comparison", "analytical"):
        return "one"
    is_list = query.intent == "list" or (chances(query.fullest)["several"] >= SEVERAL and query.number < NUMBER)
    if found in ("one", "definition", "several"):
        return "several" if is_list else "one" if found == "several" else found
    return found


def chosen_list(
    query: Query, context: Context, retrieved: Retrieved, best: ScoredSentence | None, asked: Wanted
) -> ChosenList | None:
    """The list that answers; None where a sentence does, or nothing.

    `best` is the sentence that answers best: what it says in prose is not given up for a list that fits less.
    """
    found: list[tuple[float, ChosenList]] = []
    answered = max((one.answered for one in retrieved.readings.values()), default=-math.inf)
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


def _read(one: Listing, chunks: Sequence[Chunk], readings: Mapping[int, Reading]) -> Reading | None:
    """What was read of the part that introduces it, else of its items."""
    places = [one.lead or one.heading or one.items[0][0], *(item[0] for item in one.items)]
    own = [readings[chunks[place.chunk].id] for place in places if chunks[place.chunk].id in readings]
    return max(own, key=lambda reading: reading.answered, default=None)


# --- how well does a list fit the question? --------------------------------------------------------------------------


def _tabulated(query: Query, passage: Passage, retrieved: Retrieved) -> SentenceTable:
    placed = [(passage.number, chunk, passage.hit.score) for chunk in passage.chunks]
    documents: Mapping[str, Document] = {passage.document.id: passage.document}
    return tabulate(query, placed, retrieved.sentence_vectors, retrieved.idf, documents)


def _fit(one: Listing, table: SentenceTable, chunks: Sequence[Chunk]) -> float:
    """The share of the question's words that it and its introduction hold, and how near its nearest sentence is."""
    places = [place for place in (one.heading, one.lead, *(item[0] for item in one.items)) if place is not None]
    rows = [_row(place, chunks) for place in places]
    return _worth(table, rows)


def _worth(table: SentenceTable, rows: Sequence[int]) -> float:
    credit: Any = table.credit[list(rows)]
    return float(credit.max(axis=0) @ table.weights) + float(np.max(table.cosine[list(rows)]))


def _row(place: Place, chunks: Sequence[Chunk]) -> int:
    return sum(len(chunk.sentences) for chunk in chunks[: place.chunk]) + place.sentence


def _is_less(
    one: Listing, fit: float, best: ScoredSentence | None, table: SentenceTable, chunks: Sequence[Chunk]
) -> bool:
    """Does a sentence beside the list, which it does not introduce, say it better?"""
    if best is None or best.chunk.id not in {chunk.id for chunk in chunks}:
        return False
    place = Place(next(at for at, chunk in enumerate(chunks) if chunk.id == best.chunk.id), best.sentence)
    own = {one.heading, one.lead, *(place for item in one.items for place in item)}
    return place not in own and fit < _worth(table, [_row(place, chunks)])
