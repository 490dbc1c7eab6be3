"""Does a sentence say the opposite of another? Negations and their reach, and words that exclude each other. Pure.

"Pilots are not required"  against  "Pilots are required"      -> "not" is in one of them only
"revenue increased"        against  "revenue decreased"        -> increased / decreased
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from refdesk.ask.figures import Quantity
from refdesk.terms import terms
from refdesk.text import STOP_WORDS

# Which words of a sentence carry its meaning? Words, the stems of content words, names.

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[,.;:!?]")
_NAME = re.compile(r"(?<![\w’'])[A-Z][\w’'&.-]*\w")


def words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


def content_stems(text: str, language: str = "en") -> tuple[str, ...]:
    kept = [word for word in words(text) if word[0].isalnum() and word not in STOP_WORDS]
    return tuple(dict.fromkeys(terms(" ".join(kept), language)))


def names(text: str, stated: Sequence[Quantity] = ()) -> tuple[str, ...]:
    """Capitalised words that are not so only because they begin a sentence, nor part of a figure.

    >>> names("The Bay of Fundy and NATO met. Then they left.")
    ('Bay', 'Fundy', 'NATO')
    """
    found = []
    for match in _NAME.finditer(text):
        word, before = match.group(), text[: match.start()].rstrip(" \"'“‘(*")
        begins = not before or before[-1] in ".!?:|\n•-"
        common = word.lower() in STOP_WORDS or (begins and not any(c.isupper() for c in word[1:]))
        if not common and not any(one.start <= match.start() < one.end for one in stated):
            parts = word.removesuffix("'s").removesuffix("’s").split("-")
            found += [part for part in parts if part[:1].isupper()]
    return tuple(dict.fromkeys(found))


_NEGATORS = frozenset(
    (
        *("not", "no", "never", "none", "neither", "nor", "without", "cannot", "nobody", "nothing", "nowhere"),
        *("fail", "fails", "failed", "unable", "lack", "lacks", "lacked", "lacking", "absence", "nicht", "kein"),
    )
)  # fmt: skip
# They deny nothing, or deny a bound that is checked with its figure.
_IDIOMS = re.compile(
    r"\bnot (?:only|limited to|just|merely|necessarily)\b|\bwithout limitation\b|\bno (?:later|more|less|fewer) than\b"
    r"|\bnot (?:more|less|later) than\b|\bno doubt\b|\bwhether or not\b|\bif not\b",
    re.IGNORECASE,
)
_ENDS = frozenset(
    (".", ";", ":", "!", "?", "but", "however", "although", "though", "while", "whereas", "because", "aber")
)
REACH = 2  # content words after a negation that it is taken to deny

# Groups of words of which a statement is true of one only: a claim that has one where its source has another is wrong.
_OPPOSED = """
increase increased increases increasing rise rises rose risen grew grow grows growth raise raised higher up \
upward gain gained | decrease decreased decreases decreasing decline declined fall falls fell fallen drop dropped \
shrink shrank reduce reduced reduces lower down downward lost
more greater | less fewer
above over exceeds exceeded | below under
before prior preceding earlier | after following later
maximum highest most largest biggest | minimum lowest least smallest
all every always entire | never none
begin began begins start started starts opened opens opening | end ended ends finish finished closed closes closing
win won wins winning winner | lose lost loses losing loser
positive positively | negative negatively
improve improved improves better best | worsen worsened worse worst deteriorated
profit surplus income | loss losses deficit
allow allowed allows permit permitted permits | forbid forbidden forbids prohibit prohibited prohibits banned
include included includes including | exclude excluded excludes excluding
accept accepted approve approved agreed granted | reject rejected refuse refused denied
required mandatory must compulsory obligatory | optional voluntary
high | low
large big | small little
long | short
old older | new newer young younger
early | late
first | last final
left | right
north northern | south southern
east eastern | west western
male men man he his him | female women woman she her
father son brother husband | mother daughter sister wife
safe safely | dangerous unsafe
present | absent
internal | external
minor | major
buy bought purchased acquired | sell sold
arrive arrived arrives | depart departed departs departure
import imported imports | export exported exports
monday | tuesday | wednesday | thursday | friday | saturday | sunday
winter | spring | summer | autumn
daily | weekly | monthly | quarterly | annually yearly annual
morning | afternoon | evening | night
red | blue | green | yellow | black | white | orange
same identical similar | different unlike
strong stronger | weak weaker
fast faster quick | slow slower
cause caused causes | prevent prevented prevents
support supported supports | oppose opposed opposes
succeed succeeded successful | unsuccessful failed
"""


def _groups() -> dict[str, tuple[int, int]]:
    """word -> (group, side)."""
    found: dict[str, tuple[int, int]] = {}
    for group, line in enumerate(_OPPOSED.strip().splitlines()):
        for side, members in enumerate(line.split("|")):
            for word in members.split():
                found.setdefault(word, (group, side))
    return found


OPPOSED = _groups()


def is_negation(word: str) -> bool:
    return word in _NEGATORS or word.endswith("n't")


def denied(text: str, language: str = "en") -> frozenset[str]:
    """The stems that a negation reaches.

    >>> sorted(denied("Pilots are not required to land, but boats are."))
    ['land', 'requir']
    """
    reached: list[str] = []
    left = 0
    for word in words(_IDIOMS.sub(" ", text)):
        if is_negation(word):
            left = REACH
        elif word in _ENDS:
            left = 0
        elif left and word not in STOP_WORDS:
            reached.append(word)
            left -= 1
    return frozenset(terms(" ".join(reached), language))


def is_negated(text: str) -> bool:
    return any(is_negation(word) for word in words(_IDIOMS.sub(" ", text)))


NEAR = 4  # words on each side in which both must share one, to speak of the same thing


def opposites(claim: Sequence[str], source: Sequence[str]) -> list[tuple[str, str]]:
    """Words of the claim that the source has not, with the word it has that excludes them, said of the same thing.

    >>> opposites(["revenue", "increased"], ["revenue", "decreased"])
    [('increased', 'decreased')]
    """
    held: dict[int, list[int]] = {}
    for place, word in enumerate(source):
        if word in OPPOSED:
            held.setdefault(OPPOSED[word][0], []).append(place)
    found = []
    for place, word in enumerate(claim):
        group, side = OPPOSED.get(word, (-1, -1))
        places = held.get(group, [])
        if not places or any(OPPOSED[source[other]][1] == side for other in places):
            continue
        about = _about(claim, place)
        rival = next((source[other] for other in places if about & _about(source, other)), "")
        if rival:
            found.append((word, rival))
    return found


def _about(all_words: Sequence[str], place: int) -> frozenset[str]:
    near = [*all_words[max(0, place - NEAR) : place], *all_words[place + 1 : place + 1 + NEAR]]
    return frozenset(word[:6] for word in near if word[0].isalnum() and word not in STOP_WORDS)
