"""What is this chunk about? Kind, summary, keywords and entity candidates, without a language model. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

from refdesk.ingest.split import shorten
from refdesk.text import CJK_CLASS, STOP_WORDS, is_cjk
from refdesk.types import Chunk, Kind, Range, Sentence

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


SUMMARY_LENGTH = 200  # characters
SHORT_SUMMARY = 90  # a sentence shorter than this leaves room for a second
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
class _ChunkWords:
    """The words of one chunk: as written, folded to lower case, and where each begins."""

    surfaces: list[str]
    lowered: list[str]
    starts: list[int]


def enrich(chunks: Sequence[Chunk], *, title: str, language: str) -> list[Chunk]:
    """The same chunks with kind, summary, keywords and entities; rarity is judged inside this document.

    `language` is an ISO 639-1 code ("" for unknown): English stop words are used for "en" and "", in other languages
    what stands in most chunks counts as one.
    """
    words = [_words(chunk.text) for chunk in chunks]
    frequency: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    forms: Counter[str] = Counter()
    for found in words:
        frequency.update(set(found.lowered))
        pairs.update(zip(found.lowered, found.lowered[1:], strict=False))
        forms.update(found.surfaces)
    stops = _stop_words(frequency, len(chunks), language)
    # + 2: a word seen once in a long document is an oddity, not three times as telling as one seen in five chunks.
    rarity = {word: 0.0 if word in stops else log(1 + len(chunks) / (n + 2)) for word, n in frequency.items()}

    def is_common(word: str) -> bool:
        lowered = word.lower()
        return lowered in stops or forms[lowered] > forms[word] // 4

    enriched = []
    repeated: frozenset[str] = frozenset()
    for chunk, found in zip(chunks, words, strict=True):
        # A sentence repeated from the chunk before sums up that one.
        new = [part for part in chunk.sentences if chunk.text[part.start : part.end] not in repeated]
        bodies = [part for part in new or chunk.sentences if not _is_heading(chunk, part)]
        repeated = frozenset(chunk.text[part.start : part.end] for part in chunk.sentences[-LONGEST_REPEAT:])
        enriched.append(
            replace(
                chunk,
                kind=kind_of(chunk),
                summary=_summary(chunk, bodies, found, rarity),
                keywords=_keywords(chunk, found, rarity, pairs),
                entities=entities_of(chunk.text, [(part.start, part.end) for part in chunk.sentences], is_common),
            )
        )
    return enriched


def _words(text: str) -> _ChunkWords:
    surfaces: list[str] = []
    starts: list[int] = []
    for match in _WORD.finditer(text):
        word = match.group()
        if len(word) > 2 and is_cjk(word[0]):
            surfaces.extend(word[i : i + 2] for i in range(len(word) - 1))
            starts.extend(range(match.start(), match.end() - 1))
        else:
            surfaces.append(word)
            starts.append(match.start())
    return _ChunkWords(surfaces, [surface.lower() for surface in surfaces], starts)


def _stop_words(frequency: Counter[str], chunks: int, language: str) -> frozenset[str]:
    if language in ("", "en"):
        return STOP_WORDS | _WEAK
    # A function word of any language stands in most chunks of 200 tokens; a topic word hardly in 60 % of many.
    everywhere = {word for word, count in frequency.items() if chunks >= 5 and count > 0.6 * chunks}
    return frozenset(everywhere | {word for word in frequency if len(word) <= 2 and not is_cjk(word[0])})


def _is_heading(chunk: Chunk, part: Sentence) -> bool:
    return " ".join(chunk.text[part.start : part.end].split()) in chunk.heading_path


# --- summary ---------------------------------------------------------------------------------------------------------


def _summary(chunk: Chunk, parts: Sequence[Sentence], words: _ChunkWords, rarity: dict[str, float]) -> str:
    """One or two sentences of the chunk, in their order, in at most 200 characters; a table's header and row count."""
    texts = [" ".join(chunk.text[part.start : part.end].split()) for part in parts]
    if not texts:
        return shorten(" ".join(chunk.text.split()), SUMMARY_LENGTH)
    if chunk.kind == "table":
        return _table_summary(texts)
    if chunk.kind == "code":
        return shorten(texts[0], SUMMARY_LENGTH)
    scores = _scores(parts, words, rarity)
    order = sorted(range(len(texts)), key=lambda index: -scores[index])
    best = order[0]
    if len(texts[best]) > SUMMARY_LENGTH:
        # A shorter sentence nearly as good beats a long one cut off.
        best = next((i for i in order if len(texts[i]) <= SUMMARY_LENGTH and scores[i] > 0.7 * scores[best]), best)
    chosen = [best]
    if len(texts[best]) < SHORT_SUMMARY:
        room = SUMMARY_LENGTH - len(texts[best]) - 1
        second = next((i for i in order if i != best and 20 <= len(texts[i]) <= room), None)
        if second is not None:
            chosen = sorted([best, second])
    return shorten(" ".join(texts[index] for index in chosen), SUMMARY_LENGTH)


