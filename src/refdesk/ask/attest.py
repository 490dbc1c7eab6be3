"""Checks every claim against the sentences it cites: content with markers in, verdicts and citations out.

Pure but for `embed`.

    "The anchor weighs 350 kg. [1]" -> supported, by "Each anchor weighs 350 kg." on page 3, in these boxes

A claim that is literally a sentence of its passage is proved without further ado. Every `[n]` of the content has a
citation, and every citation quotes a sentence of the passage that marker n stands for, whatever the verdict says of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import SCORE_DIGITS, Citation, Claim, Context, Passage, Query, Usage, Verdict, Verification
from refdesk.ask.citations import code_ranges, outside_code
from refdesk.ask.draft import PlacedQuote
from refdesk.ask.markers import MARKER, MARKERS, SPACED_STOP, ClaimText, statements
from refdesk.ask.model_figures import NumberCheck, Tables, check_numbers
from refdesk.ask.support import (
    MOST_LINES,
    MOST_SAID,
    Judged,
    SourceSentence,
    cosines,
    evidence,
    judge_claim,
    most,
    read_claim,
    support,
)
from refdesk.negation import is_negated
from refdesk.ports import LEARNED_LANGUAGES
from refdesk.text import fold, terms
from refdesk.types import Chunk, Range

# What remains of an answer when the sentences that nothing proves are taken out?

REFUTED: tuple[Verdict, ...] = ("unsupported", "contradicted")
CONTRADICTED: tuple[Verdict, ...] = ("contradicted",)
_ANY_MARKER = re.compile(r"\[(-?\d{1,4})\]")  # also those that are only being put in
_EMPTY_ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]*$\n?", re.MULTILINE)
_BLANKS = re.compile(r"\n{3,}")
_SPACES = re.compile(r"(?<=\S)[ \t]{2,}")


def remove_unsupported(content: str, claims: Sequence[Claim], verdicts: Sequence[Verdict] = REFUTED) -> str:
    """The content without the claims of these verdicts, bullets that held nothing else included."""
    kept, position = [], 0
    for claim in claims:
        if claim.verdict in verdicts:
            kept.append(content[position : claim.start])
            position = claim.end
    text = "".join([*kept, content[position:]])
    return _BLANKS.sub("\n\n", _SPACES.sub(" ", _EMPTY_ITEM.sub("", text))).strip()


Embed = Callable[[str], NDArray[np.float32]]
JudgeClaim = Callable[[str, str, str], float | None]  # (claim, evidence, title) -> logit; None where it cannot tell
PAGED = ("pdf", "image", "png", "jpg", "jpeg", "tiff")  # a quote of these is found by its boxes or not at all
_QUOTED_SHARE = 0.6  # a claim that is this much of a sentence, word for word, quotes it
_DRESS = re.compile(r"[*_`|\"'\\\\\[\]⟨⟩]+")  # also what makes a quoted bracket no marker


@dataclass(frozen=True, slots=True, eq=False)
class Proofs:
    """What claims are checked against and what compares them: passages, vectors of their sentences, two models."""

    context: Context
    vectors: Mapping[int, NDArray[np.int8]]
    embed: Embed
    judge: JudgeClaim = lambda claim, evidence, title: None


@dataclass(frozen=True, slots=True)
class Attested:
    """The content, what each of its sentences claims, and what proves it."""

    content: str
    claims: tuple[Claim, ...]
    citations: tuple[Citation, ...]
    order: tuple[int, ...] = ()  # the passage of each marker

    @property
    def sizes(self) -> dict[str, Any]:
        supported = sum(claim.verdict == "supported" for claim in self.claims)
        return {"claims": len(self.claims), "supported": supported, "citations": len(self.citations)}


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer as it stands after the checks, those of a second model included."""

    attested: Attested
    verification: Verification
    usage: Usage


