"""Answers from table cells: the likeliest plan over the tables found, in words, with every cell cited."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import (
    CHANCE_DIGITS,
    SCORE_DIGITS,
    Answer,
    Citation,
    Claim,
    Confidence,
    Figure,
    FigureCell,
    Plan,
    Query,
    Retrieved,
    Sufficiency,
)
from refdesk.ask.assemble import sizes
from refdesk.ask.attest import PAGED
from refdesk.ask.draft import EXTRACTIVE
from refdesk.ask.judge import HIGH, MEDIUM, Relevance, below, level, related, sources
from refdesk.ask.listing import called
from refdesk.ask.plan_choice import CLAUSE, SAME_DIGITS, FoundTable, TablePlan, best_plan, place_of, read_cells
from refdesk.ask.plans import described
from refdesk.ask.sentences import asking_part, question_words
from refdesk.ask.sheet_view import ColumnCells, RowSet
from refdesk.ask.table_question import FEW, LEAST_LIKELY, asking_clause
from refdesk.ask.table_rows import asked_order, filtered_rows, head_place, ordered_rows, table_parts, years_compared
from refdesk.ask.table_view import MOST_TOLD, CellPlan, GroupedView, View, formula_of
from refdesk.ask.wording import LIKELY, NUMBER, UNLIKELY, meaning, read, said, wanted
from refdesk.library import LibraryReader
from refdesk.periods import (
    MONTH_NUMBERS,
    QUARTER_MONTHS,
    YEAR,
    TablePeriod,
    period_from,
    period_of,
    read_period,
    spoken_period,
)
from refdesk.ports import Reader
from refdesk.records import Path, StoredCell
from refdesk.tables import Grid, is_scale, shown_value, touches
from refdesk.text import terms
from refdesk.types import Document, Hit

MOST_CHUNKS = 24  # whose tables are read
# The least chance of a figure that is shown whatever the text says: of TAT-QA's even contexts .59 of the questions to a
# table are then answered rightly, and .05 of those to the text by a table; of the questions made from filings (decision
# 0011) .93 of the figures are right.
SHOWN = LIKELY
SHOWN_AMONG_FEW = 0.35  # tables: the row of another one is seldom meant; of even contexts .5 right, .11 of the text's
# What times a table has columns of is asked for in few words that it says: of TAT-QA's even contexts every such reading
# is right from here on.
TIMES = 0.15
INSTEAD = SHOWN_AMONG_FEW  # of a refusal, where a number is asked for: half of such figures are right there
SUREST_AMONG_MANY = below(HIGH)  # whether the row of this table or of its neighbour is meant cannot be known for sure
NAMED_BY = 2  # words of the question that a document is called by and another is not
CITED = "This is computed from {used:,} cells; the first {most} are cited."
CHOSEN = "{model} chose the cells; the values were read and computed without it."
OTHER_LENGTH = "This figure covers {own}; none for {asked}, as asked, was found."
TIMES_SHOWN = "Years in the table"
AMBIGUOUS = "the question could almost as well mean something else"

MOST_CAPTION = 60  # letters of a caption that tells two tables apart
MOST_ROWS_SHOWN = 8  # of the table that is drawn beside the answer
MOST_EXAMINED = 100  # cells of it that are examined one by one, not by column


# --- what is shown of it? ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FigureText:
    """A plan in words: what was read or computed, and from which cells (places in the stored table)."""

    label: str
    value: str
    number: float | None
    unit: str
    scale: str
    operation: str
    formula: str
    places: tuple[tuple[int, int], ...]
    used: int  # cells: more than these places where there are very many


def reading(found: TablePlan) -> FigureText:
    plan, stored = found.plan, found.candidate.table
    grid = found.grid.grid
    read = [
        *(read_cells(plan) or _counted(plan, found.grid.view_of(plan))),
        *years_compared(plan, found.grid.view_of(plan)),
    ]
    places = tuple(dict.fromkeys(_place(found, row, column) for row, column in read[:MOST_EXAMINED]))
    numbers = [cell for cell in stored.at(places) if cell.number is not None]
    used = len(read) if plan.cells else len(plan.selections[0].rows)
    counted = [stored.columns[column].of_rows(rows).counted() for column, rows in _by_column(grid, plan, places)]
    measures = {measure for own, _ in counted for measure in own}
    unit = _shared({measure.unit for measure in measures})
    scale = _shared({measure.scale for measure in measures})
    operation = plan.operation
    if plan.texts:
        same = {(cell.number, cell.unit, cell.scale) for cell in numbers}  # a total may stand in two rows of a table
        is_value = operation in ("value", "largest", "smallest") and not found.label
        is_number = is_value and len(plan.texts) == len(same) == 1
        value = shown_value(numbers[0].text, unit, scale) if is_number else "; ".join(plan.texts)
        number = numbers[0].number if is_number else plan.number
        formula = found.formula
        if plan.grouped is not None:
            value, formula = _of_groups(plan, plan.grouped, unit, scale)
        return FigureText(_label(found), value, number, unit, scale, operation, formula, places, used)
    number = plan.number or 0.0
    if operation in ("growth", "share"):
        unit, scale = "%", ""
    elif operation in ("ratio", "count", "distinct"):
        unit, scale = "", ""
    decimals = max([own for _, own in counted], default=0) if operation not in ("count", "distinct") else 0
    if operation in ("growth", "share", "ratio", "average", "average2"):
        decimals = max(decimals, 2)
    value = shown_value(f"{number:,.{min(decimals, SAME_DIGITS)}f}", unit, scale)
    return FigureText(
        _label(found),
        value,
        number,
        unit,
        scale,
        operation,
        formula_of(found.plan, found.grid.view_of(found.plan), value),
        places,
        used,
    )


def shown_figure(found: TablePlan) -> str:
    """What is shown as its value, with the unit and scale of its column: "0.98 million EUR"."""
    return reading(found).value


def _of_groups(plan: CellPlan, view: GroupedView, unit: str, scale: str) -> tuple[str, str]:
    """What groups give, and what each was compared by: "North", "North: total Amount 1,250; South: …"."""
    if plan.column > 0:
        return "; ".join(shown_value(text, unit, scale) for text in plan.texts), ""
    by = plan.selections[0].by
    head = " ".join(view.grid.columns[by]) if by > 0 else ""
    amounts = [(view.texts[row][0], shown_value(view.texts[row][by], unit, scale)) for row, _ in plan.cells]
    return "; ".join(plan.texts), "; ".join(f"{text}: {head} {amount}" for text, amount in amounts) if head else ""


def _place(found: TablePlan, row: int, column: int) -> tuple[int, int]:
    """Of a cell of a view, its row and column in the stored table; of a column's name, the cell of the head."""
    place = place_of(found.grid.grid, found.plan, row, column)
    return place if place[0] >= 0 else head_place(found.candidate.table, place[1])


