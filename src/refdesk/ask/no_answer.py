"""What is no answer to a question, however well it reads: a figure in another measure, when a mail was sent, a figure
of a table where running text says it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from refdesk.answer import Query, Retrieved
from refdesk.ask.figures import CURRENCIES, SCALES, figures
from refdesk.ask.sentences import question_words, sentence_text
from refdesk.ask.wording import LIKELY, MEANT, NUMBER, PART, chances, read, wanted
from refdesk.document_names import called_by
from refdesk.negation import is_negated, is_negation
from refdesk.ports import Embedder, Reader
from refdesk.text import QUERY_STOP_WORDS, asset_lines, fold, query_terms, words
from refdesk.types import Chunk, Document, FoundSpan, Hit, Reading

# --- which of what was read is no answer to this question? ------------------------------------------------------------

MAILS, SENT = ("eml", "msg"), "Date: "  # the formats of mails, and how the line begins that says when one was sent
CERTAIN, ANSWERED = 12.0, 2.0  # for the date of a mail that is asked for: what a reader gives where it is sure
_WORD = re.compile(r"[\w'’]+")
STATED, UNANSWERED = 6.0, -5.0  # a date that is stated has 8 and more; what a passage about something else gets
# Of 39 questions written for three mails, 18 of them for the date of the mail, three are nearer to the wrong side. With
# the first pair alone six are, with the second alone eight. Without what happened to the sender, 19 of 43 others were,
# mostly such as "When did Ada join the company?"; with it 4.
_OF_ANY_MAIL = ("When was this mail sent?", "When did someone write this message?")
_OF_ANY_EVENT = ("When does this event take place?", "When did this happen?")
_OF_THIS_MAIL = ("When did {sender} send the mail about {subject}?",)
_OF_THIS_EVENT = (
    "When does this take place: {subject}?",
    "When did this happen: {subject}?",
    "When was {sender} born?",
)


def fitting(
    reading: Reading, hit: Hit, query: Query, units: frozenset[str], embedder: Embedder, reader: Reader
) -> Reading:
    """What was read without what is no answer to this question, however well it reads: figures in units that do not
    measure what is asked for, the full name of what the question names, where several things of it are asked for,
    when a mail was sent, where it is asked when something happens, and what must not be, where it is asked what must.
    """
    place = _when_sent(reading, hit)
    if place is not None and _asks_when_sent(query, hit.document, embedder):
        return _made_sure(reading, place, hit.chunk) if _names(query, hit.document) else reading
    if place is not None:
        reading = _read_without(place, hit.chunk, query, reader) or reading
    if (part := denied(reading, hit.chunk, query.fullest)) is not None:
        other = reader.read(query.fullest, _blanked(hit.chunk, part))
        reading = other if other is not None and _best(other)[0] >= STATED else reading
    if wanted(query) == "several":
        reading = _without(lambda found, _: spells_out(found, query.fullest), reading, hit)
    return without_units(units, reading, hit) if units else reading


def without_units(units: frozenset[str], reading: Reading, hit: Hit) -> Reading:
    """Without figures in these units: metres say nothing of how heavy something is."""
    return _without(lambda found, behind: is_unfit(found, units, behind), reading, hit)


def spells_out(text: str, question: str) -> bool:
    """
    >>> spells_out("Advanced Micro Devices", "What are the main products of AMD?")
    True
    """
    initials = "".join(word[0] for word in text.split() if word[0].isupper())
    return len(initials) > 1 and initials in question.replace("?", "").split()


def _without(is_none: Callable[[str, str], bool], reading: Reading, hit: Hit) -> Reading:
    """Without the spans that are no answer by their text and what stands behind them."""
    text = hit.chunk.text
    spans = tuple(
        span._replace(score=min(span.score, 0.0))
        if span and is_none(text[span.start : span.end], text[span.end : span.end + REACH])
        else span
        for span in reading.spans
    )
    if spans == reading.spans:
        return reading
    return replace(reading, answered=min(reading.answered, max(span.score for span in spans if span)), spans=spans)


def _best(reading: Reading) -> tuple[float, int]:
    """The logit of the likeliest answer, and its sentence; -1 where there is none."""
    return max(((span.score, place) for place, span in enumerate(reading.spans) if span is not None), default=(0.0, -1))


def denied(reading: Reading, chunk: Chunk, question: str) -> range | None:
    """Where the likeliest answer is what should, must or can not be done, and the question asks what should: from that
    word to the end of its clause. `They need a coat; they should not bring money` to "What should children bring?"
    """
    place = _best(reading)[1]
    span = reading.spans[place] if place >= 0 else None
    if span is None or is_negated(question):
        return None
    start, end, *_ = chunk.sentences[place]
    ends = [start, *(start + mark.end() for mark in PART.finditer(chunk.text[start:end])), end]
    first, last = max(at for at in ends if at <= span.start), min(at for at in ends if at >= span.end)
    if read(chunk.text[first:last]).content.isdisjoint(read(question).content):
        return None
    asked = MEANT.intersection(words(question))
    found = [(match[0].lower(), first + match.start()) for match in _WORD.finditer(chunk.text[first : span.start])]
    for (word, at), (behind, _) in pairwise([*found, ("", span.start)]):
        is_whole = is_negation(word) and word.removesuffix("n't").removesuffix("not") in asked  # "cannot", "shouldn't"
        if (is_whole or (word in asked and is_negation(behind))) and is_negated(chunk.text[at:last]):
            return range(at, last)
    return None


def _blanked(chunk: Chunk, part: range) -> Chunk:
    """The chunk as if this were not there; all else stays where it is."""
    return replace(chunk, text=f"{chunk.text[: part.start]}{' ' * len(part)}{chunk.text[part.stop :]}")


def _when_sent(reading: Reading, hit: Hit) -> int | None:
    """The sentence that says when a mail was sent, where it holds the likeliest answer."""
    place = _best(reading)[1]
    if place < 0 or hit.document.format not in MAILS or hit.chunk.sequence > 1:
        return None
    return place if sentence_text(hit.chunk, place).startswith(SENT) else None


def _made_sure(reading: Reading, place: int, chunk: Chunk) -> Reading:
    """The whole of the line is the answer."""
    start, end, *_ = chunk.sentences[place]
    spans = list(reading.spans)
    spans[place] = FoundSpan(start + len(SENT), end, CERTAIN)
    return replace(reading, answered=max(reading.answered, ANSWERED), spans=tuple(spans))


def _read_without(place: int, chunk: Chunk, query: Query, reader: Reader) -> Reading | None:
    """The passage as if this sentence were not there; where no other one states an answer, it is none."""
    start, end, *_ = chunk.sentences[place]
    reading = reader.read(query.fullest, _blanked(chunk, range(start, end)))
    if reading is None or _best(reading)[0] >= STATED:
        return reading
    return replace(reading, answered=min(reading.answered, UNANSWERED))


def _asks_when_sent(query: Query, mail: Document, embedder: Embedder) -> bool:
    """Is the question nearer to one for the date of a mail than to one for that of what it is about?"""
    fields = {"sender": _sender(mail), "subject": mail.title}
    sent = _nearest(query, _OF_ANY_MAIL, embedder) + _nearest(query, _filled(_OF_THIS_MAIL, fields), embedder)
    event = _nearest(query, _OF_ANY_EVENT, embedder) + _nearest(query, _filled(_OF_THIS_EVENT, fields), embedder)
    return sent > event


def _names(query: Query, mail: Document) -> bool:
    """Does it name this mail, by who wrote it or by what it is about?"""
    return not frozenset(query_terms(f"{_sender(mail)} {mail.title}")).isdisjoint(query.terms)


def _sender(mail: Document) -> str:
    return mail.metadata.get("from", "").partition("<")[0].strip()


def _filled(questions: Sequence[str], fields: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(question.format_map(fields) for question in questions)


def _nearest(query: Query, questions: tuple[str, ...], embedder: Embedder) -> float:
    return max(float(query.vector @ embedder.embed_query(question)) for question in questions)


# --- is a figure an answer? Not one in another measure, nor a doubtful one where running text surely answers ---------

SURE = 2.0  # `answered` of a passage from which no further one is read
# Chance below which a text is heard first that answers, and by so much more than every table that was read. Of the 271
# questions about the 40 reports none is answered otherwise for it; two of 17 new ones were wrong for want of it.
CLEAR, TOLD, TOLD_BETTER = 0.895, 0.5, 1.0
REACH = 6  # characters behind a figure that tell whether it is a rate
_RATES = ("per ", "/")
_MONEYS = frozenset(CURRENCIES.values())


def measures_otherwise(figure: Callable[[], str], query: Query, embedder: Embedder) -> bool:
    """Is it a figure in another measure than is asked for? `figure` says it with its unit."""
    unfit = unfit_units(query.fullest, embedder)
    return bool(unfit) and is_unfit(figure(), unfit)


def is_fit_figure(chance: float, query: Query, retrieved: Retrieved) -> bool:
    """Whether it answers before any text is read for it."""
    if _asks_what_it_is(query):
        return False
    return chance >= LIKELY or _answered(retrieved).get("text", -SURE) < SURE


def is_told_better(chance: float, retrieved: Retrieved) -> bool:
    """Does running text answer, and better than every table that was read? Then a figure that is not clear is none."""
    answered = _answered(retrieved)
    text = answered.get("text", -SURE)
    return chance < CLEAR and text >= TOLD and text - answered.get("table", text) >= TOLD_BETTER


def _answered(retrieved: Retrieved) -> dict[str, float]:
    """How well the passages of each kind answer."""
    kinds = {hit.chunk.id: hit.chunk.kind for hit in (*retrieved.considered, *retrieved.hits)}
    found: dict[str, float] = {}
    for chunk, reading in retrieved.readings.items():
        kind = kinds.get(chunk, "")
        found[kind] = max(reading.answered, found.get(kind, reading.answered))
    return found


def _asks_what_it_is(query: Query) -> bool:
    """`What is the WB-7?` names a thing and nothing of it that a figure could be."""
    kinds = chances(query.fullest)
    return kinds["definition"] >= LIKELY and query.number < NUMBER and not question_words(query.fullest).metric


def is_unfit(text: str, unfit: frozenset[str], behind: str = "") -> bool:
    """Has it figures with units, and none that measures what is asked for? "mm per year" measure no length."""
    found = figures(text)
    units = [unit for figure in found for unit in (figure.unit, *(other for _, other in figure.others)) if unit]
    is_rate = any(f"{text[figure.end :]}{behind}".lstrip().startswith(_RATES) for figure in found)
    return bool(units) and not is_rate and unfit.issuperset(MONEY if unit in _MONEYS else unit for unit in units)


# --- in what is the answer measured? "How heavy" asks for no metres, as the embedder knows --------------------------

# Nearness of what is asked for to the nearest measure, and how much further one must be to be no answer. Of the 400
# questions of squad_dev11 and QAMR that have an adjective behind "how" and a measure in their answer, one is taken for
# wrong: metres per second squared for "how fast".
MEASURED, UNFIT = 0.3, 0.24
MONEY = "money"

_measured: dict[str, dict[str, Any]] = {}  # vectors of the measures by the name of the embedder


def unfit_units(question: str, embedder: Embedder) -> frozenset[str]:
    """Bases of units (`MONEY` for all currencies) that do not measure what is asked for; only where "how" asks for it.

    "How heavy is the buoy?" -> {"m", "km/h", "V", …}; "How many people work there?" -> {MONEY}
    """
    asked = fold(question).partition("how ")[2].split()[:4]
    if asked[:1] == ["many"]:
        return frozenset() if any(word in CURRENCIES or word in SCALES for word in asked) else frozenset((MONEY,))
    if not asked or asked[0] in QUERY_STOP_WORDS or asked[0] == "much":  # its noun tells
        return frozenset()
    if embedder.name not in _measured:
        phrases = (line.partition(" = ") for line in asset_lines("units", "measures"))
        _measured[embedder.name] = {base: embedder.embed_query(phrase) for base, _, phrase in phrases}
    vector = embedder.embed_query(f"How {asked[0]} is it?")
    near = {base: float(vector @ measure) for base, measure in _measured[embedder.name].items()}
    near["s"] = near["month"] = max(near["s"], near["month"])
    best = max(near.values())
    return frozenset(base for base, cosine in near.items() if best >= MEASURED and cosine < best - UNFIT)


# --- what of it is shown, and what is it asked without? --------------------------------------------------------------

JOINTS = " -‐‑–()+"  # around the groups of a number that is dialled, or printed on a cover


def without_file_names(question: str, files: Sequence[str]) -> str:
    """The question without what these files are called by; "" where it names none of them, or asks for nothing else.

    >>> without_file_names("How many stores does Best Buy have?", ["BESTBUY_2023_10K.pdf"])
    'How many stores does have?'
    """
    asked = words(question)
    named = {word for file in files for word in called_by(asked, file)}
    kept = [word for word in question.split() if named.isdisjoint(words(word))]
    return " ".join(kept) if named and query_terms(" ".join(kept)) else ""


def whole_number(text: str, start: int, end: int) -> str:
    """What was found, or the number in groups that it is the greater part of.

    Two groups are a range as well, and figures side by side are several, where nothing but a blank is between them.

    >>> whole_number("Fax: (202) 493-2251.", 11, 19)
    '(202) 493-2251'
    """
    left, right = start, end
    while left > 0 and (text[left - 1].isdigit() or text[left - 1] in JOINTS):
        left -= 1
    while right < len(text) and (text[right].isdigit() or text[right] in JOINTS):
        right += 1
    number, found = text[left:right].lstrip(JOINTS[:4] + ")").rstrip(JOINTS[:4] + "(+"), text[start:end]
    number = number if "(" in number else number.rstrip(")")
    digits, groups = ["".join(char if char.isdigit() else " " for char in part).split() for part in (found, number)]
    is_one = len(groups) > 2 and number.count("(") == number.count(")") and (" " not in number or number[0] in "(+")
    return number if is_one and 2 * len("".join(digits)) > len("".join(groups)) else found
