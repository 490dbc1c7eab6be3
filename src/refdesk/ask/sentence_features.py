"""What stands in a sentence, as far as looking for an answer goes? Its terms, numbers, names and signs. Pure, kept.

Each sentence is read once: reranking, judging, quoting and checking look at the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from refdesk import periods
from refdesk.terms import QUERY_STOP_WORDS, terms
from refdesk.text import STOP_WORDS
from refdesk.types import Chunk

KEPT = 8192  # sentences remembered
HEAD = 4  # letters that words alike have in common, at least

STOP_TERMS = frozenset(terms(" ".join(STOP_WORDS | QUERY_STOP_WORDS)))
NUMBER_TERMS = frozenset(
    terms(
        """
        zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
        eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion
        trillion dozen half twice once third quarter double triple both several
        """
    )
)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = re.compile(
    rf"\b(?:1\d{{3}}|20\d\d)s?\b|\b(?:{_MONTHS})\b|\b(?:centur(?:y|ies)|decades?|BCE?|AD|CE)\b"
    rf"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b|\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b|\d{{4}}年|(?<!\d)\d{{1,2}}月"
    rf"|\b(?:spring|summer|autumn|winter|midnight|noon|\d{{1,2}}:\d\d)\b"
)
_YEAR = re.compile(r"\b(?:1\d{3}|20\d\d)s?\b")
_PERCENT = re.compile(r"\d\s*%|\bper\s?cent\b|\bpercentage\b", re.IGNORECASE)
_MONEY = re.compile(
    r"[$€£¥₹]\s?\d|\d\s?[$€£¥₹]|\b(?:dollars?|euros?|pounds?|francs?|yen|cents|USD|EUR|GBP|million|billion)\b",
    re.IGNORECASE,
)
_DURATION = re.compile(
    r"\b(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|decades?|centur(?:y|ies)|annual(?:ly)?|daily|weekly"
    r"|monthly|yearly|millennia|always|permanent(?:ly)?)\b",
    re.IGNORECASE,
)
_MASS = re.compile(
    r"\d\s*(?:k?g|mg|t|lbs?|oz)\b|\b(?:kilo|milli)?grams?\b|\btonn?e?s?\b|\bpounds?\b|\bounces?\b|\bweigh\w*",
    re.IGNORECASE,
)
_SPEED = re.compile(
    r"\bper\s+(?:second|minute|hour|day|week|month|year|annum)\b|/(?:s|min|h|hr|day|year|yr|a)\b|\b(?:mph|kph|knots?)\b"
    r"|\b(?:a|every|each)\s+(?:second|minute|hour|day|week|month|year)\b",
    re.IGNORECASE,
)
_LENGTH = re.compile(
    r"\d\s*(?:[kcm]?m|ft|in|mi|yd|nm|µm)\b|\b(?:kilo|centi|milli|nano|micro)?met(?:er|re)s?\b|\b(?:feet|foot|inch(?:es)?"
    r"|miles?|yards?|fathoms?)\b",
    re.IGNORECASE,
)
_WARMTH = re.compile(r"°|\bdegrees?\b|\b(?:celsius|fahrenheit|kelvin)\b|\d\s*[CF]\b", re.IGNORECASE)
_REASON = re.compile(
    r"\b(?:because|due to|owing to|since|as a result|in order to|so that|so as to|caused? by|causes?|caused|leads? to"
    r"|led to|therefore|thus|hence|thanks to|for this reason|reason|attributed to|resulted|on account of|consequently"
    r"|prevents?|allows?|weil|wegen|damit|deshalb)\b|ため|ので",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\b(?:in|at|near|from|to|of|on|outside|around|off|through|across|between)\s+(?:the\s+)?(?:[a-z]+(?:ern|al)\s+)?[A-Z]"
)
_NAME = re.compile(r"\b[A-ZÀ-ÖØ-Þ][\w'’-]+")
_QUOTED = re.compile(r"[\"“”«»„]")
_PRONOUN = re.compile(
    r"(?:It|They|He|She|This|These|That|Those|Its|Their|His|Her|Such|Both|The (?:former|latter|two|three|same))\b"
)


SIGNS: Mapping[str, re.Pattern[str]] = {
    "year": _YEAR,
    "date": _DATE,
    "percent": _PERCENT,
    "money": _MONEY,
    "duration": _DURATION,
    "mass": _MASS,
    "speed": _SPEED,
    "length": _LENGTH,
    "warmth": _WARMTH,
    "reason": _REASON,
    "place": _PLACE,
    "quote": _QUOTED,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A sentence read: where each of its terms stands among its words."""

    text: str
    language: str
    places: Mapping[str, tuple[int, ...]]
    length: int  # words
    content: frozenset[str]  # terms that are not stop words
    heads: frozenset[str]  # how they begin

    @property
    def numbers(self) -> frozenset[str]:
        """ "1250", "seven"."""
        return frozenset(term for term in self.content if term[0].isdigit()) | (NUMBER_TERMS & self.places.keys())

    @property
    def amounts(self) -> frozenset[str]:
        """The numbers that count or measure: not those of years and dates."""
        return _amounts(self.text, self.language)

    @property
    def names(self) -> frozenset[str]:
        """Terms of capitalised words; the first word counts when it is no usual word."""
        return _names(self.text, self.language)

    def shows(self, sign: str) -> bool:
        """Does it hold a year, a date, a percentage, money, a duration, a reason, a place or quotation marks?"""
        return SIGNS[sign].search(self.text) is not None

    @property
    def leans(self) -> bool:
        """Does it begin with a pronoun, so that it leans on the sentence before?"""
        return _PRONOUN.match(self.text) is not None


