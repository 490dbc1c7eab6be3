"""The text analysis shared by every BM25 index, term coverage and spelling correction. Pure.

Words are lower-cased, stemmed in the language of their document and stripped of accents; runs of Chinese, Japanese
and Korean characters become overlapping pairs, because those scripts do not separate words; so do Thai, Lao, Khmer
and Burmese. Contractions are taken apart ("don't" is "do not"), and a period has one spelling ("FY19" is "2019").

>>> terms("The harbours' 1,250 pilots", "en")
['the', 'harbour', '1250', 'pilot']
>>> terms("東京都の港", "ja")
['東京', '京都', '都の', 'の港']
"""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import Stemmer

from refdesk.text import word_set
from refdesk.types import Range

# Rises when the same text gives other terms: an index of an earlier number finds less, and `doctor` says so.
VERSION = 2

# Snowball's language names by ISO 639-1 code; a language that is not here is not stemmed.
STEMMERS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish",
    "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "nb": "norwegian", "nn": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish", "yi": "yiddish",
}  # fmt: skip

QUERY_STOP_WORDS = word_set("words", "query stop words")

_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
)
_CJK_RUN = re.compile(rf"[{_CJK}]")
# Vowel signs and other marks (Hindi, Tamil, pointed Hebrew) belong to the word; `\w` leaves them out.
_MARKS = "".join(
    c for c in map(chr, range(0x300, 0xFE30)) if unicodedata.category(c)[0] == "M" and not _CJK_RUN.match(c)
)
# A number keeps its decimals ("4.2") and loses its thousands ("1,250"); CJK runs are taken apart from other letters.
_WORD = re.compile(
    rf"\d+(?:,\d{{3}})+(?:\.\d+)?(?!\w)|\d+(?:\.\d+)+(?!\w)|[{_CJK}]+"
    rf"|[^\W{_CJK}]+(?:[{_MARKS}]+[^\W{_CJK}]*)*"
)
# The same for lower-case ASCII, at half the time; "\0" divides texts that are read in one pass.
_ASCII_WORD = re.compile(r"[a-z_]\w*|\d+(?:,\d{3})+(?:\.\d+)?(?!\w)|\d+(?:\.\d+)+(?!\w)|\w+|\0", re.ASCII)
_APOSTROPHE = re.compile(r"(?<=[A-Za-z])[’‘ʼ＇′´](?=[A-Za-z])")  # elsewhere ʼ is a letter: Ukrainian, Breton
# English joins its small words: "n't" stands for "not", "'ll" for "will"; of "'s" and "'d" nobody can tell for what.
_CONTRACTION = re.compile(r"(?<=[a-z])(?:(n't)|'(s|d|m|re|ve|ll))(?![a-z'])")
_WHOLE = {"won't": "will not", "can't": "can not", "shan't": "shall not"}
_IRREGULAR = re.compile(r"\b(?:wo|ca|sha)n't\b")
_JOINED = {"s": "", "d": "", "m": " am", "re": " are", "ve": " have", "ll": " will"}
_TYPED = re.compile(r"\d[\d.,]*\d|[^\W_]+(?:['’][^\W\d_]+)?|\w+")
_POINTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0640\u064b-\u065f\u0670]+")
_TERMS_KEPT = 200_000  # of a language
_LONGEST_TERM = 60  # longer "words" are base64 or DNA; their first characters are enough to find them


_per_thread = threading.local()  # a stemmer keeps a cache and must not be shared between threads


def _stemmer(language: str) -> Stemmer.Stemmer | None:
    known: dict[str, Stemmer.Stemmer | None] = _per_thread.__dict__.setdefault("stemmers", {})
    if language not in known:
        name = STEMMERS.get(language)
        known[language] = Stemmer.Stemmer(name, 100_000) if name else None
    return known[language]


