"""Describes a chunk: kind, summary, keywords and entity candidates, without a language model. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log, sqrt

from refdesk.ingest.split import shorten
from refdesk.text import CJK_CLASS, STOP_WORDS, is_cjk
from refdesk.types import Chunk, Kind, Range

# Is this chunk a glossary, a table of contents or a list of credits? Those are ranked lower.

_TOC_HEADING = re.compile(
    r"(?:table of )?contents|(?:list|index) of (?:tables|figures|exhibits)|inhalt(?:sverzeichnis)?|table des matières"
    r"|sommaire|índice|indice|目录|目錄|目次"
)
_GLOSSARY_HEADING = re.compile(
    r"(?:glossary|definitions|(?:list of )?(?:abbreviations|acronyms)|terminology|nomenclature|glossar|glossaire"
    r"|glosario|abkürzungen|defined terms|terms and definitions)\b"
)
_CREDITS_HEADING = re.compile(
    r"(?:(?:image|photo|photography|picture|illustration)s? credits?|credits|acknowledge?ments?|colophon|imprint"
    r"|impressum|copyright|picture sources)\b"
)
_NUMBERING = re.compile(r"^[\s\dIVX.)§–—-]*")
_LEADER = re.compile(r"(?<![._…])(?<!\. )(?:\.{4,}|(?:\. ){2,}\.|…{2,}|_{4,})\s*(?:\d{1,4}|[ivxl]{1,6})?$")
_ENDS_IN_PAGE = re.compile(r"[^\W\d_].*\s(\d{1,4})$")
_ENTRY = re.compile(
    r"\W{0,3}[^\W\d_][^:—–|]{0,40}(?::|\s[—–-])\s+(?:[^\s\d]++\s++){3}\S"
)  # no digits: not "Address: 1 Main St"
# Under such a heading less is enough: a cell, a quoted term, "means".
_TERM = re.compile(
    rf"{_ENTRY.pattern}|[^|]{{1,80}}\s\|\s|[“\"„«‘']\w[^”\"“»’']{{0,60}}[”\"“»’']\s"
    r"|.{1,80}\b(?:means?|refers? to|stands for)\b"
)
_CREDIT = re.compile(
    r"©|\(c\)\s*\d{4}|\ball rights reserved|\bphoto(?:graph)?s?(?: by|:| ©| courtesy)|\bimages? (?:credit|by|courtesy)"
    r"|\bcourtesy of\b|\bisbn\b|\btypeset (?:in|by)|\bprinted (?:and bound )?in\b|\bcover (?:design|image|photo)"
    r"|\bgetty images\b|\bshutterstock\b|\bistock\b|\bunsplash\b",
    re.IGNORECASE,
)
# Looked for before the expressions, which are fifty times as slow.
_CREDIT_WORDS = ("©", "(c)", "rights", "photo", "image", "courtesy", "isbn", "typeset", "printed", "cover", "stock",
                 "unsplash")  # fmt: skip
_LEADER_MARKS = ("....", ". . .", "……", "____")


def kind_of(chunk: Chunk) -> Kind:
    """The kind of a chunk by its heading and the shape of its lines.

    "1 Introduction ..... 3", "2 Method ..... 7", "3 Results ..... 9" -> toc
    """
    if chunk.kind not in ("text", "list", "table"):
        return chunk.kind
    heading = chunk.heading_path[-1].strip().casefold() if chunk.heading_path else ""
    heading = _NUMBERING.sub("", heading, count=1).rstrip(":. ")
    body = [line.strip() for line in chunk.text.split("\n") if line.strip()]
    # A heading alone proves nothing: what follows "Contents" may be the whole book when its headings were not seen.
    if _is_contents(chunk.text, body, chunk.kind) or (_TOC_HEADING.fullmatch(heading) and _is_terse(body)):
        return "toc"
    if _share(_ENTRY.match, body) >= 0.7 or (
        _GLOSSARY_HEADING.fullmatch(heading) and _share(_TERM.match, body, least=2) >= 0.4
    ):
        return "glossary"
    if _CREDITS_HEADING.fullmatch(heading) or _gives_credit(chunk):
        return "credits"
    return chunk.kind


def _gives_credit(chunk: Chunk) -> bool:
    """Does at least half of the sentences name a photographer, a printer or an owner of rights?"""
    lowered = chunk.text.lower()
    if not any(word in lowered for word in _CREDIT_WORDS):
        return False
    parts = [chunk.text[part.start : part.end][:400] for part in chunk.sentences]
    return sum(1 for part in parts if _CREDIT.search(part)) >= max(1, 0.5 * len(parts))


def _share(begins: Callable[[str], object], lines: list[str], *, least: int = 4) -> float:
    """The share of lines that begin so; fewer than `least` lines show no shape."""
    if len(lines) < least:
        return 0.0
    return sum(1 for line in lines if begins(line[:400])) / len(lines)


def _is_terse(lines: list[str]) -> bool:
    return sum(1 for line in lines if len(line) <= 120 and not line.endswith(".")) >= 0.6 * len(lines)


def _is_contents(text: str, lines: list[str], kind: Kind) -> bool:
    if len(lines) < 3:
        return False
    has_leaders = any(mark in text for mark in _LEADER_MARKS)
    if has_leaders and sum(1 for line in lines if _LEADER.search(line[-60:])) >= 0.5 * len(lines):
        return True
    if kind == "table" or len(lines) < 5:
        return False  # the last column of a table is a number too
    pages = [int(match.group(1)) for line in lines if (match := _ENDS_IN_PAGE.match(line[:200]))]
    return len(pages) >= 0.7 * len(lines) and pages == sorted(pages) and pages[0] < pages[-1]


# Which names, amounts, dates and codes does a text mention? Candidates by shape alone.

MOST = 20  # entities kept of one chunk

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
_SCALE = r"(?:\s?(?:thousand|million|billion|trillion|bn|mn|[MBK])\b)?"
_NUMBER = r"\d(?:[\d,.]{0,30}\d)?"
_CAPITAL = r"(?:(?:[A-Z]\.){2,}|[A-ZÀ-ÖØ-ÞĀ-Ž][\w’'&-]*)"
_PLACE = r"(?:Item|Section|Article|Rule|Form|Part|Exhibit|Note|Table|Figure)\s\d"

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
    rf"|(?P<name>\b{_CAPITAL}(?:[ \n](?:(?:of|the|de|van|von|der|den|la|for|and|&)\s){{0,2}}"
    rf"(?!{_PLACE}){_CAPITAL}){{0,6}}))"
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
    if "@" in text or "://" in text or "www." in text:
        counts.update(address.rstrip(".,;:") for address in _ADDRESS.findall(text))
        text = _ADDRESS.sub(lambda match: " " * len(match.group()), text)
    for part in (part for start, end in sentences for part in text[start:end].split("|")):
        letter = _FIRST_LETTER.search(part)
        begin, position = letter.start() if letter else 0, 0
        while match := _ENTITY.search(part, position):
            position, found = match.end(), match.group()
            if match.lastgroup != "name":
                counts[" ".join(found.split()).rstrip(".,:-")] += 1
                continue
            first = found.split(None, 1)[0]
            if first.lower() in STOP_WORDS and len(first) < len(found):
                position = match.start() + len(first)  # "This Form 10-Q": look again behind "This"
            else:
                counts.update(_names(found, match.start() == begin, is_common))
    return tuple(entity for entity, _ in counts.most_common(MOST))


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


SUMMARY_LENGTH = 200  # characters
SHORT_SUMMARY = 90  # a sentence shorter than this leaves room for a second
FIRST = 1.15  # × what a first sentence scores: it names the topic
KEYWORDS = 8
LONGEST_REPEAT = 3  # sentences at the end of a chunk that the next one may begin with
# Not on Snowball's list, and no keywords either.
_WEAK = frozenset((
    "can", "will", "may", "might", "must", "shall", "also", "however", "one", "two", "many", "much", "e.g", "i.e",
    "etc", "per", "via", "upon", "within", "among", "without", "like", "see", "us", "use",
))  # fmt: skip
# Two CJK letters stand for a word, as in the index.
_WORD = re.compile(rf"[{CJK_CLASS}]+|[^\W_{CJK_CLASS}]+(?:[-’'&.][^\W_{CJK_CLASS}]+)*")


@dataclass(frozen=True, slots=True)
class _Line:
    """A sentence, row or heading of a chunk: its text in one line, its words as written and in small letters."""

    text: str
    surfaces: list[str]
    words: list[str]

    @staticmethod
    def of(text: str) -> _Line:
        surfaces: list[str] = []
        for word in _WORD.findall(text):
            is_pairs = len(word) > 2 and is_cjk(word[0])
            surfaces.extend([word[i : i + 2] for i in range(len(word) - 1)] if is_pairs else [word])
        return _Line(" ".join(text.split()), surfaces, [surface.lower() for surface in surfaces])


def enrich(chunks: Sequence[Chunk], *, language: str) -> list[Chunk]:
    """The same chunks with kind, summary, keywords and entities; rarity is judged inside this document.

    `language` is an ISO 639-1 code ("" for unknown): English stop words are used for "en" and "", in other languages
    what stands in most chunks counts as one.
    """
    lines = [[_Line.of(chunk.text[part.start : part.end]) for part in chunk.sentences] for chunk in chunks]
    frequency = Counter(word for found in lines for word in {word for line in found for word in line.words})
    pairs = Counter(pair for found in lines for line in found for pair in pairwise(line.words))
    forms = Counter(surface for found in lines for line in found for surface in line.surfaces)
    stops = _stop_words(frequency, len(chunks), language)
    # + 2: a word seen once in a long document is an oddity, not three times as telling as one seen in five chunks.
    rarity = {word: 0.0 if word in stops else log(1 + len(chunks) / (n + 2)) for word, n in frequency.items()}

    def is_common(word: str) -> bool:
        lowered = word.lower()
        return lowered in stops or forms[lowered] > forms[word] // 4

    enriched = []
    repeated: frozenset[str] = frozenset()
    for chunk, found in zip(chunks, lines, strict=True):
        # A sentence repeated from the chunk before sums up that one.
        new = [line for line in found if line.text not in repeated] or found
        repeated = frozenset(line.text for line in found[-LONGEST_REPEAT:])
        enriched.append(
            replace(
                chunk,
                kind=kind_of(chunk),
                summary=_summary(chunk, new, Counter(word for line in found for word in line.words), rarity),
                keywords=_keywords(found, rarity, pairs),
                entities=entities_of(chunk.text, [(part.start, part.end) for part in chunk.sentences], is_common),
            )
        )
    return enriched


def _stop_words(frequency: Counter[str], chunks: int, language: str) -> frozenset[str]:
    if language in ("", "en"):
        return STOP_WORDS | _WEAK
    # A function word of any language stands in most chunks of 200 tokens; a topic word hardly in 60 % of many.
    everywhere = {word for word, count in frequency.items() if chunks >= 5 and count > 0.6 * chunks}
    return frozenset(everywhere | {word for word in frequency if len(word) <= 2 and not is_cjk(word[0])})


def _summary(chunk: Chunk, new: Sequence[_Line], counts: Counter[str], rarity: dict[str, float]) -> str:
    """One or two sentences of the chunk, in their order, in at most 200 characters; a table's header and row count."""
    lines = [line for line in new if line.text not in chunk.heading_path]
    texts = [line.text for line in lines]
    if chunk.kind == "table" and texts:
        return _table_summary(texts)
    if chunk.kind == "code" or not texts:
        return shorten(texts[0] if texts else " ".join(chunk.text.split()), SUMMARY_LENGTH)
    scores = [_score(line, counts, rarity) * (FIRST if position == 0 else 1) for position, line in enumerate(lines)]
    order = sorted(range(len(texts)), key=lambda index: -scores[index])
    best = order[0]
    if len(texts[best]) > SUMMARY_LENGTH:
        # A shorter sentence nearly as good beats a long one cut off.
        best = next((i for i in order if len(texts[i]) <= SUMMARY_LENGTH and scores[i] > 0.7 * scores[best]), best)
    chosen = [best]
    if len(texts[best]) < SHORT_SUMMARY:
        room = SUMMARY_LENGTH - len(texts[best]) - 1
        chosen += [i for i in order if texts[i] != texts[best] and 20 <= len(texts[i]) <= room][:1]
    return shorten(" ".join(texts[index] for index in sorted(chosen)), SUMMARY_LENGTH)


