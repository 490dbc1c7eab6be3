"""Detects follow-up questions and rewrites them to stand alone, without a model. Pure.

A rewrite that names a wrong thing is worse than none: where it is not sure what a pronoun stands for, or where there is
none, the question stays as it was typed, and what it may lean on is searched for beside it.

>>> stand_alone("What does it cost?", [Turn("user", "How heavy is the WB-7 buoy?")]).text
'What does the WB-7 buoy cost?'
"""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from refdesk.answer import Turn
from refdesk.ask.wording import ARTICLES, AUXILIARIES, DOING, KEPT, MODALS, QUESTION_WORDS, is_plural
from refdesk.prompts import MOST_TURNS
from refdesk.text import QUERY_STOP_WORDS, STOP_WORDS, terms, word_set, words

# --- which things does a text speak of? Noun phrases by their borders -----------------------------------------------
# Words of asking end a noun phrase, and are no thing to come back to. Lists of 783 verbs, adverbs and nouns gave hardly
# more than these 54: CANARD .728 and .727, CAsT .800 and .794, recall on MTRAG .530 and .529 (docs/log.md).
FRAME = word_set("words", "frame")
BREAKS = FRAME | STOP_WORDS | QUERY_STOP_WORDS
LONGEST = 8  # words; a longer run is a heading or a list

_WORD = re.compile(r"[^\W_](?:[\w&+#]|[-./](?=\w)|['’](?=[A-Z]|t\b))*|['’]s\b|[^\w\s]")
_INSIDE_NAMES = frozenset(["of", "for", "the", "de", "la", "von", "van", "and", "&"])


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


@lru_cache(maxsize=KEPT)
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


@lru_cache(maxsize=KEPT)
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
    for match in _WORD.finditer(text):
        found.append(_Token(match.group(), match.start(), match.end(), is_first and match.group()[0].isalnum()))
        is_first = match.group() in ".?!:;" or (is_first and not match.group()[0].isalnum())
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
        goes_on = any(token.may_be_name for token in rest) and (rest[0].may_be_name or rest[0].text in _INSIDE_NAMES)
        return goes_on and (last.may_be_name or last.text in _INSIDE_NAMES)
    if token.is_name and lowered not in STOP_WORDS and token.text != "I":
        return True
    if place and tokens[place - 1].is_name and any(token.is_name for token in tokens[place + 1 : place + 2]):
        return False  # words between two names say something about them: "Bergen reach Lodin Point"
    before = tokens[place - 1].text.lower() if place else ""
    opened_by = tokens[run[0] - 1].text.lower() if run and run[0] else before
    if lowered in FRAME and opened_by in ARTICLES:  # a noun there: "the file size", "the annual report"
        return True
    return lowered not in BREAKS


def _closed(text: str, tokens: list[_Token], run: list[int]) -> list[Phrase]:
    while run and tokens[run[-1]].text in _INSIDE_NAMES:
        run = run[:-1]
    if not run or len(run) > LONGEST:
        return []
    first = run[0]
    article = tokens[first - 1].text.lower() if first and tokens[first - 1].text.lower() in ARTICLES else ""
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
    asks_what_it_is = tokens[0].text.lower() in QUESTION_WORDS
    return is_name and (before in DOING or (before in AUXILIARIES and not asks_what_it_is))


Nearness = Callable[[str], float]

