"""Builds the context: hits become numbered passages with their neighbours, within a budget of tokens and bytes.

Over budget, in this order: the lowest passages go (down to three), long ones are shortened to their best sentences,
then all but the best go, then its text is cut. The best one stays even when no word of it finds room: no model reads it
then, but its sentences can be quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Citation, Context, Passage, Plan, Query, Retrieved
from refdesk.ask.citations import (
    BEST,
    PATH,
    body,
    by_document,
    by_sequence,
    joined_text,
    may_join,
    on_one_line,
    pages_label,
    picture,
    render,
    stands_alone,
)
from refdesk.ask.plan import Budget, longest, system_message
from refdesk.library import LibraryReader
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS
from refdesk.settings import Settings
from refdesk.summaries import ChunkSummary
from refdesk.text import CHARACTERS_PER_TOKEN, query_terms, rough_tokens, terms
from refdesk.types import UNIT, Chunk, Hit

BEST_TOKENS = 900  # of these: three chunks; a tiny model reads 50 tokens a second on two cores
FEWEST = 3  # passages kept whole as long as shortening can make room
MOST_CHUNKS = 8  # in one passage: a marker that stands for more points nowhere
HEADER_TOKENS = 24  # number, title, heading path and page
MOST_TABLES, TABLE_REACH = 3, 6  # passages whose tables are made whole, and how many chunks on each side
BETWEEN = " … "  # where sentences were left out
QUOTE = 200  # characters of a passage shown before the answer is written
SHORTENED = (0.5, 0.25, 0.12)  # shares of a passage's sentences that are tried


@dataclass(frozen=True, slots=True)
class Room:
    """How much may be said: tokens of passages, and bytes of the whole prompt (None: no limit)."""

    tokens: int
    bytes: int | None


def assemble(
    query: Query,
    plan: Plan,
    retrieved: Retrieved,
    library: LibraryReader,
    budget: Budget,
    settings: Settings,
    max_context_chars: int | None = None,
) -> Context:
    """The passages and the message a model is given of them: rules of the format, passages, question.

    With `max_context_chars`, the system message of a model and this text have at most so many bytes together.
    """
    most = max_context_chars or settings.max_context_chars or None
    system = system_message(plan, budget, settings, most) if plan.use_llm else ""
    room = Room(budget.passages, None if most is None else most - len(system.encode()))
    hits, is_tiny = retrieved.hits, plan.use_llm and budget.tier == "tiny"
    is_summed = query.intent == "summary" or bool(retrieved.key_sentences)
    if is_tiny and is_summed:
        hits, room = hits[:BEST], replace(room, tokens=min(room.tokens, BEST_TOKENS))
    tokens = room.tokens if room.bytes is None else min(room.tokens, room.bytes // CHARACTERS_PER_TOKEN)
    is_survey = plan.strategy == "survey"
    # So small a model reads slowly and takes a summary for the passage: of what was chosen it reads the best sentences.
    shows_short = is_survey and plan.use_llm and not is_tiny and bool(retrieved.others)
    whole = room
    if shows_short:
        room = Room(int((1.0 - SHARE) * tokens), None if room.bytes is None else int((1.0 - SHARE) * room.bytes))
        tokens = room.tokens
    # A survey has the neighbours in short, and so reads more chunks in their place.
    runs = grow(hits, {} if is_survey else _around(retrieved, library, settings.neighbours), tokens)
    passages = _numbered([_passage(run, hit) for hit, run in runs])
    kept = _fit(passages, query, retrieved, settings, plan, room)
    shown = kept
    if is_tiny and kept and not is_summed:
        focused: Any = import_module("refdesk.ask.small_models").focused
        shown = focused(kept, query, retrieved)
        own = {passage.number: passage for passage in shown}
        kept = [own.get(passage.number, passage) for passage in kept]
    text = render(shown, query.standalone, settings.context_format, for_model=plan.use_llm)
    if shows_short and kept:
        spare = None if whole.bytes is None else max(0, whole.bytes - 2 * len(text.encode()))
        left = ShortRoom(max(0, whole.tokens - sum(map(_tokens, kept))), spare)
        kept, room = [*kept, *in_short(retrieved.others, kept, library, left)], whole
        is_numbered = settings.context_format == "numbered"
        text = (
            surveyed(kept, query.standalone)
            if is_numbered
            else render(kept, query.standalone, settings.context_format, for_model=True)
        )
    text = _within(text, query, room)
    is_too_small = bool(passages) and not kept
    kept = kept or passages[:1]
    dropped = len(runs) - sum(passage.resolution != "summary" for passage in kept)
    return Context(tuple(kept), text, rough_tokens(text), dropped, is_too_small)


def joined_later(retrieved: Retrieved, context: Context) -> list[int]:
    """The chunks whose sentence vectors are not at hand yet."""
    known = retrieved.sentence_vectors
    return [chunk.id for passage in context.passages for chunk in passage.chunks if chunk.id not in known]


def with_neighbours(retrieved: Retrieved, context: Context, library: LibraryReader) -> Retrieved:
    """What was retrieved, with the sentence vectors of the chunks that were joined: they may be quoted too."""
    known = retrieved.sentence_vectors
    joined = joined_later(retrieved, context)
    return replace(retrieved, sentence_vectors={**known, **library.sentence_vectors(joined)}) if joined else retrieved


def with_whole_tables(context: Context, library: LibraryReader) -> Context:
    """The same passages, those of tables with the other parts of their table: a list of its rows is to be whole."""
    tables = [passage for passage in context.passages if passage.chunks[0].kind == "table"][:MOST_TABLES]
    around = library.neighbours([table.chunks[0] for table in tables], TABLE_REACH) if tables else {}
    whole = {table.number: _whole_table(table.chunks[0], around[table.chunks[0].id]) for table in tables}
    passages = [replace(passage, chunks=whole.get(passage.number, passage.chunks)) for passage in context.passages]
    return replace(context, passages=tuple(passages))


def _whole_table(chunk: Chunk, around: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """The chunk and those before and after it without a gap that begin with the same row: the head is repeated."""
    found = {
        neighbour.sequence: neighbour
        for neighbour in around
        if neighbour.kind == "table" and neighbour.heading_path == chunk.heading_path
    }
    found[chunk.sequence] = chunk
    first = last = chunk.sequence
    while first - 1 in found and _head(found[first]) in found[first - 1].text:
        first -= 1
    while last + 1 in found and _head(found[last + 1]) in chunk.text:
        last += 1
    return tuple(found[place] for place in range(first, last + 1))


def _head(chunk: Chunk) -> str:
    """Its first row."""
    return chunk.text.partition("\n")[0]


# --- growing ---------------------------------------------------------------------------------------------------------


def grow(
    hits: Sequence[Hit], around: Mapping[int, Sequence[Chunk]], tokens: int
) -> list[tuple[Hit, tuple[Chunk, ...]]]:
    """Each hit with the chunks `around` it, best first; hits that meet become one, under the better of them.

    All hits are placed before any is grown, so that a neighbour never takes the room of a hit.
    """
    runs: list[tuple[Hit, list[Chunk]]] = []
    for hit in hits:
        if (home := _home(runs, hit.chunk)) is not None:
            _insert(home[1], hit.chunk)
        else:
            runs.append((hit, [hit.chunk]))
    spent = sum(chunk.token_count + HEADER_TOKENS for _, run in runs for chunk in run)
    taken = {chunk.id for _, run in runs for chunk in run}
    for hit, run in runs:
        for chunk in _nearest_first(hit.chunk, around.get(hit.chunk.id, ())):
            if chunk.id in taken or len(run) >= MOST_CHUNKS or spent + chunk.token_count > tokens:
                continue
            if any(may_join(chunk, member) for member in run):
                _insert(run, chunk)
                taken.add(chunk.id)
                spent += chunk.token_count
    return [(hit, tuple(run)) for hit, run in _met(runs)]


def _met(runs: Sequence[tuple[Hit, list[Chunk]]]) -> list[tuple[Hit, list[Chunk]]]:
    """Runs that have grown together are one, at the place of the better hit."""
    found: list[tuple[Hit, list[Chunk]]] = []
    for hit, run in runs:
        for _, other in found:
            touches = may_join(run[-1], other[0]) or may_join(other[-1], run[0])
            if touches and len(run) + len(other) <= MOST_CHUNKS:
                other.extend(run)
                other.sort(key=lambda member: member.sequence)
                break
        else:
            found.append((hit, run))
    return found


def _home(runs: Sequence[tuple[Hit, list[Chunk]]], chunk: Chunk) -> tuple[Hit, list[Chunk]] | None:
    for hit, run in runs:
        if len(run) < MOST_CHUNKS and any(member.id == chunk.id or may_join(member, chunk) for member in run):
            return hit, run
    return None


def _insert(run: list[Chunk], chunk: Chunk) -> None:
    if all(member.id != chunk.id for member in run):
        run.append(chunk)
        run.sort(key=lambda chunk: chunk.sequence)


def _around(retrieved: Retrieved, library: LibraryReader, reach: int) -> Mapping[int, Sequence[Chunk]]:
    """The neighbours of the hits that may be joined; read here where retrieving has not done so."""
    growing = [hit.chunk for hit in retrieved.hits if not stands_alone(hit.chunk)] if reach else []
    missing = [chunk for chunk in growing if chunk.id not in retrieved.neighbours]
    return {**retrieved.neighbours, **(library.neighbours(missing, reach) if missing else {})}


def _nearest_first(chunk: Chunk, neighbours: Sequence[Chunk]) -> list[Chunk]:
    """What follows before what precedes."""
    return sorted(
        neighbours,
        key=lambda neighbour: (abs(neighbour.sequence - chunk.sequence), neighbour.sequence < chunk.sequence),
    )


def _passage(chunks: tuple[Chunk, ...], hit: Hit) -> Passage:
    return Passage(0, hit, chunks, joined_text(chunks))


def _numbered(passages: Sequence[Passage]) -> list[Passage]:
    return [replace(passage, number=number) for number, passage in enumerate(passages, 1)]


# --- fitting ---------------------------------------------------------------------------------------------------------


def _fit(
    passages: list[Passage], query: Query, retrieved: Retrieved, settings: Settings, plan: Plan, room: Room
) -> list[Passage]:
    """As many passages, as whole as possible, as find room."""

    def fits(some: Sequence[Passage]) -> bool:
        if sum(map(_tokens, some)) > room.tokens:
            return False
        if room.bytes is None:
            return True
        text = render(some, query.standalone, settings.context_format, for_model=plan.use_llm)
        return len(text.encode()) <= room.bytes

    kept = list(passages)
    while len(kept) > FEWEST and not fits(kept):
        kept.pop()
    while kept and not fits(kept):
        for share in SHORTENED:
            short = [shortened(passage, query, retrieved.sentence_vectors, retrieved.idf, share) for passage in kept]
            if fits(short):
                return short
        if len(kept) == 1:
            return _cut(short[0], fits)
        kept.pop()
    return kept


def _tokens(passage: Passage) -> int:
    """By the embedder's count while whole; a shortened one by its characters."""
    own = sum(chunk.token_count for chunk in passage.chunks) if passage.resolution == "full" else None
    return HEADER_TOKENS + (own if own is not None else rough_tokens(passage.text))


