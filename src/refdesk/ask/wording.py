"""Analyses the wording of questions and sentences: their words, the answer type, whether two ask the same. Pure.

>>> wants("How do I replace the filter of the pump?")
'steps'
>>> same_question("What is the price of the TG-4?", "Can you tell me the TG-4's price please")
True
>>> same_question("Did Acme sue Borealis?", "Did Borealis sue Acme?")
False
>>> said("missing", "Wie schwer ist die Boje?")
'Das steht nicht in den Dokumenten.'
"""

from __future__ import annotations

import json
import math
import re
from calendar import month_name
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from refdesk.answer import Intent, Query
from refdesk.forms import is_form
from refdesk.summaries import PRONOUN
from refdesk.text import (
    ASSETS,
    QUERY_STOP_WORDS,
    STOP_WORDS,
    fold,
    in_full,
    terms,
    terms_of_each,
    word_list,
    word_set,
    words,
)
from refdesk.types import Chunk

KEPT = 2048  # sentences, words and names remembered: those of a question are asked for again and again
STOP_TERMS = frozenset(terms(" ".join(STOP_WORDS | QUERY_STOP_WORDS)))
_COUNTED = word_list("words", "number words")  # zero, one, …, nineteen, twenty, thirty, …, ninety, hundred, …
NUMBER_WORDS = {word: place for place, word in enumerate(_COUNTED[: _COUNTED.index("twenty")])}
NUMBER_WORDS |= {word: 10 * tens for tens, word in enumerate(_COUNTED[20 : _COUNTED.index("hundred")], 2)}
YEAR_NUMBER = re.compile(r"(?:19|20)\d\d")
PERCENT = re.compile(r"%|\bper ?cent", re.IGNORECASE)
POSSESSIVE = re.compile(r"['’]s?$")
NUMBER_TERMS = frozenset(terms(" ".join(_COUNTED)))
_NAME = re.compile(r"\b[A-ZÀ-ÖØ-Þ][\w'’-]+")
PART = re.compile(r"[;:()–—?!]|[.,](?=\s|$)")  # where a part of a sentence ends


class SentenceWords:
    """A sentence as words: its terms in their order, repeats kept, and as a set."""

    def __init__(self, text: str, language: str, stems: Sequence[str]) -> None:
        self.text, self.language, self.stems = text, language, stems
        self.terms = frozenset(stems)

    @cached_property
    def content(self) -> frozenset[str]:
        """Terms that are not stop words."""
        return self.terms - STOP_TERMS

    @cached_property
    def numbers(self) -> frozenset[str]:
        """ "1250", "seven"."""
        return frozenset([term for term in self.terms if term[0].isdigit()]) | (NUMBER_TERMS & self.terms)

    @cached_property
    def names(self) -> frozenset[str]:
        """Terms of capitalised words; the first word counts when it is no usual word."""
        found = [m.group() for m in _NAME.finditer(self.text) if m.start() or m.group().lower() not in STOP_WORDS]
        return frozenset(terms(" ".join(found), self.language)) if found else frozenset()

    @property
    def begins_with_pronoun(self) -> bool:
        """Then it can only be understood with the sentence before."""
        return PRONOUN.match(self.text) is not None


_known: dict[tuple[str, str], SentenceWords] = {}


def read(text: str, language: str = "en") -> SentenceWords:
    """The sentence, read once.

    >>> sorted(read("The pier at Lodin Point stands in nine metres of water.").names)
    ['lodin', 'point']
    """
    return _known.get((text, language)) or read_all((text,), language)[text]


