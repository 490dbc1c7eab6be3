"""Answers without a model: the sentences that answer best, word for word, each with a citation.

The direct sentence for a fact, one line per item for a list, evidence for each side of a comparison, the sentences that
open each section for a summary, the reasons in the order of the document for an analysis. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from refdesk.answer import Context, Query, Retrieved
from refdesk.ask.classify import asked_form, spelled_out
from refdesk.ask.figures import Side, disagree, quoted_side
from refdesk.ask.listing import ChosenList, Place, chosen_list, with_leads, without_bullet
from refdesk.ask.no_answer import whole_number
from refdesk.ask.sentences import (
    CALIBRATION,
    ScoredSentence,
    heads_text,
    question_words,
    score_sentences,
    sentence_text,
)
from refdesk.ask.told import another, can_stand, is_labelled, paragraph, section, under
from refdesk.ask.wording import (
    CELLS,
    NUMBER,
    SEVERAL,
    asks_yes_or_no,
    chances,
    is_pair,
    meaning,
    names_several,
    read,
    said,
    table_header,
    wanted,
)
from refdesk.ask.yes_or_no import yes_or_no
from refdesk.periods import document_period, period_of
from refdesk.settings import Settings
from refdesk.summaries import ENDS
from refdesk.text import query_terms
from refdesk.types import Document, FoundSpan, Hit

# Chance from which a span is shown as the thing itself; of those shown .71 share most of their words with the answer on
# squadshift_reddit, .71 on squad2_disfl.
LIKELY_SHORT = 0.3
# Log-odds below the first sentence. On squad2_disfl 1.35 sentences an answer, .90 with the answer in one of them; at 2
# it is 1.24 and .89, at 5 1.76 and .92.
NEAR = 3.0
# Chance of those chosen from which no further one is added. 1.29 -> 1.22 sentences an answer on squad2_disfl, 1.36 ->
# 1.29 on squad_dev11, 1.56 -> 1.50 on squadshift_reddit, with the answer in one as often; at .7 .006 fewer hold it.
ENOUGH = 0.8
FURTHER = 10.0  # for the differing value of another document, which nobody may have read
LIST_ITEMS = 12  # that are shown
ANALYSIS_SENTENCES = 3
SUMMARY_SENTENCES = 6
SIDE = 10.0  # log-odds for a sentence that holds all words of a side of a comparison
DEFINES, DEFINING = 0.95, 3  # chance that it is asked what something is, and words that tell it
COMPARED = 0.87  # how sure it may be that sentences compare two things
UNLISTED = 0.49  # how sure it may be that sentences tell steps or several things, where there is no list of them
OTHER_YEAR = 0.65  # the same of one that names other years alone than are asked for, of which its document is
FEWEST_ASKED = 2  # words of a question that a text asks itself: "Why?" is asked everywhere
RECURRING = 2  # sentences of a document that name what it is about
SUMMED_UP = 0.8  # chance that the sentences of a document's sections sum it up; nothing has measured it

# A letter or a number before the sentence may be its own: "A. Smith owns it."
_SUBJECT = re.compile(r"([^:.,;()]{3,60}?)(?::| is | are | means | refers to | shall mean )\s*\S")
_BRACKETS = re.compile(r"\s\([^()]*\d[^()]*\)")
_POINTS = ".,;:!?()\"'“”‘’"


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence as the document has it, on one line; `before` sets it off from the one before."""

    text: str
    before: str
    evidence: ScoredSentence
    chance: float | None = None  # of a list: that it is what was asked for
    note: str = ""  # what the reader should know of it
    most: float = 1.0  # confidence that may be had in it

    @property
    def passage(self) -> int:
        return self.evidence.passage


