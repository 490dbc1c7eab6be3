"""Does a question lean on what was said before, and how does it read on its own? Rules, no model. Pure.

>>> stand_alone("What does it cost?", [Turn("user", "How heavy is the WB-7 buoy?"), Turn("assistant", "80 kg. [1]")]).text
'What does the WB-7 buoy cost?'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refdesk.answer import Turn
from refdesk.ask.phrases import ASKING, BREAKS, Phrase, phrases
from refdesk.terms import QUERY_STOP_WORDS, terms, words

MOST_TURNS = 12  # messages looked back on


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A question that stands alone, and why it did not; `why` is empty when it did."""

    text: str
    why: str = ""
    topic: str = ""


# --- does it lean? ---------------------------------------------------------------------------------------------------

_THIRD = r"it|its|itself|they|them|their|theirs|themselves|he|him|his|himself|she|her|hers|herself"
_PRONOUN = re.compile(rf"\b(?:{_THIRD})\b", re.IGNORECASE)
# "it" that stands for nothing: "is it possible", "how long does it take", "it is raining", "what time is it".
_EMPTY_IT = re.compile(
    r"\b(?:is|was|would|will|be|isn't|does|did|could|may|might) it (?:\w+ly )?(?:possible|necessary|worth|better|best|safe|ok|okay|true|important|illegal|legal|easy|hard|"
    r"difficult|likely|take|cost|mean|matter|make sense|feel|normal|common|required|mandatory|advisable|recommended|rain\w*|snow\w*)\b(?! by itself)"
    r"|\bit (?:is|was|would be|takes?|seems?|appears?|depends?|turns out|rains?)\b|\b(?:time|day) is it\b|\bhow is it (?:that|possible)\b|\bmake it\b",
    re.IGNORECASE,
)
# "this", "that", "these", "those" that point back: alone, or before a word that says no more than they do.
_POINTING = re.compile(
    r"\b(?:this|these|those)\b(?! (?:year|month|week|day|morning|evening|quarter|document|documents|file|files|report|library|page)\b)"
    r"|(?:^|\b(?:is|does|do|did|was|are|can|could|would|will|to|for|of|about|with|from|by|like|than|on|in|at|after|before|and|how|why|why's|what's|do|doing|use|using|mean))\s+that\b(?!\s+(?:the|a|an|i|we|you|they|it|he|she)\b)"
    r"|\bthat (?:one|ones|mean|case|way|kind|type|time|approach|process|option|happen|happens|said)\b",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    r"\b(?:the (?:same|other|others|former|latter|previous|above|first one|second one|last one|rest)|another one|which ones?|such (?:a|an|\w+s)|each one|any others?|anything else|something else|what else|who else|where else)\b",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^(?:(?:ok(?:ay)?|so|well|thanks?|thank you|great|oh|hmm|i see|right|sure|yes|no)[,.! ]+)*"
    r"(?P<how>and(?: (?:what|how) about)?|what about|how about|what if|or|but|also|then|but what about|so what about|what of|as for|any other|anything)\b",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"^(?:(?:ok(?:ay)?|so|well|thanks?|thank you|great|oh|but|and|yes|no|hmm)[,.! ]+)*(?:what about|how about|and what about|and how about|what of|as for|and(?: (?:in|for|on|at|of|with|from|by|the))?(?=\s))\s*(?P<what>.+?)[?.! ]*$",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"^(?:(?:and|but|so|ok(?:ay)?)[, ]+)?(?:why|how|when|where|who|which|how so|how come|why not|how much|how many|how long|how often|since when|by whom|where exactly|tell me more|more details?|go on|explain|"
    r"can you (?:elaborate|explain)(?: more| further)?|elaborate|for example|such as|like what|in what way|any examples?|examples?|what else)[?.! ]*$",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_PERIOD = re.compile(
    r"\b(?:Q[1-4](?:\s+(?:of\s+)?(?:19|20)\d\d)?|(?:FY\s?)?(?:19|20)\d\d|H[12]|January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
_FIRST_PERSON = re.compile(r"\b(?:i|we|my|our|me)\b", re.IGNORECASE)


def leans(question: str, earlier: Sequence[str]) -> str:
    """Why a question does not stand alone, "" when it does; `earlier` are the user's questions before it."""
    if not earlier:
        return ""
    text = question.strip()
    if _BARE.match(text):
        return "bare"
    if (about := _ABOUT.match(text)) and len(about["what"].split()) <= 8:
        return "ellipsis"
    content = _content(text)
    if place := _pointing_back(text):
        before = _content(text[: place.start()])
        if len(before) < 3:  # more words before it, and it points at one of them
            return "pronoun"
    if _AGAIN.search(text):
        return "again"
    if _OPENING.match(text) and len(content) <= 4:
        return "ellipsis"
    if len(content) <= 1:
        return "short"
    return ""


def _pointing_back(text: str) -> re.Match[str] | None:
    """The first pronoun that may point at something said before."""
    empty = [found.span() for found in _EMPTY_IT.finditer(text)]
    for found in sorted([*_PRONOUN.finditer(text), *_POINTING.finditer(text)], key=lambda one: one.start()):
        if not any(start <= found.start() < end for start, end in empty):
            return found
    return None


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in BREAKS and word not in QUERY_STOP_WORDS]


# --- what does it lean on? -------------------------------------------------------------------------------------------


def topic_of(questions: Sequence[str], answers: Sequence[str], asked: str) -> Phrase | None:
    """The thing spoken of: named in the last questions, again and again, by a name rather than by a common word."""
    own = frozenset(terms(asked))
    scored: dict[str, tuple[float, Phrase]] = {}
    said = [frozenset(terms(one)) for one in (*questions, *answers)]
    for age, question in enumerate(reversed(questions)):
        for place, phrase in enumerate(phrases(question)):
            if phrase.stems <= own or all(word in ASKING or word.isdigit() for word in words(phrase.text)):
                continue
            mentions = sum(phrase.stems <= stems for stems in said)
            score = (
                1.5 * phrase.is_name
                + 0.4 * min(3, len(phrase.stems))
                + 0.3 * min(mentions, 4)
                - 0.7 * age
                + 0.05 * place
            )
            key = phrase.text.lower()
            if key not in scored or scored[key][0] < score:
                scored[key] = (score, phrase)
    return max(scored.values(), key=lambda one: one[0])[1] if scored else None


# --- how does it read alone? -----------------------------------------------------------------------------------------


def stand_alone(question: str, turns: Sequence[Turn]) -> Rewrite:
    """The question with what it leans on put in; itself when it stands alone.

    Earlier questions are made to stand alone first, so a topic is carried through "And its price?" "And its weight?".
    """
    turns = turns[-MOST_TURNS:]
    questions: list[str] = []
    answers: list[str] = []
    for turn in turns:
        if turn.role == "user":
            questions.append(_one(turn.content, questions, answers).text)
        else:
            answers.append(turn.content)
    return _one(question, questions, answers)


def _one(question: str, questions: Sequence[str], answers: Sequence[str]) -> Rewrite:
    why = leans(question, questions)
    if not why:
        return Rewrite(question)
    topic = topic_of(questions, answers, question)
    if topic is None:
        return Rewrite(question)
    if why in ("ellipsis", "bare") and (swapped := _swapped(question, questions[-1])):
        return Rewrite(swapped, why, topic.text)
    if why == "pronoun" and (replaced := _replaced(question, topic)):
        return Rewrite(replaced, why, topic.text)
    return Rewrite(_appended(question, topic), why, topic.text)


def _swapped(question: str, before: str) -> str:
    """`And in 2023?` after `What was revenue in 2022?` -> `What was revenue in 2023?`; "" where nothing fits."""
    new, old = _PERIOD.findall(question), _PERIOD.findall(before)
    if new and old and len(_content(question)) <= len(" ".join(new).split()):
        return before.replace(old[-1], new[0])
    about = _ABOUT.match(question.strip())
    if about is None:
        return ""
    named = [one for one in phrases("x " + about["what"]) if one.is_name]
    names = [one for one in phrases(before) if one.is_name]
    if len(named) == 1 and names and len(_content(about["what"])) <= len(named[0].text.split()):
        old_name = names[-1]
        return before[: old_name.start] + named[0].text + before[old_name.end :]
    return ""


_OBJECT = {"its": "’s", "their": "’s", "his": "’s", "hers": "’s", "theirs": "’s"}


def _replaced(question: str, topic: Phrase) -> str:
    found = _pointing_back(question)
    if found is None:
        return ""
    word = found.group().split()[-1].lower()
    name = _with_article(topic)
    start = found.end() - len(word)
    after = question[found.end() :]
    if word in ("this", "that", "these", "those"):
        noun = re.match(r"\s+([\w-]+)", after)
        if found.group().lower().startswith("that ") and noun is None:
            return ""
        if noun and noun[1].lower() not in BREAKS:
            return ""  # "this plan": the noun stays, and the topic is put beside it
    if word == "her" and re.match(r"\s+\w", after):
        word = "hers"
    possessive = ("'" if name.endswith("s") else "'s") if word in _OBJECT else ""
    written = name[0].upper() + name[1:] if start == 0 else name
    return question[:start] + written + possessive + after


def _with_article(topic: Phrase) -> str:
    return topic.text


def _appended(question: str, topic: Phrase) -> str:
    return f"{question.strip()} ({topic.text})"
