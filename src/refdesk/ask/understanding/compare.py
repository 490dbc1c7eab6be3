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

_ARTICLE = re.compile(r"^(?:the|a|an|our|their|its|both)\s+", re.IGNORECASE)
_PERIOD = re.compile(
    r"^(?:the\s+)?(?:(?:fiscal|fy|q[1-4]|h[12]|year|quarter)\s*)*(?:19|20)\d\d(?:\s*q[1-4])?$|^q[1-4]$", re.I
)
# What may follow the sides: "in terms of price", "on price", "in 2023".
_ASPECT = (
    r"(?:[\s,]+(?P<link>in terms of|with regard to|with respect to|regarding|concerning|when it comes to|as regards"
    r"|on|for|by|in|during|at|under)\s+(?P<aspect>.+?))?"
)
_JOIN = r"(?:\s+and\s+|\s+with\s+|\s+to\s+|\s+against\s+|\s+versus\s+|\s+vs\.?\s+|\s+or\s+|\s+from\s+)"
_COMPARE = r"\b(?:compare|contrast|comparing|comparison of)\s+(?:and contrast\s+)?"
_HOW = r"^(?:how|in what way)\s+(?:do|does|did|is|are|was|were)\s+"
_VERSUS = re.compile(r"^(?P<a>.+?)\s+(?:vs\.?|versus)\s+(?P<b>.+?)" + _ASPECT + r"$", re.IGNORECASE)
_PATTERNS = [
    re.compile(pattern + _ASPECT + "$", re.IGNORECASE)
    for pattern in (
        # "difference in price between A and B", "differences between A and B in price"
        r"\b(?:differences?|distinctions?|similarit(?:y|ies)|comparisons?)(?:\s+(?:in|of)\s+(?P<of>.+?))?\s+between\s+"
        r"(?P<a>.+?)\s+and\s+(?P<b>.+?)",
        # "how does A differ from B", "how is A different from B", "how do A and B differ"
        _HOW + r"(?P<a>.+?)\s+(?:differ|different|distinct|distinguished)\s+(?:from|to|than)\s+(?P<b>.+?)",
        _HOW + r"(?P<a>.+?)\s+and\s+(?P<b>.+?)\s+(?:differ|different|compare)",
        r"^what\s+(?:distinguishes|separates|sets)\s+(?P<a>.+?)\s+(?:apart\s+)?from\s+(?P<b>.+?)",
        # "how does A compare with B"
        _HOW + r"(?P<a>.+?)\s+compare[sd]?\s+(?:with|to|against)\s+(?P<b>.+?)",
        # "compare the price of A and B", "compare A with B on price", "contrast A and B"
        _COMPARE + rf"(?:the\s+)?(?P<of>[\w\s-]+?)\s+(?:of|for|between)\s+(?P<a>.+?){_JOIN}(?P<b>.+?)",
        _COMPARE + rf"(?P<a>.+?){_JOIN}(?P<b>.+?)",
    )
]
# "Which is heavier, A or B?", "Which city is larger: A or B?", "Who was older, A or B?"
_WHICH = re.compile(
    r"^(?:which|what|who)(?:\s+(?P<kind>[\w-]+(?:\s+[\w-]+)?))?\s+(?:is|are|was|were|has|have|had|weighs|costs)\s+"
    r"(?:the\s+)?(?P<quality>[^,:?]+?)\s*[,:]\s*(?P<a>.+?)\s+or\s+(?P<b>.+?)$",
    re.IGNORECASE,
)
# "Is A cheaper than B?", "Does A have more storage than B?", "Did sales rise faster in Europe than in Asia?"
_THAN = re.compile(
    r"^(?:is|are|was|were)\s+(?P<a>.+?)\s+(?P<quality>(?:more|less|fewer)\s+[\w-]+|\w+er|better|worse)\s+than\s+(?P<b>.+?)$",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"^(?:does|do|did)\s+(?P<a>.+?)\s+(?P<verb>\w+)\s+(?:more|less|fewer)\s+(?P<what>[\w\s-]+?)\s+than\s+(?P<b>.+?)$",
    re.IGNORECASE,
)
# "How did revenue change from 2021 to 2022?", "… between Q1 and Q2"
_CHANGE = re.compile(
    r"^how\s+(?:much\s+|far\s+)?(?:do|does|did|has|have|had)\s+(?P<what>.+?)\s+"
    r"(?:changed?|grown?|fall(?:en)?|risen?|differ(?:ed)?|developed?|evolved?|increased?|decreased?|declined?|dropp?(?:ed)?)"
    r"\s+(?:from|between)\s+(?P<a>[\w\s]+?)\s+(?:to|and)\s+(?P<b>[\w\s]+?)$",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"^(?:please|can you|could you|would you|i want to know|tell me|explain|describe)\s+", re.IGNORECASE
)
_WHAT_IS = re.compile(
    r"^what(?:'s| is| are| was| were)\s+(?=.*\b(?:vs\.?|versus)\b)(?:the\s+)?(?!difference)", re.IGNORECASE
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
    found = _by_quality(text) or _by_change(text) or _by_pattern(text)
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


def _by_quality(text: str) -> list[str]:
    if (found := _WHICH.match(text) or _THAN.match(text)) is not None and not found["b"][0].isdigit():
        quality = plain_form(found["quality"])
        return [f"How {quality} is {side}?" for side in _split(found["a"], found["b"])]
    if (found := _MORE.match(text)) is not None:
        return [f"{found['what']} of {side}" for side in _split(found["a"], found["b"])]
    return []


def _by_change(text: str) -> list[str]:
    found = _CHANGE.match(text)
    if found is None or not (_PERIOD.match(found["a"].strip()) and _PERIOD.match(found["b"].strip())):
        return []
    return [f"{found['what']} in {side.strip()}" for side in (found["a"], found["b"])]


def _by_pattern(text: str) -> list[str]:
    for pattern in (*_PATTERNS, _VERSUS):
        found = pattern.search(text)
        if found is None:
            continue
        groups = found.groupdict()
        split = _split(groups["a"], groups["b"])
        if not split:
            continue
        of = _ARTICLE.sub("", groups.get("of") or "").strip()
        aspect, link = (groups.get("aspect") or "").strip(), (groups.get("link") or "").lower()
        return [_searched(side, of, aspect, link) for side in split]
    return []


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
