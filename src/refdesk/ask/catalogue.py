"""Answers questions about the library from its list of documents, with a sentence and the matching documents.

>>> answer_from_catalogue(answer, "pages", "How many pages has the Costco 10-K?", scope, library).content
'COSTCO_2021_10K.pdf has 76 pages.'

Which documents there are, which mention something, what was added when, the newest and the longest; and of one that the
question names its pages, date, author, language, format and size. Nothing is guessed: what the list does not know, or a
name that no document has, is left to the search.
"""

from __future__ import annotations

import datetime
import re
from calendar import day_name
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from refdesk.answer import Answer, Citation, Claim, Confidence, Source, Sufficiency
from refdesk.ask.attest import origin_of
from refdesk.ask.wording import SURE
from refdesk.document_names import (
    DAY_NAMES,
    STRETCHES,
    file_names,
    language_name,
    language_of,
    named_documents,
    subjects,
)
from refdesk.library import LibraryReader
from refdesk.periods import QUARTER_MONTHS, SPOKEN_DATE, YEAR, When, document_period, read_date
from refdesk.text import QUERY_STOP_WORDS, named_lines, patterns, query_terms, terms, terms_of_each, words
from refdesk.types import Chunk, Document, Range, Scope

LISTED = 50  # names of documents in an answer
EXTREMES = 5  # documents that are named when one is asked for: the first and those next to it
COUNTED = 1000  # documents that are looked through for a word
LONGEST_PHRASE = 10  # words
LEAST_SAID = 0.34  # share of the words after which documents are asked for that one of them must hold in a row
LONGEST_ENDING = 2  # letters by which two forms of a word that is mentioned may differ
READ_AT_ONCE = 16  # chunks; most hold the word, and then the rest of their document is passed over
READ = "taken from the library's list of documents"
READ_IN_PART = f"{READ}, for part of the question"
IN_PART = SURE  # the chance that a part of what was asked for is of use; not measured, below `high`
EMPTY = "There are no documents yet. Add some, then ask about them."


def answer_from_catalogue(
    answer: Answer, kind: str, text: str, scope: Scope, library: LibraryReader, today: datetime.date | None = None
) -> Answer | None:
    """The answer to a question of this kind; None where the list does not know, and documents may."""
    documents = library.documents(scope)
    if not documents:
        return _nothing(answer, EMPTY)
    asked = _read(kind, text, documents, today or datetime.datetime.now(datetime.UTC).date())
    if kind == "mention":
        return _mentions(answer, asked, scope, library)
    if kind == "list":
        return _listed(answer, asked, scope, library)
    if kind in ("added", "last_added"):
        return _added(answer, asked)
    if kind in _EXTREMES:
        return _extreme(answer, asked, *_EXTREMES[kind])
    return _attribute(answer, asked)


def documents_meant(kind: str, text: str, documents: Sequence[Document]) -> tuple[Sequence[Document], tuple[str, ...]]:
    """The documents that a question names, none where it names none, and what else it says that it is about."""
    asked = _read(kind, text, documents, datetime.datetime.now(datetime.UTC).date())
    return (asked.chosen if asked.names else ()), asked.topics


# --- what is asked? --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """The question as the catalogue reads it. `chosen` are the documents that its conditions leave."""

    kind: str
    all: Sequence[Document]
    chosen: Sequence[Document]
    conditions: tuple[str, ...]  # in words: "in the collection hr", "in German"
    days: Days | None
    names: tuple[str, ...]  # stretches that name documents
    topics: tuple[str, ...]  # those that name none

    @property
    def is_narrowed(self) -> bool:
        return bool(self.conditions or self.names)