# Best cosine in the documents (MiniLM): below FAR they hold nothing near a question as it was asked, so it leans on
# what was said before; from NEAR on they answer it, whatever it points at. Tuned on half of MTRAG's conversations:
# .40–.44 do equally well, docs/log.md.
FAR, NEAR = 0.42, 0.5
FEW_WORDS = 2  # content words; a question with a pronoun and no more of its own leans whatever is near it
SOME_WORDS = 5  # with more of its own, and no sign of leaning, it is a new question that the documents do not answer
CANDIDATES = 3  # topics tried
NEARNESS_WEIGHT = 20.0  # of a cosine against salience
LONGEST_BEFORE = 150  # characters of the question before that are put beside "What about installation?"
CLEAR_SIGNS = ("bare", "ellipsis", "pronoun")
UNCLEAR_SIGNS = ("far", "short")
# Cosine that a question may take from its topic and still belong to it. "Who won the chess championship? (drift)" is
# much further from the documents than "drift" is: another matter. At .1 recall on MTRAG is what it was without this,
# and 9 % of questions from elsewhere are completed instead of 27 % (docs/log.md).
STRANGE = 0.1


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A question that stands alone, and why it did not; `why` is empty when it did.

    Where it is not sure what it leans on, the text is as typed, and `beside` is what is searched for beside it.
    """

    text: str
    why: str = ""
    topic: str = ""
    beside: str = ""

    @property
    def fullest(self) -> str:
        return self.beside or self.text


# --- does it lean? ------------------------------------------------------------------------------------------------

_MANY = frozenset(["they", "them", "their", "theirs", "these", "those"])
_PERSON = frozenset(["he", "him", "his", "she", "her", "hers"])
_THINGS = frozenset(["it", "its"])
_POINTERS = frozenset(["this", "that", "these", "those"])
_THIRD = "|".join((_MANY | _PERSON | _THINGS) - _POINTERS)
_PRONOUN = re.compile(rf"\b(?:{_THIRD}|(?:it|him|her)self|themselves)\b", re.IGNORECASE)
# "it" that stands for nothing: "is it possible to", "how long does it take to", "it is raining", "what time is it".
_EMPTY_IT = re.compile(
    rf"\b(?:{'|'.join(sorted(AUXILIARIES | MODALS))}) it (?:\w+ ){{0,2}}(?:to|that|if|for|when)\b"
    r"|\b(?:time|day) is it\b|\bis it (?:rain|snow|worth)|\bit (?:is|was|would|takes|seems|depends|rains)\b",
    re.IGNORECASE,
)
# "this", "these", "those", and "that" at the end, unless they point at the time or at the documents.
_PRESENT = "year|month|week|day|morning|evening|quarter|document|documents|file|files|report|library|page"
_POINTING = re.compile(rf"\b(?:this|these|those)\b(?! (?:{_PRESENT})\b)|\bthat\s*\??$", re.IGNORECASE)
_OPENERS = r"(?:(?:ok(?:ay)?|so|well|thanks?|thank you|great|oh|hmm|i see|right|sure|yes|no|but|and)[,.! ]+)*"
_ABOUT = re.compile(
    rf"^{_OPENERS}(?:(?:and )?(?:what|how) about|and(?: (?:in|for|on|at))?(?=\s))"
    r"\s*+(?P<what>.*[^?.! \n]|.)[?.! ]*+$",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"(?:(?<!\s)\s+)?\([^()]*\)$")  # what an earlier question was completed with
_MONTHS = "|".join(month_name[1:])
_PERIOD = re.compile(rf"\b(?:Q[1-4](?:\s+(?:of\s+)?(?:19|20)\d\d)?|(?:FY\s?)?(?:19|20)\d\d|H[12]|{_MONTHS})\b")
# A question that names its own thing: "What is anemia?", "Tell me about makos."
_DEFINING = re.compile(
    rf"^{_OPENERS}(?:please )?(?:(?:what|who)(?:'s| is| are| was| were)|tell me (?:more )?about|describe|explain"
    r"|define)\s++(?:(?:an?|the) )?[^?.!]++[?.! ]*+$",
    re.IGNORECASE,
)


def follow_up_sign(question: str, earlier: Sequence[str]) -> str:
    """Why a question does not stand alone, "" when it does; `earlier` are the user's questions before it."""
    if not earlier:
        return ""
    text = question.strip()
    if _pointing_back(text):
        return "pronoun"
    content = _content(text)
    if not content:  # "Why?", "Tell me more."
        return "bare"
    if (about := _ABOUT.match(text)) and len(about["what"].split()) <= LONGEST:
        return "ellipsis"
    return "short" if len(content) <= 1 and not _names_its_thing(text) else ""


