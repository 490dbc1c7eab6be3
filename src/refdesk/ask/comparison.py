"""What are the sides of a comparison? Each becomes a search of its own, so that each gets its evidence. Pure.

>>> sides("Compare the warranty of the TG-4 and the WB-7")
('warranty of the TG-4', 'warranty of the WB-7')
>>> sides("Who owns Smith and Sons?")
()
"""

from __future__ import annotations

import re

MOST_SIDES = 4
LONGEST_QUESTION = 400  # characters; a longer one says in its own way what it compares
LONGEST_SIDE = 12  # words; a longer one is a clause, and the sentence was no comparison of two things


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_ARTICLE = re.compile(r"^(?:the|a|an|our|their|its|both)\s+", re.IGNORECASE)
_PERIOD = re.compile(
    r"^(?:the\s+)?(?:(?:fiscal|fy|q[1-4]|h[12]|year|quarter)\s*)*(?:19|20)\d\d(?:\s*q[1-4])?$|^q[1-4]$", re.I
)
# A question is read from left to right: what opens it, then the first divider behind that, then what follows the sides.
# One expression for all of it would try every way to divide a question.
# What may follow the sides: "in terms of price", "on price", "in 2023".
_ASPECT = _expression(
    r"(?<![ ,])[ ,]++(?P<link>in terms of|with regard to|with respect to|regarding|concerning|when it comes to"
    r"|as regards|on|for|by|in|during|at|under) (?P<aspect>.+)"
)
_JOIN = r" (?:and|with|to|against|versus|vs\.?|or|from) "
_COMPARE = r"\b(?:compare|contrast|comparing|comparison of) (?:and contrast )?"
_HOW = r"^(?:how|in what way) (?:do|does|did|is|are|was|were) "
_FORMS = [
    (_expression(opening), _expression(divider), opening == _HOW and divider == " and ")
    for opening, divider in (
        # "difference in price between A and B", "differences between A and B in price"
        (
            r"\b(?:differences?|distinctions?|similarit(?:y|ies)|comparisons?) (?:(?:in|of) (?P<of>(?:\S++ ){1,12}?))?"
            r"between ",
            " and ",
        ),
        # "how does A differ from B", "how is A different from B", "how do A and B differ"
        (_HOW, r" (?:differ|different|distinct|distinguished) (?:from|to|than) "),
        (_HOW, " and "),
        (r"^what (?:distinguishes|separates|sets) ", r" (?:apart )?from "),
        # "how does A compare with B"
        (_HOW, r" compare[sd]? (?:with|to|against) "),
        # "compare the price of A and B", "compare A with B on price", "contrast A and B"
        (_COMPARE + r"(?:the )?(?P<of>(?:[\w-]++ ){1,12}?)(?:of|for|between) ", _JOIN),
        (_COMPARE, _JOIN),
        (r"^", r" (?:vs\.?|versus) "),
    )
]
_DIFFER = _expression(r" (?:differ|different|compare)\b")  # behind both sides, after "how do"
# "Which is heavier, A or B?", "Which city is larger: A or B?", "Who was older, A or B?"
_WHICH = _expression(
    r"(?:which|what|who)(?: [\w-]+){0,2}? (?:is|are|was|were|has|have|had|weighs|costs) (?:the )?"
    r"(?P<quality>[^,:?]+)[,:] ?"
)
_OR = _expression(" or ")
# "Is A cheaper than B?", "Does A have more storage than B?", "Did sales rise faster in Europe than in Asia?"
_IS, _DOES = _expression("(?:is|are|was|were) "), _expression("(?:does|do|did) ")
_QUALITY_THAN = _expression(r" (?P<quality>(?:more|less|fewer) [\w-]+|\w+er|better|worse) than ")
_VERB_MORE, _THAN = _expression(r" \w+ (?:more|less|fewer) "), _expression(" than ")
_THING = re.compile(r"[\w\s-]+")
# "How did revenue change from 2021 to 2022?", "… between Q1 and Q2"
_HOW_DID = _expression("how (?:much |far )?(?:do|does|did|has|have|had) ")
_CHANGED_FROM = _expression(
    r" (?:changed?|grown?|fall(?:en)?|risen?|differ(?:ed)?|developed?|evolved?|increased?|decreased?|declined?"
    r"|dropp?(?:ed)?) (?:from|between) "
)
_TO = _expression(" (?:to|and) ")
_POLITE = re.compile(
    r"^(?:please|can you|could you|would you|i want to know|tell me|explain|describe)\s+", re.IGNORECASE
)
_WHAT_IS = re.compile(
    r"^what(?:'s| is| are| was| were) (?=.*\b(?:vs\.?|versus)\b)(?:the )?(?!difference)", re.IGNORECASE
)

# Comparatives whose plain form their ending does not tell.
_PLAIN = {
    "better": "good", "worse": "bad", "bigger": "big", "hotter": "hot", "thinner": "thin", "larger": "large",
    "wider": "wide", "safer": "safe", "later": "late", "nicer": "nice", "closer": "close", "simpler": "simple",
    "denser": "dense", "rarer": "rare", "finer": "fine", "further": "far", "farther": "far", "elder": "old",
    "wetter": "wet", "purer": "pure", "looser": "loose", "stabler": "stable", "riper": "ripe",
}  # fmt: skip


def sides(question: str) -> tuple[str, ...]:
    """Stand-alone search texts for the things a question compares; empty when it compares nothing."""
    if len(question) > LONGEST_QUESTION:
        return ()
    text = _WHAT_IS.sub("", _POLITE.sub("", " ".join(question.split()).rstrip("?.! ")))
    found = _by_quality(text) or _by_change(text) or _by_form(text)
    return tuple(dict.fromkeys(found)) if 2 <= len(set(found)) <= MOST_SIDES else ()