def extract(
    query: Query, context: Context, retrieved: Retrieved, settings: Settings, most: int | None = None
) -> list[Quote]:
    """The quotes that answer, in the order in which they are shown; `most` sentences, where that is given."""
    if retrieved.key_sentences:
        return _keys(context, retrieved.key_sentences, retrieved.key_titles)
    ranked = ranked_sentences(query, context, retrieved)
    if not ranked:
        return []
    asked, is_asked = wanted(query), asked_form(query.fullest)
    if is_asked and is_asked(ranked[0].text):
        asked = "one"
    if asked in ("steps", "several") and most is None:
        found = chosen_list(query, context, retrieved, ranked[0], asked)
        told = section(query, context, ranked[0])[:LIST_ITEMS] if asked == "steps" else []
        if told and (found is None or found.passage.number != told[0].passage):
            return [replace(quote, most=COMPARED) for quote in _sentences(told)]
        if found is not None:
            return _listed(found, query.question)
    documents = {passage.document.id: passage.document for passage in context.passages}
    has_label = is_labelled(query, ranked[0])
    if most is None and not is_asked and (has_label or _may_ask_how(query)):
        # What is to be done is told around the sentence that names the case: "Buoy adrift: …"
        told = paragraph(ranked, settings.max_sentences)
        surest = 1.0 if len(told) == 1 else UNLISTED if asked == "steps" and not has_label else COMPARED
        return [replace(quote, most=surest) for quote in _sentences(told)]
    chosen = with_leads(_chosen(query, ranked, settings, documents)[:most])
    quotes = _lines(chosen) if query.intent == "list" else _sentences(chosen)
    short = short_answer(query, quotes) if asked == "several" else ""
    if asked == "several" and not names_several(short) and not (short and len(quotes) == 1):  # no sentence names them
        quotes = [replace(quote, most=UNLISTED) for quote in quotes]
    if query.intent == "summary":  # of no document: no reader has seen whether these sum it up
        quotes = [replace(quote, most=UNLISTED) for quote in quotes]
    if query.intent == "comparison":  # a sentence beside another is seldom the whole of it
        quotes = [replace(quote, most=min(quote.most, COMPARED)) for quote in quotes]
    return [replace(quote, most=min(quote.most, _most_of_year(query, quote, documents))) for quote in quotes]


def _most_of_year(query: Query, quote: Quote, documents: Mapping[str, Document]) -> float:
    """How sure it may be, by the years that it speaks of: "In fiscal 2024 it was …" is not what 2023 was.

    A report of the year that is asked for may compare it with others.
    """
    years, own = period_of(query.fullest).years, period_of(quote.text).years
    if not (years and own) or not own.isdisjoint(years):
        return 1.0
    document = documents[quote.evidence.chunk.document_id]
    about = document_period(document.name, document.title).years
    return UNLISTED if about.isdisjoint(years) else OTHER_YEAR


def ranked_sentences(query: Query, context: Context, retrieved: Retrieved) -> list[ScoredSentence]:
    """Those of the passages that may be quoted, best first."""
    placed = [(passage.number, chunk, passage.hit.score) for passage in context.passages for chunk in passage.chunks]
    documents = {passage.document.id: passage.document for passage in context.passages}
    evidence = (retrieved.sentence_vectors, retrieved.idf, documents, retrieved.readings)
    every = score_sentences(query, placed, *evidence)
    sections = {(chunk.document_id, "".join(chunk.heading_path[-1:])) for _, chunk, _ in placed}
    scored = below_heading([sentence for sentence in every if not _names_section(sentence, sections)])
    scored = below_question(query, scored)
    is_asked = asked_form(query.fullest)
    found = [sentence for sentence in scored if is_asked(sentence.text)] if is_asked else []
    if not found:
        return _standing(query, scored)
    # First those that are what is asked for by their form, whatever words they hold; a caption heads its table.
    most, share = scored[0].score + SIDE, 1.0 / len(found)
    raised = [replace(sentence, score=most + sentence.score / SIDE, share=share) for sentence in found]
    return [*raised, *_standing(query, [replace(sentence, share=0.0) for sentence in scored if sentence not in found])]


def _names_section(sentence: ScoredSentence, sections: Collection[tuple[str, str]]) -> bool:
    """Is it but the name of another section that was found too, as in a table of contents? That one tells more."""
    name = without_bullet(sentence.text.strip())
    return name not in sentence.chunk.heading_path[-1:] and (sentence.chunk.document_id, name) in sections


