"""How is a period or a date spelled? One spelling for each, so that searching and judging take equal ones for equal.

    "FY2019", "FY 19", "FY'19", "fiscal 2019", "fiscal year 2019", "2019 fiscal year"   -> "2019"
    "Q3", "3Q", "third quarter", "3rd-quarter"                                          -> "q3 quarter"
    "Q3 FY24", "3Q24", "2024Q3", "third quarter of fiscal 2024"                         -> "q3 quarter 2024"
    "three months ended June 25, 2022"                                                  -> "quarter ended june 25, 2022"
    "2023-07-01", "1 July 2023", "Jul. 1st, 2023"                                       -> "july 1, 2023"

What a document calls a year it calls so in all of its tables, which mostly say 2019 where the text says fiscal 2019;
so the year alone is the term. A quarter keeps the word, for a question that asks in which one. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from refdesk.types import Range

ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_NAMES = "january february march april may june july august september october november december"
MONTHS = {name: number for number, name in enumerate(_NAMES.split(), 1)}
_FULL = {name[:3]: name for name in MONTHS} | {"sept": "september"}
_BY_NUMBER = {number: name for name, number in MONTHS.items()}
_CENTURY = 70  # '69 is 2069, '70 is 1970

_YEAR = r"(?:19|20)\d\d"
_END = r"(?!\d|[.,]\d|\s?%)"
_ORDINAL = "|".join(ORDINALS)
_MONTH = "|".join((*MONTHS, *sorted(_FULL, key=len, reverse=True)))

_FISCAL = re.compile(
    rf"\b(?:fy|fiscal(?:\s+years?)?)[\s-]?['’]?({_YEAR}){_END}|\b(?:fy\s?['’]?|fiscal(?:\s+year)?\s['’])(\d\d){_END}"
    rf"|\b({_YEAR})\s(?:fiscal(?:\s+year)?|fy)\b"
)
_QUARTER = re.compile(
    rf"(?<![a-z\d])q([1-4])(?:['’](\d\d)(?!\d)|({_YEAR})(?!\d)|(?!\w|[.,]\d))"
    rf"|(?<![\w.])([1-4])q(?:['’]?({_YEAR}|\d\d)(?!\d)|(?!\w))"
    rf"|(?<!\d)({_YEAR})\s?q([1-4])(?!\w)"
)
_QUARTER_WORDS = re.compile(
    rf"\b((?:{_ORDINAL})(?:(?:,\s|\s(?:and|or|to|through)\s|,\s(?:and|or)\s)(?:{_ORDINAL})){{0,3}})[\s-]quarters?\b"
)
_EACH_ORDINAL = re.compile(rf"\b(?:{_ORDINAL})\b")
_THREE_MONTHS = re.compile(
    r"\b(?:(?:three|3)[\s-]months?|(?:thirteen|13)[\s-]weeks?)(?:\speriods?)?\s(end(?:ed|ing))\b"
)
_ISO_DAY = re.compile(r"(?<![\d.-])((?:19|20)\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?![\d-])")
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\.?\s(\d{{1,2}})(?:st|nd|rd|th)?,?\s({_YEAR}){_END}")
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?:\s(?:of\s)?|-)({_MONTH})(?:\.?,?\s|-)({_YEAR}){_END}")
_MONTH_ONLY = re.compile(rf"\b({'|'.join(sorted(_FULL, key=len, reverse=True))})\.?,?\s({_YEAR}){_END}")

_QUARTER_MARKS = tuple(f"q{number}" for number in range(1, 5)) + tuple(f"{number}q" for number in range(1, 5))
_MONTH_MARKS = tuple(name[:3] for name in MONTHS)


def alike(text: str) -> str:
    """Lower-case text, with its periods and dates in the one spelling.

    >>> alike("q3 fy24 revenue beat the third quarter of fiscal 2023")
    'q3 quarter 2024 revenue beat the q3 quarter of 2023'
    """
    for rewrite, pattern in _patterns(text):
        text = pattern.sub(rewrite, text)
    return text


def spans(text: str) -> list[Range]:
    """Where periods and dates stand in a text, in order; none within another."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter such as İ that has two in lower case
        return []
    found: list[Range] = []
    for _, pattern in _patterns(lowered):
        for match in pattern.finditer(lowered):
            if all(match.end() <= start or end <= match.start() for start, end in found):
                found.append(match.span())
    return sorted(found)


def _patterns(text: str) -> Iterator[tuple[Callable[[re.Match[str]], str], re.Pattern[str]]]:
    """Those that can match: most texts name no period, and looking for a few letters costs next to nothing."""
    if "fy" in text or "fiscal" in text:
        yield _fiscal, _FISCAL
    if any(mark in text for mark in _QUARTER_MARKS):
        yield _quarter, _QUARTER
    if "quarter" in text:
        yield _quarter_words, _QUARTER_WORDS
    if " end" in text:
        yield _three_months, _THREE_MONTHS
    if "-0" in text or "-1" in text:
        yield _iso_day, _ISO_DAY
    if ("19" in text or "20" in text) and any(mark in text for mark in _MONTH_MARKS):
        yield _month_first, _MONTH_FIRST
        yield _day_first, _DAY_FIRST
        yield _month_only, _MONTH_ONLY


def _fiscal(match: re.Match[str]) -> str:
    return match[1] or match[3] or full_year(match[2])


def _quarter(match: re.Match[str]) -> str:
    number = match[1] or match[4] or match[7]
    year = match[2] or match[3] or match[5] or match[6]
    return f"q{number} quarter {full_year(year)}" if year else f"q{number} quarter"


def _quarter_words(match: re.Match[str]) -> str:
    return " ".join(f"q{ORDINALS[one]}" for one in _EACH_ORDINAL.findall(match[1])) + " quarter"


def _three_months(match: re.Match[str]) -> str:
    return f"quarter {match[1]}"


def _iso_day(match: re.Match[str]) -> str:
    return f"{_BY_NUMBER[int(match[2])]} {int(match[3])}, {match[1]}"


def _month_first(match: re.Match[str]) -> str:
    return f"{_FULL.get(match[1], match[1])} {int(match[2])}, {match[3]}"


def _day_first(match: re.Match[str]) -> str:
    return f"{_FULL.get(match[2], match[2])} {int(match[1])}, {match[3]}"


def _month_only(match: re.Match[str]) -> str:
    return f"{_FULL[match[1]]} {match[2]}"


def full_year(digits: str) -> str:
    """`19` -> `2019`, `98` -> `1998`."""
    if len(digits) != 2:
        return digits
    return f"20{digits}" if int(digits) < _CENTURY else f"19{digits}"
