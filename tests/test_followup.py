"""Questions that lean on what was said before, made to stand alone without a model."""

from __future__ import annotations

import pytest

from refdesk.answer import Turn
from refdesk.ask.followup import FAR, NEAR, follow_up_sign, phrases, stand_alone


def asked(*questions: str, answer: str = "") -> list[Turn]:
    return [turn for text in questions for turn in (Turn("user", text), Turn("assistant", answer))]


@pytest.mark.parametrize(
    ("before", "question", "alone"),
    [
        ("How heavy is the WB-7 buoy?", "What does it cost?", "What does the WB-7 buoy cost?"),
        ("How heavy is the WB-7 buoy?", "And its warranty?", "And the WB-7 buoy's warranty?"),
        ("What is throat cancer?", "Is it treatable?", "Is throat cancer treatable?"),
        ("What is throat cancer?", "What are its symptoms?", "What are throat cancer's symptoms?"),
        ("Tell me about sharks.", "Where do they live?", "Where do sharks live?"),
        ("What is a virtual machine?", "How do they work?", "How do they work? (virtual machine)"),
        ("Who was Frank Zappa?", "When did he die?", "When did Frank Zappa die?"),
        ("What was revenue in 2022?", "And in 2023?", "What was revenue in 2023?"),
        ("What was revenue in Q2 2023?", "what about Q3 2023?", "What was revenue in Q3 2023?"),
        ("What is the warranty of the TG-4?", "What about the WB-7?", "What is the warranty of the WB-7?"),
        ("Where is Acme based?", "And Borealis?", "Where is Borealis based?"),
        ("How do I get OpenShift?", "What about licences?", "What about licences? (How do I get OpenShift?)"),
        ("Did the mooring fail?", "Why?", "Why? (Did the mooring fail?)"),
        ("How long is the WB-7's chain?", "And the TG-4?", "How long is the TG-4's chain?"),
        ("How many days of leave do we have?", "and in 2026?", "How many days of leave do we have in 2026?"),
        ("Tell me about Lodin Point.", "Are there buoys there?", "Are there buoys there? (Lodin Point)"),
    ],
)
def test_what_leans_is_completed(before: str, question: str, alone: str) -> None:
    assert stand_alone(question, asked(before)).fullest == alone


@pytest.mark.parametrize(
    "question",
    [
        "What is anemia?",
        "Tell me about supertankers.",
        "How heavy is the TG-4 drifter?",
        "Is it possible to anchor the buoy in sand?",
        "How long does it take to charge the battery?",
        "What is Rock City, and why is it famous?",
        "Did Terry Bradshaw thank his coach?",
        "Are there any buoys in the harbour of Cuxhaven?",
        "What did the harbour authority say this year about dredging?",
        "Which mooring lines are used in winter and how are they inspected?",
        "Was it in 2019 that the lighthouse keeper of Lodin Point retired?",
    ],
)
def test_what_stands_alone_is_not_touched(question: str) -> None:
    rewrite = stand_alone(question, asked("What does the WB-7 buoy cost?", "And the chain?"))
    assert rewrite.text == question
    assert not rewrite.why


@pytest.mark.parametrize(
    ("before", "question", "topic"),
    [
        ("Which action figures are there of lego dc comics super heroes?", "Who are its ancestors?", ""),
        ("What action does the agency take?", "What do they provide?", ""),
        ("Full-time employees get a bonus.", "Who gets it?", ""),
        ("Did the mooring fail?", "Why?", ""),
        ("What is the drift of pressure sensors and of tide staffs?", "Is it seasonal?", ""),
    ],
)
def test_what_is_not_sure_stays_as_typed_and_is_searched_beside(before: str, question: str, topic: str) -> None:
    rewrite = stand_alone(question, asked(before))
    assert rewrite.text == question
    assert rewrite.beside.startswith(f"{question} (") and topic in rewrite.beside


def test_the_first_question_is_never_touched() -> None:
    assert stand_alone("What does it cost?", []).text == "What does it cost?"
    assert follow_up_sign("What does it cost?", []) == ""


