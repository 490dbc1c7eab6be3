"""Which sentences stand for a whole document?"""

from __future__ import annotations

import numpy as np
import pytest

from evidence_samples import chunk
from memory_desk import KINDS, AnyDesk
from refdesk.summaries import FEW_SECTIONS, key_sentences

STORES = KINDS

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


def test_of_sections_alike_the_longest_are_told_and_nothing_is_told_twice() -> None:
    lengths = {name: 2 + at % 5 for at, name in enumerate("abcdefghij")}
    chunks = [
        chunk([f"{LINES[n % 4][:-1]} of {name} and {n}." for n in range(count)], id=at, heading_path=(name,))
        for at, (name, count) in enumerate(lengths.items(), 1)
    ]
    repeated = chunk(["Lamps on the pier burn all night in the winter."] * 7, id=12, heading_path=("z",))
    vectors = {own.id: np.eye(len(own.sentences), 384, k=7 * own.id, dtype=np.int8) * 60 for own in [*chunks, repeated]}
    for rows in vectors.values():
        rows[:, 0] = 110  # all of them lie about as near to the middle
    found = [number for number, _ in key_sentences([*chunks, repeated], vectors)]
    told = {own.heading_path[0] for own in [*chunks, repeated] if own.id in found}
    assert told >= {"z", "e", "j", "d", "i"} and len(found) == len(set(found)) == 6


SECTIONS = {
    "Moorings": "Every mooring is inspected by divers in spring, and worn shackles are replaced on the same day.",
    "Costs": "The inspection of the chains costs 4,000 euros a year, which the town pays from the berth fees.",
    "Staff": "The office employs two pilots and a clerk, who keeps the books of the basin in the winter.",
}


def test_a_summary_of_a_part_is_of_its_section(desk: AnyDesk) -> None:
    other = "# Pier report\n\nThe pier was painted. Its lamps burn all night. Anglers may use it until ten.\n"
    parts = (
        f"## {title}\n{' '.join([text, *LINES, text[:-1] + ', as before.'] * 3)}" for title, text in SECTIONS.items()
    )
    harbour = "\n\n".join(["# Harbour report", *parts])
    for name, text in (("harbour.md", harbour), ("pier.md", other)):
        desk.add_text(name, text, format="markdown")
    whole = desk.ask_sync("Summarise the harbour report", cache=False)
    part = desk.ask_sync("Summarise the costs in the harbour report", cache=False)
    assert whole.intent == part.intent == "summary"
    assert {one.heading_path[-1] for one in whole.citations} == SECTIONS.keys()
    assert {one.heading_path[-1] for one in part.citations} == {"Costs"}
