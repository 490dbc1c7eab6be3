"""Which captions belong to a picture? Crops the picture above or below a line that begins "Figure 3"."""

from __future__ import annotations

import io
import re
from typing import Any

from refdesk.ingest.parsers.pdf_objects import Drawn
from refdesk.ingest.parsers.pdf_page import Floats, Frame, Run, Words
from refdesk.ingest.parsers.pdf_tables import text_of

_CAPTION = re.compile(
    r"^(figure|fig\.?|abbildung|abb\.|figura|chart|exhibit|図|图)\s*[0-9A-Z]{1,3}([.\-][0-9]+)?\b", re.I
)

MAX_WIDTH = 1200  # pixels of a crop
MAX_HEIGHT = 1800
MAX_BYTES = 64 << 20  # of all crops of one document
MIN_SIDE = 40.0  # points: smaller pictures are icons
NEAR = 40.0  # points between a picture and its caption
SCALE = 2.0  # 144 dpi


def attach_figures(page: Any, frame: Frame, drawn: Drawn, runs: list[Run], words: Words, used: int) -> int:
    """Gives each caption the PNG of its picture; returns how many bytes the pictures take."""
    captions = [run for run in runs if _CAPTION.match(text_of([run], words))]
    boxes = _pictures(drawn.images, frame) if captions else []
    total = 0
    for run in captions:
        box = _nearest(run, boxes)
        if box is None or used + total > MAX_BYTES:
            continue
        boxes.remove(box)
        run.figure = _crop(page, frame, box)
        total += len(run.figure)
    return total


def _pictures(images: Floats, frame: Frame) -> list[tuple[float, float, float, float]]:
    """Boxes of the images on the page; parts that touch are one picture, and full-page backgrounds are none."""
    boxes: list[tuple[float, float, float, float]] = []
    for left, top, right, bottom in images[:400].tolist():
        box = (max(left, 0.0), max(top, 0.0), min(right, frame.width), min(bottom, frame.height))
        if box[2] - box[0] < 4 or box[3] - box[1] < 4:
            continue
        if (box[2] - box[0]) * (box[3] - box[1]) > 0.9 * frame.width * frame.height:
            continue
        touching = [
            b for b in boxes if b[0] <= box[2] + 3 and box[0] <= b[2] + 3 and b[1] <= box[3] + 3 and box[1] <= b[3] + 3
        ]
        for other in touching:
            boxes.remove(other)
            box = (min(box[0], other[0]), min(box[1], other[1]), max(box[2], other[2]), max(box[3], other[3]))
        boxes.append(box)
    return [box for box in boxes if box[2] - box[0] >= MIN_SIDE and box[3] - box[1] >= MIN_SIDE]


def _nearest(line: Run, boxes: list[tuple[float, float, float, float]]) -> tuple[float, float, float, float] | None:
    """The picture right above the caption, else the one right below it."""
    best, distance = None, NEAR
    for box in boxes:
        if min(box[2], line.right) - max(box[0], line.left) <= 0:
            continue
        gap = line.top - box[3] if line.top >= box[3] - 6 else 1.5 * (box[1] - line.bottom)
        if -6 <= gap < distance:
            best, distance = box, gap
    return best


def _crop(page: Any, frame: Frame, box: tuple[float, float, float, float]) -> bytes:
    left, top, right, bottom = box
    scale = min(SCALE, MAX_WIDTH / (right - left), MAX_HEIGHT / (bottom - top))
    # pypdfium2 takes what to cut off each side of the displayed page, in its points: left, bottom, right, top.
    crop = (max(left, 0), max(frame.height - bottom, 0), max(frame.width - right, 0), max(top, 0))
    bitmap = page.render(scale=scale, crop=crop)
    try:
        image = bitmap.to_pil().convert("RGB")
        buffer = io.BytesIO()
        image.save(buffer, "PNG", optimize=False)
    finally:
        bitmap.close()
    return buffer.getvalue()
