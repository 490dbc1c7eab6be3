"""Classifies a question and decides what that means for the search: rules first, then the nearest examples. Pure.

>>> classify("List all suppliers", vector=None, examples=None, unknown=0).intent
'list'
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import CHANCE_DIGITS, Complexity, Hints, Intent, Query, Route
from refdesk.ask.wording import (
    ARTICLES,
    ASKING,
    DOING,
    POLITE,
    QUESTION_WORDS,
    asks_yes_or_no,
    intent_of,
    is_time,
    meaning,
    wants,
)
from refdesk.document_names import asks_catalogue
from refdesk.ports import Embedder
from refdesk.text import ASSETS, QUERY_STOP_WORDS, STOP_WORDS, words

# Which labelled questions are nearest to this one? Their labels say what kind of question it is.


QUESTIONS_FILE, VECTORS_FILE = "questions.json", "questions.npy"
SHIPPED = "minilm-l6-v2-int8"  # the embedder that the kept vectors belong to
NEAREST = 7  # examples that vote


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Labelled questions and their unit vectors."""

    labels: tuple[str, ...]
    vectors: NDArray[np.float32]
    places: Mapping[str, NDArray[np.intp]]  # of each label
    space: str = ""  # the embedder whose vectors these are

    def votes(self, vector: NDArray[np.float32]) -> dict[str, float]:
        """The share of each label among the nearest examples, weighed by how near they are; best first."""
        cosines = np.vecdot(self.vectors, vector)
        nearest = np.argsort(-cosines)[:NEAREST]
        weights = np.exp(10.0 * (cosines[nearest] - cosines[nearest[0]]))  # a cosine .1 lower counts a third
        votes: dict[str, float] = {}
        for place, weight in zip(nearest, weights / weights.sum(), strict=True):
            votes[self.labels[place]] = votes.get(self.labels[place], 0.0) + float(weight)
        return dict(sorted(votes.items(), key=lambda vote: -vote[1]))

    def closest(self, vector: NDArray[np.float32]) -> dict[str, float]:
        """Per label the cosine of its nearest example."""
        cosines = np.vecdot(self.vectors, vector)
        return {label: float(cosines[places].max()) for label, places in self.places.items()}


@cache
def questions() -> tuple[tuple[str, str], ...]:
    """(label, question) of every example, in the order of the kept vectors."""
    listed: Mapping[str, list[str]] = json.loads((ASSETS / QUESTIONS_FILE).read_text(encoding="utf-8"))
    return tuple((label, text) for label, texts in listed.items() for text in texts)


_made: dict[str, Examples | None] = {}  # by embedder; None while they are being made, or when that failed
_making = threading.Lock()


def examples(embedder: Embedder) -> Examples | None:
    """The examples in the embedder's space; None until they are there, and rules alone decide."""
    with _making:
        if embedder.name not in _made:
            _made[embedder.name] = None
            if embedder.name == SHIPPED:
                vectors = np.load(ASSETS / VECTORS_FILE).astype(np.float32)
                _made[embedder.name] = _examples(vectors, SHIPPED)
            else:
                threading.Thread(target=_make, args=(embedder,), name="examples", daemon=True).start()
    return _made[embedder.name]


def _make(embedder: Embedder) -> None:
    try:
        vectors = np.stack([embedder.embed_query(text) for _, text in questions()])
    except Exception:  # a server that does not answer: rules alone decide
        return
    _made[embedder.name] = _examples(vectors, embedder.name)


def _examples(vectors: NDArray[np.float32], space: str) -> Examples:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = tuple(label for label, _ in questions())
    places = {label: np.flatnonzero([other == label for other in labels]) for label in dict.fromkeys(labels)}
    return Examples(labels, vectors / np.maximum(lengths, 1e-9), places, space)


# What is said that is no question to the documents, and what is honest to reply?

_SMALL_TALK = json.loads((ASSETS / "small_talk.json").read_text(encoding="utf-8"))
_ADDRESS = r"(?:[ ,]++(?:there|all|everyone|again|friend|desk|refdesk|mate|sir|madam|to you|then|that helps|please))*"


def _either(lines: Sequence[str]) -> str:
    return "|".join(f"(?:{line})" for line in lines)


