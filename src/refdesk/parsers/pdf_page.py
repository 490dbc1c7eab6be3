"""Reads one PDF page: characters to words to runs, with their positions on the page as displayed.

A *word* is what stands between blanks (in CJK text: one character). A *run* is words on one base line with no wide gap
between them: a line of a paragraph, or one cell of a table row.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium
from numpy.typing import NDArray

from refdesk.parsers.pdf_letters import HYPHENS, is_cjk, texts_of, with_ligatures

Floats = NDArray[np.float32]
Box4 = tuple[float, float, float, float]

CJK = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60"  # letters that need no blanks, in a character class

WIDE_GAP = 1.1  # × font size: wider than the blanks of justified text, narrower than the gap between table cells
NUMBER_GAP = 0.6  # between two amounts: text never sets them side by side, narrow columns do
# Of the font size, above and below the base line: capitals and descenders of the common faces (Helvetica .72/.21,
# Times .68/.22, Courier .63/.16, CJK .76/.21). The ascent in font files is up to .95 and leaves a white strip on top.
ASCENT, DESCENT = 0.76, 0.21
MIN_SIZE = 1.0  # points: smaller is invisible text


def fast(name: str, result: Any, *arguments: Any) -> Any:
    """The same pdfium function with plain integers for pointers: no ctypes object per call, three times as fast."""
    address = ctypes.cast(getattr(pdfium, name), ctypes.c_void_p).value or 0
    return ctypes.CFUNCTYPE(result, *arguments)(address)


_get_loose_box = fast("FPDFText_GetLooseCharBox", ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_get_unicode = fast("FPDFText_GetUnicode", ctypes.c_uint, ctypes.c_void_p, ctypes.c_int)
_get_matrix = fast("FPDFText_GetMatrix", ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_get_font_size = fast("FPDFText_GetFontSize", ctypes.c_double, ctypes.c_void_p, ctypes.c_int)
_get_text_object = fast("FPDFText_GetTextObject", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_get_font = fast("FPDFTextObj_GetFont", ctypes.c_void_p, ctypes.c_void_p)
_get_char_box = fast("FPDFText_GetCharBox", ctypes.c_int, ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 4)
_get_origin = fast(
    "FPDFText_GetCharOrigin", ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
)


@dataclass(frozen=True, slots=True)
class Frame:
    """The visible part of a page and how it is turned; maps page space to points of the displayed page."""

    left: float
    bottom: float
    right: float
    top: float
    rotation: int  # quarter turns clockwise

    @property
    def width(self) -> float:
        return self.top - self.bottom if self.rotation % 2 else self.right - self.left

    @property
    def height(self) -> float:
        return self.right - self.left if self.rotation % 2 else self.top - self.bottom

    def display(self, boxes: Floats) -> Floats:
        """(n, 4) left, top, right, bottom in page space (y upwards) -> the same on the displayed page (y downwards)."""
        left, top, right, bottom = boxes.T
        shown = np.stack((left - self.left, self.top - top, right - self.left, self.top - bottom), axis=1)
        return _turned(shown, self.rotation, self.right - self.left, self.top - self.bottom)

    def upright(self, boxes: Floats, turn: int) -> Floats:
        """Displayed boxes, turned so that text written at `turn` quarter turns clockwise reads from left to right."""
        return _turned(boxes, -turn, self.width, self.height)


def _turned(boxes: Floats, turns: int, width: float, height: float) -> Floats:
    """Boxes on a sheet of this size after so many quarter turns clockwise."""
    left, top, right, bottom = boxes.T
    if turns % 4 == 1:
        return np.stack((height - bottom, left, height - top, right), axis=1)
    if turns % 4 == 2:
        return np.stack((width - right, height - bottom, width - left, height - top), axis=1)
    return np.stack((top, width - right, bottom, width - left), axis=1) if turns % 4 else boxes


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of one page in content order, as columns: ten thousand pages are held at once."""

    text: list[str]
    glued: bytes  # 1: no blank before it
    hyphen: bytes  # 1: ended with a line-end hyphen, which is not in `text`
    edges: Floats  # (n, 4) left, top, right, bottom in per cent of the displayed page
    spans: Floats  # (n, 2) left and right in points of the page turned upright, as in `WordRun`

    def __len__(self) -> int:
        return len(self.text)


@dataclass(slots=True, eq=False)
class WordRun:
    """Words `first..last` on one base line; edges in points of the page turned so that this text is upright."""

    first: int
    last: int
    left: float
    top: float
    right: float
    bottom: float
    size: float
    letters: int = 0
    words: int = 0
    digits: int = 0
    bold: bool = False
    mono: bool = False
    italic: bool = False
    right_to_left: bool = False
    figure: bytes | None = None  # the picture this run is the caption of
    table: Any = None  # a ruled table standing in the flow of the text as one item

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def width(self) -> float:
        return self.right - self.left


