"""Relates a question to a table and scores how well each plan fits.

With the clause that asks, and with times as the heads of its columns name them: "In Q3 2022, what were Apple's net
sales, and why?" is asked of a table with a column "Three Months Ended June 25, 2022" as "what were Apple's net sales in
Three Months Ended June 25, 2022". A question that names no time is asked as it is, and of the newest column beside
that: who asks for "the gross margin" means the last one that is reported.

In the words of a row, where the question has others for it: what it asks for is compared with the names of the rows by
their vectors, "capital expenditure" with "Purchases of property", and the name of the nearest one put in its place.

Plans are ranked by a log-linear model that was learned from questions whose answers are known (`training/plans.py`).
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Sequence, Set
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise, takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Retrieved
from refdesk.ask.plans import TableViews
from refdesk.ask.sentences import asking_part
from refdesk.ask.table_view import CODE, KINDS, NAMED, OPERATIONS, SELECTIONS, AskedWords, CellPlan, Selection, View
from refdesk.ask.wording import AUXILIARIES, DOING, KEPT, LIKELY, PERCENT, POSSESSIVE, YEAR_NUMBER
from refdesk.document_names import short_names
from refdesk.library import LibraryReader
from refdesk.periods import QUARTER_MONTHS, TablePeriod, period_from, period_spans, read_period, spoken_periods
from refdesk.ports import Reader
from refdesk.records import MOST_CELLS, StoredTable
from refdesk.settings import Settings
from refdesk.tables import cell_number, grid_of, is_scale, month_words, plain_name
from refdesk.text import QUERY_STOP_WORDS, STOP_WORDS, query_terms, terms, word_set, words
from refdesk.types import Document, Hit, Scope

_ASKING = r"(?:what|how|which|who|whom|whose|when|where|why)\b"
_BEFORE = re.compile(rf"^.*[,:.] (?={_ASKING})", re.IGNORECASE)
_AFTER = re.compile(rf"(?<=[\w)]),? and (?={_ASKING}).*$", re.IGNORECASE)
# "as reported in the annual report", "according to the notes", "(in millions)": where it stands and how it is written.
_SOURCE = re.compile(r",? (?:as (?:\w{1,20}ed|shown|given|seen) (?:in|on|by)|according to)\b.*$", re.IGNORECASE)
_WRITTEN = re.compile(r" ?\((?:in|as) [^()]*\)", re.IGNORECASE)
_CHANGE = re.compile(r"(?=\b(?:change|growth|increase|decrease)\b)", re.IGNORECASE)
QUARTER = re.compile(r"\bquarter(?:ly)?\b", re.IGNORECASE)
_SHORT = re.compile(r"\b[A-Z](?:&?[A-Z]){1,5}\b")
_WORD = re.compile(r"[^\W\d_]+|&")
LONGEST_SHORT = 6  # words
_VERBS = word_set("words", "verbs")
_PASTS = {f"{verb[:-1]}ied" if verb[-1] == "y" else f"{verb.removesuffix('e')}ed" for verb in _VERBS}
VERBS = _VERBS | _PASTS | {f"{verb}ed" for verb in _VERBS}  # "played"


class AskedForm(NamedTuple):
    """A question as it is put to one table."""

    text: str
    columns: frozenset[int] | None = None  # of the time that is asked for; None where that is not known of its columns
    is_assumed: bool = False  # the question names no time: these are the newest columns


def asking_clause(text: str) -> str:
    """Without the words around it: a clause before, a second question, where the figure is reported and in what units.

    >>> asking_clause("Going by the balance sheet, what are the total assets (in millions), and what drives them?")
    'what are the total assets'
    >>> asking_clause("What were sales as reported in the annual report?")
    'What were sales'
    """
    text = " ".join(text.split())
    is_two = re.search(_ASKING, text[: text.lower().rfind(" and ")], re.IGNORECASE)
    clause = _BEFORE.sub("", _AFTER.sub("", text) if is_two else text)
    plain = _WRITTEN.sub("", _SOURCE.sub("", clause))
    if plain != clause and PERCENT.search(clause) and not PERCENT.search(plain):  # "change (in per cent)"
        plain = _CHANGE.sub("percentage ", plain, count=1)
    return plain


def asked_forms(text: str, table: StoredTable, report: TablePeriod) -> list[AskedForm]:
    """As it is asked, in the table's words; and of its newest columns, where no time is named.

    `report`: the time that the document is of. Its own quarter is the one that its newest columns are of, whatever
    month that ends in.
    """
    clause, when = spelled_out(asking_clause(text), table), read_period(text)
    if when.year:
        columns = columns_of(table, when, report)
        head = _head(table, columns or (), when.length)
        return [AskedForm(_with(clause, head) if head else clause, columns)]
    forms = [AskedForm(clause)]
    if not spoken_periods(text) or QUARTER.search(text):
        newest = newest_columns(table)
        head = _head(table, newest, QUARTER_MONTHS if QUARTER.search(text) else 0)
        if head and len(table.periods) > 1:
            forms.append(AskedForm(_with(clause, head), newest, is_assumed=True))
    return forms


def spelled_out(text: str, table: StoredTable) -> str:
    """With a short form as the words of a row or a column whose initials it is: "R&D" as "research and development";
    a month that is written as in the table, "2026-03", in words.

    Two letters without "&" are the initials of too much, and what the table says itself is no short form of others.
    """
    for short in {match.group() for match in _SHORT.finditer(text)}:
        words_of = _initials(table).get(short.lower())
        if words_of and (len(short) > 2 or "&" in short) and not any(short in cell.text for cell in table.cells):
            text = re.sub(rf"(?<!\w){re.escape(short)}(?!\w)", words_of, text)
    for cell, words_of in month_words(table).items():
        text = re.sub(rf"(?<![\w-]){re.escape(cell)}(?![\w-])", words_of, text)
    return text


@lru_cache(maxsize=KEPT)
def _initials(table: StoredTable) -> dict[str, str]:
    """By initials the words of the table's labels that have them; "and" is written "&" or left out."""
    found: dict[str, str] = {}
    labels = [cell.text for cell in table.cells if cell.column == 0]
    for label in (*labels, *(part for head in table.heads for part in head.path)):
        words = _WORD.findall(label)
        letters = ["&" if word.lower() in ("and", "&") else word[0].lower() for word in words]
        for start in range(len(words)):
            for end in range(start + 2, min(start + LONGEST_SHORT, len(words)) + 1):
                initials, text = letters[start:end], " ".join(words[start:end])
                if "&" not in (initials[0], initials[-1]):
                    found.setdefault("".join(initials), text)
                    found.setdefault("".join(initials).replace("&", ""), text)
    return found


