"""What kind of thing does a question ask for, and does a sentence hold one that the question does not name itself?

who → a name, when → a date, how many → a number, where → a place, why → a reason. Pure.
"""

from __future__ import annotations

import re
from typing import Literal

from refdesk.ask.evidence.reading import Reading

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

    >>> from refdesk.ask.evidence.reading import read
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
