"""On which page and in which boxes do these ranges of the text stand? All ranges of a document at once. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from refdesk.geometry import Box, Geometry
from refdesk.types import Page, Range, Span

Line = tuple[int, int, Box]


def lines_of(geometry: Geometry, ranges: Sequence[Range]) -> list[list[Line]]:
    """For each range what `geometry.lines_between` gives, computed for all of them in one pass.

    29,000 ranges over 269,000 words (600 pages) take 0.5 s; one by one they take 8 s.
    """
    found: list[list[Line]] = [[] for _ in ranges]
    if not ranges or not len(geometry):
        return found
    bounds = np.asarray(ranges, dtype=np.int64).reshape(-1, 2)
    first = np.searchsorted(geometry.end, bounds[:, 0], side="right")
    last = np.searchsorted(geometry.start, bounds[:, 1], side="left")
    owners = np.flatnonzero(first < last)
    if not len(owners):
        return found
    first, last = first[owners], last[owners]

    # Number the lines densely; a range touches the lines of its first to its last word.
    line_begins = np.concatenate(([0], np.flatnonzero(np.diff(geometry.line)) + 1))
    line_of_word = np.searchsorted(line_begins, np.arange(len(geometry)), side="right") - 1
    line_ends = np.append(line_begins[1:], len(geometry))
    first_line = line_of_word[first]
    counts = line_of_word[last - 1] - first_line + 1
    pair = np.repeat(np.arange(len(owners)), counts)
    line = first_line[pair] + np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.maximum(first[pair], line_begins[line])
    stop = np.minimum(last[pair], line_ends[line])

    # reduceat over (begin, stop) pairs: every second result is ours. The row added at the end keeps `stop` in range.
    steps = np.column_stack((begin, stop)).ravel()
    edges = np.vstack((geometry.edges, geometry.edges[-1:]))
    low = np.minimum.reduceat(edges[:, :2], steps)[::2].tolist()
    high = np.maximum.reduceat(edges[:, 2:], steps)[::2].tolist()
    columns = zip(
        owners[pair].tolist(),
        geometry.start[begin].tolist(),
        geometry.end[stop - 1].tolist(),
        geometry.page[begin].tolist(),
        low,
        high,
        strict=True,
    )
    for owner, start, end, page, (left, top), (right, bottom) in columns:
        box = Box(page, round(left, 3), round(top, 3), round(right - left, 3), round(bottom - top, 3))
        found[owner].append((start, end, box))
    return found


class PageFinder:
    """Which page holds this character? Pages tile the text."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self._starts = [page.start for page in pages]
        self._numbers = [page.number for page in pages]

    def page_of(self, position: int) -> int:
        if not self._starts:
            return 1
        # A page without text begins where the next one does: the last of them owns the character.
        return self._numbers[max(0, bisect_right(self._starts, position) - 1)]

    def cut(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """The range as (start, end, page), cut where a page ends."""
        parts = []
        while start < end:
            following = bisect_right(self._starts, start)
            stop = min(end, self._starts[following]) if following < len(self._starts) else end
            parts.append((start, stop, self.page_of(start)))
            start = stop
        return parts


def spans_of(
    segment: Range, offset: int, blocks: Sequence[Range], lines: Sequence[Line], pages: PageFinder
) -> list[Span]:
    """The spans of one stretch of the text that stands at `offset` of its chunk, in ascending order.

    One span a line where the words are known; a block without known words (or a format without pages) gets one span
    per page, with no box. `blocks` are the ranges of the blocks the stretch touches, `lines` its lines.
    """
    low, high = segment
    shift = offset - low
    spans = []
    for start, end, box in lines:
        begin, stop = max(start, low), min(end, high)
        if begin < stop:
            spans.append(Span(begin + shift, stop + shift, begin, box.page, box))
    line = 0
    for block_start, block_end in blocks:
        start, end = max(block_start, low), min(block_end, high)
        while line < len(lines) and lines[line][1] <= start:
            line += 1
        if start < end and not (line < len(lines) and lines[line][0] < end):
            spans.extend(Span(a + shift, b + shift, a, page) for a, b, page in pages.cut(start, end))
    spans.sort(key=lambda span: span.start)
    return spans