def _names_its_thing(text: str) -> bool:
    """A name, or a thing that is brought in: "What is anemia?", but not "What are the suppliers of the city?"."""
    topics = [phrase for phrase in phrases(text) if is_topic(phrase)]
    brought_in = bool(topics) and all(token.article != "the" for token in topics)
    return any(token.is_name for token in topics) or (brought_in and _DEFINING.match(text) is not None)


def points_back(question: str) -> str:
    """The word that points at something the question does not name: "this" in "the purpose of this rule"."""
    found = _pointing_back(question.strip())
    return found.group() if found else ""


def _pointing_back(text: str) -> re.Match[str] | None:
    """The first pronoun that may point at something said before."""
    pronouns = sorted([*_PRONOUN.finditer(text), *_POINTING.finditer(text)], key=lambda pronoun: pronoun.start())
    empty = [found.span() for found in _EMPTY_IT.finditer(text)]
    for pronoun in pronouns:
        is_empty = any(start <= pronoun.start() < end for start, end in empty)
        if not is_empty and not _points_within(text, pronoun):
            return pronoun
    return None


_JOINTS = sorted(QUESTION_WORDS | {"and", "but", "or", "if", "because", "while", "so", "that"})
_BORDER = re.compile(rf"[,;.?!]|\b(?:{'|'.join(_JOINTS)})\b", re.IGNORECASE)


def _points_within(text: str, found: re.Match[str]) -> bool:
    """Whether the question itself names what a pronoun stands for: "What is mortadella and where is it from?"."""
    named = [phrase for phrase in phrases(text[: found.start()]) if is_topic(phrase)]
    if not named:
        return False
    if found.group().lower() in _PERSON and any(token.is_name for token in named):
        return True
    return _BORDER.search(text, named[-1].end, found.start()) is not None


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in BREAKS and word not in QUERY_STOP_WORDS]


# --- what does it lean on? ----------------------------------------------------------------------------------------


# What is left of a topic's salience with each question. All else that tells a topic counts one: a mention, a name,
# "what is X", "about X", the first question, number and person of the pronoun, a question that was understood by it.
# Weights tuned one by one gave CANARD .7287 and CAsT .7956, these .7303 and .7959 (docs/log.md).
DECAY = 0.8


class Topics:
    """What a conversation speaks of, and how much at this moment."""

    def __init__(self) -> None:
        self._salience: dict[str, float] = {}
        self._phrases: dict[str, Phrase] = {}

    def hear_question(self, question: str, carried: str) -> None:
        self._salience = {key: value * DECAY for key, value in self._salience.items()}
        if carried:
            self._salience[carried.lower()] = self._salience.get(carried.lower(), 0.0) + 1.0
        is_defining, is_first = _DEFINING.match(question.strip()) is not None, not self._phrases
        for phrase in phrases(question):
            if is_topic(phrase):
                self._add(phrase, sum((1.0, phrase.is_name, phrase.after == "about", is_defining, is_first)))

    def hear_answer(self, answer: str) -> None:
        first = answer[:300]
        for phrase in phrases(first):
            key = phrase.text.lower()
            if is_topic(phrase) and (key in self._salience or phrase.is_name):
                self._add(phrase, 1.0 if key in self._salience else 0.5)

    def _add(self, phrase: Phrase, gain: float) -> None:
        key = phrase.text.lower()
        self._salience[key] = self._salience.get(key, 0.0) + gain
        self._phrases.setdefault(key, phrase)

    def likely(self, asked: str, pronoun: str = "") -> list[tuple[float, Phrase]]:
        """What may be meant by a question, or by a pronoun of it, with its salience; the most likely first."""
        asked_stems = frozenset(terms(asked))
        fitting = [
            (value + self._agreement(self._phrases[key], pronoun), key)
            for key, value in self._salience.items()
            if key in self._phrases and not self._phrases[key].stems <= asked_stems
        ]
        return [(value, self._phrases[key]) for value, key in sorted(fitting, reverse=True)]

    def _agreement(self, phrase: Phrase, pronoun: str) -> float:
        is_many = is_plural(phrase.text)
        if pronoun in _MANY:
            return 1.0 * is_many
        if pronoun in _THINGS or pronoun in _POINTERS:
            return -1.0 * is_many
        if pronoun in _PERSON:
            words_of = phrase.text.split()
            is_person = phrase.is_name and len(words_of) <= 3 and all(word[0].isupper() for word in words_of)
            return 1.0 * is_person
        return 0.0


