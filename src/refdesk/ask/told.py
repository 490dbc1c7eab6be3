"""Whole paragraphs and sections as answers: how something is done is told in several sentences, in their order. Pure.

A line that leads to a command or to a list is told with it: "Put this line into the file:", "umask 022".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refdesk.answer import Context, Query
from refdesk.ask.sentences import ScoredSentence, heads_text, may_stand, sentence_text
from refdesk.ask.wording import asks_yes_or_no, read, wants
from refdesk.document_names import is_called_after
from refdesk.summaries import ENDS
from refdesk.types import Chunk


def can_stand(sentence: ScoredSentence) -> bool:
    """Does it say something?"""
    return may_stand(sentence.chunk, sentence.sentence, is_read=sentence.span is not None)


def another(scored: ScoredSentence, sentence: int) -> ScoredSentence:
    """Another sentence of the same chunk."""
    return replace(scored, sentence=sentence, text=sentence_text(scored.chunk, sentence), share=0.0, span=None)


def under(chunk: Chunk, heading: int) -> range:
    """The sentences under a heading within a chunk, up to the next one."""
    places = range(heading + 1, len(chunk.sentences))
    return range(heading + 1, next((place for place in places if heads_text(chunk, place)), len(chunk.sentences)))


def paragraph(ranked: Sequence[ScoredSentence], most: int) -> list[ScoredSentence]:
    """The paragraph that the best one stands in; of a long one `most` sentences from it on, and what they lead to."""
    best = ranked[0]
    if best.chunk.kind == "table":
        return [best]
    scored = {one.sentence: one for one in ranked if one.chunk.id == best.chunk.id}
    told = _told([scored.get(at) or another(best, at) for at in _block(best)], best)
    if len(told) <= most:
        return told
    first = told.index(best)
    last = first + most
    while last < len(told) and _leads_on(told[last - 1]):
        last += 1
    return told[first:last]


def is_labelled(query: Query, sentence: ScoredSentence) -> bool:
    """Does its paragraph begin with the question's own words and no others? `White film on glasses. The salt …`,
    `How many users can I add? The starter plan …`.
    """
    block = _block(sentence)
    own = read(sentence_text(sentence.chunk, block.start)).content
    is_below = block.start < sentence.sentence or (len(block) > 1 and not asks_yes_or_no(query.fullest))
    return is_below and sentence.chunk.kind == "text" and bool(own) and own <= read(query.fullest).content


def section(query: Query, context: Context, like: ScoredSentence) -> list[ScoredSentence]:
    """The section that is called after what is to be done, as far as one chunk holds it: its sentences in their order.

    Its own words may differ: "6 Recovery" tells how a buoy is brought on board, "How to claim" how one makes a claim.
    """
    asked = read(query.fullest).content
    for passage in context.passages:
        for chunk in [chunk for chunk in passage.chunks if chunk.kind == "text"]:
            within = [at for at in range(len(chunk.sentences)) if heads_text(chunk, at)]
            sections = [(sentence_text(chunk, at), under(chunk, at)) for at in within]
            for heading, own in [("".join(chunk.heading_path[-1:]), range(len(chunk.sentences))), *sections]:
                named = read(heading).content
                tells_how = wants(heading) == "steps" and (named <= asked or asked <= named)
                if tells_how or is_called_after(heading, query.fullest):
                    # Its name tells that it answers, not how one of its sentences stands out from others.
                    first = replace(like, chunk=chunk, passage=passage.number)
                    return _told([replace(another(first, at), share=1.0) for at in own])
    return []


def _told(sentences: Sequence[ScoredSentence], best: ScoredSentence | None = None) -> list[ScoredSentence]:
    """Those that say something, and what lines with a colon lead to: a command says nothing without the line above it,
    nor the line without it. No headings, no scraps behind.
    """
    told: list[ScoredSentence] = []
    for place, sentence in enumerate(sentences):
        is_led_to = place > 0 and _leads_on(sentences[place - 1]) and not _ends(sentence)
        leads = _leads_on(sentence) and place + 1 < len(sentences) and not _ends(sentences[place + 1])
        says = may_stand(sentence.chunk, sentence.sentence, is_read=True)
        if sentence is best or says or leads or is_led_to:
            told.append(sentence)
    while told and not (told[-1] is best or can_stand(told[-1])):
        if len(told) > 1 and _leads_on(told[-2]) and not _leads_on(told[-1]):
            break
        told.pop()
    return told


def _ends(sentence: ScoredSentence) -> bool:
    return sentence.text.rstrip()[-1:] in ENDS


def _leads_on(sentence: ScoredSentence) -> bool:
    return sentence.chunk.kind == "text" and sentence.text.rstrip().endswith(":")


def _block(sentence: ScoredSentence) -> range:
    """The sentences between the blank lines around it; with the next block, where it does not end."""
    places, text = sentence.chunk.sentences, sentence.chunk.text
    ends = [at for at in range(1, len(places)) if "\n\n" in text[places[at - 1].end : places[at].start]]
    first = max((at for at in ends if at <= sentence.sentence), default=0)
    last = next((at for at in ends if at > sentence.sentence and not _goes_on(sentence.chunk, at - 1)), len(places))
    return range(first, last)


def _goes_on(chunk: Chunk, sentence: int) -> bool:
    """Does it lead to what stands below, or break off above it?"""
    end = sentence_text(chunk, sentence).rstrip()[-1:]
    return end == ":" or end not in ENDS