def _read(kind: str, text: str, documents: Sequence[Document], today: datetime.date) -> Asked:
    chosen = list(documents)
    conditions: list[str] = []
    taken: list[Range] = []
    days = days_of(text, today)
    by_file = [document for name in file_names(text) for document in documents if document.name.lower() == name.lower()]
    if by_file:
        return Asked(kind, documents, by_file, (), days, tuple(document.name for document in by_file), ())
    if days is not None and kind in ("list", "added", *_EXTREMES):  # of others a year belongs to the name
        taken.append((days.start, days.end))
        if kind != "added" and (own := [document for document in chosen if _is_of(document, days)]):
            chosen = own
            conditions.append(f"of {_span(days)}")
    spoken = language_of(text)
    if (
        spoken
        and kind in ("list", *_EXTREMES)
        and (own := [document for document in chosen if document.language == spoken[0]])
    ):
        chosen = own
        taken.append(spoken[1])
        conditions.append(f"in {language_name(spoken[0])}")
    names: list[str] = []
    topics: list[str] = []
    stretches = subjects(text, kind, taken)
    for place, subject in enumerate(stretches):
        own, what = _told_apart(subject, chosen)
        if not own or (kind == "mention" and place == len(stretches) - 1):  # what is mentioned comes last
            topics.append(subject)
            continue
        chosen = own
        (conditions if what else names).append(what or subject)
    return Asked(kind, documents, chosen, tuple(conditions), days, tuple(names), tuple(topics))


def _is_of(document: Document, days: Days) -> bool:
    """Whether its date is within these days; a report of a year is of that year, whenever its file was made."""
    years = document_period(document.name, document.title).years
    if years and days.first and days.last and days.first.year == days.last.year and days.is_long:
        return days.first.year in years
    return _within(document.date or document.created_at, days)


def _told_apart(subject: str, documents: Sequence[Document]) -> tuple[list[Document], str]:
    """The documents that a stretch of the question chooses, by collection or format (then in words), or by name."""
    lowered = subject.lower()
    if own := [
        document
        for document in documents
        if lowered in (document.collection.lower(), document.collection.lower().rpartition("/")[2])
    ]:
        return own, f"in the collection {own[0].collection}"
    if own := [
        document for document in documents if document.format and lowered.removesuffix("s") == document.format.lower()
    ]:
        return own, f"of the format {own[0].format}"
    return named_documents(subject, documents), ""


# --- which documents? ------------------------------------------------------------------------------------------------


def _listed(answer: Answer, asked: Asked, scope: Scope, library: LibraryReader) -> Answer | None:
    if asked.topics and not asked.names:
        return _mentions(answer, asked, scope, library)
    found = sorted(asked.chosen, key=lambda document: document.name)
    where = " ".join(asked.conditions)
    if asked.names:
        where = f"{where} called “{asked.names[-1]}”".strip()
    count = f"There {'are' if len(found) > 1 else 'is'} {_count(len(found))}{' ' * bool(where)}{where}:"
    return _with_names(answer, count, found)


def _mentions(answer: Answer, asked: Asked, scope: Scope, library: LibraryReader) -> Answer | None:
    """The documents that hold the words in a row, each with the first sentence that does."""
    if not asked.topics:
        return None
    topic = asked.topics[-1]
    within = scope
    if asked.is_narrowed:
        within = replace(scope, documents=tuple(document.id for document in asked.chosen))
    phrase, found = _first_places(topic, within, library)
    if found and len(words(phrase)) < LEAST_SAID * len(words(topic)):  # then it asks for something else
        return None
    where = "".join(f" {condition}" for condition in asked.conditions)
    if not found:
        return _nothing(answer, f"No document{where} mentions “{topic}”. Try another word, or a single word.")
    found.sort(key=lambda one: one.document.name)
    count = f"{'At least ' * (len(found) == COUNTED)}{_count(len(found))}{where} mention{'s' * (len(found) == 1)}"
    told = f"{count} “{phrase}”:"
    if phrase.lower() == topic.lower():
        return _with_places(answer, told, found)
    answer = _with_places(answer, f"No document{where} mentions “{topic}”. {told}", found)
    return replace(answer, confidence=Confidence(IN_PART, "medium", READ_IN_PART))


def _first_places(topic: str, scope: Scope, library: LibraryReader) -> tuple[str, list[FirstMention]]:
    """The longest run of the topic's words that documents hold, and where; what comes first in a question may still
    belong to how it is asked ("bring up tariffs")."""
    typed = topic.split()[:LONGEST_PHRASE]
    for length in range(len(typed), 0, -1):
        for start in range(len(typed) - length, -1, -1):
            phrase = " ".join(typed[start : start + length]).strip(".,;:?!()")
            if words(phrase) and subjects(phrase, "mention") and (found := mentions(phrase, scope, library)):
                return phrase, found
    return topic, []


