"""What a document says of itself: who wrote it, below its title; when a mail was sent, in its headers.

These lines answer questions about the document, and no others: the date of a mail is not that of what it invites to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refdesk.answer import Query
from refdesk.ask.catalogue import documents_meant
from refdesk.ask.extract import REACH, is_unfit
from refdesk.ask.sentences import sentence_text
from refdesk.library import LibraryReader
from refdesk.ports import Embedder, Reader
from refdesk.settings import Settings
from refdesk.terms import query_terms
from refdesk.types import Chunk, Document, FoundSpan, Hit, Reading, Scope

# --- which of what was read is no answer to this question? ------------------------------------------------------------

MAIL, SENT = "eml", "Date: "  # the format of mails, and how the line begins that says when one was sent
CERTAIN, ANSWERED = 12.0, 2.0  # for the date of a mail that is asked for: what a reader gives where it is sure
STATED, UNANSWERED = 6.0, -5.0  # a date that is stated has 8 and more; what a passage about something else gets
# Of 39 questions written for three mails, 18 of them for the date of the mail, three are nearer to the wrong side. With
# the first pair alone six are, with the second alone eight.
_OF_ANY_MAIL = ("When was this mail sent?", "When did someone write this message?")
_OF_ANY_EVENT = ("When does this event take place?", "When did this happen?")
_OF_THIS_MAIL = ("When did {sender} send the mail about {subject}?",)
_OF_THIS_EVENT = ("When does this take place: {subject}?", "When did this happen: {subject}?")


def fitting(
    reading: Reading, hit: Hit, query: Query, units: frozenset[str], embedder: Embedder, reader: Reader
) -> Reading:
    """What was read without what is no answer to this question, however well it reads: figures in units that do not
    measure what is asked for, and when a mail was sent, where it is asked when something happens.
    """
    place = _when_sent(reading, hit)
    if place is not None and _asks_when_sent(query, hit.document, embedder):
        return _made_sure(reading, place, hit.chunk) if _names(query, hit.document) else reading
    if place is not None:
        reading = _read_without(place, hit.chunk, query, reader) or reading
    return without_units(units, reading, hit) if units else reading


def without_units(units: frozenset[str], reading: Reading, hit: Hit) -> Reading:
    """Without figures in these units: metres say nothing of how heavy something is."""
    text = hit.chunk.text
    spans = tuple(
        span._replace(score=min(span.score, 0.0))
        if span and is_unfit(text[span.start : span.end], units, text[span.end : span.end + REACH])
        else span
        for span in reading.spans
    )
    if spans == reading.spans:
        return reading
    return replace(reading, answered=min(reading.answered, max(span.score for span in spans if span)), spans=spans)


def _when_sent(reading: Reading, hit: Hit) -> int | None:
    """The sentence that says when a mail was sent, where it holds the likeliest answer."""
    known = [(span.score, place) for place, span in enumerate(reading.spans) if span is not None]
    if not known or hit.document.format != MAIL or hit.chunk.sequence > 1:
        return None
    place = max(known)[1]
    return place if sentence_text(hit.chunk, place).startswith(SENT) else None


def _made_sure(reading: Reading, place: int, chunk: Chunk) -> Reading:
    """The whole of the line is the answer."""
    start, end = chunk.sentences[place][:2]
    spans = list(reading.spans)
    spans[place] = FoundSpan(start + len(SENT), end, CERTAIN)
    return replace(reading, answered=max(reading.answered, ANSWERED), spans=tuple(spans))


def _read_without(place: int, chunk: Chunk, query: Query, reader: Reader) -> Reading | None:
    """The passage as if this sentence were not there; where no other one states an answer, it is none."""
    start, end = chunk.sentences[place][:2]
    blank = replace(chunk, text=f"{chunk.text[:start]}{' ' * (end - start)}{chunk.text[end:]}")
    reading = reader.read(query.fullest, blank)
    if reading is None or max((span.score for span in reading.spans if span), default=0.0) >= STATED:
        return reading
    return replace(reading, answered=min(reading.answered, UNANSWERED))


def _asks_when_sent(query: Query, mail: Document, embedder: Embedder) -> bool:
    """Is the question nearer to one for the date of a mail than to one for that of what it is about?"""
    said = {"sender": _sender(mail), "subject": mail.title}
    sent = _nearest(query, _OF_ANY_MAIL, embedder) + _nearest(query, _filled(_OF_THIS_MAIL, said), embedder)
    event = _nearest(query, _OF_ANY_EVENT, embedder) + _nearest(query, _filled(_OF_THIS_EVENT, said), embedder)
    return sent > event


def _names(query: Query, mail: Document) -> bool:
    """Does it name this mail, by who wrote it or by what it is about?"""
    return not frozenset(query_terms(f"{_sender(mail)} {mail.title}")).isdisjoint(query.terms)


def _sender(mail: Document) -> str:
    return mail.metadata.get("from", "").partition("<")[0].strip()


def _filled(questions: Sequence[str], said: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(question.format_map(said) for question in questions)


def _nearest(query: Query, questions: tuple[str, ...], embedder: Embedder) -> float:
    return max(float(query.vector @ embedder.embed_query(question)) for question in questions)


# --- who wrote it? ----------------------------------------------------------------------------------------------------

AUTHOR = "author"  # what is asked of the list of documents (document_names.py)
OPENING = 2  # chunks from the title on
# `answered` and the likeliest span from which on the opening of a document names who wrote it. Of four papers at hand
# they are at least .9 and 6.7; of the 24 other chunks that were looked at no text has both.
NAMED, NAME = 0.5, 6.5
WHO = "Who are the authors of {title}?"


def with_authors(
    query: Query,
    hits: list[Hit],
    readings: dict[int, Reading],
    scope: Scope,
    library: LibraryReader,
    reader: Reader,
    settings: Settings,
) -> list[Hit]:
    """Before the hits, where it is asked for, the passage that names who wrote the document that is meant; what was
    read of it joins the readings.

    It shares no word with the question, and a line set apart is taken for a heading: it is read for the title.
    """
    if query.catalogue != AUTHOR or not hits:
        return hits
    for chunk in _opening(query, hits, scope, library):
        chunk = replace(chunk, heading_path=chunk.heading_path[:1], context="".join(chunk.heading_path[:1]))
        reading = reader.read(WHO.format(title=chunk.context), chunk) if chunk.context else None
        name = max((span.score for span in reading.spans if span), default=0.0) if reading is not None else 0.0
        placed = library.scored([chunk.id], query.standalone, query.vector, settings)
        if placed and reading is not None and reading.answered >= NAMED and name >= NAME:
            readings[chunk.id] = reading
            first = replace(placed[0], chunk=chunk, score=hits[0].score)
            return [first, *(hit for hit in hits if hit.chunk.id != chunk.id)]
    return hits


def _opening(query: Query, hits: Sequence[Hit], scope: Scope, library: LibraryReader) -> list[Chunk]:
    """The first chunks, from the title on, of the document whose author is asked for; none where that is not clear.

    A line above the title may be of the series that it appeared in.
    """
    documents = library.documents(scope)
    named, topics = documents_meant(AUTHOR, query.fullest, documents)
    among = {document.id for document in named or documents}
    meant = next((hit.document.id for hit in hits if hit.document.id in among), next(iter(among)))
    chunks = library.document_chunks(meant)
    first = next((place for place, chunk in enumerate(chunks) if chunk.heading_path), 0)
    opening = [chunk for chunk in chunks[first : first + OPENING] if chunk.kind == "text"]
    told = frozenset(query_terms(" ".join(topics)))
    held = frozenset(query_terms(" ".join(chunk.text for chunk in opening)))
    is_clear = bool(named) or len(documents) == 1 or (bool(told) and told <= held)
    return opening if is_clear else []
