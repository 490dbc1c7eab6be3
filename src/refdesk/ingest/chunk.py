"""Divides a document into chunks that are found and read as a unit. Pure.

Chunking is stated as an optimisation: cut only between sentences, rows and blocks, and choose the cuts whose cost is
least (`split.best_breaks`). The cost grows with the distance from the target size and with what a cut tears apart:

    between two blocks 0 · between list items .03 · inside a paragraph .1 · after "as follows:" .5 ·
    inside a sentence too long for a chunk 2 · after a caption or a header row 3 · after a heading 4

A chunk stays under one heading path (very small neighbouring sections are joined under their parent, see
`split.merge_small`). Tables and figures, and code of some length, stand alone with the headings, the caption, the
remarks and the notes directly beside them; a shorter piece of code is part of the text that explains it. Each chunk
of a long table begins with the header row. A chunk is one unbroken stretch of the text, after that header row.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from refdesk.ingest.split import (
    Atom,
    CountTokens,
    atoms_of,
    best_breaks,
    context_line,
    cut_long_atoms,
    groups_of,
    merge_small,
    middle,
    sections_of,
    tokens_of_parts,
)
from refdesk.text import rows
from refdesk.types import Box, Chunk, Kind, Page, Parsed, Range, Sentence, Span, lines_of

Line = tuple[int, int, Box]  # characters start..end of the document's text, and where they stand


def on_pages(pages: Sequence[Page], start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The range as (start, end, page), cut where a page ends; pages tile the text."""
    # A page without text begins where the next one does: the last of them owns the character.
    first = max(0, bisect_right(pages, start, key=lambda page: page.start) - 1)
    for number in range(first, len(pages)):
        if pages[number].start >= end:
            break
        stop = end if number == len(pages) - 1 else min(end, pages[number].end)
        if start < stop:
            yield start, stop, pages[number].number
        start = stop