@dataclass(slots=True, eq=False)
class PageContent:
    """The words of a page and its runs by direction: `runs[0]` is the main direction, turned upright."""

    words: Words
    runs: list[list[WordRun]] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)  # quarter turns of each group of runs
    characters: int = 0
    unreadable: int = 0  # characters without a meaning: no Unicode value, control codes, private use


@dataclass(slots=True, eq=False)
class PageDraft:
    """One page: its words and runs as read, and the lines drawn on it."""

    number: int
    width: float
    height: float
    content: PageContent
    frame: Frame
    rulings: Floats = field(default_factory=lambda: np.empty((0, 4), np.float32))
    label: str = ""
    ocr: bool = False


_SPACES = np.array([0xA0, 0x1680, *range(0x2000, 0x200C), 0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF])
_AMOUNT = re.compile(r"^[($€£]*\d[\d,.]*[)%]*$|^[$€£]$|^[—–]%?$")
CURRENCIES = frozenset("$€£¥")
_CLUSTER = re.compile(
    r"[^\u064b-\u065f\u0670\u05b0-\u05c7][\u064b-\u065f\u0670\u05b0-\u05c7]*|."
)  # a letter with its marks


def text_of(runs: list[WordRun], words: Words) -> str:
    parts: list[str] = []
    for run in runs:
        for index in range(run.first, run.last):
            if parts and not (words.glued[index] and index > run.first):
                parts.append(" ")
            parts.append(words.text[index])
            if words.hyphen[index]:
                parts.append("-")
    return "".join(parts)


def no_text(unreadable: int = 0) -> PageContent:
    nothing = np.empty((0, 4), np.float32)
    return PageContent(Words([], b"", b"", nothing, nothing[:, :2]), unreadable=unreadable)


