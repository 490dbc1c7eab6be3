"""A folder goes in by Ray as it does by an ordinary add: the same documents, chunks and vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import DOCUMENTS
from library_samples import open_desk, write_mail
from refdesk import Refdesk
from refdesk.errors import ExtraMissing
from refdesk.ray import bulk_add


def content(desk: Refdesk) -> dict[str, Any]:
    return {
        document.name: (document.content_hash, document.page_count, [chunk.text for chunk in desk.chunks(document.id)])
        for document in desk.documents()
    }


@pytest.mark.slow
def test_a_folder_goes_in_by_ray(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in sorted(DOCUMENTS.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    write_mail(folder, 7)
    (folder / "torn.pdf").write_bytes(b"%PDF-1.7 torn")
    (folder / "twin.md").write_bytes(b"The lamp was lit at dusk.")
    (folder / "twin-again.md").write_bytes(b"The lamp was lit at dusk.")
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    try:
        with open_desk(tmp_path / "by-ray") as one, open_desk(tmp_path / "by-add") as other:
            outcomes = {result.name: result.outcome for result in bulk_add(one, folder, concurrency=2)}
            other.add(folder)
            assert outcomes["torn.pdf"] == "failed" and "sheet-7.txt" in outcomes, "an ordinary add does these"
            assert sorted(outcomes[name] for name in ("twin.md", "twin-again.md")) == ["added", "unchanged"]
            mine, theirs = content(one), content(other)
            lamp = {"twin.md", "twin-again.md"}
            assert mine.keys() - lamp == theirs.keys() - lamp
            assert all(mine[name] == theirs[name] for name in mine.keys() - lamp)
            question = "What does the annual inspection of a tide gauge cost?"
            scores = [[hit.score for hit in desk.search(question, k=5)] for desk in (one, other)]
            assert np.allclose(*scores, atol=1e-3)
            assert all(finding.well for finding in (*one.check(), *one.check_files()))
            again = {result.name: result.outcome for result in bulk_add(one, folder / "twin.md", *[folder])}
            assert set(again.values()) <= {"unchanged", "failed"}
    finally:
        ray.shutdown()


def test_without_ray_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    (tmp_path / "note.md").write_text("The lamp was lit at dusk.")
    with open_desk(tmp_path / "library") as desk, pytest.raises(ExtraMissing, match="needs Ray"):
        bulk_add(desk, tmp_path / "note.md")
