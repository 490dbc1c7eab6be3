"""Which things does a text speak of? Noun phrases by their borders: no model, no part-of-speech tags. Pure.

>>> [one.text for one in phrases("What benefits does Red Hat OpenShift offer for batch jobs?")]
['benefits', 'Red Hat OpenShift', 'batch jobs']
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from refdesk.ask.understanding.vocabulary import BREAKS, NOUN_OR_VERB, word_set
from refdesk.terms import terms
from refdesk.text import STOP_WORDS

LONGEST = 8  # words; a longer run is a heading or a list

_WORD = re.compile(r"[^\W_](?:[\w&+#]|[-./](?=\w)|['’](?=[A-Z]|t\b))*|['’]s\b|[^\w\s]")
_INSIDE_NAMES = frozenset(["of", "for", "the", "de", "la", "von", "van", "and", "&"])
# The word after one of these is a verb: "to explore Jupiter", "can I purchase plans".
_BEFORE_VERBS = word_set("to i we you they he she can could will would should may might must please let's not")
_AUXILIARIES = word_set("do does did is are was were has have had")
_ARTICLES = frozenset(["the", "a", "an"])
_OWNERS = _ARTICLES | word_set("my your our its their his her of 's this these those any no")
_NAMED_BY_BEING = word_set("what who which where what's who's")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase; `is_name` when it holds a capital that no sentence begins with, or a code."""

    text: str
    start: int
    end: int
    is_name: bool
    article: str = ""  # the, a, an
    after: str = ""  # the word before it and its article: "about", "of"

    @property
    def stems(self) -> frozenset[str]:
        return _stems(self.text)


@lru_cache(maxsize=4096)
def _stems(text: str) -> frozenset[str]:
    return frozenset(terms(text))


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    is_first: bool  # of its sentence

    @property
    def is_name(self) -> bool:
        """A capital or digit that a sentence's beginning does not explain."""
        inner = any(letter.isdigit() or letter.isupper() for letter in self.text[1:])
        return inner or self.text[0].isdigit() or (self.text[0].isupper() and not self.is_first)

    @property
    def may_be_name(self) -> bool:
        return self.is_name or self.text[0].isupper()


@lru_cache(maxsize=512)
def phrases(text: str) -> tuple[Phrase, ...]:
    """Noun phrases in their order, without articles."""
    tokens = _tokens(text)
    found: list[Phrase] = []
    run: list[int] = []
    for place in range(len(tokens) + 1):
        if place < len(tokens) and _belongs(tokens, place, run):
            run.append(place)
        else:
            found += _closed(text, tokens, run)
            run = []
            if place < len(tokens) and _belongs(tokens, place, run):  # after a possessive the next phrase begins
                run = [place]
    return tuple(found)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    is_first = True
    for one in _WORD.finditer(text):
        found.append(_Token(one.group(), one.start(), one.end(), is_first and one.group()[0].isalnum()))
        is_first = one.group() in ".?!:;" or (is_first and not one.group()[0].isalnum())
    return found


def _belongs(tokens: list[_Token], place: int, run: list[int]) -> bool:
    token = tokens[place]
    lowered = token.text.lower()
    if token.text in ("'s", "’s"):
        return bool(run) and place + 1 < len(tokens) and _belongs(tokens, place + 1, [])
    if not token.text[0].isalnum():
        return False
    if token.text in _INSIDE_NAMES and run:
        last, rest = tokens[run[-1]], tokens[place + 1 : place + 3]
        goes_on = any(one.may_be_name for one in rest) and (rest[0].may_be_name or rest[0].text in _INSIDE_NAMES)
        return goes_on and (last.may_be_name or last.text in _INSIDE_NAMES)
    if token.is_name and lowered not in STOP_WORDS and token.text != "I":
        return True
    before = tokens[place - 1].text.lower() if place else ""
    if lowered in NOUN_OR_VERB:
        return before in _OWNERS or (bool(run) and run[0] > 0 and tokens[run[0] - 1].text.lower() in _OWNERS)
    return lowered not in BREAKS and (before not in _BEFORE_VERBS or token.may_be_name)


def _closed(text: str, tokens: list[_Token], run: list[int]) -> list[Phrase]:
    while run and tokens[run[-1]].text in _INSIDE_NAMES:
        run = run[:-1]
    if not run or len(run) > LONGEST:
        return []
    first = run[0]
    article = tokens[first - 1].text.lower() if first and tokens[first - 1].text.lower() in _ARTICLES else ""
    place = first - (2 if article else 1)
    before = tokens[place].text.lower() if place >= 0 else ""
    named = [place for place in run if tokens[place].is_name]
    is_name = bool(named) or (len(run) > 1 and all(tokens[place].may_be_name for place in run))
    if len(run) > 1 and _is_predicate(tokens, before, run[-1], is_name=is_name):
        run = run[:-1]
    start, end = tokens[run[0]].start, tokens[run[-1]].end
    return [Phrase(text[start:end], start, end, is_name, article, before)]


def _is_predicate(tokens: list[_Token], before: str, last: int, *, is_name: bool) -> bool:
    """Whether the last word says something of the others: "did Zappa disband", "the rooms designated"."""
    word = tokens[last]
    if word.may_be_name:
        return False
    if word.text.endswith("ed"):
        return True
    opening = [token.text.lower() for token in tokens[:2]]
    asks_what_it_is = opening[0] in _NAMED_BY_BEING or (opening[0] == "how" and opening[-1] not in _AUXILIARIES)
    return is_name and (before in ("do", "does", "did") or (before in _AUXILIARIES and not asks_what_it_is))
