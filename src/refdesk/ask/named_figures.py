"""Which line item does a question ask for? The things that it names, in the reports that it means.

The rows of a report are ranked by `ask/line_items.py`; here is what of a question names a row, which documents are
looked through, and when the figure of the row answers rather than a plan over the tables that the search gave.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import numpy as np

from refdesk.answer import Query, Retrieved
from refdesk.ask.figures import SCALES
from refdesk.ask.formula_text import asks_for_growth
from refdesk.ask.line_items import (
    WHOLE,
    ItemCell,
    LineItem,
    Report,
    Vectors,
    Wanted,
    other_names,
    ranked,
    vectors_of,
)
from refdesk.ask.plan_choice import AT_END, NEARLY, SAME_DIGITS, FoundTable, TablePlan, report_period, table_of
from refdesk.ask.sentences import asking_part, question_words
from refdesk.ask.table_answer import INSTEAD, SHOWN, SUREST_AMONG_MANY, TablesRead, asks_which, reading
from refdesk.ask.table_question import (
    FEW,
    LEAST_LIKELY,
    QUARTER,
    asking_clause,
    core_name,
    document_words,
    things_asked,
)
from refdesk.ask.table_view import CODE, AskedWords, CellPlan, Selection
from refdesk.ask.wording import UNLIKELY
from refdesk.library import LibraryReader
from refdesk.periods import EXTENSION, TablePeriod, named_times, read_period, spoken_periods
from refdesk.ports import Reader
from refdesk.tables import plain_name, touches
from refdesk.text import terms, words
from refdesk.types import Document, Hit, Scope

SHORTEST_NAME = 2  # letters of what names a row: no R&D
MOST = 8  # documents that a series of figures is from, reports that are kept, readings of a question that are compared
MOST_REPORTS = 4  # documents that are looked through
FEW_DOCUMENTS = 2  # that are looked through where the question names none
LAST_QUARTER = 4  # its report tells what the year was
PLANNED = 0.6  # of the chance of another plan, from which on the figure that is named is likelier
NO_NUMBER = 0.1  # chance that a number is asked for, below which none is shown: "what does it mean by billed business?"
SAME = 0.02  # by which two numbers of one name may differ that are one figure: with and without minority interests
ABSENT = 0.3  # what a chance is multiplied by where the reports lack a word of what is asked for
BESIDE = 0.6  # what a chance is multiplied by for each word that is said beside the name of the row


# --- what does a question ask for? ------------------------------------------------------------------------------------


def asked_by_name(
    text: str,
    reports: Sequence[Report],
    vectors: Vectors,
    when: TablePeriod | None = None,
    is_absent: Callable[[str], bool] = lambda _: False,
) -> list[ItemCell]:
    """The cells of what the question asks for, likeliest first; `when`: one of the times that it names.

    `is_absent`: does a word stand nowhere in these documents? Beside words of a row it says that another thing is
    meant: "revenue from the sale of cars" is no revenue.

    All that it names may be one thing ("revenue" and "the cloud segment"), or one of it alone. What is said beside
    that, and stands nowhere around the row, makes it less likely.
    """
    known = frozenset(stem for report in reports for stem in document_words(report.document, text))
    clause = _without_place(asking_clause(text), reports, known)
    things = [clause[start:end] for start, end in things_asked(clause, known)]
    things = [thing for thing in things if thing.lower() not in ("much", "many") and not CODE.fullmatch(thing)]
    when = when or read_period(text)
    at_end = bool(when.end and not when.months) or AT_END.search(text) is not None
    of_quarter = QUARTER.search(text) is not None and not when.end
    stems = frozenset(stem for thing in things for stem in terms(thing)) - known - WHOLE
    row_stems = frozenset(stem for report in reports for item in report.items for stem in item.stems)
    names = _names(clause, known, vectors)
    strays = _strays(names, reports)
    names &= row_stems
    absent = frozenset(stem for stem in stems - row_stems if is_absent(stem))
    counted = frozenset(stem for thing in things if thing.lower().startswith("many ") for stem in terms(thing))
    called = frozenset(  # words that a row alone is called, or all of its words: "Gaming", "Data Center"
        stem
        for report in reports
        for item in report.items
        if len(item.stems) < 2 or item.stems <= stems
        for stem in item.stems
    )
    is_told = any(stems <= item.stems | item.around for report in reports for item in report.items)
    needed = names | (stems & called if is_told else frozenset())  # "gaming revenue" is not all revenue
    is_total = not WHOLE.isdisjoint(terms(clause))
    best: list[ItemCell] = []
    for thing in dict.fromkeys((" ".join(_apart(things)), *things)):
        thing_stems = frozenset(terms(thing))
        beside = stems - thing_stems
        if not absent <= thing_stems:
            continue

        def may_be(item: LineItem, thing_stems: Set[str] = thing_stems) -> bool:
            row_stems = item.held
            is_counted = not counted or not counted.isdisjoint(item.stems | item.around)
            return needed <= row_stems and (not absent or thing_stems.isdisjoint(item.stems)) and is_counted

        found = [
            replace(
                cell,
                chance=cell.chance
                * (ABSENT if is_total and is_in_sections(cell, reports, stems) else 1.0)
                * BESIDE
                ** (_strange(cell.item, beside) + 2 * _strange(cell.item, thing_stems & called) + 2 * len(strays)),
            )
            for cell in ranked(Wanted(thing, when, at_end, of_quarter), reports, vectors, may_be)
            if not (counted and cell.cell.unit)  # how many they are is no money and no percentage
        ][:MOST]
        if found and (not best or max(cell.chance for cell in found) > best[0].chance):
            best = sorted(found, key=lambda cell: -cell.chance)
    return best


def is_in_sections(found: ItemCell, reports: Sequence[Report], asked: Set[str]) -> bool:
    """Is its row one of several of that name in its table, none of them the whole, and the question says not which?

    "Total debt" is neither that below current liabilities nor that below the others.
    """
    item = found.item
    is_one_of_them = any(report.twins[item.table.id, item.stems] > 1 for report in reports)
    return is_one_of_them and item.stems.isdisjoint(WHOLE) and asked.isdisjoint(item.around - item.stems)


def _names(clause: str, known: Set[str], vectors: Vectors) -> frozenset[str]:
    """Stems of what it writes with a capital, beside the names of the documents, times, and short forms of rows."""
    for start, end in sorted(spoken_periods(clause), reverse=True):
        clause = f"{clause[:start]} {clause[end:]}"
    capitalised = [word for word in clause.split()[1:] if any(map(str.isupper, word)) and vectors.spelled(word) == word]
    return frozenset(stem for stem in terms(" ".join(capitalised)) if len(stem) > SHORTEST_NAME) - known - WHOLE


def _strays(names: Set[str], reports: Sequence[Report]) -> frozenset[str]:
    """Those that no row and nothing around one has: "Azure revenue" is not the revenue, though the text knows Azure."""
    report_stems = frozenset(
        stem for report in reports for item in report.items for stem in (*item.stems, *item.around)
    )
    return frozenset(names - report_stems)


def _strange(item: LineItem, asked: Set[str]) -> int:
    """How many of these words neither the row nor its surroundings have."""
    return len(asked - item.held - WHOLE)


def _without_place(clause: str, reports: Sequence[Report], known: Set[str]) -> str:
    """ "The debt on the balance sheet" is the debt: what tables are headed by, and no row, says where it stands."""
    # A page number behind a name, as a table of contents has it, makes no row.
    rows = {item.stems for report in reports for item in report.items if any(cell.period for cell in item.cells)}
    for start, end in reversed(things_asked(clause, known)):
        before = _PLACED.search(clause[:start])
        stems = frozenset(terms(clause[start:end]))
        if (
            before
            and len(stems) > 1
            and stems not in rows
            and any(stems <= above for report in reports for above in report.captions)
        ):
            clause = f"{clause[: before.start()]}{clause[end:]}"
    return clause


_PLACED = re.compile(r" (?:in|on|from|within) (?:(?:the|its|their) )?$", re.IGNORECASE)
_OWNER = re.compile(r"\b([A-Z][\w&.-]{0,40}(?: [A-Z][\w&.-]{0,40}){0,3})['’]s?\b")  # "Ortel's", "Ortel Works'"


def _apart(things: Sequence[str]) -> list[str]:
    """Those that are no part of another one."""
    return [thing for thing in things if not any(thing != other and thing in other for other in things)]


def plan_of(found: ItemCell) -> TablePlan | None:
    """The cell as a plan over its table; None where no question can be put to that."""
    table, grid = found.item.table, table_of(found.item.table)
    if not grid.views:
        return None
    row, column = found.item.row, found.cell.column
    chosen = Selection((row,), "equal", 0, 1.0, 0)
    plan = CellPlan(False, "value", (chosen,), column, 0, 0.0, "number", ((row, column),), (found.cell.text,))
    candidate = FoundTable(table, found.document, 1.0)
    nothing = np.zeros(0, np.float32)
    asked = AskedWords(found.item.name)
    return TablePlan(candidate, grid, asked, plan, nothing, chance=found.chance, asked_months=found.asked_months)


# --- where are they looked for? ---------------------------------------------------------------------------------------


def named_reports(text: str, retrieved: Retrieved, library: LibraryReader, *, are_all: bool = False) -> list[Report]:
    """The documents that the question means, as far as they have several tables; where no time is named, the newest
    ones, unless all are asked for.

    Of the documents that were preferred, those that hold most of the names in the question: "10-Q" is a name that
    reports of other companies have too.
    """
    names = names_held(text, retrieved, library)
    wanted = [document for document, _ in names]
    counts = [len(held) for _, held in names]
    most = max(counts, default=0)
    is_preferred = any(document.id in retrieved.preferred_documents for document in wanted)
    if not is_preferred and not most and len(wanted) > FEW_DOCUMENTS:
        return []
    wanted = [document for document, count in zip(wanted, counts, strict=True) if count == most]
    times = [read_period(when) for when in named_times(text)]
    if times and all(when.length == 12 and not when.end for when in times):  # reports of years say what a year was
        wanted = [document for document in wanted if report_period(document).quarter in (0, LAST_QUARTER)] or wanted
    if len(times) == 1 and times[0].quarter:
        own = [
            document
            for document in wanted
            if report_period(document).quarter and report_period(document).is_of(times[0])
        ]
        wanted = own or wanted
    if not are_all and not times:
        newest = max((_age(document) for document in wanted), default=(0, 0))
        wanted = [document for document in wanted if _age(document) == newest]
    return [
        found
        for document in wanted[: MOST if are_all else MOST_REPORTS]
        if (found := _report_of(document, library, FEW)) is not None
    ]


def names_held(text: str, retrieved: Retrieved, library: LibraryReader) -> list[tuple[Document, frozenset[str]]]:
    """The documents that the question may mean, each with the names of the question that it is called by.

    Of reports of one name, "2023 Q1 ORT" and "2023 Q3 ORT", one may have the company in its title: it is that of all.
    """
    documents = {hit.document.id: hit.document for hit in (*retrieved.hits, *retrieved.considered)}
    preferred = [documents[document_id] for document_id in retrieved.preferred_documents if document_id in documents]
    wanted = preferred or list(documents.values())
    names = question_words(asking_clause(text)).sentence.names
    held: dict[frozenset[str], frozenset[str]] = {}
    named = library.documents(Scope(documents=tuple(retrieved.preferred_documents))) if preferred else ()
    for document in (*wanted, *named):
        own = names & document_words(document, text)
        held[_series(document)] = held.get(_series(document), frozenset()) | own
    return [(document, held[_series(document)]) for document in wanted]


def _series(document: Document) -> frozenset[str]:
    """The words of its name without numbers, quarters and the like."""
    return frozenset(word for word in words(EXTENSION.sub("", document.name).replace("_", " ")) if word.isalpha())


def _age(document: Document) -> tuple[int, int]:
    period = report_period(document)
    return period.year, period.quarter


_reports: OrderedDict[tuple[str, str], Report] = OrderedDict()
_using_reports = threading.Lock()


def report_of(document: Document, library: LibraryReader) -> Report:
    found = _report_of(document, library, 0)
    assert found is not None
    return found


def _report_of(document: Document, library: LibraryReader, fewest: int) -> Report | None:
    """Kept for the next question, with the vectors of its rows; None of a document with fewer tables."""
    tables = library.document_tables(document.id)
    if len(tables) < fewest:
        return None
    key = document.id, ",".join(str(table.id) for table in tables)
    with _using_reports:
        if key in _reports:
            _reports.move_to_end(key)
            return _reports[key]
    report = Report(document, tables)
    with _using_reports:
        _reports[key] = report
        while len(_reports) > MOST:
            _reports.popitem(last=False)
    return report


def with_named_figures(
    query: Query, retrieved: Retrieved, tables: TablesRead, library: LibraryReader, reader: Reader, may_rename: bool
) -> tuple[TablesRead, Retrieved]:
    """The figure that the question names, where it is likelier than the best plan over the tables that were found.

    Where both give the same number, it is likelier than either says. `may_rename`: the row may be called otherwise.
    """
    text = asking_part(query.fullest)
    if len(named_times(text)) > 1 or query.number < NO_NUMBER or asks_which(text):
        return tables, retrieved
    reports = named_reports(text, retrieved, library)
    vectors = vectors_of(reader) if reports else None
    if vectors is None or _is_of_others(text, reports):
        return tables, retrieved
    is_absent = absence(text, reports, library, reader)
    tables = _doubted(text, tables, reports, vectors, is_absent)
    found = asked_by_name(text, reports, vectors, None, is_absent)
    if asks_for_growth(asking_clause(text)):  # an amount is no growth of it; that may be computed
        found = [cell for cell in found if cell.cell.unit == "%"]
    if not may_rename:
        asked = frozenset(terms(text))
        found = [cell for cell in found if cell.item.stems - WHOLE <= asked]
    plan = tables.best
    given = {
        _value_of(read_plan): read_plan.chance
        for read_plan in (plan, plan.other if plan else None)
        if read_plan is not None
    }
    joint = [
        replace(cell, chance=1.0 - (1.0 - cell.chance) * (1.0 - given.get(cell.value, 0.0)))
        if cell.chance >= UNLIKELY and not cell.is_part
        else cell
        for cell in found
    ]
    joint.sort(key=lambda cell: -cell.chance)
    plans = [made for cell in joint[:2] if (made := plan_of(cell)) is not None]
    if not plans or plans[0].chance < LEAST_LIKELY:
        return tables, retrieved
    best = plans[0]
    parts = {cell.value for cell in found if cell.is_part}  # a plan that reads one of these has not seen the whole
    if plan is not None and _value_of(plan) != _value_of(best) and _value_of(plan) not in parts:
        is_computed = plan.plan.kind == "computed" and plan.chance >= SHOWN > best.chance
        if is_computed or best.chance < PLANNED * plan.chance:
            return tables, retrieved
    chance = min(best.chance, SUREST_AMONG_MANY)
    other = plans[1] if len(plans) > 1 and plans[1].chance >= NEARLY * chance else None
    chosen = replace(best, chance=chance, other=other)
    is_likely = chance >= INSTEAD
    with_cited = with_hits([shown_plan for shown_plan in (chosen, other) if shown_plan is not None], retrieved, library)
    return tables._replace(best=chosen, is_sure=chance >= SHOWN, is_likely=is_likely), with_cited


def _doubted(
    text: str, tables: TablesRead, reports: Sequence[Report], vectors: Vectors, is_absent: Callable[[str], bool]
) -> TablesRead:
    """Less sure where the question names a thing that the reports, or their tables, never speak of: submarines.

    And where an amount of money is to say how many there are of something, or how it has grown; and where it is not of
    a row that the question calls by its name: "data center revenue" is not all revenue.
    """
    known = frozenset(stem for report in reports for stem in document_words(report.document, text))
    clause = asking_clause(text)
    things = frozenset(stem for start, end in things_asked(clause, known) for stem in terms(clause[start:end])) - known
    strays = _strays(_names(clause, known, vectors), reports)
    is_money = (
        tables.best is not None
        and tables.best.plan.operation == "value"
        and (clause.lower().startswith("how many ") or asks_for_growth(clause))
        and reading(tables.best).unit not in ("", "%")
    )
    passed_over = tables.best is not None and (
        _passes_over(tables.best, things, reports)
        or _counts_others(tables.best, clause)
        or is_of_one_brand(tables.best, text)
        or is_old(tables.best, text, reports)
    )
    if tables.best is None or not (strays or is_money or passed_over or any(map(is_absent, things - WHOLE))):
        return tables
    chance = tables.best.chance * ABSENT
    best = replace(tables.best, chance=chance)
    return tables._replace(best=best, is_sure=chance >= SHOWN, is_likely=chance >= INSTEAD)


def _passes_over(plan: TablePlan, things: Set[str], reports: Sequence[Report]) -> bool:
    """Has the question a row's name of which neither the row that is read nor its table has any word?"""
    if plan.plan.turned or plan.plan.operation != "value":
        return False
    around = _words_around(plan)
    names = {item.stems for report in reports for item in report.items if item.stems and item.stems <= things - WHOLE}
    return any(around.isdisjoint(name) for name in names)