def _counted(plan: CellPlan, view: View) -> list[tuple[int, int]]:
    """The cells that show which rows were counted: those they were found by, else those that name them."""
    column = plan.column if plan.column >= 0 else max(plan.selections[0].by, 0)
    rows = plan.selections[0].rows[:MOST_EXAMINED]
    return [(row, column if view.texts[row][column] else 0) for row in rows]


def _by_column(grid: Grid, plan: CellPlan, places: Iterable[tuple[int, int]]) -> Iterable[tuple[int, NDArray[Any]]]:
    """The rows of the stored table that were read, by column: all of them, where these places are but some."""
    if isinstance(plan.cells, ColumnCells):
        return [(plan.cells.column, grid.places.array[plan.cells.array] if isinstance(grid.places, RowSet) else [])]
    rows: dict[int, list[int]] = {}
    for row, column in places:
        rows.setdefault(column, []).append(row)
    return [(column, np.array(own)) for column, own in rows.items()]


def _shared(found: Iterable[str]) -> str:
    first, *others = {*found} or {""}
    return "" if others else first


def _label(found: TablePlan) -> str:
    """What was read: the row and the column as the table names them; what was computed, in words."""
    plan, grid = found.plan, found.grid.grid
    if found.label:
        return _joined([found.label])
    if _gives_times(plan):
        return TIMES_SHOWN
    if plan.grouped is None and plan.operation == "value" and plan.selections[0].kind in ("equal", "both", "any"):
        places = [(column - 1, row + 1) if plan.turned else (row, column) for row, column in plan.cells]
        row, column = places[0]
        # The columns by whose words the row was found name it.
        chosen = plan.selections[0].conditions or plan.selections
        by = [0] if plan.turned else [selection.by for selection in chosen]
        is_one = all(other == column and _same_name(grid, one, row) for one, other in places)
        if is_one and row >= 0 and column > 0 and column not in by:
            name = tuple(grid.texts[row][other] for other in by) if max(by) > 0 else _row_name(found, row)
            head = [part for part in grid.columns[column] if not is_scale(part)]
            own = period_from(found.candidate.table.heads[column].measure.period)
            if own.end and read_period(" ".join(head)) == TablePeriod(own.year):  # "2023" over what three months were
                head = [*(part for part in head if not read_period(part)), spoken_period(own)]
            return ", ".join(filter(None, (_joined(name), _joined(head))))
    description = described(plan, found.grid, found.question, for_people=True)
    return description[:1].upper() + description[1:]