def below_heading(scored: list[ScoredSentence]) -> list[ScoredSentence]:
    """Where a heading within a chunk fits best, what stands below it comes first: "Differences" tells none itself."""
    if not scored or not heads_text(scored[0].chunk, scored[0].sentence):
        return scored
    heading, chunk = scored[0], scored[0].chunk
    places = under(chunk, heading.sentence)
    below = [other for other in scored if other.chunk.id == chunk.id and other.sentence in places]
    others = [other for other in scored if other not in below]
    rivals = sum(math.exp(other.score - heading.score) for other in others if other is not heading and can_stand(other))
    below.sort(key=lambda other: other.sentence)
    return [*(replace(other, score=heading.score, share=1.0 / (1.0 + rivals)) for other in below), *others]


def below_question(query: Query, scored: list[ScoredSentence]) -> list[ScoredSentence]:
    """Where the question itself stands in a text, what follows comes first, as in an interview: "Ola, how long should a
    nap be?", "Ten to twenty minutes." It must be the likeliest answer of its passage: in a forum nothing may follow.
    """
    asked = read(query.fullest).content
    best = {one.chunk.id: one for one in sorted(scored, key=lambda one: one.span.score if one.span else -math.inf)}
    told = [one for one in best.values() if one.span and can_stand(one) and _is_asked_above(one, asked)]
    if len(asked) < FEWEST_ASKED or len(told) != 1:
        return scored
    others = [one for one in scored if one is not told[0]]
    most = scored[0].score + NEAR
    rivals = sum(math.exp(one.score - most) for one in others if can_stand(one))
    return [replace(told[0], score=most, share=1.0 / (1.0 + rivals)), *others]


def _is_asked_above(sentence: ScoredSentence, asked: frozenset[str]) -> bool:
    """Does the paragraph above end with a question of these words, and at most one other, whom it is put to?"""
    if not sentence.sentence:
        return False
    above, own = another(sentence, sentence.sentence - 1).text.rstrip(), sentence.chunk.sentences
    is_next = "\n" in sentence.chunk.text[own[sentence.sentence - 1].end : own[sentence.sentence].start]
    return is_next and above[-1:] == "?" and asked <= read(above).content and len(read(above).content - asked) <= 1


def short_answer(query: Query, quotes: Sequence[Quote]) -> str:
    """The thing itself that a question asks for, as the best quote has it; "" where that is not sure.

    "The anchor of the outer buoy weighs 350 kg." -> "350 kg"
    """
    if quotes and (asks_yes_or_no(query.fullest) and len(query.parts) < 2):
        return yes_or_no(query.fullest, [quote.text for quote in quotes if quote.evidence.chunk.kind == "text"])
    if quotes and (full := spelled_out(query.fullest, quotes[0].text)):
        return full
    # Of a row the reader knows which it is, not which of its columns is meant: it learned from few tables.
    read = [quote for quote in quotes if quote.evidence.span is not None and not _leaves_column_open(quote.evidence)]
    is_chosen = bool(quotes) and quotes[0].chance is not None  # a list or a summary: all of it is the answer
    asks_for_many = is_chosen or query.intent == "summary" or len(query.parts) > 1 or _may_ask_how(query)
    if not read or asks_for_many:
        return ""
    best = max(read, key=lambda quote: quote.evidence.score)
    span = best.evidence.span
    assert span is not None
    text = " ".join(_with_number(query, best.evidence.chunk.text, span).split())
    if best.evidence.chunk.kind == "table":  # of a form, whose values are answers
        value = best.text.partition(CELLS)[2]
        text = value if text in value else ""
    learned: Mapping[str, float] = CALIBRATION["short"]
    odds = CALIBRATION["short_intercept"] + learned["share"] * best.evidence.share + learned["span"] * span.score
    is_likely = 1.0 / (1.0 + math.exp(-odds)) >= LIKELY_SHORT and bool(text) and text in best.text
    # What something is takes more than a name ("the buoy" is not what storm mode is), unless it is a number.
    asks_what_it_is = chances(query.fullest)["definition"] >= DEFINES
    says_enough = not asks_what_it_is or len(text.split()) >= DEFINING or any(map(str.isdigit, text))
    return text if is_likely and says_enough else ""


def _leaves_column_open(evidence: ScoredSentence) -> bool:
    """Is it a row of a table in which another cell may be meant?"""
    return evidence.chunk.kind == "table" and not is_pair(evidence.chunk, evidence.sentence)