def _words_around(plan: TablePlan) -> frozenset[str]:
    """Those of the rows that are read, of the heads of the table, and of the text above it."""
    table, grid = plan.candidate.table, plan.grid.grid
    texts = [table.caption, *(part for head in table.heads for part in head.path)]
    texts += [part for row, _ in plan.plan.cells for part in grid.rows[row]]
    return frozenset(terms(" ".join(texts)))


def _counts_others(plan: TablePlan, clause: str) -> bool:
    """Is it asked how many there are of something that neither the row nor its table speaks of?"""
    how, many, *what = (*clause.split()[:3], "", "")
    is_count = (how.lower(), many.lower()) == ("how", "many")
    counted = terms(what[0]) if is_count and not plan.plan.turned and plan.plan.operation == "value" else []
    return bool(counted) and _words_around(plan).isdisjoint(counted)


def is_old(plan: TablePlan, text: str, reports: Sequence[Report]) -> bool:
    """Is it of an older report than those that are meant where no time is named?"""
    newest = max(_age(report.document) for report in reports)
    return not named_times(text) and (0, 0) < _age(plan.candidate.document) < newest


def is_of_one_brand(plan: TablePlan, text: str) -> bool:
    """Is its row one of several that the table adds up, and of its name but the company's said in the question?

    "How many stores did Ortel have?" names the company, not the row "U.S. Ortel" beside "U.S. Ortel Express".
    """
    if plan.plan.turned or plan.plan.operation != "value":
        return False
    grid, own = plan.grid.grid, document_words(plan.candidate.document, text)
    row, column = plan.plan.cells[0]
    said = frozenset(terms(" ".join(grid.rows[row][-1:]))).intersection(terms(text))
    wholes = [at for at, path in enumerate(grid.rows) if WHOLE.intersection(terms(" ".join(path[-1:])))]
    return bool(said) and said <= own and any(grid.numbers[at, column] > grid.numbers[row, column] for at in wholes)