def spans_of(
    segment: Range, offset: int, blocks: Sequence[Range], lines: Sequence[Line], pages: Sequence[Page]
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
        if not (line < len(lines) and lines[line][0] < end):
            spans.extend(Span(a + shift, b + shift, a, page) for a, b, page in on_pages(pages, start, end))
    spans.sort(key=lambda span: span.start)
    return spans


SPECIAL_TOKENS = 2  # [CLS] and [SEP]
LONGEST_CONTEXT = 40  # tokens; a sixth of the window of 256
LONGEST_OVERLAP = 40  # tokens of one repeated sentence


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """Sizes in tokens. `maximum` is the embedder's window: text, context line and special tokens together.

    `overlap` whole sentences of the chunk before are repeated, where they are short and fit.
    """

    target: int = 200
    minimum: int = 60
    maximum: int = 256
    overlap: int = 1


@dataclass(frozen=True, slots=True)
class _ChunkDraft:
    """A chunk to be: its atoms, how many of them repeat the chunk before, and the header row that precedes them."""

    atoms: tuple[Atom, ...]
    path: tuple[str, ...]
    context: str
    room: int
    overlap: int = 0
    header: Range | None = None
    tokens: int | None = None  # with the context line; None until counted

    def segments(self) -> list[Range]:
        stretch = (self.atoms[0].start, self.atoms[-1].end)
        return [self.header, stretch] if self.header else [stretch]

    def text(self, whole: str) -> str:
        return "\n".join(whole[start:end] for start, end in self.segments())


def embedded_text(context: str, text: str) -> str:
    """What is embedded and counted against the maximum: the context line, a line break, the text."""
    return f"{context}\n{text}" if context else text


def chunk(
    parsed: Parsed, *, document_id: str, title: str, limits: ChunkLimits, count_tokens: CountTokens
) -> list[Chunk]:
    """Cuts a document into chunks, in reading order; sequence numbers begin at 1.

    "Costs" (heading), "Paper is dear. Ink is not." -> one chunk "Costs\\n\\nPaper is dear. Ink is not." with the
    heading path ("Costs",), the context "Annual report › Costs", three sentences, and a span per printed line.
    """
    atoms = atoms_of(parsed, count_tokens)
    sections = sections_of(parsed)
    sizes = [sum(atom.tokens for block in section.blocks for atom in atoms[block]) for section in sections]
    sections = merge_small(sections, sizes, minimum=limits.minimum, ceiling=limits.target)
    parts = tokens_of_parts(title, sections, count_tokens)
    longest = min(LONGEST_CONTEXT, limits.maximum // 4)
    contexts = [context_line(title, section.path, parts, longest) for section in sections]
    distinct = list(dict.fromkeys(contexts))
    context_tokens = dict(zip(distinct, count_tokens(distinct), strict=True))
    rooms = [max(1, limits.maximum - SPECIAL_TOKENS - context_tokens[context]) for context in contexts]
    cut_long_atoms(parsed.text, sections, atoms, rooms, limits.target, count_tokens)

    drafts: list[_ChunkDraft] = []
    for section, context, room in zip(sections, contexts, rooms, strict=True):
        for group, header in groups_of(parsed, section, atoms, limits.minimum):
            drafts.extend(_cut(parsed, group, header, _ChunkDraft((), section.path, context, room), limits))
    return _chunks(parsed, document_id, _fit(parsed.text, drafts, limits, count_tokens), context_tokens)


# --- drafts ----------------------------------------------------------------------------------------------------------


def _cut(
    parsed: Parsed, atoms: Sequence[Atom], header: Range | None, draft: _ChunkDraft, limits: ChunkLimits
) -> list[_ChunkDraft]:
    """Cuts one group at the cheapest places."""
    header_tokens = 0
    if header:
        header_tokens = sum(atom.tokens for atom in atoms if header[0] <= atom.start < header[1])
        if header_tokens > draft.room // 2:
            header = None  # a header row of 200 columns would leave no room for the rows
    table = next((parsed.blocks[atom.block] for atom in atoms if parsed.blocks[atom.block].header), None)
    is_row = [bool(header and table and header[1] <= a.start < table.end) for a in atoms]
    overlaps = [0 if header else _overlap(parsed, atoms, i, limits) for i in range(len(atoms))]
    if header:
        repeated = [header_tokens if row and i else 0 for i, row in enumerate(is_row)]
    else:
        repeated = [sum(atom.tokens for atom in atoms[i - n : i]) for i, n in enumerate(overlaps)]
    ends = best_breaks(
        [atom.tokens for atom in atoms],
        [atom.cut for atom in atoms],
        repeated,
        target=limits.target,
        minimum=limits.minimum,
        room=draft.room,
        can_drop=header is None,
    )
    drafts = []
    begin = 0
    for end in ends:
        size = sum(atom.tokens for atom in atoms[begin:end])
        again = overlaps[begin] if size + repeated[begin] <= draft.room else 0
        drafts.append(
            replace(
                draft,
                atoms=tuple(atoms[begin - again : end]),
                overlap=again,
                header=header if begin and is_row[begin] else None,
            )
        )
        begin = end
    return drafts


def _overlap(parsed: Parsed, atoms: Sequence[Atom], begin: int, limits: ChunkLimits) -> int:
    """How many atoms before `begin` may be repeated: whole short sentences of paragraphs."""
    if not begin or parsed.blocks[atoms[begin].block].kind != "text":
        return 0
    count = 0
    while count < min(limits.overlap, begin):
        atom = atoms[begin - count - 1]
        if parsed.blocks[atom.block].kind != "text" or not atom.is_whole or atom.tokens > LONGEST_OVERLAP:
            break
        count += 1
    return count


def _fit(text: str, drafts: list[_ChunkDraft], limits: ChunkLimits, count_tokens: CountTokens) -> list[_ChunkDraft]:
    """Counts every draft as it will be embedded, and makes smaller what a tokeniser finds longer than its parts."""
    limit = limits.maximum - SPECIAL_TOKENS
    while new := [draft for draft in drafts if draft.tokens is None]:
        counts = iter(count_tokens([embedded_text(draft.context, draft.text(text)) for draft in new]))
        fitted = []
        for draft in drafts:
            if draft.tokens is not None:
                fitted.append(draft)
                continue
            tokens = next(counts)
            fitted.extend((_smaller(text, draft) if tokens > limit else None) or [replace(draft, tokens=tokens)])
        drafts = fitted
    return drafts


def _smaller(text: str, draft: _ChunkDraft) -> list[_ChunkDraft] | None:
    """The same atoms in less: without the repeated sentences, cut in two, without the header; None when that is all."""
    if draft.overlap:
        return [replace(draft, atoms=draft.atoms[draft.overlap :], overlap=0)]
    if len(draft.atoms) > 1:
        half = len(draft.atoms) // 2
        return [replace(draft, atoms=draft.atoms[:half]), replace(draft, atoms=draft.atoms[half:])]
    if draft.header:
        return [replace(draft, header=None)]
    atom = draft.atoms[0]
    if atom.end - atom.start < 2:
        return None
    half = atom.start + middle(text[atom.start : atom.end])
    end = atom.start + len(text[atom.start : half].rstrip())
    return [replace(draft, atoms=(replace(atom, end=end),)), replace(draft, atoms=(replace(atom, start=half),))]


# --- chunks ----------------------------------------------------------------------------------------------------------


def _chunks(
    parsed: Parsed, document_id: str, drafts: Sequence[_ChunkDraft], context_tokens: Mapping[str, int]
) -> list[Chunk]:
    """Places every draft on its pages: spans and sentences, all looked up at once."""
    headers: dict[Range, list[Range]] = {}
    for header in {draft.header for draft in drafts if draft.header}:
        headers[header] = [(header[0] + a, header[0] + b) for a, b in rows(parsed.text[header[0] : header[1]])]
    segments = [segment for draft in drafts for segment in draft.segments()]
    units = [
        unit
        for draft in drafts
        for unit in [*headers.get(draft.header or (0, 0), []), *((atom.start, atom.end) for atom in draft.atoms)]
    ]
    located: list[list[Line]] = [[] for _ in range(len(segments) + len(units))]
    if parsed.geometry is not None:
        located = lines_of(parsed.geometry, [*segments, *units])
    lines, boxes = iter(located[: len(segments)]), iter(located[len(segments) :])
    blocks = [(block.start, block.end) for block in parsed.blocks]
    ends = [end for _, end in blocks]
    made = []
    for sequence, draft in enumerate(drafts, 1):
        spans = []
        found = []
        offset = 0
        for segment in draft.segments():
            low, high = bisect_left(ends, segment[0] + 1), bisect_left(ends, segment[1]) + 1
            spans.extend(spans_of(segment, offset, blocks[low:high], next(lines), parsed.pages))
            atoms = headers[segment] if segment == draft.header else [(atom.start, atom.end) for atom in draft.atoms]
            for start, end in atoms:
                where = tuple(box for _, _, box in next(boxes))
                page = where[0].page if where else next(on_pages(parsed.pages, start, end))[2]
                found.append(Sentence(start - segment[0] + offset, end - segment[0] + offset, page, where))
            offset += segment[1] - segment[0] + 1
        made.append(
            Chunk(
                document_id,
                sequence,
                _kind(parsed, draft),
                draft.text(parsed.text),
                draft.path,
                # A repeated header row is lent from an earlier page; the chunk stands where its own rows stand.
                tuple(sorted({span.page for span in spans if span.origin >= draft.atoms[0].start})),
                tuple(spans),
                tuple(found),
                (draft.tokens or 0) - context_tokens[draft.context],
                context=draft.context,
                image=_image(parsed, draft),
            )
        )
    return made


def _kind(parsed: Parsed, draft: _ChunkDraft) -> Kind:
    """The kind of its blocks; headings and captions do not count, and a mixture is text."""
    blocks = [parsed.blocks[index] for index in dict.fromkeys(atom.block for atom in draft.atoms)]
    kinds = {block.kind for block in blocks} - {"heading"}
    if not kinds:
        return "heading"
    if alone := kinds & {"table", "figure"}:
        kinds = alone
    return kinds.pop() if len(kinds) == 1 else "text"


def _image(parsed: Parsed, draft: _ChunkDraft) -> str | None:
    for atom in draft.atoms:
        figure = parsed.blocks[atom.block].figure
        if figure is not None:
            return hashlib.sha256(parsed.figures[figure]).hexdigest()
    return None