class _Terms(dict[str, str]):
    """Word of a text -> its term in one language, each stemmed once: a question reads thousands of words again."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, word: str) -> str:
        stemmer = _stemmer(self._language)
        kept = (word.replace(",", "") if word[0].isdigit() else word)[:_LONGEST_TERM]
        term = strip_accents(stemmer.stemWord(kept) if stemmer else kept)
        if len(self) >= _TERMS_KEPT:
            self.clear()
        self[word] = term
        return term


_terms: dict[str, _Terms] = {}  # by language


def words(text: str) -> list[str]:
    """Lower-cased words, numbers and CJK pairs, not stemmed."""
    plain = _plain(text)
    if plain.isascii():
        return _ascii_words(plain)
    found: list[str] = []
    for word in _WORD.findall(plain):
        if _CJK_RUN.match(word):
            found.extend(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            found.append((word.replace(",", "") if word[0].isdigit() else word)[:_LONGEST_TERM])
    return found


def _ascii_words(plain: str) -> list[str]:
    found = _ASCII_WORD.findall(plain.replace("\0", " ") if "\0" in plain else plain)
    return [word.replace(",", "")[:_LONGEST_TERM] for word in found]


def _plain(text: str) -> str:
    """Lower case, without contractions, and with one spelling of each period."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _APOSTROPHE.sub("'", text))
    lowered = text.lower()
    if "'" in lowered:
        lowered = _IRREGULAR.sub(lambda match: _WHOLE[match[0]], lowered)
        lowered = _CONTRACTION.sub(lambda match: " not" if match[1] else _JOINED[match[2]], lowered)
    return alike(lowered)


def as_typed(text: str) -> dict[str, str]:
    """How each of the words is written in the text.

    >>> as_typed("Amazon's FY2019 income")
    {'2019': 'FY2019', 'amazon': 'Amazon', 'income': 'income'}
    """
    pieces = [text[start:end] for start, end in period_spans(text)]
    pieces += (match.group() for match in _TYPED.finditer(text))
    found: dict[str, str] = {}
    for piece in pieces:
        piece_words = words(piece)
        shown = (
            piece[: len(piece_words[0])]
            if len(piece_words) == 1 and piece.lower().startswith(piece_words[0])
            else piece
        )
        for word in piece_words:
            found.setdefault(word, shown)
    return found


def terms(text: str, language: str = "en") -> list[str]:
    """The terms of a text, in order, repeats kept."""
    return _stem(words(text), language)


def terms_of_each(texts: Sequence[str], language: str = "en") -> list[list[str]]:
    """`terms` of each text; all that are ASCII in one pass, for a question reads hundreds of sentences."""
    plain = [_plain(text) if text.isascii() and "\0" not in text else None for text in texts]
    joined = "\0".join(text for text in plain if text is not None)
    stems = _stem(_ASCII_WORD.findall(joined), language)
    found: list[list[str]] = []
    start = 0
    for text, known in zip(texts, plain, strict=True):
        if known is None:
            found.append(terms(text, language))
            continue
        try:
            stop = stems.index("\0", start)
        except ValueError:
            stop = len(stems)
        found.append(stems[start:stop])
        start = stop + 1
    return found


def query_terms(text: str, languages: Sequence[str] = ("en",)) -> list[str]:
    """The distinct terms to search for: stop words dropped unless nothing else is left, stemmed in each language."""
    return list(dict.fromkeys(repeated_terms(text, languages)))


def repeated_terms(text: str, languages: Sequence[str] = ("en",)) -> list[str]:
    """`query_terms`, each as often as the query says it, whatever the number of languages: what BM25 counts.

    >>> repeated_terms("the fee, which fee, and the berth")
    ['fee', 'fee', 'berth']
    """
    all_words = words(text)
    content = [word for word in all_words if word not in QUERY_STOP_WORDS] or all_words
    counts: Counter[str] = Counter()
    for language in languages or ("en",):
        counts |= Counter(_stem(content, language))  # the larger of two counts
    return list(counts.elements())


