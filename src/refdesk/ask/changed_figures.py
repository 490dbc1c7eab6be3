"""How a figure has changed: the line item in question, or its value in each of the reports."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from itertools import combinations

from refdesk.answer import Query, Retrieved
from refdesk.ask.formula_text import asks_for_growth, names_ratio, without_growth
from refdesk.ask.line_items import ItemCell, Report, named_times, vectors_of, when_of
from refdesk.ask.named_figures import absence, asked_by_name, named_reports, plan_of, with_hits
from refdesk.ask.plan_choice import TablePlan
from refdesk.ask.sentences import asking_part, question_words
from refdesk.ask.table_answer import INSTEAD, SHOWN, asks_for_figure, asks_yes_or_no
from refdesk.ask.table_question import asking_clause, document_words
from refdesk.ask.wording import NUMBER
from refdesk.library import LibraryReader
from refdesk.periods import period_from, read_period
from refdesk.ports import Reader
from refdesk.terms import terms

_OF_CHANGE = re.compile(  # how it is told
    r"\byear[- ]over[- ]year\b|\bper ?cent\w*|%|\([^()]*\)"
    r"|\b(?:any )?(?:change|drop|rise|fall|increase|decrease|decline|growth) (?:in|of) (?:the )?",
    re.IGNORECASE,
)
_HAS_BECOME = re.compile(r"^how (?:has|have)\b", re.IGNORECASE)


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
    chances = [{one.item.name: one.chance for one in reversed(own)} for own in found]
    # The same row is meant in both years, or none is.
    joint = {name: chances[0][name] * chances[1][name] for name in chances[0].keys() & chances[1].keys()}
    none = math.prod(max(0.0, 1.0 - sum(own.values())) for own in chances)
    best = max(joint, key=lambda name: joint[name], default="")
    if not best or joint[best] < SHOWN * (none + sum(joint.values())):
        return None
    # The chance that it is meant, given that it is so in both.
    chance = joint[best] / (none + sum(joint.values()))
    first, last = (next(replace(one, chance=chance) for one in own if one.item.name == best) for own in found)
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


def asks_to_compute(query: Query) -> bool:
    """May a formula answer it? Yes or no only where it names a time or a ratio: "has debt grown since 2021?"."""
    is_of_time = asks_yes_or_no(query) and (bool(named_times(query.fullest)) or names_ratio(query.fullest))
    return query.number >= NUMBER or asks_for_figure(query) or is_of_time


def asks_over_time(query: Query) -> bool:
    """Does it ask how a figure has become, and name no time?"""
    text = asking_part(query.fullest)
    is_so = asks_for_figure(query) and _HAS_BECOME.search(asking_clause(text)) is not None
    return is_so and not named_times(text)


def over_time(
    query: Query, retrieved: Retrieved, library: LibraryReader, reader: Reader
) -> tuple[list[TablePlan], Retrieved]:
    """What a figure was in each of the reports, and what was found on the way to them."""
    text, vectors = asking_part(query.fullest), vectors_of(reader)
    if vectors is None:
        return [], retrieved
    found: dict[str, ItemCell] = {}
    for report in named_reports(text, retrieved, library, are_all=True):
        for one in asked_by_name(text, [report], vectors)[:1]:
            known = found.get(one.cell.period)
            if one.chance >= INSTEAD and one.cell.period and (known is None or one.chance > known.chance):
                found[one.cell.period] = one
    lengths = Counter(period_from(when).length for when in found)
    usual = max(lengths, key=lambda length: lengths[length], default=0)
    of_length = [one for when, one in found.items() if period_from(when).length == usual]
    told = sorted(of_length, key=lambda one: when_of(period_from(one.cell.period)))
    plans = [plan for one in told if (plan := plan_of(one)) is not None]
    return (plans, with_hits(plans, retrieved, library)) if len(plans) > 1 else ([], retrieved)


def of_each_owner(
    query: Query, retrieved: Retrieved, library: LibraryReader, reader: Reader
) -> tuple[list[tuple[str, TablePlan]], Retrieved]:
    """One figure of each company that the question names, by its name there; none where it names one, or one lacks it.

    "Which had the higher revenue in 2022, Ortel or Brandau?"
    """
    text, vectors = asking_part(query.fullest), vectors_of(reader)
    reports = named_reports(text, retrieved, library) if vectors is not None else []
    names = question_words(asking_clause(text)).sentence.names
    held = [frozenset(names & document_words(report.document, text)) for report in reports]
    shared = frozenset.intersection(*held) if held else frozenset()  # "10-Q", "Q3"
    own: dict[frozenset[str], list[Report]] = {}
    for report, whose in zip(reports, held, strict=True):
        own.setdefault(whose - shared, []).append(report)
    are_apart = all(one.isdisjoint(other) for one, other in combinations(own, 2))
    if vectors is None or len(own) < 2 or not all(own) or not are_apart:
        return [], retrieved
    told: list[tuple[str, TablePlan]] = []
    for whose, theirs in own.items():
        written = [word.strip(",.?!'’") for word in text.split() if whose.intersection(terms(word))]
        found = asked_by_name(_without(text, frozenset().union(*own) - whose), theirs, vectors)[:1]
        plans = [plan for one in found if one.chance >= INSTEAD and (plan := plan_of(one)) is not None]
        if not plans or not written:
            return [], retrieved
        told.append((_POSSESSIVE.sub("", written[0]), plans[0]))
    return told, with_hits([plan for _, plan in told], retrieved, library)


def _without(text: str, stems: frozenset[str]) -> str:
    """Without the names of the others, and what joins them and compares: "Apple or Intel"."""
    kept = [
        word for word in text.split() if stems.isdisjoint(terms(word)) and not _COMPARES.fullmatch(word.strip(",?"))
    ]
    return " ".join(kept)


_POSSESSIVE = re.compile(r"['’]s?$")
_COMPARES = re.compile(r"or|company|higher|lower|more|less|larger|smaller|greater|bigger|compare", re.IGNORECASE)
