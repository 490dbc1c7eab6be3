"""Finds the figures in a sentence and compares them: numbers with unit and scale, dates, codes. Pure.

    "$4.2M" = "4.2 million dollars" = "4,200,000"      "about 4.2 million" agrees with 4,213,000; 4.3 million does not
    "twenty-one", "a dozen", "half", "(3.1)", "3 per cent", "31.10.2025", "Q3 2024", "TG-4"

A claim agrees with a source at the precision the claim gives: 4.2 million is right for 4,213,000, not the reverse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from string import ascii_letters
from typing import Literal, NamedTuple

from refdesk import periods
from refdesk.answer import Citation, Conflict, Context, Query
from refdesk.ask.sentences import FRAME, question_words
from refdesk.ask.wording import CELLS, KEPT, NUMBER_WORDS, PART, STOP_TERMS, named_cells, read
from refdesk.periods import DATE_PATTERN, Period, When, document_period, read_date, spaced
from refdesk.text import asset_lines, terms, word_list, words
from refdesk.types import Chunk, Document

# --- the words that figures are written with: scales, currencies, units, fractions, numbers (assets/units.txt) --------
# `g 1 k m = g gram`: g, kg, mg, gram, grams, kilogram, kilograms, milligram, milligrams, in grams


class Unit(NamedTuple):
    base: str
    factor: float


def _lines(section: str) -> Iterator[tuple[str, list[str]]]:
    """(meaning, spellings) of `what = spelling spelling …`; a word alone means itself."""
    for line in asset_lines("units", section):
        meaning, _, spellings = line.partition(" = ")
        yield meaning, (spellings or meaning).split()


def _with_plural(word: str) -> tuple[str, ...]:
    return (word, f"{word}s") if word.isalpha() and word.islower() and len(word) > 2 and word[-1] != "s" else (word,)


def _units() -> Iterator[tuple[str, Unit]]:
    """(spelling, unit): "kg" and "kilograms" come from `g 1 k = g gram` and the prefixes."""
    prefixes = {sign: (signs[0], float(factor)) for factor, signs in _lines("prefixes") for sign in signs[1:]}
    for meaning, (sign, *names) in _lines("units"):
        base, factor, *signs = (meaning if " " in meaning else f"{meaning} 1").split()
        written = [(spelling, 1.0) for spelling in (sign, *names)]
        for prefix in signs:
            name, times = prefixes[prefix]
            written += [(prefix + sign, times), *((name + spelling, times) for spelling in names)]
        for word, times in written:
            yield from ((form, Unit(base, float(factor) * times)) for form in _with_plural(word))


SCALES = {form: float(factor) for factor, listed in _lines("scales") for word in listed for form in _with_plural(word)}
CURRENCIES = {form: code for code, listed in _lines("currencies") for word in listed for form in _with_plural(word)}
UNITS = dict(_units())
_ENDINGS = {"ve": "f", "t": "", "e": "", "y": "ie"}  # of "five", "eight", "nine", "twenty", before "th"
ORDINALS = {word: number for word, number in periods.ORDINALS.items() if word.isalpha()} | {
    f"{next((word.removesuffix(end) + new for end, new in _ENDINGS.items() if word.endswith(end)), word)}th": number
    for word, number in NUMBER_WORDS.items()
    if number > max(periods.ORDINALS.values())
}
WORDS = {word: float(number) for word, number in NUMBER_WORDS.items()}
WORDS |= {word: SCALES[word] for word in word_list("words", "number words") if word in SCALES}
_PARTS = {"half": 2, "quarter": 4} | {word: number for word, number in ORDINALS.items() if 2 < number <= 10}
FRACTIONS = {f"a {part}": 1 / number for part, number in _PARTS.items()}
FRACTIONS["half"] = FRACTIONS["a half"]
FRACTIONS |= {
    f"{word} {part}{'s' * (count > 1)}": count / number
    for part, number in _PARTS.items()
    for word, count in NUMBER_WORDS.items()
    if 0 < count < number
}

# --- the figures of a text -------------------------------------------------------------------------------------------

Kind = Literal["number", "date", "time", "code", "ordinal"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """One figure: characters `start..end` of the text.

    `value` is in the base of its `unit` ("kg" in grams); `step` is the worth of its last digit. `others` are further
    readings of the same characters (5m: metres or millions; 1.234: a decimal or a thousand).
    """

    kind: Kind
    text: str
    start: int
    end: int
    value: float = 0.0
    step: float = 1.0
    unit: str = ""
    bare: float = 0.0  # the value as written, without the factor of its unit
    when: tuple[When, ...] = ()
    others: tuple[tuple[float, str], ...] = ()
    bound: str = ""  # "", "over", "under", "about"
    weak: bool = False  # "one", "first": as often a word as a figure
    signed: bool = True  # False: in brackets, which may mean minus


_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+,\d+|\d+(?:[.,·]\d+)?|\.\d+"
_SCALE = "|".join(sorted(map(re.escape, SCALES), key=len, reverse=True))
_UNIT = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_CURRENCY = "|".join(sorted(map(re.escape, CURRENCIES), key=len, reverse=True))
_WORD = "|".join(sorted(WORDS, key=len, reverse=True))
_ORDINAL = "|".join(sorted(ORDINALS, key=len, reverse=True))
_FRACTION = "|".join(sorted((name.replace(" ", r"[\s-]") for name in FRACTIONS), key=len, reverse=True))
_FIGURE = re.compile(
    r"(?<![A-Za-z])(?:"  # no figure begins within a word; the alternatives are tried at a fifth of the places
    + "|".join(
        (
            rf"(?P<date>{DATE_PATTERN})",
            r"(?P<time>\b(?:[01]?\d|2[0-4])[:.h][0-5]\d(?::[0-5]\d)?\s*(?:[ap]\.?m\b\.?)|\b(?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d)?\b(?!:)"
            r"|\b1?\d\s*[ap]\.?m\b\.?)",
            r"(?P<code>\b(?!\d{1,3}(?:\.\d{3})+,\d)v?\d+(?:\.\d+){2,}\b|\bv\d+(?:\.\d+)*\b|\b[A-Za-z]{1,12}[-/]?\d++(?-i:(?:[-/.]?[A-Z0-9]++|[a-z](?![a-z]))*)\b"
            r"|(?-i:\b\d+-?(?![MBKVWACFX]\b|[kMG]W\b|[KMGT]B\b)[A-Z]{1,4}(?:-?\d+)?\b))",
            rf"(?P<plain>(?P<open>\()?(?P<sign>(?<![\w.])[-−–+](?=[\d.$€£¥]))?(?:(?P<before>{_CURRENCY})\s?(?P<open2>\()?(?P<sign2>[-−])?)?"
            rf"(?<![\w])(?P<number>{_NUMBER})(?P<close>\))?"
            rf"(?:[\s-]?(?P<scale>(?:{_SCALE}))(?![a-z]))?"
            rf"(?:[\s-]?(?P<unit>%|per\s?cent(?:age\s+points?)?|percentage\s+points?|pp\b|{_UNIT}|{_CURRENCY})(?![A-Za-z]))?"
            r"(?P<th>st|nd|rd|th)?(?![A-Za-z]*\d))",
            rf"(?P<fraction>\b(?P<share>{_FRACTION})\b(?:\s+(?:of\s+)?an?\s+(?P<fscale>million|billion|dozen|hundred|thousand))?)",
            rf"(?P<words>\b(?:an?\s+)?(?:{_WORD})(?:(?:[\s-]+(?:and\s+)?)(?:{_WORD}))*\b"
            rf"(?:[\s-](?P<wunit>per\s?cent|percentage\s+points?|{_UNIT}|{_CURRENCY})(?![A-Za-z]))?)",
            rf"(?P<ordinal>\b(?:{_ORDINAL})\b)",
        )
    )
    + ")",
    re.IGNORECASE,
)
_PREFIXES = frozenset(
    ("mid", "early", "late", "pre", "post", "non", "in", "of", "and", "to", "p", "pp", "no", "vol", "rs", "us")
)
_BOUND = re.compile(
    r"(?:(?P<over>more than|over|at least|above|exceed(?:s|ed|ing)?|greater than|upwards? of|not less than|>=?|≥)"
    r"|(?P<under>less than|fewer than|under|at most|below|up to|no more than|not more than|<=?|≤)"
    r"|(?P<about>about|around|roughly|approximately|approx\.?|nearly|almost|some|circa|ca\.?|close to"
    r"|an? estimated|~|≈)"
    r")\s*\Z",
    re.IGNORECASE,
)
BESIDE = 40  # characters in which the word stands that says something of a figure
THOUSAND = 3  # digits that are set apart
_FIRST_NUMBER = re.compile(_NUMBER)
HOUR, HALF_DAY = 60, 720  # minutes
_HALF = re.compile(r"([ap])\.?m", re.I)
_JOINING = frozenset(("-", "–", "—", "to", "and", "or", "bis", "through"))  # the ends of a range


@lru_cache(maxsize=KEPT)  # the sentences of a passage are read again for every claim; one may have a hundred figures
def figures(text: str) -> tuple[Quantity, ...]:
    """The figures of a text, in order.

    >>> [(one.value, one.unit) for one in figures("It cost $4.2M and weighs 350 kg.")]
    [(4200000.0, 'USD'), (350000.0, 'g')]
    """
    read = ((_read(match, text), match.start()) for match in _FIGURE.finditer(text))
    found = [replace(figure, bound=_bound(text, start)) for figure, start in read if figure is not None]
    return tuple(_shared_units(found, text))


def _read(match: re.Match[str], text: str) -> Quantity | None:
    shown, at = match.group(), match.span()
    if match["date"] is not None:
        return Quantity("date", shown, *at, float(when[0].year), when=when) if (when := read_date(match)) else None
    if match["time"] is not None:
        return Quantity("time", shown, *at, _minutes(shown))
    if match["code"] is not None:
        return _code(shown, at)
    if match["plain"] is not None:
        return _plain(match)
    if match["fraction"] is not None:
        value = FRACTIONS[_spaced(match["share"])]
        scale = WORDS[match["fscale"].lower()] if match["fscale"] else 1.0
        # "A third of them" is a share, "a third cousin" is none.
        is_weak = shown[0] in "aA" and text[match.end() :].split(maxsplit=1)[:1] != ["of"]
        return Quantity("number", shown, *at, value * scale, step=0.02 * scale, weak=is_weak)
    if match["ordinal"] is not None:
        return Quantity("ordinal", shown, *at, float(ORDINALS[shown.lower()]), weak=True)
    return _spelled(match)


def _code(shown: str, at: tuple[int, int]) -> Quantity | None:
    """An identifier: compared as letters, without hyphens and case. `mid-2024` is a year, `350kg` a weight."""
    digits = shown.lstrip(ascii_letters)
    head, digits = shown.removesuffix(digits).lower(), digits.strip("-/")
    if head in _PREFIXES and digits.isdigit():
        kind: Kind = "date" if len(digits) == 4 else "number"
        when = (When(int(digits)),) if kind == "date" else ()
        return Quantity(kind, digits, at[1] - len(digits), at[1], float(digits), when=when)
    return Quantity("code", compact(shown), *at)


def compact(text: str) -> str:
    plain = "".join(text.split()).replace("/", "").replace("-", "").casefold()
    return plain.replace(".", "").removeprefix("v") if text[:1] in "vV" and text[1:2].isdigit() else plain


def _plain(match: re.Match[str]) -> Quantity | None:
    value, step, others = _value(match["number"])
    scale = _scale(match["scale"])
    unit, factor = _unit(match["unit"], match["before"])
    in_brackets = bool(match["open"] or match["open2"]) and bool(match["close"])
    sign = -1.0 if (match["sign"] or match["sign2"] or "+") in "-−–" and (match["sign"] or match["sign2"]) else 1.0
    if in_brackets and ("." in match["number"] or "," in match["number"] or match["before"]):
        sign = -1.0
    readings = [(other * scale * factor * sign, unit) for other in others]
    if match["scale"] in ("m", "M", "k", "K", "b", "B") and not match["before"] and not match["unit"]:
        base, metre = UNITS.get(match["scale"], Unit(match["scale"], 1.0))
        readings.append((value * metre * sign, base))
    kind: Kind = "ordinal" if match["th"] else "number"
    return Quantity(
        kind,
        match.group(),
        *match.span(),
        value * scale * factor * sign,
        step * scale * factor,
        unit,
        value * scale * sign,
        others=tuple(readings),
        signed=not in_brackets,
    )


def _value(number: str) -> tuple[float, float, list[float]]:
    """The number, the worth of its last digit, and other readings of its separators."""
    whole, comma, end = number.rpartition(",")
    if comma and "." in whole:  # 1.234,56
        return _of_last_digit(f"{whole.replace('.', '')}.{end}")
    if comma and "," not in whole and "." not in end and len(end) != THOUSAND:  # 4,2
        return _of_last_digit(f"{whole}.{end}")
    bare = number.replace(",", "").replace("·", ".")
    whole, _, end = number.partition(".")
    may_be_thousands = len(end) == THOUSAND and whole.isdecimal() and len(whole) <= THOUSAND and whole[0] != "0"
    return _of_last_digit(bare, [float(bare.replace(".", ""))] if may_be_thousands else [])


def _of_last_digit(bare: str, others: Sequence[float] = ()) -> tuple[float, float, list[float]]:
    return float(bare), 10.0 ** -len(bare.partition(".")[2]), [*others]


def _scale(word: str | None) -> float:
    return SCALES.get(word, SCALES.get(word.lower(), 1.0)) if word else 1.0


_ANY_CASE = {name.lower(): reading for name, reading in reversed(UNITS.items())}
_MONEY = {name.lower(): code for name, code in CURRENCIES.items()}


def _unit(unit: str | None, currency: str | None) -> tuple[str, float]:
    if unit and (not currency or unit == "%"):
        letters = "".join(unit.lower().split())
        if letters in ("%", "percent"):
            return "%", 1.0
        if letters == "pp" or letters.startswith("percentage"):
            return "pp", 1.0
        found = UNITS.get(unit) or _ANY_CASE.get(unit.lower())
        if found:
            return found.base, found.factor
        currency = unit
    return (_MONEY.get(currency.lower(), currency), 1.0) if currency else ("", 1.0)


def _minutes(shown: str) -> float:
    hour, minute, *_ = (*map(int, re.findall(r"\d+", shown)), 0)
    half, hours = _HALF.search(shown), hour * HOUR
    return float(minute + (hours % HALF_DAY + HALF_DAY * (half[1] in "pP") if half else hours))


def _spaced(words: str) -> str:
    return " ".join(words.lower().replace("-", " ").split())


def _spelled(match: re.Match[str]) -> Quantity | None:
    """`two hundred and five thousand` -> 205,000."""
    unit_text = match["wunit"]
    shown = match.group() if not unit_text else match.group()[: match.start("wunit") - match.start()]
    words = [word for word in _spaced(shown).split() if word != "and"]
    total = current = 0.0
    for word in words:
        value = 1.0 if word in ("a", "an") else WORDS[word]
        if value >= 1000:
            total, current = total + (current or 1.0) * value, 0.0
        elif word in ("hundred", "dozen"):
            current = (current or 1.0) * value
        else:
            current += value
    unit, factor = _unit(unit_text, None)
    value = (total + current) * factor
    is_weak = words == ["one"]
    return Quantity("number", match.group(), *match.span(), value, factor, unit, total + current, weak=is_weak)


def _bound(text: str, start: int) -> str:
    found = _BOUND.search(text[max(0, start - BESIDE) : start])
    return (found and found.lastgroup) or ""


def _shared_units(found: list[Quantity], text: str) -> Iterator[Quantity]:
    """`5–10 kg`, `between 5 and 10 million`: the first takes the unit of the second, as a further reading."""
    for place, figure in enumerate(found):
        following = found[place + 1] if place + 1 < len(found) else figure
        numbers = figure.kind == following.kind == "number" and not figure.unit and bool(following.unit)
        if numbers and text[figure.end : following.start].strip().lower() in _JOINING:
            bare = _FIRST_NUMBER.search(following.text)
            written = _value(bare.group())[0] if bare else following.bare  # "10 kg" or "ten kg"
            factor = following.value / written if written else 1.0
            yield replace(figure, others=(*figure.others, (figure.value * abs(factor), following.unit)))
        else:
            yield figure


def agrees(claim: Quantity, source: Quantity) -> bool:
    """Does the source say this figure, at the claim's own precision?"""
    if claim.kind == "code" or source.kind == "code":
        return claim.kind == source.kind and claim.text == source.text
    if claim.kind == "date" or source.kind == "date":
        if claim.kind == source.kind:
            return any(known.covers(time) for time in claim.when for known in source.when)
        return "number" in (claim.kind, source.kind) and claim.value == source.value and not (claim.unit or source.unit)
    if claim.kind == "time" or source.kind == "time":
        return claim.kind == source.kind and not (claim.value - source.value) % HALF_DAY and _same_half(claim, source)
    if claim.kind != source.kind:  # "third" is not 3
        return False
    mine, theirs = [(claim.value, claim.unit), *claim.others], [(source.value, source.unit), *source.others]
    if any(_near(claim, source, *value, *their) for value in mine for their in theirs):
        return True
    if bool(claim.unit) == bool(source.unit):
        return False
    one, other = _as_written(claim), _as_written(source)  # "350" is proved by "350 kg", "350 kg" by the 350 of a table
    return _near(one, other, one.value, "", other.value, "")