def rare_names(names: frozenset[str], hits: Sequence[Hit]) -> frozenset[str]:
    """Those that the best document hardly says in what was found of it: it is not about them."""
    best = [hit.chunk for hit in hits if hit.document.id == hits[0].document.id]
    said_in = [read(sentence_text(chunk, place)).terms for chunk in best for place in range(len(chunk.sentences))]
    return frozenset(name for name in names if sum(name in words for words in said_in) < RECURRING)


def leaves_out(quotes: Sequence[Quote], names: frozenset[str]) -> bool:
    """Is one of these names in none of the quotes, nor in what they stand under? Then what is said may be said of
    another: "Your salary is …" of whoever the letter goes to.

    Of 12 such answers that were `high` 5 were right, where the name is a rare one (squad_dev11, squad2_disfl,
    squadshift_reddit, 900 questions, half of them without an answer); of 16 with any name 8.
    """
    held = frozenset().union(*(read(quote.text).terms | _around(quote.evidence) for quote in quotes))
    return not names <= held


def _with_number(query: Query, text: str, span: FoundSpan) -> str:
    """What was found, with a number in brackets behind it where one is asked for: `a margin (65 vs. 43 %)`."""
    found, behind = text[span.start : span.end], _BRACKETS.match(text, span.end)
    asks_for_number = query.number >= NUMBER or meaning(query.fullest).asks.startswith("how ")
    if not asks_for_number or behind is None or read(found).numbers:
        return whole_number(text, span.start, span.end)
    return text[span.start : behind.end()]


def _may_ask_how(query: Query) -> bool:
    """`What should the crew do when …?` is answered by what is done, seldom by a name or one sentence; "How often do I
    test it?" is.
    """
    asks_for_measure = meaning(query.fullest).asks.startswith("how ")
    return not asks_for_measure and (wanted(query) == "steps" or chances(query.fullest)["steps"] >= SEVERAL)


def _standing(query: Query, ranked: Sequence[ScoredSentence]) -> list[ScoredSentence]:
    """Those that may stand; for a fact only as far down as one of them can be chosen."""
    found: list[ScoredSentence] = []
    for sentence in ranked:
        if found and query.intent == "factual" and sentence.score < found[0].score - FURTHER:
            break
        if can_stand(sentence):
            found.append(sentence)
    return found


def _chosen(
    query: Query, ranked: Sequence[ScoredSentence], settings: Settings, documents: Mapping[str, Document]
) -> list[ScoredSentence]:
    match query.intent:
        case "comparison" if len(query.parts) > 1:
            return _in_context(query, _comparison(query, ranked), 2 * len(query.parts))
        case "summary":
            return _summary(_of_near_documents(ranked))
        case "analytical":
            return _in_context(query, _analysis(ranked, settings), ANALYSIS_SENTENCES)
    return _in_context(query, _factual(query, ranked, settings, documents), settings.max_sentences)


# --- what each intent takes ------------------------------------------------------------------------------------------


def _factual(
    query: Query, ranked: Sequence[ScoredSentence], settings: Settings, documents: Mapping[str, Document]
) -> list[ScoredSentence]:
    """The sentence that answers best. A further one only where it adds something:

    it stands in the same document and answers almost as well, and those before it are not sure; or another document
    gives another value of the same thing. A row of a table is joined only by what holds the same words of the question.
    """
    first, *others = ranked
    held = frozenset(query.terms) & read(first.text).terms
    chosen = [first]
    side: Side | None = None  # read where there is something to compare it with
    for sentence in others:
        if len(chosen) >= settings.max_sentences or sentence.score < first.score - FURTHER:
            break
        if first.chunk.kind == "table" and not held <= read(sentence.text).terms:
            continue
        is_near = sentence.chunk.document_id == first.chunk.document_id and sentence.score > first.score - NEAR
        is_near &= query.intent == "list" or not _are_sure(chosen)
        if not _ends(sentence) or not (is_near or _may_differ(query, first, sentence)):
            continue
        is_new = not any(_repeats(sentence, other) for other in chosen)
        if is_new and not is_near:
            side = side or quoted_side(first.text, first.chunk, documents[first.chunk.document_id])
        if is_new and (is_near or _differs(query, side, sentence, documents)):
            chosen.append(sentence)
    return chosen


def _are_sure(chosen: Sequence[ScoredSentence]) -> bool:
    """Is one of them surely the answer? What begins with a pronoun does not say of whom."""
    return sum(other.share for other in chosen if not read(other.text).begins_with_pronoun) >= ENOUGH


