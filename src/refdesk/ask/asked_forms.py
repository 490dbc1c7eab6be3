"""How is a question put to one table? With the clause that asks, and with times as the heads of its columns name them.

"In Q3 2022, what were Apple's net sales, and why?" is asked of a table with a column "Three Months Ended June 25, 2022"
as "what were Apple's net sales in Three Months Ended June 25, 2022". A question that names no time is asked as it is,
and of the newest column beside that: who asks for "the gross margin" means the last one that is reported. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from refdesk.ask.table_view import CODE
from refdesk.records import StoredTable
from refdesk.tables import TablePeriod, is_scale, period_from, read_period, spoken_periods

_ASKING = r"(?:what|how|which|who|whom|whose|when|where|why)\b"
_BEFORE = re.compile(rf"^.*[,:.] (?={_ASKING})", re.IGNORECASE)
_AFTER = re.compile(rf"(?<=\w),? and (?={_ASKING}).*$", re.IGNORECASE)
# "as reported in the annual report", "according to the notes", "(in millions)": where it stands and how it is written.
_SOURCE = re.compile(r",? (?:as (?:\w{1,20}ed|shown|given|seen) (?:in|on|by)|according to)\b.*$", re.IGNORECASE)
_WRITTEN = re.compile(r" ?\(in [^()]*\)", re.IGNORECASE)
_QUARTER = re.compile(r"\bquarter(?:ly)?\b", re.IGNORECASE)
_SHORT = re.compile(r"\b[A-Z](?:&?[A-Z]){1,5}\b")
_WORD = re.compile(r"[^\W\d_]+|&")
LONGEST_SHORT = 6  # words
_THE = re.compile(r"\b(?:the|its|their) $", re.IGNORECASE)


class AskedForm(NamedTuple):
    """A question as it is put to one table."""

    text: str
    columns: frozenset[int] | None = None  # of the time that is asked for; None where that is not known of its columns
    is_assumed: bool = False  # the question names no time: these are the newest columns


def asking_clause(text: str) -> str:
    """Without what stands around it: a clause before, a second question, where it is said and how it is written.

    >>> asking_clause("Going by the balance sheet, what are the total assets (in millions), and what drives them?")
    'what are the total assets'
    >>> asking_clause("What were sales as reported in the annual report?")
    'What were sales'
    """
    text = " ".join(text.split())
    is_two = re.search(_ASKING, text[: text.lower().rfind(" and ")], re.IGNORECASE)
    clause = _BEFORE.sub("", _AFTER.sub("", text) if is_two else text)
    return _WRITTEN.sub("", _SOURCE.sub("", clause))


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
    if not spoken_periods(text) or _QUARTER.search(text):
        newest = newest_columns(table)
        head = _head(table, newest, 3 if _QUARTER.search(text) else 0)
        if head and len(table.periods) > 1:
            forms.append(AskedForm(_with(clause, head), newest, is_assumed=True))
    return forms


def spelled_out(text: str, table: StoredTable) -> str:
    """With a short form as the words of a row or a column whose initials it is: "R&D" as "research and development".

    Two letters without "&" are the initials of too much, and what the table says itself is no short form of others.
    """
    for short in {match.group() for match in _SHORT.finditer(text)}:
        words_of = _initials(table).get(short.lower())
        if words_of and (len(short) > 2 or "&" in short) and not any(short in cell.text for cell in table.cells):
            text = re.sub(rf"(?<!\w){re.escape(short)}(?!\w)", words_of, text)
    return text


@lru_cache(maxsize=1024)
def _initials(table: StoredTable) -> dict[str, str]:
    """By initials the words of the table's labels that have them; "and" is written "&" or left out."""
    found: dict[str, str] = {}
    labels = [cell.text for cell in table.cells if cell.column == 0]
    for label in (*labels, *(part for head in table.heads for part in head.path)):
        words = _WORD.findall(label)
        letters = ["&" if word.lower() in ("and", "&") else word[0].lower() for word in words]
        for start in range(len(words)):
            for end in range(start + 2, min(start + LONGEST_SHORT, len(words)) + 1):
                own, text = letters[start:end], " ".join(words[start:end])
                if "&" not in (own[0], own[-1]):
                    found.setdefault("".join(own), text)
                    found.setdefault("".join(own).replace("&", ""), text)
    return found


def columns_of(table: StoredTable, when: TablePeriod, report: TablePeriod) -> frozenset[int] | None:
    """Those of the time that is asked for; None where no head of the table names a time."""
    own = _periods(table)
    if not own:
        return None
    if when.quarter and report.quarter:
        if report.is_of(when):
            return newest_columns(table)
        return frozenset(column for column, period in own if period.quarter and period.is_of(when))
    found = frozenset(column for column, period in own if period.is_of(when))
    # Who asks for a year may mean the column of the report's own; who names a day means that day.
    return found or (newest_columns(table) if report.is_of(when) and not when.end else found)


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
    return f"{_THE.sub('', text[:start])}{head}{text[code.end() if code else end :]}"


def _head(table: StoredTable, columns: Iterable[int], length: int) -> str:
    """The name of these columns, of those among them that are of so long a time; what several have in common."""
    own = dict(_periods(table))
    ranked = sorted(columns, key=lambda column: (length > 0 and own[column].length != length, column))
    alike = [column for column in ranked if own[column].length == own[ranked[0]].length]
    paths = [[part for part in table.heads[column].path if not is_scale(part)] for column in alike]
    shared = [parts[0] for parts in takewhile(lambda parts: len({*parts}) == 1, zip(*paths, strict=False))]
    return " ".join(shared) if read_period(" ".join(shared)) else ""


@lru_cache(maxsize=1024)
def _periods(table: StoredTable) -> tuple[tuple[int, TablePeriod], ...]:
    """The columns whose own head names a time."""
    found = ((column, head.measure.period, " ".join(head.path)) for column, head in enumerate(table.heads))
    return tuple((column, period_from(period)) for column, period, path in found if period and read_period(path))