_SPOKEN = [
    (group, language, re.compile(rf"(?:(?:oh|well|so|and),? )?(?:{_either(lines)}){_ADDRESS}\Z", re.IGNORECASE))
    for group, languages in _SMALL_TALK["spoken"].items()
    for language, lines in languages.items()
]
_FIRST = [_either(lines) for group in ("greeting", "thanks") for lines in _SMALL_TALK["spoken"][group].values()]
_GOES_ON = "and|but|what|who|when|where|which|why|how|is|are|can|could|do|does|did|tell|please|list|compare"
_OPENING = re.compile(
    rf"(?:{'|'.join(_FIRST)}|ok(?:ay)?|so|well|alright|great|cool|please|sorry){_ADDRESS}"
    rf"(?:\s*+[,.!;:–-]++\s*|\s++(?=(?:{_GOES_ON})\b))",
    re.IGNORECASE,
)

OUT_OF_SCOPE = "I cannot do that: I only answer from the documents you have added."


def kind(text: str) -> str:
    """Which sort of small talk the whole text is, "" when it is none."""
    return _kind_and_language(text)[0]


def without_greeting(text: str) -> str:
    """The question after a greeting or a thank-you; the text itself when nothing would be left.

    >>> without_greeting("Hello, what is the warranty period?")
    'what is the warranty period?'
    """
    text, start = text.strip(), 0
    while (found := _OPENING.match(text, start)) is not None and found.end() < len(text):
        start = found.end()
    return text[start:]


def reply(query: Query) -> str:
    """The reply to small talk, and to requests that no document can fulfil."""
    if query.route == "out_of_scope":
        return OUT_OF_SCOPE
    group, language = _kind_and_language(query.question)
    said: str = _SMALL_TALK["replies"][group][language]
    return said


def _kind_and_language(text: str) -> tuple[str, str]:
    spoken = " ".join(text.replace("’", "'").split())
    whole = " ".join(filter(None, (word.rstrip("!?.…,;:)(") for word in spoken.split())))
    rest = without_greeting(spoken).strip(" !?.…,;:")  # "Hello! How are you?" is a feeling
    for candidate in dict.fromkeys((whole, rest)):
        for group, language, pattern in _SPOKEN:
            if pattern.match(candidate):
                return group, language
    return "", "en"


HINTS: dict[Intent, Hints] = {
    "factual": Hints(),
    "list": Hints(top_k=15, template="list"),  # seed 001 step 4
    "comparison": Hints(top_k=14, use_mmr=True, template="comparison"),
    "summary": Hints(top_k=12, use_mmr=True, template="summary"),
    "analytical": Hints(top_k=12, use_reasoning=True, template="analytical"),
}
INTENTS: tuple[Intent, ...] = get_args(Intent)
OPEN_QUESTIONS = frozenset(["", "what", "how", "why"])  # what a summary is asked with; "who" and "when" want one thing
# Share of the nearest examples' votes that settles an intent no rule has settled, when the nearest is near.
CLEAR_VOTE = 0.8
# Cosine to an example that settles a route other than searching. Of TREC's, SQuAD's and MTRAG's 2,009 questions 7 are
# taken away from the documents by these, docs/log.md; the second holds whatever words the documents know.
NEAR, CLEAR_CHAT = 0.5, 0.6
LIBRARY = 0.75  # the same for a question about the list of documents, with other embedders than the shipped one
MARGIN = 0.1  # by how much such an example must be nearer than any question to documents
LONGEST_PHRASE = 12  # words of small talk, an errand or a side of a comparison; a longer one is a clause or a text
UNKNOWN = 0.5  # what examples would say, where there are none


@dataclass(frozen=True, slots=True)
class Classification:
    """How a question was read; `sure` is false where a model that writes may settle it.

    `confidence` is how far the nearest labelled questions agree with the intent; a rule that applies counts as half.
    """

    route: Route = "needs_retrieval"
    intent: Intent = "factual"
    complexity: Complexity = "moderate"
    hints: Hints = HINTS["factual"]
    parts: tuple[str, ...] = ()
    why: str = ""
    sure: bool = True
    confidence: float = 1.0
    catalogue: str = ""  # what of the list of documents it asks for


def classify(text: str, vector: Any, examples: Examples | None, unknown: int) -> Classification:
    """The route, intent, complexity and parts of a question.

    `unknown` counts the content words that no document holds: an errand is only assumed where there are some.
    """
    if group := kind(text):
        return Classification("conversational", complexity="simple", why=f"small talk: {group}")
    asked = without_greeting(text)
    closest = examples.closest(vector) if examples is not None and vector is not None else {}
    if closest and (away := _away_from_documents(asked, closest, unknown)):
        return Classification(
            away, complexity="simple", why="nearest examples", sure=False, confidence=_rounded(max(closest.values()))
        )
    if examples is not None and closest and (catalogue := _catalogue(asked, vector, examples, closest)):
        return Classification(complexity="simple", why="asks about the list of documents", catalogue=catalogue)
    parts = sides(asked)
    intent, why, sure, confidence = _intent(asked, parts, vector, examples, closest)
    reading = Classification(intent=intent, parts=parts if intent == "comparison" else (), why=why, sure=sure)
    return replace(reading, complexity=_complexity(asked, intent), hints=HINTS[intent], confidence=_rounded(confidence))