def shortened(
    passage: Passage, query: Query, vectors: Mapping[int, NDArray[np.int8]], weights: Mapping[str, float], share: float
) -> Passage:
    """The passage with its best sentences alone, word for word and in their order."""
    placed = [(chunk, place) for chunk in passage.chunks for place in range(len(chunk.sentences))]
    if len(placed) < 2:
        return passage
    scores = [_worth(query, chunk, place, vectors, weights) for chunk, place in placed]
    count = max(1, round(share * len(placed)))
    best = sorted(sorted(range(len(placed)), key=lambda number: (-scores[number], number))[:count])
    chosen_sentences: dict[str, None] = {}
    for number in best:
        chunk, place = placed[number]
        sentence = chunk.sentences[place]
        chosen_sentences[chunk.text[sentence.start : sentence.end]] = None
    return replace(passage, text=BETWEEN.join(chosen_sentences), resolution="sentences")


def _worth(
    query: Query, chunk: Chunk, place: int, vectors: Mapping[int, NDArray[np.int8]], weights: Mapping[str, float]
) -> float:
    """Nearness and the question's words by weight, half and half: in three sentences .886 of squad_dev11's answers."""
    rows = vectors.get(chunk.id)
    near = (
        float(rows[place].astype(np.float32) @ query.vector) / UNIT if rows is not None and place < len(rows) else 0.0
    )
    sentence = chunk.sentences[place]
    stems = set(terms(chunk.text[sentence.start : sentence.end]))
    wanted = query.terms or tuple(query_terms(query.standalone))
    whole = sum(weights.get(term, 1.0) for term in wanted) or 1.0
    return near + sum(weights.get(term, 1.0) for term in wanted if term in stems) / whole


