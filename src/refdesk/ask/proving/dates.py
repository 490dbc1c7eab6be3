"""Which days, months, quarters and years does a text name, and at which hours? Pure.

"31 October 2025", "Oct. 31, 2025", "31.10.2025", "2025-10-31" -> 2025, month 10, day 31
"Q3 2024", "third quarter of 2024", "3Q24" -> 2024, quarter 3        "FY2018" -> 2018
"""

from __future__ import annotations

import re
from typing import NamedTuple


class When(NamedTuple):
    """What is said of a date; 0 where nothing is said. `decade`: any year of the ten that begin with `year`."""

    year: int = 0
    quarter: int = 0
    month: int = 0
    day: int = 0
    decade: bool = False

    def covers(self, claim: When) -> bool:
        """Does this say all that the claim says? A year covers no day; a day covers its month, quarter and year."""
        if self.decade or claim.decade:
            return self.year // 10 == claim.year // 10 and not (claim.month or claim.day)
        quarter = self.quarter or ((self.month + 2) // 3 if self.month else 0)
        own = (self.year, quarter if claim.quarter else 0, self.month, self.day)
        said = (claim.year, claim.quarter, claim.month, claim.day)
        return all(not wanted or wanted == held for wanted, held in zip(said, own, strict=True))

    def clashes(self, claim: When) -> bool:
        """Do both say something of the same part, and differ in it?"""
        pairs = zip(self[:4], claim[:4], strict=True)
        return any(held and wanted and held != wanted for wanted, held in pairs)


_NAMES = "january february march april may june july august september october november december".split()  # noqa: SIM905
MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
MONTHS |= {name[:3]: number for name, number in list(MONTHS.items())} | {"sept": 9}
_GERMAN = (
    "januar",
    "februar",
    "märz",
    "april",
    "mai",
    "juni",
    "juli",
    "august",
    "september",
    "oktober",
    "november",
    "dezember",
)
_FRENCH = (
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
)
MONTHS |= {name: number for names in (_GERMAN, _FRENCH) for number, name in enumerate(names, 1)}

_MONTH = "(?P<{}>" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
_YEAR = r"(?P<{}>(?:1\d|20|21)\d\d)\b"
_DAY = r"(?P<{}>[0-3]?\d)(?:st|nd|rd|th|\.)?"
_QUARTERS = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "1st": 1,
    "2nd": 2,
    "3rd": 3,
    "4th": 4,
    "final": 4,
    "last": 4,
}

PATTERN = "|".join(
    (
        r"\b(?P<y1>(?:1\d|20|21)\d\d)[-/](?P<m1>[01]?\d)[-/](?P<d1>[0-3]?\d)\b",
        r"\b(?P<a2>[0-3]?\d)(?P<sep2>[./-])(?P<b2>[0-3]?\d)(?P=sep2)(?P<y2>(?:1\d|20)\d\d|\d\d)\b(?![./-]\d)",
        rf"\b{_DAY.format('d3')}\s+(?:of\s+|de\s+)?{_MONTH.format('m3')},?(?:\s+(?:of\s+)?{_YEAR.format('y3')})?",
        rf"\b{_MONTH.format('m4')}\s+(?:the\s+)?(?P<d4>[0-3]?\d)(?:st|nd|rd|th)?\b(?!\s*(?:%|per\s?cent|million))"
        rf"(?:,?\s+{_YEAR.format('y4')})?",
        r"\b" + _MONTH.format("m5") + r",?\s+(?:of\s+)?" + _YEAR.format("y5"),
        r"(?-i:\b(?P<m12>January|February|April|June|July|August|September|October|November|December)\b)",
        r"(?-i:(?<=\b[Ii]n )|(?<=\bof )|(?<=\bsince )|(?<=\bby )|(?<=\buntil ))(?-i:(?P<m13>May|March)\b)",
        r"\bQ(?P<q6>[1-4])(?:\s*+(?:of\s++)?(?:FY|fiscal(?:\s+year)?)?\s*+['’]?(?P<y6>(?:19|20)\d\d|\d\d)\b)?(?!\d)",
        r"\b(?P<q7>[1-4])Q\s*['’]?(?P<y7>(?:19|20)\d\d|\d\d)\b",
        r"\b(?P<q8>first|second|third|fourth|final|last|1st|2nd|3rd|4th)[\s-]+quarter"
        r"(?:,?\s+(?:of\s+)?(?:the\s+)?(?:fiscal\s+)?(?:year\s+)?(?P<y8>(?:19|20)\d\d)\b)?",
        r"\b(?:FY|fiscal(?:\s+year)?)\s*['’]?(?P<y9>(?:19|20)\d\d|\d\d)\b",
        r"\b(?P<y10>(?:1\d|20)\d0)['’]?s\b",
        r"\b(?P<y11>(?:1\d|20)\d\d)(?P<to11>[-–/]\d\d)?\b(?![,.]*\d)(?!\s*(?:%|per\s?cent|percent))",
    )
)  # fmt: skip
_GROUPS = re.compile(r"([a-z]+)(\d+)")


def read(match: re.Match[str]) -> tuple[When, ...]:
    """The readings of a match of PATTERN: one, two for a date such as 03/04/2025, none for what is no date."""
    parts = {name: value for name, value in match.groupdict().items() if value is not None and _GROUPS.fullmatch(name)}
    number = max(int(_GROUPS.fullmatch(name)[2]) for name in parts)  # type: ignore[index]
    own = {_GROUPS.fullmatch(name)[1]: value for name, value in parts.items()}  # type: ignore[index]
    year = _year(own.get("y", ""))
    if number == 2:
        first, second = int(own["a"]), int(own["b"])
        return tuple(
            When(year, 0, month, day)
            for day, month in dict.fromkeys(((first, second), (second, first)))
            if 1 <= month <= 12 and 1 <= day <= 31
        )
    if "q" in own:
        return (When(year, int(own["q"]) if own["q"].isdigit() else _QUARTERS[own["q"].lower()]),)
    month = own.get("m", "0").lower()
    month_number = int(month) if month.isdigit() else MONTHS[month]
    day = int(own.get("d", 0))
    if number == 10:
        return (When(year, decade=True),)
    if month_number > 12 or day > 31 or ("d" in own and day == 0) or (number == 1 and month_number == 0):
        return ()
    return (When(year, 0, month_number, day),)


def _year(text: str) -> int:
    if len(text) != 2:
        return int(text or 0)
    return int(text) + (2000 if int(text) < 70 else 1900)