def _as_written(quantity: Quantity) -> Quantity:
    """Without its unit: 15 days is 15, not 1,296,000 seconds."""
    if not quantity.unit or not quantity.value:
        return quantity
    return replace(quantity, value=quantity.bare, unit="", step=quantity.step * abs(quantity.bare / quantity.value))


def _same_half(claim: Quantity, source: Quantity) -> bool:
    """12:30 and 0:30 differ where both say which; "3:00" agrees with "3 pm"."""
    says = [bool(_HALF.search(quantity.text)) or quantity.value >= HALF_DAY + HOUR for quantity in (claim, source)]
    return claim.value == source.value or not all(says)


def _near(claim: Quantity, source: Quantity, claimed: float, unit: str, stated: float, source_unit: str) -> bool:
    if unit and source_unit and unit != source_unit:
        return False
    if {unit, source_unit} == {"%", ""} and not math.isclose(claimed, stated):  # 42 % and 0.42, a half
        share, bare = (claimed, stated) if unit == "%" else (stated, claimed)
        step = claim.step if unit == "%" else 100 * claim.step
        return 0 < abs(bare) < 1 and _within(abs(share - 100 * bare), 0.5 * step)
    if not source.signed or not claim.signed:
        claimed, stated = abs(claimed), abs(stated)
    if claimed * stated < 0:
        return False
    if math.isclose(claimed, stated):
        return True
    if claim.bound == "over" and source.bound != "over" and unit == source_unit:
        return claimed <= stated <= 2 * claimed
    if claim.bound == "under" and source.bound != "under" and unit == source_unit:
        return claimed / 2 <= stated <= claimed
    step = claim.step
    if claim.bound == "about" or source.bound == "about":
        while claimed and claimed % (step * 10) == 0:
            step *= 10
    near = _within(abs(claimed - stated), 0.5 * step)
    return near and (claim.bound == "about" or _within(source.step, claim.step))