def attest(query: Query, content: str, order: Sequence[int], proofs: Proofs, tables: Tables | None = None) -> Attested:
    """Every claim of the content with its verdict, and the citations of all markers in it; marker i + 1 is order[i].

    A sentence without a marker, or with that of a passage that does not prove it, gets the marker of the one that does.
    """
    proofs = replace(proofs, embed=cache(proofs.embed), judge=cache(proofs.judge))  # some sentences are looked at twice
    content = _owned_markers(content, len(order))
    sheet = Sheet(proofs, order, tables or {})
    found = [(statement, _judge(statement, sheet)) for statement in statements(content)]
    if owners := {claim: judged.lines[0][0] for claim, judged in found if _lacks_marker(claim, judged, sheet)}:
        content, order = with_markers(content, order, owners)
        sheet = Sheet(proofs, order, tables or {})
        found = [(statement, _judge(statement, sheet)) for statement in statements(content)]
    claims = []
    for statement, judged in found:
        placed = _cite(statement, judged, sheet)
        claims.append(
            Claim(
                statement.text,
                statement.start,
                statement.end,
                statement.markers,
                placed,
                judged.verdict,
                round(judged.score, SCORE_DIGITS),
                judged.note,
            )
        )
    for marker in dict.fromkeys(int(marker) for marker in MARKER.findall(outside_code(content))):
        if all(citation.marker != marker for citation in sheet.citations):
            sheet.cite_best(marker, query.standalone)
    return Attested(content, tuple(claims), tuple(sheet.citations), tuple(order))


def _lacks_marker(statement: ClaimText, judged: Judged, sheet: Sheet) -> bool:
    """It is proved, by a passage that it does not cite; proved in part is said of too much to cite anything for it."""
    return judged.verdict == "supported" and judged.lines[0][0] not in sheet.cited(statement.markers)


def with_markers(content: str, order: Sequence[int], proofs: Mapping[ClaimText, int]) -> tuple[str, tuple[int, ...]]:
    """The content with the marker of its passage at the end of each of these claims, in place of those it has.

    >>> with_markers("The anchor weighs 350 kg.", (), {ClaimText("The anchor weighs 350 kg.", 0, 25, ()): 2})
    ('The anchor weighs 350 kg. [1]', (2,))

    Markers are numbered by first use, and one that nothing carries any more is gone: so all are written anew.
    """
    placed = dict(enumerate(order, 1))
    numbers = {passage: -place for place, passage in enumerate(dict.fromkeys(proofs.values()), 1)}  # not yet markers
    for claim, proof in sorted(proofs.items(), key=lambda item: -item[0].start):
        said = content[claim.start : claim.end]
        for match in reversed(list(MARKERS.finditer(outside_code(said)))):
            said = said[: match.start()] + said[match.end() :]
        said = said.rstrip()
        closing = " |" if said.startswith("|") and said.endswith("|") else ""
        said = said.removesuffix("|").rstrip() if closing else said
        content = f"{content[: claim.start]}{said} [{numbers[proof]}]{closing}{content[claim.end :]}"
    placed |= {number: passage for passage, number in numbers.items()}
    used: dict[int, int] = {}
    visible = outside_code(content)
    parts, position = [], 0
    for match in _ANY_MARKER.finditer(visible):
        if (passage := placed.get(int(match[1]))) is not None:  # else the text of a link, or what a document has
            parts += [content[position : match.start()], f"[{used.setdefault(passage, len(used) + 1)}]"]
            position = match.end()
    return "".join([*parts, content[position:]]), tuple(used)


def attest_quotes(
    content: str,
    quotes: Sequence[PlacedQuote],
    order: Sequence[int],
    proofs: Proofs,
) -> Attested:
    """The claims of an answer that is quoted: each is the sentence that it cites, so there is nothing to look for."""
    sheet = Sheet(proofs, order)
    claims = []
    for quote, start, end, marker in quotes:
        chunks = sheet.passages[quote.passage].chunks
        place = next(number for number, chunk in enumerate(chunks) if chunk.id == quote.evidence.chunk.id)
        cited = sheet.cite(marker, (quote.passage, place, quote.evidence.sentence), 1.0)
        claims.append(Claim(quote.text, start, end, (marker,), (cited,), "supported", 1.0))
    return Attested(content, tuple(claims), tuple(sheet.citations), tuple(order))


