"""Where do two sources disagree? Pure.

Two quotes conflict when they say the same of the same thing, for the same period and in the same unit, with another
value. Where that cannot be told they do not: what is left after the figures are taken out must be the same statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from refdesk.answer import Citation, Conflict, Context, Query
from refdesk.ask.answer_type import CELLS, STOP_TERMS, named_cells, read
from refdesk.ask.figures import Quantity, agrees, figures
from refdesk.ask.sentences import FRAME, question_words
from refdesk.periods import Period, When, document_period, spaced
from refdesk.terms import terms
from refdesk.types import Chunk, Document

MORE = 0.5  # of the words two statements share, one may have that many beside them, as long as the other adds none

_OBLIGE = frozenset(terms(" ".join(FRAME))) | frozenset(terms("need needs shall require required has have to be"))
# What follows a comma belongs to the statement when it narrows it down ("…, if it stands in salt water").
_PART = re.compile(r"[;:()—]|,(?=\s)")
_NARROWS = re.compile(
    r"\s*(?:if|when|unless|except|excluding|including|for|with|without|in|at|on|under|during|where|while|until|as|of"
    r"|from|to|by|compared|respectively|net)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A quote, and what its document and its table add to it."""

    quote: str
    page: int
    document_id: str
    document_name: str
    around: frozenset[str]  # terms of the quote, its headings, and the document's name and title
    figures: tuple[Quantity, ...]
    dates: frozenset[When]
    period: Period  # of the document, as far as its name or title tells
    cells: Mapping[str, str] | None  # column -> cell of a row whose columns are named; "" is the row's own name
    is_row: bool


Clash = tuple[Quantity, Quantity]


def conflicts(query: Query, context: Context, citations: Sequence[Citation]) -> tuple[Conflict, ...]:
    """Pairs of quotes that cannot both be true."""
    if len({one.marker for one in citations}) < 2:
        return ()
    chunks = {chunk.id: chunk for passage in context.passages for chunk in passage.chunks}
    titles = {passage.document.id: passage.document.title for passage in context.passages}
    sides = [(one.marker, _cited(one, chunks.get(one.chunk_id), titles.get(one.document_id, ""))) for one in citations]
    found: dict[tuple[int, int], Conflict] = {}
    for (marker, one), (other_marker, other) in combinations(sides, 2):
        pair = (marker, other_marker)
        if marker != other_marker and pair not in found and (clash := disagree(query, one, other)):
            says = f"{one.document_name} says {clash[0].text}, {other.document_name} says {clash[1].text}"
            found[pair] = Conflict(says, pair)
    return tuple(found.values())


def disagree(query: Query, one: Side, other: Side) -> Clash | None:
    """The two values, where the quotes give different ones of what is asked about."""
    if not _may_differ(query, one, other):
        return None
    return _rows_clash(one, other) if one.is_row or other.is_row else _sentences_clash(query, one, other)


def quoted(sentence: str, chunk: Chunk, document: Document) -> Side:
    """A sentence of a chunk as one side."""
    return _side(sentence, chunk.page, document.id, document.name, document.title, chunk.heading_path, chunk)


def _cited(one: Citation, chunk: Chunk | None, title: str) -> Side:
    return _side(one.quote, one.page, one.document_id, one.document_name, title, one.heading_path, chunk)


def _side(
    quote: str, page: int, document_id: str, name: str, title: str, heading_path: Sequence[str], chunk: Chunk | None
) -> Side:
    held = figures(quote)
    return Side(
        quote,
        page,
        document_id,
        name,
        around=frozenset(terms(" ".join((quote, *heading_path, spaced(name), title)))),
        figures=held,
        dates=_dates(held),
        period=document_period(name, title),
        cells=_cells(quote, chunk) if chunk is not None else None,
        is_row=CELLS in quote or (chunk is not None and chunk.kind == "table"),
    )


def _dates(found: Iterable[Quantity]) -> frozenset[When]:
    return frozenset(when for one in found if one.kind == "date" for when in one.when)


# --- the same thing --------------------------------------------------------------------------------------------------


def _may_differ(query: Query, one: Side, other: Side) -> bool:
    """Two places, about what the question names, and not from reports of different periods."""
    if one.quote == other.quote or (one.document_id == other.document_id and one.page == other.page):
        return False
    question = question_words(query.fullest)
    names = question.named - question.sentence.numbers
    if names & one.around != names & other.around or (names and not names & one.around):
        return False
    if one.dates or other.dates:
        return True  # the quotes say themselves of when they speak
    if one.document_id == other.document_id:
        return False  # a report repeats a sentence for the quarter and for the year to date, each under its heading
    same = (one.period.years, one.period.quarters) == (other.period.years, other.period.quarters)
    return same or not (one.period and other.period)