def columns_of(table: StoredTable, when: TablePeriod, report: TablePeriod) -> frozenset[int] | None:
    """Those of the time that is asked for; None where no head of the table names a time."""
    periods = _periods(table)
    if not periods:
        return None
    if when.quarter and report.quarter:
        if report.is_of(when):
            return newest_columns(table)
        return frozenset(column for column, period in periods if period.quarter and period.is_of(when))
    found = frozenset(column for column, period in periods if period.is_of(when))
    # Who asks for a year may mean the column of the report's own, which may end in the next one; who names a day means
    # that day, and a table of nothing but the years before is there to compare with.
    may_be_own = report.is_of(when) and not when.end and max(period.year for _, period in periods) >= when.year
    return found or (newest_columns(table) if may_be_own else found)


def length_asked(text: str, when: TablePeriod) -> int:
    """How many months a question asks for the figure of; 0 where it does not say, or names a day."""
    return QUARTER_MONTHS if QUARTER.search(text) and not (when.end or when.months) else when.length


def is_of_other_length(period: TablePeriod, length: int, report: TablePeriod) -> bool:
    """Is it of a longer or shorter time than is asked for, as far as both are known? What holds on a day is neither."""
    covered = period.length_in(report)
    return bool(covered and length) and covered != length


def newest_columns(table: StoredTable) -> frozenset[int]:
    """The columns of the last day or year that any of them is of."""
    days = {column: (period.year, period.quarter, period.end) for column, period in _periods(table)}
    last = max(days.values(), default=(0, 0, ""))
    return frozenset(column for column, day in days.items() if day == last)


