"""How do the passages stand in the prompt? Three formats over the same passages; documents speak as data only. Pure.

    numbered    [1] Price list › Moorings, page 7        rules are in the system message
    tagged      [DOC: 3f2a… | CHUNK: 17 | PAGE: 7]        seed 003, to the letter
    documents   === DOCUMENT: prices.pdf === [Chunk 4]    seed 000, grouped by document

The same passages give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from refdesk.answer import Passage
from refdesk.ask.finding.select import sandwich
from refdesk.ask.passages.join import joined
from refdesk.ask.passages.neutral import neutral
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS
from refdesk.types import Chunk

PATH = " › "
LONGEST_LABEL = 160  # characters of a title or heading path; the rest says nothing a model needs
IMAGE_URL = "/api/images/{image}"  # where a figure is served; the content hash names it

Renderer = Callable[[Sequence[Passage], str, bool], str]


def render(passages: Sequence[Passage], question: str, context_format: str, *, for_model: bool) -> str:
    """The message that holds rules of the format, passages and question; `for_model` puts the best first and last."""
    return FORMATS[context_format](passages, question, for_model)


# --- formats ---------------------------------------------------------------------------------------------------------


def _numbered(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    order = sandwich(len(passages)) if for_model else range(len(passages))
    blocks = [f"[{one.number}] {_label(one)}\n{_body(one)}" for one in (passages[place] for place in order)]
    return "\n\n".join([FENCE_OPENS, *blocks, FENCE_CLOSES, f"Question: {question}"])


def _tagged(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    """Seed 003 orders by similarity, best first, whoever reads."""
    rules = "Use only the information provided below.\nCite evidence using [DOC:doc_id | CHUNK:chunk_id]."
    lines = [f"[SYSTEM CONTEXT RULES]\n{rules}", "[CONTEXT SOURCES]"]
    for one in passages:
        chunk = one.hit.chunk
        tag = f"[DOC: {_plain(one.document.id)} | CHUNK: {chunk.id} | PAGE: {one.hit.page}]"
        lines.append(f"--- SOURCE {one.number} ---\n{tag}\n\n{_body(one)}")
    sources = "\n\n".join(lines[2:])
    return f"{lines[0]}\n\n{lines[1]}\n{sources}\n\n[USER QUESTION]\n{question}"


def _documents(passages: Sequence[Passage], question: str, for_model: bool) -> str:
    """Seed 000 groups by document, the best document first, and orders by sequence within one."""
    grouped: dict[str, list[Passage]] = {}
    for passage in passages:
        grouped.setdefault(passage.document.id, []).append(passage)
    blocks = [FENCE_OPENS]
    for own in grouped.values():
        blocks.append(f"=== DOCUMENT: {_plain(own[0].document.name)} ===")
        blocks += [_chunk_block(*one) for passage in _by_sequence(own) for one in _chunk_texts(passage)]
    return "\n\n".join([*blocks, FENCE_CLOSES, f"Question: {question}"])


FORMATS: Mapping[str, Renderer] = {"numbered": _numbered, "tagged": _tagged, "documents": _documents}


def _by_sequence(passages: Sequence[Passage]) -> list[Passage]:
    return sorted(passages, key=lambda one: one.chunks[0].sequence)


def _chunk_texts(passage: Passage) -> list[tuple[Passage, Chunk, str]]:
    """Each chunk of a whole passage under its own number; a shortened passage stands under that of its hit."""
    if passage.resolution != "full":
        return [(passage, passage.hit.chunk, passage.text)]
    return [(passage, chunk, text) for chunk, text in joined(passage.chunks) if text]


def _chunk_block(passage: Passage, chunk: Chunk, text: str) -> str:
    heading = PATH.join(chunk.heading_path)
    head = f"[Chunk {chunk.sequence}]" + (f" ({_plain(heading)})" if heading else "")
    summary = "[SUMMARY] " if passage.resolution == "summary" else ""
    image = f"\n[IMAGE AVAILABLE: {IMAGE_URL.format(image=chunk.image)}]" if chunk.image else ""
    return f"{head}\n{summary}{neutral(text)}{image}"


def _label(passage: Passage) -> str:
    """`Price list › Moorings, page 7`; the name stands for a missing title."""
    document, path = passage.document, list(passage.hit.heading_path)
    title = document.title or document.name
    if path and path[0] == title:
        path = path[1:]
    return f"{_plain(PATH.join([title, *path]))}, {pages_label(passage.pages)}"


def pages_label(pages: Sequence[int]) -> str:
    """`(7,)` -> 'page 7', `(7, 8, 9)` -> 'pages 7–9'."""
    return f"page {pages[0]}" if len(pages) == 1 else f"pages {pages[0]}–{pages[-1]}"


def _body(passage: Passage) -> str:
    summary = "[SUMMARY] " if passage.resolution == "summary" else ""
    return summary + neutral(passage.text)


def _plain(label: str) -> str:
    """A name or title on one line: it comes from a document too."""
    line = neutral(" ".join(label.split()))
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 1] + "…"
