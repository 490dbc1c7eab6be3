"""Are questions about company reports answered rightly, and is `high` right? As the program ships, without a model.

python -m benchmarks.filing_answers

Nothing was learned from these reports or questions. Good is an answer that matches what is known, or a refusal where
the reports do not say it.
"""

from __future__ import annotations

import re

from benchmarks.common import DATA, Figure, read_jsonl
from benchmarks.conflicts import library

GOOD, HIGH, WRONG = 18, 0.85, 1


def figures() -> list[Figure]:
    good = high = high_right = total = 0
    with library() as desk:
        for row in read_jsonl(DATA / "questions" / "filings_dev.jsonl"):
            answer = desk.ask_sync(str(row["question"]), settings={"cache.enabled": False})
            patterns: list[str] = row["answer_matches_any"]  # type: ignore[assignment]
            if row["should_refuse"]:
                is_good = not answer.is_answered
            else:
                is_good = answer.is_answered and any(re.search(one, answer.content) for one in patterns)
            is_high = answer.is_answered and answer.confidence.level == "high"
            total, good = total + 1, good + is_good
            high, high_right = high + is_high, high_right + (is_high and is_good)
            shown = "good" if is_good else "BAD "
            print(f"{shown} {answer.confidence.level:6} {row['question']}\n       {answer.content[:300]!r}", flush=True)
    share = high_right / max(1, high)
    return [
        Figure(f"filings_dev: good answers of {total}", str(good), f"≥ {GOOD}", good >= GOOD),
        Figure("`high` is right, filings_dev", f"{share:.2f} of {high}", f"≥ {HIGH}", share >= HIGH),
        Figure("`high` and wrong, filings_dev", str(high - high_right), f"≤ {WRONG}", high - high_right <= WRONG),
    ]


def main() -> None:
    for one in figures():
        print(one, flush=True)


if __name__ == "__main__":
    main()
