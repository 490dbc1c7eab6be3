"""The shipped reader and judge: what does a passage say to a question, does a plan over a table answer it?

Two small networks, int8 ONNX on the CPU; `training/` makes their files. Each pass reads one pair: a batch would share
the ranges its activations are rounded by, so that what is read in a passage would depend on the others. The judge
shares the reader's word vectors: its file names the place in the reader's where they stand, so it is opened by its
path, beside the reader.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.providers.embed import one_thread_session, run_pair
from refdesk.providers.tokens import ASSETS, JUDGE_FILE, READER_FILE, ShippedTokenizer, read_asset
from refdesk.types import Chunk, FoundSpan, Reading

LENGTH, QUESTION, CLAIM, TITLE = 256, 48, 96, 20  # tokens of a pair and of its parts, as in training
LONGEST_SPAN = 30  # tokens

Floats = NDArray[np.float32]


class OnnxReader:
    """A `Reader` with the shipped model; safe to share between threads, loaded when first used."""

    name = "reader-int8"

    def __init__(self, assets: Path = ASSETS) -> None:
        self._assets = assets
        self._tokenizer = ShippedTokenizer(assets)
        self._judge = OnnxJudge(assets)

    def judge_plans(self, question: str, stated: Sequence[str]) -> list[float]:
        return self._judge.plans(question, stated)

    def read(self, question: str, chunk: Chunk) -> Reading:
        asked, _ = self._tokenizer.encode(question, QUESTION)
        above, _ = self._tokenizer.encode(chunk.context, TITLE)
        text, places = self._tokenizer.encode(chunk.text, LENGTH - 3 - len(asked) - len(above))
        begin = len(asked) + 2 + len(above)
        judged, starts, ends = run_pair(self._load(), "reader", asked, [*above, *text])
        window = slice(begin, begin + len(text))
        spans = _spans(starts[window], ends[window], places, chunk)
        return Reading(float(judged[0]), float(judged[1]), spans, len(starts))

    def _load(self) -> Any:
        with _loading:
            return _session(self._assets)


_loading = threading.Lock()


@cache
def _session(assets: Path) -> Any:
    return one_thread_session(read_asset(assets / "reader" / READER_FILE))


def _spans(starts: Floats, ends: Floats, places: NDArray[np.int32], chunk: Chunk) -> tuple[FoundSpan | None, ...]:
    """The likeliest answer within each sentence; None for a sentence beyond what was read."""
    first = np.searchsorted(places, [one.start for one in chunk.sentences]).tolist()
    last = np.searchsorted(places, [one.end for one in chunk.sentences]).tolist()
    found: list[FoundSpan | None] = []
    for sentence, low, high in zip(chunk.sentences, first, last, strict=True):
        if low == high:
            found.append(None)
            continue
        scores = starts[low:high, None] + ends[None, low:high]
        away = np.arange(high - low)[None] - np.arange(high - low)[:, None]
        scores[(away < 0) | (away >= LONGEST_SPAN)] = -np.inf
        begin, end = divmod(int(scores.argmax()), high - low)
        until = int(places[low + end + 1]) if low + end + 1 < len(places) else sentence.end
        found.append(_whole_words(chunk.text, int(places[low + begin]), min(until, sentence.end), scores[begin, end]))
    return tuple(found)


def _whole_words(text: str, start: int, end: int, score: np.float32) -> FoundSpan:
    """The span without the space behind it, and with the rest of the words that it cuts."""
    while end > start and text[end - 1].isspace():
        end -= 1
    while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while 0 < end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        end += 1
    return FoundSpan(start, end, float(score))


# --- the judge --------------------------------------------------------------------------------------------------------


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
            return _judge_session(self._assets)


@cache
def _judge_session(assets: Path) -> Any:
    for name in (READER_FILE, JUDGE_FILE):  # other bytes in the reader's file would be other words here
        read_asset(assets / "reader" / name)
    return one_thread_session(str(assets / "reader" / JUDGE_FILE))
