"""Are numbers asked of company reports answered with the right number? As the program ships, without a model.

python -m benchmarks.filing_figures

The questions of financebench and kgrag_10q whose known answer is a number: of financebench all whose answer holds one,
of kgrag those whose answer holds a single amount or percentage (years and dates aside). Right is an answer that says
that number at three digits, whatever its scale ("1,577 million" for "$1,577"), beside whatever else it says. Nothing
was learned from these reports or questions.
"""

from __future__ import annotations

import csv
import re
from calendar import month_name
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.common import DATA, Figure, read_jsonl
from benchmarks.conflicts import library
from benchmarks.filings import FOLDERS
from refdesk.answer import Answer

FINANCEBENCH_BAR, KGRAG_BAR = 24, 0.60
LEAST = 1899, 2100  # a bare number between these is a year
_NUMBER = re.compile(
    r"(?<![\w.,])[-(]?\$?\s?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?\s*(%|per ?cent|billion|million|thousand|bn)?"
)
_DATE = re.compile(rf"\b(?:{'|'.join(month_name[1:])}) \d{{1,2}}\b")
_NAME = re.compile(r"\b(?:Q[1-4]|10-[QK]|FY ?\d{2,4}|\d{4} Q[1-4]|SOURCE.*)\b", re.DOTALL)
_SCALES = {"billion": 1e9, "bn": 1e9, "million": 1e6, "thousand": 1e3}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the number that answers it."""

    text: str
    number: float
    is_percent: bool


def numbers(text: str) -> list[tuple[float, bool]]:
    """The numbers of a text with whether each is a percentage; years, dates and names of reports are none."""
    found = []
    for match in _NUMBER.finditer(_DATE.sub(" ", _NAME.sub(" ", text))):
        whole, part, unit = match.group(1), match.group(2) or "", (match.group(3) or "").lower()
        value = float(whole.replace(",", "") + part)
        if not part and not unit and "," not in whole and "$" not in match.group() and LEAST[0] < value < LEAST[1]:
            continue
        found.append((value * _SCALES.get(unit, 1.0), unit.startswith(("%", "per"))))
    return found


def financebench() -> Iterator[Asked]:
    for row in read_jsonl(DATA / "pdf_qa" / "financebench" / "questions.jsonl"):
        if known := numbers(str(row["answer"])):
            yield Asked(str(row["question"]), *known[0])


def kgrag() -> Iterator[Asked]:
    with (FOLDERS["kgrag_10q"].parent / "qna_data.csv").open(encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            known = {one for one in numbers(row["Answer"]) if one[1] or one[0] >= 1e3}
            if len(known) == 1:
                yield Asked(row["Question"], *known.pop())


def is_right(answer: Answer, asked: Asked) -> bool:
    """Does it say the number, in any scale? Reports say "in millions" above the table, answers beside the number."""
    if not answer.is_answered:
        return False
    said = numbers(answer.content)
    said += [(abs(one.number), one.unit == "%") for one in answer.figures if one.number is not None]
    scales = (1.0,) if asked.is_percent else (1.0, 1e3, 1e6, 1e9, 1e-3, 1e-6, 1e-9)
    return any(_is_near(value * scale, asked.number) for value, _ in said for scale in scales)


def _is_near(value: float, known: float) -> bool:
    """Equal at three digits, as an analyst would round, or at those that the known one has: 2.72 for 2.7."""
    decimals = len(f"{known:g}".partition(".")[2])
    return abs(value - known) <= 0.005 * abs(known) or (0 < decimals < 3 and round(value, decimals) == known)


def figures() -> list[Figure]:
    found = []
    with library() as desk:
        for name, questions, bar in (
            ("financebench", financebench(), FINANCEBENCH_BAR),
            ("kgrag_10q", kgrag(), KGRAG_BAR),
        ):
            right = refused = high_wrong = total = 0
            for asked in questions:
                answer = desk.ask_sync(asked.text, settings={"cache.enabled": False})
                is_good = is_right(answer, asked)
                total, right, refused = total + 1, right + is_good, refused + (not answer.is_answered)
                high_wrong += answer.is_answered and not is_good and answer.confidence.level == "high"
                shown = "right" if is_good else "WRONG" if answer.is_answered else "none "
                print(f"{shown} {answer.confidence.level:6} {asked.number:g} {asked.text}", flush=True)
                print(f"      {answer.content[:200]!r}", flush=True)
            share = right / max(1, total)
            told = f"{right} of {total} ({share:.2f}); refused {refused}; high and wrong {high_wrong}"
            found.append(Figure(f"{name}: the number is said", told, f"≥ {bar}", (right if bar > 1 else share) >= bar))
    return found


def main() -> None:
    for one in figures():
        print(one, flush=True)


if __name__ == "__main__":
    main()
