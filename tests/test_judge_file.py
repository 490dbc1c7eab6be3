"""The judge that ships: it opens beside the reader, whose word vectors it shares, and tells plans and claims apart."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
import pytest

from refdesk.providers.embed import CLOSING, OPENING
from refdesk.providers.tokens import ASSETS, ShippedTokenizer

FOLDER = ASSETS / "reader"


@cache
def session() -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(FOLDER / "judge.int8.onnx"), providers=["CPUExecutionProvider"])


def judged(first: str, second: str) -> np.ndarray:
    """Logits: relevant, answered, supported, planned."""
    tokens = ShippedTokenizer()
    asked, given = tokens.encode(first, 96)[0], tokens.encode(second, 150)[0]
    ids = np.array([[OPENING, *asked, CLOSING, *given, CLOSING]], dtype=np.int64)
    types = (np.arange(ids.shape[1]) >= len(asked) + 2).astype(np.int64)[None]
    mask = np.ones(ids.shape, dtype=np.float32)
    outputs = session().run(None, {"input_ids": ids, "token_types": types, "attention_mask": mask})
    assert len(outputs) == 1 and outputs[0].shape == (1, 4)
    return np.array(outputs[0][0])


def test_the_readme_names_the_files_as_they_are() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name in ("reader.int8.onnx", "judge.int8.onnx"):
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() in readme, name


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (
            "How many goals did the team score in 2004?",
            "Goals of 2004: 31",
            ("Goals of 2005: 28", "number of all: 12", "Coach of 2004: Ann Reed"),
        ),
        (
            "What was the change in net sales from 2018 to 2019?",
            "Net sales, change from 2018 to 2019: 412",
            ("Net sales of 2019: 4,100", "Net sales, sum of 2018 and 2019: 7,788", "Cost of sales of 2018: 1,020"),
        ),
        (
            "which driver finished first?",
            "Driver of the first: Sebastian Vettel",
            ("Driver of the last: Mark Webber", "number of Driver: 20", "Team of the first: Red Bull"),
        ),
    ],
)
def test_the_plan_that_answers_is_first(question: str, right: str, wrong: tuple[str, ...]) -> None:
    best = judged(question, right)[3]
    assert all(best > judged(question, other)[3] for other in wrong)


def test_a_claim_that_the_evidence_says_is_supported_rather_than_one_it_denies() -> None:
    evidence = "The bridge over the Aare was built in 1841 by Karl Etzel and closed to cars in 1998."
    assert (
        judged("Karl Etzel built the bridge in 1841.", evidence)[2]
        > judged("Karl Etzel built the bridge in 1998.", evidence)[2]
    )