def frame_of(page: Any) -> Frame:
    left, bottom, right, top = page.get_bbox()
    return Frame(left, bottom, right, top, (page.get_rotation() // 90) % 4)


def read_page(text_page: Any, frame: Frame) -> PageContent:
    """All words and runs of one page."""
    handle = ctypes.cast(text_page.raw, ctypes.c_void_p).value
    count = pdfium.FPDFText_CountChars(text_page.raw)
    if count <= 0 or frame.width <= 0 or frame.height <= 0:
        return no_text()
    codes = _codes(text_page.raw, handle, count)
    boxes = np.zeros((count + 1, 4), np.float32)
    address = boxes.ctypes.data
    for index in range(count):
        _get_loose_box(handle, index, address + index * 16)
    boxes = frame.display(boxes)
    codes = with_ligatures(codes, boxes[:-1, 2] - boxes[:-1, 0])
    starts, ends, lines, unreadable = _word_ranges(codes, boxes, frame)
    if not len(starts):
        return no_text(unreadable)
    return _page_text(handle, codes, boxes, starts, ends, lines, frame, unreadable)


def _codes(text_page: Any, handle: int | None, count: int) -> NDArray[np.uint32]:
    """The Unicode value of every character, index for index with the boxes."""
    buffer = np.zeros(count * 2 + 2, np.uint16)
    pointer = buffer.ctypes.data_as(ctypes.POINTER(ctypes.c_ushort))
    written = pdfium.FPDFText_GetText(text_page, 0, count, pointer) - 1
    if written == count:
        return buffer[:count].astype(np.uint32)
    # pdfium leaves characters without a Unicode value out of the text: ask one by one.
    return np.array([_get_unicode(handle, index) for index in range(count)], np.uint32)


def _word_ranges(
    codes: NDArray[np.uint32], boxes: Floats, frame: Frame
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], int]:
    """Character ranges of the words, pdfium's line number of each, and how many characters mean nothing."""
    inner = boxes[:-1]
    across, down = (inner[:, 0] + inner[:, 2]) / 2, (inner[:, 1] + inner[:, 3]) / 2
    visible = (across >= -1) & (across <= frame.width + 1) & (down >= -1) & (down <= frame.height + 1)
    hyphen = np.isin(codes, HYPHENS)
    # pdfium ends lines with 13 and 10; every other control code is the number of a glyph, not a letter.
    control = ((codes < 32) & ~np.isin(codes, (2, 9, 10, 13))) | ((codes >= 0x7F) & (codes < 0xA0))
    meaningless = control | (codes == 0xFFFD) | ((codes >= 0xE000) & (codes <= 0xF8FF)) | (codes >= 0xF0000)
    blank = ((codes <= 32) & ~hyphen) | np.isin(codes, _SPACES) | ~visible
    # A generated hyphen mark has an empty box; it belongs to the word before it.
    empty = ((inner[:, 2] - inner[:, 0]) * (inner[:, 3] - inner[:, 1]) == 0) & ~hyphen
    blank |= empty & (codes < 0x300)  # combining marks may have no width
    cjk = is_cjk(codes)
    before_blank = np.concatenate(([True], blank[:-1]))
    before_cjk = np.concatenate(([False], cjk[:-1]))
    height = np.minimum(inner[:, 3] - inner[:, 1], inner[:, 2] - inner[:, 0] + 1e3)
    jump = np.zeros(len(codes), bool)
    shift = np.minimum(np.abs(np.diff(down)), np.abs(np.diff(across)))
    jump[1:] = (shift > 0.7 * np.maximum(height[1:], height[:-1])) & ~hyphen[1:]
    # pdfium gives `exam<hyphen mark>ple` without a line break: the mark ends a word.
    after_hyphen = np.concatenate(([False], hyphen[:-1]))
    begins = ~blank & (before_blank | cjk | before_cjk | jump | after_hyphen) & ~(hyphen & ~before_blank)
    starts = np.flatnonzero(begins)
    stops = np.flatnonzero(np.concatenate((begins[1:] | blank[1:], [True])) & ~blank) + 1
    lines = np.cumsum((codes == 10) | (codes == 13) | jump)[starts] if len(starts) else starts
    return starts, stops, lines, int((meaningless & visible).sum())


def _page_text(
    handle: int | None,
    codes: NDArray[np.uint32],
    boxes: Floats,
    starts: NDArray[np.intp],
    ends: NDArray[np.intp],
    lines: NDArray[np.intp],
    frame: Frame,
    unreadable: int,
) -> PageContent:
    pairs = np.stack((starts, ends), axis=1).ravel()
    low = np.minimum.reduceat(boxes[:, :2], pairs)[::2]
    high = np.maximum.reduceat(boxes[:, 2:], pairs)[::2]
    edges = np.concatenate((low, high), axis=1)
    sizes, turns, styles, origins = _styles(handle, starts.tolist(), frame)
    _level_heights(handle, starts, edges, sizes, turns, origins)
    text, hyphens = texts_of(codes, starts, ends)
    # Rows above 0x590..0x8FF are Hebrew, Arabic and their neighbours.
    first_codes = codes[starts]
    rtl = ((first_codes >= 0x590) & (first_codes <= 0x8FF)) | ((first_codes >= 0xFB1D) & (first_codes <= 0xFEFC))
    along = np.where(turns % 2, boxes[ends - 1, 1] - boxes[starts, 1], boxes[ends - 1, 0] - boxes[starts, 0])
    _restore_order(text, rtl, np.where(turns >= 2, -along, along))
    previous_blank = np.ones(len(starts), bool)
    previous_blank[1:] = (starts[1:] != ends[:-1]) & ~_torn(text, starts, ends, boxes, edges, sizes)
    scale = np.array([frame.width, frame.height, frame.width, frame.height], np.float32) / 100
    percent = np.clip(edges / scale, 0, 100).astype(np.float32)
    keep = np.array([bool(word) for word in text]) & (sizes >= MIN_SIZE)
    spans = np.zeros((len(starts), 2), np.float32)
    words = Words(text, (~previous_blank).astype(np.uint8).tobytes(), bytes(hyphens), percent, spans)
    page = PageContent(words, characters=int((ends - starts)[keep].sum()), unreadable=unreadable)
    weight = np.bincount(turns[keep], weights=(ends - starts)[keep], minlength=4) if keep.any() else np.zeros(4)
    for turn in np.argsort(-weight, kind="stable").tolist():
        chosen = np.flatnonzero(keep & (turns == turn))
        if len(chosen):
            upright = frame.upright(edges[chosen], turn)
            spans[chosen] = upright[:, [0, 2]]
            page.runs.append(_runs(chosen, upright, lines[chosen], sizes[chosen], styles, rtl[chosen], words))
            page.turns.append(turn)
    return page


def _restore_order(text: list[str], rtl: NDArray[np.bool_], along: Floats) -> None:
    """Right-to-left words whose last character does not stand left of the first were stored as seen: turned round."""
    for index in np.flatnonzero(rtl & (along >= 0)).tolist():
        text[index] = "".join(reversed(_CLUSTER.findall(text[index])))


def _torn(
    text: list[str], starts: NDArray[np.intp], ends: NDArray[np.intp], boxes: Floats, edges: Floats, sizes: Floats
) -> NDArray[np.bool_]:
    """`Busines` + `s`: a last letter set apart by a link, where pdfium saw a blank that is not in the file."""
    torn = np.zeros(len(starts) - 1, bool)
    gap = edges[1:, 0] - edges[:-1, 2]
    near = (starts[1:] - ends[:-1] == 1) & (gap > -0.5) & (gap < 0.18 * sizes[1:]) & (ends[1:] - starts[1:] == 1)
    for index in np.flatnonzero(near).tolist():
        blank = boxes[ends[index]]
        generated = blank[0] == blank[2]
        torn[index] = generated and text[index + 1].islower() and text[index + 1] != "a" and text[index][-1:].islower()
    return torn


def _styles(
    handle: int | None, starts: list[int], frame: Frame
) -> tuple[Floats, NDArray[np.intp], list[tuple[bool, bool, bool]], Floats]:
    """Font size, quarter turns on the displayed page, (bold, mono, italic) and start of the base line of each word."""
    matrices = np.zeros((len(starts), 6), np.float32)
    address = matrices.ctypes.data
    points = np.zeros((len(starts), 2), np.float64)
    point = points.ctypes.data
    sizes = np.empty(len(starts), np.float32)
    styles: list[tuple[bool, bool, bool]] = []
    fonts: dict[int, tuple[bool, bool, bool]] = {}
    for index, start in enumerate(starts):
        _get_matrix(handle, start, address + index * 24)
        _get_origin(handle, start, point + index * 16, point + index * 16 + 8)
        sizes[index] = _get_font_size(handle, start)
        text_object = _get_text_object(handle, start)
        font = (_get_font(text_object) if text_object else 0) or 0
        style = fonts.get(font)
        if style is None:
            style = fonts[font] = _font_style(font) if font else (False, False, False)
        styles.append(style)
    scale = np.hypot(matrices[:, 2], matrices[:, 3])
    angle = np.arctan2(-matrices[:, 1], matrices[:, 0])  # clockwise
    turns = (np.round(angle / (math.pi / 2)).astype(np.intp) + frame.rotation) % 4
    origins = frame.display(points[:, [0, 1, 0, 1]].astype(np.float32))[:, :2]
    return sizes * np.where(scale > 0, scale, 1), turns, styles, origins


def _font_style(font: int) -> tuple[bool, bool, bool]:
    handle = ctypes.cast(font, pdfium.FPDF_FONT)
    buffer = ctypes.create_string_buffer(256)
    length = pdfium.FPDFFont_GetBaseFontName(handle, buffer, 256)
    name = buffer.raw[: max(0, min(length, 256) - 1)].decode("utf-8", "replace").lower()
    flags = pdfium.FPDFFont_GetFlags(handle)
    weight = pdfium.FPDFFont_GetWeight(handle)
    bold = any(part in name for part in ("bold", "black", "heavy", "-demi", "cmbx")) or weight >= 600
    mono = any(part in name for part in ("mono", "courier", "consol", "cmtt", "menlo", "typewriter"))
    italic = "italic" in name or "oblique" in name or (flags > 0 and bool(flags & 64))
    return bold, mono, italic


def _level_heights(
    handle: int | None, starts: NDArray[np.intp], edges: Floats, sizes: Floats, turns: NDArray[np.intp], origins: Floats
) -> None:
    """Every word reaches from ASCENT above to DESCENT below its base line: fonts lie about theirs."""
    vertical = turns % 2 == 1
    heights = np.where(vertical, edges[:, 2] - edges[:, 0], edges[:, 3] - edges[:, 1])
    box = np.zeros(4, np.float64)
    address = box.ctypes.data
    for index in np.flatnonzero(heights > 1.9 * sizes).tolist():
        # A Type 3 font may have any size: then its glyphs are larger than the size says, and the glyph is believed.
        _get_char_box(handle, int(starts[index]), address, address + 8, address + 16, address + 24)
        left, right, bottom, top = box.tolist()
        tall = right - left if vertical[index] else top - bottom
        if tall > 1.2 * sizes[index]:
            sizes[index] = heights[index]
    across, down = origins.T
    above, below = ASCENT * sizes, DESCENT * sizes
    for turn, side, base, first, second in (
        (0, 1, down, above, below),
        (2, 1, down, below, above),
        (1, 0, across, below, above),
        (3, 0, across, above, below),
    ):
        chosen = (turns == turn) & (sizes >= MIN_SIZE)
        edges[chosen, side] = (base - first)[chosen]
        edges[chosen, side + 2] = (base + second)[chosen]


def _runs(
    chosen: NDArray[np.intp],
    upright: Floats,
    lines: NDArray[np.intp],
    sizes: Floats,
    styles: list[tuple[bool, bool, bool]],
    rtl: NDArray[np.bool_],
    words: Words,
) -> list[WordRun]:
    """Words that follow one another on a base line without a wide gap."""
    left, top, right, bottom = upright.T
    middle = (top + bottom) / 2
    size = np.maximum(sizes[1:], sizes[:-1])
    gap = np.maximum(left[1:] - right[:-1], left[:-1] - right[1:])
    apart = np.abs(np.diff(middle)) > 0.6 * np.maximum(bottom - top, 1)[1:]
    breaks = (np.diff(lines) != 0) | (np.diff(chosen) != 1) | (gap > WIDE_GAP * size) | apart
    for index in np.flatnonzero(~breaks & (gap > NUMBER_GAP * size)).tolist():
        pair = words.text[chosen[index]], words.text[chosen[index + 1]]
        breaks[index] = all(_AMOUNT.match(word) for word in pair)
    signs = [index for index, word in enumerate(chosen[1:].tolist()) if words.text[word] in CURRENCIES]
    for index in signs:  # "3 % $ 5" are two columns however near
        breaks[index] |= _AMOUNT.match(words.text[chosen[index]]) is not None or words.text[chosen[index]] == "%"
    # Words on one line that jump back to the left belong to another cell, unless the script runs that way.
    breaks |= (left[1:] < left[:-1] - size) & ~(rtl[1:] | rtl[:-1])
    starts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    stops = np.append(starts[1:], len(chosen))
    low = np.minimum.reduceat(upright[:, :2], starts)
    high = np.maximum.reduceat(upright[:, 2:], starts)
    runs = []
    for row, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        first, last = int(chosen[start]), int(chosen[stop - 1]) + 1
        letters = [len(words.text[index]) for index in range(first, last)]
        total = sum(letters)
        bold, mono, italic = (
            sum(length for length, style in zip(letters, styles[first:last], strict=True) if style[kind]) > 0.7 * total
            for kind in range(3)
        )
        x0, y0 = low[row].tolist()
        x1, y1 = high[row].tolist()
        dominant = start + letters.index(max(letters))
        runs.append(
            WordRun(first, last, x0, y0, x1, y1, float(sizes[dominant]), total, stop - start,
                sum(map(str.isdigit, "".join(words.text[first:last]))), bold, mono, italic,
                bool(rtl[start:stop].mean() > 0.5))
        )  # fmt: skip
    return runs


# --- what is drawn on a page: rulings, pictures and shapes in points of the displayed page ----------------------------

THIN = 2.5  # points: a filled rectangle thinner than this is a line
MAX_SEGMENTS = 3000  # of one path: beyond it is a drawing, not a grid
MAX_PATHS = 20_000  # of one page: a map
MAX_DEPTH = 3  # of forms inside forms

_get_object = fast("FPDFPage_GetObject", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_get_form_object = fast("FPDFFormObj_GetObject", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong)
_get_type = fast("FPDFPageObj_GetType", ctypes.c_int, ctypes.c_void_p)
_get_bounds = fast("FPDFPageObj_GetBounds", ctypes.c_int, *[ctypes.c_void_p] * 5)
_get_object_matrix = fast("FPDFPageObj_GetMatrix", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_get_draw_mode = fast("FPDFPath_GetDrawMode", ctypes.c_int, *[ctypes.c_void_p] * 3)
_count_segments = fast("FPDFPath_CountSegments", ctypes.c_int, ctypes.c_void_p)
_get_segment = fast("FPDFPath_GetPathSegment", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_get_point = fast("FPDFPathSegment_GetPoint", ctypes.c_int, *[ctypes.c_void_p] * 3)
_segment_type = fast("FPDFPathSegment_GetType", ctypes.c_int, ctypes.c_void_p)
_segment_close = fast("FPDFPathSegment_GetClose", ctypes.c_int, ctypes.c_void_p)


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
        _get_object_matrix(handle, self._matrix.ctypes.data)
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
        stroked = int(self._mode[1])
        count = _count_segments(handle)
        if 4 <= count <= MAX_SEGMENTS and (stroked or count > 5):
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
    found = (np.array(boxes, np.float32).reshape(-1, 4) for boxes in (scan.lines, scan.images, scan.shapes))
    return Drawn(*(frame.display(boxes[:, [0, 3, 2, 1]]) for boxes in found))
