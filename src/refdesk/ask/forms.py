"""Does a question ask for something that is known by its form: a numbered caption, what a short form stands for? And
what does it call a document by? Pure.

>>> captions("What does Figure 5 show?")("Fig. 5. Langmuir isotherm of the coated samples.")
True
>>> short_forms("What does DSP stand for?")("The digital signal processor (DSP) is cooled by air.")
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from refdesk.terms import QUERY_STOP_WORDS, called_by, query_terms, words
from refdesk.text import STOP_WORDS
from refdesk.types import Chunk, Hit

MOST_BETWEEN = 1  # words that say something between the question word and the number: "What is shown in Table 2?"
SHORTEST_ROOT = 5  # letters of a stem that another one may go on from: "recov", "recoveri"
JOINTS = " -‐‑–()+"  # around the groups of a number that is dialled, or printed on a cover
MOST_SMALL = 2  # words of an expansion that give no letter: "Bureau of Meteorology (BM)"

_NUMBERED = r"(fig|tab|chart|exhibit|listing|abb)[a-z]*\.?\s*(\d{1,3}[a-z]?)(?![\w.]*\d)"
_ASKED = re.compile(rf"(what|which)\b(.*?)\b{_NUMBERED}", re.IGNORECASE)
_CAPTION = re.compile(rf"{_NUMBERED}(?:\s*[.:–—|)-]|(?-i:\s+[^\Wa-z]))\s*\S", re.IGNORECASE)  # not "Figure 5 shows"
_SHORT_FORM = re.compile(
    r"(?i:what (?:do|does|did) (?:the )?)[\"'“]?([A-Z][A-Za-z&]{0,8}[A-Z])[\"'”]? \w+(?: for)?(?: in\b.*)?\??\s*\Z"
)


def captions(question: str) -> Callable[[str], bool] | None:
    """Whether a sentence is the caption that is asked for; None where none is."""
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


def as_called(question: str, hit: Hit) -> Chunk:
    """The chunk under what the question calls its document by, where its title does not say it: of a file
    `receipt_retail.pdf`, "Techmart" is the title, and no reader knows that its "TOTAL" is that of the retail receipt.
    """
    known = {*words(hit.chunk.context), *QUERY_STOP_WORDS}
    called = [word for word in called_by(words(question), hit.document.name) if word not in known and word.isalpha()]
    return replace(hit.chunk, context=f"{' '.join(called)} › {hit.chunk.context}") if called else hit.chunk


def without_names(question: str, files: Sequence[str]) -> str:
    """The question without what these files are called by; "" where it names none of them, or asks for nothing else.

    >>> without_names("How many stores does Best Buy have?", ["BESTBUY_2023_10K.pdf"])
    'How many stores does have?'
    """
    asked = words(question)
    named = {word for file in files for word in called_by(asked, file)}
    kept = [word for word in question.split() if named.isdisjoint(words(word))]
    return " ".join(kept) if named and query_terms(" ".join(kept)) else ""


def whole_number(text: str, start: int, end: int) -> str:
    """What was found, or the number in groups that it is the greater part of.

    Two groups are a range as well, and figures side by side are several, where nothing but a blank is between them.

    >>> whole_number("Fax: (202) 493-2251.", 11, 19)
    '(202) 493-2251'
    """
    left, right = start, end
    while left > 0 and (text[left - 1].isdigit() or text[left - 1] in JOINTS):
        left -= 1
    while right < len(text) and (text[right].isdigit() or text[right] in JOINTS):
        right += 1
    number, found = text[left:right].lstrip(JOINTS[:4] + ")").rstrip(JOINTS[:4] + "(+"), text[start:end]
    number = number if "(" in number else number.rstrip(")")
    digits, groups = ["".join(char if char.isdigit() else " " for char in part).split() for part in (found, number)]
    is_one = len(groups) > 2 and number.count("(") == number.count(")") and (" " not in number or number[0] in "(+")
    return number if is_one and 2 * len("".join(digits)) > len("".join(groups)) else found


def is_called_after(heading: str, question: str) -> bool:
    """Is a section called after what the question asks how to do?

    >>> is_called_after("6 Recovery", "How do I recover the buoy?")
    True
    >>> is_called_after("The buoy", "How do I recover the buoy?")
    False
    """
    named = [stem for stem in query_terms(heading) if not stem.isdigit()]
    asked = query_terms(question)
    if not named or not asked:
        return False
    tells_what_is_done = any(_have_one_root(stem, asked[0]) for stem in named)
    return tells_what_is_done and all(any(_have_one_root(stem, other) for other in asked) for stem in named)


def _have_one_root(stem: str, other: str) -> bool:
    short, long = sorted((stem, other), key=len)
    return short == long or (len(short) >= SHORTEST_ROOT and long.startswith(short))
