"""Which lines and pictures are drawn on a PDF page? Rulings and image boxes in points of the displayed page."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium

from refdesk.ingest.parsers.pdf_page import Floats, Frame, fast

THIN = 2.5  # points: a filled rectangle thinner than this is a line
MAX_SEGMENTS = 3000  # of one path: beyond it is a drawing, not a grid
MAX_PATHS = 20_000  # of one page: a map
MAX_DEPTH = 3  # of forms inside forms

_get_object = fast("FPDFPage_GetObject", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_get_form_object = fast("FPDFFormObj_GetObject", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong)
_get_type = fast("FPDFPageObj_GetType", ctypes.c_int, ctypes.c_void_p)
_get_bounds = fast("FPDFPageObj_GetBounds", ctypes.c_int, *[ctypes.c_void_p] * 5)
_get_matrix = fast("FPDFPageObj_GetMatrix", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_get_draw_mode = fast("FPDFPath_GetDrawMode", ctypes.c_int, *[ctypes.c_void_p] * 3)
_count_segments = fast("FPDFPath_CountSegments", ctypes.c_int, ctypes.c_void_p)
_get_segment = fast("FPDFPath_GetPathSegment", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_get_point = fast("FPDFPathSegment_GetPoint", ctypes.c_int, *[ctypes.c_void_p] * 3)
_segment_type = fast("FPDFPathSegment_GetType", ctypes.c_int, ctypes.c_void_p)
_segment_close = fast("FPDFPathSegment_GetClose", ctypes.c_int, ctypes.c_void_p)

Box4 = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Horizontal and vertical lines, images and shapes: (n, 4) left, top, right, bottom on the displayed page."""

    lines: Floats
    images: Floats
    shapes: Floats  # boxes of all paths: what a drawn figure is made of


class _Scan:
    """One walk over the objects of a page, collecting in page space (left, bottom, right, top)."""

    def __init__(self) -> None:
        self.lines: list[Box4] = []
        self.images: list[Box4] = []
        self.shapes: list[Box4] = []
        self.paths = 0
        self._box = np.zeros(4, np.float32)
        self._matrix = np.zeros(6, np.float32)
        self._mode = np.zeros(2, np.int32)

    def bounds(self, handle: int, form: Any) -> Box4:
        address = self._box.ctypes.data
        _get_bounds(handle, address, address + 4, address + 8, address + 12)
        left, bottom, right, top = self._box.tolist()
        if form is None:
            return left, bottom, right, top
        corners = np.array([[left, bottom, 1], [right, bottom, 1], [left, top, 1], [right, top, 1]]) @ form
        low, high = corners.min(axis=0), corners.max(axis=0)
        return float(low[0]), float(low[1]), float(high[0]), float(high[1])

    def matrix(self, handle: int) -> Any:
        _get_matrix(handle, self._matrix.ctypes.data)
        a, b, c, d, e, f = self._matrix.tolist()
        return np.array([[a, b, 0], [c, d, 0], [e, f, 1]])

    def take(self, handle: int, form: Any, depth: int) -> None:
        kind = _get_type(handle)
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            self.paths += 1
            if self.paths <= MAX_PATHS:
                self._path(handle, form)
        elif kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            self.images.append(self.bounds(handle, form))
        elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < MAX_DEPTH:
            matrix = self.matrix(handle)
            if form is not None:
                matrix = matrix @ form
            for index in range(pdfium.FPDFFormObj_CountObjects(ctypes.cast(handle, pdfium.FPDF_PAGEOBJECT))):
                child = _get_form_object(handle, index)
                if child:
                    self.take(child, matrix, depth + 1)

    def _path(self, handle: int, form: Any) -> None:
        box = self.bounds(handle, form)
        self.shapes.append(box)
        width, height = box[2] - box[0], box[3] - box[1]
        if min(width, height) <= THIN:
            if max(width, height) > 4:
                self.lines.append(box)
            return
        address = self._mode.ctypes.data
        _get_draw_mode(handle, address, address + 4)
        filled, stroked = self._mode.tolist()
        count = _count_segments(handle)
        if (stroked or filled) and 4 <= count <= MAX_SEGMENTS and (stroked or count > 5):
            self._segments(handle, form, count, bool(stroked))

    def _segments(self, handle: int, form: Any, count: int, stroked: bool) -> None:
        """Straight lines of a path; in a filled path each thin rectangle is one line."""
        matrix = self.matrix(handle) if form is None else self.matrix(handle) @ form
        point = np.zeros(2, np.float32)
        address = point.ctypes.data
        figures: list[list[tuple[float, float]]] = []
        for index in range(count):
            segment = _get_segment(handle, index)
            kind = _segment_type(segment)
            if kind == pdfium.FPDF_SEGMENT_BEZIERTO:
                return
            _get_point(segment, address, address + 4)
            x, y = point.tolist()
            across = x * matrix[0, 0] + y * matrix[1, 0] + matrix[2, 0]
            down = x * matrix[0, 1] + y * matrix[1, 1] + matrix[2, 1]
            if kind == pdfium.FPDF_SEGMENT_MOVETO or not figures:
                figures.append([])
            figures[-1].append((across, down))
            if _segment_close(segment):
                figures[-1].append(figures[-1][0])
        for points in figures:
            left, right = min(p[0] for p in points), max(p[0] for p in points)
            bottom, top = min(p[1] for p in points), max(p[1] for p in points)
            if min(right - left, top - bottom) <= THIN:
                self.lines.append((left, bottom, right, top))
            elif stroked:
                for (x0, y0), (x1, y1) in itertools.pairwise(points):
                    if abs(x0 - x1) < 1 or abs(y0 - y1) < 1:
                        self.lines.append((min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)))


def scan_objects(page: Any, frame: Frame) -> Drawn:
    """All rulings and images of a page."""
    handle = ctypes.cast(page.raw, ctypes.c_void_p).value
    scan = _Scan()
    for index in range(pdfium.FPDFPage_CountObjects(page.raw)):
        child = _get_object(handle, index)
        if child and _get_type(child) != pdfium.FPDF_PAGEOBJ_TEXT:
            scan.take(child, None, 0)
    lines, images, shapes = (_displayed(boxes, frame) for boxes in (scan.lines, scan.images, scan.shapes))
    return Drawn(lines, images, shapes)


def _displayed(boxes: list[Box4], frame: Frame) -> Floats:
    table = np.array(boxes, np.float32).reshape(-1, 4)
    return frame.display(table[:, [0, 3, 2, 1]])