def _cut(passage: Passage, fits: Callable[[Sequence[Passage]], bool]) -> list[Passage]:
    """The longest beginning that finds room; none when not even a word does."""
    whole = passage.text
    text = whole[: longest(len(whole), lambda end: fits([replace(passage, text=whole[:end], resolution="sentences")]))]
    if len(text) < len(whole) and " " in text:
        text = text[: text.rindex(" ")]
    return [replace(passage, text=text, resolution="sentences")] if text.strip() else []


def _within(text: str, query: Query, room: Room) -> str:
    """Without any passage the frame may still be too long: then the question alone, and of it what fits."""
    if room.bytes is None or len(text.encode()) <= room.bytes:
        return text
    return query.standalone.encode()[: max(0, room.bytes)].decode(errors="ignore")


def previews(context: Context) -> tuple[Citation, ...]:
    """What the answer will be written from, before any sentence of it is chosen."""
    found = []
    for passage in (shown for shown in context.passages if shown.resolution != "summary"):
        hit, chunk = passage.hit, passage.hit.chunk
        citation = Citation(
            marker=passage.number,
            document_id=hit.document.id,
            document_name=hit.document.name,
            chunk_id=chunk.id,
            chunk_sequence=chunk.sequence,
            heading_path=chunk.heading_path,
            page=hit.page,
            boxes=hit.boxes,
            located=bool(hit.boxes),
            quote=chunk.text[:QUOTE],
            relevance_score=hit.score,
            similarity_score=hit.cosine,
            origin=(chunk.spans[0].origin, chunk.spans[0].origin + len(chunk.text)) if chunk.spans else (0, 0),
        )
        found.append(citation)
    return tuple(found)


