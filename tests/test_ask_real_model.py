"""One whole question through a real small model: slow, and poor prose, but nothing in between is pretended."""

from __future__ import annotations

from pathlib import Path

import pytest

from real_model import RealModel, real_model
from refdesk import Refdesk

__all__ = ["real_model"]


@pytest.mark.slow
def test_a_real_model_answers_with_true_citations(
    own_folder: Path, real_model: RealModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in real_model.env().items():
        monkeypatch.setenv(name, value)
    settings = {"rag.max_context_tokens": 400, "answer.max_tokens": 80, "answer.suggest_questions": False}
    with Refdesk(own_folder, settings=settings) as desk:
        answer = desk.ask_sync("How heavy is the anchor of the standard wave buoy mooring?", k=2)
        stages = {one["name"]: one for one in desk.trace(answer.id)["stages"]}
        texts = {one.document_id: "".join(page.text for page in desk.pages(one.document_id)) for one in answer.sources}
    assert answer.content and answer.usage.completion_tokens > 0 and answer.usage.cost_usd == 0
    assert stages["model"]["output"]["completion"] > 0
    owned = {citation.marker for citation in answer.citations}
    assert {marker for claim in answer.claims for marker in claim.markers} <= owned
    assert all(citation.quote in texts[citation.document_id] for citation in answer.citations)