def _rounded(confidence: float) -> float:
    return round(min(max(confidence, 0.0), 1.0), CHANCE_DIGITS)


def _away_from_documents(text: str, closest: Mapping[str, float], unknown: int) -> Route | None:
    """Small talk or an errand that no rule knows, near an example of one and far from all questions to documents."""
    if len(text.split()) > LONGEST_PHRASE:
        return None
    needed = max(closest[intent] for intent in INTENTS) + MARGIN
    said = words(text)
    is_order = ASKING.isdisjoint(said[:1])  # a question may be one to the documents, "weather" or not
    # "Do you have a dog?", but not "Can I keep a dog?"
    is_talk = (is_order and not asks_yes_or_no(text)) or any(word.startswith("you") for word in said)
    if is_talk and closest["conversational"] >= max(needed, NEAR if unknown else CLEAR_CHAT):
        return "conversational"
    return "out_of_scope" if unknown and is_order and closest["out_of_scope"] >= max(needed, NEAR) else None


def _catalogue(text: str, vector: Any, examples: Examples, closest: Mapping[str, float]) -> str:
    """What of the list of documents it asks for: learned for the shipped embedder, with others by nearest examples."""
    if examples.space == SHIPPED:
        return asks_catalogue(text, vector)
    if len(text.split()) > LONGEST_PHRASE:
        return ""
    others = max(cosine for label, cosine in closest.items() if label != "library")
    return "list" if closest["library"] >= max(LIBRARY, others + MARGIN) else ""


def _intent(
    text: str, parts: tuple[str, ...], vector: Any, examples: Examples | None, closest: Mapping[str, float]
) -> tuple[Intent, str, bool, float]:
    """(intent, why, whether it is sure, how far the examples agree)."""
    if captions(text) is not None:
        return "factual", "what a figure shows its caption says", True, UNKNOWN
    votes = examples.votes(vector) if examples is not None and closest else {}
    if (intent := _worded(text, parts)) != "factual":
        return intent, "its wording", True, (1.0 + (votes.get(intent, 0.0) if votes else UNKNOWN)) / 2
    if not votes:
        return "factual", "nothing in its wording", True, UNKNOWN
    best = max(INTENTS, key=lambda intent: votes.get(intent, 0.0))
    if best != "factual" and votes.get(best, 0.0) >= CLEAR_VOTE and closest[best] >= NEAR:
        return best, "nearest examples", False, votes[best]
    other = max(share for intent, share in votes.items() if intent != "factual") if len(votes) > 1 else 0.0
    return "factual", "nothing in its wording", best == "factual", 1.0 - other / 2


def _worded(text: str, parts: tuple[str, ...]) -> Intent:
    """What its words say: a learned intent, sides that are compared, several things that are asked for."""
    asks = meaning(text).asks
    if (intent := intent_of(text)) != "factual" and (intent != "summary" or asks in OPEN_QUESTIONS):
        return intent  # but for "Who wrote the overview?"
    if parts:
        return "comparison"
    found = wants(text)
    return "list" if found == "several" or (found == "steps" and asks == "what") else "factual"


CLAUSE = re.compile(rf"\b(?:and|then)\s+(?:{'|'.join(sorted(QUESTION_WORDS | DOING))}|is|are|can)\b", re.IGNORECASE)


def _complexity(text: str, intent: Intent) -> Complexity:
    """Simple: a short question for one fact. Complex: several questions in one, or long, or to be reasoned about."""
    content = [word for word in words(text) if word not in QUERY_STOP_WORDS]
    several = text.count("?") > 1 or CLAUSE.search(text) is not None
    if several or len(content) > 16 or (intent in ("analytical", "comparison") and len(content) >= 8):
        return "complex"
    return "simple" if intent == "factual" and len(content) <= 4 else "moderate"


# Does a question ask for a number? Learned from questions whose answers are known (benchmarks/number_questions.py).

FILE = ASSETS / "number_questions.npy"  # a weight for each dimension of the question's vector, then the constant