# --- what is not read in full: summaries, which shrink before they are dropped (seed 000, Q3) -------------------------
#
# A passage in short stands for its chunk: whoever cites it cites the chunk's own sentences, never the summary.


LEFT_OUT = 50  # summaries that are looked at for the names of what was left out
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
        Passage(number, Hit(*there[chosen.chunk_id], 0.0, 0.0, 0.0), (there[chosen.chunk_id][0],), text, "summary")
        for number, (chosen, text) in enumerate(kept, len(read) + 1)
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


def _place(summary: ChunkSummary, read: Sequence[Passage]) -> tuple[int, str]:
    """Documents of which something is read in full come first, in their order."""
    order = list(dict.fromkeys(passage.document.id for passage in read))
    return (order.index(summary.document_id) if summary.document_id in order else len(order)), summary.document_id


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
        document.id: document
        for _, document in library.chunks([summary.chunk_id for summary in left[:LEFT_OUT]]).values()
    }
    sections: dict[str, None] = {}
    for summary in left[:LEFT_OUT]:
        if summary.document_id in documents and summary.heading_path:
            sections[f"{' › '.join(summary.heading_path)} ({documents[summary.document_id].name})"] = None
    named = list(sections)[:NAMED]
    count = f"{len(retrieved.others):,} other chunk{'s' * (len(retrieved.others) != 1)}"
    nearest = f"; the nearest sections of these are {'; '.join(named)}" if named else ""
    return f"{count} of the library were seen as summaries only, not in full{nearest}."


def sizes(retrieved: Retrieved, context: Context | None = None) -> dict[str, float]:
    """How much was found, and how much of it was read."""
    characters, tokens = (len(context.text), context.token_count) if context else (0, 0)
    return {"chunks_retrieved": len(retrieved.hits), "context_characters": characters, "context_tokens": tokens}