@dataclass(frozen=True, slots=True)
class FirstMention:
    """Where a document first says something: a chunk, and the place of the sentence in it."""

    document: Document
    chunk: Chunk
    sentence: int


def mentions(phrase: str, scope: Scope, library: LibraryReader) -> list[FirstMention]:
    """Of each document in scope the first sentence that holds these words in a row; in the order they were added."""
    languages = library.languages or ("en",)
    content = [word for word in dict.fromkeys(words(phrase)) if word not in QUERY_STOP_WORDS] or words(phrase)
    waiting = sorted(set.intersection(*(library.holding(query_terms(word, languages), scope) for word in content)))
    found: dict[str, FirstMention] = {}
    while waiting and len(found) < COUNTED:
        rows, waiting, read = library.chunks(waiting[:READ_AT_ONCE]), waiting[READ_AT_ONCE:], 0
        for chunk_id, (chunk, document) in sorted(rows.items()):
            if document.id in found:
                continue
            if (place := _sentence_with(phrase, chunk, document.language or "en")) is not None:
                found[document.id] = FirstMention(document, chunk, place)
                # A document's chunks were written in a row: the others of this one need not be read.
                read = chunk_id + document.chunk_count - 1 - chunk.sequence
        waiting = [chunk_id for chunk_id in waiting if chunk_id > read]
    return list(found.values())[:COUNTED]


def _sentence_with(phrase: str, chunk: Chunk, language: str) -> int | None:
    """The place of the first sentence that holds these words in a row; "tariff" is "tariffs", "moor" not "mooring"."""
    wanted, typed = terms(phrase, language), words(phrase)
    texts = [chunk.text[sentence.start : sentence.end] for sentence in chunk.sentences]
    for place, own in enumerate(terms_of_each(texts, language)):
        for at in [at for at, term in enumerate(own) if term == wanted[0]]:
            if own[at : at + len(wanted)] == wanted:
                held = words(texts[place])[at : at + len(wanted)]
                if all(abs(len(a) - len(b)) <= LONGEST_ENDING for a, b in zip(held, typed, strict=False)):
                    return place
    return None


def _added(answer: Answer, asked: Asked) -> Answer | None:
    latest = sorted(asked.chosen, key=lambda document: (document.created_at, document.name), reverse=True)
    if asked.names and asked.kind == "added" and asked.days is None:
        lines = [
            f"{document.name} was added on {_day(document.created_at)}"
            for document in sorted(latest, key=lambda document: document.name)
        ]
        return _with_lines(answer, lines, sorted(latest, key=lambda document: document.name))
    if asked.topics:
        return None
    where = "".join(f" {condition}" for condition in asked.conditions)
    if asked.days is None:
        last = latest[0]
        told = f"The last document added{where} is {last.name}, on {_day(last.created_at)}:"
        return _with_names(answer, told, latest[:EXTREMES], lambda document: f"added on {_day(document.created_at)}")
    found = [document for document in latest if _within(document.created_at, asked.days)]
    if not found:
        before = f"the last one was {latest[0].name}, on {_day(latest[0].created_at)}"
        return _nothing(answer, f"No document{where} was added {_span(asked.days, whole=True)}; {before}.", latest[:1])
    verb = "was" if len(found) == 1 else "were"
    told = f"{_count(len(found))}{where} {verb} added {_span(asked.days, whole=True)}:"
    return _with_names(answer, told, sorted(found, key=lambda document: document.name))


def _date_key(document: Document) -> str:
    return document.date or document.created_at


# By which value, the greatest or the least, how it is said, and what is said of it.
_EXTREMES: Mapping[str, tuple[Callable[[Document], str | int], bool, str]] = {
    "newest": (_date_key, True, "newest"),
    "oldest": (_date_key, False, "oldest"),
    "longest": (lambda document: document.page_count, True, "longest"),
    "shortest": (lambda document: document.page_count, False, "shortest"),
}