def _ends(sentence: ScoredSentence) -> bool:
    """Is it whole? A line of running text without an end is a title, a label or a scrap."""
    return sentence.chunk.kind != "text" or sentence.text.strip()[-1:] in ENDS


def _may_differ(query: Query, first: ScoredSentence, sentence: ScoredSentence) -> bool:
    """Two statements of one thing share a word of the question and have figures; these are then read."""
    own, other = read(first.text), read(sentence.text)
    is_row = "table" in (first.chunk.kind, sentence.chunk.kind)
    shared = own.terms & other.terms & set(query.terms)
    has_figures = bool(own.numbers and other.numbers)
    return sentence.chunk.document_id != first.chunk.document_id and bool(shared or is_row) and has_figures


def _differs(query: Query, first: Side | None, sentence: ScoredSentence, documents: Mapping[str, Document]) -> bool:
    """Does another document give another value of the same thing?"""
    other = quoted_side(sentence.text, sentence.chunk, documents[sentence.chunk.document_id])
    return first is not None and disagree(query, first, other) is not None


def _comparison(query: Query, ranked: Sequence[ScoredSentence]) -> list[ScoredSentence]:
    """One sentence that names all sides, else one for each side; a side that nothing names is left out."""
    sides = [frozenset(query_terms(part)) for part in query.parts]
    shared = frozenset.intersection(*sides)
    own = [side - shared or side for side in sides]
    left = question_words(query.fullest).metric - frozenset.union(*sides)
    defining = [next((sentence for sentence in ranked if _defines(side, sentence)), None) for side in sides]
    if len(left) <= 1 and all(defining):  # nothing is asked but how they differ: what each of them is
        return [sentence for sentence in defining if sentence is not None]
    for scored in ranked:
        if scored.score > ranked[0].score - NEAR and all(side <= read(scored.text).terms for side in own):
            return [scored]
    chosen: list[ScoredSentence] = []
    is_named = all(any(side <= _around(sentence) for sentence in ranked) for side in own)
    for side in own:
        naming = [sentence for sentence in ranked if side <= _around(sentence)]
        near = (sentence for sentence in ranked if sentence.score > ranked[0].score - NEAR)
        fitting = naming or [sentence for sentence in near if _share(side, sentence) > 0]
        beside = {sentence.chunk.document_id for sentence in chosen if is_named}  # one document compares them best
        fitting.sort(
            key=lambda sentence: (
                -(sentence.score + SIDE * _share(side, sentence) + NEAR * (sentence.chunk.document_id in beside))
            )
        )
        fresh = (sentence for sentence in fitting if sentence not in chosen)
        # What are sides of a comparison only in form ("the difference between what A and B earn") no sentence names.
        chosen += _distinct(fresh, 1 if is_named else 2, already=chosen)
    return chosen or list(ranked[:1])


def _of_near_documents(ranked: Sequence[ScoredSentence]) -> list[ScoredSentence]:
    """Without documents that say nothing nearly as fitting as the best sentence: they tell of something else."""
    near = {sentence.chunk.document_id for sentence in ranked if sentence.score > ranked[0].score - NEAR}
    return [sentence for sentence in ranked if sentence.chunk.document_id in near]


def _around(sentence: ScoredSentence) -> frozenset[str]:
    """Its words and those of the headings that it stands under."""
    return read(sentence.text).terms | read(f"{sentence.chunk.context} {' '.join(sentence.chunk.heading_path)}").terms


def _defines(side: frozenset[str], sentence: ScoredSentence) -> bool:
    """Does it say what this is? `Perceived usefulness: The degree to which …`, `A swivel is a joint that …`."""
    subject = _SUBJECT.match(quoted(sentence))
    return subject is not None and frozenset(query_terms(subject[1])) == side


def _share(side: frozenset[str], sentence: ScoredSentence) -> float:
    """How much of a side's words the sentence holds, its heading and title counting half."""
    own = read(sentence.text).terms
    above = _around(sentence)
    return sum(1.0 if term in own else 0.5 if term in above else 0.0 for term in side) / max(1, len(side))


