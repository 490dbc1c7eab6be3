"""How is a question answered without a model? With the sentences that answer it best, word for word, each cited.

A direct sentence first for a fact, one line per item for a list, evidence for each side of a comparison, the sentences
that open each section for a summary, the reasons in the order of the document for an analysis. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refdesk.answer import Context, Query, Retrieved
from refdesk.ask.evidence.reading import read
from refdesk.ask.evidence.rows import named_row, table_header
from refdesk.ask.evidence.weigh import ENDS, Evidence, asked, weigh
from refdesk.ask.passages.neutral import without_markers
from refdesk.settings import Settings
from refdesk.terms import query_terms

REPEAT = 0.95  # cosine of two sentences that say the same
SAID_WITHIN = 5  # a sentence of so many words that stands within one before it, word for word, adds nothing
ENOUGH = 0.45  # a sentence that far below the first adds nothing
LIST_ITEMS, LIST_GAP = 12, 0.25
ANALYSIS_GAP = 0.3
SUMMARY_SENTENCES, ANALYSIS_SENTENCES, SIDE_SENTENCES = 8, 5, 2
REASON_BONUS = 0.1
SKIPPED_KINDS = frozenset({"toc", "credits", "heading"})

_MARKER = re.compile(r"\[(?=[^\[\]\n]{0,80}\])([^\[\]\n]*)\]")
_BULLET = re.compile(r"\s*(?:[-*+•‣◦▪▫■□●○–—·➢✓✔➔]\s+|\(?(?:\d{1,3}|[A-Za-z])[.)]\s+)")
_DOT = re.compile(r"\s*[-*+•‣◦▪▫■□●○–—·➢✓✔➔]\s+")  # letters and numbers may be the sentence's own: "A. Smith owns it."
_POINTS = ".,;:!?()\"'“”‘’"
_SPACE = re.compile(r"\s+")


def extract(query: Query, context: Context, retrieved: Retrieved, settings: Settings) -> list[str]:
    """The answer in pieces to be streamed, one a sentence; joined they are the text.

    ["The anchor weighs 350 kg. [1]", " It is made of cast iron. [1]"]
    """
    placed = [(one.number, chunk, one.hit.score) for one in context.passages for chunk in one.chunks]
    languages = {one.document.id: one.document.language or "en" for one in context.passages}
    ranked = weigh(query, placed, retrieved.sentence_vectors, retrieved.idf, languages)
    ranked = [one for one in ranked if _can_stand(one)]
    if not ranked:
        return []
    vectors = retrieved.sentence_vectors
    match query.intent:
        case "list":
            return _lines(_list(ranked, vectors))
        case "comparison" if len(query.parts) > 1:
            return _sentences(_in_context(query, _comparison(query, ranked, vectors)))
        case "summary":
            return _sentences(_summary(ranked, vectors))
        case "analytical":
            return _sentences(_in_context(query, _analysis(ranked, vectors, settings)))
    return _sentences(_in_context(query, _factual(query, ranked, vectors, settings))[: settings.max_sentences])


# --- what each intent takes ------------------------------------------------------------------------------------------


def _factual(
    query: Query, ranked: Sequence[Evidence], vectors: Mapping[int, Any], settings: Settings
) -> list[Evidence]:
    """The best sentences, the direct one first; fewer when the others are far off.

    Where the first holds the number or the code that is asked about, rows without it are of something else; and where
    it is a row itself, so is all the rest, which no pronoun leads back to it.
    """
    first = ranked[0]
    codes = {term for term in query.terms if any(letter.isdigit() for letter in term)} & read(first.text).places.keys()
    fitting = (
        one
        for one in ranked
        if one.score > first.score - ENOUGH
        and ("table" not in (first.chunk.kind, one.chunk.kind) or codes <= read(one.text).places.keys())
    )
    return _distinct(fitting, vectors, settings.max_sentences)


def _list(ranked: Sequence[Evidence], vectors: Mapping[int, Any]) -> list[Evidence]:
    """The items of the list or table that answers best, else one sentence for each thing found."""
    best = ranked[0]
    if best.chunk.kind in ("list", "table"):
        same = [one for one in ranked if one.chunk.id == best.chunk.id]
        if len(same) > 1:
            return _document_order(_distinct(same, vectors, LIST_ITEMS))
    near = (one for one in ranked if one.score > best.score - LIST_GAP)
    return _distinct(near, vectors, LIST_ITEMS)


def _comparison(query: Query, ranked: Sequence[Evidence], vectors: Mapping[int, Any]) -> list[Evidence]:
    """For each side the sentences that name it; one that names both sides comes first."""
    sides = [frozenset(query_terms(part)) for part in query.parts]
    shared = frozenset.intersection(*sides)
    chosen: list[Evidence] = []
    for side in (one - shared or one for one in sides):
        named = sorted(ranked, key=lambda one: -(one.score + _share(side, one)))
        fitting = (one for one in named if _share(side, one) > 0 and one not in chosen)
        chosen += _distinct(fitting, vectors, SIDE_SENTENCES, already=chosen)
    return chosen or _distinct(ranked, vectors, SIDE_SENTENCES * len(sides))


def _share(side: frozenset[str], one: Evidence) -> float:
    """How much of a side's words the sentence holds, its heading and title counting half."""
    own = read(one.text).places
    above = read(f"{one.chunk.context} {' '.join(one.chunk.heading_path)}").places
    return sum(1.0 if term in own else 0.5 if term in above else 0.0 for term in side) / max(1, len(side))


