"""What is no answer, who wrote a document, what it is called by, and numbers in groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evidence_samples import chunk
from memory_desk import KINDS, AnyDesk, kept_in, open_either
from refdesk import Refdesk
from refdesk.answer import Query, Retrieved
from refdesk.ask.extract import Quote
from refdesk.ask.judge import DIFFERING, Relevance, quoted_confidence
from refdesk.ask.no_answer import is_told_better, spells_out, whole_number, without_file_names
from refdesk.ask.sentences import ScoredSentence
from refdesk.ask.writing import doubt_of_quotes
from refdesk.settings import Settings
from refdesk.types import Document, FoundSpan, Hit, Reading

STORES = KINDS
MAIL = b"""From: Petra Holm <petra@quay.example>
To: Office <office@quay.example>
Subject: Rowing day
Date: Tue, 04 Jun 2024 09:15:00 +0200
Content-Type: text/plain; charset=utf-8

Hi all,

Look forward to our rowing day!

There will be a race, a raft and grilled fish.

Best
Petra
"""
PAPER = """# Mooring loads in shallow harbours

## Ilse Vahr, Northern College, Tromvik

Loads on moorings were measured over two winters. The chain takes up most of the swell. A longer chain lowers the peak.

## Results

The peak fell by a third where the chain was twice as long.
"""
AGREEMENT = """## {number} Duties

The employees of Northship Lines serve the Northship Lines Group and follow the rules of the Northship Lines Group.
Employees of Northship Lines keep the secrets of Northship Lines. What employees make for Northship Lines belongs to
Northship Lines. Employees who leave Northship Lines return the keys of Northship Lines. What they think of on their way
home belongs to Northship Lines too, unless the employees and Northship Lines agree otherwise before the work is begun.
Employees of Northship Lines take a day for each month in which they serve Northship Lines at sea or on its quays.
"""
PEOPLE = """## People

At December 31, 2021, we had approximately 4,300 full-time and part-time employees.
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder: Path = tmp_path_factory.mktemp("about")
    (folder / "rowing.eml").write_bytes(MAIL)
    (folder / "moorings.md").write_text(PAPER)
    (folder / "tides.md").write_text("# Tides\n\nThe tide rises twice a day. It is highest after a full moon.\n")
    duties = "\n".join(AGREEMENT.format(number=number) for number in range(1, 5))
    routes = "\n".join(f"## Route {number}\n\nThe ferry to island {number} sails at dawn." for number in range(1, 21))
    (folder / "NORTHSHIPLINES_2021.md").write_text(f"# Annual report\n\n{PEOPLE}\n{duties}\n{routes}")
    (folder / "BLUEANCHOR_2021.md").write_text(f"# Annual report\n\n{PEOPLE.replace('4,300', '87')}")
    with Refdesk(folder / "library") as desk:
        desk.add(folder)
        yield desk


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


@pytest.mark.parametrize("question", ["When does the rowing day take place?", "What is the date of the rowing day?"])
def test_when_a_mail_was_sent_is_not_when_something_takes_place(desk: AnyDesk, question: str) -> None:
    assert not desk.ask_sync(question, cache=False).is_answered


@pytest.mark.parametrize("question", ["When was the mail about the rowing day sent?", "When did Petra Holm write?"])
def test_when_a_mail_was_sent_is_told_where_it_is_asked(desk: AnyDesk, question: str) -> None:
    answer = desk.ask_sync(question, cache=False)
    assert answer.is_answered
    assert "4 Jun 2024" in answer.short


@pytest.mark.parametrize("question", ["Who wrote the paper on mooring loads?", "Who is the author of moorings.md?"])
def test_who_wrote_a_paper_stands_below_its_title(desk: AnyDesk, question: str) -> None:
    answer = desk.ask_sync(question, cache=False)
    assert answer.is_answered
    assert "Ilse Vahr" in answer.content


