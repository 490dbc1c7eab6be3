"""The shipped judge: does this plan over a table answer the question, does this evidence support the claim?

A small network like the reader, whose word vectors it shares: its file names the place in the reader's where they
stand, so it is opened by its path, beside the reader. `training/` makes it. int8 ONNX, on the CPU, a pair at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from refdesk.providers.embed import one_thread_session, run_pair
from refdesk.providers.tokens import ASSETS, JUDGE_FILE, READER_FILE, ShippedTokenizer, read_asset

LENGTH, QUESTION, CLAIM, TITLE = 256, 48, 96, 20  # tokens of a pair, and of its parts, as in training


class PairLogits(NamedTuple):
    """Logits of a pair. Of a claim `supported` counts, of a plan `planned`; 0 is the logit of no plan at all."""

    relevant: float
    answered: float
    supported: float
    planned: float


class OnnxJudge:
    """Safe to share between threads, loaded when first used."""

    name = "judge-int8"

    def __init__(self, assets: Path = ASSETS) -> None:
        self._assets = assets
        self._tokenizer = ShippedTokenizer(assets)

    def plans(self, question: str, stated: Sequence[str]) -> list[float]:
        """How well each of these plans, as `ask.plans.stated` says them, answers the question."""
        asked = self._tokenizer.encode(question, QUESTION)[0]
        room = LENGTH - 3 - len(asked)
        return [self._judged(asked, self._tokenizer.encode(plan, room)[0]).planned for plan in stated]

    def claim(self, claim: str, evidence: str, title: str = "") -> PairLogits:
        """`evidence`: the sentences that share most with the claim, about 160 words; `title`: of their page."""
        said = self._tokenizer.encode(claim, CLAIM)[0]
        above = self._tokenizer.encode(title, TITLE)[0]
        text = self._tokenizer.encode(evidence, LENGTH - 3 - len(said) - len(above))[0]
        return self._judged(said, [*above, *text])

    def _judged(self, first: Sequence[int], second: Sequence[int]) -> PairLogits:
        return PairLogits(*run_pair(self._load(), "judge", first, second)[0].tolist())

    def _load(self) -> Any:
        with _loading:
            return _session(self._assets)


_loading = threading.Lock()


@cache
def _session(assets: Path) -> Any:
    for name in (READER_FILE, JUDGE_FILE):  # other bytes in the reader's file would be other words here
        read_asset(assets / "reader" / name)
    return one_thread_session(str(assets / "reader" / JUDGE_FILE))