def _owned_markers(content: str, known: int) -> str:
    """The content without markers that stand for no passage; those of a stream that was read have none."""
    kept, position = [], 0
    for start, end in [*code_ranges(content), (len(content), len(content))]:
        kept += [_without_unknown(content[position:start], known), content[start:end]]
        position = end
    return "".join(kept)


def _without_unknown(text: str, known: int) -> str:
    def keep(match: re.Match[str]) -> str:
        return match.group() if 1 <= int(match[1]) <= known else ""

    return re.sub(r"(?:(?<![^\S\n])[^\S\n]+)?\[(\d+)\](?!\()", keep, text)


class Sheet:
    """The passages of one answer, read as far as its claims ask for, and the citations made of them so far."""

    def __init__(self, proofs: Proofs, order: Sequence[int], tables: Tables | None = None) -> None:
        self.order = tuple(order)
        self._tables = tables or {}
        self.passages = {passage.number: passage for passage in proofs.context.passages}
        self.citations: list[Citation] = []
        self._places: dict[tuple[int, int, int, int], int] = {}
        self._vectors, self._embed, self.judge = proofs.vectors, proofs.embed, proofs.judge
        self._stems: dict[tuple[int, int], list[frozenset[str]]] = {}

    def cited(self, markers: Sequence[int]) -> list[int]:
        return [self.order[marker - 1] for marker in markers if 0 < marker <= len(self.order)]

    def literal(self, text: str, passages: Sequence[int]) -> tuple[int, int, int] | None:
        """(passage, chunk, sentence) whose sentence is this text, or is quoted by it almost whole."""
        wanted = _normal(text)
        for number in passages:
            for place, chunk in enumerate(self.passages[number].chunks):
                if wanted in _normal(chunk.text):
                    for index, sentence in enumerate(chunk.sentences):
                        if _quotes(wanted, _normal(chunk.text[sentence.start : sentence.end])):
                            return number, place, index
        return None

    def lines(self, passages: Sequence[int], vector: NDArray[np.float32]) -> list[SourceSentence]:
        """All sentences of these passages, with their nearness to the claim."""
        found: list[SourceSentence] = []
        for number in passages:
            passage = self.passages[number]
            for place, chunk in enumerate(passage.chunks):
                rows = self._vectors.get(chunk.id)
                near = cosines(vector, rows) if rows is not None and len(rows) == len(chunk.sentences) else None
                stems = self._chunk_stems(passage, place)
                for index, sentence in enumerate(chunk.sentences):
                    text = chunk.text[sentence.start : sentence.end]
                    cosine = float(near[index]) if near is not None else math.nan
                    found.append(SourceSentence(number, place, index, text, stems[index], cosine))
        return self._measured(found, vector)

    def _measured(self, lines: list[SourceSentence], vector: NDArray[np.float32]) -> list[SourceSentence]:
        """Sentences without a stored vector (a neighbour that was joined): the few that may matter are embedded."""
        missing = [line for line in lines if math.isnan(line.cosine)]
        unknown = sorted(missing, key=lambda line: -len(line.stems))[:MOST_LINES]
        known = {id(line): float(self._embed(line.text) @ vector) for line in unknown}
        return [line._replace(cosine=known.get(id(line), 0.3)) if math.isnan(line.cosine) else line for line in lines]

    def _chunk_stems(self, passage: Passage, place: int) -> list[frozenset[str]]:
        key = (passage.number, place)
        if key not in self._stems:
            chunk, language = passage.chunks[place], passage.document.language or "en"
            self._stems[key] = [
                frozenset(terms(chunk.text[sentence.start : sentence.end], language)) for sentence in chunk.sentences
            ]
        return self._stems[key]

    def numbers(self, text: str, passages: Sequence[int]) -> NumberCheck:
        """What the tables of these passages say of the numbers of a claim."""
        tables = list(dict.fromkeys(table for number in passages for table in self._tables.get(number, ())))
        if not tables:
            return NumberCheck()
        chunks = (chunk.text for number in passages for chunk in self.passages[number].chunks)
        return check_numbers(text, tables, "\n".join(chunks))

    def surroundings(self, passages: Sequence[int]) -> str:
        """Titles, headings, and the header rows of tables: they say what a sentence is about."""
        found: dict[str, None] = {}
        for number in passages:
            passage = self.passages[number]
            found |= dict.fromkeys((passage.document.title, passage.document.name))
            for chunk in passage.chunks:
                found |= dict.fromkeys(chunk.heading_path)
                if chunk.kind == "table" and chunk.sentences:
                    found[chunk.text[: chunk.sentences[0].end]] = None
        return "\n".join(filter(None, found))

    def embed(self, text: str) -> NDArray[np.float32]:
        return self._embed(text)

    # --- citations -------------------------------------------------------------------------------------------------

    def cite(self, marker: int, line: tuple[int, int, int], score: float) -> int:
        """The place of the citation of this sentence under this marker; made once."""
        number, place, index = line
        key = (marker, number, place, index)
        if key in self._places:
            at = self._places[key]
            if score > self.citations[at].support_score:
                self.citations[at] = replace(self.citations[at], support_score=round(score, SCORE_DIGITS))
            return at
        self._places[key] = len(self.citations)
        passage = self.passages[number]
        self.citations.append(_citation(marker, passage, passage.chunks[place], index, score))
        return self._places[key]

    def cite_best(self, marker: int, text: str) -> None:
        """A marker that no claim carries still quotes the sentence of its passage that fits best."""
        numbers = self.cited([marker])
        lines = self.lines(numbers, self.embed(text))
        if lines:
            best = max(lines, key=lambda line: line.cosine)
            self.cite(marker, (best.passage, best.chunk, best.sentence), 0.0)
        elif numbers:  # a figure without words: the whole of it
            passage = self.passages[numbers[0]]
            self.citations.append(_whole(marker, passage, passage.hit.chunk))