def read(text: str, language: str = "en") -> Reading:
    """The sentence, read once.

    >>> sorted(read("The pier at Lodin Point stands in nine metres of water.").names)
    ['lodin', 'point']
    """
    return _read(text, language)  # the cache would tell `read(text)` from `read(text, "en")`


@lru_cache(maxsize=KEPT)
def _read(text: str, language: str) -> Reading:
    stems = terms(text, language)
    places: dict[str, tuple[int, ...]] = {}
    for place, term in enumerate(stems):
        places[term] = (*places[term], place) if term in places else (place,)
    content = frozenset(places.keys() - STOP_TERMS)
    return Reading(text, language, places, len(stems), content, frozenset(term[:HEAD] for term in content))


@lru_cache(maxsize=KEPT)
def _amounts(text: str, language: str) -> frozenset[str]:
    for start, end in reversed(periods.spans(text)):
        text = f"{text[:start]} {text[end:]}"
    return _read(_YEAR.sub(" ", text), language).numbers


@lru_cache(maxsize=KEPT)
def _names(text: str, language: str) -> frozenset[str]:
    found = [m.group() for m in _NAME.finditer(text) if m.start() or m.group().lower() not in STOP_WORDS]
    return frozenset(terms(" ".join(found), language)) if found else frozenset()


# What kind of thing does a question ask for, and does a sentence hold one that the question does not name itself?

Sought = Literal[
    "percent", "money", "duration", "mass", "speed", "length", "warmth", "number", "date", "person", "place", "reason",
    "name", "",
]  # fmt: skip

