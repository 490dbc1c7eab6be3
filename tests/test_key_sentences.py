"""Which sentences stand for a whole document?"""

from __future__ import annotations

import numpy as np
import pytest

from evidence_samples import chunk
from refdesk.summaries import FEW_SECTIONS, key_sentences

LINES = [
    "The harbour office counts every vessel that enters the basin before noon.",
    "Tide gauges on the outer pier send their readings over a radio link each hour.",
    "Divers inspect the moorings of all buoys in spring and replace worn shackles.",
    "The archive in the cellar keeps charts of the estuary since the last century.",
]


@pytest.mark.parametrize("sections", [1, FEW_SECTIONS, FEW_SECTIONS + 1])
def test_few_sections_give_two_sentences_each(sections: int) -> None:
    chunks = [
        chunk([f"{line[:-1]} of quay {number}." for line in LINES], id=number, heading_path=(f"Quay {number}",))
        for number in range(1, sections + 1)
    ]
    # Every sentence says something of its own: unit vectors at right angles to one another.
    every = (127 * np.eye(len(LINES) * sections)).astype(np.int8)
    vectors = {own.id: every[at * len(LINES) : (at + 1) * len(LINES)] for at, own in enumerate(chunks)}
    found = key_sentences(chunks, vectors)
    each = 2 if sections <= FEW_SECTIONS else 1
    assert {own.id: sum(number == own.id for number, _ in found) for own in chunks} == {own.id: each for own in chunks}