def _is_of_others(text: str, reports: Sequence[Report]) -> bool:
    """Is it the figure of somebody whom these reports, though they may speak of him, are not of?"""
    owners = _OWNER.findall(asking_clause(text))
    known = frozenset(stem for report in reports for stem in document_words(report.document, text))
    rows = frozenset(stem for report in reports for item in report.items for stem in (*item.stems, *item.around))
    return any((own := frozenset(terms(name))) and own.isdisjoint(known | rows) for name in owners)


def absence(text: str, reports: Sequence[Report], library: LibraryReader, reader: Reader) -> Callable[[str], bool]:
    """Whether a stem of the question stands nowhere in these documents; short forms stand for what does."""
    within = Scope(documents=tuple(report.document.id for report in reports))
    short = frozenset(stem for word in text.split() if reader.spelled(word) != word for stem in terms(word))
    return lambda stem: stem not in short and not library.holding([stem], within)


def is_called(plan: TablePlan, what: str) -> bool:
    """Has the row that is read this name, or another one of the same line item?"""
    rows = [plan.grid.grid.rows[row] for row, _ in plan.plan.cells] if not plan.plan.turned else []
    names = [what, *other_names(what)]
    called = [frozenset(terms(core_name(plain_name(path[-1])))) - WHOLE for path in rows if path]
    return bool(called) and all(own in [frozenset(terms(name)) - WHOLE for name in names] for own in called)


