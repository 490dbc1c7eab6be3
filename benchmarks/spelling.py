"""Misspelled questions: how many words are put right, how many are made worse, and what does it cost?

python -m benchmarks.spelling

DL-2019 has ten variants of each query with a typo; Norvig's first set has single words. One library holds the queries
as they should be, so that a typo has its word in the documents; another one does not (SQuAD's passages), and English
words help there. Words of a trade are never to be harmed.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.common import DATA, Figure, write
from benchmarks.retrieval import library
from refdesk import Refdesk
from refdesk.answer import EVERYTHING
from refdesk.ask.understand import spelled

# Held by the library, near to English words, and never to be touched.
TRADE = (
    "How do I store a numpy array in pgvector?",
    "What was Amcor's margin in Q3?",
    "Is the TG-4 heavier than the WB-7?",
    "Does kubectl rollout restart the deployment?",
    "What is the Brier score of the nowcast?",
    "Who founded Acme Stahl in Graz?",
    "How is the fibrin clot lysed by tPA?",
    "Which laytime applies under the charterparty?",
)


def dl2019() -> Iterator[tuple[str, str]]:
    """(as it should be, with typos)."""
    folder = DATA / "spelling" / "dl2019"
    clean = dict(line.split("\t") for line in (folder / "queries.dl2019.tsv").read_text("utf-8").splitlines())
    for path in sorted(folder.glob("*.typo*.tsv")):
        for line in path.read_text("utf-8").splitlines():
            key, text = line.split("\t")
            yield clean[key], text


def norvig() -> Iterator[tuple[str, str]]:
    text = (DATA / "spelling" / "spell-testset1.txt").read_text("utf-8")
    for right, wrong in re.findall(r"'([\w ]+)'\s*:\s*'([\w ]+)'", text):
        for one in wrong.split():
            if right.isalpha():
                yield right, one


def score(desk: Refdesk, pairs: list[tuple[str, str]]) -> tuple[int, int, int, int]:
    """Words misspelled, of them put right, of them made another wrong word, and right words changed."""
    wrong = right = other = harmed = 0
    for clean, typed in pairs:
        found = spelled(typed, desk.reader, EVERYTHING).text
        words = (clean.lower().split(), typed.lower().split(), found.lower().split())
        if len({len(one) for one in words}) > 1:
            continue  # a typo that split or joined words
        for meant, written, searched in zip(*words, strict=True):
            wrong += written != meant
            right += written != meant == searched
            other += written != meant and searched not in (meant, written)
            harmed += written == meant != searched
    return wrong, right, other, harmed


def shown(desk: Refdesk, name: str, pairs: list[tuple[str, str]]) -> Figure:
    wrong, right, other, harmed = score(desk, pairs)
    text = f"put right {right / wrong:.1%} of {wrong}, made other wrong words {other / wrong:.1%}"
    text += f"; right words changed {harmed}"
    return Figure(f"spelling, {name}", text)


def milliseconds(desk: Refdesk, texts: list[str]) -> tuple[float, float]:
    """p50 and p95 of a question."""
    times = []
    for text in texts:
        begin = time.perf_counter()
        spelled(text, desk.reader, EVERYTHING)
        times.append((time.perf_counter() - begin) * 1000)
    times.sort()
    return times[len(times) // 2], times[int(len(times) * 0.95)]


@cache
def figures() -> list[Figure]:
    queries, single = list(dl2019()), list(norvig())
    clean = sorted({one for one, _ in queries})
    found = []
    with tempfile.TemporaryDirectory() as folder, Refdesk(Path(folder) / "library") as desk:
        held = [*clean, *TRADE, *sorted({right for right, _ in single})]
        desk.add_texts({"name": f"note-{place}", "text": text} for place, text in enumerate(held))
        found.append(shown(desk, "DL-2019, words in the documents", queries))
        found.append(shown(desk, "Norvig's set, words in the documents", single))
        harmed = [text for text in (*clean, *TRADE) if spelled(text, desk.reader, EVERYTHING).changes]
        what = f"spelling, right questions changed, words in the documents ({len(clean) + len(TRADE)})"
        found.append(Figure(what, str(len(harmed)), "0", not harmed))
    with library("squad_dev11") as desk:
        found.append(shown(desk, "DL-2019, other documents", queries))
        found.append(shown(desk, "Norvig's set, other documents", single))
        harmed = [text for text in TRADE if spelled(text, desk.reader, EVERYTHING).changes]
        found.append(Figure("spelling, words of a trade changed, other documents (8 questions)", str(len(harmed))))
        fine, typos = milliseconds(desk, clean * 3), milliseconds(desk, [text for _, text in queries[:100]])
        text = f"no typo {fine[0]:.1f} (p95 {fine[1]:.1f}), with typos {typos[0]:.1f} (p95 {typos[1]:.1f})"
        found.append(Figure("spelling, ms a question, 2,067 passages", text))
    return found


def main() -> None:
    write("spelling", "Spelling", figures())


if __name__ == "__main__":
    main()