def _summary(ranked: Sequence[Evidence], vectors: Mapping[int, Any]) -> list[Evidence]:
    """The first sentence of each section, best sections first, then in the order of the documents."""
    leads: dict[tuple[str, tuple[str, ...]], Evidence] = {}
    for one in ranked:
        if one.chunk.kind == "table":
            continue
        section = (one.chunk.document_id, one.chunk.heading_path)
        known = leads.get(section)
        if known is None or _place(one) < _place(known):
            leads[section] = one
    chosen = _distinct(leads.values(), vectors, SUMMARY_SENTENCES)
    if len(chosen) < SUMMARY_SENTENCES:  # few sections: their best sentences beside the leads
        chosen += _distinct(
            (one for one in ranked if one not in chosen), vectors, min(5, SUMMARY_SENTENCES) - len(chosen), chosen
        )
    return _document_order(chosen)


def _analysis(ranked: Sequence[Evidence], vectors: Mapping[int, Any], settings: Settings) -> list[Evidence]:
    """The sentence that answers best first, those that give a reason lifted; the others as the documents have them."""
    lifted = [replace(one, score=one.score + REASON_BONUS * read(one.text).shows("reason")) for one in ranked]
    lifted.sort(key=lambda one: -one.score)
    near = (one for one in lifted if one.score > lifted[0].score - ANALYSIS_GAP)
    first, *others = _distinct(near, vectors, max(ANALYSIS_SENTENCES, settings.max_sentences))
    return [first, *_document_order(others)]


# --- which sentences may stand, and beside which ---------------------------------------------------------------------


def _can_stand(one: Evidence) -> bool:
    """No headings, headers of tables, lead-ins and scraps."""
    if one.chunk.kind in SKIPPED_KINDS or one.text in one.chunk.heading_path or one.text.endswith(":"):
        return False
    if one.chunk.kind == "table":
        return one.sentence >= table_header(one.chunk).stop or len(one.chunk.sentences) == 1
    return one.chunk.kind in ("code", "list") or read(one.text).length > 2 or len(one.text) > 12


def _distinct(
    found: Iterable[Evidence], vectors: Mapping[int, Any], most: int, already: Sequence[Evidence] = ()
) -> list[Evidence]:
    """The first that do not repeat one before them."""
    chosen: list[Evidence] = []
    for one in found:
        if len(chosen) >= most:
            break
        if not any(_repeats(one, other, vectors) for other in (*already, *chosen)):
            chosen.append(one)
    return chosen