def _summary(ranked: Sequence[ScoredSentence]) -> list[ScoredSentence]:
    """The first sentence of each section, best sections first, then in the order of the documents."""
    leads: dict[tuple[str, tuple[str, ...]], ScoredSentence] = {}
    for scored in ranked:
        if scored.chunk.kind == "table":
            continue
        section = (scored.chunk.document_id, scored.chunk.heading_path)
        known = leads.get(section)
        if known is None or _place(scored) < _place(known):
            leads[section] = scored
    chosen = _distinct(leads.values(), SUMMARY_SENTENCES)
    # Few sections: their best sentences beside the leads.
    rest = (sentence for sentence in ranked if sentence not in chosen)
    return _document_order([*chosen, *_distinct(rest, SUMMARY_SENTENCES - len(chosen), chosen)])


def _analysis(ranked: Sequence[ScoredSentence], settings: Settings) -> list[ScoredSentence]:
    """The sentence that answers best first; the others as the documents have them."""
    best = ranked[0]
    near = (
        sentence
        for sentence in ranked
        if sentence.score > best.score - NEAR and sentence.chunk.document_id == best.chunk.document_id
        if sentence is best or _ends(sentence)
    )
    first, *others = _distinct(near, max(ANALYSIS_SENTENCES, settings.max_sentences))
    return [first, *_document_order(others)]


# --- which sentences may stand, and beside which ---------------------------------------------------------------------


def _distinct(
    found: Iterable[ScoredSentence], most: int, already: Sequence[ScoredSentence] = ()
) -> list[ScoredSentence]:
    """The first that do not repeat one before them."""
    chosen: list[ScoredSentence] = []
    for sentence in found:
        if len(chosen) >= most:
            break
        if not any(_repeats(sentence, other) for other in (*already, *chosen)):
            chosen.append(sentence)
    return chosen


def _repeats(sentence: ScoredSentence, other: ScoredSentence) -> bool:
    return _said(sentence.text) == _said(other.text)


@lru_cache
def _said(text: str) -> str:
    """Its words: `"So, it fell by -5 %."` -> `"so it fell by -5 %"`."""
    return " ".join(word.strip(_POINTS) for word in text.lower().split())


def _in_context(query: Query, chosen: Sequence[ScoredSentence], most: int) -> list[ScoredSentence]:
    """A sentence that begins with a pronoun comes after the one before it, or not at all; at most so many. So does the
    best one, where it but gives what was said its name: "We call that storm mode."
    """
    placed: list[ScoredSentence] = []
    asks_what_it_is = chances(query.fullest)["definition"] >= DEFINES
    for sentence in chosen:
        own = read(sentence.text)
        tells = len(own.content - read(query.fullest).content)
        is_but_a_name = asks_what_it_is and sentence is chosen[0] and tells < DEFINING and not own.numbers
        before = _before(sentence) if own.begins_with_pronoun or is_but_a_name else None
        if own.begins_with_pronoun and before is None and len(chosen) > 1:
            continue
        new = [
            next_one for next_one in (before, sentence) if next_one and next_one.text not in [o.text for o in placed]
        ]
        if not placed or len(placed) + len(new) <= most:
            placed += new[-most:]
    return placed or list(chosen[:1])


def _before(sentence: ScoredSentence) -> ScoredSentence | None:
    if sentence.sentence == 0 or sentence.chunk.kind not in ("text", "glossary"):
        return None
    before = another(sentence, sentence.sentence - 1)
    return before if can_stand(before) and _ends(before) else None


def _document_order(chosen: Sequence[ScoredSentence]) -> list[ScoredSentence]:
    """Documents as they were first chosen, sentences as they stand."""
    first: dict[str, int] = {}
    for scored in chosen:
        first.setdefault(scored.chunk.document_id, len(first))
    return sorted(chosen, key=lambda sentence: (first[sentence.chunk.document_id], _place(sentence)))


def _place(sentence: ScoredSentence) -> tuple[int, int]:
    return sentence.chunk.sequence, sentence.sentence


# --- how they are set ------------------------------------------------------------------------------------------------