def asks_for_number(vector: Any, embedder: Embedder) -> float:
    """The chance; 0 for embedders that it was not learned for."""
    if embedder.name != SHIPPED:
        return 0.0
    weights = _weights()
    return 1.0 / (1.0 + math.exp(-float(vector @ weights[:-1] + weights[-1])))


@cache
def _weights() -> NDArray[np.float32]:
    found: NDArray[np.float32] = np.load(FILE)
    return found


# --- the sides of a comparison: each becomes a search of its own ----------------------------------------------------

MOST_SIDES = 4
LONGEST_QUESTION = 1000  # characters; a longer one is a pasted text: it says in its own words what it compares


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_ARTICLE = re.compile(rf"^(?:{'|'.join(sorted(ARTICLES))}|our|their|its|both)\s+", re.IGNORECASE)
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
        (r"^(?:what (?:is|are) (?:the )?(?!difference))?", r" (?:vs\.?|versus) "),
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
# "How did revenue change from 2021 to 2022?", "… between Q1 and Q2"
_HOW_DID = _expression("how (?:much |far )?(?:do|does|did|has|have|had) ")
_CHANGED_FROM = _expression(
    r" (?:changed?|grown?|fall(?:en)?|risen?|differ(?:ed)?|developed?|evolved?|increased?|decreased?|declined?"
    r"|dropp?(?:ed)?) (?:from|between) "
)
_TO = _expression(" (?:to|and) ")

# Comparatives that are made of another word.
_PLAIN = {"better": "good", "worse": "bad", "further": "far", "farther": "far", "elder": "old"}
_DOUBLED = re.compile(r"([^aeioulsf])\1$")  # "bigg", but "small"
_LACKS_E = re.compile(
    r"(?:(?<![aeiou])[aeiou][^aeiouwxy]|[^aeioul]l|rg|ns|oos)$"
)  # "lat", "simpl", "larg", "dens", "loos"


def sides(question: str) -> tuple[str, ...]:
    """Stand-alone search texts for the things a question compares; empty when it compares nothing."""
    if len(question) > LONGEST_QUESTION:
        return ()
    text = POLITE.sub("", " ".join(question.split()).rstrip("?.! "))
    found = _by_quality(text) or _by_change(text) or _by_form(text)
    return tuple(dict.fromkeys(found)) if 2 <= len(set(found)) <= MOST_SIDES else ()


def plain_form(comparative: str) -> str:
    """`heavier` -> `heavy`, `more reliable` -> `reliable`."""
    word = comparative.strip().lower()
    if word in _PLAIN:
        return _PLAIN[word]
    if " " in word and word.split()[0] in ("more", "less", "fewer"):
        return word.partition(" ")[2].strip()
    if word.endswith("ier"):
        return word[:-3] + "y"
    stem = word.removesuffix("er")
    if stem == word:
        return word
    return f"{stem}e" if _LACKS_E.search(stem) else _DOUBLED.sub(r"\1", stem)


def _cut(text: str, *dividers: re.Pattern[str]) -> list[str]:
    """The text between the dividers, each searched for behind the one before; empty when one is missing."""
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
        if more and all(part.isalnum() for part in more[1].replace("-", " ").replace("_", " ").split()):
            return [f"{more[1]} of {side}" for side in _split(more[0], more[2])]
    return []


def _by_change(text: str) -> list[str]:
    opening = _HOW_DID.match(text)
    found = _cut(text[opening.end() :], _CHANGED_FROM, _TO) if opening else []
    if not found or not all(map(is_time, found[1:])):
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
    """One side with the attribute that is compared: `warranty of the TG-4`, `TG-4 in 2023`, `price of the TG-4`."""
    if of:
        side = f"{of} in {side}" if is_time(side) else f"{of} of {side}"
    if not aspect:
        return side
    is_place = link in ("during", "at", "under", "for") or (link == "in" and not aspect.islower())
    return f"{side} {link} {aspect}" if is_place else f"{aspect} of {side}"