def test_a_topic_is_carried_through_several_questions() -> None:
    turns = asked("What is the Bronze Age collapse?", "What is the evidence for it?", "When did it begin?")
    assert "Bronze Age collapse" in stand_alone("What came after it?", turns).fullest


def test_an_ellipsis_after_an_ellipsis_keeps_the_question() -> None:
    turns = asked("How many days of leave do we have?", "What about part-time staff?")
    alone = "What about part-time staff in 2026? (How many days of leave do we have?)"
    assert stand_alone("and in 2026?", turns).text == alone


def test_a_new_topic_takes_over() -> None:
    turns = asked("What is throat cancer?", "Is it treatable?", "Tell me about lung cancer.")
    assert stand_alone("What are its symptoms?", turns).fullest == "What are its symptoms? (lung cancer)"


# with documents that say how near a question is to them


def nearness(**of: float):  # type: ignore[no-untyped-def]
    """By a word of the text; the first that stands in it counts."""
    return lambda text: next((value for word, value in of.items() if word in text.lower()), 0.2)


def test_a_fragment_that_the_documents_answer_is_left_alone() -> None:
    turns = asked("What is Red Hat OpenShift?")
    near = nearness(virtualization=NEAR + 0.2)
    far = nearness(openshift=0.6, virtualization=FAR - 0.1)
    assert stand_alone("Virtualization", turns, near).text == "Virtualization"
    assert stand_alone("Virtualization", turns, far).fullest == "Virtualization (Red Hat OpenShift)"


def test_of_several_topics_the_documents_choose() -> None:
    turns = asked("How does the ferry to Bergen reach Lodin Point?")
    assert stand_alone("What are the fees?", turns, nearness(bergen=0.7)).topic == "Bergen"
    assert stand_alone("What are the fees?", turns, nearness(lodin=0.7)).topic == "Lodin Point"


def test_a_new_question_that_no_document_answers_keeps_its_own_words() -> None:
    question = "How many goals did Maradona score in the final against West Germany?"
    assert stand_alone(question, asked("What does the WB-7 buoy cost?"), nearness()).text == question


def test_another_matter_is_not_completed_with_the_one_before() -> None:
    turns = asked("What causes drift in pressure sensors?")
    far = {"chess": FAR - 0.2, "winter": FAR - 0.1, "drift": 0.8, "pressure": 0.7}
    strange = nearness(**far)

    def near(text: str) -> float:  # completed, the one about winter stays near the documents, the other does not
        return 0.75 if "winter" in text and "drift" in text else strange(text)

    assert stand_alone("Who won the chess championship?", turns, strange).text == "Who won the chess championship?"
    assert "drift" in stand_alone("How large in winter?", turns, near).fullest


def test_a_pronoun_with_little_else_leans_whatever_is_near() -> None:
    turns = asked("What does the WB-7 buoy cost?")
    assert stand_alone("How heavy is it?", turns, lambda text: 0.9).text == "How heavy is the WB-7 buoy?"


# phrases


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What benefits does Red Hat OpenShift offer for batch jobs?", ["benefits", "Red Hat OpenShift", "batch jobs"]),
        ("When did Zappa and the Mothers of Invention disband?", ["Zappa and the Mothers of Invention"]),
        ("How much does the WB-7 buoy weigh?", ["WB-7 buoy"]),
        ("Is there a limit on the file size?", ["limit", "file size"]),
        ("Where is the annual report?", ["annual report"]),
        ("Can I purchase Lite pricing plans?", ["Lite pricing plans"]),
        ("What is a physician's assistant?", ["physician's assistant"]),
        ("Why?", []),
        ("", []),
    ],
)
def test_phrases(text: str, found: list[str]) -> None:
    assert [one.text for one in phrases(text)] == found
    assert all(text[one.start : one.end] == one.text for one in phrases(text))


def test_long_and_odd_texts_are_read_in_no_time() -> None:
    for text in ("it " * 3000, "A" * 8000, "?!" * 4000, "’s’s’s" * 500, "of the and " * 1000):
        stand_alone(text, asked(text, "And this?"))
