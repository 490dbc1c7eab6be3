"""Answers for the tests of what is kept: one as it may look, and any that can be."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from refdesk import answer as values
from refdesk.answer import (
    Answer,
    Citation,
    Claim,
    Confidence,
    Conflict,
    FailedModel,
    Source,
    Sufficiency,
    Usage,
    Verification,
)
from refdesk.types import Box

TYPICAL = Answer(
    id="a" * 32,
    question="What does the anchor weigh?",
    content="The anchor weighs 350 kg [1]. It is galvanised [2].",
    claims=tuple(
        Claim(
            f"The anchor weighs {number} kg.", number * 40, number * 40 + 36, (number,), (number - 1,), "supported", 0.9
        )
        for number in range(1, 9)
    ),
    citations=tuple(
        Citation(
            marker=number,
            document_id="d" * 16,
            document_name="mooring manual.pdf",
            chunk_id=100 + number,
            chunk_sequence=number,
            heading_path=("Part 2", "Anchors"),
            page=number,
            boxes=tuple(Box(number, 12.345, 20.0 + line, 70.125, 2.25) for line in range(3)),
            located=True,
            quote="The anchor of the outer buoy weighs 350 kg, its chain not included, and is galvanised. " * 2,
            relevance_score=0.81,
            similarity_score=0.77,
            origin=(1000, 1120),
        )
        for number in range(1, 9)
    ),
    sources=(Source("d" * 16, "mooring manual.pdf", "Mooring manual", (1, 2, 3), (1, 2)),),
    related_documents=(Source("e" * 16, "price list.pdf"),),
    confidence=Confidence(0.91, "high", "two passages say it"),
    metrics={"retrieve_ms": 12.25, "total_ms": 40.5},
)

_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_floats = st.floats(allow_nan=False, allow_infinity=False)
_whole = st.integers(0, 2**53)


def _some(strategy: Any) -> Any:
    return st.lists(strategy, max_size=3).map(tuple)


def _one(kind: Any) -> Any:
    return st.sampled_from(get_args(kind))


_boxes = st.builds(Box, st.integers(1, 999), _floats, _floats, _floats, _floats)
_sources = st.builds(Source, _texts, _texts, _texts, _some(_whole), _some(_whole))
_citations = st.builds(
    Citation,
    marker=_whole,
    document_id=_texts,
    document_name=_texts,
    chunk_id=_whole,
    chunk_sequence=_whole,
    heading_path=_some(_texts),
    page=_whole,
    boxes=_some(_boxes),
    located=st.booleans(),
    quote=_texts,
    relevance_score=_floats,
    similarity_score=_floats,
    origin=st.tuples(_whole, _whole),
    url=_texts,
)
_claims = st.builds(Claim, _texts, _whole, _whole, _some(_whole), _some(_whole), _one(values.Verdict), _floats, _texts)
_sufficiencies = st.builds(
    Sufficiency,
    st.booleans(),
    _floats,
    st.booleans(),
    _some(st.builds(Conflict, _texts, st.tuples(_whole, _whole))),
    _some(_texts),
)
ANSWERS = st.builds(
    Answer,
    id=_texts,
    question=_texts,
    content=_texts,
    claims=_some(_claims),
    citations=_some(_citations),
    sources=_some(_sources),
    related_documents=_some(_sources),
    confidence=st.builds(Confidence, _floats, _one(values.ConfidenceLevel), _texts),
    sufficiency=_sufficiencies,
    verification=st.builds(Verification, _one(values.VerificationStatus), _some(_texts)),
    suggested_questions=_some(_texts),
    usage=st.builds(Usage, _whole, _whole, st.one_of(st.none(), _floats), _whole),
    metrics=st.dictionaries(_texts, _floats, max_size=3),
    cached=_one(values.Cached),
    is_answered=st.booleans(),
    notes=_some(_texts),
    failed_models=_some(st.builds(FailedModel, _texts, _texts)),
)