def _with(text: str, head: str) -> str:
    """The time that is named by the name of the column; behind the question where it names none."""
    spans = spoken_periods(text)
    if not spans:
        return f"{text.rstrip(' ?')} in {head}?"
    start, end = min(span[0] for span in spans), max(span[1] for span in spans)
    code = CODE.match(text, len(text) - len(text[end:].lstrip()))  # "in the Q3 2022 10-Q" is "in Q3 2022"
    before, _, last = text[:start].rstrip().rpartition(" ")
    kept = f"{before} " if last.lower() in ("the", "its", "their") else text[:start]
    return f"{kept}{head}{text[code.end() if code else end :]}"


def _head(table: StoredTable, columns: Iterable[int], length: int) -> str:
    """The name of these columns, of those among them that are of so long a time; what several have in common."""
    periods = dict(_periods(table))
    ranked = sorted(columns, key=lambda column: (length > 0 and periods[column].length != length, column))
    alike = [column for column in ranked if periods[column].length == periods[ranked[0]].length]
    paths = [[part for part in table.heads[column].path if not is_scale(part)] for column in alike]
    shared = [parts[0] for parts in takewhile(lambda parts: len({*parts}) == 1, zip(*paths, strict=False))]
    return " ".join(shared) if read_period(" ".join(shared)) else ""


@lru_cache(maxsize=KEPT)
def _periods(table: StoredTable) -> tuple[tuple[int, TablePeriod], ...]:
    """The columns whose own head names a time."""
    found = ((column, head.measure.period, " ".join(head.path)) for column, head in enumerate(table.heads))
    return tuple((column, period_from(period)) for column, period, path in found if period and read_period(path))


MOST_RENAMED = 6  # rows, over all tables, that a question is put to in their own words
LEAST_LIKELY = 0.2  # chance from which on a row may be meant
# Among few tables it is oftener the text that says what no row is called by, unless that has no word for it either:
# with all names, .07 of the answers to TAT-QA's questions about the text are lost.
FEW = 4  # tables
WHOLE = frozenset(form for word in ("amount", "total", "figure", "value", "level") for form in (word, f"{word}s"))
WHOLE_STEMS = frozenset(stem for word in WHOLE for stem in terms(word))
LONGEST_NAME = 90  # letters of a row's name
_NAME_WORD = re.compile(r"\w(?:[\w&]|[-'’](?=\w))*")
_TIME_NOUNS = frozenset(("period", "year", "quarter", "fiscal"))
_PREPOSITIONS = frozenset(("of", "from", "for", "on", "in", "by", "to", "at"))
_INSIDE = _PREPOSITIONS | {"and", "per", "before", "after", "the", "used"}
_ENDS = _INSIDE | VERBS | WHOLE  # no name of a row begins or ends with these