def is_amount_of_time(plan: TablePlan, text: str) -> bool:
    """Does the question name a time, and for all else its row? "What were the inventories at the end of 2022?" asks for
    an amount, however many they are.
    """
    if not named_times(text):
        return False
    clause, own = AT_END.sub("", asking_clause(text)), document_words(plan.candidate.document, text)
    things = _apart([clause[start:end] for start, end in things_asked(clause, own)])
    return len(things) == 1 and is_called(plan, things[0])


def says_ratio(plan: TablePlan, ratio: str, *, in_percent: bool) -> bool:
    """Do the names of the row, its sections and the column, or the text above, say every word of it?

    `in_percent`: it is asked for so, and an amount is none.
    """
    if in_percent and reading(plan).unit != "%":
        return False
    grid, places = plan.grid.grid, [(c - 1, r + 1) if plan.plan.turned else (r, c) for r, c in plan.plan.cells[:1]]
    paths = [part for row, column in places for part in (*grid.rows[max(row, 0)], *grid.columns[column])]
    labels = frozenset(terms(" ".join((*paths, plan.candidate.table.caption))))
    return frozenset(terms(ratio)) <= labels


def line_item(what: str, when: str, reports: Sequence[Report], reader: Reader) -> TablePlan | None:
    """The likeliest cell of a figure that is called so, at a time in words."""
    vectors = vectors_of(reader)
    if vectors is None:
        return None
    at_end = AT_END.search(f"at {when}") is not None
    every = ranked(Wanted(what, read_period(when), at_end), reports, vectors)
    if not every:
        return None
    best = every[0]
    alike = [cell for cell in every if cell.item.stems == best.item.stems and abs(cell.value / best.value - 1) <= SAME]
    return plan_of(replace(best, chance=sum(cell.chance for cell in alike))) if best.value else plan_of(best)


def _value_of(plan: TablePlan) -> float | None:
    """Of a plan that reads one number, as `ItemCell.value` is."""
    what = reading(plan)
    if plan.plan.operation != "value" or what.number is None:
        return None
    return round(abs(what.number) * SCALES.get(what.scale, 1.0), SAME_DIGITS)


def with_hits(plans: Sequence[TablePlan], retrieved: Retrieved, library: LibraryReader) -> Retrieved:
    """With a part of each table that is read, so that it can be cited."""
    added: list[Hit] = []
    for plan in plans:
        table = plan.candidate.table
        if any(touches(hit.chunk, table) for hit in (*retrieved.hits, *retrieved.considered, *added)):
            continue
        chunks = [chunk for chunk in library.document_chunks(table.document_id) if touches(chunk, table)]
        added += [Hit(chunk, plan.candidate.document, 0.0, 0.0, 0.0) for chunk in chunks]
    return replace(retrieved, considered=(*retrieved.considered, *added)) if added else retrieved
