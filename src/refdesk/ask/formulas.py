"""What does a formula over figures give? One that the question defines, or that a ratio is known by.

    "DPO is defined as: 365 * (average accounts payable between FY2016 and FY2017) / FY2017 cost of sales"
    "What is the FY2015 - FY2017 3 year average of capex as a % of revenue?"      "What was the current ratio in 2022?"

Read into a tree of figures with their times; each figure is looked up in tables and cited, the arithmetic is done here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from refdesk.answer import Answer, Citation, Claim, Confidence, Figure, FigureCell, Plan, Retrieved, Sufficiency
from refdesk.ask.changed_figures import changed_item
from refdesk.ask.draft import EXTRACTIVE
from refdesk.ask.figures import SCALES
from refdesk.ask.judge import HIGH, level, related, sources
from refdesk.ask.named_figures import line_item, named_reports, report_of, with_hits
from refdesk.ask.plan_choice import TablePlan, best_plan
from refdesk.ask.table_answer import FigureText, cell_citations, figure_of, reading, table_candidates
from refdesk.ask.table_question import with_named_rows
from refdesk.library import LibraryReader
from refdesk.periods import period_from, read_period, spoken_periods
from refdesk.ports import Embedder, Reader
from refdesk.settings import Settings
from refdesk.tables import shown_value
from refdesk.text import asset_lines
from refdesk.types import Scope

MOST_FIGURES = 12  # of a formula
BEFORE_NAMES, BEFORE_DEFINED = frozenset(("the", "and", "where", "if")), frozenset(("is", "are", "being"))
BEFORE_FIGURES, BEHIND_FIGURES = frozenset(("the", "its")), frozenset(("in", "for", "of", "at", "during", "the"))
MOST_YEARS = 10  # of an average over years
_DEFINED = re.compile(r"\b(?:defined|calculated|computed|given) (?:as|by)\b:?", re.IGNORECASE)
_ENDED = re.compile(r"[?!;]|\.(?=\s|$)")
_BROKEN = re.compile(r"[.?!:;()]|, ")
_TOKEN = re.compile(
    r"(?P<open>[(\[])|(?P<close>[)\]])|(?P<sign>[+*/×÷]|(?<=\s)[-−–](?=\s)|(?<=\))\s*[-−–]|[-−–](?=\s*\())"
    r"|(?P<word>divided by|multiplied by|plus|minus|times)\b"
    r"|(?P<number>\d+(?:[.,]\d+)*(?!\w)(?! ?%))|(?P<text>[^\s()\[\]+*/×÷]+)",
    re.IGNORECASE,
)
_SIGNS = {"divided by": "/", "÷": "/", "multiplied by": "*", "times": "*", "×": "*", "plus": "+", "minus": "-"}
_BETWEEN = re.compile(
    r"^(?P<how>average|mean|change|increase|decrease) (?:of |in )?(?:the )?(?P<what>.+?)"
    r" (?:between|from|for|in|over|of) (?P<times>.+)$",
    re.IGNORECASE,
)
_SHARE = re.compile(r"^(?P<what>.+?),? as an? (?:%|per ?cent(?:age)?|share|ratio) of (?P<of>.+)$", re.IGNORECASE)
_YEARS = re.compile(
    r"\b(?:FY ?|fiscal (?:year )?)?(?P<first>(?:19|20)\d\d)\s*(?:-|–|to|through)\s*(?:FY ?)?(?P<last>(?:19|20)\d\d)\b"
)
_AVERAGE = re.compile(r"\b(?:\w+[ -]year )?average (?:of )?(?:the )?(?P<what>[^?]+)", re.IGNORECASE)
_FOR_WHOM = re.compile(r" (?:for|of|at|by) (?:the )?[A-Z][\w&.'’-]*(?: [A-Z0-9][\w&.'’-]*)*\s*$")
_PERCENT = re.compile(r"%|\bper ?cent", re.IGNORECASE)
_PLACES = re.compile(r"\b(?P<count>one|two|three|four|\d) decimal", re.IGNORECASE)
_COUNTS = {"one": 1, "two": 2, "three": 3, "four": 4}
_WORD = re.compile(r"[\w&-]+")
_YEAR = re.compile(r"(?:19|20)\d\d")


@dataclass(frozen=True, slots=True)
class AskedFigure:
    """A figure of the formula: what it is called, and of when."""

    what: str
    when: str = ""
    may_lack: bool = False  # counts as nothing where no table has it


@dataclass(frozen=True, slots=True)
class Node:
    """A number, a figure, or an operation over others: + - * / and "average"."""

    sign: str = ""
    parts: tuple[Node, ...] = ()
    figure: AskedFigure | None = None
    number: float = 0.0

    def figures(self) -> Iterator[AskedFigure]:
        if self.figure is not None:
            yield self.figure
        for part in self.parts:
            yield from part.figures()

    def without(self, missing: Set[AskedFigure]) -> Node:
        """Sums without these figures."""
        parts = [part.without(missing) for part in self.parts]
        kept = [part for part in parts if part.figure is None or part.figure not in missing]
        return kept[0] if self.sign == "+" and len(kept) == 1 else replace(self, parts=tuple(parts))

    def value(self, known: Mapping[AskedFigure, float]) -> float:
        """What it gives; a division by zero is raised as such."""
        if self.figure is not None:
            return known[self.figure]
        values = [part.value(known) for part in self.parts]
        match self.sign:
            case "":
                return self.number
            case "average":
                return sum(values) / len(values)
            case "+":
                return values[0] + values[1]
            case "-":
                return values[0] - values[1]
            case "*":
                return values[0] * values[1]
        return values[0] / values[1]

    def spelled(self, shown: Callable[[AskedFigure], str]) -> str:
        """As a person would write it down: "(4,210 + 4,430) / 2"."""
        if self.figure is not None:
            return shown(self.figure)
        if not self.sign:
            return f"{self.number:,g}"
        own = [part.spelled(shown) for part in self.parts]
        if self.sign == "average":
            return f"({' + '.join(own)}) / {len(own)}" if len(own) > 1 else own[0]
        if self.sign == "+":
            return " + ".join(own)
        first, second = (self.parts[at].sign in ("+", "-", "average") for at in (0, 1))
        second = second or (self.sign == "/" and bool(self.parts[1].sign))  # "a / (b × c)"
        left = f"({own[0]})" if first and self.sign != "-" else own[0]
        return f"{left} {self.sign} {f'({own[1]})' if second else own[1]}".replace("*", "×")


@dataclass(frozen=True, slots=True)
class Formula:
    name: str
    root: Node
    is_percent: bool = False
    decimals: int = 2
    is_defined: bool = False  # by the question itself
    is_change: bool = False  # of one figure between two times


def formula_in(question: str) -> Formula | None:
    """The formula that the question asks for; None where it asks for none that is understood."""
    match = _DEFINED.search(question)
    years, average = _years(question), None
    default = _time(question[: match.end()] if match else question)
    if match:
        name = _without_ends(_BROKEN.split(question[: match.start()].rstrip(" ,"))[-1], BEFORE_NAMES, BEFORE_DEFINED)
        root = _read(_ENDED.split(question[match.end() :], maxsplit=1)[0], default)
    elif (average := _AVERAGE.search(question)) and len(years) > 1:
        name = _FOR_WHOM.sub("", average["what"].partition("(")[0].strip(" ?"))
        roots = [_named(name, str(year)) for year in years]
        root = Node("average", tuple(root for root in roots if root)) if all(roots) else None
    else:
        average = None
        name, root = _known(question, default)
    if root is None or not name:
        return None
    if not 1 < len({*root.figures()}) <= MOST_FIGURES:
        return None
    places = _PLACES.search(question)
    count = places["count"].lower() if places else "two"
    is_percent = bool(_PERCENT.search(question)) and root.sign in ("/", "average")
    return Formula(name, root, is_percent, _COUNTS.get(count) or int(count), bool(match or average))


def change_in(question: str, retrieved: Retrieved, library: LibraryReader, reader: Reader) -> Formula | None:
    """The change of a line item between the two times that the question names."""
    found = changed_item(question, retrieved, library, reader)
    if found is None:
        return None
    name, (before, after) = found
    first, last = (Node(figure=AskedFigure(name, when)) for when in (before, after))
    root = Node("-", (last, first))
    is_percent = bool(_PERCENT.search(question))
    if is_percent:
        root = Node("/", (root, first))
    return Formula(f"Change in {name[:1].lower() + name[1:]}", root, is_percent, is_change=True)


def _without_ends(text: str, before: Set[str], behind: Set[str]) -> str:
    """Without these words where it begins and ends."""
    words = text.split()
    while words and words[0].lower() in before:
        words = words[1:]
    while words and words[-1].lower() in behind:
        words.pop()
    return " ".join(words)


def _years(text: str) -> list[int]:
    match = _YEARS.search(text)
    found = range(int(match["first"]), int(match["last"]) + 1) if match else range(0)
    return list(found) if len(found) <= MOST_YEARS else []


def _time(text: str) -> str:
    """The first time of a text that names one alone; "" where it names none or several."""
    if not read_period(text).year:
        return ""
    named = (text[start:end] for start, end in sorted(spoken_periods(text), key=lambda span: (span[0], -span[1])))
    return next((when for when in named if read_period(when).year), "")


# --- reading a formula ------------------------------------------------------------------------------------------------


def _read(text: str, default: str) -> Node | None:
    """The tree of a formula in its letters; None where it has no operation or does not close."""
    tokens = [(match.lastgroup or "", match.group().strip()) for match in _TOKEN.finditer(text)]
    if tokens and tokens[-1][0] == "close" and text.count("(") < text.count(")"):  # "(it is defined as a / b)"
        tokens.pop()
    reader = _Reader(tokens, default)
    root = reader.sum()
    return root if root is not None and reader.at == len(tokens) and (root.sign or root.figure) else None


class _Reader:
    """Recursive descent: sums of products of figures, numbers and brackets."""

    def __init__(self, tokens: list[tuple[str, str]], default: str) -> None:
        self.tokens, self.default, self.at = tokens, default, 0

    def sum(self) -> Node | None:
        return self._chain(self.product, "+-")

    def product(self) -> Node | None:
        return self._chain(self.leaf, "*/")

    def _chain(self, part: Callable[[], Node | None], signs: str) -> Node | None:
        found = part()
        while found is not None and (sign := self._sign()) and sign in signs:
            self.at += 1
            other = part()
            found = Node(sign, (found, other)) if other is not None else None
        return found

    def _sign(self) -> str:
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        if kind == "word":
            return _SIGNS[" ".join(text.lower().split())]
        return _SIGNS.get(text, text).replace("−", "-").replace("–", "-") if kind == "sign" else ""

    def leaf(self) -> Node | None:
        if self.at >= len(self.tokens):
            return None
        if self.tokens[self.at][0] == "open":
            self.at += 1
            inside = self.sum()
            if inside is None or self.at >= len(self.tokens) or self.tokens[self.at][0] != "close":
                return None
            self.at += 1
            return inside
        words = []
        while self.at < len(self.tokens) and self.tokens[self.at][0] in ("text", "number"):
            words.append(self.tokens[self.at])
            self.at += 1
        if [kind for kind, _ in words] == ["number"]:
            return Node(number=float(words[0][1].replace(",", "")))
        return _figure(" ".join(word for _, word in words), self.default) if words else None


def _figure(text: str, default: str) -> Node | None:
    """A figure, or an average or a change of one between two times."""
    text = text.strip(" ,.")
    if (match := _BETWEEN.match(text)) and len(years := _YEAR.findall(match["times"])) > 1:
        times = [f"the end of FY{year}" for year in years]
        own = tuple(Node(figure=AskedFigure(_plain(match["what"]), when)) for when in times)
        if match["how"].lower() in ("average", "mean"):
            return Node("average", own)
        return Node("-", (own[-1], own[0])) if match["how"].lower() != "decrease" else Node("-", (own[0], own[-1]))
    when = _time(text)
    what = _plain(re.sub(r"\s+", " ", text.replace(when, " ") if when else text))
    may_lack = what.endswith("?")
    return Node(figure=AskedFigure(what.rstrip("?"), when or default, may_lack)) if what else None


def _plain(text: str) -> str:
    return _without_ends(text.strip(" ,"), BEFORE_FIGURES, BEHIND_FIGURES)


# --- formulas that have a name ---------------------------------------------------------------------------------------


@cache
def _ratios() -> dict[str, str]:
    """By each of its names the formula of a ratio (assets/ratios.txt)."""
    found: dict[str, str] = {}
    for line in asset_lines("ratios", "ratios"):
        names, _, formula = line.partition(" = ")
        found |= {name.strip().lower(): formula for name in names.split(",")}
    return found


def names_ratio(question: str) -> bool:
    """Does it name one that is computed? Then no row of another name is it: a gross margin is no operating margin."""
    return bool(_known(question, "")[0])


def _known(question: str, when: str) -> tuple[str, Node | None]:
    """The ratio that the question names, the longest name of those it holds."""
    said = f" {' '.join(_WORD.findall(question.lower()))} "
    names = [name for name in _ratios() if f" {name} " in said or f" {name}s " in said]
    name = max(names, key=len, default="")
    return name, _named(name, when) if name else None


def _named(what: str, when: str) -> Node | None:
    """A ratio by its name, or one thing as a share of another."""
    if match := _SHARE.match(what):
        own = [Node(figure=AskedFigure(_plain(match[part]), when)) for part in ("what", "of")]
        return Node("/", tuple(own))
    formula = _ratios().get(what.lower().strip())
    if formula is None:
        return None
    before = str(int(when_year.group()) - 1) if (when_year := _YEAR.search(when)) else ""
    if "average" in formula and not before:
        return None
    return _read(formula.replace("{now}", when).replace("{before}", before), when)


# --- the figures of a formula, looked up and told ---------------------------------------------------------------------

MOST_HITS = 12  # parts of tables that a figure is looked for in
MOST_DOCUMENTS = 2  # that they are looked for in: a report, and the one of the year before
LEAST = 0.5  # chance of a figure that is computed with; from .35 on more were wrong on financebench, none more right
SUREST = HIGH - 0.001  # of several figures one may be another row's
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


def computed_answer(
    answer: Answer,
    plan: Plan,
    text: str,
    is_known: bool,
    retrieved: Retrieved,
    scope: Scope,
    library: LibraryReader,
    embedder: Embedder,
    reader: Reader,
    settings: Settings,
) -> Answer | None:
    """What the formula gives that a question asks for; of one that it only names, where no table has the figure.

    `is_known`: a table has one.
    """
    formula = formula_in(text) or change_in(text, retrieved, library, reader)
    if formula is None or (is_known and not formula.is_defined and not formula.is_change):
        return None
    return formula_answer(answer, plan, retrieved, formula, scope, library, embedder, reader, settings)


def formula_answer(
    answer: Answer,
    plan: Plan,
    retrieved: Retrieved,
    formula: Formula,
    scope: Scope,
    library: LibraryReader,
    embedder: Embedder,
    reader: Reader,
    settings: Settings,
) -> Answer | None:
    """None where one of its figures is not found, or nothing can be computed from them."""
    counts = Counter(hit.document.id for hit in (*retrieved.hits, *retrieved.considered))
    named = [one.document.id for one in named_reports(answer.question, retrieved, library)]
    wanted = named or retrieved.preferred_documents or [one for one, _ in counts.most_common()]
    own = replace(scope, documents=tuple(wanted[:MOST_DOCUMENTS]), kinds=("table",))
    known: dict[AskedFigure, LookedUp] = {}
    for asked in formula.root.figures():
        if asked in known:
            continue
        is_defined = formula.is_defined or formula.is_change
        found, retrieved = _look_up(asked, retrieved, own, library, embedder, reader, settings, is_defined)
        if found is not None:
            known[asked] = found
        elif not asked.may_lack:
            return None
    formula = replace(formula, root=formula.root.without({*formula.root.figures()} - known.keys()))
    try:
        value = formula.root.value({asked: one.value for asked, one in known.items()})
    except ZeroDivisionError:
        return None
    return _told(answer, plan, retrieved, formula, known, value, library)


def _look_up(
    asked: AskedFigure,
    retrieved: Retrieved,
    scope: Scope,
    library: LibraryReader,
    embedder: Embedder,
    reader: Reader,
    settings: Settings,
    is_defined: bool,
) -> tuple[LookedUp | None, Retrieved]:
    """The figure, and what was found beside the rest on the way to it.

    The line item of that name in all tables of the documents; else what a question for it gives.
    """
    documents = {hit.document.id: hit.document for hit in (*retrieved.hits, *retrieved.considered)}
    reports = [report_of(documents[one], library) for one in scope.documents if one in documents]
    named = line_item(asked.what, asked.when, reports, reader)
    if named is not None and named.chance >= (LEAST_NAMED if is_defined else LEAST):
        retrieved = with_hits([named], retrieved, library)
        return _figure_of(asked, named), retrieved
    text = f"What was the {asked.what}{_at(asked.when)}?"
    vector = embedder.embed_query(text)
    hits = tuple(library.search(text, vector, MOST_HITS, "hybrid", scope, settings))
    own = replace(retrieved, hits=hits, considered=hits, preferred_documents=scope.documents)
    own = with_named_rows(text, vector, own, scope, library, reader, settings)
    found = best_plan(text, table_candidates(own, library), retrieved.idf, 1.0, reader)
    every = {hit.chunk.id: hit for hit in (*retrieved.considered, *own.considered)}
    retrieved = replace(retrieved, considered=tuple(every.values()))
    if found is None or found.chance < LEAST or found.plan.operation != "value" or len(found.plan.texts) != 1:
        return None, retrieved
    return _figure_of(asked, found), retrieved


def _figure_of(asked: AskedFigure, found: TablePlan) -> LookedUp | None:
    """None where it is no number, a share of something, or of another year."""
    what = reading(found)
    when = read_period(asked.when)
    cells = found.candidate.table.at(what.places)
    if what.number is None or what.unit == "%" or any(_is_other(cell.period, when.year) for cell in cells):
        return None
    number = abs(what.number) if _is_outflow(found) else what.number
    return LookedUp(found, what, number * SCALES.get(what.scale, 1.0))


def _is_outflow(found: TablePlan) -> bool:
    """Is every number of its row below zero, where that says which way money goes? So stand capital expenditures."""
    table = found.candidate.table
    rows = {found.grid.grid.places[row] for row, _ in found.plan.cells} if not found.plan.turned else set()
    numbers = [cell.number for cell in table.cells if cell.row in rows and cell.number is not None]
    sections = " ".join(part for row, _ in found.plan.cells for part in found.grid.grid.rows[row]) if rows else ""
    return bool(numbers) and max(numbers) < 0 and "activities" in f"{table.caption} {sections}".lower()


def _at(when: str) -> str:
    return f" {'at' if when.startswith('the end') else 'in'} {when}" if when else ""


def _is_other(period: str, year: int) -> bool:
    own = period_from(period).year
    return bool(own and year) and own != year


def _told(
    answer: Answer,
    plan: Plan,
    retrieved: Retrieved,
    formula: Formula,
    known: dict[AskedFigure, LookedUp],
    value: float,
    library: LibraryReader,
) -> Answer:
    chance = SUREST
    for one in known.values():
        chance = min(chance, one.found.chance)
    shown, unit, scale = _shown(formula, known, value)
    spelled = f"{formula.root.spelled(lambda asked: known[asked].shown)}{' × 100' * formula.is_percent}"
    name = formula.name[:1].upper() + formula.name[1:]
    citations: list[Citation] = []
    claims: list[Claim] = []
    places: list[int] = []
    lines: list[tuple[str, str, tuple[int, ...]]] = []
    figures: list[Figure] = []
    for marker, one in enumerate(known.values(), 1):
        first = len(citations)
        cells = one.found.candidate.table.at(one.what.places)
        citations += cell_citations(one.found.candidate, cells, marker, one.found.chance, retrieved, library)
        own = tuple(range(first, len(citations)))
        places += own
        figures.append(figure_of(one.found, one.what, first))
        lines.append((f"{one.what.label}: {one.what.value}", f"[{marker}]", own))
    every = "".join(f"[{marker}]" for marker in range(1, len(known) + 1))
    content = ""
    for text, markers, own in ((f"{name}: {shown} = {spelled}", every, tuple(places)), *lines):
        start = len(content) + 2 if content else 0
        content = f"{content}\n\n{text} {markers}".lstrip()
        numbers = tuple(range(1, len(known) + 1)) if markers == every else (int(markers.strip("[]")),)
        claims.append(Claim(text, start, len(content), numbers, own, "supported", round(chance, 3)))
    documents = {figure.found.candidate.document.id: figure.found.candidate.document for figure in known.values()}
    computed = _computed(name, shown, value, unit, scale, spelled, figures)
    score = round(chance, 3)
    return replace(
        answer,
        content=content,
        short=shown,
        figures=(computed, *figures),
        claims=tuple(claims),
        citations=tuple(citations),
        sources=sources(tuple(citations), documents),
        related_documents=related(retrieved, tuple(citations)),
        confidence=Confidence(score, level(score), "computed from cells of tables"),
        sufficiency=Sufficiency(True, score),
        strategy=plan.strategy,
        model=EXTRACTIVE,
        metrics={"chunks_retrieved": len(retrieved.hits), "context_characters": 0, "context_tokens": 0},
    )


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