def _same_name(grid: Grid, number: int, other: int) -> bool:
    return number == other or (min(number, other) >= 0 and grid.rows[number][-1:] == grid.rows[other][-1:])


def _row_name(found: TablePlan, row: int) -> Path:
    """The label of a row; its section too where several rows have that label, or where the question speaks of it."""
    path, view = found.grid.grid.rows[row], found.grid.views[0]
    asks_of_section = found.question.match(view.sections[row])[0] & ~found.question.match(view.cells[row][0])[0]
    return path if asks_of_section or view.twins(row) > 1 else path[-1:]


def _joined(path: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(part.strip(" :,") for part in path if part.strip(" :,")))


def figure_of(found: TablePlan, what: FigureText, first_citation: int = 0) -> Figure:
    """The figure as it is handed on: every cell that was used, and the part of the table that is drawn."""
    stored, grid = found.candidate.table, found.grid.grid
    used = stored.at(what.places)
    drawn = sorted({*range(stored.head_rows), *[cell.row for cell in used][:MOST_ROWS_SHOWN]})
    return Figure(
        label=what.label,
        value=what.value,
        number=what.number,
        unit=what.unit,
        scale=what.scale,
        operation=what.operation,
        formula=what.formula,
        cells=tuple(
            FigureCell(
                text=cell.text,
                row_path=_row_path(grid, cell.row),
                column_path=grid.columns[cell.column],
                number=cell.number,
                unit=cell.unit,
                scale=cell.scale,
                period=cell.period,
                citation=first_citation + place,
            )
            for place, cell in enumerate(used[:MOST_TOLD])
        ),
        table=tuple(map(tuple, stored.some_rows(drawn))),
        head_rows=stored.head_rows,
        marked=tuple((drawn.index(cell.row), cell.column) for cell in used if cell.row in drawn),
        document_id=stored.document_id,
        table_number=stored.number,
        page=stored.page,
    )


def _row_path(grid: Grid, row: int) -> tuple[str, ...]:
    """Of a row of the stored table; a row of the head has none."""
    at = bisect_left(grid.places, row)
    return grid.rows[at] if at < len(grid.places) and grid.places[at] == row else ()


# --- the answer -------------------------------------------------------------------------------------------------------


def table_candidates(retrieved: Retrieved, library: LibraryReader) -> list[FoundTable]:
    """The tables of which some part was found, with the score of the best part."""
    # Hits keep the scores of the search here, even where a reader of prose has reordered them.
    found = {hit.chunk.id: hit for hit in (*retrieved.hits, *retrieved.considered)}
    ranked = sorted(found.values(), key=lambda hit: (hit.chunk.kind != "table", -hit.score))[:MOST_CHUNKS]
    documents = {hit.document.id: hit.document for hit in ranked}
    found_tables = []
    for table in library.tables([hit.chunk.id for hit in ranked]):
        scores = [hit.score for hit in ranked if touches(hit.chunk, table)]  # none: it stands between two parts
        if table.is_loaded and scores:
            found_tables.append(FoundTable(table, documents[table.document_id], max(scores)))
    return found_tables


class TablesRead(NamedTuple):
    """The likeliest plan over the tables that were found, and whether it is likely enough to be shown."""

    best: TablePlan | None = None
    is_sure: bool = False
    candidates: Sequence[FoundTable] = ()
    is_likely: bool = False  # more so than that nothing answers
    parts: TablePlan | None = None  # what a table lists under the name that several things are asked of