_OF = r"(?:what|which)\s+(?:\w+\s+)?"
_PATTERNS: tuple[tuple[Sought, str], ...] = (
    ("percent", rf"\b{_OF}(?:percent|per cent|percentage|proportion|fraction)\b|\bhow (?:many|much) per ?cent\b"),
    (
        "money",
        r"\bhow much (?:money|does|do|did|is|was|would|will)\b.*\b(?:cost|pay|paid|earn|spend|spent|worth|charge"
        r"|sell|sold|invest|raise|donate|owe|budget|hire|rent)\w*\b|\bhow much money\b"
        r"|\bwhat\b.*\b(?:price|cost|fee|salary|budget|revenue|profit|income|allowance|fine|worth)s?\b"
        r"|\bwas kostet\b|\bwie viel kostet\b",
    ),
    ("duration", r"\bhow (?:long|often|frequently|quickly|soon|old)\b|\bwie (?:lange|oft|alt)\b"),
    ("mass", rf"\bhow heavy\b|\b{_OF}(?:weight|mass)\b|\bhow much\b.*\bweighs?\b|\bwie schwer\b"),
    ("speed", rf"\bhow fast\b|\b{_OF}(?:speed|velocity|rate)\b|\bwie schnell\b"),
    (
        "length",
        r"\bhow (?:far|tall|high|deep|wide|thick|broad)\b|\bwie (?:weit|tief|hoch|breit|dick)\b"
        rf"|\b{_OF}(?:distance|height|length|depth|width|thickness|diameter)\b",
    ),
    ("warmth", rf"\bhow (?:hot|cold|warm)\b|\b{_OF}temperatures?\b|\bwie (?:heiß|kalt|warm)\b"),
    (
        "number",
        r"\bhow (?:many|much|large|big|close|strong|loud|bright)\b"
        rf"|\b{_OF}(?:number|amount|population|age|size"
        r"|rank|score|area|density|ratio|value|total|level|volume|quantity|limit)\b|\bby how\b"
        r"|\bwie (?:viele?|groß)\b",
    ),
    (
        "date",
        rf"^\W*(?:\w+\s+)?when\b|\bwhen\W*$|\bwhat year\b|\bwann\b|いつ"
        rf"|\b{_OF}(?:years?|date|day|month|century|decade|time|era|season)\b",
    ),
    ("reason", r"\bwhy\b|\bwhat (?:caused|causes|cause|led|prompted|motivated)\b|\breasons?\b|\bwarum\b|なぜ"),
    (
        "person",
        r"\bwho(?:m|se)?\b|\b(?:what|which) (?:person|man|woman|king|queen|president|emperor|author|actor|actress"
        r"|scientist|artist|composer|singer|player|politician|philosopher|leader|director|general|architect|engineer"
        r"|inventor|explorer|writer|poet|individual|monarch|pope|bishop|minister|governor|coach|quarterback)\b|\bwer\b",
    ),
    (
        "place",
        r"\bwhere\b|\b(?:what|which) (?:\w+ )?(?:city|country|state|county|place|location|continent|region|town|river"
        r"|street|island|ocean|sea|province|district|nation|venue|stadium|area|village|port|neighborhood)\b|\bwo\b",
    ),
    (
        "name",
        r"\b(?:name|named|called|known as|title)\b|\bwhich\b|\bwhat (?:\w+ )?(?:team|company|group|organization"
        r"|university|school|college|band|album|song|book|film|movie|show|network|channel|award|church|party|act|law"
        r"|treaty|war|battle|language|religion|newspaper|magazine|event|brand|agency|institution|museum|theory)\b",
    ),
)
_RULES = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)


# "How heavy": what is asked for by an adjective is answered by a measure, which does not repeat it.
_MEASURED = re.compile(
    r"\bhow\s+(heavy|fast|far|tall|high|deep|wide|thick|broad|hot|cold|warm|old|large|big|long|often|soon|close|strong)\b",
    re.IGNORECASE,
)


def measured(question: str) -> frozenset[str]:
    """Adjectives that only name what is to be measured: `How heavy is it?` -> {'heavy'}."""
    return frozenset(found.lower() for found in _MEASURED.findall(question))


def sought(question: str) -> Sought:
    """What the question asks for, "" when its words do not tell.

    >>> sought("In what year did it open?"), sought("How does it work?")
    ('date', '')
    """
    return next((kind for kind, pattern in _RULES if pattern.search(question)), "")