def _scores(parts: Sequence[Sentence], words: _ChunkWords, rarity: dict[str, float]) -> list[float]:
    """How much of the chunk's weight a sentence carries, for its length; the first sentences count a little more."""
    counts = Counter(words.lowered)
    scores = []
    cursor = 0
    for position, part in enumerate(parts):
        while cursor < len(words.starts) and words.starts[cursor] < part.start:
            cursor += 1
        first = cursor
        while cursor < len(words.starts) and words.starts[cursor] < part.end:
            cursor += 1
        terms = dict.fromkeys(words.lowered[first:cursor])  # in order: sums of floats depend on it
        # tf · idf of the chunk's own terms, each saturated so that one repeated name does not decide alone.
        total = sum(rarity[term] * counts[term] / (counts[term] + 1.5) for term in terms)
        length = cursor - first
        score = total / sqrt(length + 6) if length >= 4 else 0.1 * total / sqrt(length + 6)
        scores.append(score * (1.15 if position == 0 else 1.05 if position == 1 else 1.0))
    return scores


def _table_summary(texts: Sequence[str]) -> str:
    """ "Table 2 Costs", "item | price", "paper | 3" -> "Table 2 Costs: item | price (1 row)"."""
    first = next((index for index, text in enumerate(texts) if " | " in text), 0)
    count = sum(1 for text in texts[first + 1 :] if " | " in text) or len(texts) - first - 1
    ending = f" ({count} {'row' if count == 1 else 'rows'})"
    lead = ": ".join([" ".join(texts[:first]).rstrip(":. "), texts[first]] if first else [texts[0]])
    return shorten(lead, SUMMARY_LENGTH - len(ending)) + ending


# --- keywords --------------------------------------------------------------------------------------------------------


def _keywords(
    chunk: Chunk, words: _ChunkWords, rarity: dict[str, float], pairs: Counter[tuple[str, str]]
) -> tuple[str, ...]:
    """The words and frequent pairs of words that are frequent here and rare elsewhere, as they are written."""
    surfaces: dict[str, str] = {}
    for surface, lowered in zip(words.surfaces, words.lowered, strict=True):
        if lowered not in surfaces or surface == lowered:
            surfaces[lowered] = surface
    scores: dict[str, float] = {}
    for word, count in Counter(words.lowered).items():
        if rarity[word] and len(word) > (1 if is_cjk(word[0]) else 2) and not word[0].isdigit():
            scores[word] = rarity[word] * (1 + log(count))
    text = chunk.text
    inside: dict[tuple[str, str], str] = {}
    here: Counter[tuple[str, str]] = Counter()
    for index in range(len(words.lowered) - 1):
        pair = (words.lowered[index], words.lowered[index + 1])
        if pairs[pair] < 3 or pair[0] not in scores or pair[1] not in scores or is_cjk(pair[0][0]):
            continue
        end = words.starts[index + 1] + len(pair[1])
        between = text[words.starts[index] + len(words.surfaces[index]) : words.starts[index + 1]]
        if between.isspace() and "\n\n" not in between:
            here[pair] += 1
            inside.setdefault(pair, " ".join(text[words.starts[index] : end].split()))
    phrases = {inside[pair]: pair for pair in here}
    ranked: list[tuple[float, str, tuple[str, ...]]] = [
        (score, surfaces[word], (word,)) for word, score in scores.items()
    ]
    ranked.extend(
        ((scores[pair[0]] + scores[pair[1]]) * 0.6 * (1 + log(here[pair])), phrase, pair)
        for phrase, pair in phrases.items()
    )
    ranked.sort(key=lambda entry: -entry[0])
    chosen: list[str] = []
    used: set[str] = set()
    for _, surface, parts in ranked:
        if any(part in used for part in parts):
            continue
        used.update(parts)
        chosen.append(surface)
        if len(chosen) == KEYWORDS:
            break
    return tuple(chosen)