def _stem(found: Iterable[str], language: str) -> list[str]:
    known = _terms.get(language) or _terms.setdefault(language, _Terms(language))
    return list(map(known.__getitem__, found))


def idf(frequencies: Mapping[str, int], count: int) -> dict[str, float]:
    """The weight of each term by in how many of the library's chunks it stands (that of BM25).

    >>> idf({"anchor": 1, "the": 9}, 10)
    {'anchor': 1.99..., 'the': 0.14...}
    """
    return {
        term: math.log(1.0 + (count - min(found, count) + 0.5) / (found + 0.5)) for term, found in frequencies.items()
    }


def strip_accents(term: str) -> str:
    """`café` -> `cafe`, and Hebrew and Arabic without points; marks that are letters (Hindi, Thai, Japanese) stay."""
    if term.isascii():
        return term
    decomposed = unicodedata.normalize("NFD", term)
    kept = _POINTS.sub("", decomposed)
    return unicodedata.normalize("NFC", kept)


# --- how is a period or a date spelled? One spelling for each, so that equal ones are taken for equal -----------------
#
#     "FY2019", "FY 19", "FY'19", "fiscal 2019", "fiscal year 2019", "2019 fiscal year"   -> "2019"
#     "Q3", "3Q", "third quarter", "3rd-quarter"                                          -> "q3 quarter"
#     "Q3 FY24", "3Q24", "2024Q3", "third quarter of fiscal 2024"                         -> "q3 quarter 2024"
#     "three months ended June 25, 2022"                                                -> "quarter ended june 25, 2022"
#     "2023-07-01", "1 July 2023", "Jul. 1st, 2023"                                       -> "july 1, 2023"
#
# What a document calls a year it calls so in all of its tables, which mostly say 2019 where the text says fiscal 2019;
# so the year alone is the term. A quarter keeps the word, for a question that asks in which one.

ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_NAMES = (
    "january february march april may june july august september october november december",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
)
MONTHS = {name: number for number, name in enumerate(_NAMES[0].split(), 1)}
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


def period_spans(text: str) -> list[Range]:
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
    if "q" in text and any(mark in text for mark in _QUARTER_MARKS):
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
    return " ".join(f"q{ORDINALS[ordinal]}" for ordinal in _EACH_ORDINAL.findall(match[1])) + " quarter"


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


# Which days, months, quarters and years does a text name, and at which hours?


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
        values = (self.year, quarter if claim.quarter else 0, self.month, self.day)
        claimed = (claim.year, claim.quarter, claim.month, claim.day)
        return all(not wanted or wanted == value for wanted, value in zip(claimed, values, strict=True))

    def clashes(self, claim: When) -> bool:
        """Do both say something of the same part, and differ in it?"""
        pairs = zip(self[:4], claim[:4], strict=True)
        return any(value and wanted and value != wanted for wanted, value in pairs)


MONTH_NUMBERS = {name: number for names in _NAMES for number, name in enumerate(names.split(), 1)}
MONTH_NUMBERS |= {short: MONTHS[name] for short, name in _FULL.items()}
_DATES_MONTH = "(?P<{}>" + "|".join(sorted(MONTH_NUMBERS, key=len, reverse=True)) + r")\b\.?"
_DATES_YEAR = r"(?P<{}>(?:1\d|20|21)\d\d)\b"
_DATES_DAY = r"(?P<{}>[0-3]?\d)(?:st|nd|rd|th|\.)?"
_QUARTERS = ORDINALS | {"final": 4, "last": 4}

