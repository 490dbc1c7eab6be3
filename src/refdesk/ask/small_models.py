"""Prompts for models with few parameters, and what is kept of their answers.

It reads slowly and is led astray by what stands around the answer, so that of the best passages it is given the
sentences that the reader finds best, with those around them. Of what it writes stays what the documents prove; what
they prove in part is said in their own words. Below it stand the sentences that the reader chose: such a model is often
wrong where the reader is right, at times right where the reader is wrong, and a person sees both, each with its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refdesk.answer import Citation, Context, Passage, Query, Retrieved
from refdesk.ask.attest import Attested, remove_unsupported
from refdesk.ask.citations import BEST, without_markers
from refdesk.ask.extract import Quote
from refdesk.ask.markers import MARKER, numbered_by_passage
from refdesk.ask.sentences import score_sentences, sentence_text
from refdesk.ask.wording import table_header
from refdesk.text import fold, terms
from refdesk.types import Chunk

# Of 118 questions of three sets these sentences hold the answer in 108 (227 tokens), the best three passages whole in
# 111 (608 tokens), and with one sentence around instead of two it is 106 (183 tokens).
SENTENCES, AROUND = 3, 2
OF_MANY = 6  # sentences for a list, a comparison and an analysis
BETWEEN = " … "  # where sentences were left out
AGREED = 0.5  # share of what a model says beyond the question that the reader's sentences must hold
HEAD = "In the documents:"


def focused(passages: Sequence[Passage], query: Query, retrieved: Retrieved) -> list[Passage]:
    """The passages that hold the best sentences, three at most, with these and what stands around them alone."""
    placed = [(passage.number, chunk, passage.hit.score) for passage in passages for chunk in passage.chunks]
    documents = {passage.document.id: passage.document for passage in passages}
    evidence = (retrieved.sentence_vectors, retrieved.idf, documents, retrieved.readings)
    ranked = score_sentences(query, placed, *evidence)[: SENTENCES if query.intent == "factual" else OF_MANY]
    shown = list(dict.fromkeys(sentence.passage for sentence in ranked))[:BEST]
    found = []
    for passage in (shown_passage for shown_passage in passages if shown_passage.number in shown):
        own = [scored for scored in ranked if scored.passage == passage.number]
        places = {chunk.id: [one.sentence for one in own if one.chunk.id == chunk.id] for chunk in passage.chunks}
        found.append(_narrowed(passage, places))
    return found


def proofs(context: Context, citations: Sequence[Citation]) -> Context:
    """What so small a model reads to check an answer or to write it anew: what the draft was written from, and of all
    else that is cited the cited sentences with what stands around them; the best passages where nothing is cited.
    """
    found = []
    for passage in context.passages:
        own = {chunk.id: _places(chunk, citations) for chunk in passage.chunks}
        if passage.resolution != "sentences" and not any(own.values()):
            continue
        unseen = {
            chunk.id: [place for place in own[chunk.id] if sentence_text(chunk, place).strip() not in passage.text]
            for chunk in passage.chunks
        }
        if passage.resolution != "sentences":
            found.append(_narrowed(passage, own))
        elif any(unseen.values()):
            found.append(replace(passage, text=passage.text + BETWEEN + _narrowed(passage, unseen).text))
        else:
            found.append(passage)
    return replace(context, passages=tuple(found) or context.passages[:BEST])


def own_words(attested: Attested) -> list[int]:
    """The places of the claims that are no sentence of the documents: those alone need a proof.

    A model this small disputes at times what stands in the passage word for word.
    """
    found = []
    for place, claim in enumerate(attested.claims):
        quotes = {" ".join(attested.citations[number].quote.split()) for number in claim.citations}
        if claim.verdict != "supported" or " ".join(claim.text.split()) not in quotes:
            found.append(place)
    return found


def _places(chunk: Chunk, citations: Sequence[Citation]) -> list[int]:
    """The sentences of a chunk that are cited."""
    quoted = {citation.quote for citation in citations if citation.chunk_id == chunk.id}
    return [place for place in range(len(chunk.sentences)) if sentence_text(chunk, place) in quoted]


def _narrowed(passage: Passage, places: Mapping[int, Sequence[int]]) -> Passage:
    """The passage with these sentences of its chunks and what stands around them; as it is where there are none."""
    parts: list[str] = []
    for chunk in passage.chunks:
        near = {
            place
            for sentence in places[chunk.id]
            for place in range(sentence - AROUND, sentence + AROUND + 1)
            if 0 <= place < len(chunk.sentences)
        }
        if near and chunk.kind == "table":  # a row says nothing without the names of its columns
            near |= set(range(table_header(chunk).stop or 0))
        for place in sorted(near):
            text = sentence_text(chunk, place).strip()
            parts += [text] if place - 1 in near or not parts else [BETWEEN.strip(), text]
            if chunk.kind == "table":
                parts.append("\n")
    text = " ".join(parts).replace(" \n ", "\n").strip()
    return replace(passage, text=text, resolution="sentences") if text else passage


def kept(attested: Attested) -> str:
    """What stays of an answer: what is proved, and where only a part is, the sentence that proves it instead.

    Markers are numbers of passages.
    """
    content = attested.content
    for claim in reversed(attested.claims):
        if claim.verdict == "partly" and claim.citations:
            proof = attested.citations[claim.citations[0]]
            sentence = f"{' '.join(without_markers(proof.quote).split())} [{proof.marker}]"
            content = content[: claim.start] + sentence + content[claim.end :]
        elif claim.verdict != "supported":
            content = content[: claim.start] + content[claim.end :]
    return numbered_by_passage(remove_unsupported(content, ()), attested.order)


def with_quotes(content: str, quotes: Sequence[Quote]) -> str:
    """The content, its markers being numbers of passages; below it the quotes that it does not hold word for word."""
    plain_content = _plain(content)
    lines = [
        f"> {' '.join(without_markers(quote.text).split())} [{quote.passage}]"
        for quote in quotes
        if _plain(quote.text) not in plain_content
    ]
    return "\n\n".join([content, HEAD, *lines]) if lines else content


def _plain(text: str) -> str:
    return f" {' '.join(''.join(letter if letter.isalnum() else ' ' for letter in fold(text)).split())} "


def doubt_left(doubt: str, query: Query, drafts: Sequence[str], quotes: Sequence[Quote], most: int = 1) -> str:
    """The doubt whether the documents answer at all, "" where so many drafts say what the reader's sentences say."""
    agreed = sum(agree(query.standalone, draft, quotes) for draft in drafts) if doubt else 0
    return "" if agreed >= most else doubt


def agree(question: str, draft: str, quotes: Sequence[Quote]) -> bool:
    """Whether a draft answers with what the reader's sentences say: a second reader who finds the answer in them.

    "What kind of palace is it?", "It is a rococo palace.", ["… examples of rococo architecture are …"] -> True
    """
    new_terms = set(terms(MARKER.sub("", draft))) - set(terms(question))
    quoted_terms = new_terms & set(terms(" ".join(quote.text for quote in quotes)))
    return bool(new_terms) and len(quoted_terms) >= AGREED * len(new_terms)
