"""What does a question want: the steps of something, several things, yes or no, what something is, or one thing? Pure.

>>> wants("How do I replace the filter of the pump?")
'steps'

Learned from examples by `benchmarks/question_kinds.py --fit`: a multinomial logistic model over the small words of a
question and the order in which they stand. What it is about does not matter, so that every other word is a blank, of
which only the ending is kept: "how do i _ the _ of the _".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from refdesk.ask.answer_type import read
from refdesk.ask.paraphrase import meaning
from refdesk.ask.support import is_negated
from refdesk.terms import terms, words
from refdesk.text import ASSETS, fold, word_set

Wanted = Literal["one", "steps", "several", "polar", "definition"]
KINDS: tuple[Wanted, ...] = ("one", "steps", "several", "polar", "definition")
FILE = ASSETS / "question_kinds.json"
LONGEST = 40  # words; a longer question tells a story, and its last words ask
SURE = 0.6  # chance from which on a question is taken to want something else than one thing

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|\?")
_ENDINGS = ("ing", "ed", "s")


class KindWeights(NamedTuple):
    """The words that are not blanks, and for each pattern of up to three of them a weight per kind."""

    words: frozenset[str]
    weights: Mapping[str, Sequence[float]]


@cache
def learned() -> KindWeights:
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return KindWeights(frozenset(found["words"]), found["weights"])


def wants(question: str) -> Wanted:
    """What is wanted most likely; one thing, where that is not sure."""
    found = chances(question)
    best = max(KINDS, key=lambda kind: found[kind])
    return best if found[best] >= SURE else "one"


@lru_cache(maxsize=256)
def chances(question: str) -> Mapping[Wanted, float]:
    words, weights = learned()
    scores = [0.0] * len(KINDS)
    for pattern in set(patterns(question, words)):
        for place, weight in enumerate(weights.get(pattern, ())):
            scores[place] += weight
    most = max(scores)
    raised = [math.exp(score - most) for score in scores]
    return {kind: one / sum(raised) for kind, one in zip(KINDS, raised, strict=True)}


def tokens(question: str) -> list[str]:
    """`How do I…?` -> ["how", "do", "i", "?"]."""
    return _WORD.findall(fold(question))[-LONGEST:]


def patterns(question: str, words: frozenset[str]) -> Iterator[str]:
    """One, two and three neighbouring words, what is not among `words` as a blank; `^` is the beginning."""
    found = ["^", *(token if token in words else _blank(token) for token in tokens(question))]
    joined = [token for place, token in enumerate(found) if token != "_" or found[place - 1] != "_"]
    yield ""  # how usual a kind is
    for size in (1, 2, 3):
        for place in range(len(joined) - size + 1):
            yield " ".join(joined[place : place + size])


def _blank(token: str) -> str:
    return next((f"_{ending}" for ending in _ENDINGS if len(token) > len(ending) + 2 and token.endswith(ending)), "_")


# --- is the answer yes or no? Only where a sentence says just what is asked, or just that it is not so ----------------
# "Does the archive writer restart by itself?", "The archive writer does not restart by itself, because …" -> "No."
# In every doubt there is neither: the sentence is quoted, and who asked can see what it means. So a clause must hold
# the question's words in their order, no other word between them, its numbers, and none that limits it to some.

YES, NO = "Yes.", "No."
MOST_BEHIND = 2  # words that say something behind those of the question

_CLAUSE = re.compile(r"[,;:()–—]|\.\s")
_MEANT = word_set("words", "small and meant")  # negation, quantifiers, conditions, modals, directions

_MEANT_TERMS = frozenset(terms(" ".join(_MEANT)))


def asks_yes_or_no(question: str) -> bool:
    """`May I clean it with a brush?`"""
    return wants(question) == "polar" or (not meaning(question).asks and question.rstrip().endswith("?"))


def yes_or_no(question: str, sentences: Sequence[str]) -> str:
    """What one of these sentences says for certain; "" where none does, or where they disagree."""
    if not asks_yes_or_no(question) or is_negated(question):
        return ""
    found = {said for sentence in sentences for clause in _CLAUSE.split(sentence) if (said := _said(question, clause))}
    return found.pop() if len(found) == 1 else ""


def _said(question: str, clause: str) -> str:
    asked, own = read(question), read(clause)
    content = [term for term in asked.stems if term in asked.content - _MEANT_TERMS]
    held = [term for term in own.stems if term in own.content - _MEANT_TERMS]
    if not content or asked.numbers != own.numbers:
        return ""
    at = next((place for place in range(len(held)) if held[place : place + len(content)] == content), None)
    if at != 0 or len(held) - len(content) > MOST_BEHIND:
        return ""
    limits = {word for word in words(clause) if word in _MEANT} - set(words(question))
    negated = is_negated(clause)
    if negated:
        limits = {word for word in limits if not is_negated(word)}
    if limits or not terms(clause):
        return ""
    return NO if negated else YES
