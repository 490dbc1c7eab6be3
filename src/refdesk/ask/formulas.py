"""Computes formulas over figures: each figure is looked up in tables and cited, the arithmetic is done here.

The change of a figure is a formula too; what it was in each report, or is of each company, is looked up the same way.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

from refdesk.answer import Answer, Citation, Claim, Figure, FigureCell, Plan, Query, Retrieved, Sufficiency
from refdesk.ask.assemble import sizes
from refdesk.ask.draft import EXTRACTIVE
from refdesk.ask.figures import SCALES
from refdesk.ask.formula_text import (
    AskedFigure,
    Formula,
    Node,
    asks_for_growth,
    derived,
    formulas_in,
    without_growth,
)
from refdesk.ask.judge import HIGH, below, related, sources, sure_of
from refdesk.ask.line_items import ItemCell, Report, vectors_of
from refdesk.ask.named_figures import (
    FEW_DOCUMENTS,
    absence,
    asked_by_name,
    is_called,
    line_item,
    named_reports,
    names_held,
    plan_of,
    report_of,
    with_hits,
)
from refdesk.ask.plan_choice import TablePlan, best_plan
from refdesk.ask.sentences import asking_part
from refdesk.ask.table_answer import (
    INSTEAD,
    SHOWN,
    FigureText,
    asks_which,
    asks_yes_or_no,
    cell_citations,
    figure_of,
    reading,
    table_candidates,
)
from refdesk.ask.table_question import LEAST_LIKELY, with_named_rows
from refdesk.ask.table_view import compared
from refdesk.ask.wording import PERCENT, POSSESSIVE
from refdesk.library import LibraryReader
from refdesk.periods import TablePeriod, named_times, period_from, read_period, when_of
from refdesk.ports import Embedder, Reader
from refdesk.settings import Settings
from refdesk.tables import shown_value
from refdesk.text import terms
from refdesk.types import Scope


def change_in(
    question: str, retrieved: Retrieved, library: LibraryReader, reader: Reader
) -> tuple[list[Formula], dict[AskedFigure, TablePlan]]:
    """The change of a line item between the two times that the question names, or their sum, and the cells of both."""
    found = changed_item(question, retrieved, library, reader)
    plans = [plan for cell in found or () if (plan := plan_of(cell)) is not None]
    if found is None or len(plans) != 2:
        return [], {}
    own_name = found[1].item.name
    name = own_name[:1].lower() + own_name[1:] if own_name[1:2].islower() else own_name
    before, after = (AskedFigure(cell.item.name, cell.cell.period) for cell in found)
    first, last = Node(figure=before), Node(figure=after)
    given = {after: plans[1], before: plans[0]}
    if _SUM.search(question):
        given = dict(reversed(given.items()))
        return [Formula(f"Sum of {name}", Node("+", (first, last)), is_defined=True)], given
    root = Node("-", (last, first))
    is_percent = bool(PERCENT.search(question))
    if is_percent:
        root = Node("/", (root, first))
    return [Formula(f"Change in {name}", root, is_percent, is_change=True)], given


def growth_in(
    sides: Sequence[str], retrieved: Retrieved, library: LibraryReader, reader: Reader
) -> tuple[list[Formula], dict[AskedFigure, TablePlan]]:
    """The growth of each thing in the one time that is named for it, and the cells that it is from."""
    formulas: list[Formula] = []
    given: dict[AskedFigure, TablePlan] = {}
    for side in sides:
        found = grown_figures(side, retrieved, library, reader)
        plans = [plan for cell in found or () if (plan := plan_of(cell)) is not None]
        if found is None or len(plans) != 2:
            return [], {}
        now, then = (AskedFigure(cell.item.name, cell.cell.period) for cell in found)
        given |= {now: plans[0], then: plans[1]}
        nodes = Node(figure=now), Node(figure=then)
        name = f"Growth of {reading(plans[0]).label}"
        root = Node("/", (Node("-", nodes), nodes[1]))
        formulas.append(Formula(name, root, is_percent=True, decimals=1, is_change=True, reported=_reported(*found)))
    return formulas, given


def _reported(now: ItemCell, then: ItemCell) -> str:
    """The growth that the row itself gives: it was computed from amounts that are not rounded."""
    growth = compared(now.value, then.value).growth if then.value else 0.0
    given = [cell for cell in now.item.cells if cell.unit == "%" and abs((cell.number or 0.0) - growth) <= ROUNDED]
    nearest = min(given, key=lambda cell: abs((cell.number or 0.0) - growth), default=None)
    return nearest.text if nearest is not None else ""


ROUNDED = 0.1  # by which a percentage may differ that is computed from rounded amounts
_SUM = re.compile(r"\b(?:sum|combined|together|in total)\b", re.IGNORECASE)

# --- the figures of a formula, looked up and told ---------------------------------------------------------------------

MOST_HITS = 12  # parts of tables that a figure is looked for in
SUREST = below(HIGH)  # of several figures one may be another row's
LEAST_NAMED = 0.3  # chance of a line item that a question's own formula names; of .3 to .5 six in ten were right
OPERATION = "formula"


class LookedUp(NamedTuple):
    """A figure of the formula as a table gives it."""

    found: TablePlan
    what: FigureText
    value: float  # without a scale

    @property
    def shown(self) -> str:
        text = self.found.plan.texts[0].strip(" $€£")
        return text.strip("()-−") if self.value >= 0 else text


class FigurePorts(NamedTuple):
    """What the figures of a formula are looked up with, and where."""

    scope: Scope
    library: LibraryReader
    embedder: Embedder
    reader: Reader
    settings: Settings


def computed_answer(
    answer: Answer, plan: Plan, query: Query, is_known: bool, retrieved: Retrieved, ports: FigurePorts
) -> Answer | None:
    """What the formulas give that a question asks for; of those that it only names, where no table has the figure.

    `is_known`: a table has one. Where yes or no is asked for, the year before is told beside the year.
    """
    text, sides, library, reader = query.fullest, query.parts, ports.library, ports.reader
    times = named_times(text)
    formulas = formulas_in(text, times if len(times) > 1 else ())
    if formulas and not is_known and not asks_which(text):
        both = _with_year_before(text, times, retrieved, library) if asks_yes_or_no(query) else ()
        if both and (told := formula_answer(answer, plan, retrieved, formulas_in(text, both), ports)):
            return told
        if told := formula_answer(answer, plan, retrieved, formulas, ports):
            return told
    if formulas and formulas[0].is_defined:
        return formula_answer(answer, plan, retrieved, formulas, ports)
    if not formulas and not (is_known and len(sides) < 2) and not asks_which(text):
        grown, given = growth_in(sides or [text], retrieved, library, reader)
        if grown and (told := formula_answer(answer, plan, retrieved, grown, ports, given)):
            return told
    if formulas:
        return None
    changed, given = change_in(text, retrieved, library, reader)
    told = formula_answer(answer, plan, retrieved, changed, ports, given) if changed else None
    if told is not None and asks_which(text) and len(given) == 2:  # "in which year was it lower?" is told by that too
        higher = max(given, key=lambda asked: reading(given[asked]).number or 0.0)
        return replace(told, short=f"higher in {period_from(higher.when).year}")
    return told


def _with_year_before(text: str, times: Sequence[str], retrieved: Retrieved, library: LibraryReader) -> tuple[str, ...]:
    """The time that is asked of, else that of the newest report, and the same one a year before."""
    when = read_period(times[0]) if len(times) == 1 else TablePeriod()
    if not times:
        when = max((report.period for report in named_reports(text, retrieved, library)), key=when_of, default=when)
    if when.end or when.months or not when.year:
        return ()
    part = f"Q{when.quarter} " if when.quarter else ""
    return f"{part}{when.year}", f"{part}{when.year - 1}"


class Computed(NamedTuple):
    """What a formula gave."""

    formula: Formula
    value: float


def formula_answer(
    answer: Answer,
    plan: Plan,
    retrieved: Retrieved,
    formulas: Sequence[Formula],
    ports: FigurePorts,
    given: Mapping[AskedFigure, TablePlan] = MappingProxyType({}),
) -> Answer | None:
    """None where none can be computed: one of its figures is not found, or it divides by nothing.

    `given`: figures whose cells are known already.
    """
    library = ports.library
    counts = Counter(hit.document.id for hit in (*retrieved.hits, *retrieved.considered))
    named = [report.document.id for report in named_reports(answer.question, retrieved, library)]
    wanted = named or retrieved.preferred_documents or [document_id for document_id, _ in counts.most_common()]
    scope = replace(ports.scope, documents=tuple(wanted[:FEW_DOCUMENTS]), kinds=("table",))
    ports = ports._replace(scope=scope)
    known = {
        asked: figure for asked, found in given.items() if (figure := _figure_of(asked, found, library)) is not None
    }
    retrieved = with_hits([*given.values()], retrieved, library)
    missing: set[AskedFigure] = set()
    computed: list[Computed] = []
    between: list[tuple[AskedFigure, Node]] = []  # figures on the way that no row has
    for formula in formulas:
        is_named = formula.is_defined or formula.is_change
        root = formula.root
        for is_derived in (False, True):
            for asked in root.figures():
                if asked not in known and asked not in missing:
                    found, retrieved = _look_up(asked, retrieved, ports, is_named, is_derived=is_derived)
                    if found is not None:
                        known[asked] = found
                    else:
                        missing.add(asked)
            others = {asked: derived()[asked.what].of_time(asked.when) for asked in missing if asked.what in derived()}
            if is_derived or others.keys().isdisjoint(root.figures()):
                break
            root = root.with_parts(others)
            between += [(asked, other) for asked, other in others.items() if asked in formula.root.figures()]
        if any(not asked.may_lack for asked in missing.intersection(root.figures())):
            continue
        formula = replace(formula, root=root.without(missing))
        if _is_of_itself(formula.root, known):
            continue
        try:
            computed.append(Computed(formula, formula.root.value(_values(known))))
        except ZeroDivisionError:
            continue
    if not computed or len(computed) < len({formula.name for formula in formulas}):
        return None
    for asked, root in dict(between).items():
        computed.append(Computed(Formula(f"{asked.what}, {asked.when}", root), root.value(_values(known))))
    used = {asked for own in computed for asked in own.formula.root.figures()}
    return _told(answer, plan, retrieved, computed, {asked: known[asked] for asked in known if asked in used}, library)


def _is_of_itself(root: Node, known: Mapping[AskedFigure, LookedUp]) -> bool:
    """Are two figures that go by other names one number? Then the row of one of them was not found."""
    values = [known[asked].value for asked in set(root.figures()) if asked in known]
    return root.sign == "/" and len(values) == 2 and values[0] == values[1]


def _values(known: Mapping[AskedFigure, LookedUp]) -> dict[AskedFigure, float]:
    """Money that nothing is said of is in the scale that all other money is in: one report has one."""
    scales = {found.what.scale for found in known.values() if found.what.unit not in ("", "%")} - {""}
    shared = SCALES.get(scales.pop(), 1.0) if len(scales) == 1 else 1.0
    bare = {asked for asked, found in known.items() if not found.what.scale and found.what.unit not in ("", "%")}
    return {asked: found.value * (shared if asked in bare else 1.0) for asked, found in known.items()}


def _look_up(
    asked: AskedFigure, retrieved: Retrieved, ports: FigurePorts, is_defined: bool, *, is_derived: bool = False
) -> tuple[LookedUp | None, Retrieved]:
    """The figure, and what was found beside the rest on the way to it.

    The line item of that name in all tables of the documents; else what a question for it gives. `is_derived`: another
    figure is to be computed from it, so that only a row that is called so will do: "Cost of products" may be a part.
    """
    scope, library, embedder, reader, settings = ports
    documents = {hit.document.id: hit.document for hit in (*retrieved.hits, *retrieved.considered)}
    reports = [
        report_of(documents[document_id], library) for document_id in scope.documents if document_id in documents
    ]
    named = line_item(asked.what, asked.when, reports, reader)
    if named is not None and is_derived and not is_called(named, asked.what):
        named = None
    if named is not None and named.chance >= (LEAST_NAMED if is_defined else SHOWN):
        retrieved = with_hits([named], retrieved, library)
        return _figure_of(asked, named, library), retrieved
    if is_derived or (named is not None and named.chance >= LEAST_LIKELY):
        return None, retrieved
    text = f"What was the {asked.what}{_at(asked.when)}?"
    vector = embedder.embed_query(text)
    hits = tuple(library.search(text, vector, MOST_HITS, "hybrid", scope, settings))
    own = replace(retrieved, hits=hits, considered=hits, preferred_documents=scope.documents)
    own = with_named_rows(text, vector, own, scope, library, reader, settings)
    found = best_plan(text, table_candidates(own, library), retrieved.idf, 1.0, reader)
    every = {hit.chunk.id: hit for hit in (*retrieved.considered, *own.considered)}
    retrieved = replace(retrieved, considered=tuple(every.values()))
    if found is None or found.chance < SHOWN or found.plan.operation != "value" or len(found.plan.texts) != 1:
        return None, retrieved
    return _figure_of(asked, found, library), retrieved


def _figure_of(asked: AskedFigure, found: TablePlan, library: LibraryReader) -> LookedUp | None:
    """None where it is no number, a share of something, or of another year.

    Where a table states no scale, it is the one that other tables of the report give the same number.
    """
    what = reading(found)
    when = read_period(asked.when)
    cells = found.candidate.table.at(what.places)
    if what.number is None or what.unit == "%" or any(_is_other(cell.period, when.year) for cell in cells):
        return None
    number = abs(what.number) if _is_outflow(found) else what.number
    scales = report_of(found.candidate.document, library).scales.get(abs(number), set())
    if not what.unit and not what.scale and len(scales) == 1:
        what = replace(what, scale=next(iter(scales)))
    return LookedUp(found, what, number * SCALES.get(what.scale, 1.0))


def _is_outflow(found: TablePlan) -> bool:
    """Is every number of its row below zero, where that says which way money goes? So stand capital expenditures."""
    table = found.candidate.table
    rows = {found.grid.grid.places[row] for row, _ in found.plan.cells} if not found.plan.turned else set()
    numbers = [cell.number for cell in table.cells if cell.row in rows and cell.number is not None]
    sections = " ".join(part for row, _ in found.plan.cells for part in found.grid.grid.rows[row]) if rows else ""
    around = f"{table.caption} {sections}".lower()
    return bool(numbers) and max(numbers) < 0 and ("activities" in around or "cash flow" in around)


def _at(when: str) -> str:
    return f" {'at' if when.startswith('the end') else 'in'} {when}" if when else ""


def _is_other(period: str, year: int) -> bool:
    own = period_from(period).year
    return bool(own and year) and own != year


def _told(
    answer: Answer,
    plan: Plan,
    retrieved: Retrieved,
    computed: Sequence[Computed],
    known: dict[AskedFigure, LookedUp],
    library: LibraryReader,
) -> Answer:
    chance = SUREST
    for figure in known.values():
        chance = min(chance, figure.found.chance)
    citations: list[Citation] = []
    claims: list[Claim] = []
    lines: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
    figures: list[Figure] = []
    places: dict[AskedFigure, tuple[int, tuple[int, ...]]] = {}  # its marker and its citations
    for marker, (asked, figure) in enumerate(known.items(), 1):
        first = len(citations)
        cells = figure.found.candidate.table.at(figure.what.places)
        citations += cell_citations(figure.found.candidate, cells, marker, figure.found.chance, retrieved, library)
        own = tuple(range(first, len(citations)))
        places[asked] = marker, own
        figures.append(figure_of(figure.found, figure.what, first))
        lines.append((f"{figure.what.label}: {figure.what.value}", (marker,), own))
    results, first_lines = [], []
    for formula, value in computed:
        name, used = formula.name[:1].upper() + formula.name[1:], [*dict.fromkeys(formula.root.figures())]
        shown, unit, scale = _shown(formula, known, value)
        spelled = f"{formula.root.spelled(lambda asked: known[asked].shown)}{' × 100' * formula.is_percent}"
        own = tuple(place for asked in used for place in places[asked][1])
        told = f"{name}: {shown} = {spelled}{f'; the table says {formula.reported}' * bool(formula.reported)}"
        first_lines.append((told, tuple(sorted(places[asked][0] for asked in used)), own))
        parts = [figures[places[asked][0] - 1] for asked in used]
        results.append(_computed(name, shown, value, unit, scale, spelled, parts))
    if len(computed) == 2 and (change := _between(computed)):
        both = [tuple(sorted({*first_lines[0][part], *first_lines[1][part]})) for part in (1, 2)]
        first_lines.append((change, both[0], both[1]))
    content = ""
    sure = sure_of(chance, "computed from cells of tables")
    for text, numbers, own in (*first_lines, *lines):
        start = len(content) + 2 if content else 0
        content = f"{content}\n\n{text} {''.join(f'[{marker}]' for marker in numbers)}".lstrip()
        claims.append(Claim(text, start, len(content), numbers, own, "supported", sure.score))
    documents = {figure.found.candidate.document.id: figure.found.candidate.document for figure in known.values()}
    return replace(
        answer,
        content=content,
        short=results[0].value,
        figures=(*results, *figures),
        claims=tuple(claims),
        citations=tuple(citations),
        sources=sources(tuple(citations), documents),
        related_documents=related(retrieved, tuple(citations)),
        confidence=sure,
        sufficiency=Sufficiency(True, sure.score),
        strategy=plan.strategy,
        model=EXTRACTIVE,
        metrics=sizes(retrieved),
    )


def _between(computed: Sequence[Computed]) -> str:
    """What has become of a ratio between two times, the later of which is told first or last."""
    names = [own.formula.name.rpartition(", ") for own in computed]
    when = [read_period(name[2]) for name in names]
    if names[0][0] != names[1][0] or not all(own.year for own in when) or computed[0].formula.is_change:
        return ""
    (_, first), (_, last) = sorted(zip(when, computed, strict=True), key=lambda pair: when_of(pair[0]))
    formula, change = first.formula, last.value - first.value
    if formula.root.sign != "/":
        return ""
    shown = f"{100 * change:+.1f} percentage points" if formula.is_percent else f"{change:+,.{formula.decimals}f}"
    return f"Change in {names[0][0]}: {shown}"


def _shown(formula: Formula, known: dict[AskedFigure, LookedUp], value: float) -> tuple[str, str, str]:
    """The value as it is said, with its unit and scale: a ratio has none, a sum has those of its figures."""
    if formula.root.sign not in ("+", "-"):
        number = 100 * value if formula.is_percent else value
        return f"{number:,.{formula.decimals}f}{'%' * formula.is_percent}", "%" * formula.is_percent, ""
    units, scales = ({getattr(figure.what, name) for figure in known.values()} for name in ("unit", "scale"))
    unit, scale = (next(iter(found)) if len(found) == 1 else "" for found in (units, scales))
    shown = shown_value(f"{value / SCALES.get(scale, 1.0):,.0f}", unit, scale)
    first = formula.root.parts[1].figure
    if formula.is_change and first is not None and known[first].value:
        shown = f"{shown} ({100 * value / abs(known[first].value):.1f}%)"
    return shown, unit, scale


def _computed(
    name: str, shown: str, value: float, unit: str, scale: str, spelled: str, figures: list[Figure]
) -> Figure:
    """A row for each figure that it was computed from."""
    cells: tuple[FigureCell, ...] = tuple(cell for figure in figures for cell in figure.cells)
    rows = [("", "Value"), *((figure.label, figure.value) for figure in figures), (name, shown)]
    return Figure(
        label=name,
        value=shown,
        number=100 * value if unit == "%" else value / SCALES.get(scale, 1.0),
        unit=unit,
        scale=scale,
        operation=OPERATION,
        formula=f"{spelled} = {shown}",
        cells=cells,
        table=tuple(rows),
        head_rows=1,
        marked=((len(rows) - 1, 1),),
        document_id=figures[0].document_id,
        table_number=figures[0].table_number,
        page=figures[0].page,
    )


# --- how has a figure changed, and what is it of each company? --------------------------------------------------------

_OF_CHANGE = re.compile(  # how it is told
    r"\byear[- ]over[- ]year\b|\bper ?cent\w*|%|\([^()]*\)"
    r"|\b(?:any )?(?:change|drop|rise|fall|increase|decrease|decline|growth) (?:in|of) (?:the )?",
    re.IGNORECASE,
)


def changed_item(
    text: str, retrieved: Retrieved, library: LibraryReader, reader: Reader
) -> tuple[ItemCell, ItemCell] | None:
    """The cells of the row whose change between two times is asked for, the earlier first; None where none is sure."""
    times, vectors = named_times(text), vectors_of(reader)
    if len(times) != 2 or vectors is None:
        return None
    reports, plain = named_reports(text, retrieved, library), _OF_CHANGE.sub("", text)
    if not reports:
        return None
    absent = absence(text, reports, library, reader)
    found = [asked_by_name(plain, reports, vectors, read_period(when), absent) for when in times]
    chances = [{cell.item.name: cell.chance for cell in reversed(own)} for own in found]
    # The same row is meant in both years, or none is.
    joint = {name: chances[0][name] * chances[1][name] for name in chances[0].keys() & chances[1].keys()}
    none = math.prod(max(0.0, 1.0 - sum(own.values())) for own in chances)
    best = max(joint, key=lambda name: joint[name], default="")
    if not best or joint[best] < SHOWN * (none + sum(joint.values())):
        return None
    # The chance that it is meant, given that it is so in both.
    chance = joint[best] / (none + sum(joint.values()))
    first, last = (next(replace(cell, chance=chance) for cell in own if cell.item.name == best) for own in found)
    return first, last


def grown_figures(
    text: str, retrieved: Retrieved, library: LibraryReader, reader: Reader
) -> tuple[ItemCell, ItemCell] | None:
    """The figure whose growth in one time is asked for, in that time and in the same one a year before."""
    times, vectors = named_times(text), vectors_of(reader)
    if len(times) != 1 or vectors is None or not asks_for_growth(text):
        return None
    year = read_period(times[0]).year
    before = read_period(times[0].replace(str(year), str(year - 1)))
    reports, plain = named_reports(text, retrieved, library), _OF_CHANGE.sub("", without_growth(text))
    if not reports or before.year != year - 1:
        return None
    absent = absence(text, reports, library, reader)
    for now in asked_by_name(plain, reports, vectors, None, absent)[:1]:
        for then in asked_by_name(plain, reports, vectors, before, absent):
            is_same = then.item.table.id == now.item.table.id and then.item.row == now.item.row
            if is_same and now.chance >= SHOWN and not (now.asked_months or then.asked_months):
                return now, then
    return None


def over_time(
    query: Query, retrieved: Retrieved, library: LibraryReader, reader: Reader
) -> tuple[list[TablePlan], Retrieved]:
    """What a figure was in each of the reports, and what was found on the way to them."""
    text, vectors = asking_part(query.fullest), vectors_of(reader)
    if vectors is None:
        return [], retrieved
    found: dict[str, ItemCell] = {}
    for report in named_reports(text, retrieved, library, are_all=True):
        for cell in asked_by_name(text, [report], vectors)[:1]:
            known = found.get(cell.cell.period)
            if cell.chance >= INSTEAD and cell.cell.period and (known is None or cell.chance > known.chance):
                found[cell.cell.period] = cell
    lengths = Counter(period_from(when).length for when in found)
    usual = max(lengths, key=lambda length: lengths[length], default=0)
    of_length = [cell for when, cell in found.items() if period_from(when).length == usual]
    told = sorted(of_length, key=lambda cell: when_of(period_from(cell.cell.period)))
    plans = [plan for cell in told if (plan := plan_of(cell)) is not None]
    return (plans, with_hits(plans, retrieved, library)) if len(plans) > 1 else ([], retrieved)


def of_each_owner(
    query: Query, retrieved: Retrieved, library: LibraryReader, reader: Reader
) -> tuple[list[tuple[str, TablePlan]], Retrieved]:
    """One figure of each company that the question names, by its name there; none where it names one, or one lacks it.

    "Which had the higher revenue in 2022, Ortel or Brandau?"
    """
    text, vectors = asking_part(query.fullest), vectors_of(reader)
    reports = named_reports(text, retrieved, library) if vectors is not None else []
    by_document = {document.id: held for document, held in names_held(text, retrieved, library)}
    held = [by_document[report.document.id] for report in reports]
    shared = frozenset.intersection(*held) if held else frozenset()  # "10-Q", "Q3"
    own: dict[frozenset[str], list[Report]] = {}
    for report, whose in zip(reports, held, strict=True):
        own.setdefault(whose - shared, []).append(report)
    are_apart = all(owner_names.isdisjoint(other) for owner_names, other in combinations(own, 2))
    if vectors is None or len(own) < 2 or not all(own) or not are_apart:
        return [], retrieved
    told: list[tuple[str, TablePlan]] = []
    for whose, theirs in own.items():
        written = [word.strip(",.?!'’") for word in text.split() if whose.intersection(terms(word))]
        found = asked_by_name(_without(text, frozenset().union(*own)), theirs, vectors)[:1]
        plans = [plan for cell in found if cell.chance >= INSTEAD and (plan := plan_of(cell)) is not None]
        if not plans or not written:
            return [], retrieved
        told.append((POSSESSIVE.sub("", written[0]), plans[0]))
    return told, with_hits([plan for _, plan in told], retrieved, library)


def _without(text: str, stems: frozenset[str]) -> str:
    """Without the names of all, and what joins them and compares: "Apple or Intel"."""
    kept = [
        word for word in text.split() if stems.isdisjoint(terms(word)) and word.strip(",?").lower() not in _COMPARES
    ]
    return " ".join(kept)


_COMPARES = frozenset(
    ("or", "company", "compare", "more", "less", "higher", "lower", "larger", "smaller", "greater", "bigger")
)