def likelier_answer(
    told: Answer,
    begun: Answer,
    query: Query,
    plan: Plan,
    retrieved: Retrieved,
    tables: TablesRead,
    library: LibraryReader,
) -> Answer:
    """What the text told, or the figure, where a number is asked for and that is likelier to be right; or what a
    table lists, where several things are.

    What the text told is never called sure where a table may give another number.
    """
    best = tables.best
    if tables.parts and (told.confidence.score < tables.parts.chance or _is_of_rows(told, retrieved)):
        return figure_answer(begun, plan, retrieved, tables.parts, library)
    if best is None:
        return told
    agrees = any(text and text in told.content for text in best.plan.texts)
    # The cell says it more plainly than its row.
    if agrees and best.chance >= LEAST_LIKELY and _quotes_rows(told, retrieved):
        return figure_answer(begun, plan, retrieved, best, library)
    asks = meaning(asking_clause(query.fullest)).asks  # yes or no is no number
    if query.number < NUMBER or not asks:
        return told
    least = max(told.confidence.score * _says_number(told, query), LEAST_LIKELY) if told.is_answered else INSTEAD
    if best.chance + (best.other.chance if best.other else 0.0) >= least:  # both readings are said
        return figure_answer(begun, plan, retrieved, best, library)
    if told.confidence.level != "high" or best.chance < UNLIKELY or agrees:
        return told
    return replace(told, confidence=Confidence(below(HIGH), "medium", "a table may give another number"))


def _quotes_rows(told: Answer, retrieved: Retrieved) -> bool:
    """Is it rows of one part of a table, and nothing else?"""
    return _is_of_rows(told, retrieved) and len({citation.chunk_id for citation in told.citations}) == 1


def _is_of_rows(told: Answer, retrieved: Retrieved) -> bool:
    kinds = {hit.chunk.id: hit.chunk.kind for hit in (*retrieved.hits, *retrieved.considered)}
    return told.is_answered and all(kinds.get(citation.chunk_id) == "table" for citation in told.citations)


def _says_number(answer: Answer, query: Query) -> bool:
    """Does it hold a number that the question does not say itself, and not of another year?"""
    asked, years = read(query.fullest).numbers, period_of(query.fullest).years
    return any(
        read(claim.text).numbers - asked
        and not (years and (own := period_of(claim.text).years) and own.isdisjoint(years))
        for claim in answer.claims
    )


def asks_for_figure(query: Query) -> bool:
    """May the cell of a row answer it? Not what asks for a reason, somebody, a place, or for yes or no."""
    asks = meaning(asking_clause(asking_part(query.fullest))).asks
    return query.intent != "analytical" and asks.partition(" ")[0] in ("what", "how", "which")


_WHICH = re.compile(r"(?:(?:in|at|on|for|by|during|of) )?which ", re.IGNORECASE)


def asks_which(text: str) -> bool:
    """Does it ask for one of several things? "Which segment grew most?" is answered by a name, not by a number."""
    return _WHICH.match(asking_clause(asking_part(text))) is not None


def asks_yes_or_no(query: Query) -> bool:
    return not meaning(asking_clause(asking_part(query.fullest))).asks


def why_no_table(query: Query, retrieved: Retrieved, relevance: Relevance | None = None) -> str | None:
    """Why no cell can answer; None where one may."""
    if query.intent == "summary":
        return "a summary"
    if wanted(query) == "steps":
        return "no cell says how something is done"
    clause = asking_clause(asking_part(query.fullest))  # "Answer in millions" names nothing
    names = relevance.missing_names if relevance else ()
    missing = [name for name in names if name in clause and name.lower() not in MONTH_NUMBERS]  # "2026-02" is one too
    if any(not retrieved.named_otherwise.issuperset(terms(name)) for name in missing):
        return "what the question names is not there"
    return None


def read_tables(
    query: Query, retrieved: Retrieved, library: LibraryReader, reader: Reader, may_rename: bool
) -> TablesRead:
    """`may_rename`: rows may be called otherwise than the question does."""
    candidates = table_candidates(retrieved, library)
    asked, around = asking_part(query.fullest), (candidates, retrieved.idf)
    unknown = frozenset(stem for stem, count in library.frequencies(terms(asked)).items() if not count)
    found = best_plan(asked, *around, query.number, reader, may_rename=may_rename, unknown=unknown)
    if found is not None and found.tells_its_only_year:
        found = None
    among_many = len(candidates) >= FEW
    # Of several in an order the names are asked for, and no number.
    ordered = ordered_rows(asked, lambda text: best_plan(text, *around, 0.0, reader, may_rename=False, unknown=unknown))
    if ordered is not None and ordered.chance >= LEAST_LIKELY:
        chance = min(ordered.chance, SUREST_AMONG_MANY)
        return TablesRead(replace(ordered, chance=chance), True, candidates)
    least = SHOWN if among_many else TIMES if found and _gives_times(found.plan) else SHOWN_AMONG_FEW
    is_sure = found is not None and found.chance >= least
    is_likely = found is not None and found.chance >= INSTEAD and query.number >= NUMBER
    if found is not None and among_many:
        found = replace(found, chance=min(found.chance, SUREST_AMONG_MANY))
    return TablesRead(found, is_sure, candidates, is_likely)


