"""Which names, amounts, dates and codes does a text mention? Candidates by shape alone. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from refdesk.text import STOP_WORDS
from refdesk.types import Range

MOST = 20  # entities kept of one chunk

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
_SCALE = r"(?:\s?(?:thousand|million|billion|trillion|bn|mn|[MBK])\b)?"
_NUMBER = r"\d(?:[\d,.]{0,30}\d)?"
_CAPITAL = r"(?:(?:[A-Z]\.){2,}|[A-ZÀ-ÖØ-ÞĀ-Ž][\w’'&-]*)"
_PLACE = r"(?:Item|Section|Article|Rule|Form|Part|Exhibit|Note|Table|Figure)\s\d"
_GAP = r"(?:\x20|\n(?!\n))"  # a name goes on after a line break, not in the next paragraph

# One pass over the text; the first alternative that matches at a place wins, so the more telling shapes come first.
_ENTITY = re.compile(
    rf"(?=[\d$€£¥₹A-ZÀ-Ž])(?:(?P<money>(?:(?:US|A|C|HK)?\$|[€£¥₹]|(?:USD|EUR|GBP|CHF|JPY)\s)\s?{_NUMBER}{_SCALE})"
    rf"|(?P<percent>\b{_NUMBER}\s?(?:%|per ?cent\b|percent\b))"
    rf"|(?P<date>\b\d{{4}}-\d\d-\d\d\b|\b{_MONTH}\.?\s\d{{1,2}}(?:st|nd|rd|th)?,?\s\d{{4}}\b"
    rf"|\b\d{{1,2}}\.?\s{_MONTH}\.?,?\s\d{{4}}\b|\b{_MONTH}\s\d{{4}}\b|\bQ[1-4](?:\s?(?:FY\s?)?'?\d{{2,4}})?\b"
    rf"|\bFY\s?\d{{2,4}}\b|\b(?:1[5-9]|20)\d\d\b(?![.,]\d))"
    rf"|(?P<code>\b(?:ISO|IEC|DIN|EN|RFC|IFRS|IAS|ASC|ASU|SFAS|IEEE|ASTM|NIST)(?:[-/ ][A-Z]{{2,4}})?[- ]?\d[\w.:-]*\b"
    rf"|\b{_PLACE}[\w.-]*(?:\([a-z0-9]{{1,3}}\))*"
    rf"|\b[A-Z]{{1,5}}-?\d{{2,6}}[A-Z]?\b)"
    rf"|(?P<name>\b{_CAPITAL}(?:{_GAP}(?:(?:of|the|de|van|von|der|den|la|for|and|&)\s){{0,2}}(?!{_PLACE}){_CAPITAL}){{0,6}}))"
)
_ADDRESS = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,5}|(?:https?://|www\.)[^\s<>\"'|)\]]{3,300}"
)
_ROMAN = re.compile(r"[IVXLC]+")
_FIRST_LETTER = re.compile(r"\w")


def entities_of(text: str, sentences: Sequence[Range], is_common: Callable[[str], bool]) -> tuple[str, ...]:
    """The entity candidates, the most frequent first, then in order of appearance.

    A capital at the start of a sentence (or of a table's cell) proves nothing: there a word `is_common` (seen in small
    letters elsewhere in the document) is left off the name.

    "The firm Acme Corp paid $3 million in Q2 2023." -> ("Acme Corp", "$3 million", "Q2 2023")
    """
    counts: Counter[str] = Counter()
    starts = _starts(text, sentences)
    if "@" in text or "://" in text or "www." in text:
        counts.update(address.rstrip(".,;:") for address in _ADDRESS.findall(text))
        text = _ADDRESS.sub(lambda match: " " * len(match.group()), text)
    position = 0
    while match := _ENTITY.search(text, position):
        position = match.end()
        found = match.group()
        if match.lastgroup == "name":
            first = found.split(None, 1)[0]
            if first.lower() in STOP_WORDS and len(first) < len(found):
                position = match.start() + len(first)  # "This Form 10-Q": look again behind "This"
                continue
            found, position = _until_next_start(found, match.start(), starts)
            for name in _names(found, match.start() in starts, is_common):
                counts[name] += 1
        else:
            counts[" ".join(found.split()).rstrip(".,:-")] += 1
    return tuple(entity for entity, _ in counts.most_common(MOST))


def _until_next_start(found: str, begin: int, starts: set[int]) -> tuple[str, int]:
    """A name does not reach into the next row or sentence; also says where to go on."""
    offset = found.find("\n")
    while offset >= 0:
        if begin + offset + 1 in starts:
            return found[:offset], begin + offset
        offset = found.find("\n", offset + 1)
    return found, begin + len(found)


def _starts(text: str, sentences: Sequence[Range]) -> set[int]:
    """Where the first word of a sentence or of a cell stands."""
    starts = set()
    for start, end in sentences:
        position = start
        while 0 <= position < end:
            letter = _FIRST_LETTER.search(text, position, end)
            if letter:
                starts.add(letter.start())
            bar = text.find("|", position, end)
            position = bar + 1 if bar >= 0 else -1
    return starts


def _names(found: str, at_start: bool, is_common: Callable[[str], bool]) -> list[str]:
    """The names in a run of capitalised words, without ordinary words around them."""
    words = found.split()
    if len(words) == 3 and words[1] == "and":  # "Lyrica and Viagra", but "Securities and Exchange Commission"
        return _names(words[0], at_start, is_common) + _names(words[2], False, is_common)
    if at_start and is_common(words[0]):
        words = words[1:]
        if all(word == "&" or is_common(word) for word in words):
            return []  # "Three Months Ended" at the head of a column
        at_start = False
    while words and (words[0].lower() in STOP_WORDS or words[0] == "&"):
        words = words[1:]
    while words and (words[-1].lower() in STOP_WORDS or words[-1] == "&"):
        words.pop()
    if not words or (len(words) > 1 and all(word.isupper() for word in words)):
        return []  # nothing left, or a line in capitals
    if len(words) == 1 and not _is_single(words[0], at_start, is_common):
        return []
    return [_bare(" ".join(words)).rstrip("’'-&")]


def _bare(name: str) -> str:
    return name.removesuffix("’s").removesuffix("'s")


def _is_single(word: str, at_start: bool, is_common: Callable[[str], bool]) -> bool:
    """An acronym, or a capitalised word inside a sentence that the document never writes small."""
    bare = _bare(word)
    if len(bare) < 2 or not bare[0].isalpha():
        return False
    if "." in bare:
        return True  # U.S.
    if bare.isupper():
        return 2 <= len(bare) <= 6 and not _ROMAN.fullmatch(bare)
    return len(bare) > 2 and not at_start and not is_common(bare)
