"""Is the answer enough? What of the question it covers, where its sources disagree, what is missing. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from refdesk.answer import Citation, Claim, Context, Query, Retrieved, Sufficiency
from refdesk.ask.evidence.conflicts import conflicts
from refdesk.ask.evidence.reading import Reading, read
from refdesk.ask.evidence.relevance import Relevance, typed
from refdesk.ask.evidence.weigh import FRAME_WEIGHT, asked
from refdesk.terms import query_terms, terms

ENOUGH = 0.5  # share of the question's words that the quotes and their headings hold
DOUBTFUL = 0.5
MOST_TOPICS = 3


def sufficiency(
    query: Query, relevance: Relevance, context: Context, claims: Sequence[Claim], citations: Sequence[Citation]
) -> Sufficiency:
    """How much of the question the cited sentences cover, and what they leave open."""
    if not claims or not citations:
        return Sufficiency(is_sufficient=False, coverage_score=0.0, missing_aspects=relevance.missing_terms)
    titles = {passage.document.id: passage.document.title for passage in context.passages}
    held = _held(citations, titles)
    missing = _missing(query, relevance, held)
    coverage = _coverage(query, held)
    found = conflicts(query, context, citations)
    grounded = any(claim.verdict == "supported" for claim in claims)
    sides_missing = any(part in missing for part in query.parts)
    return Sufficiency(
        is_sufficient=grounded and coverage >= ENOUGH and not sides_missing,
        coverage_score=round(coverage, 3),
        has_conflicts=bool(found),
        conflicts=found,
        missing_aspects=missing,
    )


def nearest_topics(retrieved: Retrieved) -> tuple[str, ...]:
    """Up to three headings or titles of what the library does hold near the question, best first.

    ("Travel and expenses", "Service price list 2026")
    """
    found: list[str] = []
    for hit in retrieved.hits:
        path = hit.chunk.heading_path
        topic = (path[-1] if path else "") or hit.document.title or hit.document.name
        if topic and topic not in found:
            found.append(topic)
    return tuple(found[:MOST_TOPICS])


# --- coverage --------------------------------------------------------------------------------------------------------


def _held(citations: Sequence[Citation], titles: dict[str, str]) -> Reading:
    """All that is quoted, with the headings it stands under."""
    texts = [f"{one.quote} {' '.join(one.heading_path)} {titles.get(one.document_id, '')}" for one in citations]
    return read(" ".join(texts))


def _coverage(query: Query, held: Reading) -> float:
    question = asked(query.fullest)
    weights = [FRAME_WEIGHT if question.frames(word) else 1.0 for word in question.words]
    found = sum(w for word, w in zip(question.words, weights, strict=True) if _has(held, word))
    return found / sum(weights) if weights else 0.0


def _has(held: Reading, word: str) -> bool:
    stem = (terms(word) or [word])[0]
    if stem in held.places:
        return True
    head = stem[: max(4, len(stem) - 2)]
    return len(stem) >= 4 and any(term.startswith(head) for term in held.content)


def _missing(query: Query, relevance: Relevance, held: Reading) -> tuple[str, ...]:
    """Sides of a comparison, names and numbers that no quote holds; where the answer is doubtful, every word.

    A good answer may well say "weighs" where the question says "heavy".
    """
    sides = [part for part in query.parts if not any(term in held.places for term in query_terms(part))]
    question = asked(query.fullest)
    absent = typed(query, [one for one in question.words if terms(one)[0] in question.named and not _has(held, one)])
    doubtful = relevance.missing_terms if relevance.probability < DOUBTFUL else ()
    covered = " ".join(sides).lower()
    found = dict.fromkeys((*absent, *doubtful))
    return (*sides, *(word for word in found if word.lower() not in covered))
