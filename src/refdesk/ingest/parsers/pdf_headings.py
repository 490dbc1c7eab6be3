"""What is a heading, and of which level? By size, weight, capitals, numbering; alike in the whole document. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from refdesk.ingest.parsers.pdf_tables import Line

_DECIMAL = re.compile(r"^(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+\S")
_APPENDIX = re.compile(r"^([A-Z](?:\.\d{1,2}){0,4})\.?\s+[A-Z]\S")
_NAMED = re.compile(
    r"^(part|item|chapter|appendix|section|article|annex|kapitel|teil)\s+([0-9]+[a-z]?|[ivxl]+|[a-z])\b", re.I
)
_DEPTH = {
    "part": 1,
    "teil": 1,
    "chapter": 1,
    "kapitel": 1,
    "appendix": 1,
    "annex": 1,
    "item": 2,
    "article": 2,
    "section": 2,
}

LARGE = 1.13  # × body size
MAX_WORDS = 25
MAX_LEVEL = 6
UNNUMBERED = 3  # where "Item 1." headings exist, plain ones stand below them


def looks_like_heading(group: list[Line], body: float) -> bool:
    """Short, and larger, bolder or numbered differently from the text around it."""
    if len(group) > 3:
        return False
    text = " ".join(line.text for line in group)
    words = text.split()
    letters = sum(character.isalpha() for character in text)
    if letters < 2 or len(words) > MAX_WORDS or len(text) > 220 or letters < 0.4 * len(text.replace(" ", "")):
        return False
    if text[:1] == "(" or (len(group[0].runs) > 1 and _has_gap(group[0]) and not number_depth(text)):
        return False  # units, or titles of columns
    size = group[0].size
    numbered = number_depth(text) > 0
    if text[-1] in ",;" or (text[-1] == "." and not numbered and len(words) > 3):
        return False
    if text[:1].islower():
        return False
    if size >= LARGE * body:
        return len(words) <= MAX_WORDS and not (text[-1] == "." and len(words) > 12)
    if size < 0.93 * body:
        return False
    bold = all(line.bold for line in group)
    if bold:
        return len(group) <= 2 and len(words) <= 20 and not (text[-1] == "." and len(words) > 8)
    named = _NAMED.match(text)
    capitals = text.isupper() and letters >= 4
    if named and (capitals or group[0].runs[0].italic) and len(words) <= 15:
        return True
    return (
        capitals
        and len(group) == 1
        and 1 < len(words) <= 10
        and text[-1] not in ".:"
        and letters > 0.8 * len(text.replace(" ", ""))
    )


def _has_gap(line: Line) -> bool:
    return any(right.left - left.right > 2 * left.size for left, right in pairwise(line.runs))


def number_depth(text: str) -> int:
    """`3.2 Ablation` -> 2, `Item 1A. Risk` -> 2, `PART I` -> 1, `Results` -> 0."""
    named = _NAMED.match(text)
    if named:
        return _DEPTH[named.group(1).lower()]
    decimal = _DECIMAL.match(text)
    if decimal:
        parts = decimal.group(1).split(".")
        return len(parts) if int(parts[0]) <= 40 else 0
    appendix = _APPENDIX.match(text)
    return appendix.group(1).count(".") + 1 if appendix and "." in appendix.group(1) else 0


@dataclass(frozen=True, slots=True, order=True)
class _Style:
    """Sorted from high to low: larger, shallower, in capitals, bold, upright."""

    size: float  # negative, so that larger comes first
    depth: int
    small: bool
    light: bool
    italic: bool


def assign_levels(headings: list[tuple[str, Line]]) -> list[int]:
    """A level from 1 to 6 for each heading; the same style has the same level everywhere."""
    if not headings:
        return []
    sizes = _size_classes([line.size for _, line in headings])
    named = [(match, line) for text, line in headings if (match := _NAMED.match(text)) and line.page > 1]
    largest = max((sizes[line.size] for _, line in named), default=0.0)
    items = {sizes[line.size] for match, line in named if match.group(1).lower() == "item"}
    styles = []
    for text, line in headings:
        size, depth = sizes[line.size], number_depth(text)
        if largest and _NAMED.match(text):  # "PART I" stands above "Item 1." even where it is set smaller
            styles.append(_Style(-max(size, largest), depth, False, False, False))
        else:
            depth = depth or (UNNUMBERED if size in items else 1)
            styles.append(_Style(-size, depth, not text.isupper(), not line.bold, line.main.italic))
    counts = Counter(styles)
    inner = {style for style, (_, line) in zip(styles, headings, strict=True) if line.page > 1}
    # A style used once, or on the first page only, is a stray (a cover): it shares the level of the next smaller style.
    levels: dict[_Style, int] = {}
    level = 1
    for position, style in enumerate(sorted(counts)):
        levels[style] = min(level, MAX_LEVEL)
        if position == 0 or (counts[style] > 1 and (style in inner or not inner)):
            level += 1
    return [levels[style] for style in styles]


def _size_classes(sizes: list[float]) -> dict[float, float]:
    """Sizes within 4 per cent of one another are one: 11.95 and 12.0."""
    classes: dict[float, float] = {}
    current = 0.0
    for size in sorted(set(sizes), reverse=True):
        if not current or size < 0.96 * current:
            current = size
        classes[size] = current
    return classes