def _within(value: float, limit: float) -> bool:
    """The sums of decimals are a little off: 0.1 + 0.2 is within 0.3."""
    return math.isclose(max(value, limit), limit)


# --- where do two sources disagree? The same of the same thing, for the same period, in one unit, with another value -

MORE = 0.5  # of the words two statements share, one may have that many beside them, as long as the other adds none

_OBLIGE = frozenset(terms(" ".join(FRAME))) | frozenset(terms("need shall require"))
# What follows a comma belongs to the statement when it narrows it down ("…, if it stands in salt water").
_NARROWS = re.compile(
    r"\s*(?:if|when|unless|except|excluding|including|for|with|without|in|at|on|during|until|as|of|from|to|by|net)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A quote, and what its document and its table add to it."""

    quote: str
    page: int
    document_id: str
    document_name: str
    around: frozenset[str]  # terms of the quote, its headings, and the document's name and title
    figures: tuple[Quantity, ...]
    dates: frozenset[When]
    period: Period  # of the document, as far as its name or title tells
    cells: Mapping[str, str] | None  # column -> cell of a row whose columns are named; "" is the row's own name
    is_row: bool


Clash = tuple[Quantity, Quantity]


def conflicts(query: Query, context: Context, citations: Sequence[Citation]) -> tuple[Conflict, ...]:
    """Pairs of quotes that cannot both be true."""
    if len({citation.marker for citation in citations}) < 2:
        return ()
    chunks = {chunk.id: chunk for passage in context.passages for chunk in passage.chunks}
    titles = {passage.document.id: passage.document.title for passage in context.passages}
    sides = [
        (citation.marker, _cited(citation, chunks.get(citation.chunk_id), titles.get(citation.document_id, "")))
        for citation in citations
    ]
    found: dict[tuple[int, int], Conflict] = {}
    for (marker, one), (other_marker, other) in combinations(sides, 2):
        pair = (marker, other_marker)
        if marker != other_marker and pair not in found and (clash := disagree(query, one, other)):
            says = f"{one.document_name} says {clash[0].text}, {other.document_name} says {clash[1].text}"
            found[pair] = Conflict(says, pair)
    return tuple(found.values())


def disagree(query: Query, side: Side, other: Side) -> Clash | None:
    """The two values, where the quotes give different ones of what is asked about."""
    if not _may_differ(query, side, other):
        return None
    return _rows_clash(side, other) if side.is_row or other.is_row else _sentences_clash(query, side, other)


def quoted_side(sentence: str, chunk: Chunk, document: Document) -> Side:
    """A sentence of a chunk as one side."""
    return _side(sentence, chunk.page, document.id, document.name, document.title, chunk.heading_path, chunk)


def _cited(citation: Citation, chunk: Chunk | None, title: str) -> Side:
    return _side(
        citation.quote, citation.page, citation.document_id, citation.document_name, title, citation.heading_path, chunk
    )


def _side(
    quote: str, page: int, document_id: str, name: str, title: str, heading_path: Sequence[str], chunk: Chunk | None
) -> Side:
    numbers = figures(quote)
    return Side(
        quote,
        page,
        document_id,
        name,
        around=frozenset(terms(" ".join((quote, *heading_path, spaced(name), title)))),
        figures=numbers,
        dates=_dates(numbers),
        period=document_period(name, title),
        cells=_cells(quote, chunk) if chunk is not None else None,
        is_row=CELLS in quote or (chunk is not None and chunk.kind == "table"),
    )


def _dates(found: Iterable[Quantity]) -> frozenset[When]:
    return frozenset(when for quantity in found if quantity.kind == "date" for when in quantity.when)


# --- the same thing --------------------------------------------------------------------------------------------------


def _may_differ(query: Query, side: Side, other: Side) -> bool:
    """Two places, about what the question names, and not from reports of different periods."""
    if side.quote == other.quote or (side.document_id == other.document_id and side.page == other.page):
        return False
    question = question_words(query.fullest)
    names = question.named - question.sentence.numbers
    if names & side.around != names & other.around or (names and not names & side.around):
        return False
    if side.dates or other.dates:
        return True  # the quotes say themselves of when they speak
    if side.document_id == other.document_id:
        return False  # a report repeats a sentence for the quarter and for the year to date, each under its heading
    same = (side.period.years, side.period.quarters) == (other.period.years, other.period.quarters)
    return same or not (side.period and other.period)


_DATED = frozenset(["when", "year", "date", "day"])


def _sentences_clash(query: Query, side: Side, other: Side) -> Clash | None:
    """The first figures that both have one of, in one unit and of one thing, and that disagree."""
    if _codes(side.figures) != _codes(other.figures):
        return None
    seeks_date = not _DATED.isdisjoint(words(query.fullest))
    mine, theirs = _by_kind(side), _by_kind(other)
    for kind in (key for key in mine if key in theirs):
        is_date = kind[0] == "date"
        if (is_date and not seeks_date) or len(mine[kind]) != len(theirs[kind]):
            continue  # a date that is not asked for says of when the rest is true
        if not is_date and side.dates != other.dates:
            continue
        if any(agrees(a, b) or agrees(b, a) for a in mine[kind] for b in theirs[kind]):
            continue
        clash = mine[kind][0], theirs[kind][0]
        same_document = side.document_id == other.document_id
        if _is_same_statement(query, side.quote, other.quote, clash, exact=same_document):
            return clash
    return None


def _by_kind(side: Side) -> dict[tuple[str, str, str], list[Quantity]]:
    """Figures by kind and unit; a number without a unit counts what the word after it says."""
    found: dict[tuple[str, str, str], list[Quantity]] = {}
    for figure in side.figures:
        if figure.kind == "code" or figure.weak:
            continue
        counted = ""
        if figure.kind == "number" and not figure.unit:
            following = [term for term in terms(side.quote[figure.end : figure.end + BESIDE]) if term not in STOP_TERMS]
            counted = following[0] if following else ""
            if not counted:
                continue
        found.setdefault((figure.kind, figure.unit, counted), []).append(figure)
    return found


def _is_same_statement(query: Query, text: str, other: str, clash: Clash, *, exact: bool) -> bool:
    """With the figures taken out, do both say the same? One may add a little to what the other says, not both."""
    first, second = _statement(text, clash[0]), _statement(other, clash[1])
    shared = first & second
    more, less = first - second, second - first
    added = more or less
    if (more and less) or not shared & frozenset(query.terms) or (added and len(shared) < 2):
        return False
    if exact:
        return not added
    names = (read(text).names if more else read(other).names) - frozenset(query.terms)
    return not added & (frozenset(query.terms) | names) and len(added) <= MORE * len(shared)


def _statement(quote: str, figure: Quantity) -> frozenset[str]:
    """The content words up to the figure, and after it those of its own part of the sentence."""
    stop = len(quote)
    for mark in PART.finditer(quote, figure.end):
        if not _NARROWS.match(quote, mark.end()):
            stop = mark.start()
            break
    return read(_without_figures(quote[:stop])).content - _OBLIGE


def _without_figures(text: str) -> str:
    """The text without its figures and their units; codes such as TG-4 stay, they name things."""
    for found in sorted(figures(text), key=lambda figure: -figure.start):
        if found.kind != "code":
            text = f"{text[: found.start]} {text[found.end :]}"
    return text


def _codes(found: Sequence[Quantity]) -> frozenset[str]:
    return frozenset(quantity.text for quantity in found if quantity.kind == "code")


# --- rows of tables --------------------------------------------------------------------------------------------------


def _rows_clash(side: Side, other: Side) -> Clash | None:
    """Cells of the same row and the same column of two documents of the same period, where all of that is known."""
    if side.cells is None or other.cells is None or side.document_id == other.document_id:
        return None
    if side.period != other.period or _label(side.cells) != _label(other.cells):
        return None
    for column in (name for name in side.cells if name and name in other.cells):
        mine, theirs = figures(side.cells[column]), figures(other.cells[column])
        if len(mine) != 1 or len(theirs) != 1 or (mine[0].kind, mine[0].unit) != (theirs[0].kind, theirs[0].unit):
            continue
        if not agrees(mine[0], theirs[0]) and not agrees(theirs[0], mine[0]):
            return mine[0], theirs[0]
    return None


def _label(cells: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(terms(cells.get("", "")))


def _cells(quote: str, chunk: Chunk) -> Mapping[str, str] | None:
    """`Japan | 46 | 170` -> {"": "Japan", "meal": "46", "hotel": "170"}; None where the columns have no names."""
    rows = [chunk.text[start:end] for start, end, *_ in chunk.sentences]
    cells = named_cells(chunk, rows.index(quote)) if quote in rows else []
    if not cells:
        return None
    (_, label), *rest = cells
    return {"": label} | {" ".join(terms(name)): cell for name, cell in rest}
