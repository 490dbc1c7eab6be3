"""How long will an add still take? Steady: what is said next differs little from what was said before. Pure.

Kinds of files differ a hundredfold in how many chunks a byte gives, so the chunks to come are judged kind by kind; and
the pace is that of the last minutes, because a scan is read more slowly than a page of text.
"""

from __future__ import annotations

import math
from collections import defaultdict

FIRST_S = 5.0  # nothing is said before: the first files start processes and load the model
PACE_S = 180.0  # the time over which the pace is remembered
CALM_S = 15.0  # the time in which what is said follows what is true
GUESSED = 1.0  # files of a kind whose own figures weigh as much as those of all kinds
MOST_CHANGE = 1.25  # between two times that are said, beside the time that went by


class TimeLeft:
    """Fed with what happened; `seconds(now, chunks_done)` says what is left, None while it is too early to say."""

    def __init__(self, now: float) -> None:
        self._began = self._looked = now
        self._waiting: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])  # by kind: files, bytes
        self._parsed: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # by kind: files, bytes, chunks
        self._chunks = 0
        self._seen = 0  # chunks done when it was last looked
        self._done_lately = self._time_lately = 0.0
        self._said: float | None = None

    def coming(self, kind: str, size: int) -> None:
        """A file of so many bytes is to be added."""
        self._waiting[kind][0] += 1
        self._waiting[kind][1] += size

    def parsed(self, kind: str, size: int, chunks: int) -> None:
        self.dropped(kind, size)
        held = self._parsed[kind]
        held[0], held[1], held[2] = held[0] + 1, held[1] + size, held[2] + chunks
        self._chunks += chunks

    def dropped(self, kind: str, size: int) -> None:
        """It will give no more chunks than it has: it was parsed, it failed, or nobody wants it any more."""
        self._waiting[kind][0] -= 1
        self._waiting[kind][1] -= size

    def seconds(self, now: float, chunks_done: int) -> float | None:
        passed, self._looked = now - self._looked, now
        kept = math.exp(-passed / PACE_S)
        self._done_lately = self._done_lately * kept + chunks_done - self._seen
        self._time_lately = self._time_lately * kept + passed
        self._seen = chunks_done
        if now - self._began < FIRST_S or self._done_lately <= 0.0:
            return self._said
        true = (self._expected() - chunks_done) * self._time_lately / self._done_lately
        self._said = true if self._said is None else _nearer(self._said, true, passed)
        return self._said

    def _expected(self) -> float:
        """Chunks in all: those that are known, and what the files to come will give by their kinds."""
        files = sum(held[0] for held in self._parsed.values())
        size = sum(held[1] for held in self._parsed.values())
        expected = float(self._chunks)
        for kind, (count, waiting) in self._waiting.items() if size else ():
            own_files, own_size, own_chunks = self._parsed.get(kind, (0, 0, 0))
            # Of a kind that was not met yet: between as many chunks for each byte and as many for each file as usual.
            guess = self._chunks * math.sqrt(max(waiting, 0) / size * max(count, 0) / files)
            trust = own_files / (own_files + GUESSED)
            expected += trust * waiting * own_chunks / max(own_size, 1) + (1.0 - trust) * guess
        return expected


def _nearer(said: float, true: float, passed: float) -> float:
    """From what was said before towards what is true, by steps that nobody stumbles over."""
    counted = max(said - passed, 0.0)
    step = counted + (true - counted) * (1.0 - math.exp(-passed / CALM_S))
    most = math.pow(MOST_CHANGE, min(1.0, passed / CALM_S))
    return min(max(step, counted / most), counted * most + passed)
