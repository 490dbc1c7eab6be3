"""Contracts, rules, interviews and lists: what a document calls someone, what it denies, and what it asks itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from evidence_samples import chunk
from refdesk import Refdesk
from refdesk.answer import Retrieved
from refdesk.ask.no_answer import denied
from refdesk.ask.roles import in_role
from refdesk.types import Chunk, Document, FoundSpan, Hit, Reading

PARTIES = (
    'Made on 3 March between Weir Dairy Ltd, of 12 Lock Lane (the "Employer"), and Ines Okoro, of 4 Mill Court (the '
    "“Employee”)."
)
CONTRACT = f"""# Employment agreement

{PARTIES}

## 1. Work

The Employee is engaged as a cheese maker. The Employee may work on Saturdays with the consent of the Employer.

## 2. Pay

The salary is 31,400 pounds a year. The Employee is paid on the 27th of each month, or on the working day before it.

## 3. Notice

The Employee must give two months' written notice. The Employer must give three months' written notice.

## 4. Property

A company car is not provided to the Employee. The Employee returns the keys on the last working day.
"""
OTHER = CONTRACT.replace("Ines Okoro", "Tom Hale").replace("31,400", "28,900").replace("two months'", "six weeks'")
TRIP = """# Trip to the lock museum

The coach leaves at 8:45 and is back at 15:30. Children need a packed lunch and a waterproof coat; they should not bring
money or telephones.

# Naps

If you sleep longer you reach deep sleep, and then you wake up groggy. We call that sleep inertia. Shift workers may nap
for ninety minutes.

# An interview

KIM: Welcome back. Ola, how long should a nap be?

OLA: Ten to twenty minutes for most people. Shift workers are the exception.

KIM: And a coffee before it?

OLA: Caffeine takes about twenty-five minutes to work, so it wakes you just when the nap is over.
"""
POLICY = """# Home insurance

We pay for fire and for water that escapes from pipes.

We do not pay for:

- wear and tear, damp or rot
- damage caused by pets
- storm damage to fences, gates and hedges
"""
RECIPE = """# Plum cake

Makes one tray. Bake for 45 minutes at 180 degrees.

- 500 g flour
- 80 g sugar
- 1.5 kg plums

Mix flour and sugar and knead for ten minutes. Roll the dough out on the tray and set the plums close together.
"""
TICKETS = """ticket,customer,status,subject
T-1,Halden Bakery,open,Stock count differs
T-2,Rye Books,waiting,Drawer does not open
T-3,Halden Bakery,closed,Logo on receipts
T-4,Oak and Vine,open,Suppliers listed twice
T-5,Oak and Vine,waiting,Daily report missing
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("documents")
    files = {"dairy.md": CONTRACT, "other.md": OTHER, "trip.md": TRIP, "tickets.csv": TICKETS}
    files |= {"policy.md": POLICY, "cake.md": RECIPE}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Refdesk(tmp_path_factory.mktemp("roles") / "library") as found:
        assert {one.outcome for one in found.add(folder)} == {"added"}
        yield found


# --- the Employee is Ines Okoro, in her contract ---------------------------------------------------------------------


WORK = "The Employee works for the Employer; the Seller hands over the boat."


def found_in(*texts: str) -> Retrieved:
    documents = [Document(f"d{number}", f"{number}.md", "", "", "ready") for number in range(1, len(texts) + 1)]
    both = zip(texts, documents, strict=True)
    return Retrieved(
        (), tuple(Hit(chunk([text], document_id=own.id), own, 1.0, 0.5, 1.0) for text, own in both), {}, {}
    )


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("How much does Ines Okoro earn?", "How much does the Employee earn?"),
        ("What is Ines's salary?", "What is the Employee's salary?"),
        ("Can Ines work on Sundays?", "Can the Employee work on Sundays?"),
        ("What does Weir Dairy pay?", "What does the Employer pay?"),
    ],
)
def test_a_question_about_someone_is_asked_of_the_role(question: str, asked: str) -> None:
    assert in_role(question, found_in("Nothing of the kind.", f"{PARTIES} {WORK}")) == (asked, "d2")


@pytest.mark.parametrize(
    "question",
    [
        "How much does the Employee earn?",  # names nobody
        "How much does Tom Hale earn?",  # whom it does not name
        "What does Weir Dairy pay to Ines Okoro?",  # two of them
    ],
)
def test_other_questions_stay_as_they_are(question: str) -> None:
    assert in_role(question, found_in(f"{PARTIES} {WORK}")) is None


def test_a_name_with_two_roles_has_none() -> None:
    sold = 'Ines Okoro, of 4 Mill Court (the "Seller"), sells her boat.'
    assert in_role("What does Ines Okoro get?", found_in(f"{PARTIES} {WORK}", f"{sold} {WORK}")) is None


def test_what_a_document_never_speaks_of_is_no_role() -> None:
    riot = 'There was a riot of Victoria Pitt and other miners (the "Eureka Riot").'
    assert in_role("What did Victoria Pitt do?", found_in(riot)) is None
    assert in_role("What did Victoria Pitt do?", found_in(f"{riot} Then the Eureka Riot ended.")) is not None


