"""Adds summaries to the context next to the chunks read in full; they shrink before they are dropped (seed 000, Q3).

A passage in short stands for its chunk: whoever cites it cites the chunk's own sentences, never the summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refdesk.answer import Context, Passage, Retrieved
from refdesk.ask.citations import PATH, body, by_document, by_sequence, on_one_line, pages_label, picture
from refdesk.library import LibraryReader
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS
from refdesk.summaries import ChunkSummary
from refdesk.text import CHARACTERS_PER_TOKEN, rough_tokens
from refdesk.types import Hit

SHARE = 0.3  # of the room that is kept for summaries where there are any
LENGTHS = (8, 20, 1000)  # words of a summary: as short as it gets, shortened, whole
LABEL_TOKENS = 16  # number, chunk, headings
NAMED = 4  # sections that are named as read in short alone

Placed = tuple[str, int]  # the text, and how long it may be: a place in `LENGTHS`


@dataclass(frozen=True, slots=True)
class ShortRoom:
    """What is left for summaries: tokens, and bytes of the prompt (None: no limit)."""

    tokens: int
    bytes: int | None = None


def in_short(
    others: Sequence[ChunkSummary], read: Sequence[Passage], library: LibraryReader, room: ShortRoom
) -> list[Passage]:
    """Summaries of what is not read in full, numbered after what is; the nearest as whole as finds room."""
    full = {chunk.id for passage in read for chunk in passage.chunks}
    tokens = room.tokens if room.bytes is None else min(room.tokens, room.bytes // CHARACTERS_PER_TOKEN)
    fitting = fit([summary for summary in others if summary.chunk_id not in full and summary.summary], tokens)
    there = library.chunks([summary.chunk_id for summary, _ in fitting])
    kept = [(summary, text) for summary, text in fitting if summary.chunk_id in there]
    kept.sort(key=lambda pair: (_place(pair[0], read), pair[0].sequence))
    return [
        Passage(number, Hit(*there[one.chunk_id], 0.0, 0.0, 0.0), (there[one.chunk_id][0],), text, "summary")
        for number, (one, text) in enumerate(kept, len(read) + 1)
    ]


def fit(others: Sequence[ChunkSummary], tokens: int) -> list[tuple[ChunkSummary, str]]:
    """As many as find room at their shortest, the nearest first; then each as long as there is room for it."""
    texts = [[shorter(summary.summary, words) for words in LENGTHS] for summary in others]
    chosen: list[int] = []
    for own in texts:
        cost = LABEL_TOKENS + rough_tokens(own[0])
        if cost > tokens:
            break
        chosen.append(0)
        tokens -= cost
    for length in range(1, len(LENGTHS)):
        for place, now in enumerate(chosen):
            more = rough_tokens(texts[place][length]) - rough_tokens(texts[place][now])
            if more <= tokens:
                chosen[place] = length
                tokens -= more
    return [(others[place], texts[place][length]) for place, length in enumerate(chosen)]


def shorter(summary: str, words: int) -> str:
    """Its first words.

    >>> shorter("Fuel by month and by ship, in litres.", 3)
    'Fuel by month …'
    """
    own = summary.split()
    return " ".join(own) if len(own) <= words else " ".join(own[:words]) + " …"


def _place(one: ChunkSummary, read: Sequence[Passage]) -> tuple[int, str]:
    """Documents of which something is read in full come first, in their order."""
    order = list(dict.fromkeys(passage.document.id for passage in read))
    return (order.index(one.document_id) if one.document_id in order else len(order)), one.document_id


def surveyed(passages: Sequence[Passage], question: str) -> str:
    """What is read in full and what in short, by document and sequence (seed 000), under the numbers that are cited."""
    blocks = [FENCE_OPENS]
    for own in by_document(passages).values():
        blocks.append(f"=== DOCUMENT: {on_one_line(own[0].document.name)} ===")
        blocks += [
            f"[{passage.number}] {_section(passage)}\n{body(passage)}{picture(passage.hit.chunk)}"
            for passage in by_sequence(own)
        ]
    return "\n\n".join([*blocks, FENCE_CLOSES, f"Question: {question}"])


def _section(passage: Passage) -> str:
    """`Chunk 4 (Costs › Fuel), page 7`."""
    heading = PATH.join(passage.hit.heading_path)
    named = f" ({on_one_line(heading)})" if heading else ""
    return f"Chunk {passage.chunks[0].sequence}{named}, {pages_label(passage.pages)}"


def said_of_short(context: Context, retrieved: Retrieved, library: LibraryReader) -> str:
    """The sentence that names what was not read in full; "" where all was."""
    shown = {passage.hit.chunk.id for passage in context.passages if passage.resolution == "summary"}
    left = [summary for summary in retrieved.others if not shown or summary.chunk_id in shown]
    if not left:
        return ""
    documents = {
        document.id: document for _, document in library.chunks([summary.chunk_id for summary in left[:50]]).values()
    }
    sections: dict[str, None] = {}
    for summary in left[:50]:
        if summary.document_id in documents and summary.heading_path:
            sections[f"{' › '.join(summary.heading_path)} ({documents[summary.document_id].name})"] = None
    named = list(sections)[:NAMED]
    count = f"{len(retrieved.others):,} other chunk{'s' * (len(retrieved.others) != 1)}"
    nearest = f"; the nearest sections of these are {'; '.join(named)}" if named else ""
    return f"{count} of the library were seen as summaries only, not in full{nearest}."
