"""Questions made from the cells of tables, as people ask who do not have the table before them.

A cell by its row, by its period as people spell it, and by the name of an invented company whose report the table is
taken to be from. The row is named in other words than it has: with its section, without one of its words or without
what stands in parentheses, turned round, by its initials. Words stand around the question that name nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from datetime import date

from refdesk.ask.table_question import newest_columns
from refdesk.periods import TablePeriod, period_from
from refdesk.records import StoredCell, StoredTable
from refdesk.tables import grid_of
from refdesk.text import terms

LONGEST_LABEL = 8  # words of a row that is asked for
FORMS = (
    "What was {company}'s {row} {when}?",
    "What were {company}'s {row} {when}?",
    "How much was the {row} of {company} {when}?",
    "What {row} did {company} report {when}?",
    "What did {company} report as its {row} {when}?",
    "How much {row} did {company} have {when}?",
    "How much did {company} spend on {row} {when}?",
    "How high was {company}'s {row} {when}?",
    "What is the {row} amount {when} for {company}?",
    "How much of it was {row} {when}?",
    "What was the total of {row} for {company} {when}?",
    "I need {company}'s {row} {when}.",
    "{company} {row} {when}",
)
CHANGES = (
    "By how much did {company}'s {row} grow from {first} to {last}?",
    "How much did the {row} of {company} change between {first} and {last}?",
    "What was the percentage change in {company}'s {row} from {first} to {last}?",
    "What was the change in {row} from {first} to {last} for {company}?",
)
OF_WORDS = (
    "Why did {company}'s {row} change?",
    "What drove the change in {row} at {company}?",
    "How does {company} account for {row}?",
    "What is included in {company}'s {row}?",
    "What does {company} say about its {row}?",
    "Which factors affect the {row} of {company}?",
    "How is {row} determined?",
    "Who is responsible for {row} at {company}?",
)
# What people put around a question. It says where to look or how to answer, and names nothing that a table must hold.
BEFORE = (
    "Going by the {place}, ",
    "Using only what is shown in the {place}, ",
    "According to the {place}, ",
    "As an analyst who reads the {place}, ",
)
AFTER = (
    " as reported in the latest {report}",
    " as disclosed in its {report}",
    " according to the {place}",
    ", as stated in the most recent {report}",
    " (in millions)",
    ", and what were the reasons",
    ", and how does this compare with others",
)
PLACES = ("statements", "report", "notes", "table", "consolidated statements", "financial statements")
REPORTS = ("annual report", "filing", "quarterly report", "form B-12", "form 7-R", "release")
SURROUNDED, UNTIMED = 0.4, 0.25  # shares: with words around, without a time
RENAMED, DROPPED, TURNED, INITIALS, WITH_SECTION, SWAPPED = 0.6, 0.35, 0.25, 0.08, 0.35, 0.3
SYLLABLES = ("ka", "lo", "mer", "tan", "vi", "sol", "ber", "ni", "dor", "pa", "rell", "us", "gra", "fen", "ost", "il")
SMALL = ("of", "from", "for", "in", "by", "to", "on")
WHOLE = ("total", "reported", "overall", "amount of")
_ASIDE = re.compile(r"\s*\([^()]*\)|\s*\[[^\[\]]*\]|[*†‡]+|\s+\d\)?$")
Made = tuple[str, tuple[str, ...], float | None]  # question, texts that answer it, or the number that does
Row = tuple[str, ...]  # the path of a row: its sections and its name


def invented(dice: random.Random) -> str:
    return "".join(dice.sample(SYLLABLES, 3)).title()


def made_questions(table: StoredTable, company: str, dice: random.Random, most: int) -> Iterator[Made]:
    """A few cells by the names of their rows and by their periods as people spell them."""
    rows = row_paths(table)
    cells, newest = labelled(table, rows), newest_columns(table)
    for path, cell in dice.sample(cells, min(most, len(cells))):
        when, row = spelled(period_from(cell.period), dice), named(path, rows, dice)
        if when and row:
            is_newest = cell.column in newest and len(newest) == 1
            when = "" if is_newest and dice.random() < UNTIMED else when
            asked = " ".join(dice.choice(FORMS).format(company=company, row=row, when=when).split())
            yield surrounded(re.sub(r" (?=[?.])", "", asked), dice), (cell.text,), None


def made_changes(table: StoredTable, company: str, dice: random.Random, most: int) -> Iterator[Made]:
    """The change of a row from one year to another."""
    paths = row_paths(table)
    rows: dict[int, list[tuple[Row, StoredCell]]] = {}
    for path, cell in labelled(table, paths):
        if cell.unit != "%" and period_from(cell.period).length == 12:
            rows.setdefault(cell.row, []).append((path, cell))
    pairs = [own for own in rows.values() if len(own) > 1 and len({cell.period for _, cell in own}) == len(own)]
    for own in dice.sample(pairs, min(most, len(pairs))):
        (path, one), (_, other) = sorted(own, key=lambda pair: period_from(pair[1].period).year)[-2:]
        first, last = period_from(one.period).year, period_from(other.period).year
        row = named(path, paths, dice)
        if one.number and other.number and first and last and row:
            form = dice.choice(CHANGES)
            change = other.number - one.number
            if "percent" in form:
                change = 100 * change / one.number
            yield surrounded(form.format(company=company, row=row, first=first, last=last), dice), (), change


def made_of_words(table: StoredTable, company: str, dice: random.Random, most: int) -> Iterator[str]:
    """Questions about the same rows that no number answers."""
    rows = row_paths(table)
    for path in dice.sample([*rows.values()], min(most, len(rows))):
        if row := named(path, rows, dice):
            yield surrounded(dice.choice(OF_WORDS).format(company=company, row=row), dice)


def named(path: Row, rows: Mapping[int, Row], dice: random.Random) -> str:
    """The row as somebody calls it; "" where its name would mean another one."""
    plain = _small_first(path[-1])
    for said in (
        *(_renamed(path, dice) for _ in range(3) if dice.random() < RENAMED),
        plain,
        _with_section(path, dice),
    ):
        if said and _means(said, path, rows):
            return said
    return ""


def _means(said: str, path: Row, rows: Mapping[int, Row]) -> bool:
    """Is this row nearer to what was said than every other one? Initials are like no words, and so near to none."""
    stems = set(terms(said))

    def near(one: Row) -> tuple[float, float]:
        label, whole = set(terms(one[-1])), set(terms(" ".join(one)))
        return len(stems & whole) - 0.3 * len(label - stems), -len(whole - stems)

    own = near(path)
    return said.replace("&", "").isupper() or all(near(other) < own for other in rows.values() if other != path)


def _renamed(path: Row, dice: random.Random) -> str:
    label = _small_first(_ASIDE.sub("", path[-1]).strip(" :,"))
    if "," in label and dice.random() < TURNED:  # "receivables, net" -> "net receivables"
        first, _, last = label.partition(",")
        label = f"{last.strip()} {first}" if len(last.split()) <= 2 else label
    words = label.replace(",", "").split()
    if words.count("of") == 1 and dice.random() < TURNED:  # "cost of sales" -> "sales cost"
        at = words.index("of")
        words = words[at + 1 :] + words[:at]
    content = [word for word in words if word not in (*SMALL, "and", "the")]
    if 2 <= len(content) <= 4 and dice.random() < INITIALS:
        return "".join("&" if word == "and" else word[0].upper() for word in words if word not in ("the",))
    if len(content) > 2 and dice.random() < DROPPED:
        words.remove(dice.choice(content))
    words = [dice.choice(SMALL) if word in SMALL and dice.random() < SWAPPED else word for word in words]
    said = " ".join(words)
    if len(path) > 1 and dice.random() < WITH_SECTION:
        said = _with_section((*path[:-1], said), dice)
    if dice.random() < 0.2 and "total" not in said:
        said = f"{dice.choice(WHOLE)} {said}"
    return said


def _with_section(path: Row, dice: random.Random) -> str:
    if len(path) < 2:
        return ""
    section, label = _small_first(_ASIDE.sub("", path[-2]).strip(" :,")), _small_first(path[-1])
    if not 0 < len(section.split()) <= LONGEST_LABEL:
        return ""
    forms = (
        "{section} from {label}",
        "{label} {section}",
        "{section} for {label}",
        "{section} of {label}",
        "{label} in {section}",
    )
    return dice.choice(forms).format(section=section, label=label)


def _small_first(text: str) -> str:
    return text if text.isupper() or not text else text[0].lower() + text[1:]


def surrounded(text: str, dice: random.Random) -> str:
    """With words around it as people put them, now and then."""
    if dice.random() >= SURROUNDED:
        return text
    names = {"place": dice.choice(PLACES), "report": dice.choice(REPORTS)}
    if dice.random() < 0.5:
        return dice.choice(BEFORE).format(**names) + text[0].lower() + text[1:]
    return text.rstrip("?.") + dice.choice(AFTER).format(**names) + "?"


def row_paths(table: StoredTable) -> dict[int, Row]:
    """The names of rows that can be asked for."""
    grid = grid_of(table)
    paths = {
        place: tuple(part.strip(" :") for part in path if part.strip(" :"))
        for place, path in zip(grid.places, grid.rows, strict=True)
    }
    return {
        place: path
        for place, path in paths.items()
        if path and 0 < len(path[-1].split()) <= LONGEST_LABEL and any(map(str.isalpha, path[-1]))
    }


def labelled(table: StoredTable, rows: Mapping[int, Row]) -> list[tuple[Row, StoredCell]]:
    """The numbers with a period, each with the path of its row."""
    return [
        (rows[cell.row], cell) for cell in table.cells if cell.row in rows and cell.number is not None and cell.period
    ]


def spelled(period: TablePeriod, dice: random.Random) -> str:
    """ "in the quarter ended June 25, 2022", "at the end of 2019", "in fiscal 2019"."""
    if not period.end:
        year = dice.choice((f"in {period.year}", f"in FY{period.year}", f"in fiscal {period.year}"))
        return f"in Q{period.quarter} {period.year}" if period.quarter else year if period.year else ""
    end = date.fromisoformat(period.end)
    day = f"{end:%B} {end.day}, {end.year}"
    if period.months == 3:
        return dice.choice((f"in the quarter ended {day}", f"for the three months ended {day}"))
    if period.months == 12:
        return dice.choice((f"in {end.year}", f"in fiscal {end.year}", f"in FY{end.year}", f"in the year ended {day}"))
    if period.months:
        return f"in the {period.months} months ended {day}"
    return dice.choice((f"at {day}", f"as of {day}", f"at the end of {end.year}"))