def with_parts(found: TablesRead, query: Query, retrieved: Retrieved) -> TablesRead:
    """With what a table lists under the name of what is asked for, or over or under a number, where several may be."""
    clause, sort = asking_part(query.fullest), wanted(query)
    if asked_order(clause) or len(query.parts) > 1:  # "the two largest" are not all of a total, nor are two sides
        return found
    if found.best and any(chosen.kind in ("max", "min") for chosen in found.best.plan.selections):
        return found  # neither is the highest
    asks = meaning(asking_clause(clause)).asks.partition(" ")[0]
    tables = [*found.candidates, *([found.best.candidate] if found.best else ())]
    passages = [hit.chunk.text for hit in (*retrieved.hits, *retrieved.considered)]
    parts = None
    if sort == "several" or (sort == "one" and query.number < NUMBER and asks in ("what", "which")):
        parts = table_parts(clause, tables, passages, is_list=sort == "several")
    # One amount, or what it is made of? The likelier of both, each as likely as it is asked for.
    amount = query.number * found.best.chance if found.best is not None and sort == "one" else 0.0
    if parts is not None and amount > (1.0 - query.number) * parts.chance:
        return found
    if parts is None and (sort == "several" or asks_which(query.fullest)):
        parts = filtered_rows(clause, tables)
    return found._replace(parts=parts)


def _gives_times(plan: CellPlan) -> bool:
    """Does it tell what times all columns of the table are of?"""
    return plan.operation == "year" and plan.selections[0].kind == "all"


def of_named_document(found: TablesRead, query: Query, retrieved: Retrieved) -> TablesRead:
    """Without a doubtful figure, where another document is called by words of the question that its own is not:
    "the total on the retail receipt".
    """
    if found.best is None or found.best.chance >= SHOWN:
        return found
    asked = question_words(query.fullest).metric
    own = len(asked & called(found.best.candidate.document))
    others = [len(asked & called(hit.document)) for hit in retrieved.hits]
    is_other = max(others, default=0) >= own + NAMED_BY
    return TablesRead(candidates=found.candidates) if is_other else found


def figure_answer(answer: Answer, plan: Plan, retrieved: Retrieved, found: TablePlan, library: LibraryReader) -> Answer:
    """The figure as an answer: claims of ours, and a citation for every cell that they were read or computed from.

    A reading that is nearly as likely and gives something else is added, with its own cells.
    """
    what = reading(found)
    other = reading(found.other) if found.other is not None else None
    if other is not None and other.value == what.value:
        other = None
    if other is not None and found.other is not None and other.label == what.label:  # then the tables tell them apart
        what, other = _with_caption(what, found), _with_caption(other, found.other)
    told = _Told(retrieved, library)
    told.add(found, what, f"{what.label}: {what.value}", what.formula)
    if other is not None and found.other is not None:
        told.add(found.other, other, said("also", answer.question).format(label=other.label, value=other.value))
    reason = AMBIGUOUS if other else "read from the cells of one table"
    chance = min(found.chance, below(MEDIUM)) if found.asked_months else found.chance
    told_answer = told.as_answer(answer, plan, what.value, chance, reason)
    return replace(told_answer, notes=(*answer.notes, *_notes(found, what)))


def series_answer(
    answer: Answer,
    plan: Plan,
    retrieved: Retrieved,
    found: Sequence[TablePlan],
    library: LibraryReader,
    names: Sequence[str] = (),
) -> Answer:
    """One figure after another, each with its time and its cell; `names`: whose they are."""
    told = _Told(retrieved, library)
    for number, figure_plan in enumerate(found):
        what = reading(figure_plan)
        told.add(figure_plan, what, f"{f'{names[number]}: ' if names else ''}{what.label}: {what.value}")
    last = reading(found[-1])
    chance = min(SUREST_AMONG_MANY, *(figure_plan.chance for figure_plan in found))
    return told.as_answer(answer, plan, last.value, chance, "read from the cells of several tables")


def _with_caption(what: FigureText, found: TablePlan) -> FigureText:
    caption = CLAUSE.split(found.candidate.table.caption)[-1].strip()
    if len(caption) > MOST_CAPTION:  # its last words
        caption = caption[-MOST_CAPTION:].partition(" ")[2]
    return replace(what, label=f"{what.label} ({caption})") if caption else what