def _split(first: str, last: str) -> list[str]:
    """The sides, `A, B` and `C`, with what they share given to each: "the basic and the premium plan"."""
    named = [side.strip(" ,") for side in (*(side.strip().removeprefix("and ") for side in first.split(",")), last)]
    named = [side for side in named if side]
    if any(len(side.split()) > LONGEST_PHRASE for side in named):
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
    pointer, _, rest = tail.partition(" ")
    if pointer.lower() in ("that", "those") and rest.startswith(("of ", "in ", "for ")):
        return f"{_ARTICLE.sub('', first).split(' of ')[0].split(' in ')[0]} {rest}"
    if tail.endswith((" one", " ones")):
        return f"{tail.rsplit(' ', 1)[0]} {words[-1]}"
    link = next((place for place, word in enumerate(words) if word.lower() in ("in", "of", "for")), 0)
    period = tail.removeprefix("in ")
    if link and is_time(" ".join(words[link + 1 :])) and is_time(period):
        return " ".join([*words[: link + 1], period])
    return tail


# --- is something asked for that is known by its form: a numbered caption, what a short form stands for? -------------

MOST_BETWEEN = 1  # words that say something between the question word and the number: "What is shown in Table 2?"
MOST_SMALL = 2  # words of an expansion that give no letter: "Bureau of Meteorology (BM)"

_NUMBERED = r"(fig|tab|chart|exhibit|listing|abb)[a-z]*\.?\s*(\d{1,3}[a-z]?)(?![\w.]*\d)"
_ASKED = re.compile(rf"(what|which)\b(.*?)\b{_NUMBERED}", re.IGNORECASE)
_CAPTION = re.compile(rf"{_NUMBERED}(?:\s*[.:–—|)-]|(?-i:\s+[^\Wa-z]))\s*\S", re.IGNORECASE)  # not "Figure 5 shows"
_SHORT_FORM = re.compile(
    r"(?i:what (?:do|does|did) (?:the )?)[\"'“]?([A-Z][A-Za-z&]{0,8}[A-Z])[\"'”]? \w+(?: for)?(?: in\b.*)?\??\s*\Z"
)


def captions(question: str) -> Callable[[str], bool] | None:
    """Whether a sentence is the caption that is asked for; None where none is.

    >>> captions("What does Figure 5 show?")("Fig. 5. Langmuir isotherm of the coated samples.")
    True
    """
    asked = _ASKED.search(question)
    if asked is None or sum(word not in STOP_WORDS for word in words(asked[2])) > MOST_BETWEEN:
        return None
    wanted = (asked[3].lower(), asked[4].lower())

    def is_caption(sentence: str) -> bool:
        found = _CAPTION.match(sentence.strip())
        return found is not None and (found[1].lower(), found[2].lower()) == wanted

    return is_caption


def short_forms(question: str) -> Callable[[str], bool] | None:
    """Whether a sentence spells out the short form that is asked for; None where none is."""
    return (lambda sentence: bool(spelled_out(question, sentence))) if _short_form(question) else None


def spelled_out(question: str, sentence: str) -> str:
    """What the short form that is asked for stands for in this sentence; "" where it does not say it."""
    short = _short_form(question)
    return expansion(short, sentence) if short else ""


def _short_form(question: str) -> str:
    asked = _SHORT_FORM.match(question.strip())
    short = asked[1] if asked else ""
    return short if sum(letter.isupper() for letter in short) > 1 else ""  # not "What does water mean?"


def asked_form(question: str) -> Callable[[str], bool] | None:
    """Whether a sentence is what is asked for by its form, whatever its words; None where nothing is asked so."""
    return captions(question) or short_forms(question)


def expansion(short: str, sentence: str) -> str:
    """`digital signal processor` of "the digital signal processor (DSP)"; "" where there is none."""
    letters = [letter.lower() for letter in short if letter.isalpha()]
    for found in re.finditer(rf"\((?:[^()]*\s)?[\"'“]?{re.escape(short)}s?[\"'”]?\s*\)", sentence):
        before = list(re.finditer(r"[^\W\d_][\w’'-]*", sentence[: found.start()]))
        for count in range(len(letters), len(letters) + MOST_SMALL + 1):
            if count <= len(before) and _spells([word.group() for word in before[-count:]], letters):
                return sentence[before[-count].start() : before[-1].end()]
    for found in re.finditer(rf"\b{re.escape(short)}\s*\(([^()]+)\)", sentence):
        if _spells(words(found[1]), letters):
            return found[1]
    return ""


def _spells(spelled: list[str], letters: list[str]) -> bool:
    """Are these the first letters of the words, small words aside?"""
    telling = [word for word in spelled if word.lower() not in STOP_WORDS]
    ways = (spelled, telling, [part for word in spelled for part in word.split("-")])
    is_whole = bool(telling) and telling[0] == spelled[0]  # not "of Personnel Management"
    return is_whole and letters in [[word[:1].lower() for word in way] for way in ways]
