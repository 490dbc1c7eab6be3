"""Questions about the library itself: known for what they are, and answered from the list of documents."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from library_samples import seen_by
from memory_desk import KINDS, AnyDesk
from refdesk.answer import Answer
from refdesk.ask.catalogue import LISTED, answer_from_catalogue, days_of
from refdesk.ask.classify import classify, examples
from refdesk.document_names import subjects
from refdesk.providers.shipped import OnnxEmbedder
from refdesk.types import Document, Scope

STORES = KINDS
TODAY = datetime.date(2026, 11, 16)  # a Monday
EMBEDDER = OnnxEmbedder(threads=1)


# is it one?


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Which documents do you have?", "list"),
        ("How many files are in the collection hr?", "list"),
        ("Which documents mention the wave buoy?", "mention"),
        ("In how many reports does Brexit appear?", "mention"),
        ("In welchen Dokumenten wird die Gewährleistung erwähnt?", "mention"),
        ("How many pages has the Costco 10-K?", "pages"),
        ("What was added this week?", "added"),
        ("Which files were uploaded since 1 March?", "added"),
        ("Which is the newest document?", "newest"),
        ("What is the longest document?", "longest"),
        ("Who wrote tide-tables.pdf?", "author"),
        ("When was tide-tables.pdf made?", "date"),
        ("In which language is tide-tables.pdf?", "language"),
        ("Quels documents mentionnent la garantie ?", "mention"),
    ],
)
def test_a_question_to_the_catalogue_is_known(text: str, kind: str) -> None:
    assert classify(text, EMBEDDER.embed_query(text), examples(EMBEDDER), 0).catalogue == kind


@pytest.mark.parametrize(
    "text",
    [
        "How many pages does the manual say to print?",
        "What documents are required for a visa?",
        "How many documents were signed at the conference?",
        "Who wrote the letter to the harbour master?",
        "What is the longest river in Germany?",
        "When was the pier built?",
        "What was added to the contract in 2021?",
        "Which companies mention supply chain risks?",
        "What do the documents say about the anchor?",
        "What file formats does the logger support?",
    ],
)
def test_a_question_to_the_documents_is_none(text: str) -> None:
    assert classify(text, EMBEDDER.embed_query(text), examples(EMBEDDER), 0).catalogue == ""


# what does it say?


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What was added today?", "2026-11-16", "2026-11-16"),
        ("What was added yesterday?", "2026-11-15", "2026-11-15"),
        ("What was added last week?", "2026-11-09", "2026-11-15"),
        ("What was added last month?", "2026-10-01", "2026-10-31"),
        ("What was added in the last 10 days?", "2026-11-06", "2026-11-16"),
        ("What was added since 1 March?", "2026-03-01", ""),
        ("What was added since Friday?", "2026-11-13", ""),
        ("What was added on 16 November?", "2026-11-16", "2026-11-16"),
        ("What was added on 17 November?", "2025-11-17", "2025-11-17"),
        ("What was added before 1 March 2025?", "", "2025-02-28"),
        ("Which files were added in December?", "2025-12-01", "2025-12-31"),
        ("Was wurde seit dem 3. Mai hinzugefügt?", "2026-05-03", ""),
        ("Quels documents ont été ajoutés hier ?", "2026-11-15", "2026-11-15"),
        ("Welche Dokumente sind hier?", None, None),
        ("What was added?", None, None),
    ],
)
def test_days_are_read(text: str, first: str | None, last: str | None) -> None:
    found = days_of(text, TODAY)
    if first is None:
        assert found is None
    else:
        assert found is not None
        assert [day.isoformat() if day else "" for day in (found.first, found.last)] == [first, last]


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("Which documents mention the Bank of America?", "mention", ["Bank of America"]),
        ('Which files contain the words "supply of chips"?', "mention", ["supply of chips"]),
        ("Which documents mention the Bank of the West?", "mention", ["Bank of the West"]),
        ("Which documents mention buoys and all of the anchors?", "mention", ["buoys", "anchors"]),
        ("Which documents mention language models?", "mention", ["language models"]),
        ("How many pages has the Costco 10-K?", "pages", ["Costco 10-K"]),
        ("Which documents do you have?", "list", []),
    ],
)
def test_what_it_is_about_stands_outside_the_words_of_asking(text: str, kind: str, found: list[str]) -> None:
    assert subjects(text, kind) == found


# a real library


def test_the_list_names_every_document(examples: AnyDesk) -> None:
    answer = examples.ask_sync("Which documents do you have?")
    names = sorted(one.name for one in examples.documents())
    assert answer.content.splitlines()[0] == f"There are {len(names)} documents:"
    assert [line[2:] for line in answer.content.splitlines()[2:]] == names
    assert [one.document_name for one in answer.sources] == names and not answer.citations


def test_a_mention_is_cited_where_a_document_first_says_it(examples: AnyDesk) -> None:
    answer = examples.ask_sync("Which documents mention “mooring”?")
    assert answer.is_answered and "wb7-mooring-sheet.pdf" in answer.content
    first = answer.content.splitlines()[0]
    assert first == f"{len(answer.sources)} documents mention “mooring”:"
    for citation, source, claim in zip(answer.citations, answer.sources, answer.claims, strict=True):
        assert "mooring" in citation.quote.lower()
        pages = "\n".join(page.text for page in examples.pages(citation.document_id, citation.page))
        assert citation.quote in pages and source.markers == (citation.marker,)
        assert answer.content[claim.start : claim.end] == f"{claim.text} [{citation.marker}]"
        assert claim.text == f"{citation.document_name}, page {citation.page}" and claim.score == 1.0
        if citation.document_name.endswith(".pdf"):
            assert citation.boxes and citation.located
        before = [page.text for page in examples.pages(citation.document_id) if page.page.number < citation.page]
        assert not any("mooring" in text.lower() for text in before)
    holding = {
        one.name
        for one in examples.documents()
        if any("mooring" in page.text.lower() for page in examples.pages(one.id))
    }
    assert {one.document_name for one in answer.sources} == holding


def test_a_part_of_what_was_asked_for_is_no_sure_answer(examples: AnyDesk) -> None:
    answer = examples.ask_sync("Which documents mention “zeppelin mooring”?")
    assert (
        answer.content.startswith("No document mentions “zeppelin mooring”.") and "mention “mooring”" in answer.content
    )
    assert answer.confidence.level == "medium"


def test_papers_in_a_library_are_no_documents_of_ours(examples: AnyDesk) -> None:
    for question in (
        "The papers of which poet are collected in the library?",
        "Which letters are kept in the archive?",
    ):
        assert "list of documents" not in examples.ask_sync(question).confidence.reason


def test_what_no_document_mentions_is_said(examples: AnyDesk) -> None:
    answer = examples.ask_sync("Which documents mention “zeppelin hangars”?")
    assert not answer.is_answered and answer.content.startswith("No document mentions “zeppelin hangars”.")


def test_pages_format_language_and_author_of_a_named_document(examples: AnyDesk) -> None:
    documents = {one.name: one for one in examples.documents()}
    sheet = documents["wb7-mooring-sheet.pdf"]
    pages = examples.ask_sync("How many pages does wb7-mooring-sheet.pdf have?")
    many = f"{sheet.page_count} page{'s' * (sheet.page_count != 1)}"
    assert pages.content == f"wb7-mooring-sheet.pdf has {many}."
    assert [one.document_id for one in pages.sources] == [sheet.id]
    spoken = examples.ask_sync("In which language is protokoll-cuxhaven.txt written?")
    assert spoken.content == "protokoll-cuxhaven.txt is in German."


def test_what_was_added(examples: AnyDesk) -> None:
    answer = examples.ask_sync("What was added today?")
    count = len(examples.documents())
    assert answer.content.startswith(f"{count} documents were added on ")
    none = examples.ask_sync("What was added before 1 March 2020?")
    assert none.content.startswith("No document was added until 29 February 2020; the last one was ")


@pytest.mark.parametrize("when", ["since 1 January 2026", "in the last 3000 days", "after May 2020"])
def test_a_stretch_of_days_is_no_topic(examples: AnyDesk, when: str) -> None:
    text = f"What was added {when}?"
    shelf = Shelf(*examples.documents())
    answer = answer_from_catalogue(Answer("1", text, ""), "added", text, Scope(), shelf)  # type: ignore[arg-type]
    assert answer is not None and answer.content.startswith(f"{len(examples.documents())} documents were added ")


def test_the_longest_document(examples: AnyDesk) -> None:
    most = max(examples.documents(), key=lambda one: one.page_count)
    answer = examples.ask_sync("Which is the longest document?")
    assert answer.content.startswith(f"The longest document is {most.name}: {most.page_count} pages.")


def test_scope_and_access_hold(own_examples: AnyDesk) -> None:
    own_examples.add_text("secret.txt", "The mooring of the secret buoy.", collection="vault")
    reader = seen_by(own_examples, "default")
    for question in ("Which documents mention “mooring”?", "Which documents do you have?", "What was added today?"):
        answer = reader.ask_sync(question)
        assert answer.sources and "secret" not in answer.content
        assert "secret.txt" in own_examples.ask_sync(question).content
    scoped = own_examples.ask_sync("Which documents do you have?", collection="vault")
    assert scoped.content == "There is 1 document:\n\n- secret.txt"


def test_what_the_list_does_not_know_is_left_to_the_search(examples: AnyDesk) -> None:
    answer = examples.ask_sync("How many pages has the Walmart 10-K?")
    assert answer.model != "none" or not answer.is_answered
    assert not any(one.name in answer.content for one in examples.documents() if "has" in answer.content)


def test_answers_of_the_catalogue_are_not_kept_for_tomorrow(examples: AnyDesk) -> None:
    first, second = (examples.ask_sync("What was added this week?") for _ in range(2))
    assert first.content == second.content and second.cached == "no"


# many documents


class Shelf:
    """A library of documents alone."""

    def __init__(self, *documents: Document) -> None:
        self.listed = documents

    def documents(self, scope: Scope) -> tuple[Document, ...]:
        return self.listed


def document(name: str, **known: object) -> Document:
    own = Document(name, name, "default", "", "ready", format="pdf", language="en", page_count=3, chunk_count=9)
    return replace(own, **{"created_at": "2026-11-10T08:00:00+00:00", **known})  # type: ignore[arg-type]


FILINGS = (
    document("AMAZON_2017_10K.pdf", title="AMAZON.COM, INC.", page_count=85, date="2018-02-02"),
    document("AMAZON_2019_10K.pdf", title="AMAZON.COM, INC.", page_count=83, date="2020-01-31"),
    document("COSTCO_2021_10K.pdf", title="Costco Wholesale Corporation", page_count=76, date="2021-10-06"),
    document("2023 Q1 AAPL.pdf", title="Apple Inc.", page_count=46, date="2023-02-03", collection="quarters"),
    document("notes.docx", format="docx", page_count=2, metadata={"author": "Ada Byron"}, language="de"),
)


@pytest.mark.parametrize(
    ("kind", "text", "content"),
    [
        ("pages", "How many pages has the Costco 10-K?", "COSTCO_2021_10K.pdf has 76 pages."),
        ("pages", "How many pages does the Amazon 10-K of 2019 have?", "AMAZON_2019_10K.pdf has 83 pages."),
        ("author", "Who wrote notes.docx?", "notes.docx names Ada Byron as its author."),
        ("date", "When was COSTCO_2021_10K.pdf made?", "COSTCO_2021_10K.pdf is dated 6 October 2021."),
        ("format", "In which format is notes.docx?", "notes.docx is of the format docx."),
        ("list", "How many German documents are there?", "There is 1 document in German:\n\n- notes.docx"),
        ("list", "Which files are in quarters?",
         "There is 1 document in the collection quarters:\n\n- 2023 Q1 AAPL.pdf"),
        ("list", "Which reports from 2019 do you have?",
         "There is 1 document of 1 January 2019 to 31 December 2019:\n\n- AMAZON_2019_10K.pdf"),
        ("list", "Do you have the Costco 10-K?",
         "There is 1 document called “Costco 10-K”:\n\n- COSTCO_2021_10K.pdf"),
        ("language", "In which languages are the documents?", "Of the 5 documents: 4 in English, 1 in German."),
    ],
)  # fmt: skip
def test_names_years_and_forms_choose_documents(kind: str, text: str, content: str) -> None:
    answer = answer_from_catalogue(Answer("1", text, ""), kind, text, Scope(), Shelf(*FILINGS), TODAY)  # type: ignore[arg-type]
    assert answer is not None and answer.content == content


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("pages", "How many pages has the Walmart 10-K?"),
        ("author", "Who wrote Faust?"),
        ("author", "Who wrote COSTCO_2021_10K.pdf?"),
        ("longest", "What is the longest river in Germany?"),
    ],
)
def test_what_is_no_document_is_not_answered(kind: str, text: str) -> None:
    assert answer_from_catalogue(Answer("1", text, ""), kind, text, Scope(), Shelf(*FILINGS), TODAY) is None  # type: ignore[arg-type]


def test_a_long_list_is_cut() -> None:
    shelf = Shelf(*(document(f"{number:03}.pdf") for number in range(LISTED + 7)))
    answer = answer_from_catalogue(Answer("1", "", ""), "list", "Which documents are there?", Scope(), shelf, TODAY)  # type: ignore[arg-type]
    assert answer is not None and len(answer.sources) == LISTED
    assert answer.content.startswith("There are 57 documents:") and answer.content.endswith("and 7 more")
