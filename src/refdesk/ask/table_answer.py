"""Which cells of which table answer the question? The tables among what was found, every plan over them, the likeliest.

A word of the question that the document's name, its title or the text above a table says is no word that the table
itself must hold: "Amazon's net income in 2019" is asked of Amazon's tables as "net income in 2019". Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import (
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
from refdesk.ask.draft import EXTRACTIVE
from refdesk.ask.judge import HIGH, level, related, sources
from refdesk.ask.plan_rank import describe, weights
from refdesk.ask.plans import CellPlan, TableViews, described, stated
from refdesk.ask.sheet_view import ColumnCells, RowSet, sheet_view
from refdesk.ask.table_view import AskedWords, View
from refdesk.cells import MOST_CELLS, StoredCell, StoredTable
from refdesk.library import LibraryReader
from refdesk.ports import Reader
from refdesk.tables import Grid, cell_number, grid_of, shown_value, touches
from refdesk.terms import QUERY_STOP_WORDS, alike, terms
from refdesk.types import Document, Hit

MOST_CHUNKS = 24  # whose tables are looked at
# The least chance of a figure that is shown. Of TAT-QA's even contexts, where a document has one table, .58 of the
# questions to it are then answered rightly, and .07 of those to the text by a table. Where several documents or many
# tables were found, "total revenue" stands in many of them, and a chance of .5 is right half the time (filings_dev).
SHOWN, SHOWN_AMONG_MANY = 0.4, 0.6
SUREST_AMONG_MANY = HIGH - 0.001  # whether the row of this table or of its neighbour is meant cannot be known for sure
MANY = 4  # tables
CITED = "Of the {used:,} cells that this is computed from, the first {most} are cited."
CHOSEN = "Which cells answer was decided by {model}; they were read and computed without it."
ALSO = "Also possible: {label}: {value}."
NEARLY = 0.5  # of the best chance, from which on another reading is named beside it
Pair = tuple[float, float]

FILE = "plan_choice.npz"
MOST_JUDGED = 10  # plans that a reader judges
UNKNOWN_IDF = 6.0  # of a word that no idf is known of
MOST_PLANS = 10  # of one table that are compared with those of others
MOST_TABLES = 6  # that plans are made for: the best by the words they hold and by what the search gave
MOST_ROWS_SHOWN = 8  # of the table that is drawn beside the answer
MOST_CITED = 24  # cells of a sum or a count that are cited one by one
MOST_LOOKED_AT = 100  # cells of it that are looked at one by one, not by column
MOST_ADDED = 9  # numbers from which on a formula names the first four alone


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that may hold the answer, and how well the search found it (0 to 1)."""

    table: StoredTable
    document: Document
    score: float


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A plan over one table: how it ranks among those of its table, and what tells it from those of others."""

    candidate: FoundTable
    grid: TableViews
    question: AskedWords
    plan: CellPlan
    features: NDArray[np.float32]
    chance: float = 0.0  # that it answers
    by: str = ""  # the model that chose its cells, where one did
    other: TablePlan | None = None  # nearly as likely, and gives something else

    @property
    def stated(self) -> str:
        return stated(self.plan, self.grid, self.question)


def best_plan(
    text: str, candidates: Iterable[FoundTable], idf: Mapping[str, float], number: float, reader: Reader
) -> TablePlan | None:
    """The likeliest plan over all tables; None where no table shares a word with the question."""
    found, scores = shortlist(plans_over(text, candidates, idf, number))
    if not found:
        return None
    # It has learned from tables that say 2019 and from questions that do, not from such that say FY2019.
    if judged := reader.judge_plans(alike(text.lower()), [plan.stated for plan in found]):
        scores = np.stack([scores, judged], axis=1) @ choice("judged")[:-1] + choice("judged")[-1]
    odds = np.exp(scores - max(scores.max(), 0.0))
    none = math.exp(-max(scores.max(), 0.0))  # no table answers: a score of 0
    chances = odds / (odds.sum() + none)
    first, *others = [int(place) for place in np.argsort(-chances)]
    other = (
        replace(found[others[0]], chance=float(chances[others[0]]))
        if others and chances[others[0]] >= NEARLY * chances[first]
        else None
    )
    return replace(found[first], chance=float(chances[first]), other=other)


def shortlist(found: Sequence[TablePlan]) -> tuple[list[TablePlan], NDArray[np.float64]]:
    """The likeliest plans that give different things, with their log-odds.

    What several tables say is likelier than what one does, so that the odds of plans which give the same are added.
    """
    if not found:
        return [], np.zeros(0)
    learned = choice("plans").astype(np.float64)
    scores = np.array([plan.features for plan in found]) @ learned[:-1] + learned[-1]
    best: dict[object, TablePlan] = {}
    odds: dict[object, float] = {}
    for at in np.argsort(-scores).tolist():
        key = result(found[at].plan)
        best.setdefault(key, found[at])
        odds[key] = odds.get(key, 0.0) + math.exp(min(scores[at], 50.0))
    chosen = sorted(odds, key=lambda key: -odds[key])[:MOST_JUDGED]
    return [best[key] for key in chosen], np.log([odds[key] for key in chosen])


def result(plan: CellPlan) -> object:
    """What a plan gives, so that equal results are known as such."""
    if plan.texts:
        return tuple(number if (number := cell_number(text)) is not None else text.lower() for text in plan.texts)
    return round(plan.number or 0.0, 4)


def likeliest_tables(text: str, candidates: Iterable[FoundTable], idf: Mapping[str, float]) -> list[FoundTable]:
    """The best by the words they hold and by what the search gave, as far as a question can be asked of them."""
    ranked = sorted(candidates, key=_Asked(text, idf, 0.0).worth, reverse=True)
    return [candidate for candidate in ranked if table_of(candidate.table).views]


def plans_over(text: str, candidates: Iterable[FoundTable], idf: Mapping[str, float], number: float) -> list[TablePlan]:
    """The best plans of every table that may answer; `number` is the chance that the question asks for one."""
    asked = _Asked(text, idf, number)
    ranked = sorted(candidates, key=asked.worth, reverse=True)[:MOST_TABLES]
    most = max((candidate.score for candidate in ranked), default=0.0) or 1.0
    return [plan for candidate in ranked for plan in asked.plans(candidate, candidate.score / most)]


class _Asked:
    """The words of a question and how telling each is."""

    def __init__(self, text: str, idf: Mapping[str, float], number: float) -> None:
        self.text, self.number = text, number
        self.stems = list(AskedWords(text).bits)
        self.weights = {stem: idf.get(stem, UNKNOWN_IDF) for stem in self.stems}
        self.total = sum(self.weights.values()) or 1.0

    def share(self, stems: Iterable[str]) -> float:
        """Of the question's weight, that of these words."""
        return sum(self.weights[stem] for stem in stems) / self.total

    def worth(self, candidate: FoundTable) -> float:
        own, around = vocabulary(candidate.table), context_words(candidate)
        return self.share(stem for stem in self.stems if stem in own or stem in around) + candidate.score

    def plans(self, candidate: FoundTable, relative: float) -> list[TablePlan]:
        table = table_of(candidate.table)
        if not table.views:
            return []
        around = context_words(candidate)
        held = table.views[0].vocabulary
        question = AskedWords(self.text, around=frozenset(stem for stem in around if stem not in held))
        plans = table.plans(question)
        if not plans:
            return []
        scores = weights().scores(describe(question, table, plans))
        best = np.argsort(-scores[:-1])[:MOST_PLANS]
        features = [
            self._features(table, question, plans[at], around, relative, (scores[at], scores[-1]))
            for at in best.tolist()
        ]
        return [
            TablePlan(candidate, table, question, plans[at], row)
            for at, row in zip(best.tolist(), features, strict=True)
        ]

    def _features(
        self,
        table: TableViews,
        question: AskedWords,
        plan: CellPlan,
        around: frozenset[str],
        relative: float,
        scores: Pair,
    ) -> NDArray[np.float32]:
        """`scores`: its own and that of `none`."""
        score, none = scores
        held = {stem for stem, bit in question.bits.items() if plan.mask >> bit & 1}
        missing = [stem for stem in self.stems if stem not in held and stem not in around]
        labels, sections, column = _names(table.views[plan.turned], plan)
        return np.array(
            [
                score,
                score - none,
                relative,
                self.share(held),
                self.share(stem for stem in around if stem in self.weights and stem not in held),
                self.share(missing),
                max((self.weights[stem] for stem in missing), default=0.0) / UNKNOWN_IDF,
                self._unsaid(labels),
                self._unsaid(sections),
                self._unsaid(column),
                plan.kind == "computed",
                plan.operation == "value" and plan.kind == "number",
                plan.operation == "count",
                len(plan.texts) > 1,
                plan.selections[0].kind in ("equal", "both", "any"),
                _twins(table.views[plan.turned], plan) * self._unsaid(sections),
                self.number * (plan.kind in ("number", "computed")),
                self.number * (plan.kind == "text"),
            ],
            dtype=np.float32,
        )

    def _unsaid(self, stems: frozenset[str]) -> float:
        """Share of these words that the question does not say."""
        own = [stem for stem in stems if stem not in QUERY_STOP_WORDS]
        return sum(stem not in self.weights for stem in own) / len(own) if own else 0.0