def _sentences(chosen: Sequence[ScoredSentence]) -> list[Quote]:
    """Sentences run on; a row or a line that does not end as a sentence does gets a line of its own."""
    quotes: list[Quote] = []
    was_line = False
    for with_header in _with_headers(chosen):
        text = quoted(with_header)
        is_line = with_header.chunk.kind in ("table", "code") or text[-1:] not in ENDS
        before = "" if not quotes else "\n" if is_line and was_line else "\n\n" if is_line or was_line else " "
        most = COMPARED if text.endswith(",") else 1.0  # what it enumerates goes on elsewhere
        quotes.append(Quote(text, f"{before}- " if is_line else before, with_header, most=most))
        was_line = is_line
    return quotes


def _keys(context: Context, keys: Sequence[tuple[int, int]], titles: Sequence[str]) -> list[Quote]:
    """The key sentences of the document that is summed up, as they stand in its passages; by section, if it is told."""
    placed = {chunk.id: (passage.number, chunk) for passage in context.passages for chunk in passage.chunks}
    found = [(*placed[chunk_id], place) for chunk_id, place in keys if chunk_id in placed]
    chosen = [ScoredSentence(number, chunk, at, sentence_text(chunk, at), 0.0) for number, chunk, at in found]
    quotes = [replace(quote, chance=SUMMED_UP) for quote in _sentences(chosen)]
    if not titles or len(quotes) != len(keys):
        return quotes
    starts = [f"- {title.rstrip(' .:')}: " if title else "- " for title in titles]
    return [
        replace(quote, before=f"\n{start}" if place else start)
        for place, (quote, start) in enumerate(zip(quotes, starts, strict=True))
    ]


def _listed(found: ChosenList, question: str) -> list[Quote]:
    """What introduces the list, where it leads on to it, then its items on lines of their own, all of one list."""
    quotes: list[Quote] = []

    def add(place: Place, before: str) -> None:
        chunk = found.chunks[place.chunk]
        one = ScoredSentence(found.passage.number, chunk, place.sentence, sentence_text(chunk, place.sentence), 0.0)
        quotes.append(Quote(quoted(one), before if quotes else before.lstrip(), one, found.chance))

    if found.chunks[0].kind == "table":
        head = range(min(table_header(found.chunks[0]).stop, found.items[0][0].sentence))
        for row in (row for row in head if CELLS in sentence_text(found.chunks[0], row)):
            add(Place(0, row), "\n- ")
    elif found.lead is not None and sentence_text(found.chunks[found.lead.chunk], found.lead.sentence).endswith(":"):
        add(found.lead, "")
    for item in found.items[:LIST_ITEMS]:
        for number, place in enumerate(item):
            add(place, " " if number else "\n" if found.is_numbered else "\n- ")
    if len(found.items) > LIST_ITEMS:
        quotes[-1] = replace(quotes[-1], note=_rest(found, question))
    return quotes


def _rest(found: ChosenList, question: str) -> str:
    """`The list has 20 items; the first 12 are shown. The others are on pages 4 to 5 of “Rules.pdf”.`"""
    others = [place for item in found.items[LIST_ITEMS:] for place in item]
    pages = sorted({found.chunks[place.chunk].sentences[place.sentence].page for place in others})
    where = said("page" if len(pages) == 1 else "pages", question).format(first=pages[0], last=pages[-1])
    counts = {"all": len(found.items), "shown": LIST_ITEMS}
    return said("rest", question).format(**counts, where=where, document=found.passage.document.name)


def _lines(chosen: Sequence[ScoredSentence]) -> list[Quote]:
    return [Quote(quoted(row), "\n- " if number else "- ", row) for number, row in enumerate(_with_headers(chosen))]


def _with_headers(chosen: Sequence[ScoredSentence]) -> list[ScoredSentence]:
    """Rows of a table follow the rows that name its columns: numbers alone say nothing."""
    found: list[ScoredSentence] = []
    last = 0
    for sentence in chosen:
        if sentence.chunk.kind == "table" and sentence.chunk.id != last:
            last_head = min(table_header(sentence.chunk).stop, sentence.sentence)
            head = [another(sentence, place) for place in range(last_head)]
            found += [row for row in head if CELLS in row.text]
        last = sentence.chunk.id
        found.append(sentence)
    return found


def quoted(sentence: ScoredSentence) -> str:
    """The sentence on one line; a bullet before it is not part of what it says, except in code and tables."""
    text = " ".join(sentence.text.split())
    return text if sentence.chunk.kind in ("table", "code") else without_bullet(text)