def _normal(text: str) -> str:
    """Without marks of emphasis, quotes and cells, and without the stop at the end; signs and figures stay."""
    bare = SPACED_STOP.sub(r"\1", " ".join(_DRESS.sub(" ", fold(text)).split()))
    return bare.rstrip(".!?;: ")


def _quotes(wanted: str, own: str) -> bool:
    """The whole sentence, or most of it at whole words, nothing being denied in the rest."""
    if wanted == own:
        return True
    at = own.find(wanted)
    if at < 0 or len(wanted) < _QUOTED_SHARE * len(own):
        return False
    before, after = own[:at], own[at + len(wanted) :]
    return (
        (not before or before[-1] == " ") and (not after or not after[0].isalnum()) and not is_negated(before + after)
    )


# --- one claim -----------------------------------------------------------------------------------------------------


def _judge(statement: ClaimText, sheet: Sheet) -> Judged:
    own = sheet.cited(statement.markers)
    others = [number for number in sheet.passages if number not in own]
    if found := sheet.literal(statement.text, own):
        return Judged("supported", 1.0, "", (found,))
    if found := sheet.literal(statement.text, others):
        return Judged("supported", 1.0, "", (found,))
    vector = sheet.embed(statement.text)
    judged = _by_cells(statement.text, own, sheet, _against(statement.text, own, sheet, vector))
    if judged.verdict in ("supported", "contradicted") or not others:
        return judged
    beside = _against(statement.text, others, sheet, vector)
    if beside.verdict == "contradicted" and not own:
        return beside  # a wrong number is one, cited or not
    return beside if beside.verdict == "supported" and beside.score > judged.score else judged