FEATURES = 18


def _names(view: View, plan: CellPlan) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The words of the rows that were chosen, of the sections they stand in, and of the column that is read."""
    rows = [row for selection in plan.selections for row in selection.rows[:4]]
    labels = frozenset(stem for row in rows for stem in view.cells[row][0])
    sections = frozenset(stem for row in rows for stem in view.sections[row])
    return labels, sections, frozenset(view.names[plan.column]) if plan.column >= 0 else frozenset()


def _twins(view: View, plan: CellPlan) -> float:
    """How many rows have the name of the one that was chosen: "Net sales" of every region."""
    row, *others = plan.selections[0].rows or (-1,)
    if others or row < 0:
        return 0.0
    return math.log(max(1, view.twins(row)))


def vocabulary(table: StoredTable) -> Container[str]:
    return sheet_view(table).vocabulary if table.cell_count > MOST_CELLS else _vocabulary(table)


@lru_cache(maxsize=512)
def _vocabulary(table: StoredTable) -> frozenset[str]:
    return frozenset(terms(" ".join(cell.text for cell in table.cells)))


def context_words(candidate: FoundTable) -> frozenset[str]:
    """What is said around the table: the document's name and title, the headings and the text above it."""
    document = candidate.document
    return _context_words(f"{document.name.replace('_', ' ')} {document.title} {candidate.table.caption}")


