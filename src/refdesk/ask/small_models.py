"""Prompts for models with few parameters, and what is kept of their answers.

It reads slowly and is led astray by what stands around the answer, so that of the best passages it is given the
sentences that the reader finds best, with those around them. Of what it writes stays what the documents prove; what
they prove in part is said in their own words. Below it stand the sentences that the reader chose: such a model is often
wrong where the reader is right, at times right where the reader is wrong, and a person sees both, each with its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refdesk.answer import Passage, Query, Retrieved
from refdesk.ask.attest import Attested, remove_unsupported
from refdesk.ask.citations import BEST, without_markers
from refdesk.ask.extract import Quote
from refdesk.ask.markers import numbered_by_passage
from refdesk.ask.sentences import score_sentences, sentence_text
from refdesk.ask.wording import table_header
from refdesk.text import fold, terms

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
        parts: list[str] = []
        for chunk in passage.chunks:
            near = {
                place
                for scored in ranked
                if scored.chunk.id == chunk.id and scored.passage == passage.number
                for place in range(scored.sentence - AROUND, scored.sentence + AROUND + 1)
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
        found.append(replace(passage, text=text, resolution="sentences") if text else passage)
    return found


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


def agree(question: str, draft: str, quotes: Sequence[Quote]) -> bool:
    """Whether a draft answers with what the reader's sentences say: a second reader who finds the answer in them.

    "What kind of palace is it?", "It is a rococo palace.", ["… examples of rococo architecture are …"] -> True
    """
    new_terms = set(terms(draft)) - set(terms(question))
    quoted_terms = new_terms & set(terms(" ".join(quote.text for quote in quotes)))
    return bool(new_terms) and len(quoted_terms) >= AGREED * len(new_terms)
