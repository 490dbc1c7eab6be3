"""The judge that ships: it opens beside the reader, whose word vectors it shares, and tells plans and claims apart."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from refdesk.errors import ModelError
from refdesk.providers.shipped import ASSETS, JUDGE_FILE, READER_FILE, SHA256, OnnxJudge

READER = ASSETS / "reader"


def test_the_readme_names_the_files_as_they_are() -> None:
    readme = (READER / "README.md").read_text(encoding="utf-8")
    assert SHA256[READER_FILE] in readme and SHA256[JUDGE_FILE] in readme


@pytest.mark.parametrize(
    ("question", "plans"),
    [
        (
            "How many goals did the team score in 2004?",
            ("Goals of 2004: 31", "Goals of 2005: 28", "number of all: 12", "Coach of 2004: Ann Reed"),
        ),
        (
            "What was the change in net sales from 2018 to 2019?",
            (
                "Net sales, change from 2018 to 2019: 412",
                "Net sales of 2019: 4,100",
                "Net sales, sum of 2018 and 2019: 7,788",
                "Cost of sales of 2018: 1,020",
            ),
        ),
        (
            "which driver finished first?",
            (
                "Driver of the first: Sebastian Vettel",
                "Driver of the last: Mark Webber",
                "number of Driver: 20",
                "Team of the first: Red Bull",
            ),
        ),
    ],
)
def test_the_plan_that_answers_is_first(question: str, plans: tuple[str, ...]) -> None:
    logits = OnnxJudge().plans(question, plans)
    assert len(logits) == len(plans) and max(logits) == logits[0]


def test_a_claim_that_the_evidence_says_is_supported_rather_than_one_it_denies() -> None:
    evidence = "The bridge over the Aare was built in 1841 by Karl Etzel and closed to cars in 1998."
    judge = OnnxJudge()
    said, denied = (judge.claim(f"Karl Etzel built the bridge in {year}.", evidence) for year in (1841, 1998))
    assert said.supported > denied.supported


def test_a_long_claim_and_long_evidence_are_cut() -> None:
    assert len(OnnxJudge().claim("steel " * 400, "pump " * 4000, "title " * 90)) == 4


def test_another_reader_beside_it_is_refused(tmp_path: Path) -> None:
    """Its word vectors would be taken from the wrong places."""
    (tmp_path / "reader").mkdir()
    shutil.copy(ASSETS / "tokenizer.json", tmp_path)
    shutil.copy(READER / JUDGE_FILE, tmp_path / "reader")
    (tmp_path / "reader" / READER_FILE).write_bytes((READER / READER_FILE).read_bytes()[:-1])
    with pytest.raises(ModelError, match="damaged"):
        OnnxJudge(tmp_path).plans("What was it?", ["It: 1"])
