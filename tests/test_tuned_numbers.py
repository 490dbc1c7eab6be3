"""What happens on both sides of a tuned number? A number that can be changed without anybody noticing is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from context_samples import chunk, passage
from refdesk.answer import Query, Retrieved, Turn
from refdesk.ask.assemble import grow
from refdesk.ask.classify import sides
from refdesk.ask.draft import parse_suggestions
from refdesk.ask.figures import agrees, figures
from refdesk.ask.followup import stand_alone
from refdesk.ask.judge import Relevance, doubted, level, nearest_topics
from refdesk.ask.retrieve import relevant
from refdesk.ask.sentences import question_words, tabulate
from refdesk.ask.support import SourceSentence, Support, check_figures, judge_claim
from refdesk.ask.understand import features, meanings
from refdesk.ask.wording import threshold
from refdesk.ask.writing import checkable
from refdesk.document_names import match_names
from refdesk.settings import Settings
from refdesk.types import Document, Hit

HIT = passage(1, chunk("The anchor weighs 350 kg.")).hit


def asked(text: str) -> Query:
    return Query(text, text, np.zeros(2, np.float32), (), number=0.0)


# --- is the answer there? --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probability", "names", "doubt"),
    [
        (0.0899, (), "missing"),
        (0.0901, (), "near"),
        (0.4499, (), "near"),
        (0.45, (), ""),
        (0.9, ("Keel",), "near"),
        (0.9, (), ""),
    ],
)
def test_doubt(probability: float, names: tuple[str, ...], doubt: str) -> None:
    found = Retrieved((HIT,), (HIT,), {}, {})
    assert doubted(Relevance(probability, {}, ("keel",), names), found, Settings()) == doubt


@pytest.mark.parametrize(("score", "name"), [(0.9, "high"), (0.899, "medium"), (0.5, "medium"), (0.499, "low")])
def test_levels_of_confidence(score: float, name: str) -> None:
    assert level(score) == name


def test_three_topics_are_offered() -> None:
    hits = [replace(HIT, chunk=chunk("It.", heading_path=(f"Part {number}",))) for number in range(5)]
    assert nearest_topics(Retrieved(tuple(hits), (), {}, {})) == ("Part 0", "Part 1", "Part 2")


# --- which words of the question does a sentence hold? ---------------------------------------------------------------


def credit(*texts: str, word: str = "gaul", heading: str = "") -> list[float]:
    """Of the one word, for each sentence."""
    own = chunk(" ".join(texts), heading_path=(heading,) if heading else ())
    return [float(row[0]) for row in tabulate(asked(word), [(1, own, 1.0)], {}, {}).credit]


def test_a_word_counts_by_where_it_stands() -> None:
    (itself,) = credit("Gaul was large.")
    (alike,) = credit("Gaulish tribes lived there.")
    (headed,) = credit("It was large.", heading="Gaul")
    _, before = credit("Gaul was large.", "It was divided.")
    after, _ = credit("It was divided.", "Gaul was large.")
    assert itself == 1.0 > alike > headed > before > after > 0.2
    assert credit("It was large.") == [0.0] and credit("Galleys were large.") == [0.0]
    assert headed < 0.6 and before > 0.4


def test_words_that_frame_a_question_count_less() -> None:
    table = tabulate(asked("kind of anchor"), [(1, chunk("An anchor."), 1.0)], {}, {})
    framing, plain = table.weights
    assert question_words("kind of anchor").framing == {"kind"} and 0.2 < framing / plain < 0.5


# --- which hits and documents? ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cosine", "lexical", "sentence", "is_kept"),
    [
        (0.35, 0.0, 0, True),
        (0.349, 0.0, 0, False),
        (0.0, 0.221, 0, True),
        (0.0, 0.219, 0, False),
        (0.0, 0.0, 58, True),  # of 127: a cosine of .457
        (0.0, 0.0, 57, False),
    ],
)
def test_what_bears_on_a_question(cosine: float, lexical: float, sentence: int, is_kept: bool) -> None:
    other = Hit(chunk("Another one.", id=2), HIT.document, lexical, cosine, 0.5)
    query = Query("q", "q", np.array([1.0, 0.0], np.float32), ("anchor",))
    rows = {2: np.array([[sentence, 0]], np.int8)}
    kept = relevant([HIT, other], query, rows, {"anchor": 1.0}, Settings().similarity_threshold)
    assert (other in kept) == is_kept and HIT in kept


def shelf(named: int, chunks: int = 40) -> tuple[Document, ...]:
    """As many documents again have names of their own."""
    names = [f"Kestrel_{number}.pdf" for number in range(named)] + [f"Heron{number}x.pdf" for number in range(named)]
    return tuple(Document(name, name, "", "hash", "ready", chunk_count=chunks) for name in names)


def test_what_hundreds_of_documents_are_called_names_none_of_them() -> None:
    assert len(match_names("What does Kestrel sell?", shelf(200))) == 200
    assert match_names("What does Kestrel sell?", shelf(201)) == {}


def test_a_short_document_is_named_less() -> None:
    strengths = [max(match_names("What does Kestrel sell?", shelf(5, size)).values()) for size in (16, 20, 60)]
    assert strengths[0] < strengths[1] == strengths[2]


def test_a_passage_has_eight_chunks_at_most() -> None:
    chunks = [chunk(f"Sentence {n}.", id=n, sequence=n) for n in range(1, 13)]
    hits = [Hit(one, HIT.document, 1.0, 0.5, 0.5) for one in chunks]
    assert [len(run) for _, run in grow(hits, {}, 100_000)] == [8, 4]
    around = {1: chunks[1:]}
    assert [len(run) for _, run in grow(hits[:1], around, 100_000)] == [8]


# --- how is a question read? -----------------------------------------------------------------------------------------


def words(count: int, letters: int = 1) -> str:
    return " ".join(f"{'x' * letters}{number}" for number in range(count))


@pytest.mark.parametrize(
    ("question", "count"),
    [
        (f"Compare {words(12)} with beta", 2),
        (f"Compare {words(13)} with beta", 0),
        ("Compare alpha, beta, gamma and delta", 4),
        ("Compare alpha, beta, gamma, delta and omega", 0),
        (f"Compare {'x' * 982} with beta", 2),
        (f"Compare {'x' * 983} with beta", 0),
    ],
)
def test_sides(question: str, count: int) -> None:
    assert len(sides(question)) == count


def test_a_short_question_must_be_nearer_to_be_the_same() -> None:
    needed = [threshold("adaptive", words(count)) for count in (4, 5, 8, 9, 15, 16)]
    assert needed[0] > needed[1] == needed[2] > needed[3] == needed[4] > needed[5]
    assert threshold("precision", "") >= needed[0] and needed[5] > threshold("recall", "")


def near(*found: str) -> object:
    return lambda word, distance: [(one, 5) for one in found]


@pytest.mark.parametrize(
    ("word", "other", "is_meant"),
    [
        ("abcdefg", "abxdefg", True),
        ("abcdefg", "abxxefg", False),
        ("abcdefgh", "abxxefgh", True),
        ("abcdefgh", "abxxxfgh", False),
        ("abc", "abd", True),
        ("abc", "ab", False),
    ],
)
def test_how_many_letters_may_be_wrong(word: str, other: str, is_meant: bool) -> None:
    assert (other in meanings(word, near(other), None, 1000, ())) == is_meant  # type: ignore[arg-type]


def test_a_word_of_many_chunks_is_no_likelier_than_one_of_some() -> None:
    ten, fifty, hundred = (features("anchr", "anchor", count, 0.0, False, is_name=False) for count in (10, 50, 100))
    assert ten["documents"] < fifty["documents"] == hundred["documents"]


@pytest.mark.parametrize(
    ("question", "nearness", "leans"),
    [
        ("How heavy is its chain?", 0.9, True),  # too few words of its own
        ("Why is its galvanised steel chain painted orange?", 0.49, True),
        ("Why is its galvanised steel chain painted orange?", 0.5, False),
    ],
)
def test_a_question_that_the_documents_answer_stands_alone(question: str, nearness: float, leans: bool) -> None:
    turns = (Turn("user", "What is the WB-7?"), Turn("assistant", "The WB-7 is a wave buoy."))
    assert bool(stand_alone(question, turns, lambda text: nearness).why) == leans


# --- what is said of a claim, and of an answer? ----------------------------------------------------------------------


def verdict(cosine: float, covered: float = 0.0, clashes: Sequence[str] = ()) -> tuple[str, float]:
    names = ("coverage", "names", "figures", "negation", "opposites", "personal", "length")
    line = SourceSentence(1, 0, 0, "It.", frozenset(), cosine)
    found = judge_claim(Support((line,), dict.fromkeys(names, 0.0) | {"cosine": cosine}, covered, tuple(clashes), ()))
    return found.verdict, found.score


def test_verdicts() -> None:
    assert [verdict(cosine)[0] for cosine in (0.67, 0.65, 0.345, 0.335)] == [
        "supported",
        "partly",
        "partly",
        "unsupported",
    ]
    assert verdict(0.1, 0.5, ["says 4"])[0] == verdict(0.6, 0.0, ["says 4"])[0] == "contradicted"
    assert verdict(0.59, 0.49, ["says 4"])[0] == "unsupported" and verdict(0.67, 0.0, ())[1] >= 0.5
    assert verdict(0.65, 0.0, ())[1] < 0.5 and verdict(0.7, 0.5, ["says 4"])[1] < 0.2


@pytest.mark.parametrize(
    ("claim", "heading", "is_said"),
    [
        ("Sales were 4,200 euros.", "In thousands", True),
        ("Sales were 4.2 million euros.", "In millions", True),
        ("Sales were 4.2 billion euros.", "EUR in billions", True),
        ("Sales were 4.2 million euros.", "€m", True),
        ("Sales were 4.2 billion euros.", "€bn", True),
        ("Sales were 4.2 billion euros.", "In millions", False),
    ],
)
def test_figures_of_a_table_have_its_scale(claim: str, heading: str, is_said: bool) -> None:
    wrong, missing = check_figures(claim, figures(claim), "Sales | 4.2", f"{heading}\nSales | 4.2")
    assert (not wrong and not missing) == is_said


@pytest.mark.parametrize(
    ("claim", "source", "is_same"),
    [
        ("at 3:00", "at 15:00", True),
        ("at 3:30", "at 15:00", False),
        ("at 3 am", "at 3 pm", False),
        ("the first", "the first", True),
        ("the first", "the second", False),
        ("the 2nd", "the second", True),
    ],
)
def test_times_and_places_agree(claim: str, source: str, is_same: bool) -> None:
    (one,), (other,) = figures(claim), figures(source)
    assert agrees(one, other) == is_same


def test_three_hundred_sentences_are_checked() -> None:
    text = " ".join(f"The buoy number {number} is red." for number in range(301))
    assert len(checkable(text)) < len(text) and checkable(checkable(text)) == checkable(text)
    assert checkable(text).endswith("number 299 is red.")


def test_suggested_questions_are_few_and_short() -> None:
    assert len(parse_suggestions("|".join(f"Is it {number}?" for number in range(9)))) == 5
    assert parse_suggestions("x" * 600) and not parse_suggestions("x" * 601)
