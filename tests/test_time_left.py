"""The time left while adding is steady, and right, for files that differ a hundredfold."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from refdesk.ingest.pipeline import TimeLeft

STEADY = 1.3  # the most by which what is said may differ from what was said ten seconds before

# Bytes of a file, chunks it gives and chunks embedded a second while it is worked on.
KINDS = {
    ".txt": (200_000, 900, 30.0),
    ".pdf": (2_000_000, 300, 20.0),
    ".scan": (30_000_000, 60, 2.0),
    ".csv": (40_000, 10, 30.0),
}
File = tuple[str, int, int, float]


def files(mixture: dict[str, int], seed: int) -> list[File]:
    chance = random.Random(seed)
    found = []
    for kind, count in mixture.items():
        size, chunks, pace = KINDS[kind]
        for _ in range(count):
            times = chance.uniform(0.5, 2.0)
            found.append((kind, int(size * times), max(1, int(chunks * times * chance.uniform(0.7, 1.4))), pace))
    chance.shuffle(found)
    return found


def simulated(wanted: list[File], look_s: float = 0.2) -> Iterator[tuple[float, float | None]]:
    """What is said, look after look, with the seconds that have passed; the files are done one after the other."""
    left, now, done, looked = TimeLeft(0.0), 0.0, 0, 0.0
    for kind, size, _, _ in wanted:
        left.coming(kind, size)
    for kind, size, chunks, pace in wanted:
        left.parsed(kind, size, chunks)
        for _ in range(chunks):
            now += 1 / pace
            done += 1
            if now - looked >= look_s:
                looked = now
                yield now, left.seconds(now, done)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "mixture",
    [
        {".txt": 40},
        {".pdf": 60, ".txt": 20},
        {".pdf": 60, ".scan": 10, ".csv": 100},
        {".scan": 5, ".txt": 30, ".csv": 30, ".pdf": 30},
    ],
    ids=str,
)
def test_what_is_said_is_steady_and_comes_true(mixture: dict[str, int], seed: int) -> None:
    said = [(now, left) for now, left in simulated(files(mixture, seed)) if left is not None]
    total = said[-1][0]
    assert said[0][0] < 0.1 * total
    before = said[0]
    for now, left in said:
        if now - before[0] >= 10.0:
            if before[1] > 60.0:  # of the last minute nobody needs a forecast
                counted_down = before[1] - (now - before[0])
                assert counted_down / STEADY <= left <= before[1] * STEADY, (before, now, left)
            before = now, left
    # From a third of the way on it is right to within a factor of two.
    for now, left in said:
        if total / 3 < now < total - 60:
            assert (total - now) / 2 <= left <= (total - now) * 2, (now, left, total)


def test_files_that_fail_or_are_taken_back_are_not_waited_for() -> None:
    left = TimeLeft(0.0)
    for _ in range(10):
        left.coming(".pdf", 1000)
    left.parsed(".pdf", 1000, 100)
    much = [left.seconds(float(now), now) for now in range(1, 20)][-1]
    for _ in range(9):
        left.dropped(".pdf", 1000)
    for now in range(20, 100):
        little = left.seconds(float(now), now)
    assert much is not None and little is not None and much > 500 and little < much / 3
    assert TimeLeft(0.0).seconds(100.0, 0) is None