@lru_cache(maxsize=1024)
def _context_words(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def table_of(table: StoredTable) -> TableViews:
    if table.cell_count > MOST_CELLS:
        view = sheet_view(table)
        return TableViews(view.grid, [view])
    return _table_of(table)


@lru_cache(maxsize=128)
def _table_of(table: StoredTable) -> TableViews:
    return TableViews(grid_of(table))


@cache
def choice(name: str) -> NDArray[np.float32]:
    """The weights of the features and a constant, learned by `training/plan_choice.py`."""
    with resources.files("refdesk.assets").joinpath(FILE).open("rb") as file, np.load(file) as kept:
        learned: NDArray[np.float32] = kept[name]
    return learned


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
    read = plan.cells or _counted(plan, found.grid.views[plan.turned])
    places = tuple(dict.fromkeys(_place(grid, plan, row, column) for row, column in read[:MOST_LOOKED_AT]))
    numbers = [cell for cell in stored.at(places) if cell.number is not None]
    used = len(plan.cells) or len(plan.selections[0].rows)
    counted = [stored.columns[column].of_rows(rows).counted() for column, rows in _by_column(grid, plan, places)]
    measures = {measure for own, _ in counted for measure in own}
    unit = _shared({measure.unit for measure in measures})
    scale = _shared({measure.scale for measure in measures})
    operation = plan.operation
    if plan.texts:
        is_number = len(plan.texts) == 1 and len(numbers) == 1 and operation in ("value", "largest", "smallest")
        value = shown_value(numbers[0].text, unit, scale) if is_number else "; ".join(plan.texts)
        number = numbers[0].number if is_number else plan.number
        return FigureText(_label(found), value, number, unit, scale, operation, "", places, used)
    number = plan.number or 0.0
    if operation in ("growth", "share"):
        unit, scale = "%", ""
    elif operation in ("ratio", "count", "distinct"):
        unit, scale = "", ""
    decimals = max([own for _, own in counted], default=0) if operation not in ("count", "distinct") else 0
    if operation in ("growth", "share", "ratio", "average", "average2"):
        decimals = max(decimals, 2)
    value = shown_value(f"{number:,.{min(decimals, 4)}f}", unit, scale)
    return FigureText(_label(found), value, number, unit, scale, operation, _formula(found, value), places, used)


def _counted(plan: CellPlan, view: View) -> list[tuple[int, int]]:
    """What stands for rows that were counted: the cells they were found by, else those that name them."""
    column = plan.column if plan.column >= 0 else max(plan.selections[0].by, 0)
    rows = plan.selections[0].rows[:MOST_LOOKED_AT]
    return [(row, column if view.texts[row][column] else 0) for row in rows]


def _by_column(grid: Grid, plan: CellPlan, places: Iterable[tuple[int, int]]) -> Iterable[tuple[int, NDArray[Any]]]:
    """The rows of the stored table that were read, by column: all of them, where these places are but some."""
    if isinstance(plan.cells, ColumnCells):
        return [(plan.cells.column, grid.places.array[plan.cells.array] if isinstance(grid.places, RowSet) else [])]
    rows: dict[int, list[int]] = {}
    for row, column in places:
        rows.setdefault(column, []).append(row)
    return [(column, np.array(own)) for column, own in rows.items()]


def _place(grid: Grid, plan: CellPlan, row: int, column: int) -> tuple[int, int]:
    """Of a cell of a view, its row and column in the stored table; the name of a column stands in the head."""
    if not plan.turned:
        return grid.places[row], column
    return (grid.places[column - 1] if column else -1), row + 1


def _shared(found: Iterable[str]) -> str:
    first, *others = {*found} or {""}
    return "" if others else first


def _label(found: TablePlan) -> str:
    """What was read: the row and the column as the table names them; what was computed, in words."""
    plan, grid = found.plan, found.grid.grid
    if plan.operation == "value" and len(plan.cells) == 1 and plan.selections[0].kind in ("equal", "both", "any"):
        row, column = plan.cells[0]
        if plan.turned:
            row, column = column - 1, row + 1
        by = 0 if plan.turned else plan.selections[0].by  # the column by whose words the row was found names it
        if row >= 0 and column > 0 and by != column:
            name = (grid.texts[row][by],) if by > 0 else grid.rows[row]
            return ", ".join(filter(None, (_joined(name), _joined(grid.columns[column]))))
    said = described(plan, found.grid, found.question, for_people=True)
    return said[:1].upper() + said[1:]


def _joined(path: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(part.strip(" :,") for part in path if part.strip(" :,")))


def _formula(found: TablePlan, value: str) -> str:
    plan = found.plan
    texts = found.grid.views[plan.turned].texts
    numbers = [text for row, column in plan.cells[:MOST_ADDED] if (text := texts[row][column])]
    count = max(len(numbers), len(plan.cells) if len(plan.cells) > MOST_ADDED else 0)
    first, second = (numbers[::-1] if plan.backwards else numbers) if len(numbers) == 2 else ("", "")
    match plan.operation:
        case "sum" | "sum2":
            return f"{_listed(numbers, count)} = {value}"
        case "average" | "average2":
            return f"({_listed(numbers, count)}) / {count:,} = {value}"
        case "range":
            return f"highest − lowest of {count:,} values = {value}"
        case "difference" | "apart":
            return f"{first} − {second} = {value}"
        case "growth":
            return f"({first} − {second}) / {second} = {value}"
        case "share" | "ratio":
            return f"{first} / {second} = {value}"
    return ""


def _listed(numbers: Sequence[str], count: int) -> str:
    return " + ".join(numbers) if count < MOST_ADDED else f"{' + '.join(numbers[:4])} + … ({count:,} values)"


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
            for place, cell in enumerate(used[:MOST_CITED])
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
    found = {hit.chunk.id: hit for hit in (*retrieved.considered, *retrieved.hits)}
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

    best: TablePlan | None
    is_sure: bool
    candidates: Sequence[FoundTable]


def read_tables(query: Query, retrieved: Retrieved, library: LibraryReader, reader: Reader) -> TablesRead:
    candidates = table_candidates(retrieved, library)
    found = best_plan(query.fullest, candidates, retrieved.idf, query.number, reader)
    among_many = len(candidates) >= MANY
    is_sure = found is not None and found.chance >= (SHOWN_AMONG_MANY if among_many else SHOWN)
    if found is not None and among_many:
        found = replace(found, chance=min(found.chance, SUREST_AMONG_MANY))
    return TablesRead(found, is_sure, candidates)


def figure_answer(answer: Answer, plan: Plan, retrieved: Retrieved, found: TablePlan, library: LibraryReader) -> Answer:
    """The figure as an answer: one claim of ours, and a citation for every cell that it was read or computed from."""
    what = reading(found)
    citations = _cell_citations(found, what, retrieved, library)
    numbers = tuple(range(len(citations)))
    content, claims = "", []
    for line in filter(None, (f"{what.label}: {what.value}", what.formula)):
        start = len(content) + 2 if content else 0
        content = f"{content}\n\n{line} [1]" if content else f"{line} [1]"
        claims.append(Claim(line, start, len(content), (1,), numbers, "supported", round(found.chance, 3)))
    document = found.candidate.document
    score = round(found.chance, 3)
    return replace(
        answer,
        content=content,
        short=what.value,
        figures=(figure_of(found, what),),
        claims=tuple(claims),
        citations=citations,
        sources=sources(citations, {document.id: document}),
        related_documents=related(retrieved, citations),
        confidence=Confidence(score, level(score), "read from the cells of one table"),
        sufficiency=Sufficiency(True, score),
        notes=(*answer.notes, *_notes(found, what)),
        strategy=plan.strategy,
        model=EXTRACTIVE,
        metrics={"chunks_retrieved": len(retrieved.hits), "context_characters": 0, "context_tokens": 0},
    )


def _notes(found: TablePlan, what: FigureText) -> Iterator[str]:
    """What the reader should know of a figure."""
    if what.used > MOST_CITED:
        yield CITED.format(most=MOST_CITED, used=what.used)
    if found.by:
        yield CHOSEN.format(model=found.by)
    if found.other is not None and (other := reading(found.other)).value != what.value:
        yield ALSO.format(label=other.label, value=other.value)


def _cell_citations(
    found: TablePlan, what: FigureText, retrieved: Retrieved, library: LibraryReader
) -> tuple[Citation, ...]:
    stored, document = found.candidate.table, found.candidate.document
    used = stored.at(what.places)[:MOST_CITED]
    hits = [hit for hit in (*retrieved.hits, *retrieved.considered) if touches(hit.chunk, stored)]
    places = library.cell_places(stored, [(cell.start, cell.end) for cell in used])
    citations = []
    for cell, (page, boxes, line) in zip(used, places, strict=True):
        hit, quote = _row_of(cell, hits, line)
        citations.append(
            Citation(
                marker=1,
                document_id=document.id,
                document_name=document.name,
                chunk_id=hit.chunk.id,
                chunk_sequence=hit.chunk.sequence,
                heading_path=hit.chunk.heading_path,
                page=page,
                boxes=boxes,
                located=bool(boxes),
                quote=quote,
                relevance_score=round(found.chance, 4),
                similarity_score=hit.cosine,
                origin=(cell.start, cell.end),
            )
        )
    return tuple(citations)


def _row_of(cell: StoredCell, hits: Sequence[Hit], line: str) -> tuple[Hit, str]:
    """The hit that holds the cell and the row that it stands in; the line of the page where another part was found."""
    for hit in hits:
        for span in hit.chunk.spans:
            if span.origin <= cell.start < span.origin + span.end - span.start:
                place = span.start + cell.start - span.origin
                for sentence in hit.chunk.sentences:
                    if sentence.start <= place < sentence.end:
                        return hit, hit.chunk.text[sentence.start : sentence.end]
    return hits[0], line or cell.text
