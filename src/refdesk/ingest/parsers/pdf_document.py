"""Pages that were read become one document: running lines out, columns, blocks, headings, text. Pure."""

from __future__ import annotations

import re

from refdesk.ingest.parsers.pdf_columns import reading_order
from refdesk.ingest.parsers.pdf_furniture import drop_furniture
from refdesk.ingest.parsers.pdf_grid import ruled_tables
from refdesk.ingest.parsers.pdf_headings import assign_levels
from refdesk.ingest.parsers.pdf_layout import PageDraft, body_size, compose
from refdesk.ingest.parsers.pdf_tables import Item, find_tables
from refdesk.ingest.parsers.pdf_text import page_values, write
from refdesk.types import Block, Parsed

# What US filings print larger than the company's name.
COVER = re.compile(r"^(united states|securities and exchange|washington, d|form \d)", re.I)
MOSTLY = 0.7  # of the letters


def put_together(
    pages: list[PageDraft], format: str, metadata: dict[str, str], title: str, notes: tuple[str, ...]
) -> Parsed:
    """Pages that were read become one document: shared by PDFs and images."""
    drop_furniture(pages)
    _forget_typewriter(pages)
    for page in pages:
        page.regions = page_items(page)
    body = body_size(pages)
    drafts = compose(pages, body)
    headings = [draft for draft in drafts if draft.kind == "heading"]
    texts = [" ".join(line.text for line in draft.lines) for draft in headings]
    levels = assign_levels([(text, draft.first) for text, draft in zip(texts, headings, strict=True)])
    for draft, level in zip(headings, levels, strict=True):
        draft.level = level
    text, blocks, writer, figures = write(drafts, pages)
    return Parsed(
        text,
        page_values(pages, writer),
        blocks,
        format,
        title=title or _first_title(text, blocks, page_end=writer.page_starts.get(2, len(text))),
        metadata=metadata,
        geometry=writer.geometry(),
        figures=figures,
        notes=notes,
    )


def _forget_typewriter(pages: list[PageDraft]) -> None:
    """Where nearly everything is set in one width, that says nothing: it is a typescript, not code."""
    runs = [run for page in pages for group in page.content.runs for run in group]
    letters = sum(run.letters for run in runs)
    if sum(run.letters for run in runs if run.mono) > MOSTLY * letters:
        for run in runs:
            run.mono = False


def page_items(page: PageDraft) -> list[list[Item]]:
    """The columns of a page as lines and tables."""
    regions: list[list[Item]] = []
    words = page.content.words
    for turn, runs in zip(page.content.turns, page.content.runs, strict=True):
        lines = page.frame.upright(page.rulings, turn) if len(page.rulings) else page.rulings
        _, flow = ruled_tables(lines, runs, words)
        regions += [find_tables(region, words) for region in reading_order(flow)]
    for region in regions:
        for item in region:
            item.page = page.number
    return regions


def _first_title(text: str, blocks: tuple[Block, ...], page_end: int) -> str:
    """The first of the largest headings on page 1."""
    headings = [block for block in blocks if block.kind == "heading" and block.start < page_end]
    headings = [block for block in headings if not COVER.match(text[block.start : block.end])]
    if not headings:
        return ""
    best = min(headings, key=lambda block: (block.level, block.start))
    return " ".join(text[best.start : best.end].split())[:300]
