"""Confidence rises with relevance and grounding, never lies about its range, and says why."""

from __future__ import annotations

import pytest

from evidence_samples import chunk
from memory_desk import KINDS
from refdesk import Refdesk
from refdesk.answer import Citation, Claim, Verdict
from refdesk.ask.extract import Quote
from refdesk.ask.followup import points_back
from refdesk.ask.judge import CONFIDENCE, HIGH, Relevance, calibrated, confidence, grounding, level
from refdesk.ask.sentences import ScoredSentence
from refdesk.settings import Settings

STORES = KINDS


def claim(verdict: Verdict = "supported", text: str = "The anchor weighs 350 kg.") -> Claim:
    return Claim(text, 0, len(text), (1,), (0,), verdict, 0.9)


def citation(document: str = "a") -> Citation:
    return Citation(1, document, f"{document}.pdf", 1, 1, (), 1, (), True, "The anchor weighs 350 kg.", 0.9, 0.8)


def relevance(probability: float = 0.9, missing: tuple[str, ...] = (), **features: float) -> Relevance:
    return Relevance(probability, {"coverage": 1.0, "unnamed": 0.0} | features, missing)


def test_the_fitted_points_rise() -> None:
    given, share = zip(*CONFIDENCE, strict=True)
    assert list(given) == sorted(set(given))
    assert list(share) == sorted(share)
    assert given[0] == 0.0
    assert given[-1] == 1.0
    assert 0.0 <= share[0] <= share[-1] <= 1.0


def test_it_rises_with_relevance() -> None:
    scores = [confidence(relevance(p), [claim()], [citation()], Settings()).score for p in (0.1, 0.4, 0.7, 0.95)]
    assert scores == sorted(scores)
    assert scores[-1] > scores[0] + 0.3


@pytest.mark.parametrize(
    ("better", "worse"), [("supported", "partly"), ("partly", "unsupported"), ("unsupported", "contradicted")]
)
def test_it_falls_with_the_verdicts(better: Verdict, worse: Verdict) -> None:
    assert grounding([claim(better)]) > grounding([claim(worse)])
    assert (
        confidence(relevance(), [claim(better)], [citation()], Settings()).score
        > confidence(relevance(), [claim(worse)], [citation()], Settings()).score
    )


def test_a_contradicted_answer_is_never_trusted() -> None:
    told = confidence(relevance(1.0), [claim("contradicted")], [citation()], Settings())
    assert (told.score, told.level) == (0.0, "low")
    assert "1 sentence is contradicted" in told.reason


def test_below_the_floor_it_stays_low() -> None:
    assert confidence(relevance(0.2), [claim()], [citation()], Settings(answer_floor=0.3)).level == "low"


def test_no_claims_no_confidence() -> None:
    assert confidence(relevance(1.0), [], [], Settings()).level == "low"


@pytest.mark.parametrize(("score", "name"), [(0.9, "high"), (0.899, "medium"), (0.5, "medium"), (0.499, "low")])
def test_levels(score: float, name: str) -> None:
    assert level(score) == name


@pytest.mark.parametrize("given", [0.0, 0.3, 1.0])
def test_calibrated_stays_a_share(given: float) -> None:
    assert 0.0 <= calibrated(given) <= 1.0


def test_the_reason_is_said_in_words() -> None:
    told = confidence(relevance(), [claim(), claim()], [citation("a"), citation("b")], Settings())
    assert told.reason == "2 sentences are found in 2 documents; one passage contains all words of the question"
    told = confidence(relevance(0.4, ("Fundy",)), [claim()], [citation()], Settings())
    assert told.reason == "1 sentence is found in 1 document; no passage mentions 'Fundy'"
    told = confidence(relevance(0.4, ("Fundy", "tide")), [claim(), claim("partly")], [citation()], Settings())
    assert told.reason == "1 of 2 sentences are supported by their citations; no passage mentions 'Fundy' or 'tide'"
    told = confidence(relevance(unnamed=0.3), [claim("partly")], [citation()], Settings())
    assert told.reason.startswith("no sentence is fully supported")


def quote(**evidence: float) -> Quote:
    text = "The anchor weighs 350 kg."
    return Quote(text, "", ScoredSentence(1, chunk([text]), 0, text, **({"score": 5.0, "share": 0.9} | evidence)))


def test_what_is_quoted_is_judged_not_how_many_words_it_shares() -> None:
    """A passage without a name of the question is no sure answer, nor is a sentence that is one of many."""
    sure = confidence(relevance(0.99), [claim()], [citation()], Settings(), [quote()])
    assert sure.level == "high"
    for less in (quote(unnamed=0.2), quote(share=0.1)):
        told = confidence(relevance(0.99), [claim()], [citation()], Settings(), [less])
        assert told.score < sure.score
        assert told.reason != sure.reason
    assert confidence(relevance(0.99), [claim()], [citation()], Settings(), [quote(unnamed=0.2)]).score < HIGH


def test_a_figure_of_a_named_row_does_not_answer_what_no_column_is_called(examples: Refdesk) -> None:
    """The quarter's revenue of a buoy stands under its name; its height and weight are told elsewhere or nowhere."""
    for question in ("How tall is the WB-7 buoy?", "What does the WB-7 weigh?"):
        answer = examples.ask_sync(question, settings={"cache.enabled": False})
        assert not answer.figures
        assert "million" not in answer.content
    asked = "How much revenue did WB-7 wave buoys make in Q3 2025?"
    assert "0.98" in examples.ask_sync(asked, settings={"cache.enabled": False}).content


def test_what_points_at_something_unsaid_is_never_high(examples: Refdesk) -> None:
    named = examples.ask_sync("How many days a week may staff work from home?", settings={"cache.enabled": False})
    asked = "How many days a week may these staff work from home?"
    pointing = examples.ask_sync(asked, settings={"cache.enabled": False})
    assert named.confidence.level == "high"
    assert pointing.content == named.content
    assert pointing.confidence.level == "medium"
    assert pointing.confidence.score < HIGH


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("What is the purpose of this rule?", "this"),
        ("How is it cleaned?", "it"),
        ("What is the WB-7 and how is it cleaned?", ""),
        ("Is it possible to clean the hull?", ""),
        ("What was added this week?", ""),
    ],
)
def test_a_word_that_points_back_is_found(question: str, word: str) -> None:
    assert points_back(question) == word
