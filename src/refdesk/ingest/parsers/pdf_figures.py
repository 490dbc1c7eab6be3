"""Which captions belong to a picture? Crops the picture above or below a line that begins "Figure 3"."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from refdesk.ingest.parsers.pdf_objects import Drawn
from refdesk.ingest.parsers.pdf_page import Floats, Frame, Run, Words
from refdesk.ingest.parsers.pdf_tables import text_of

Box4 = tuple[float, float, float, float]

# "Figure 3: …", "Fig. 2 The wall", not "Figure 3 shows".
_CAPTION = re.compile(
    r"^(?i:figure|fig\.?|abbildung|abb\.|figura|chart|図|图)\s*(\d{1,3}|[A-Z]{1,2}\d{0,2}|[IVX]+)([.\-]\d+)*[a-z]?"
    r"(\s*[:.|–—\-)]|\s*$|\s+[^\Wa-z_])"
)

MIN_SHAPES = 6  # lines and curves: fewer are rules and boxes around text
MAX_SHAPES = 5000
BLANK = 24.0  # points without a shape: the drawing ends
MARGIN = 8.0  # points around a drawing, for the labels at its edge
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
        box = _nearest(run, boxes) or _drawing(run, drawn.shapes, frame)
        if box is None or used + total > MAX_BYTES:
            continue
        if box in boxes:
            boxes.remove(box)
        run.figure = _crop(page, frame, box)
        total += len(run.figure)
    return total


def _drawing(caption: Run, shapes: Floats, frame: Frame) -> Box4 | None:
    """A figure made of lines: the shapes above the caption, from the nearest upwards until a blank."""
    if not MIN_SHAPES <= len(shapes) <= MAX_SHAPES:
        return None
    inside = (
        (shapes[:, 3] <= caption.top + 6) & (shapes[:, 1] >= 0) & (shapes[:, 2] - shapes[:, 0] < 0.95 * frame.width)
    )
    beside = (shapes[:, 0] < caption.right + NEAR) & (shapes[:, 2] > caption.left - NEAR)
    found = shapes[inside & beside]
    top = caption.top
    members: list[tuple[float, float, float, float]] = []
    for left, upper, right, lower in found[np.argsort(-found[:, 3])].tolist():
        if top - lower > (BLANK if members else NEAR):
            break
        top = min(top, upper)
        members.append((left, upper, right, lower))
    if len(members) < MIN_SHAPES:
        return None
    box = (
        max(0.0, min(m[0] for m in members) - MARGIN),
        max(0.0, top - MARGIN),
        min(frame.width, max(m[2] for m in members) + MARGIN),
        max(m[3] for m in members) + MARGIN,
    )
    return box if min(box[2] - box[0], box[3] - box[1]) >= 1.5 * MIN_SIDE else None


def _pictures(images: Floats, frame: Frame) -> list[Box4]:
    """Boxes of the images on the page; parts that touch are one picture, and full-page backgrounds are none."""
    boxes: list[Box4] = []
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


def _nearest(line: Run, boxes: list[Box4]) -> Box4 | None:
    """The picture right above the caption, else the one right below it."""
    best, distance = None, NEAR
    for box in boxes:
        if min(box[2], line.right) - max(box[0], line.left) <= 0:
            continue
        gap = line.top - box[3] if line.top >= box[3] - 6 else 1.5 * (box[1] - line.bottom)
        if -6 <= gap < distance:
            best, distance = box, gap
    return best


def _crop(page: Any, frame: Frame, box: Box4) -> bytes:
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
