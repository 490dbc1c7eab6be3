"""Survey: a router reads the summary of every chunk and chooses which ones are read in full.

    summaries in scope → first cut by document, where they are too many → router → chosen in full, the others in short

The router is a model where one is named that is able to (seed 000, step Q2): over 80k tokens it reads batches of about
50k side by side, and what any of them names is chosen. Ids that are malformed or that it was not shown are dropped.
Without one, or where it names none or fails, the embedder chooses: hybrid search with the nearness of the summaries.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from refdesk.answer import Query, Turn
from refdesk.ask.strategies.registry import hybrid_hits, register
from refdesk.document_names import match_names
from refdesk.errors import ProviderError
from refdesk.library import EngineHits, SearchPorts, convex
from refdesk.models import THOUGHTS, estimate, model_info
from refdesk.ports import LLM, Models
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS, LONGEST_TEXT, MOST_TURNS, ROUTE, ROUTE_SCHEMA, ROUTE_SYSTEM
from refdesk.summaries import ChunkSummary
from refdesk.text import CHARACTERS_PER_TOKEN
from refdesk.trace import REPLY_TOKENS, Stage, in_thread, is_able, model_reply
from refdesk.types import Hit

WHOLE = 1.6  # of `rag.survey_batch_tokens` that may go in one: 80k and 50k in seed 000, step Q2
MOST_BATCHES = 4  # of summaries that one question may show to a model; then documents are cut
WINDOW_SHARE = 0.6  # of a model's window for the summaries of one batch
MOST_CHOSEN = 40  # chunks; a router that names more has not chosen
FRAME = 45  # characters of a line beside its headings and summary
DEEP = 200  # hits by which documents are ranked before the first cut
# Of the summary's nearness beside that of the whole chunk. Right reports among 10 hits on kgrag_10q: 0 .855, .15 .858,
# .3 .856, .5 .854, alone .826; the page of financebench is among them .519 of the time with all of them, alone .462.
SUMMARY_SHARE = 0.15

_NUMBER = re.compile(r"\d{1,15}")


@dataclass(frozen=True, slots=True)
class Cut:
    """The summaries that are read, and how many there were."""

    summaries: Sequence[ChunkSummary]
    documents: int  # left
    left_out: int = 0  # documents


def router_of(models: Models) -> LLM | None:
    """The model that reads summaries; None: none is named, or it is too small to choose among thousands of lines."""
    model = models.role("router")
    return model if model is not None and is_able(model) else None


@register("survey")
async def survey(query: Query, ports: SearchPorts) -> list[EngineHits]:
    """What the router chose, with the others in short, nearest first."""
    model = router_of(ports.models)
    with ports.trace.stage("survey", router=model.name if model else "embedder") as stage:
        every = await in_thread(ports.library.summaries, ports.scope)
        chosen: list[int] = []
        if model is None:
            named = ports.models.role("router")
            stage.gave(why=f"{named.name} is too small to choose" if named else "no model is set")
        else:
            most, why = _affordable(model, ports)
            cut = await in_thread(_cut, query, ports, every, tokens=most)
            stage.gave(**_sizes(every, cut, why))
            chosen = await _routed(query, ports, model, cut.summaries, stage) if cut.summaries else []
        found = await in_thread(_chosen_hits, chosen, query, ports) if chosen else []
        if found:
            others = await in_thread(_others, cut.summaries, query, ports, found)
            stage.gave(chosen=len(found), others=len(others))
            return [EngineHits("survey", found, are_chosen=True, others=others)]
        hybrid = await hybrid_hits(query, ports)
        cut = await in_thread(_cut, query, ports, every, chunks=ports.settings.survey_chunks)
        near, others = await in_thread(_by_embedder, query, ports, cut.summaries, hybrid)
        stage.gave(**_sizes(every, cut), chosen=len(near), others=len(others))
    return [EngineHits("survey", near, others=others)]


def _sizes(every: Sequence[ChunkSummary], cut: Cut, why: str = "") -> dict[str, int | str]:
    found: dict[str, int | str] = {"summaries": len(every), "looked_at": len(cut.summaries)}
    if cut.left_out:
        found["cut"] = f"{cut.left_out} documents were left out by a first look; {cut.documents} are surveyed{why}"
    return found


# --- which summaries are read? ----------------------------------------------------------------------------------------


def _affordable(model: LLM, ports: SearchPorts) -> tuple[int, str]:
    """Tokens of summaries that this model may be shown, and what bounds them, where that is the price."""
    price = estimate(model.name, 1, 0)
    limit = ports.settings.cost_limit_usd / 2  # the answer is to be paid too
    most = MOST_BATCHES * ports.settings.survey_batch_tokens
    if not price or price * most <= limit:
        return most, ""
    return int(limit / price), f" (answer.cost_limit_usd is ${ports.settings.cost_limit_usd:g})"


def _cut(
    query: Query, ports: SearchPorts, every: Sequence[ChunkSummary], *, tokens: int | None = None, chunks: int = 0
) -> Cut:
    """All summaries where they are few enough; else those of the documents that come first in a quick search."""
    sizes: dict[str, int] = {}
    for summary in every:
        size = 1 if tokens is None else _tokens(summary)
        sizes[summary.document_id] = sizes.get(summary.document_id, 0) + size
    most = chunks if tokens is None else tokens
    if sum(sizes.values()) <= most:
        return Cut(every, len(sizes))
    documents = ports.library.documents(ports.scope)
    order = list(match_names(query.fullest, documents))
    hits = ports.library.search(query.standalone, query.vector, DEEP, "hybrid", ports.scope, ports.settings)
    order += [hit.document.id for hit in hits]
    kept: set[str] = set()
    spent = 0
    for document_id in dict.fromkeys(order):
        if document_id in sizes and spent + sizes[document_id] <= most:
            kept.add(document_id)
            spent += sizes[document_id]
    if not kept and order:  # the first alone is more than may be read: the chunks around its hits
        return _around(hits, every, most, tokens is None)
    return Cut([summary for summary in every if summary.document_id in kept], len(kept), len(sizes) - len(kept))


def _around(hits: Sequence[Hit], every: Sequence[ChunkSummary], most: int, by_chunk: bool) -> Cut:
    """Of one huge document the chunks nearest to what was found in it."""
    first = hits[0].document.id
    places = np.array([hit.chunk.sequence for hit in hits if hit.document.id == first])
    own = [summary for summary in every if summary.document_id == first]
    own.sort(key=lambda summary: int(np.abs(places - summary.sequence).min()))
    kept: list[ChunkSummary] = []
    spent = 0
    for summary in own:
        spent += 1 if by_chunk else _tokens(summary)
        if spent > most:
            break
        kept.append(summary)
    kept.sort(key=lambda summary: summary.sequence)
    return Cut(kept, 1, len({summary.document_id for summary in every}) - 1)


# --- a model routes ---------------------------------------------------------------------------------------------------


async def _routed(
    query: Query, ports: SearchPorts, model: LLM, summaries: Sequence[ChunkSummary], stage: Stage
) -> list[int]:
    """The ids that the model names, in the order of the documents; empty where it names none or fails."""
    names = {document.id: document.name for document in ports.library.documents(ports.scope)}
    batches = batched(summaries, model_info(model.name).context_window, ports.settings.survey_batch_tokens)
    asked = [_ask(query, ports.turns, model, batch, names) for batch in batches]
    replies = await asyncio.gather(*asked, return_exceptions=True)
    chosen: dict[int, None] = {}
    failed = 0
    for batch, reply in zip(batches, replies, strict=True):
        if isinstance(reply, ProviderError):
            failed += 1
        elif isinstance(reply, BaseException):
            raise reply
        else:
            text, part = reply
            stage.usage += part.usage
            chosen |= dict.fromkeys(named_ids(text, {summary.chunk_id for summary in batch}))
    stage.gave(batches=len(batches), named=len(chosen))
    if failed:
        stage.gave(failed=f"{model.name} did not answer for {failed} of {len(batches)} batches")
    if not chosen:
        stage.gave(fallback=f"{model.name} chose nothing that can be read; hybrid search is used")
    return list(chosen)[:MOST_CHOSEN]


def batched(summaries: Sequence[ChunkSummary], window: int, tokens: int) -> list[list[ChunkSummary]]:
    """One batch of 1.6 times as many tokens, else several of so many; none of more than its share of the window."""
    sizes = [_tokens(summary) for summary in summaries]
    share = int(WINDOW_SHARE * window)
    most = min(share, round(WHOLE * tokens) if sum(sizes) <= WHOLE * tokens else tokens)
    batches: list[list[ChunkSummary]] = [[]]
    spent = 0
    for summary, size in zip(summaries, sizes, strict=True):
        if batches[-1] and spent + size > most:
            batches.append([])
            spent = 0
        batches[-1].append(summary)
        spent += size
    return batches


async def _ask(
    query: Query, turns: Sequence[Turn], model: LLM, batch: Sequence[ChunkSummary], names: Mapping[str, str]
) -> tuple[str, Stage]:
    said_before = [f"{turn.role}: {_on_one_line(turn.content)[:LONGEST_TEXT]}" for turn in turns[-MOST_TURNS:]]
    text = ROUTE.format(
        conversation="\n".join(said_before) or "(nothing)",
        opens=FENCE_OPENS,
        summaries=listed(batch, names),
        closes=FENCE_CLOSES,
        question=query.fullest,
    )
    part = Stage("survey_batch", 0.0)  # not of the trace, which several batches cannot write at once
    most = REPLY_TOKENS + THOUGHTS * model_info(model.name).thinks
    return await model_reply(model, ROUTE_SYSTEM, text, ROUTE_SCHEMA, most, part), part


def listed(batch: Sequence[ChunkSummary], names: Mapping[str, str]) -> str:
    """A line for each chunk, by document and sequence."""
    lines: list[str] = []
    last = ""
    for summary in batch:
        if summary.document_id != last:
            last = summary.document_id
            lines.append(f"=== DOCUMENT: {_on_one_line(names.get(last, last))} ===")
        lines.append(_line(summary))
    return "\n".join(lines)


def _line(summary: ChunkSummary) -> str:
    """`17 [Chunk 4] (Costs > Fuel) table, 212 tokens: Fuel by month (12 rows)`; the first number is its id."""
    path = _on_one_line(" > ".join(summary.heading_path))
    heading = f" ({path})" if path else ""
    text = f"{summary.kind}, {summary.token_count} tokens: {_on_one_line(summary.summary)}"
    return f"{summary.chunk_id} [Chunk {summary.sequence}]{heading} {text}"


def _on_one_line(text: str) -> str:
    """What comes from a document opens no line of its own here, and none of ours (`=====END PASSAGES=====`)."""
    return " ".join(text.split()).replace("===", "＝")


def _tokens(summary: ChunkSummary) -> int:
    """About what its line takes."""
    path = sum(len(part) + 3 for part in summary.heading_path)
    return (len(summary.summary) + path + FRAME) // CHARACTERS_PER_TOKEN + 1


def named_ids(reply: str, known: set[int]) -> list[int]:
    """The numbers in the list that a model wrote, those of chunks that it was shown; a list that breaks off counts.

    >>> named_ids('{"chunk_ids": [4, "7", 99, "x"]}', {4, 7})
    [4, 7]
    """
    start = reply.find("[")
    end = reply.find("]", start)
    inner = reply[start + 1 : end if end > start else len(reply)] if start >= 0 else ""
    parts = inner.split(",") if end > start else inner.split(",")[:-1]  # the last number may be cut
    found = [int(one) for part in parts if _NUMBER.fullmatch(one := part.strip().strip("\"' \n"))]
    return [chunk_id for chunk_id in dict.fromkeys(found) if chunk_id in known]


def _chosen_hits(chosen: Sequence[int], query: Query, ports: SearchPorts) -> list[Hit]:
    """Hits of these chunks with their true scores, the nearest first; what has gone since is left out."""
    return ports.library.scored(chosen, query.standalone, query.vector, ports.settings)


# --- the embedder routes ----------------------------------------------------------------------------------------------


def _by_embedder(
    query: Query, ports: SearchPorts, summaries: Sequence[ChunkSummary], hybrid: Sequence[Hit]
) -> tuple[list[Hit], list[ChunkSummary]]:
    """The best by words and nearness, of which the summary's is a part; and the other summaries, nearest first."""
    cosines = ports.library.summary_cosines(summaries, query.vector)
    near = dict(zip((summary.chunk_id for summary in summaries), cosines.tolist(), strict=True))
    order = np.argsort(-cosines, kind="stable")
    first = [summaries[place].chunk_id for place in order[: ports.k].tolist()]
    hits = {hit.chunk.id: hit for hit in (*_chosen_hits(first, query, ports), *hybrid)}
    blended = {
        chunk_id: (1.0 - SUMMARY_SHARE) * hit.cosine + SUMMARY_SHARE * near.get(chunk_id, hit.cosine)
        for chunk_id, hit in hits.items()
    }
    lexical = {chunk_id: hit.lexical_score for chunk_id, hit in hits.items() if hit.lexical_score}
    ranked = convex(lexical, blended, ports.settings.dense_weight)[: ports.k]
    taken = {chunk_id for chunk_id, _ in ranked}
    others = [summaries[place] for place in order.tolist() if summaries[place].chunk_id not in taken]
    return [replace(hits[chunk_id], score=score) for chunk_id, score in ranked], others


def _others(
    summaries: Sequence[ChunkSummary], query: Query, ports: SearchPorts, chosen: Sequence[Hit]
) -> list[ChunkSummary]:
    """What is not read in full, nearest first; of very many, those of the documents that something was chosen of."""
    taken = {hit.chunk.id for hit in chosen}
    left = [summary for summary in summaries if summary.chunk_id not in taken]
    most = ports.settings.survey_chunks
    if len(left) > most:
        documents = {hit.document.id for hit in chosen}
        left = [summary for summary in left if summary.document_id in documents][:most]
    cosines = ports.library.summary_cosines(left, query.vector)
    return [left[place] for place in np.argsort(-cosines, kind="stable").tolist()]