@pytest.mark.parametrize("name", ["OKORO_2019_10K.pdf", "Annual report of Okoro Inc.md"])
def test_whom_a_document_is_called_by_is_asked_for_by_name(name: str) -> None:
    """Of the reports of one company "the Company" would be asked of one year's alone."""
    found = found_in('Okoro Inc (the "Company") sells cheese. The Company sold 3 tonnes.')
    named = replace(found.considered[0], document=replace(found.considered[0].document, name=name))
    question = "How much did Okoro sell?"
    assert in_role(question, found) is not None
    assert in_role(question, replace(found, considered=(named,))) is None


def test_a_short_form_is_no_role() -> None:
    assert in_role("What does Weir Dairy Ltd pay?", found_in('Weir Dairy Ltd ("Weir") pays 5 pounds.')) is None


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("What is Ines Okoro's salary?", "31,400"),
        ("What is Tom Hale's salary?", "28,900"),
        ("How much notice must Ines Okoro give?", "two months'"),
        ("How much notice must Tom Hale give?", "six weeks'"),
        ("Is Ines Okoro given a company car?", "not provided"),
    ],
)
def test_each_contract_answers_for_its_own_employee(desk: Refdesk, question: str, told: str) -> None:
    answer = desk.ask_sync(question, cache=False)
    assert answer.is_answered
    assert told in answer.claims[0].text
    name = "other.md" if "Tom" in question else "dairy.md"
    assert {citation.document_name for citation in answer.citations} == {name}


def test_what_the_names_own_sentence_says_is_not_asked_of_the_role(desk: Refdesk) -> None:
    answer = desk.ask_sync("Where does Ines Okoro live?", cache=False)
    assert "4 Mill Court" in answer.claims[0].text


# --- what must not be done is no answer to what must -----------------------------------------------------------------


def read_as(text: str, found: str) -> tuple[Reading, Chunk]:
    own = chunk([text])
    start = text.index(found)
    return Reading(2.0, 2.0, (FoundSpan(start, start + len(found), 8.0),), 10), own


@pytest.mark.parametrize(
    ("question", "text", "part"),
    [
        ("What should I bring?", "Bring food; you should not bring dogs.", "should not bring dogs."),
        ("What can I bring?", "Bring food; you cannot bring dogs, please.", "cannot bring dogs,"),
        ("What must I bring?", "You mustn't bring dogs.", "mustn't bring dogs."),
        ("What should I not bring?", "Bring food; you should not bring dogs.", None),
        ("What should I wear?", "Bring food; you should not bring dogs.", None),
        ("What should I bring?", "You should bring food, dogs and no cats.", None),
        ("What do I bring?", "You do not bring dogs.", None),
        ("What should I bring?", "You should not only bring dogs.", None),
    ],
)
def test_where_what_is_asked_is_denied(question: str, text: str, part: str | None) -> None:
    reading, own = read_as(text, "dogs")
    found = denied(reading, own, question)
    assert (found and text[found.start : found.stop]) == part


def test_what_one_should_bring_is_not_what_one_should_leave_at_home(desk: Refdesk) -> None:
    answer = desk.ask_sync("What should children bring on the trip to the museum?", cache=False)
    assert "packed lunch" in answer.short
    assert "telephones" not in answer.short


# --- what but gives a thing its name; rows by what they are ----------------------------------------------------------


def test_a_sentence_that_gives_a_name_comes_behind_what_it_names(desk: Refdesk) -> None:
    answer = desk.ask_sync("What is sleep inertia?", cache=False)
    assert [claim.text.split()[0] for claim in answer.claims[:2]] == ["If", "We"]


def test_rows_are_told_by_cells_and_not_by_words_within_them(desk: Refdesk) -> None:
    answer = desk.ask_sync("Which tickets are open?", cache=False)
    assert "T-1" in answer.content
    assert "T-4" in answer.content
    assert "T-2" not in answer.content


# --- a text that asks the question itself, and lists that deny ------------------------------------------------------


def test_what_follows_the_question_itself_is_its_answer(desk: Refdesk) -> None:
    answer = desk.ask_sync("How long should a nap be?", cache=False)
    assert answer.claims[0].text.endswith("Ten to twenty minutes for most people.")
    assert answer.short == "Ten to twenty minutes"


def test_an_item_of_a_list_that_denies_it_comes_behind_what_says_so(desk: Refdesk) -> None:
    answer = desk.ask_sync("Are fences insured against storm damage?", cache=False)
    texts = [claim.text for claim in answer.claims]
    assert texts[texts.index("storm damage to fences, gates and hedges") - 1] == "We do not pay for:"


def test_what_is_needed_is_not_how_it_is_made(desk: Refdesk) -> None:
    answer = desk.ask_sync("How do I make the plum cake?", cache=False)
    assert "80 g sugar" not in answer.content