DATE_PATTERN = "|".join(
    (
        r"\b(?P<y1>(?:1\d|20|21)\d\d)[-/](?P<m1>[01]?\d)[-/](?P<d1>[0-3]?\d)\b",
        r"\b(?P<a2>[0-3]?\d)(?P<sep2>[./-])(?P<b2>[0-3]?\d)(?P=sep2)(?P<y2>(?:1\d|20)\d\d|\d\d)\b(?![./-]\d)",
        rf"\b{_DATES_DAY.format('d3')}\s+(?:of\s+|de\s+)?{_DATES_MONTH.format('m3')},?(?:\s+(?:of\s+)?{_DATES_YEAR.format('y3')})?",
        rf"\b{_DATES_MONTH.format('m4')}\s+(?:the\s+)?(?P<d4>[0-3]?\d)(?:st|nd|rd|th)?\b(?!\s*(?:%|per\s?cent|million))"
        rf"(?:,?\s+{_DATES_YEAR.format('y4')})?",
        r"\b" + _DATES_MONTH.format("m5") + r",?\s+(?:of\s+)?" + _DATES_YEAR.format("y5"),
        r"(?-i:\b(?P<m12>January|February|April|June|July|August|September|October|November|December)\b)",
        r"(?-i:(?<=\b[Ii]n )|(?<=\bof )|(?<=\bsince )|(?<=\bby )|(?<=\buntil ))(?-i:(?P<m13>May|March)\b)",
        r"\bQ(?P<q6>[1-4])(?:\s*+(?:of\s++)?(?:FY|fiscal(?:\s+year)?)?\s*+['’]?(?P<y6>(?:19|20)\d\d|\d\d)\b)?(?!\d)",
        r"\b(?P<q7>[1-4])Q\s*['’]?(?P<y7>(?:19|20)\d\d|\d\d)\b",
        r"\b(?P<q8>first|second|third|fourth|final|last|1st|2nd|3rd|4th)[\s-]+quarter"
        r"(?:,?\s+(?:of\s+)?(?:the\s+)?(?:fiscal\s+)?(?:year\s+)?(?P<y8>(?:19|20)\d\d)\b)?",
        r"\b(?:FY|fiscal(?:\s+year)?)\s*['’]?(?P<y9>(?:19|20)\d\d|\d\d)\b",
        r"\b(?P<y10>(?:1\d|20)\d0)['’]?s\b",
        r"(?<![$€£#])\b(?P<y11>(?:1\d|20)\d\d)(?P<to11>[-–/]\d\d)?\b(?![,.]*\d)(?!\s*(?:%|per\s?cent|percent))",
    )
)  # fmt: skip
_GROUPS = re.compile(r"([a-z]+)(\d+)")


def read_date(match: re.Match[str]) -> tuple[When, ...]:
    """The readings of a match of DATE_PATTERN: one, two for a date such as 03/04/2025, none for what is no date."""
    parts = {name: value for name, value in match.groupdict().items() if value is not None and _GROUPS.fullmatch(name)}
    number = max(int(_GROUPS.fullmatch(name)[2]) for name in parts)  # type: ignore[index]
    groups = {_GROUPS.fullmatch(name)[1]: value for name, value in parts.items()}  # type: ignore[index]
    year = int(full_year(groups.get("y", "0")))
    if number == 2:
        first, second = int(groups["a"]), int(groups["b"])
        return tuple(
            When(year, 0, month, day)
            for day, month in dict.fromkeys(((first, second), (second, first)))
            if 1 <= month <= 12 and 1 <= day <= 31
        )
    if "q" in groups:
        return (When(year, int(groups["q"]) if groups["q"].isdigit() else _QUARTERS[groups["q"].lower()]),)
    month = groups.get("m", "0").lower()
    month_number = int(month) if month.isdigit() else MONTH_NUMBERS[month]
    day = int(groups.get("d", 0))
    if number == 10:
        return (When(year, decade=True),)
    if month_number > 12 or day > 31 or ("d" in groups and day == 0) or (number == 1 and month_number == 0):
        return ()
    return (When(year, 0, month_number, day),)


# Which years, quarters and days does a text speak of?

_DATE = re.compile(DATE_PATTERN, re.IGNORECASE)
_RANGE = re.compile(r"((?:19|20)\d\d)\s?(?:-|–|—|to|through|until)\s?((?:19|20)\d\d)")
_NAMED_DAY = re.compile(r"(?<!\d)((?:19|20)\d\d)[_ ]([01]\d)[_ ]([0-3]\d)(?!\d)")  # in the name of a file
SEPARATORS = re.compile(r"[_\-–—.,;:/\\()\[\]{}+\s]+")
EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}\Z")
_LONGEST_RANGE = 10  # years