def _repeats(one: Evidence, other: Evidence, vectors: Mapping[int, Any]) -> bool:
    said, before = _said(one.text), _said(other.text)
    if said == before or (said in before and said.count(" ") > SAID_WITHIN and one.chunk.kind == "text"):
        return True
    if one.chunk.kind == "table" or read(one.text).numbers != read(other.text).numbers:
        return False  # rows are alike, and two values of one thing must both be seen
    first, second = _vector(one, vectors), _vector(other, vectors)
    if first is None or second is None:
        return False
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return norms > 0 and float(first @ second) / norms > REPEAT


def _said(text: str) -> str:
    """Its words, a space around each: `"So, it fell by -5 %."` -> `" so it fell by -5 % "`."""
    return f" {' '.join(word.strip(_POINTS) for word in text.lower().split())} "


def _vector(one: Evidence, vectors: Mapping[int, Any]) -> Any:
    rows = vectors.get(one.chunk.id)
    return None if rows is None or one.sentence >= len(rows) else rows[one.sentence].astype(np.float32)


def _in_context(query: Query, chosen: Sequence[Evidence]) -> list[Evidence]:
    """A sentence that begins with a pronoun brings the one before it, when that names what is asked about."""
    placed: list[Evidence] = []
    subject = asked(query.standalone).named or frozenset(query.terms)
    for one in chosen:
        reading = read(one.text)
        before = _before(one) if reading.leans else None
        if before and (subject & reading.content or not subject & read(before.text).content):
            before = None
        for next_one in (before, one):
            if next_one and not any(next_one.text == other.text for other in placed):
                placed.append(next_one)
    return placed


def _before(one: Evidence) -> Evidence | None:
    if one.sentence == 0 or one.chunk.kind != "text":
        return None
    start, end = one.chunk.sentences[one.sentence - 1][:2]
    before = replace(one, sentence=one.sentence - 1, text=one.chunk.text[start:end], coverage=0.0, cosine=0.0)
    return before if _can_stand(before) else None


def _document_order(chosen: Sequence[Evidence]) -> list[Evidence]:
    """Documents as they were first chosen, sentences as they stand."""
    first: dict[str, int] = {}
    for one in chosen:
        first.setdefault(one.chunk.document_id, len(first))
    return sorted(chosen, key=lambda one: (first[one.chunk.document_id], _place(one)))


def _place(one: Evidence) -> tuple[int, int]:
    return one.chunk.sequence, one.sentence


# --- how they are written --------------------------------------------------------------------------------------------


def _sentences(chosen: Sequence[Evidence]) -> list[str]:
    """Sentences run on; a row or a line that does not end as a sentence does gets a line of its own."""
    pieces: list[str] = []
    was_line = False
    for one in chosen:
        is_kept = one.chunk.kind in ("table", "code")
        said = named_row(one.chunk, one.sentence)
        text = quoted(said if is_kept else _DOT.sub("", said, count=1))
        is_line = is_kept or text[-1:] not in ENDS
        before = "" if not pieces else "\n" if is_line and was_line else "\n\n" if is_line or was_line else " "
        pieces.append(f"{before}{'- ' if is_line else ''}{text} [{one.passage}]")
        was_line = is_line
    return pieces


def _lines(chosen: Sequence[Evidence]) -> list[str]:
    texts = [
        named_row(one.chunk, one.sentence) if one.chunk.kind == "table" else _BULLET.sub("", one.text, count=1)
        for one in chosen
    ]
    pieces = [f"- {quoted(text)} [{one.passage}]" for text, one in zip(texts, chosen, strict=True)]
    return [piece if number == 0 else f"\n{piece}" for number, piece in enumerate(pieces)]


def quoted(text: str) -> str:
    """A sentence on one line, with brackets that would read as citation markers made round.

    >>> quoted("about 1,230 km [note 2][1],\\nlong")
    'about 1,230 km (note 2)(1), long'
    """
    return without_markers(_MARKER.sub(r"(\1)", _SPACE.sub(" ", text.strip())))