class _Told:
    """Figures as text: lines with their markers, and what proves each."""

    def __init__(self, retrieved: Retrieved, library: LibraryReader) -> None:
        self._retrieved, self._library = retrieved, library
        self.content = ""
        self.claims: list[Claim] = []
        self.citations: list[Citation] = []
        self.figures: list[Figure] = []
        self.documents: dict[str, Document] = {}

    def add(self, found: TablePlan, what: FigureText, *lines: str) -> None:
        marker, first = len(self.figures) + 1, len(self.citations)
        self.figures.append(figure_of(found, what, first))
        cells = found.candidate.table.at(what.places)[:MOST_TOLD]
        self.citations += cell_citations(found.candidate, cells, marker, found.chance, self._retrieved, self._library)
        numbers = tuple(range(first, len(self.citations)))
        for line in filter(None, lines):
            start = len(self.content) + 2 if self.content else 0
            self.content = f"{self.content}\n\n{line} [{marker}]".lstrip()
            chance = round(found.chance, CHANCE_DIGITS)
            self.claims.append(Claim(line, start, len(self.content), (marker,), numbers, "supported", chance))
        self.documents[found.candidate.document.id] = found.candidate.document

    def as_answer(self, answer: Answer, plan: Plan, short: str, chance: float, reason: str) -> Answer:
        score, citations = round(chance, CHANCE_DIGITS), tuple(self.citations)
        return replace(
            answer,
            content=self.content,
            short=short,
            figures=tuple(self.figures),
            claims=tuple(self.claims),
            citations=citations,
            sources=sources(citations, self.documents),
            related_documents=related(self._retrieved, citations),
            confidence=Confidence(score, level(score), reason),
            sufficiency=Sufficiency(True, score),
            strategy=plan.strategy,
            model=EXTRACTIVE,
            metrics=sizes(self._retrieved),
        )


def _notes(found: TablePlan, what: FigureText) -> Iterator[str]:
    """What the reader should know of a figure."""
    if what.used > MOST_TOLD:
        yield CITED.format(most=MOST_TOLD, used=what.used)
    if found.asked_months:
        own = {period_from(cell.period).length for cell in found.candidate.table.at(what.places) if cell.period}
        yield OTHER_LENGTH.format(own=_spoken_length(max(own, default=0)), asked=_spoken_length(found.asked_months))
    if found.by:
        yield CHOSEN.format(model=found.by)


def _spoken_length(months: int) -> str:
    spoken = {YEAR: "a year", QUARTER_MONTHS: "a quarter"}
    return spoken.get(months, f"{months} month{'s' * (months != 1)}")


def cell_citations(
    found: FoundTable,
    cells: Sequence[StoredCell],
    marker: int,
    chance: float,
    retrieved: Retrieved,
    library: LibraryReader,
) -> tuple[Citation, ...]:
    """One for each cell, with its row."""
    table, document = found.table, found.document
    hits = [hit for hit in (*retrieved.hits, *retrieved.considered) if touches(hit.chunk, table)]
    places = library.cell_places(table, [(cell.start, cell.end) for cell in cells])
    citations = []
    for cell, (page, boxes, line) in zip(cells, places, strict=True):
        hit, quote = _row_of(cell, hits, line)
        citations.append(
            Citation(
                marker=marker,
                document_id=document.id,
                document_name=document.name,
                chunk_id=hit.chunk.id,
                chunk_sequence=hit.chunk.sequence,
                heading_path=hit.chunk.heading_path,
                page=page,
                boxes=boxes,
                located=bool(boxes) or document.format not in PAGED,  # `origin` places it
                quote=quote,
                relevance_score=round(hit.score, SCORE_DIGITS),
                similarity_score=hit.cosine,
                origin=(cell.start, cell.end),
                support_score=round(chance, SCORE_DIGITS),
            )
        )
    return tuple(citations)


def _row_of(cell: StoredCell, hits: Sequence[Hit], line: str) -> tuple[Hit, str]:
    """The hit that holds the cell and its row; the line of the page where another part was found."""
    for hit in hits:
        for span in hit.chunk.spans:
            if span.origin <= cell.start < span.origin + span.end - span.start:
                place = span.start + cell.start - span.origin
                for sentence in hit.chunk.sentences:
                    if sentence.start <= place < sentence.end:
                        return hit, hit.chunk.text[sentence.start : sentence.end]
    return hits[0], line or cell.text
