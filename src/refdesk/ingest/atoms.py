"""What is never cut apart, and what may share a chunk? Sentences, rows, headings; captions with tables. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from refdesk.ingest.breaks import CountTokens, cut_long, weight
from refdesk.ingest.headings import Section
from refdesk.text import items, rows, sentences
from refdesk.types import Block, Parsed, Range

LONGEST_CAPTION = 60  # tokens; a longer paragraph is not a caption
LONGEST_REMARK = 30  # tokens; "(Unaudited)" above a table or "See the accompanying notes." below is no chunk of its own

CUT_ITEM, CUT_SENTENCE, CUT_INTRODUCTION, CUT_PIECE, CUT_CAPTION, CUT_HEADING = 0.03, 0.1, 0.5, 2.0, 3.0, 4.0

_NAMES = (
    r"table|figure|fig\.?|exhibit|chart|listing|plate|scheme|graph|tabelle|abbildung|abb\.?|tableau|tabla|cuadro|figura"
)
_CAPTION = re.compile(rf"(?:{_NAMES})\s*[\dIVXA-Z]|[表图圖図]\s*\d", re.IGNORECASE)
_NOTE = re.compile(r"(?:sources?|notes?|quelle|fuente)\s*[:.]|\(\w{1,2}\)\s|[*†‡]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Atom:
    """What is never cut: a sentence, a row, a heading, or a piece of a sentence too long for a chunk."""

    start: int
    end: int
    tokens: int
    block: int
    cut: float  # what a cut after it costs
    is_whole: bool = True


# --- atoms -----------------------------------------------------------------------------------------------------------


def ranges_of(block: Block, text: str) -> list[Range]:
    """The ranges inside a block's text that are cited and never cut: its sentences, rows or items."""
    if block.kind == "heading":
        stripped = text.strip()
        start = text.find(stripped)
        return [(start, start + len(stripped))] if stripped else []
    if block.kind in ("table", "code", "toc"):
        return rows(text)
    return items(text) if block.kind in ("list", "glossary") else sentences(text)


def atoms_of(parsed: Parsed, count_tokens: CountTokens) -> list[list[Atom]]:
    """The atoms of each block, all counted in one batch."""
    ranges = [ranges_of(block, parsed.text[block.start : block.end]) for block in parsed.blocks]
    texts = [
        parsed.text[block.start + start : block.start + end]
        for block, found in zip(parsed.blocks, ranges, strict=True)
        for start, end in found
    ]
    counts = iter(count_tokens(texts))
    atoms: list[list[Atom]] = []
    for index, (block, found) in enumerate(zip(parsed.blocks, ranges, strict=True)):
        inside = {"table": 0.0, "list": CUT_ITEM, "toc": CUT_ITEM}.get(block.kind, CUT_SENTENCE)
        atoms.append(
            [Atom(block.start + a, block.start + b, weight(next(counts), b - a), index, inside) for a, b in found]
        )
        if not found:
            continue
        last = atoms[-1][-1]
        ends_open = parsed.text[last.end - 1] in ":："
        cut = CUT_HEADING if block.kind == "heading" else CUT_INTRODUCTION if ends_open else 0.0
        atoms[-1][-1] = replace(last, cut=cut)
        if block.header:
            atoms[-1][:] = [
                replace(atom, cut=CUT_CAPTION) if atom.end <= block.header[1] else atom for atom in atoms[-1]
            ]
    return atoms


def cut_long_atoms(
    text: str,
    sections: Sequence[Section],
    atoms: list[list[Atom]],
    rooms: Sequence[int],
    target: int,
    count_tokens: CountTokens,
) -> None:
    """Replaces each atom that fits in no chunk by pieces of about the target size."""
    long = [
        (block, atom, min(room, target))
        for section, room in zip(sections, rooms, strict=True)
        for block in section.blocks
        for atom in atoms[block]
        if atom.tokens > room
    ]
    if not long:
        return
    pieces = cut_long([text[atom.start : atom.end] for _, atom, _ in long], [size for *_, size in long], count_tokens)
    texts = [
        text[a.start + low : a.start + high] for (_, a, _), cuts in zip(long, pieces, strict=True) for low, high in cuts
    ]
    counts = iter(count_tokens(texts))
    parts: dict[int, list[Atom]] = {}
    for (block, atom, _), cuts in zip(long, pieces, strict=True):
        made = [
            Atom(atom.start + low, atom.start + high, weight(next(counts), high - low), block, CUT_PIECE, False)
            for low, high in cuts
        ]
        made[-1] = replace(made[-1], cut=atom.cut)
        parts[atom.start] = made
    for block in {block for block, *_ in long}:
        atoms[block] = [part for atom in atoms[block] for part in parts.get(atom.start, [atom])]