def is_topic(phrase: Phrase) -> bool:
    """Whether one can come back to it: not "steps", "the price", "2021", "suffering"."""
    phrase_words = words(phrase.text)
    is_activity = len(phrase_words) == 1 and phrase_words[0].endswith("ing") and not phrase.article
    return not is_activity and not all(word in FRAME or word.isdigit() for word in phrase_words)


# --- how does it read alone? --------------------------------------------------------------------------------------


def stand_alone(question: str, turns: Sequence[Turn], nearness: Nearness | None = None) -> Rewrite:
    """The question completed with what it refers to; unchanged when it stands alone.

    Earlier questions are made to stand alone first, so a topic is carried through "And its price?" "And its weight?".
    `nearness` is the best cosine of a text in the documents: a question that they answer as it is stands alone, and one
    that nothing in them is near to leans, whatever its words. Without it, the words alone decide.
    """
    topics = Topics()
    questions: list[str] = []
    for turn in turns[-MOST_TURNS:]:
        if turn.role == "user":
            why = follow_up_sign(turn.content, questions)
            rewrite = _rewritten(turn.content, why, questions, topics, None) if why else Rewrite(turn.content)
            questions.append(rewrite.fullest)
            topics.hear_question(turn.content, rewrite.topic)
        else:
            topics.hear_answer(turn.content)
    why = follow_up_sign(question, questions)
    if nearness is not None and questions:
        why = _confirmed(question, why, nearness)
    return _rewritten(question, why, questions, topics, nearness) if why else Rewrite(question)


def _confirmed(question: str, why: str, nearness: Nearness) -> str:
    """Why the question leans, after asking the documents."""
    content = _content(question)
    if why in CLEAR_SIGNS:
        return why if len(content) <= FEW_WORDS or nearness(question) < NEAR else ""
    is_new = len(content) > SOME_WORDS or _names_its_thing(question)
    return (why or "far") if (why or not is_new) and nearness(question) < FAR else ""


def _rewritten(question: str, why: str, questions: Sequence[str], topics: Topics, nearness: Nearness | None) -> Rewrite:
    found = _pointing_back(question) if why == "pronoun" else None
    likely = topics.likely(question, found.group().split()[-1].lower() if found else "")[:CANDIDATES]
    if why in ("ellipsis", "bare"):
        aside = _ASIDE.search(questions[-1])
        before = _ASIDE.sub("", questions[-1])
        topic = likely[0][1].text if likely else ""
        if swapped := _swapped(question, before):
            return Rewrite(swapped + (aside.group() if aside else ""), why, topic)
        if len(before) <= LONGEST_BEFORE:
            return Rewrite(question, why, topic, _appended(question, before))
    if not likely:
        return Rewrite(question)
    written = list(_written(question, found, likely))
    _, topic, text = max(
        written, key=lambda way: way[0] + (NEARNESS_WEIGHT * nearness(way[2]) if nearness is not None else 0.0)
    )
    if nearness is not None and why in UNCLEAR_SIGNS and _is_strange(text, nearness):
        return Rewrite(question)
    if _ASIDE.search(text):
        return Rewrite(question, why, topic, text)
    rival = max((other for other, name, _ in written if name != topic), default=0.0)
    chosen = next(phrase for _, phrase in likely if phrase.text == topic)
    if is_sure(chosen, found, is_only=rival <= 0.0):
        return Rewrite(text, why, topic)
    return Rewrite(question, why, topic, _appended(question, topic))


# --- is it sure? --------------------------------------------------------------------------------------------------