@lru_cache(maxsize=KEPT)
def _context_words(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def document_words(document: Document, text: str) -> frozenset[str]:
    """The stems of its name and title, and those of the question's words that its name writes as one: "BestBuy".

    What its name is shortened to counts too: "JnJ".
    """
    name = f"{document.name.replace('_', ' ')} {document.title}"
    name_words, asked_words = {*words(name)}, words(text)
    joined = [pair for pair in pairwise(asked_words) if "".join(pair) in name_words]
    short = [word for word in short_names(document).intersection(asked_words) if len(word) > 2]
    return _context_words(name) | frozenset(stem for pair in (*joined, short) for word in pair for stem in terms(word))


def without_names(text: str, names: Set[str]) -> str:
    """Without what is called by these stems, where it is written as a name, and what leads up to it.

    >>> without_names("What is the average water level at Lodin Point?", {"lodin", "point"})
    'What is the average water level?'
    >>> without_names("What were Ortel's net sales in 2022?", {"ortel"})
    'What were net sales in 2022?'
    """

    def is_name(word: str) -> bool:
        stems = terms(POSSESSIVE.sub("", word))
        return bool(stems) and word[:1].isupper() and all(stem in names for stem in stems)

    found = [match.span() for match in _NAME_WORD.finditer(text) if match.start() and is_name(match.group())]
    for start, end in reversed(found):
        before, behind = text[:start].split(), text[end:]
        if behind[:1] in ("", "?", ".", ","):  # nothing follows what leads up to it
            before = before[:-1] if before[-1:] == ["the"] else before
            before = before[:-1] if before and before[-1] in _PREPOSITIONS else before
        text = f"{' '.join(before)}{' ' * (behind[:1].isalnum() or behind[:1] == ' ')}{behind.lstrip()}"
    return " ".join(text.split())


class _Word(NamedTuple):  # of a clause
    start: int
    end: int
    text: str


class RenamedRow(NamedTuple):
    """A question in the words of one row."""

    text: str
    said: frozenset[str] = frozenset()  # stems of the question that the row's name stands for
    chance: float = 1.0  # that it is the row that is meant


def things_asked(clause: str, known: Set[str]) -> list[tuple[int, int]]:
    """Where the things that it may ask for stand, in its letters; `known`: stems that name the document.

    >>> clause = "What did Ortel spend on research and development in 2021"
    >>> [clause[start:end] for start, end in things_asked(clause, {"ortel"})]
    ['research and development']
    """
    times = [*spoken_periods(clause), *period_spans(clause)]
    runs: list[list[_Word]] = [[]]
    end, was_time, before = 0, False, ""
    for match in _NAME_WORD.finditer(clause):
        word = POSSESSIVE.sub("", match.group().lower())
        is_time = any(start < match.end() and match.start() < stop for start, stop in times)
        is_time = is_time or (was_time and word.removesuffix("s") in _TIME_NOUNS)  # "the FY2022 period"
        is_known = bool(stems := terms(word)) and all(stem in known for stem in stems)
        is_small = word not in _INSIDE and (word in QUERY_STOP_WORDS or word in STOP_WORDS)
        is_done = before in AUXILIARIES - DOING and word.endswith("ed")  # "was reported", "were disclosed by"
        is_border = is_time or is_known or is_small or is_done or (word in VERBS and not runs[-1])
        if is_border or clause[end : match.start()].strip(" ,-–—&"):
            runs.append([])
        if not is_border:
            runs[-1].append(_Word(match.start(), match.end(), word))
        end, was_time, before = match.end(), is_time, word
    found: dict[tuple[int, int], None] = {}
    for run in runs:
        cuts = [at for at, word in enumerate(run) if word.text in _PREPOSITIONS]
        parts = [part for at in cuts for part in (run[:at], run[at + 1 :])]
        for piece in map(_trimmed, (run, *parts)):
            if piece:
                found[piece[0].start, piece[-1].end] = None
    return list(found)


def _trimmed(run: list[_Word]) -> list[_Word]:
    while run and (run[0].text in _ENDS or run[0].text.isdigit()):
        run = run[1:]
    while run and run[-1].text in _ENDS:
        run = run[:-1]
    return run


# What follows the name of a line item and means no other one: that it is spent, and whom it belongs to.
_ENDING = re.compile(
    r",? (?:expenses?|costs?)(?:,? net)?$"
    r"|,? (?:attributable|available|applicable) to (?!non-?controlling\b).{0,60}holders?$"
    r"|,? (?:including|before allocation to) non-?controlling interests?$",
    re.IGNORECASE,
)
SHORTEST_CORE = 2  # words that are left without it: "Interest expense" is not "Interest"


def core_name(name: str) -> str:
    """What of the name of a row is the line item.

    >>> core_name("Research and development expense, net"), core_name("Net income attributable to Ortel shareholders")
    ('Research and development', 'Net income')
    """
    core = _ENDING.sub("", name)
    return core if len({*terms(core)} - WHOLE_STEMS) >= SHORTEST_CORE else name


@lru_cache(maxsize=KEPT)
def row_names(table: StoredTable) -> tuple[str, ...]:
    """The names of its rows that hold numbers, without parentheses."""
    if table.cell_count > MOST_CELLS:
        return ()
    grid = grid_of(table)
    found: dict[str, None] = {}
    for path, texts in zip(grid.rows, grid.texts, strict=True):
        if path and any(cell_number(text) is not None for text in texts[1:]):
            name = plain_name(path[-1])
            if 2 < len(name) <= LONGEST_NAME and cell_number(name) is None:
                found[name] = None
    return tuple(found)


def renamed(
    text: str, tables: Sequence[StoredTable], known: Set[str], unknown: Set[str], reader: Reader
) -> list[list[RenamedRow]]:
    """For each table the question in the words of those of its rows that are nearest to what it asks for.

    A table that has a row with all of these words needs none. `known`: stems that name the documents; `unknown`: those
    that stand nowhere in the library. A question that has one of these beside words of a row asks for another thing.
    """
    clause = asking_clause(text)
    strange = frozenset(query_terms(clause)) & unknown
    is_few = len(tables) < FEW
    spoken = [clause[start:end] for start, end in things_asked(clause, known)]
    pairs: list[tuple[float, int, RenamedRow]] = []
    for at, table in enumerate(tables):
        names = row_names(table)
        row_stems = [frozenset(terms(name)) for name in names]
        for thing in spoken if names else ():
            sought = frozenset(terms(thing))
            if (
                not sought
                or (is_few and sought.isdisjoint(strange))
                or any(sought <= stems and NAMED * len(stems) <= len(sought) for stems in row_stems)
            ):
                continue
            best, chance = reader.meant_row(thing, names)
            is_other = not strange <= sought or not (strange.isdisjoint(sought) or sought.isdisjoint(row_stems[best]))
            if chance >= LEAST_LIKELY and not is_other:
                share = len(sought) / max(1, len({*terms(clause)} - known))
                row = RenamedRow(text.replace(thing, names[best], 1), sought, chance)
                pairs.append((chance * share**0.5, at, row))
    found: list[list[RenamedRow]] = [[] for _ in tables]
    for _, at, row in sorted(pairs, key=lambda pair: -pair[0])[:MOST_RENAMED]:
        found[at].append(row)
    return found


# --- tables that only other words find -------------------------------------------------------------------------------

MOST_DOCUMENTS = 3  # whose rows are looked through; names of rows that are searched for, and tables for each


def with_named_rows(
    text: str,
    vector: NDArray[np.float32],
    retrieved: Retrieved,
    scope: Scope,
    library: LibraryReader,
    reader: Reader,
    settings: Settings,
) -> Retrieved:
    """With the tables of the documents that the question means whose rows say in other words what it asks for.

    "Capital expenditure" finds no statement of cash flows that has "Purchases of property" instead.
    """
    found = (*retrieved.hits, *retrieved.considered)
    documents = {hit.document.id: hit.document for hit in found}
    counts = Counter(hit.document.id for hit in retrieved.considered)
    named = [
        preferred_document for preferred_document in retrieved.preferred_documents if preferred_document in documents
    ]
    wanted = named or [document_id for document_id, _ in counts.most_common()]
    clause = asking_clause(asking_part(text))
    best: list[tuple[float, str, str]] = []
    otherwise: set[str] = set()
    for document_id in wanted[:MOST_DOCUMENTS]:
        known = document_words(documents[document_id], text)
        things = [clause[start:end] for start, end in things_asked(clause, known)]
        short = [word for thing in things for word in thing.split() if reader.spelled(word) != word]
        otherwise |= {stem for word in short for stem in terms(word)}
        names = library.row_names(document_id) if things else []
        for thing in things if names else ():
            thing_stems = frozenset(terms(thing))
            place, chance = reader.meant_row(thing, names)
            row_stems = frozenset(terms(names[place]))
            if chance >= LEAST_LIKELY and not row_stems <= thing_stems:
                best.append((chance, document_id, names[place]))
                if row_stems.isdisjoint(thing_stems) and chance >= LIKELY:
                    otherwise |= thing_stems
    known_chunks = {hit.chunk.id for hit in found}
    most = max((hit.score for hit in found), default=1.0)
    added: list[Hit] = []
    for chance, document_id, name in sorted(best, reverse=True)[:MOST_DOCUMENTS]:
        within = replace(scope, documents=(document_id,), kinds=("table",))
        for hit in library.search(name, vector, MOST_DOCUMENTS, "bm25", within, settings):
            if hit.chunk.id not in known_chunks:
                known_chunks.add(hit.chunk.id)
                added.append(replace(hit, score=most * chance))
    return replace(retrieved, considered=(*retrieved.considered, *added), named_otherwise=frozenset(otherwise))


FILE = "plans.npz"
SLOTS = 1 << 12  # that word sequences are hashed into
OPERATION = {name: number for number, name in enumerate(OPERATIONS)}
SELECTION = {name: number for number, name in enumerate(SELECTIONS)}
KIND = {name: number for number, name in enumerate(KINDS)}
COMPARING = frozenset(("max", "min", "more", "less", "least", "most", "same"))
WIDTH = 30
# The features of a plan by their places; `none` has the best of those before COLUMN_SAID.
(
    COVERED, LEFT, COVERED_AROUND, ROWS_QUALITY, COLUMN_QUALITY, COLUMN_SAID, COLUMN_WHOLE, FIRST_COLUMN, ROW_COUNT,
    ONE_CELL, SEVERAL_CELLS, OWN_COLUMN, BY_QUALITY, BY_UNSAID, TURNED, REPEATED, REPEATED_SHARE, LENGTH, SAME_COLUMN,
    ROW_WHOLE, BY_FIRST, ROW_COVERED, IS_NOTHING, IS_LARGE, SECOND_COVERED, BACKWARDS, LATER_FIRST, ONE_ROW, ALIKE,
    ANY_COVERED,
) = range(WIDTH)  # fmt: skip
MOST_ROWS = 30  # that are distinguished by their number: nine in ten sets of rows that it was learned from are smaller


class Described(NamedTuple):
    """The plans of one question as numbers: the last one is `none`."""

    slots: NDArray[np.int32]
    ids: NDArray[np.int16]  # operation, selection, kind
    features: NDArray[np.float32]


def word_slots(question: AskedWords, vocabulary: Container[str]) -> NDArray[np.int32]:
    """One to three words in a row, hashed; words of the table and numbers stand for themselves only as such."""
    spoken = ["^"]
    for word, stem in zip(question.words, question.stems, strict=True):
        if word[0].isdecimal():
            spoken.append("#year" if YEAR_NUMBER.fullmatch(word) else "#")
        else:
            spoken.append("_" if stem in vocabulary and word not in QUERY_STOP_WORDS else word)
    spoken.append("$")
    runs = {" ".join(spoken[at : at + length]) for length in (1, 2, 3) for at in range(len(spoken) - length + 1)}
    return np.array(sorted({zlib.crc32(run.encode()) % SLOTS for run in runs}), dtype=np.int32)


def describe(question: AskedWords, table: TableViews, plans: Sequence[CellPlan], context: int = 0) -> Described:
    """`context`: the question's words that stand around the table: in its caption, headings, the document's name."""
    words = max(1, len(question.bits))
    lowered, own_words = question.text.lower(), set(question.words)
    chosen: dict[tuple[int, tuple[Selection, ...]], list[float]] = {}  # many plans share their rows
    shown: dict[tuple[str, ...], tuple[float, float, float]] = {}
    ids, rows = [], []
    for plan in plans:
        view = table.view_of(plan)
        key = (id(view), plan.selections)
        known = chosen.get(key)
        if known is None:
            known = chosen[key] = _of_rows(view, plan.selections, words)
        row = known.copy()
        first, mask, quality, number = plan.selections[0], plan.mask, plan.column_quality, plan.number
        covered = mask.bit_count()
        row[COVERED] = covered / words
        row[LEFT] = words - covered
        row[COVERED_AROUND] = (mask | context).bit_count() / words
        row[COLUMN_QUALITY] = quality
        row[COLUMN_SAID] = quality > 0
        row[COLUMN_WHOLE] = quality >= 1
        row[FIRST_COLUMN] = plan.column == 0
        row[ONE_CELL] = plan.operation == "value" and len(plan.texts) == 1
        row[SEVERAL_CELLS] = len(plan.texts) > 1
        row[OWN_COLUMN] = plan.column == first.by
        row[TURNED] = plan.turned
        if plan.texts:
            if plan.texts not in shown:
                shown[plan.texts] = _of_texts(plan.texts, lowered, own_words)
            row[REPEATED], row[REPEATED_SHARE], row[LENGTH] = shown[plan.texts]
        row[IS_NOTHING] = number == 0
        row[IS_LARGE] = number is not None and abs(number) > 1000
        row[BACKWARDS] = plan.backwards
        if plan.backwards:
            row[LATER_FIRST] = -row[LATER_FIRST]
        row[ANY_COVERED] = first.kind == "any" and covered / words
        rows.append(row)
        ids.append((OPERATION[plan.operation], SELECTION[first.kind], KIND[plan.kind]))
    features = np.array(rows, dtype=np.float32).reshape(len(rows), WIDTH)
    best = np.zeros((1, WIDTH), dtype=np.float32)
    if rows:
        best[0, :COLUMN_SAID] = features[:, :COLUMN_SAID].max(axis=0)
    vocabulary: Container[str] = table.views[0].vocabulary if table.views else ()
    return Described(
        word_slots(question, vocabulary),
        np.array([*ids, (OPERATION["none"], 0, KIND["text"])], dtype=np.int16),
        np.concatenate([features, best]),
    )


def _of_rows(view: View, selections: tuple[Selection, ...], words: int) -> list[float]:
    """The features that depend on the chosen rows alone."""
    row, first = [0.0] * WIDTH, selections[0]
    row[ROWS_QUALITY] = sum(selection.quality for selection in selections) / len(selections)
    row[ROW_COUNT] = math.log1p(min(len(first.rows), MOST_ROWS))
    if first.kind in COMPARING:
        row[BY_QUALITY], row[BY_UNSAID] = first.by_quality, first.by_quality == 0
    row[ROW_WHOLE] = first.quality >= 1
    row[BY_FIRST] = first.by == 0
    row[ROW_COVERED] = first.mask.bit_count() / words
    row[ONE_ROW] = len(first.rows) == 1
    if len(selections) == 2:
        row[SAME_COLUMN] = first.by == selections[1].by
        row[SECOND_COVERED] = selections[1].mask.bit_count() / words
        row[LATER_FIRST] = _order(view.texts, selections)
        row[ALIKE] = _alike(view, selections)
    return row


def _of_texts(texts: Sequence[str], lowered: str, own_words: set[str]) -> tuple[float, float, float]:
    shown = " ".join(texts).lower()
    shown_words = words(shown)
    repeated = sum(word in own_words for word in shown_words) / max(1, len(shown_words))
    return float(len(shown) > 2 and shown in lowered), repeated, min(len(shown), 80) / 80


def _alike(view: View, selections: Sequence[Selection]) -> float:
    """Share of the words that the names of both rows have: "assets 2018" is compared with "assets 2019"."""
    first, second = ({*view.cells[chosen.rows[0]][0]} for chosen in selections)
    return len(first & second) / max(1, len(first | second))


def _order(texts: Sequence[Sequence[str]], selections: Sequence[Selection]) -> float:
    """1 where the later year comes first, -1 where the earlier does."""
    years = [YEAR_NUMBER.search(texts[chosen.rows[0]][0]) for chosen in selections]
    if years[0] is None or years[1] is None or years[0][0] == years[1][0]:
        return 0.0
    return 1.0 if years[0][0] > years[1][0] else -1.0


class PlanWeights:
    """What was learned."""

    def __init__(self, arrays: dict[str, NDArray[np.float32]] | None = None) -> None:
        if arrays is None:
            arrays = {
                "operation": np.zeros((len(OPERATION), SLOTS), np.float32),
                "selection": np.zeros((len(SELECTION), SLOTS), np.float32),
                "kind": np.zeros((len(KIND), SLOTS), np.float32),
                "bias": np.zeros((len(OPERATION), len(SELECTION), len(KIND)), np.float32),
                "fit": np.zeros(WIDTH, np.float32),
                "fit_operation": np.zeros((len(OPERATION), WIDTH), np.float32),
                "fit_selection": np.zeros((len(SELECTION), WIDTH), np.float32),
            }
        self.arrays = arrays

    def scores(self, described: Described) -> NDArray[np.float32]:
        """Of every plan, `none` last; their softmax is the chance that each is the right one."""
        arrays, (operation, selection, kind) = self.arrays, described.ids.T
        slots, features = described.slots, described.features
        words = (
            arrays["operation"][:, slots].sum(axis=1)[operation] + arrays["selection"][:, slots].sum(axis=1)[selection]
        )
        words += arrays["kind"][:, slots].sum(axis=1)[kind]
        fit = arrays["fit"] + arrays["fit_operation"][operation] + arrays["fit_selection"][selection]
        found: NDArray[np.float32] = words + arrays["bias"][operation, selection, kind] + (features * fit).sum(axis=1)
        return found


@cache
def weights() -> PlanWeights:
    with resources.files("refdesk.assets").joinpath(FILE).open("rb") as file, np.load(file) as kept:
        return PlanWeights({name: kept[name].astype(np.float32) for name in kept.files})
