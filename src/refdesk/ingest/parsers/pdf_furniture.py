"""Which lines repeat on page after page? Running headers, footers and page numbers go. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from statistics import median

from refdesk.ingest.parsers.pdf_layout import PageDraft
from refdesk.ingest.parsers.pdf_tables import Line

ZONE = 0.13  # of the page's height at top and bottom, where furniture stands
OUTER = 4  # lines from the edge that may be furniture
MIN_REPEATS = 3
SAME_PLACE = 0.015  # of the height
_DIGITS = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(
    r"^[\-–—|\[(•·\s]*(?:(?:page|seite|p\.)\s*)?(\d{1,4}|[ivxlc]{1,6}|[A-Z]-?\d{1,3})(?:\s*(?:of|/|von)\s*\d{1,4})?[\-–—|\])•·\s]*$",
    re.I,
)


def drop_furniture(pages: list[PageDraft]) -> None:
    """Removes running headers, footers and page numbers from the pages' regions."""
    candidates = [_candidates(page) for page in pages]
    repeated = _repeated(candidates, pages)
    numbers = _page_numbers(candidates, pages)
    for index, page in enumerate(pages):
        doomed = repeated[index] | numbers[index]
        if not doomed:
            continue
        left = sum(1 for region in page.regions for item in region if id(item) not in doomed)
        if not left:  # the page would be empty: only bare numbers go
            doomed = numbers[index]
        page.regions = [[item for item in region if id(item) not in doomed] for region in page.regions]
        page.regions = [region for region in page.regions if region]


def _candidates(page: PageDraft) -> list[tuple[Line, str, float]]:
    """Lines at the top and bottom edge: (line, text, lower edge as a share of the height)."""
    lines = sorted(
        (item for region in page.regions for item in region if isinstance(item, Line) and not item.contents),
        key=lambda line: line.top,
    )
    height = page.upright_height or 1.0
    outer = [line for line in lines[:OUTER] if line.bottom < ZONE * height]
    outer += [line for line in lines[-OUTER:] if line.top > (1 - ZONE) * height]
    return [(line, line.text, line.bottom / height) for line in outer]


def _repeated(candidates: list[list[tuple[Line, str, float]]], pages: list[PageDraft]) -> list[set[int]]:
    """Lines with the same words at the same place on several pages near one another."""
    doomed: list[set[int]] = [set() for _ in pages]
    if len(pages) < MIN_REPEATS:
        return doomed
    places: dict[str, list[tuple[int, float, int]]] = defaultdict(list)
    for index, lines in enumerate(candidates):
        for line, text, place in lines:
            places[" ".join(_DIGITS.sub("#", text.lower()).split())].append((index, place, id(line)))
    for key, seen in places.items():
        if len(seen) < MIN_REPEATS or len(key) > 200:
            continue
        middle = median(place for _, place, _ in seen)
        same = [entry for entry in seen if abs(entry[1] - middle) < SAME_PLACE] or seen
        on = sorted({index for index, _, _ in same})
        # Chapter titles alternate with the book's title, so every third page of the stretch is enough.
        if len(on) < MIN_REPEATS or (len(on) < 0.3 * (on[-1] - on[0] + 1) and len(on) < 0.2 * len(pages)):
            continue
        for index, _, line_id in same:
            doomed[index].add(line_id)
    return doomed


def _page_numbers(candidates: list[list[tuple[Line, str, float]]], pages: list[PageDraft]) -> list[set[int]]:
    """Numbers standing alone at the margin that count with the pages (or are all there is to compare)."""
    doomed: list[set[int]] = [set() for _ in pages]
    found: list[tuple[int, int, int, float]] = []  # page, line, offset of the number to the page, place
    for index, lines in enumerate(candidates):
        for line, text, place in lines:
            match = _PAGE_NUMBER.match(text)
            if match:
                value = match.group(1)
                digits = _DIGITS.findall(value)
                offset = int(digits[0]) - index if digits else -1_000_000
                found.append((index, id(line), offset, place))
    offsets: dict[int, int] = defaultdict(int)
    for _, _, offset, _ in found:
        offsets[offset] += 1
    for index, line_id, offset, place in found:
        counts = offsets[offset] > 1 or offset == 1 or str(offset + index) == pages[index].label
        if counts or place < 0.08 or place > 0.92:
            doomed[index].add(line_id)
    return doomed