def _by_cells(text: str, passages: Sequence[int], sheet: Sheet, judged: Judged) -> Judged:
    """The verdict once the numbers were looked for in the cells: what these give, or give computed, is proved."""
    found = sheet.numbers(text, passages)
    if found.wrong:
        note = "; ".join(found.wrong[:MOST_SAID])
        return replace(judged, verdict="contradicted", score=most("contradicted", judged.score), note=note)
    if found.missing:
        verdict = judged.verdict if judged.verdict == "contradicted" else "unsupported"
        note = "; ".join(dict.fromkeys((*found.missing, *filter(None, [judged.note]))))
        return replace(judged, verdict=verdict, score=most("unsupported", judged.score), note=note)
    note = "; ".join(found.computed)
    if judged.verdict != "supported" and found.proved:
        judged = _against(text, passages, sheet, sheet.embed(text), found.proved)
    return replace(judged, note=note) if judged.verdict == "supported" else judged


def _against(
    text: str, passages: Sequence[int], sheet: Sheet, vector: NDArray[np.float32], proved: Sequence[Range] = ()
) -> Judged:
    """`proved`: characters of the figures that need no sentence."""
    if not passages:
        return Judged("unsupported", 0.0, "has no citation", ())
    language = sheet.passages[passages[0]].document.language or "en"
    claim = read_claim(text, language)
    claim = replace(
        claim, figures=tuple(figure for figure in claim.figures if (figure.start, figure.end) not in proved)
    )
    lines = sheet.lines(passages, vector)
    found = support(claim, lines, sheet.surroundings(passages), language)
    if language in LEARNED_LANGUAGES and not proved:  # what is computed from cells stands in no sentence to be read
        read = evidence(text, [line.text for line in lines])
        found = found.judged(sheet.judge(text, read, sheet.passages[passages[0]].document.title))
    return judge_claim(found)


def _cite(statement: ClaimText, judged: Judged, sheet: Sheet) -> tuple[int, ...]:
    """The citations of a claim: under each marker the sentences that were found, at least one."""
    placed: list[int] = []
    for marker in statement.markers:
        for number in sheet.cited([marker]):
            own = [line for line in judged.lines if line[0] == number]
            score = judged.score
            if not own:  # another passage proves it: this one is cited for what it is worth
                alone = _against(statement.text, [number], sheet, sheet.embed(statement.text))
                own, score = list(alone.lines[:1]), min(alone.score, score)
            placed += [sheet.cite(marker, line, score) for line in own]
    return tuple(dict.fromkeys(placed))


# --- one citation --------------------------------------------------------------------------------------------------


def _citation(marker: int, passage: Passage, chunk: Chunk, index: int, score: float) -> Citation:
    sentence = chunk.sentences[index]
    origin = origin_of(chunk, sentence.start, sentence.end)
    return replace(
        _whole(marker, passage, chunk),
        page=sentence.boxes[0].page if sentence.boxes else sentence.page,
        boxes=tuple(sentence.boxes),
        located=bool(sentence.boxes)
        or (passage.document.format not in PAGED and origin is not None and not _has_boxes(chunk)),
        quote=chunk.text[sentence.start : sentence.end],
        support_score=round(score, SCORE_DIGITS),
        origin=origin or (0, 0),
    )


def _whole(marker: int, passage: Passage, chunk: Chunk) -> Citation:
    document = passage.document
    return Citation(
        marker=marker,
        document_id=document.id,
        document_name=document.name,
        chunk_id=chunk.id,
        chunk_sequence=chunk.sequence,
        heading_path=chunk.heading_path,
        page=chunk.page,
        boxes=chunk.boxes,
        located=bool(chunk.boxes),
        quote=chunk.text.strip(),
        relevance_score=round(passage.hit.score, SCORE_DIGITS),
        similarity_score=round(passage.hit.cosine, SCORE_DIGITS),
        url=document.source if document.source.startswith(("http://", "https://")) else "",
    )


def _has_boxes(chunk: Chunk) -> bool:
    return any(span.box is not None for span in chunk.spans)


def origin_of(chunk: Chunk, start: int, end: int) -> Range | None:
    """Where characters `start..end` of the chunk stand in the document's text."""
    first = next((span for span in chunk.spans if span.start <= start < span.end), None)
    last = next((span for span in reversed(chunk.spans) if span.start < end <= span.end), None)
    if first is None or last is None:
        return None
    return first.origin + start - first.start, last.origin + end - last.start
