"""Where do these characters stand on the page? Boxes in per cent of the page as displayed, origin top left.

Pure. Words are kept as columns, not as objects: a filing of 600 pages has 300,000 of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Box(NamedTuple):
    """`{page, x, y, width, height}` in per cent of the displayed page (0–100), rotation and crop applied.

    A tuple, because a search makes hundreds of them and a frozen dataclass takes three times as long.
    """

    page: int
    x: float
    y: float
    width: float
    height: float

    def to_dict(self) -> dict[str, float]:
        return self._asdict()


@dataclass(frozen=True, eq=False, slots=True)
class Geometry:
    """The words of a document in the order of its text: character range, page, line and edges of each.

    Words of one line share a `line` number; numbers rise with the text and never repeat on another line.
    """

    start: NDArray[np.int32]
    end: NDArray[np.int32]
    page: NDArray[np.int32]
    line: NDArray[np.int32]
    edges: NDArray[np.float32]  # (words, 4): left, top, right, bottom in per cent of the page

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def from_rows(rows: list[tuple[int, int, int, int, float, float, float, float]]) -> Geometry:
        """Rows of (start, end, page, line, left, top, right, bottom)."""
        table = np.array(rows, dtype=np.float64).reshape(-1, 8)
        whole = table[:, :4].astype(np.int32)
        return Geometry(whole[:, 0], whole[:, 1], whole[:, 2], whole[:, 3], table[:, 4:].astype(np.float32))


def lines_between(geometry: Geometry, start: int, end: int) -> list[tuple[int, int, Box]]:
    """The lines that hold characters `start..end`, as (start, end, box), clipped to whole words.

    A sentence that begins in the middle of a line gets a box that begins there too.
    """
    first = int(np.searchsorted(geometry.end, start, side="right"))
    last = int(np.searchsorted(geometry.start, end, side="left"))
    if first >= last:
        return []
    lines = geometry.line[first:last]
    breaks = np.flatnonzero(np.diff(lines)) + 1
    starts = np.concatenate(([0], breaks))
    edges = geometry.edges[first:last]
    low = np.minimum.reduceat(edges[:, :2], starts)
    high = np.maximum.reduceat(edges[:, 2:], starts)
    ends = np.append(breaks, last - first)
    found = []
    for row, (begin, stop) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        left, top = low[row].tolist()
        right, bottom = high[row].tolist()
        box = Box(
            int(geometry.page[first + begin]),
            round(left, 3),
            round(top, 3),
            round(right - left, 3),
            round(bottom - top, 3),
        )
        found.append((int(geometry.start[first + begin]), int(geometry.end[first + stop - 1]), box))
    return found


def boxes_between(geometry: Geometry, start: int, end: int) -> tuple[Box, ...]:
    """One box per line that holds characters `start..end`."""
    return tuple(box for _, _, box in lines_between(geometry, start, end))