def _score(line: _Line, counts: Counter[str], rarity: dict[str, float]) -> float:
    """How much of the chunk's weight a sentence carries, for its length; one repeated name does not decide alone."""
    terms = dict.fromkeys(line.words)  # in order: sums of floats depend on it
    total = sum(rarity[term] * counts[term] / (counts[term] + 1.5) for term in terms)
    return total / sqrt(len(line.words) + 6) * (1 if len(line.words) >= 4 else 0.1)


def _table_summary(texts: Sequence[str]) -> str:
    """ "Table 2 Costs", "item | price", "paper | 3" -> "Table 2 Costs: item | price (1 row)"."""
    first = next((index for index, text in enumerate(texts) if " | " in text), 0)
    count = sum(1 for text in texts[first + 1 :] if " | " in text) or len(texts) - first - 1
    ending = f" ({count} {'row' if count == 1 else 'rows'})"
    lead = ": ".join([" ".join(texts[:first]).rstrip(":. "), texts[first]] if first else [texts[0]])
    return shorten(lead, SUMMARY_LENGTH - len(ending)) + ending


def _keywords(lines: Sequence[_Line], rarity: dict[str, float], pairs: Counter[tuple[str, str]]) -> tuple[str, ...]:
    """The words and frequent pairs of words that are frequent here and rare elsewhere, as they are written."""
    shown: dict[tuple[str, ...], str] = {}  # in small letters where it is written so anywhere in the chunk
    counts: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        for surface, word in zip(line.surfaces, line.words, strict=True):
            if rarity[word] and len(word) > (1 if is_cjk(word[0]) else 2) and not word[0].isdigit():
                counts[word,] += 1
                shown[word,] = surface if surface == word else shown.get((word,), surface)
        for surfaces, pair in zip(pairwise(line.surfaces), pairwise(line.words), strict=True):
            phrase = " ".join(surfaces)
            if pairs[pair] >= 3 and (pair[0],) in counts and (pair[1],) in counts and phrase in line.text:
                counts[pair] += 1
                shown.setdefault(pair, phrase)
    weight = {1: 1.0, 2: 0.6}  # a pair has the rarity of both its words
    scores = {
        key: sum(map(rarity.__getitem__, key)) * weight[len(key)] * (1 + log(count)) for key, count in counts.items()
    }
    chosen: list[str] = []
    used: set[str] = set()
    for key in sorted(scores, key=lambda key: -scores[key]):
        if used.isdisjoint(key) and len(chosen) < KEYWORDS:
            used.update(key)
            chosen.append(shown[key])
    return tuple(chosen)
