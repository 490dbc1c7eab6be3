"""What do the first passages say to the question? A reader reads them one after the other until one is sure. Pure.

How much a passage is about the question then moves it up or down among the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refdesk.ports import Reader
from refdesk.types import Hit, Reading

# Over the nine sets of training.found, hybrid .737: six passages .773, with the sure one as the last .771 of which 3.9
# are read; the passages not read at -2 .774 (-4 .772, -1 .773, 0 .765). No set is lower than it was.
MOST_PASSAGES, MOST_TOKENS = 6, 900
SURE = 2.0  # `answered` from which no further passage is read
UNREAD = -2.0  # what counts as `relevant` of a passage that was not read
SCALE = 20.0  # of the score among the logits; a plateau from 10 to 30
LANGUAGES = frozenset({"en", ""})  # that it has learned to read; "" is not known


def read_hits(question: str, hits: Sequence[Hit], reader: Reader) -> dict[int, Reading]:
    """What the first hits say, by the id of their chunk."""
    found: dict[int, Reading] = {}
    tokens = 0
    for hit in hits:
        if hit.document.language not in LANGUAGES:
            continue
        reading = reader.read(question, hit.chunk)
        if reading is None:
            continue
        found[hit.chunk.id] = reading
        tokens += reading.tokens
        if reading.answered >= SURE or len(found) >= MOST_PASSAGES or tokens >= MOST_TOKENS:
            break
    return found


def ordered(hits: Sequence[Hit], readings: dict[int, Reading]) -> list[Hit]:
    """The same hits by their scores and what was read; the best score stays what it was."""
    best = max((hit.score for hit in hits), default=0.0)
    if not readings or best <= 0.0:
        return list(hits)
    worth = [hit.score / best + _relevant(readings.get(hit.chunk.id)) / SCALE for hit in hits]
    most = max(worth)
    scored = [replace(hit, score=best * (one - most + 1.0)) for hit, one in zip(hits, worth, strict=True)]
    return sorted(scored, key=lambda hit: -hit.score)


def _relevant(reading: Reading | None) -> float:
    return UNREAD if reading is None else reading.relevant