def test_what_a_program_left_as_the_author_is_no_name(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        text = (
            "<html><head><title>Mooring loads</title><meta name='author' content='ARRAY(0x2c7cf020)'></head>"
            "<body><h1>Mooring loads</h1><p>The chain takes up most of the swell.</p></body></html>"
        )
        desk.add_text("loads.html", text, format="html")
        assert "ARRAY" not in desk.ask_sync("Who wrote loads.html?", cache=False).content


def test_the_name_of_a_document_does_not_choose_its_passage(desk: AnyDesk) -> None:
    assert desk.ask_sync("How many employees did Northship have?", cache=False).short == "4,300"


def test_a_question_without_names() -> None:
    files = ["NORTHSHIPLINES_2021.md"]
    assert without_file_names("How deep is it?", files) == ""
    assert without_file_names("Northship Lines", files) == ""
    assert without_file_names("How many ships has Northship Lines?", files) == "How many ships has"


@pytest.mark.parametrize(
    ("text", "found", "whole"),
    [
        ("Fax: (202) 493–2251.", "493–2251", "(202) 493–2251"),
        ("fax: +41 (0)41 619 67 73; email", "619 67 73", "+41 (0)41 619 67 73"),
        ("(call 202-493-2251)", "493-2251", "202-493-2251"),
        ("ISBN 978-3-16-148410-0.", "3-16-148410-0", "978-3-16-148410-0"),
        ("from 2019-2020 on", "2020", "2020"),
        ("on 2020-11-18 it", "2020", "2020"),
        ("in 1998 120-150 people", "120-150", "120-150"),
        ("see (1) 350 kg", "350", "350"),
        ("was 35", "35", "35"),
    ],
)
def test_a_number_in_groups_is_shown_whole(text: str, found: str, whole: str) -> None:
    start = text.index(found)
    assert whole_number(text, start, start + len(found)) == whole


def test_quotes_that_answer_with_different_things_are_less_sure() -> None:
    texts = ["Mr. Low left the office in May 2014.", "Mr. Low took the office in 2000.", "He came on May 3, 2000."]
    own = chunk(texts)
    spans = [own.text.index("May 2014"), own.text.index("2000"), own.text.index("May 3, 2000")]
    ends = [spans[0] + 8, spans[1] + 4, spans[2] + 11]
    quotes = [
        Quote(text, "", ScoredSentence(1, own, at, text, 3.0 - at, share=0.4, span=FoundSpan(spans[at], ends[at], 9.0)))
        for at, text in enumerate(texts)
    ]
    relevance = Relevance(0.9, {"answered": 2.0}, ())
    alike, different = quoted_confidence(relevance, quotes[1:]), quoted_confidence(relevance, quotes[:2])
    assert DIFFERING > 0
    assert different.score < alike.score
    unread = [replace(quote, evidence=replace(quote.evidence, span=None)) for quote in quotes[:2]]
    assert quoted_confidence(relevance, unread) == alike


def test_reasons_need_no_sentence_that_stands_out() -> None:
    own = chunk(["Margins fell because of litigation.", "Raw materials cost more, too.", "Sales grew a little."])
    texts = [own.text[start:end] for start, end, *_ in own.sentences]
    quotes = [Quote(text, "", ScoredSentence(1, own, at, text, 3.0, share=0.1)) for at, text in enumerate(texts)]
    document = Document("d", "d", "default", "d", "ready")
    told = (
        Relevance(0.5, {"answered": -0.4}, (), told=0.5),
        Retrieved((Hit(own, document, 0.0, 0.0, 1.0),), (), {}, {}),
        Settings(),
    )
    query = Query("Why?", "Why?", np.zeros(3, np.float32), ())
    assert doubt_of_quotes("", replace(query, intent="factual"), told[0], *told[1:], quotes) == "near"
    assert doubt_of_quotes("", replace(query, intent="analytical"), told[0], *told[1:], quotes) == ""
    assert doubt_of_quotes("near", replace(query, intent="analytical"), told[0], *told[1:], quotes) == "near"
    sure = [replace(quotes[0], evidence=replace(quotes[0].evidence, share=0.9))]
    assert doubt_of_quotes("near", replace(query, intent="analytical"), told[0], *told[1:], sure) == ""


@pytest.mark.parametrize(
    ("text", "table", "chance", "is_told"),
    [
        (2.4, -0.7, 0.79, True),
        (2.4, -0.7, 0.9, False),  # a figure that is clear
        (2.4, 1.9, 0.79, False),  # the table answers as well
        (0.2, -3.0, 0.79, False),  # neither answers
        (2.4, None, 0.79, False),  # no table was read
    ],
)
def test_what_text_tells_better_is_not_taken_from_a_table(
    text: float, table: float | None, chance: float, is_told: bool
) -> None:
    own = Document("d", "d", "default", "d", "ready")
    kinds = {"text": text} | ({} if table is None else {"table": table})
    hits = [Hit(replace(chunk(["A."]), id=at, kind=kind), own, 0.0, 0.0, 1.0) for at, kind in enumerate(kinds)]
    readings = {at: Reading(0.0, answered, (None,), 9) for at, answered in enumerate(kinds.values())}
    assert is_told_better(chance, Retrieved(tuple(hits), tuple(hits), {}, {}, readings=readings)) is is_told


def test_a_sentence_of_another_year_is_not_sure(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_texts([{"name": "fleet.md", "text": "# Fleet\n\nIn 2024 the fleet of the harbour had 41 boats.\n"}])
        now = desk.ask_sync("How many boats did the fleet of the harbour have in 2024?", cache=False)
        then = desk.ask_sync("How many boats did the fleet of the harbour have in 2021?", cache=False)
        assert now.short == "41"
        assert then.confidence.level == "low" and now.confidence.level != "low"


def test_the_full_name_of_what_is_asked_about_is_no_list(store_kind: str, tmp_path: Path) -> None:
    text = "# Claims\n\nIn 2001 the court dealt with a claim by the Northern Dredging Company (NDC) about fees.\n"
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_texts([{"name": "claims.md", "text": text}])
        assert desk.ask_sync("Who made a claim about fees in 2001?", cache=False).short
        asked = desk.ask_sync("What are the main products of NDC?", cache=False)
        assert not asked.short and asked.confidence.level == "low"


@pytest.mark.parametrize(
    ("text", "question", "is_spelled_out"),
    [
        ("Northern Dredging Company", "What are the products of NDC?", True),
        ("Northern Dredging", "What are the products of NDC?", False),
        ("dredgers", "What are the products of NDC?", False),
        ("Nora", "What are the products of N?", False),
    ],
)
def test_initials_tell_a_full_name(text: str, question: str, is_spelled_out: bool) -> None:
    assert spells_out(text, question) is is_spelled_out