# --- groups: what may share a chunk ----------------------------------------------------------------------------------


def groups_of(
    parsed: Parsed, section: Section, atoms: Sequence[Sequence[Atom]], minimum: int
) -> list[tuple[list[Atom], Range | None]]:
    """The section's runs of text and its standing-alone blocks, each with the header row it repeats."""
    groups: list[list[int]] = []
    pending: list[int] = []
    queue = list(section.blocks)
    position = 0
    while position < len(queue):
        index = queue[position]
        position += 1
        if not _stands_alone(parsed.blocks[index], atoms[index], minimum):
            pending.append(index)
            continue
        group = [index]
        has_caption = bool(pending) and _is_caption(parsed, pending[-1], atoms, before=True)
        if has_caption:
            group.insert(0, pending.pop())
        if _is_remark(parsed, pending, atoms):
            group, pending = pending + group, []
        while position < len(queue) and _is_caption(parsed, queue[position], atoms, before=False, notes=has_caption):
            group.append(queue[position])
            position += 1
            has_caption = True
        groups.extend([pending, group] if pending else [group])
        pending = []
    if groups and _is_remark(parsed, pending, atoms) and parsed.blocks[pending[0]].kind != "heading":
        groups[-1].extend(pending)
    elif pending:
        groups.append(pending)
    return [_with_costs(parsed, group, atoms, minimum) for group in groups]


def _stands_alone(block: Block, atoms: Sequence[Atom], minimum: int) -> bool:
    if block.kind == "code":
        return sum(atom.tokens for atom in atoms) >= minimum
    return block.kind in ("table", "figure")


def _is_remark(parsed: Parsed, blocks: Sequence[int], atoms: Sequence[Sequence[Atom]]) -> bool:
    """Are these headings with no more than a few words of text, which belong to the table beside them?"""
    if not blocks or any(parsed.blocks[index].kind not in ("heading", "text") for index in blocks):
        return False
    return sum(a.tokens for i in blocks if parsed.blocks[i].kind == "text" for a in atoms[i]) <= LONGEST_REMARK


def _is_caption(
    parsed: Parsed, index: int, atoms: Sequence[Sequence[Atom]], *, before: bool, notes: bool = False
) -> bool:
    """Is this short paragraph about the table, figure or code beside it? (`notes`: a caption was already found.)"""
    block = parsed.blocks[index]
    kinds = ("text",) if before else ("text", "list")  # "(a) Restated" reads as a list
    if block.kind not in kinds or sum(atom.tokens for atom in atoms[index]) > LONGEST_CAPTION:
        return False
    text = parsed.text[block.start : block.end].strip()
    if before:
        return bool(_CAPTION.match(text)) or text.endswith((":", "："))
    return bool(_NOTE.match(text)) or (not notes and bool(_CAPTION.match(text)))


def _with_costs(
    parsed: Parsed, group: Sequence[int], atoms: Sequence[Sequence[Atom]], minimum: int
) -> tuple[list[Atom], Range | None]:
    """The atoms of a group, a caption tied to what it is about, and the header row to repeat."""
    flat: list[Atom] = []
    header = None
    alone = next((i for i in group if _stands_alone(parsed.blocks[i], atoms[i], minimum)), None)
    for index in group:
        block = parsed.blocks[index]
        if alone is not None and index < alone and block.kind != "heading" and atoms[index]:
            flat.extend([*atoms[index][:-1], replace(atoms[index][-1], cut=CUT_CAPTION)])
        else:
            flat.extend(atoms[index])
        header = block.header or header
    return flat, header
