"""Measures accuracy on questions with known answers: reads JSONL, asks, compares, counts.

    {"question": "How heavy is the anchor?", "answer": "350 kg", "document": "mooring.pdf", "page": 1}
    {"question": "Who painted the buoy?", "answer": null}

`answer` is the expected text, a list of texts of which any will do, or null where the documents do not say it;
`document` and `page` are where it stands, and may be left out.
"""

from __future__ import annotations

import json
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refdesk.answer import Answer
from refdesk.errors import UsageError

FIELDS = ("question", "answer", "document", "page")
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[%$€£]")
_ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True, slots=True)
class Expected:
    """A question and what is known of its answer; no texts: the documents do not say it."""

    question: str
    texts: tuple[str, ...]
    document: str = ""
    page: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one question. `is_cited` is None where it is not known where the answer stands."""

    expected: Expected
    content: str
    short: str
    is_answered: bool
    is_right: bool
    f1: float
    is_found: bool | None
    is_cited: bool | None
    confidence: str
    milliseconds: float
    cost_usd: float | None

    def to_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "expected"}
        known = {"question": self.expected.question, "expected": list(self.expected.texts) or None}
        return known | {"document": self.expected.document, "page": self.expected.page} | fields


def read_questions(path: Path) -> list[Expected]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    found = [_expected(line, f"{path.name}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(f"{path} contains no questions", hint='write {"question": "…", "answer": "…"}, one per line')
    return found


def _expected(line: str, where: str) -> Expected:
    try:
        row = json.loads(line)
    except ValueError:
        raise UsageError(f"{where} is not JSON", hint="write one JSON object per line") from None
    if not isinstance(row, dict) or not isinstance(row.get("question"), str) or not row["question"].strip():
        raise UsageError(f"{where} has no question", hint='write {"question": "…", "answer": "…"}')
    if "answer" not in row:
        raise UsageError(f"{where} has no answer", hint="write null if the documents do not say")
    wanted = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
    texts = tuple(str(text) for text in wanted if text is not None and str(text).strip())
    if not texts and wanted != [None]:
        raise UsageError(f"{where} has an empty answer", hint="write null if the documents do not say")
    page = row.get("page") or 0
    if isinstance(page, bool) or not isinstance(page, int) or not isinstance(row.get("document") or "", str):
        raise UsageError(f"{where}: document must be a name and page a number")
    return Expected(row["question"], texts, row.get("document") or "", page)


def evaluate(questions: Sequence[Expected], ask: Callable[[str], Answer]) -> Iterator[Outcome]:
    """Asks one after the other."""
    for expected in questions:
        yield outcome(expected, ask(expected.question))


def outcome(expected: Expected, answer: Answer) -> Outcome:
    texts = (answer.short, answer.content)
    is_right = any(holds(text, wanted) for text in texts for wanted in expected.texts)
    places = {(citation.document_name, citation.page) for citation in answer.citations}
    seen = {source.document_name for source in (*answer.sources, *answer.related_documents)}
    names = {name for name, _ in places}
    is_cited = (expected.document, expected.page) in places if expected.page else expected.document in names
    return Outcome(
        expected=expected,
        content=answer.content,
        short=answer.short,
        is_answered=answer.is_answered,
        is_right=answer.is_answered and is_right if expected.texts else not answer.is_answered,
        f1=max((word_f1(text, wanted) for text in texts for wanted in expected.texts if text), default=0.0),
        is_found=expected.document in seen if expected.document else None,
        is_cited=is_cited if expected.document else None,
        confidence=answer.confidence.level,
        milliseconds=answer.metrics.get("total_ms", 0.0),
        cost_usd=answer.usage.cost_usd,
    )


def holds(text: str, wanted: str) -> bool:
    """Whether the words of the expected answer stand in the answer, one after the other.

    >>> holds("The anchor weighs 2,150 kg [1].", "2150 kg")
    True
    """
    words, target = _words(text), _words(wanted)
    return bool(target) and any(words[at : at + len(target)] == target for at in range(len(words) - len(target) + 1))


def word_f1(text: str, wanted: str) -> float:
    """The harmonic mean of the shares of words that both have, as SQuAD counts it."""
    words, target = Counter(_words(text)), Counter(_words(wanted))
    both = (words & target).total()
    return 2 * both / (words.total() + target.total()) if both else 0.0


def _words(text: str) -> list[str]:
    bare = re.sub(r"\[\d+(?:, ?\d+)*\]", " ", unicodedata.normalize("NFKC", text)).casefold()
    found = [re.sub(r"(?<=\d),(?=\d{3})", "", word) for word in _WORD.findall(bare)]
    return [word for word in found if word not in _ARTICLES]


def summary(outcomes: Sequence[Outcome]) -> dict[str, float | int | None]:
    """The figures of the table; None where nothing is known to count."""
    known = [outcome for outcome in outcomes if outcome.expected.texts]
    unknown = [outcome for outcome in outcomes if not outcome.expected.texts]
    placed = [outcome for outcome in known if outcome.is_cited is not None]
    high = [outcome for outcome in outcomes if outcome.is_answered and outcome.confidence == "high"]
    costs = [outcome.cost_usd for outcome in outcomes]
    return {
        "questions": len(outcomes),
        "right": _share([outcome.is_right for outcome in outcomes]),
        "answer_given": _share([outcome.is_right for outcome in known]),
        "f1": round(statistics.fmean(outcome.f1 for outcome in known), 3) if known else None,
        "refused_although_known": _share([not outcome.is_answered for outcome in known]),
        "refused_rightly": _share([outcome.is_right for outcome in unknown]),
        "document_found": _share([bool(outcome.is_found) for outcome in placed]),
        "place_cited": _share([bool(outcome.is_cited) for outcome in placed]),
        "right_of_high_confidence": _share([outcome.is_right for outcome in high]),
        "median_ms": round(statistics.median(outcome.milliseconds for outcome in outcomes), 1),
        "cost_usd": None if None in costs else round(sum(cost or 0.0 for cost in costs), 4),
    }


def _share(hits: Sequence[bool]) -> float | None:
    return round(sum(hits) / len(hits), 3) if hits else None