@dataclass(frozen=True, slots=True)
class Period:
    """Sets of what was named; an empty one is false."""

    years: frozenset[int] = frozenset()
    quarters: frozenset[int] = frozenset()
    days: frozenset[str] = frozenset()  # ISO

    def __bool__(self) -> bool:
        return bool(self.years or self.quarters or self.days)

    def agreement(self, asked: Period) -> float:
        """How well a document of this period serves a question about another, from 0 to 1.

        A report of the year after still holds the year before beside its own, so it comes next.
        """
        if self.days & asked.days:
            return 1.0
        score = self._years_agree(asked)
        if asked.quarters:
            score *= 1.0 if self.quarters & asked.quarters else 0.6
        elif self.quarters and asked.years:
            score *= 0.8  # a question about a year is rather answered by the report of the year
        return score

    def _years_agree(self, asked: Period) -> float:
        if not asked.years or not self.years:
            return 0.7
        latest = max(asked.years)
        if latest in self.years:
            return 1.0
        if self.years & asked.years:
            return 0.85
        return 0.6 if latest + 1 in self.years else 0.2


@lru_cache(maxsize=4096)
def period_of(text: str) -> Period:
    """`"Q3 2023"` -> years {2023}, quarters {3}."""
    if not any(character.isdigit() for character in text) and "quarter" not in text.lower():
        return Period()
    lowered = alike(text.lower())
    named = [readings[0] for match in _DATE.finditer(lowered) if len(readings := read_date(match)) == 1]
    named += [When(int(year), 0, int(month), int(day)) for year, month, day in _NAMED_DAY.findall(lowered)]
    years = {when.year for when in named if 1900 <= when.year < 2100}
    for first, last in _RANGE.findall(lowered):
        if 0 < int(last) - int(first) <= _LONGEST_RANGE:
            years |= set(range(int(first), int(last) + 1))
    days = {f"{when.year}-{when.month:02}-{when.day:02}" for when in named if when.year and when.day}
    return Period(frozenset(years), frozenset(when.quarter for when in named if when.quarter), frozenset(days))


LONGEST_JOIN = 3  # "Best Buy" is BESTBUY, "Johnson & Johnson Inc" is not looked for in four words
SHORTEST_PART, SHORTEST_REST = 5, 4  # letters of a word that begins a name, and of what is behind it


def spaced(name: str) -> str:
    """The name of a file as words: `3M_2018_10K.pdf` -> `3M 2018 10K`."""
    return SEPARATORS.sub(" ", EXTENSION.sub("", name))


def called_by(question: Sequence[str], file: str) -> list[str]:
    """The words of a question that a file is called by, also where its name has them in one: of `BESTBUY_2023.pdf`
    "Best" and "Buy", of `ACTIVISIONBLIZZARD_2019.pdf` "Activision" alone too.
    """
    names = words(spaced(file))
    found: list[str] = []
    for start in range(len(question)):
        for stop in range(start + 1, min(start + LONGEST_JOIN, len(question)) + 1):
            joined = "".join(question[start:stop])
            if joined not in QUERY_STOP_WORDS and any(joined == name or begins_name(joined, name) for name in names):
                found += question[start:stop]
    return list(dict.fromkeys(found))


def begins_name(word: str, name: str) -> bool:
    """Is it the first of two words that a name has in one? "activision" of "activisionblizzard"."""
    return len(word) >= SHORTEST_PART and len(name) - len(word) >= SHORTEST_REST and name.startswith(word)


def document_period(name: str, title: str, *more: str) -> Period:
    """Of the name; where it tells none, of the title, then of what else is known, such as the date of the file."""
    return next(filter(None, map(period_of, (spaced(name), title, *more))), Period())
