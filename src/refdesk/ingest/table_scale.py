"""In thousands or in millions, and which numbers are not? What captions, heads, labels and sections state. Pure.

"(in millions, except per share amounts)"            all but prices of shares; and shares are no money
"(net income in millions and shares in thousands)"   rows that speak of shares have a scale of their own
"Notes to the Statements (Dollars in millions)"      above headings, or in one: all money of that part of the document
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from refdesk.tables import SCALE_PATTERN, named_scale
from refdesk.terms import QUERY_STOP_WORDS, terms, words

_PER = re.compile(r"\bper\b", re.IGNORECASE)
_PER_SOMETHING = re.compile(r"\bper\s+\w+", re.IGNORECASE)
_EXCEPT = re.compile(r"\bexcept\b(?:\s+for)?([^).;:]+)", re.IGNORECASE)
_LISTED = re.compile(r",|\band\b|\bor\b", re.IGNORECASE)
_STATED = re.compile(r"\([^()]*\)|\bin\b[^.;:()]{0,40}", re.IGNORECASE)  # where a scale is said of what is shown
_CLAUSE = re.compile(r"[(;:.]\s?")
Stems = frozenset[str]


def stems(text: str) -> Stems:
    return frozenset(terms(" ".join(word for word in words(text) if word not in QUERY_STOP_WORDS)))


def stated_scale(text: str) -> str:
    """The scale that a text states of the numbers below or beside it: in brackets, or after "in".

    >>> stated_scale("Net sales (millions)"), stated_scale("Millions of people"), stated_scale("$ in thousands")
    ('million', '', 'thousand')
    """
    return next((scale for match in _STATED.finditer(text) if (scale := named_scale(match.group()))), "")


@dataclass(frozen=True, slots=True)
class StatedScales:
    """What the caption and the head of a table say of the scale of its rows."""

    others: tuple[tuple[Stems, str], ...] = ()  # things that have a scale of their own, "" for none
    no_money: tuple[Stems, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.others or self.no_money)

    def scale(self, label: Stems) -> str | None:
        """Of a row that is one of the things; None: that of the table."""
        return next((scale for thing, scale in self.others if thing <= label), None)

    def has_money(self, label: Stems) -> bool:
        return not any(thing <= label for thing in self.no_money)


def stated_scales(text: str, labels: Iterable[str], *, is_own: bool) -> StatedScales:
    """`labels`: of the rows. In what is said of this very table, a word that none of them says tells nothing: "data".

    What is said of a whole part of a document (`is_own` is false) need not mean anything here: no row that speaks of
    warehouses is meant by "warehouse count".
    """
    if not (scales := [*re.finditer(SCALE_PATTERN, text, re.IGNORECASE)]):
        return StatedScales()
    excepted = _EXCEPT.findall(text)
    if not excepted and len(scales) < 2:
        return StatedScales()
    said = frozenset(stem for label in labels for stem in stems(label))
    things = [one for part in excepted for one in _LISTED.split(part)]

    def meant(one: str) -> Stems:
        found = stems(one)
        return found & said if is_own or found <= said else frozenset()

    plain = [meant(_PER_SOMETHING.sub(" ", one)) for one in things]
    named = [meant(_PER.sub(" ", one)) for one in things]
    others = [
        (thing, named_scale(later.group()))
        for before, later in itertools.pairwise(scales)
        if (thing := meant(_CLAUSE.split(text[before.end() : later.start()])[-1]))
    ]
    own = [(thing, "") for thing in plain if thing and all(thing != other for other, _ in others)]
    return StatedScales((*others, *own), tuple(thing for thing in named if thing))


class StandingScale:
    """What is stated for a part of a document: in a heading, or in a line above the first heading of that part."""

    def __init__(self) -> None:
        self.said = ""
        self._level = 0  # of the headings that end it
        self._line = ""  # the last text that states a scale
        self._above = 0  # the level of the last heading

    def heading(self, text: str, level: int) -> None:
        if self.said and level <= self._level:
            self.said = ""
        if self._line:
            self.said, self._level = self._line, min(self._above, level - 1)
        if stated_scale(text):
            self.said, self._level = text, level
        self._line, self._above = "", level

    def text(self, text: str) -> None:
        """A text whose end states a scale says it of what follows; "(in millions)" alone is the caption of a table."""
        end = text.rstrip(" :.")
        if "(" in end[1:] and end.endswith(")") and stated_scale(end[end.rfind("(") :]):
            self._line = text

    def table(self) -> None:
        """The text above was its caption."""
        self._line = ""


def scale_of_all(caption: str, head: Iterable[Sequence[str]]) -> str:
    """That of a whole table: said above it, in its corner or over all its columns, but not over one among others."""
    said = [caption]
    for label, *others in head:
        said += [label, *others] if len({*filter(None, others)}) == 1 else [label]
    return named_scale(" ".join(said))
