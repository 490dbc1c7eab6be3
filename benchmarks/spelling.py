"""Misspelled questions: how many words are put right, how many are made worse, and what does it cost?

python -m benchmarks.spelling

DL-2019 has ten variants of each query with a typo; Norvig's first set has single words. One library holds the queries
as they should be, so that a typo has its word in the documents; another one does not (SQuAD's passages), and English
words help there. Words of a trade are never to be harmed.

Right questions: those of ten sets over their own texts and over another library. A changed word is wrong when it stands
in any text of the sets, for then it is a word; the others may be typos of who asked, and are counted apart.
"""

from __future__ import annotations

import csv
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.common import DATA, Figure, read_jsonl, write
from benchmarks.retrieval import library
from benchmarks.words_only import WordsOnly
from refdesk import Refdesk
from refdesk.answer import EVERYTHING
from refdesk.ask.understand import spelled

CORPORA = ("squad_dev11", "squadshift_reddit", "scifact", "cranfield", "mtrag_govt", "hotpot500")
WITHOUT_TEXTS = ("canard", "kgrag_10q", "financebench", "mtrag_cloud")  # their texts are PDFs, many, or not there
MOST_QUESTIONS = 400  # of each set
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
        found = spelled(typed, desk.parts.reader, EVERYTHING).text
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
        spelled(text, desk.parts.reader, EVERYTHING)
        times.append((time.perf_counter() - begin) * 1000)
    times.sort()
    return times[len(times) // 2], times[int(len(times) * 0.95)]


def asked(name: str) -> list[str]:
    """Questions of a set, evenly spread."""
    folder = DATA / "retrieval" / name
    if name == "canard":
        found = [row["Question"] for row in json.loads((DATA / "conversation" / "canard_dev.json").read_text("utf-8"))]
    elif name == "kgrag_10q":
        with next((DATA / "pdf_qa" / name).rglob("*.csv")).open(encoding="utf-8-sig") as file:
            found = [next(row[key] for key in row if key.strip() == "Question") for row in csv.DictReader(file)]
    elif name == "financebench":
        found = [str(row["question"]) for row in read_jsonl(next((DATA / "pdf_qa" / name).rglob("*.jsonl")))]
    else:
        path = next(one for one in (folder / "queries.jsonl", *folder.glob("*_lastturn.jsonl")) if one.exists())
        found = [str(row["text"]).split("|user|:")[-1] for row in read_jsonl(path)]
    step = max(1, len(found) // MOST_QUESTIONS)
    return [" ".join(text.split()) for text in found[::step][:MOST_QUESTIONS]]


@cache
def texts(name: str) -> WordsOnly:
    rows = read_jsonl(DATA / "retrieval" / name / "corpus.jsonl")
    titles = {str(row.get("title") or "") for row in rows}
    return WordsOnly((f"{row.get('title') or ''}\n{row['text']}" for row in rows), titles)


def right_questions() -> list[Figure]:
    """Changes in questions as people asked them, over their own texts and over those of another set."""
    held = Counter[str]()
    for name in CORPORA:
        held.update(texts(name).words)
    pairs = [(name, name) for name in CORPORA]
    pairs += [(name, "mtrag_govt" if name == "squad_dev11" else "squad_dev11") for name in (*CORPORA, *WITHOUT_TEXTS)]
    totals = {True: [0, 0, 0], False: [0, 0, 0]}
    found = []
    for name, library_name in pairs:
        questions = asked(name)
        changes = [
            change
            for text in questions
            for change in spelled(text, texts(library_name), EVERYTHING).changes  # type: ignore[arg-type]
        ]
        wrong = [change for change in changes if held[change[0].lower()] > 1]
        total = totals[name == library_name]
        total[0], total[1], total[2] = total[0] + len(questions), total[1] + len(wrong), total[2] + len(changes)
        shown = ", ".join(f"{typed}→{meant}" for typed, meant in dict.fromkeys(wrong))
        text = f"{len(wrong)} wrong, {len(changes) - len(wrong)} others{f'; {shown}' if shown else ''}"
        found.append(Figure(f"spelling, {len(questions)} questions of {name} over {library_name}", text))
    for is_own, (count, wrong_count, changed) in totals.items():
        what = f"spelling, right words changed, {'own' if is_own else 'another'} library ({count} questions)"
        share = wrong_count / count
        found.append(Figure(what, f"{share:.2%} wrong, {changed / count:.2%} changed", "≤ 2 %", share <= 0.02))
    return found


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
        harmed = [text for text in (*clean, *TRADE) if spelled(text, desk.parts.reader, EVERYTHING).changes]
        what = f"spelling, right questions changed, words in the documents ({len(clean) + len(TRADE)})"
        found.append(Figure(what, str(len(harmed)), "0", not harmed))
    with library("squad_dev11") as desk:
        found.append(shown(desk, "DL-2019, other documents", queries))
        found.append(shown(desk, "Norvig's set, other documents", single))
        harmed = [text for text in TRADE if spelled(text, desk.parts.reader, EVERYTHING).changes]
        found.append(Figure("spelling, words of a trade changed, other documents (8 questions)", str(len(harmed))))
        fine, typos = milliseconds(desk, clean * 3), milliseconds(desk, [text for _, text in queries[:100]])
        text = f"no typo {fine[0]:.1f} (p95 {fine[1]:.1f}), with typos {typos[0]:.1f} (p95 {typos[1]:.1f})"
        found.append(Figure("spelling, ms a question, 2,067 passages", text))
    return [*found, *right_questions()]


def main() -> None:
    write("spelling", "Spelling", figures())


if __name__ == "__main__":
    main()
