"""What is this chunk about? Kind, summary, keywords and entity candidates, without a language model. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

from refdesk.ingest.entities import entities_of
from refdesk.ingest.kinds import kind_of
from refdesk.text import CJK_CLASS, STOP_WORDS, is_cjk
from refdesk.types import Chunk, Sentence

SUMMARY_LENGTH = 200  # characters
SHORT_SUMMARY = 90  # a sentence shorter than this leaves room for a second
KEYWORDS = 8
LONGEST_REPEAT = 3  # sentences at the end of a chunk that the next one may begin with
# Not on Snowball's list, and no keywords either.
_WEAK = frozenset(("can", "will", "may", "might", "must", "shall", "also", "however", "one", "two", "many", "much"))
_WEAK |= frozenset(
    ("e.g", "i.e", "etc", "per", "via", "upon", "within", "among", "without", "like", "see", "us", "use")
)
# Two CJK letters stand for a word, as in the index.
_WORD = re.compile(rf"[{CJK_CLASS}]+|[^\W_{CJK_CLASS}]+(?:[-’'&.][^\W_{CJK_CLASS}]+)*")
_PLAIN_WORD = re.compile(r"[^\W_]+(?:[-’'&.][^\W_]+)*")
_ANY_CJK = re.compile(f"[{CJK_CLASS}]")


@dataclass(frozen=True, slots=True)
class _Words:
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


def _words(text: str) -> _Words:
    surfaces: list[str] = []
    starts: list[int] = []
    if text.isascii() or not _ANY_CJK.search(text):
        matches = list(_PLAIN_WORD.finditer(text))
        surfaces = [match.group() for match in matches]
        return _Words(surfaces, [surface.lower() for surface in surfaces], [match.start() for match in matches])
    for match in _WORD.finditer(text):
        word = match.group()
        if is_cjk(word[0]) and len(word) > 2:
            surfaces.extend(word[i : i + 2] for i in range(len(word) - 1))
            starts.extend(range(match.start(), match.end() - 1))
        else:
            surfaces.append(word)
            starts.append(match.start())
    return _Words(surfaces, [surface.lower() for surface in surfaces], starts)


def _stop_words(frequency: Counter[str], chunks: int, language: str) -> frozenset[str]:
    if language in ("", "en"):
        return STOP_WORDS | _WEAK
    # A function word of any language stands in most chunks of 200 tokens; a topic word hardly in 60 % of many.
    everywhere = {word for word, count in frequency.items() if chunks >= 5 and count > 0.6 * chunks}
    return frozenset(everywhere | {word for word in frequency if len(word) <= 2 and not is_cjk(word[0])})


def _is_heading(chunk: Chunk, part: Sentence) -> bool:
    return " ".join(chunk.text[part.start : part.end].split()) in chunk.heading_path


# --- summary ---------------------------------------------------------------------------------------------------------


def _summary(chunk: Chunk, parts: Sequence[Sentence], words: _Words, rarity: dict[str, float]) -> str:
    """One or two sentences of the chunk, in their order, in at most 200 characters; a table's header and row count."""
    texts = [" ".join(chunk.text[part.start : part.end].split()) for part in parts]
    if not texts:
        return _shortened(" ".join(chunk.text.split()))
    if chunk.kind == "table":
        return _table_summary(texts)
    if chunk.kind == "code":
        return _shortened(texts[0])
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
    return _shortened(" ".join(texts[index] for index in chosen))


def _scores(parts: Sequence[Sentence], words: _Words, rarity: dict[str, float]) -> list[float]:
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
        terms = set(words.lowered[first:cursor])
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
    return _shortened(lead, SUMMARY_LENGTH - len(ending)) + ending


def _shortened(text: str, length: int = SUMMARY_LENGTH) -> str:
    if len(text) <= length:
        return text
    cut = text[: length - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut).rstrip(" ,;:|") + "…"


# --- keywords --------------------------------------------------------------------------------------------------------


def _keywords(
    chunk: Chunk, words: _Words, rarity: dict[str, float], pairs: Counter[tuple[str, str]]
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