def holds(kind: Sought, reading: Reading, named: Reading) -> float:
    """How well the sentence holds a thing of this kind beyond what the question itself names: 0 to 1.

    >>> from refdesk.ask.sentence_features import read
    >>> holds("number", read("The anchor weighs 350 kg."), read("How heavy is the anchor?"))
    1.0
    """
    match kind:
        case "percent":
            return 1.0 if reading.shows("percent") else 0.4 * _new_amount(reading, named)
        case "money":
            return _new_amount(reading, named) and (1.0 if reading.shows("money") else 0.6)
        case "duration":
            if reading.shows("duration"):
                return 1.0 if _new_amount(reading, named) else 0.5
            return 0.4 * _new_amount(reading, named)
        case "mass" | "speed" | "length" | "warmth":
            return (1.0 if reading.shows(kind) else 0.4) * _new_amount(reading, named)
        case "number":
            return _new_amount(reading, named)
        case "date":
            if reading.shows("date") and (_new_number(reading, named) or not reading.shows("year")):
                return 1.0
            return 0.3 * _new_number(reading, named)
        case "reason":
            return 1.0 if reading.shows("reason") else 0.0
        case "person":
            return _new_name(reading, named)
        case "place":
            return _new_name(reading, named) and (1.0 if reading.shows("place") else 0.6)
        case "name":
            return _new_name(reading, named) or (0.7 if reading.shows("quote") else 0.0)
    return 0.5


def _new_number(reading: Reading, named: Reading) -> float:
    return 1.0 if reading.numbers - named.numbers else 0.0


def _new_amount(reading: Reading, named: Reading) -> float:
    return 1.0 if reading.amounts - named.numbers else 0.0


def _new_name(reading: Reading, named: Reading) -> float:
    return 1.0 if reading.names - named.content - named.names else 0.0


# Which rows of a table name its columns, and what is each cell of a row called?

CELLS = " | "  # between the cells of a row


def table_header(chunk: Chunk) -> slice:
    """The rows that head a table, and what stands above them: all up to the first row that has cells.

    "Prices", "item | euros", "paper | 3" -> slice(0, 2)

    A further row heads it too where it repeats the names of two columns, as one does below cells that were merged:
    "item | code | price | ", "item | code | net | gross".
    """
    rows = [chunk.text[start:end] for start, end, *_ in chunk.sentences]
    for place, row in enumerate(rows):
        if CELLS in row:
            stop = place + 1
            while stop < len(rows) and _repeats(_cells(row), _cells(rows[stop])):
                stop += 1
            return slice(0, stop)
    return slice(0, 0)


def named_cells(chunk: Chunk, sentence: int) -> list[tuple[str, str]]:
    """The cells of a row with the names of their columns; nothing where the header does not name them.

    "Country | Meals" over "Japan | 46" -> [("Country", "Japan"), ("Meals", "46")]
    """
    head = table_header(chunk).stop
    if chunk.kind != "table" or not 0 < head <= sentence:
        return []
    names: list[str] = []
    for first, last, *_ in chunk.sentences[:head]:
        if CELLS in chunk.text[first:last]:
            names = _below(names, _cells(chunk.text[first:last]))
    start, end = chunk.sentences[sentence][:2]
    cells = _cells(chunk.text[start:end])
    if len(names) != len(cells) or not all(any(letter.isalpha() for letter in name) for name in names if name):
        return []
    return [(name, cell) for name, cell in zip(names, cells, strict=True) if cell]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split(CELLS)]


def _repeats(above: list[str], row: list[str]) -> bool:
    """Whether two columns have the same words in both."""
    same = [one for one, other in zip(above, row, strict=False) if one == other and any(map(str.isalpha, one))]
    return len(above) == len(row) and len(same) >= 2


def _below(above: list[str], row: list[str]) -> list[str]:
    """The names of columns under names that may stand for several of them.

    ["item", "price", ""] over ["item", "net", "gross"] -> ["item", "price net", "price gross"]

    A name that is repeated below it, as "item" is, stands for its own column alone.
    """
    if len(above) != len(row):
        return row
    names, last = [], ""
    for over, name in zip(above, row, strict=True):
        if over:
            last = "" if over == name else over
        names.append(f"{last} {name}".strip() if name else over)
    return names