def _sentences_clash(query: Query, one: Side, other: Side) -> Clash | None:
    """The first figures that both have one of, in one unit and of one thing, and that disagree."""
    if _codes(one.figures) != _codes(other.figures):
        return None
    seeks_date = question_words(query.fullest).answer_type == "date"
    mine, theirs = _by_kind(one), _by_kind(other)
    for kind in (key for key in mine if key in theirs):
        is_date = kind[0] == "date"
        if (is_date and not seeks_date) or len(mine[kind]) != len(theirs[kind]):
            continue  # a date that is not asked for says of when the rest is true
        if not is_date and one.dates != other.dates:
            continue
        if any(agrees(a, b) or agrees(b, a) for a in mine[kind] for b in theirs[kind]):
            continue
        clash = mine[kind][0], theirs[kind][0]
        same_document = one.document_id == other.document_id
        if _is_same_statement(query, one.quote, other.quote, clash, exact=same_document):
            return clash
    return None


def _by_kind(side: Side) -> dict[tuple[str, str, str], list[Quantity]]:
    """Figures by kind and unit; a number without a unit counts what the word after it says."""
    found: dict[tuple[str, str, str], list[Quantity]] = {}
    for one in side.figures:
        if one.kind == "code" or one.weak:
            continue
        counted = ""
        if one.kind == "number" and not one.unit:
            following = [term for term in terms(side.quote[one.end : one.end + 40]) if term not in STOP_TERMS]
            counted = following[0] if following else ""
            if not counted:
                continue
        found.setdefault((one.kind, one.unit, counted), []).append(one)
    return found


def _is_same_statement(query: Query, one: str, other: str, clash: Clash, *, exact: bool) -> bool:
    """With the figures taken out, do both say the same? One may add a little to what the other says, not both."""
    first, second = _statement(one, clash[0]), _statement(other, clash[1])
    shared = first & second
    more, less = first - second, second - first
    added = more or less
    if (more and less) or not shared & frozenset(query.terms) or (added and len(shared) < 2):
        return False
    if exact:
        return not added
    names = (read(one).names if more else read(other).names) - frozenset(query.terms)
    return not added & (frozenset(query.terms) | names) and len(added) <= MORE * len(shared)


def _statement(quote: str, figure: Quantity) -> frozenset[str]:
    """The content words up to the figure, and after it those of its own part of the sentence."""
    stop = len(quote)
    for mark in _PART.finditer(quote, figure.end):
        if not _NARROWS.match(quote, mark.end()):
            stop = mark.start()
            break
    return read(_without_figures(quote[:stop])).content - _OBLIGE


def _without_figures(text: str) -> str:
    """The text without its figures and their units; codes such as TG-4 stay, they name things."""
    for found in sorted(figures(text), key=lambda one: -one.start):
        if found.kind != "code":
            text = f"{text[: found.start]} {text[found.end :]}"
    return text


def _codes(found: Sequence[Quantity]) -> frozenset[str]:
    return frozenset(one.text for one in found if one.kind == "code")


# --- rows of tables --------------------------------------------------------------------------------------------------


def _rows_clash(one: Side, other: Side) -> Clash | None:
    """Cells of the same row and the same column of two documents of the same period, where all of that is known."""
    if one.cells is None or other.cells is None or one.document_id == other.document_id:
        return None
    if one.period != other.period or _label(one.cells) != _label(other.cells):
        return None
    for column in (name for name in one.cells if name and name in other.cells):
        mine, theirs = figures(one.cells[column]), figures(other.cells[column])
        if len(mine) != 1 or len(theirs) != 1 or (mine[0].kind, mine[0].unit) != (theirs[0].kind, theirs[0].unit):
            continue
        if not agrees(mine[0], theirs[0]) and not agrees(theirs[0], mine[0]):
            return mine[0], theirs[0]
    return None


def _label(cells: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(terms(cells.get("", "")))


def _cells(quote: str, chunk: Chunk) -> Mapping[str, str] | None:
    """`Japan | 46 | 170` -> {"": "Japan", "meal": "46", "hotel": "170"}; None where the columns have no names."""
    rows = [chunk.text[start:end] for start, end, *_ in chunk.sentences]
    cells = named_cells(chunk, rows.index(quote)) if quote in rows else []
    if not cells:
        return None
    (_, label), *rest = cells
    return {"": label} | {" ".join(terms(name)): cell for name, cell in rest}