def _extreme(
    answer: Answer, asked: Asked, value: Callable[[Document], str | int], is_greatest: bool, name: str
) -> Answer | None:
    if asked.topics:
        return None  # "the longest river": no document is called so
    ranked = sorted(asked.chosen, key=lambda document: document.name)
    ranked.sort(key=value, reverse=is_greatest)
    first = ranked[0]
    where = "".join(
        f" {condition}" for condition in (*asked.conditions, *(f"called “{name}”" for name in asked.names[-1:]))
    )
    shown = _pages if name in ("longest", "shortest") else _dated
    told = f"The {name} document{where} is {first.name}: {shown(first)}"
    if len(ranked) == 1:
        return _with_names(answer, f"{told}.", ranked, is_list=False)
    return _with_names(answer, f"{told}. After it come:", ranked[:EXTREMES], shown, after_first=True)


# --- what is known of one? -------------------------------------------------------------------------------------------


def _attribute(answer: Answer, asked: Asked) -> Answer | None:
    if asked.topics and not asked.names:
        return None  # not the name of a document
    if not asked.names and len(asked.chosen) > 1:
        return _of_all(answer, asked)
    ordered = sorted(asked.chosen, key=lambda document: document.name)
    lines = [_told(asked.kind, document) for document in ordered]
    known = [(line, document) for line, document in zip(lines, ordered, strict=True) if line]
    if not known:
        return None
    return _with_lines(answer, [line for line, _ in known], [document for _, document in known])


def _told(kind: str, document: Document) -> str:
    """One sentence without its full stop; "" where it is not known."""
    name, author = document.name, document.metadata.get("author", "")
    if any(map(str.isdigit, author)):  # what a program left there, "ARRAY(0x2c7cf020)"; the text may name who wrote it
        author = ""
    if kind == "pages":
        return f"{name} has {_pages(document)}" if document.page_count else ""
    if kind == "author":
        return f"{name} names {author} as its author" if author else ""
    if kind == "date":
        return f"{name} is dated {_day(document.date)}" if document.date else ""
    if kind == "language":
        return f"{name} is in {language_name(document.language)}" if document.language else ""
    if kind == "format":
        return f"{name} is of the format {document.format}" if document.format else ""
    return f"{name} has {_size(document.size)}" if document.size else ""


def _of_all(answer: Answer, asked: Asked) -> Answer | None:
    """Of no document in particular: the sum of pages or bytes, how many are in which language or format."""
    documents = asked.chosen
    if asked.kind in ("pages", "size"):
        pages, size = sum(document.page_count for document in documents), sum(document.size for document in documents)
        told = f"{pages:,} pages" if asked.kind == "pages" else _size(size)
        longest = sorted(documents, key=lambda document: (-document.page_count, document.name))
        shown = _pages if asked.kind == "pages" else lambda document: _size(document.size)
        return _with_names(answer, f"The {_count(len(documents))} have {told} altogether:", longest, shown)
    if asked.kind not in ("language", "format"):
        return None
    values = [
        language_name(document.language) if asked.kind == "language" else document.format for document in documents
    ]
    counts = Counter(value or "unknown" for value in values).most_common()
    told = ", ".join(
        f"{count:,} {'in' if asked.kind == 'language' else 'of the format'} {value}" for value, count in counts
    )
    return _told_answer(answer, f"Of the {_count(len(documents))}: {told}.", ())


# --- how is it said? -------------------------------------------------------------------------------------------------


def _count(number: int) -> str:
    return f"{number:,} document{'s' * (number != 1)}"


def _pages(document: Document) -> str:
    return f"{document.page_count:,} page{'s' * (document.page_count != 1)}"


def _dated(document: Document) -> str:
    return _day(document.date) if document.date else f"added on {_day(document.created_at)}"


def _size(size: int) -> str:
    for unit, least in (("MB", 1_000_000), ("kB", 1_000)):
        if size >= least:
            return f"{size / least:,.1f} {unit}"
    return f"{size:,} bytes"


def _day(moment: str) -> str:
    """>>> _day("2026-11-16T08:52:22.513+00:00")
    '16 November 2026'
    """
    try:
        day = datetime.date.fromisoformat(moment[:10])
    except ValueError:  # a year alone, or a month
        return moment
    return f"{day.day} {day:%B %Y}"


def _span(days: Days, *, whole: bool = False) -> str:
    first, last = (_day(day.isoformat()) if day else "" for day in (days.first, days.last))
    if first == last:
        return f"on {first}" if whole else first
    if first and last:
        return f"from {first} to {last}" if whole else f"{first} to {last}"
    return f"since {first}" if first else f"until {last}"