def is_sure(topic: Phrase, found: re.Match[str] | None, *, is_only: bool) -> bool:
    """Whether a pronoun surely means this topic: a name or the only candidate, singular where the pronoun is singular.

    As good as weights fitted on ten signs (benchmarks/followups.py): CANARD .730 against .734, CAsT .800 against .781.
    """
    pronoun = found.group().split()[-1].lower() if found else ""
    is_many = is_plural(topic.text)
    agrees = pronoun in _PERSON or is_many == (pronoun in _MANY)
    return agrees and (topic.is_name or is_only)


def _is_strange(text: str, nearness: Nearness) -> bool:
    """Whether a question that was completed has nothing to do with what it was completed with."""
    beside = _ASIDE.search(text)
    return beside is not None and nearness(text) < nearness(beside.group().strip(" ()")) - STRANGE


def _written(
    question: str, found: re.Match[str] | None, likely: Sequence[tuple[float, Phrase]]
) -> Iterator[tuple[float, str, str]]:
    """(salience, topic, text) of every way to put a topic in; the most likely first."""
    for salience, topic in likely:
        text = _replaced(question, found, topic) if found else ""
        yield salience, topic.text, text or _appended(question, topic.text)
    if found is None and len(likely) > 1:
        (salience, first), (_, second) = likely[:2]
        yield salience, first.text, _appended(question, f"{first.text}, {second.text}")


def _swapped(question: str, before: str) -> str:
    """`And in 2023?` after `What was revenue in 2022?` -> `What was revenue in 2023?`; "" where nothing fits."""
    about = _ABOUT.match(question.strip())
    asked = about["what"] if about else question
    new, old = _PERIOD.findall(asked), _PERIOD.findall(before)
    if len(new) == 1 and len(old) <= 1 and len(_content(asked)) <= len(new[0].split()):
        return before.replace(old[0], new[0]) if old else f"{before.rstrip(' ?.!')} in {new[0]}?"
    if about is None or (words(asked)[:1] and words(asked)[0] in STOP_WORDS - ARTICLES):
        return ""
    named = [phrase for phrase in phrases(f"of {asked}") if phrase.is_name]
    names = [phrase for phrase in phrases(before) if phrase.is_name]
    if len(named) != 1 or len(names) != 1 or not set(_content(asked)) <= set(words(named[0].text)):
        return ""
    (new_name,), (old_name,) = named, names
    owner = old_name.text.replace("’", "'").partition("'s")[0]  # "the WB-7's chain": another's chain is meant
    if _has_digit(new_name.text) != _has_digit(owner):
        return ""
    return before[: old_name.start] + new_name.text + before[old_name.start + len(owner) :]


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


_POSSESSIVE = frozenset(["its", "their", "his", "hers", "theirs"])


def _replaced(question: str, found: re.Match[str], topic: Phrase) -> str:
    word = found.group().split()[-1].lower()
    name = _with_article(topic, is_many=word in _MANY)
    start = found.end() - len(word)
    after = question[found.end() :]
    if word in _POINTERS:
        noun = words(after)[:1] if after[:1].isspace() else []
        if noun and noun[0] not in BREAKS:
            return ""  # "this plan": the noun stays, and the topic is put beside it
    if word == "her" and after[:1].isspace() and after.lstrip()[:1].isalnum():
        word = "hers"
    possessive = ("'" if name.endswith("s") else "'s") if word in _POSSESSIVE else ""
    written = name[0].upper() + name[1:] if start == 0 else name
    return question[:start] + written + possessive + after


def _with_article(topic: Phrase, *, is_many: bool) -> str:
    """`a virtual machine` is "the virtual machine" when one comes back to it, and "virtual machines" for "they"."""
    if topic.article in ARTICLES - {"the"}:
        if is_many and topic.text[-1].isalpha() and not topic.text.endswith("s"):
            return f"{topic.text}s"
        return f"{topic.article} {topic.text}"
    return f"{topic.article} {topic.text}" if topic.article else topic.text


def _appended(question: str, topic: str) -> str:
    return f"{question.strip()} ({topic})"