def read_all(texts: Iterable[str], language: str = "en") -> dict[str, SentenceWords]:
    """Sentences of one language; those that are not known yet are read in one pass."""
    found = {text: _known.get((text, language)) for text in texts}
    new = [text for text, sentence in found.items() if sentence is None]
    for text, stems in zip(new, terms_of_each(new, language), strict=True):
        found[text] = _known[text, language] = SentenceWords(text, language, stems)
    if len(_known) > KEPT:
        for key in list(islice(_known, len(_known) - KEPT // 2)):  # the oldest
            _known.pop(key, None)
    return found  # type: ignore[return-value]  # each has been read by now


# --- rows of tables: which of them name the columns, and what is each cell of a row called? -------------------------

CELLS = " | "  # between the cells of a row


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split(CELLS)]


def table_header(chunk: Chunk) -> slice:
    """The rows that head a table, and what stands above them: all up to the first row that has cells.

    "Prices", "item | euros", "paper | 3" -> slice(0, 2)

    A further row heads it too where it repeats the names of two columns, as one does below cells that were merged:
    "item | code | price | ", "item | code | net | gross".
    """
    rows = [chunk.text[start:end] for start, end, *_ in chunk.sentences]
    for place, row in enumerate(rows):
        if CELLS in row:
            if _is_form(cells(row)) or is_form([cells(other) for other in rows[place:] if CELLS in other]):
                return slice(0, place)
            stop = place + 1
            while stop < len(rows) and _repeats(cells(row), cells(rows[stop])):
                stop += 1
            return slice(0, stop)
    return slice(0, 0)


def is_pair(chunk: Chunk, sentence: int) -> bool:
    """Is it a row of a form: a label with its value beside it? Then no column is left open."""
    rows = [chunk.text[start:end] for start, end, *_ in chunk.sentences]
    return CELLS in rows[sentence] and is_form([cells(row) for row in rows if CELLS in row])


def _is_form(row: Sequence[str]) -> bool:
    """Has it a label with its value beside it, as the rows of a form have? `Name: | Ada`; then it names no columns."""
    return any(cell.endswith(":") and value and not value.endswith(":") for cell, value in pairwise(row))


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
            names = _below(names, cells(chunk.text[first:last]))
    start, end, *_ = chunk.sentences[sentence]
    row_cells = cells(chunk.text[start:end])
    if len(names) != len(row_cells) or not all(any(letter.isalpha() for letter in name) for name in names if name):
        return []
    return [(name, cell) for name, cell in zip(names, row_cells, strict=True) if cell]


def _repeats(above: list[str], row: list[str]) -> bool:
    """Whether two columns have the same words in both."""
    same = [name for name, other in zip(above, row, strict=False) if name == other and any(map(str.isalpha, name))]
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


# --- do two questions ask the same? The guard of the semantic cache: in doubt they do not -----------------------------
# No cosine is safe alone: "Q2 revenue" and "Q3 revenue" lie nearer than most paraphrases. So after it, everything that
# carries meaning must be equal: the question word, every content word in its order, numbers and codes in theirs, units,
# negation, tense, modals, quantifiers, directions. What may differ is politeness, articles, contractions, singular and
# plural, "the price of the pump" for "the pump's price", and where a period stands.

THRESHOLDS = {"precision": 0.95, "recall": 0.85}  # DESIGN §5
# (words at most, cosine): one word weighs more in a short question.
ADAPTIVE = ((4, 0.95), (8, 0.92), (15, 0.9), (math.inf, 0.87))


def threshold(mode: str, question: str) -> float:
    """The cosine two questions need before the guard looks at them."""
    if mode in THRESHOLDS:
        return THRESHOLDS[mode]
    count = len(question.split())
    return next(cosine for most, cosine in ADAPTIVE if count <= most)


def same_question(text: str, other: str) -> bool:
    """Whether an answer to one is an answer to the other."""
    return bool(text.strip()) and meaning(text) == meaning(other)


Placed = tuple[int, str]  # (content words before it, word)
ANYWHERE = -1  # "in 2023" may stand at either end


@dataclass(frozen=True, slots=True)
class Meaning:
    """What of a question must be the same in another one for it to ask the same."""

    asks: str  # who, when, how many; "" for yes or no
    content: tuple[str, ...]  # in order, plural taken off
    figures: tuple[Placed, ...]  # numbers, codes, signs of money
    small: tuple[Placed, ...]  # negation, quantifiers, directions, modals
    tense: str


POLITE = re.compile(
    r"^(?:(?:hello|hi|hey|please|okay|so|well|thanks|thank you|and|also)[,.!]?\s+)*"
    r"(?:(?:(?:can|could|would) you )?(?:please )?(?:tell|show|give) (?:me|us)\s+|do you (?:happen to )?know\s+"
    r"|i wonder\s+|(?:i|we) (?:(?:would )?like|want|need|wish) to know\s+"
    r"|what do (?:the|my|our) documents say about\s+)?",
    re.IGNORECASE,
)
_LAST_POLITE = ("please", "thanks", "thank you", "kindly")
_TOKEN = re.compile(r"[$€£¥%°]|[^\W_]+(?:[.,:/'&+_-][^\W_]+)*|[+<>=≥≤*/]")
_FILLERS = word_set("words", "cache: fillers")
_PRESENT = frozenset(["is", "are", "am", "be", "do", "does", "s"])
_PAST = frozenset(["was", "were", "did"])
_PERFECT = frozenset(["has", "have", "been", "having"])
DOING = frozenset(["do", "does", "did"])
AUXILIARIES = _PRESENT | _PAST | _PERFECT | {"had"}
_MAIN_VERBS = DOING | _PERFECT - {"been"} | {"had", "be"}
_FUTURE = frozenset(["will", "shall", "going"])
MODALS = frozenset(["will", "would", "could", "may", "might"])
ARTICLES = frozenset(["the", "a", "an"])
QUESTION_WORDS = frozenset(["who", "whom", "whose", "what", "which", "when", "where", "why", "how"])
ASKING = QUESTION_WORDS | AUXILIARIES  # what questions begin with
# Small words that turn a question into another one: negation, quantifiers, conditions, modals, directions.
MEANT = (STOP_WORDS | word_set("words", "meant")) - AUXILIARIES - ARTICLES - QUESTION_WORDS - _FILLERS
_PERSONS = frozenset(["i", "we", "you", "he", "she", "they"])
_PERIOD_LINK = frozenset(["in", "for", "during", "of", "on", "at"])
_NUMERALS = {word: str(number) for word, number in NUMBER_WORDS.items()} | {"hundred": "100", "thousand": "1000"}
_PERIOD = re.compile(r"(?:19|20)\d\d|q[1-4]|h[12]|fy\d*")
_MONTHS = frozenset(map(str.lower, month_name[1:])) - {"may"}  # mostly a verb


@lru_cache(maxsize=KEPT)
def meaning(question: str) -> Meaning:
    """`Can you tell me the price of the TG-4?` -> what, (price,), ((0, tg-4),): a figure before all content words."""
    tokens = _tokens(question)
    asks, rest = _asked(tokens)
    tenses = {_tense_of(token) for token in rest} - {""}
    if not asks and not tenses and rest:
        asks = "what"  # "TG-4 warranty period" asks what it is
    content: list[str] = []
    small: list[Placed] = []
    figures: list[Placed] = []
    for place, token in enumerate(rest):
        is_verb = place == len(rest) - 1 and token in _MAIN_VERBS  # "What do auricles do?" is not "What are auricles?"
        if not is_verb and (_tense_of(token) or token in _FILLERS or token == "of"):
            continue
        before = rest[place - 1] if place else ""
        following = rest[place + 1] if place + 1 < len(rest) else ""
        if _is_figure(token) or _is_period(token):
            moves = _is_period(token) and (not before or before in _PERIOD_LINK or _is_period(before))
            figures.append((ANYWHERE if moves else len(content), _NUMERALS.get(token, token.replace(",", ""))))
        elif token not in MEANT:
            content.append(_singular(token))
        elif not (token in _PERIOD_LINK and _is_period(following)):
            small.append((len(content), token))
    if len(content) == 1:  # "Q3 revenue" is "revenue in Q3"
        figures = [(ANYWHERE if _is_period(token) else place, token) for place, token in figures]
    if asks == "how much" and content and content[-1] == "cost":
        asks = "what"  # how much does it cost: what does it cost
    return Meaning(asks, tuple(content), tuple(figures), _settled(small), "+".join(sorted(tenses - {"present"})))


def _settled(small: list[Placed]) -> tuple[Placed, ...]:
    """`can not I` is `can I not`."""
    for place in range(len(small) - 1):
        (first, token), (second, following) = small[place : place + 2]
        if token == "not" and following in _PERSONS and first == second:
            small[place : place + 2] = [(first, following), (first, token)]
    return tuple(small)


def _tokens(question: str) -> list[str]:
    text = fold(question).strip().rstrip("?.! ")
    text = POLITE.sub("", in_full(" ".join(text.split())).replace("cannot", "can not"))
    for polite in _LAST_POLITE:
        text = text.removesuffix(f" {polite}").rstrip(" ,")
    text = text.replace("how come ", "why ")
    text = text.removeprefix("if ").removeprefix("whether ").removeprefix("about ")
    tokens = []
    for found in (POSSESSIVE.sub("", token) for token in _TOKEN.findall(text)):
        # "sign-up" is "sign up", but "TG-4" and "2019-2020" are codes
        parts = found.replace("/", "-").split("-") if not any(letter.isdigit() for letter in found) else [found]
        tokens += [part for part in parts if part]
    return _of_turned(tokens)


def _of_turned(tokens: list[str]) -> list[str]:
    """`price of the pump` -> `pump price`: what "of" joins is read like what stands side by side."""
    for place in range(len(tokens) - 1, 0, -1):
        if tokens[place] != "of" or not _is_noun(tokens[place - 1]):
            continue
        start = place
        while start > 0 and _is_noun(tokens[start - 1]):
            start -= 1
        end = place + 1
        while end < len(tokens) and (_is_noun(tokens[end]) or tokens[end] in ARTICLES or _is_figure(tokens[end])):
            end += 1
        owner = [token for token in tokens[place + 1 : end] if token not in ARTICLES]
        is_amount = bool(owner) and not any(letter.isalpha() for letter in owner[0])  # "a deposit of $100"
        if owner and not is_amount and not _is_period(owner[0]):
            tokens = [*tokens[:start], *owner, *tokens[start:place], *tokens[end:]]
    return tokens


def _is_noun(token: str) -> bool:
    return token[0].isalpha() and not (
        token in MEANT or token in _FILLERS or token in QUESTION_WORDS or _tense_of(token)
    )


def _asked(tokens: list[str]) -> tuple[str, list[str]]:
    """The question word with what belongs to it, and the other tokens."""
    for place, token in enumerate(tokens):
        if token in QUESTION_WORDS:
            if token == "how" and tokens[place + 1 : place + 2] and _belongs_to_how(tokens[place + 1]):
                return f"how {tokens[place + 1]}", tokens[:place] + tokens[place + 2 :]
            named = {"which": "what", "whom": "who"}.get(token, token)
            return named, tokens[:place] + tokens[place + 1 :]
    return "", tokens


def _belongs_to_how(token: str) -> bool:
    """`How many`, `how deep`; not in "how does", "how can", "how it"."""
    return token in ("many", "much") or (_is_noun(token) and token not in STOP_WORDS)


def _tense_of(token: str) -> str:
    if token in _PRESENT:
        return "present"
    if token in _PAST:
        return "past"
    if token in _PERFECT:
        return "perfect"
    if token == "had":
        return "past perfect"
    return "future" if token in _FUTURE else ""


def _is_figure(token: str) -> bool:
    return any(letter.isdigit() for letter in token) or not token[0].isalnum() or token in _NUMERALS


def is_time(text: str) -> bool:
    """`the fiscal year 2021`, `Q3`: nothing but a time."""
    found = words(text)
    return bool(found) and all(_is_period(word) or word in ("the", "quarter") for word in found)


def _is_period(token: str) -> bool:
    return _PERIOD.fullmatch(token) is not None or token in _MONTHS


def _singular(word: str) -> str:
    """`companies` -> `company`, `pumps` -> `pump`; other endings change the meaning (employer, employee)."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and is_plural(word) else word


def is_plural(words: str) -> bool:
    return words.endswith("s") and not words.endswith(("ss", "us", "is"))


# --- what does a question want: the steps of something, several things, yes or no, what something is, or one thing? ---
# Learned from examples by `benchmarks/question_kinds.py --fit`: a multinomial logistic model over the small words of a
# question and the order in which they stand. What it is about does not matter, so that every other word is a blank, of
# which only the ending is kept: "how do i _ the _ of the _".

Wanted = Literal["one", "steps", "several", "polar", "definition"]
KINDS: tuple[Wanted, ...] = get_args(Wanted)
# Whether it is to be summed up, compared or reasoned about is learned alike, by the same command.
INTENTS: tuple[Intent, ...] = ("factual", "summary", "comparison", "analytical")
KINDS_FILE, INTENTS_FILE = ASSETS / "question_kinds.json", ASSETS / "intents.json"
LONGEST = 40  # words; a longer question tells a story, and its last words ask
SEVERAL = 0.35  # chance of wanting several things from which on a list that was found is given whole
NUMBER = 0.7  # chance from which a question is taken to ask for a number
LIKELY = 0.5  # chance from which on something is likelier so than not
UNLIKELY = 0.05  # chance below which nothing is made of something
SURE = 0.6  # chance from which on a question is taken to want something else than one thing
FRAMING = 1.0  # weight of a word for a summary from which on it says nothing of what is to be summed up

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|\?")
_ENDINGS = ("ing", "ed", "s")


class KindWeights(NamedTuple):
    """The words that are not blanks, and for each pattern of up to three of them a weight per kind."""

    words: frozenset[str]
    weights: Mapping[str, Sequence[float]]


@cache
def learned(file: Path = KINDS_FILE) -> KindWeights:
    found = json.loads(file.read_text(encoding="utf-8"))
    return KindWeights(frozenset(found["words"]), found["weights"])


def wants(question: str) -> Wanted:
    """What is wanted most likely; one thing, where that is not sure."""
    found = chances(question)
    best = max(KINDS, key=lambda kind: found[kind])
    return best if found[best] >= SURE else "one"


@lru_cache
def chances(question: str) -> Mapping[Wanted, float]:
    return dict(zip(KINDS, _shares(question, KINDS_FILE, len(KINDS)), strict=True))


@lru_cache
def intent_of(question: str) -> Intent:
    """The learned intent; factual, where it is not sure. Lists are told by `wants`."""
    found = dict(zip(INTENTS, _shares(question, INTENTS_FILE, len(INTENTS)), strict=True))
    best = max(INTENTS, key=found.__getitem__)
    return best if found[best] >= SURE else "factual"


def _shares(question: str, file: Path, kinds: int) -> list[float]:
    words, weights = learned(file)
    scores = [0.0] * kinds
    for pattern in set(patterns(question, words)):
        for place, weight in enumerate(weights.get(pattern, ())):
            scores[place] += weight
    return softmax(scores)


def softmax(scores: Sequence[float]) -> list[float]:
    """The chance of each, from its score."""
    most = max(scores)
    raised = [math.exp(score - most) for score in scores]
    return [score / sum(raised) for score in raised]


def without_frame(question: str) -> str:
    """Without the words that ask for a summary: "Give me the gist of the book" -> "Give me the of the book"."""
    weights, place = learned(INTENTS_FILE).weights, INTENTS.index("summary")
    spoken = {token for token in tokens(question) if weights.get(token, (0.0,) * len(INTENTS))[place] > FRAMING}
    return " ".join(word for word in question.split() if spoken.isdisjoint(tokens(word)))


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


def has_question_word(question: str) -> bool:
    """`And what was the total?`, but not "What about May?", which says nothing of what is asked."""
    found = [token for token in _tokens(question) if token not in _PERIOD_LINK]
    return not QUESTION_WORDS.isdisjoint(found) and found[1:2] != ["about"]


def asks_yes_or_no(question: str) -> bool:
    """`May I clean it with a brush?`"""
    return wants(question) == "polar" or (not meaning(question).asks and question.rstrip().endswith("?"))


def wanted(query: Query) -> Wanted:
    """What an answer is to be made of; a list only where the question asks for nothing more particular."""
    found = wants(query.fullest)
    if asks_yes_or_no(query.fullest):
        return "polar"
    if query.intent in ("summary", "comparison", "analytical"):
        return "one"
    is_list = query.intent == "list" or (chances(query.fullest)["several"] >= SEVERAL and query.number < NUMBER)
    if found in ("one", "definition", "several"):
        return "several" if is_list else "one" if found == "several" else found
    return found


# --- what does the program say itself around what documents say? In the language of the question --------------------


DEFAULT = "en"
FEWEST_WORDS = 2  # small words of a language by which it is told
SHARE = 0.25  # of the words of a question

_LETTERS = re.compile(r"[^\W\d_]+")


@cache
def _languages() -> Mapping[str, Mapping[str, Any]]:
    found = json.loads((ASSETS / "frames.json").read_text(encoding="utf-8"))["languages"]
    return {code: {**frames, "words": frozenset(frames["words"])} for code, frames in found.items()}


@lru_cache
def language_of(question: str) -> str:
    """The code of the language that it is asked in, "" where its words do not tell.

    A word that several languages have counts less for each; English wins a draw, for names are written everywhere.
    """
    tokens = _LETTERS.findall(question.lower())
    languages = _languages()
    holders = [[code for code, frames in languages.items() if token in frames["words"]] for token in tokens]
    worth = {code: sum(1.0 / len(codes) for codes in holders if code in codes) for code in languages}
    best = max(worth, key=lambda code: (worth[code], code == DEFAULT))
    count = sum(best in codes for codes in holders)
    return best if count >= max(FEWEST_WORDS, SHARE * len(tokens)) else ""


def said(name: str, question: str) -> str:
    """The frame of this name in the language of the question; in English where there is none."""
    return str(_languages()[language_of(question) or DEFAULT][name])


def names_several(text: str) -> bool:
    """`Germany and Austria`; in every language, for it is the document's."""
    joints = {frames["last"] for frames in _languages().values()}
    return any(sign in text for sign in ",;") or not joints.isdisjoint(text.split())


def is_missing(content: str) -> bool:
    """Does it say, in any language, that the documents do not say it?"""
    return content.startswith(tuple(frames["missing"] for frames in _languages().values()))


def other_language(question: str, written: Collection[str]) -> str:
    """What is said where a question is asked in another language than the documents are written in; "" elsewhere."""
    asked = language_of(question)
    if not asked or not written or asked in {code or DEFAULT for code in written}:
        return ""
    frames = _languages()[asked]
    names = list(dict.fromkeys(frames["languages"].get(code or DEFAULT, code) for code in sorted(written)))
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {frames['last']} {names[-1]}"
    return str(frames["other"].format(asked=frames["languages"][asked], written=listed))


def log_odds(chance: float) -> float:
    """Never endless: nothing is surer than 999 to one."""
    chance = min(max(chance, 0.001), 0.999)
    return math.log(chance / (1.0 - chance))
