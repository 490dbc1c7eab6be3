"""Do two questions ask the same? The guard of the semantic cache: in doubt they do not. Pure.

No cosine is safe alone: "Q2 revenue" and "Q3 revenue" lie nearer than most paraphrases. So after it, everything that
carries meaning must be equal: the question word, every content word in its order, numbers and codes in theirs, units,
negation, tense, modals, quantifiers, directions. What may differ is politeness, articles, contractions, singular and
plural, "the price of the pump" for "the pump's price", and where a period stands.

>>> same_question("What is the price of the TG-4?", "Can you tell me the TG-4's price please")
True
>>> same_question("Did Acme sue Borealis?", "Did Borealis sue Acme?")
False
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from refdesk.text import fold, word_set

THRESHOLDS = {"precision": 0.95, "recall": 0.85}  # DESIGN §5
# (words at most, cosine): one word weighs more in a short question.
ADAPTIVE = ((4, 0.95), (8, 0.92), (15, 0.9))
LONG = 0.87


def threshold(mode: str, question: str) -> float:
    """The cosine two questions need before the guard looks at them."""
    if mode in THRESHOLDS:
        return THRESHOLDS[mode]
    count = len(question.split())
    return next((cosine for most, cosine in ADAPTIVE if count <= most), LONG)


def same_question(one: str, other: str) -> bool:
    """Whether an answer to one is an answer to the other."""
    return bool(one.strip()) and meaning(one) == meaning(other)


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


_POLITE = re.compile(
    r"^(?:(?:hello|hi|hey|please|ok|okay|so|well|thanks|thank you|and|also)[,.!]?\s+)*"
    r"(?:(?:can|could|would|will) you (?:please |kindly )?(?:tell|show|give|explain to) (?:me|us)\s+"
    r"|(?:please )?(?:tell|show|give) (?:me|us)\s+|do you (?:happen to )?know\s+|i(?:'m| am) wondering\s+|i wonder\s+"
    r"|(?:i|we) (?:want|need|would like|'d like|wish) to know\s+|what do (?:the|my|our) documents say about\s+)?"
)
_LAST_POLITE = re.compile(r"(?<![\s,])[\s,]+(?:please|thanks|thank you|kindly)$")
_CONTRACTED = (
    (re.compile(r"\b(can)(?:no|')?t\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bshan't\b"), "shall not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\b(what|who|where|when|how|that|there|it|he|she)'s\b"), r"\1 is"),
    (re.compile(r"\b(what|who|where|when|how|they|we|you)'re\b"), r"\1 are"),
    (re.compile(r"\b(what|who|where|when|how|they|we|you|i|it|he|she)'ll\b"), r"\1 will"),
    (re.compile(r"\b(they|we|you|i)'ve\b"), r"\1 have"),
)
_TOKEN = re.compile(r"[$€£¥%°]|[^\W_]+(?:[.,:/'&+_-][^\W_]+)*|[+<>=≥≤*/]")
_FILLERS = word_set("words", "cache: fillers")
_PRESENT = frozenset(["is", "are", "am", "be", "do", "does", "s"])
_PAST = frozenset(["was", "were", "did"])
_PERFECT = frozenset(["has", "have", "been", "having"])
_MAIN_VERBS = frozenset(["do", "does", "did", "have", "has", "had", "having", "be"])
_FUTURE = frozenset(["will", "shall", "going"])
_WH = frozenset(["who", "whom", "whose", "what", "which", "when", "where", "why", "how"])
_HOW = word_set("words", "cache: after how")
# Words so small that other lists drop them, and that turn a question into another one.
_MEANT = word_set("words", "small and meant")
_PERSONS = frozenset(["i", "we", "you", "he", "she", "they"])
_PERIOD_LINK = frozenset(["in", "for", "during", "of", "on", "at"])
# A text that begins with one of these is an order, not the name of what is wanted.
_ORDERS = word_set("words", "cache: orders")
_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety hundred"
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_UNITS.split())}
_NUMBER_WORDS |= {word: str(number) for number, word in zip(range(30, 101, 10), _TENS.split(), strict=True)}
_NUMBER_WORDS |= {"thousand": "1000"}
_PERIOD = re.compile(r"(?:19|20)\d\d|q[1-4]|h[12]|fy\d*")
_MONTHS = word_set("words", "cache: months")


@lru_cache(maxsize=4096)
def meaning(question: str) -> Meaning:
    """`Can you tell me the price of the TG-4?` -> what, (price,), ((0, tg-4),): a figure before all content words."""
    tokens = _tokens(question)
    asks, rest = _asked(tokens)
    tenses = {_tense_of(token) for token in rest} - {""}
    if not asks and not tenses and rest and rest[0] not in _ORDERS:
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
            figures.append((ANYWHERE if moves else len(content), _NUMBER_WORDS.get(token, token.replace(",", ""))))
        elif token not in _MEANT:
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
    for pattern, full in _CONTRACTED:
        text = pattern.sub(full, text)
    text = _LAST_POLITE.sub("", _POLITE.sub("", text))
    text = re.sub(r"\bhow come\b", "why", text)
    text = re.sub(r"(?<=\w)'s\b|(?<=s)'(?=\s|$)", "", text)
    text = re.sub(r"^(?:if|whether|about) ", "", text)
    tokens = []
    for found in _TOKEN.findall(text):
        # "sign-up" is "sign up", but "TG-4" and "2019-2020" are codes
        parts = re.split(r"[-/]", found) if not any(letter.isdigit() for letter in found) else [found]
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
        while end < len(tokens) and (
            _is_noun(tokens[end]) or tokens[end] in ("the", "a", "an") or _is_figure(tokens[end])
        ):
            end += 1
        owner = [token for token in tokens[place + 1 : end] if token not in ("the", "a", "an")]
        is_amount = bool(owner) and not any(letter.isalpha() for letter in owner[0])  # "a deposit of $100"
        if owner and not is_amount and not _is_period(owner[0]):
            tokens = [*tokens[:start], *owner, *tokens[start:place], *tokens[end:]]
    return tokens


def _is_noun(token: str) -> bool:
    return token[0].isalpha() and not (token in _MEANT or token in _FILLERS or token in _WH or _tense_of(token))


def _asked(tokens: list[str]) -> tuple[str, list[str]]:
    """The question word with what belongs to it, and the other tokens."""
    for place, token in enumerate(tokens):
        if token in _WH:
            if token == "how" and tokens[place + 1 : place + 2] and tokens[place + 1] in _HOW:
                return f"how {tokens[place + 1]}", tokens[:place] + tokens[place + 2 :]
            named = {"which": "what", "whom": "who"}.get(token, token)
            return named, tokens[:place] + tokens[place + 1 :]
    return "", tokens


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
    return any(letter.isdigit() for letter in token) or not token[0].isalnum() or token in _NUMBER_WORDS


def _is_period(token: str) -> bool:
    return _PERIOD.fullmatch(token) is not None or token in _MONTHS


def _singular(word: str) -> str:
    """`companies` -> `company`, `pumps` -> `pump`; other endings change the meaning (employer, employee)."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
