"""Compares two things cell by cell if one table has a row or column for each; every cell is cited.

"Compare the Brava 200 and the Brava 500" -> Tank: 1.2 l (Brava 200), 3.0 l (Brava 500) …
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from refdesk.answer import Answer, Claim, Confidence, Figure, FigureCell, Plan, Query, Retrieved, Sufficiency
from refdesk.ask.assemble import sizes
from refdesk.ask.draft import EXTRACTIVE
from refdesk.ask.judge import HIGH, level, related, sources
from refdesk.ask.plan_choice import FoundTable, report_period
from refdesk.ask.sentences import question_words
from refdesk.ask.table_answer import cell_citations
from refdesk.ask.table_question import FEW, columns_of, is_of_other_length, length_asked
from refdesk.ask.table_rows import decimals_of
from refdesk.ask.table_view import MOST_AT_ONCE, NAMED, compared
from refdesk.ask.wording import PERCENT
from refdesk.library import LibraryReader
from refdesk.periods import period_from, read_period
from refdesk.records import MOST_CELLS, StoredCell
from refdesk.tables import Grid, grid_of, is_scale, shown_value, touches, without_marks
from refdesk.text import query_terms, terms, words

UNSURE = 0.7  # where a side says only part of the label, or another table has rows for both too
OPERATION = "compare"
# "How does its income compare to its sales?", "the ratio of": two amounts of one owner, the one as a part of the other.
_ASKS_SHARE = re.compile(r"\b(?:share|ratio|proportion)\b|\bcompared? (?:to|with) (?:its|their)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sides:
    """A comparison within one table: the names of the sides, and for each attribute a cell of every side."""

    found: FoundTable
    names: tuple[str, ...]
    attributes: tuple[tuple[str, tuple[StoredCell, ...]], ...]
    share: float  # of the labels' words that the question says, of the side that it says least of


def side_by_side(
    answer: Answer,
    query: Query,
    plan: Plan,
    retrieved: Retrieved,
    candidates: Sequence[FoundTable],
    library: LibraryReader,
) -> Answer | None:
    """The comparison that one table makes; None where none has both sides."""
    if len(query.parts) < 2:
        return None
    every = [
        sides
        for found in candidates
        if found.table.is_loaded and found.table.cell_count <= MOST_CELLS and _is_about(query, found, retrieved)
        for sides in _sides(query, found)
    ]
    if not every:
        return None
    best = max(every, key=lambda sides: (sides.share, sides.found.score, len(sides.attributes)))
    tables = {sides.found.table.id for sides in every if sides.share >= best.share}
    # Among many tables, whether this one or its neighbour is meant cannot be known for sure.
    chance = HIGH if best.share == 1.0 and len(tables) == 1 and len(candidates) < FEW else UNSURE
    return _told(answer, query, plan, retrieved, best, chance, library)


# --- which rows or columns are the sides? ----------------------------------------------------------------------------


def _is_about(query: Query, found: FoundTable, retrieved: Retrieved) -> bool:
    """Does the table, or its document, hold every word of the comparison? "Net sales" are no floor space.

    The name of a company is that of its report, however that is called.
    """
    table, document = found.table, found.document
    chunks = [hit.chunk for hit in (*retrieved.hits, *retrieved.considered) if touches(hit.chunk, table)]
    around = [document.name, document.title, table.caption, *(chunk.context for chunk in chunks)]
    heads = [part for head in table.heads for part in head.path]
    labels = [cell.text for cell in table.cells]
    stems = frozenset(terms(" ".join((*around, *heads, *labels)).replace("_", " ")))
    asked = frozenset(term for part in query.parts for term in query_terms(part))
    if document.id in retrieved.preferred_documents:
        asked -= question_words(query.fullest).named
    return asked <= stems


def _sides(query: Query, found: FoundTable) -> Iterator[Sides]:
    """The sides as rows of the table, and as columns of it."""
    grid = grid_of(found.table)
    wanted = [frozenset(query_terms(part)) for part in query.parts]
    shared = frozenset.intersection(*wanted)  # "the price of A", "the price of B"
    own = [words - shared or words for words in wanted]
    heads = [_joined([part for part in path if not is_scale(part)]) for path in grid.columns]
    labels = [_labels(grid, row) for row in range(len(grid.texts))]
    rows = [_place(side, shared, labels) for side in own]
    if all(rows) and len({place for place, *_ in filter(None, rows)}) == len(rows):
        chosen = [row for row in rows if row is not None]
        columns = [c for c in range(grid.width) if c not in {label for _, label, _ in chosen}]
        columns = _of_time(query, found, columns)
        pairs = [(heads[c], [(grid.places[row], c) for row, *_ in chosen]) for c in columns if heads[c]]
        names = tuple(without_marks(grid.texts[row][label]) for row, label, _ in chosen)
        yield from _compared(found, names, _asked(pairs, shared), min(share for *_, share in chosen))
    columns_named = [_place(side, shared, [[(0, head)] for head in heads[1:]]) for side in own]
    if all(columns_named) and len({place for place, *_ in filter(None, columns_named)}) == len(columns_named):
        chosen = [column for column in columns_named if column is not None]
        pairs = [
            (_joined(grid.rows[row]), [(grid.places[row], place + 1) for place, *_ in chosen])
            for row in range(len(grid.texts))
            if grid.texts[row][0]
        ]
        names = tuple(heads[place + 1] for place, *_ in chosen)
        yield from _compared(found, names, _asked(pairs, shared), min(share for *_, share in chosen))


def _of_time(query: Query, found: FoundTable, columns: list[int]) -> list[int]:
    """Those of the time that the question names, where the table has any; of as long a time, where some are."""
    when, report = read_period(query.fullest), report_period(found.document)
    own = (columns_of(found.table, when, report) if when.year else None) or frozenset()
    named = [column for column in columns if column in own]
    length, heads = length_asked(query.fullest, when), found.table.heads
    lasting = [c for c in named if not is_of_other_length(period_from(heads[c].measure.period), length, report)]
    return lasting or named or columns


def _joined(path: Sequence[str]) -> str:
    """`("December 31,", "2022")` -> `"December 31, 2022"`."""
    return ", ".join(dict.fromkeys(part.strip(" :,") for part in path if part.strip(" :,")))


def _labels(grid: Grid, row: int) -> list[tuple[int, str]]:
    """The cells that may name a row, with their columns: those that begin with no number."""
    return [(column, text) for column, text in enumerate(grid.texts[row]) if text and not text[0].isdigit()]


def _place(
    side: frozenset[str], shared: frozenset[str], labels: Sequence[Sequence[tuple[int, str]]]
) -> tuple[int, int, float] | None:
    """(place, column, share) of the one label that holds the words of a side; None where none does, or two do alike.

    Words that no label holds are not of the label: "Compare the iPhone and Mac net sales of Apple".
    """
    labelled = [(place, column, frozenset(terms(text))) for place, own in enumerate(labels) for column, text in own]
    side = side & frozenset().union(*(words for *_, words in labelled))
    if not side:
        return None
    found = [
        (len(words & (side | shared)) / len(words), place, column) for place, column, words in labelled if side <= words
    ]
    if not found:
        return None
    found.sort(key=lambda scored: -scored[0])
    is_one = len(found) == 1 or found[1][0] < found[0][0] or found[1][1] == found[0][1]
    return (found[0][1], found[0][2], found[0][0]) if is_one and found[0][0] >= NAMED else None


def _asked(
    pairs: Sequence[tuple[str, list[tuple[int, int]]]], shared: frozenset[str]
) -> Sequence[tuple[str, list[tuple[int, int]]]]:
    """The attributes that the question names, where it names some: "compare the price of A and B"."""
    return [pair for pair in pairs if shared & frozenset(terms(pair[0]))] or pairs


def _compared(
    found: FoundTable, names: tuple[str, ...], pairs: Sequence[tuple[str, list[tuple[int, int]]]], share: float
) -> Iterator[Sides]:
    """With the attributes that every side has."""
    attributes = []
    for name, places in pairs:
        cells = found.table.at(places)
        if len(cells) == len(places) and any(cell.text for cell in cells):
            attributes.append((name, tuple(cells)))
    if attributes:
        yield Sides(found, names, tuple(attributes[:MOST_AT_ONCE]), share)


# --- what is said of them? -------------------------------------------------------------------------------------------


def _told(
    answer: Answer,
    query: Query,
    plan: Plan,
    retrieved: Retrieved,
    sides: Sides,
    chance: float,
    library: LibraryReader,
) -> Answer:
    asks_share = any(pattern.search(query.fullest) for pattern in (_ASKS_SHARE, PERCENT))
    asks_difference = "difference" in words(query.fullest)
    difference = _difference(sides.attributes[0][1]) if asks_difference and len(sides.attributes) == 1 else ""
    every = [cell for _, own in sides.attributes for cell in own]
    citations = cell_citations(sides.found, every, 1, chance, retrieved, library)
    claims: list[Claim] = []
    content = ""
    at = 0
    for name, cells in sides.attributes:
        values = ", ".join(f"{_value(cell)} ({side})" for cell, side in zip(cells, sides.names, strict=True))
        line = f"{name}: {values}{_share(cells, sides.names) if asks_share else ''}"
        line += f"; the difference is {difference}" * bool(difference)
        start = len(content) + 1 if content else 0
        content = f"{content}\n{line} [1]".lstrip()
        places = tuple(range(at, at + len(cells)))
        claims.append(Claim(line, start, len(content), (1,), places, "supported", chance))
        at += len(cells)
    document = sides.found.document
    return replace(
        answer,
        content=content,
        short=difference or answer.short,
        figures=(_figure(sides),),
        claims=tuple(claims),
        citations=citations,
        sources=sources(citations, {document.id: document}),
        related_documents=related(retrieved, citations),
        confidence=Confidence(chance, level(chance), _reason(chance)),
        sufficiency=Sufficiency(True, chance),
        strategy=plan.strategy,
        model=EXTRACTIVE,
        metrics=sizes(retrieved),
    )


def _value(cell: StoredCell) -> str:
    """As a person would write it: a number with the scale that its table is in."""
    return shown_value(cell.text, cell.unit, cell.scale) if cell.scale and cell.number is not None else cell.text


def _share(cells: Sequence[StoredCell], names: Sequence[str]) -> str:
    """What the one amount of money is of the other, in per cent."""
    numbers = [cell.number or 0.0 for cell in cells if cell.unit not in ("", "%")]
    are_times = any(map(read_period, names))
    if are_times or len(numbers) != 2 or len({(cell.unit, cell.scale) for cell in cells}) != 1 or min(numbers) <= 0.0:
        return ""
    return f"; {names[0]} is {compared(numbers[0], numbers[1]).share:.1f}% of {names[1]}"


def _difference(cells: Sequence[StoredCell]) -> str:
    """Of two numbers in one measure, the first less the second."""
    if len(cells) != 2 or len({(cell.unit, cell.scale) for cell in cells}) != 1 or None in {c.number for c in cells}:
        return ""
    decimals = max(decimals_of(cell.text) for cell in cells)
    first, second = (cell.number or 0.0 for cell in cells)
    return shown_value(f"{first - second:,.{decimals}f}", cells[0].unit, cells[0].scale)


def _reason(chance: float) -> str:
    return "one table has a row for each" if chance >= HIGH else "another row of a table may be the right one"


def _figure(sides: Sides) -> Figure:
    """A row for each attribute, a column for each side; every value is marked."""
    table = sides.found.table
    rows = [("", *sides.names), *((name, *(cell.text for cell in cells)) for name, cells in sides.attributes)]
    used = [
        (row, column, cell, name)
        for row, (name, cells) in enumerate(sides.attributes, 1)
        for column, cell in enumerate(cells, 1)
    ]
    return Figure(
        label=" / ".join(sides.names),
        value="",
        number=None,
        unit="",
        scale="",
        operation=OPERATION,
        formula="",
        cells=tuple(
            FigureCell(
                text=cell.text,
                row_path=(name,),
                column_path=(sides.names[column - 1],),
                number=cell.number,
                unit=cell.unit,
                scale=cell.scale,
                period=cell.period,
                citation=place,
            )
            for place, (_, column, cell, name) in enumerate(used)
        ),
        table=tuple(rows),
        head_rows=1,
        marked=tuple((row, column) for row, column, *_ in used),
        document_id=table.document_id,
        table_number=table.number,
        page=table.page,
    )