def plain_form(comparative: str) -> str:
    """`heavier` -> `heavy`, `more reliable` -> `reliable`."""
    word = comparative.strip().lower()
    if word in _PLAIN:
        return _PLAIN[word]
    if (found := re.match(r"(?:more|less|fewer)\s+(.+)", word)) is not None:
        return found[1]
    if word.endswith("ier"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith("er") else word


def _cut(text: str, *dividers: re.Pattern[str]) -> list[str]:
    """What stands between the dividers, each the first behind the one before it; empty when one is not there."""
    parts, start = [], 0
    for divider in dividers:
        found = divider.search(text, start + 1)
        if found is None:
            return []
        parts.append(text[start : found.start()])
        start = found.end()
    return [*parts, text[start:]] if start < len(text) else []


def _by_quality(text: str) -> list[str]:
    if (asked := _WHICH.match(text)) is not None:
        named = _cut(text[asked.end() :], _OR)
    elif (opening := _IS.match(text)) is not None and (asked := _QUALITY_THAN.search(text, opening.end() + 1)):
        named = [text[opening.end() : asked.start()], text[asked.end() :]]
    else:
        named = []
    if asked is not None and named and named[1] and not named[1][0].isdigit():
        return [f"How {plain_form(asked['quality'])} is {side}?" for side in _split(*named)]
    if (opening := _DOES.match(text)) is not None:
        more = _cut(text[opening.end() :], _VERB_MORE, _THAN)
        if more and _THING.fullmatch(more[1]):
            return [f"{more[1]} of {side}" for side in _split(more[0], more[2])]
    return []


def _by_change(text: str) -> list[str]:
    opening = _HOW_DID.match(text)
    found = _cut(text[opening.end() :], _CHANGED_FROM, _TO) if opening else []
    if not found or not all(_PERIOD.match(side.strip()) for side in found[1:]):
        return []
    return [f"{found[0]} in {side.strip()}" for side in found[1:]]


def _by_form(text: str) -> list[str]:
    for opening, divider, to_verb in _FORMS:
        opened = opening.search(text)
        named = _cut(text[opened.end() :], divider) if opened else []
        if not opened or not named:
            continue
        last, link, aspect = _without_aspect(named[1], to_verb=to_verb)
        split = _split(named[0], last) if last else []
        if split:
            of = _ARTICLE.sub("", opened.groupdict().get("of") or "").strip()
            return [_searched(side, of, aspect, link) for side in split]
    return []


def _without_aspect(side: str, *, to_verb: bool) -> tuple[str, str, str]:
    """The last side (up to "differ", when `to_verb`), and in which respect the sides are compared."""
    if not to_verb:
        found = _ASPECT.search(side, 1)
        return (side[: found.start()], found["link"].lower(), found["aspect"]) if found else (side, "", "")
    for verb in _DIFFER.finditer(side, 1):
        if (found := _ASPECT.match(side, verb.end())) is not None:
            return side[: verb.start()], found["link"].lower(), found["aspect"]
        if verb.end() == len(side):
            return side[: verb.start()], "", ""
    return "", "", ""


def _searched(side: str, of: str, aspect: str, link: str) -> str:
    """One side with what is asked of it: `warranty of the TG-4`, `TG-4 in 2023`, `price of the TG-4`."""
    if of:
        side = f"{of} in {side}" if _PERIOD.match(side) else f"{of} of {side}"
    if not aspect:
        return side
    is_place = link in ("during", "at", "under", "for") or (link == "in" and not aspect.islower())
    return f"{side} {link} {aspect}" if is_place else f"{aspect} of {side}"


def _split(first: str, last: str) -> list[str]:
    """The sides, `A, B` and `C`, with what they share given to each: "the basic and the premium plan"."""
    named = [side.strip(" ,") for side in (*re.split(r"(?:(?<!\s)\s+)?,\s*(?:and\s+)?", first), last)]
    named = [side for side in named if side]
    if any(len(side.split()) > LONGEST_SIDE for side in named):
        return []
    *before, tail = named
    return [*(_with_noun_of(side, tail) for side in before), _completed(tail, before[0])] if before else []


def _with_noun_of(side: str, tail: str) -> str:
    """`the basic` beside `the premium plan` -> `the basic plan`."""
    words, others = _ARTICLE.sub("", side).split(), _ARTICLE.sub("", tail).split()
    is_bare = len(words) == 1 and words[0].islower() and words[0].isalpha()
    same_article = bool(_ARTICLE.match(side)) == bool(_ARTICLE.match(tail))
    return f"{side} {others[-1]}" if is_bare and len(others) == 2 and same_article and others[-1] != "one" else side


def _completed(tail: str, first: str) -> str:
    """The last side with what it takes from the first: `2022` after `revenue in 2021` -> `revenue in 2022`."""
    words = first.split()
    if found := re.match(r"(?:that|those) (of|in|for) (.+)", tail, re.IGNORECASE):
        return f"{_ARTICLE.sub('', first).split(' of ')[0].split(' in ')[0]} {found[1]} {found[2]}"
    if tail.endswith((" one", " ones")):
        return f"{tail.rsplit(' ', 1)[0]} {words[-1]}"
    link = next((place for place, word in enumerate(words) if word.lower() in ("in", "of", "for")), 0)
    period = tail.removeprefix("in ")
    if link and _PERIOD.match(" ".join(words[link + 1 :])) and _PERIOD.match(period):
        return " ".join([*words[: link + 1], period])
    return tail