def _within(moment: str, days: Days) -> bool:
    day = moment[:10]
    return (days.first is None or day >= days.first.isoformat()) and (days.last is None or day <= days.last.isoformat())


def _nothing(answer: Answer, content: str, related: Sequence[Document] = ()) -> Answer:
    return replace(
        answer,
        content=content,
        model="none",
        is_answered=False,
        related_documents=tuple(_source(document) for document in related),
        confidence=Confidence(0.0, "low", READ),
    )


def _source(document: Document, markers: tuple[int, ...] = (), pages: tuple[int, ...] = ()) -> Source:
    return Source(document.id, document.name, document.title, pages, markers, document.collection)


def _told_answer(answer: Answer, content: str, documents: Sequence[Document]) -> Answer:
    return replace(
        answer,
        content=content,
        model="none",
        sources=tuple(_source(document) for document in documents),
        confidence=Confidence(1.0, "high", READ),
        sufficiency=Sufficiency(is_sufficient=True, coverage_score=1.0),
    )


def _with_names(
    answer: Answer,
    told: str,
    documents: Sequence[Document],
    beside: Callable[[Document], str] | None = None,
    *,
    is_list: bool = True,
    after_first: bool = False,
) -> Answer:
    """The sentence, then the names, what is known of each beside it; the first of very many."""
    shown = documents[:LISTED]
    lines = [f"- {document.name}{f' ({beside(document)})' if beside else ''}" for document in shown[after_first:]]
    listed = "\n\n" + "\n".join(lines) if is_list else ""
    more = f"\n\nand {len(documents) - LISTED:,} more" if len(documents) > LISTED else ""
    return _told_answer(answer, f"{told}{listed}{more}", shown)


def _with_lines(answer: Answer, lines: Sequence[str], documents: Sequence[Document]) -> Answer:
    if len(lines) == 1:
        return _told_answer(answer, f"{lines[0]}.", documents)
    listed = "\n".join(f"- {line}" for line in lines[:LISTED])
    more = f"\n\nand {len(lines) - LISTED:,} more" if len(lines) > LISTED else ""
    return _told_answer(answer, f"{_count(len(lines))} match:\n\n{listed}{more}", documents[:LISTED])


def _with_places(answer: Answer, told: str, found: Sequence[FirstMention]) -> Answer:
    """Each document with the page of its first mention, cited."""
    citations = tuple(_cited(marker, document) for marker, document in enumerate(found[:LISTED], 1))
    content, claims = f"{told}\n", []
    for place, citation in enumerate(citations):
        start = len(content) + 1
        line = f"- {citation.document_name}, page {citation.page}"
        content += f"\n{line} [{citation.marker}]"
        claims.append(Claim(line[2:], start + 2, len(content), (citation.marker,), (place,), "supported", 1.0))
    if len(found) > LISTED:
        content += f"\n\nand {len(found) - LISTED:,} more"
    sources = (
        _source(document.document, (citation.marker,), (citation.page,))
        for document, citation in zip(found, citations, strict=False)
    )
    answer = _told_answer(answer, content, ())
    return replace(answer, citations=citations, claims=tuple(claims), sources=tuple(sources))


def _cited(marker: int, mention: FirstMention) -> Citation:
    document, chunk = mention.document, mention.chunk
    sentence = chunk.sentences[mention.sentence]
    origin = origin_of(chunk, sentence.start, sentence.end)
    return Citation(
        marker=marker,
        document_id=document.id,
        document_name=document.name,
        chunk_id=chunk.id,
        chunk_sequence=chunk.sequence,
        heading_path=chunk.heading_path,
        page=sentence.boxes[0].page if sentence.boxes else sentence.page,
        boxes=tuple(sentence.boxes),
        located=bool(sentence.boxes) or (origin is not None and not chunk.boxes),
        quote=chunk.text[sentence.start : sentence.end],
        relevance_score=1.0,
        similarity_score=0.0,
        origin=origin or (0, 0),
        url=document.source if document.source.startswith(("http://", "https://")) else "",
        support_score=1.0,
    )


# --- which days are meant? --------------------------------------------------------------------------------------------

