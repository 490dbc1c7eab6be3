"""A question that was corrected while it was spoken is read as it was meant; any other stays as it is."""

from __future__ import annotations

import pytest

from refdesk.ask.phrases import fluent


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("What is the mass no wait the weight of it?", "What is the weight of it?"),
        ("How many buoys or rather gauges were sold?", "How many gauges were sold?"),
        ("How heavy is um the anchor?", "How heavy is the anchor?"),
        ("Where is the uh no when was the gauge lifted?", "When was the gauge lifted?"),
        (
            "Who signed the letter from Cuxhaven no sorry the letter from Brannoch?",
            "Who signed the letter from Brannoch?",
        ),
        ("What does the chain I mean the rope cost?", "What does the rope cost?"),
    ],
)
def test_slips_are_mended(said: str, meant: str) -> None:
    assert fluent(said) == meant


@pytest.mark.parametrize(
    "question",
    [
        "Is there no warranty?",
        "Did they actually sign it?",
        "Which is better, the TG-3 or the TG-4?",
        "What did the operator mean by drift?",
        "How long must I wait for a calibration?",
        "Why is there no copper guard on the TG-3?",
        "Ermittelt das Gerät den Wasserstand?",
        "",
    ],
)
def test_other_questions_stay_as_they_are(question: str) -> None:
    assert fluent(question) == question