_STRETCHES = {unit: re.compile(rf"\b(?:{words})(?:en?|es|[ns])?\b", re.IGNORECASE) for unit, words in STRETCHES.items()}
_WEEKDAYS = {
    int(day): re.compile(rf"\b(?:{day_name[int(day)]}|{words})\b", re.IGNORECASE)
    for day, words in named_lines("catalogue", "weekdays").items()
}
_ENDS = patterns("catalogue", "ends", re.IGNORECASE)
_COUNT = re.compile(r"(?:(?<!\w)\w++\s++){0,2}(?<!\w)(\d{1,4})\s++\Z")  # with the words before it: "in the last 7"
_DAYS = {"hour": 1, "day": 1, "week": 7, "month": 30, "year": 365}


@dataclass(frozen=True, slots=True)
class Days:
    """From the first to the last day, both included; None is open. `start..end` is where the question says so."""

    first: datetime.date | None
    last: datetime.date | None
    start: int = 0
    end: int = 0

    @property
    def is_long(self) -> bool:
        """A year or more."""
        return self.first is None or self.last is None or (self.last - self.first).days >= _DAYS["year"] - 1


def days_of(text: str, today: datetime.date) -> Days | None:
    """The days that a question names, None where it names none.

    >>> days_of("What was added since 1 March?", datetime.date(2026, 11, 16))
    Days(first=datetime.date(2026, 3, 1), last=None, start=15, end=28)
    """
    found = _relative_days(text, today) or _dated_days(text, today)
    if found is None or found.first is None or found.last is None:
        return found
    begin = max(0, found.start - 14)
    if match := _ENDS["since"].search(text, begin, found.start):
        return Days(found.first, None, match.start(), found.end)
    if match := _ENDS["until"].search(text, begin, found.start):
        return Days(None, found.first - datetime.timedelta(days=1), match.start(), found.end)
    return found


def _relative_days(text: str, today: datetime.date) -> Days | None:
    for name, pattern in DAY_NAMES.items():
        if match := pattern.search(text):
            return Days(*_named_days(name, today), *match.span())
    for number, pattern in _WEEKDAYS.items():
        if match := pattern.search(text):
            day = today - datetime.timedelta(days=(today.weekday() - number) % _DAYS["week"])
            return Days(day, day, *match.span())
    for unit, pattern in _STRETCHES.items():
        if (match := pattern.search(text)) and (count := _COUNT.search(text[: match.start()])):
            first = today - datetime.timedelta(days=min(int(count[1]) * _DAYS[unit], 100 * _DAYS["year"]))
            return Days(first, today, count.start(), match.end())
    return None


def _named_days(name: str, today: datetime.date) -> tuple[datetime.date, datetime.date]:
    if name in ("today", "yesterday"):
        day = today - datetime.timedelta(days=name == "yesterday")
        return day, day
    if name == "lately":
        return today - datetime.timedelta(days=_DAYS["month"]), today
    which, _, unit = name.partition(" ")
    if unit == "week":
        first = today - datetime.timedelta(days=today.weekday(), weeks=which == "last")
        return first, min(first + datetime.timedelta(days=_DAYS["week"] - 1), today)
    first = today.replace(day=1) if unit == "month" else today.replace(month=1, day=1)
    if which == "this":
        return first, today
    last = first - datetime.timedelta(days=1)
    return (last.replace(day=1) if unit == "month" else last.replace(month=1, day=1)), last


def _dated_days(text: str, today: datetime.date) -> Days | None:
    for match in SPOKEN_DATE.finditer(text):
        for when in read_date(match)[:1]:
            if found := _whole(when, today):
                return Days(*found, *match.span())
    return None


def _whole(when: When, today: datetime.date) -> tuple[datetime.date, datetime.date] | None:
    """The first and the last day of it; a day or a month without a year is the last one that has been."""
    if when.decade or not (when.year or when.month):
        return None
    year = when.year or today.year
    last_month = when.month or QUARTER_MONTHS * when.quarter or YEAR
    first_month = when.month or (last_month - QUARTER_MONTHS + 1 if when.quarter else 1)
    try:
        first = datetime.date(year, first_month, when.day or 1)
        after = datetime.date(year + last_month // YEAR, last_month % YEAR + 1, 1)
    except ValueError:  # 31 February
        return None
    last = first if when.day else after - datetime.timedelta(days=1)
    if not when.year and first > today:
        return _whole(when._replace(year=year - 1), today)
    return first, last
