"""Are questions about tables answered? TAT-QA and WikiTableQuestions, each table a document, asked of that document.

python -m benchmarks.table_questions [--wiki 400] [--engine]

As the program ships, without a model. Only TAT-QA's contexts with an odd index and tables with an odd number, which
nothing was learned from. `--engine` asks the plans alone, past search and prose, which tells where an answer is lost.
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import json
import random
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import CACHE, DATA, Figure, write
from refdesk import Refdesk
from refdesk.ask.plans import TableViews
from refdesk.ask.table_question import describe, weights
from refdesk.ask.table_view import AskedWords
from refdesk.tables import cell_number, named_scale, read_grid

SEED = 3
BARS = {"TAT-QA, table lookups": 0.70, "TAT-QA, arithmetic and counts": 0.50, "WikiTableQuestions": 0.30}
ALL = 0.55  # F1 of all questions to TAT-QA
SCALES = {"": 1.0, "percent": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_WORD = re.compile(r"[a-z0-9.]+")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")

Rows = Sequence[Sequence[str]]


class Asked(NamedTuple):
    kind: str
    document: str
    question: str
    answers: tuple[str, ...]
    scale: str
    is_number: bool
    rows: Rows
    caption: str
    head: int | None


def tatqa(most: int) -> Iterator[Asked]:
    contexts = json.loads((DATA / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))
    for number, context in enumerate(contexts[: 2 * most]):
        if number % 2 == 0:
            continue
        caption = context["paragraphs"][0]["text"] if context["paragraphs"] else ""
        for row in context["questions"]:
            if row["answer_from"] == "text":
                kind = "TAT-QA, text"
            elif row["answer_type"] in ("arithmetic", "count"):
                kind = "TAT-QA, arithmetic and counts"
            else:
                kind = "TAT-QA, table lookups"
            answer = row["answer"]
            answers = tuple(map(str, answer if isinstance(answer, list) else [answer]))
            computed = row["answer_type"] in ("arithmetic", "count")
            rows = context["table"]["table"]
            yield Asked(
                kind, f"tatqa-{number}.html", row["question"], answers, row["scale"], computed, rows, caption, None
            )


def wiki_tables(most: int) -> Iterator[Asked]:
    folder = DATA / "tables" / "wikitablequestions"
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if int(row["table"].split("-")[1]) % 2]
    random.Random(SEED).shuffle(rows)
    with zipfile.ZipFile(folder / "tables.zip") as archive:
        for row in rows[:most]:
            text = io.TextIOWrapper(archive.open(f"{row['table']}.csv"), encoding="utf-8", newline="")
            cells = list(csv.reader(text, escapechar="\\"))
            name = f"wiki-{row['table']}.csv"
            yield Asked("WikiTableQuestions", name, row["question"], tuple(row["answers"]), "", False, cells, "", 1)


# --- grading ----------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    plain = _ARTICLE.sub(" ", text.lower().replace(",", "").replace("$", " ").replace("%", " "))
    return [word.strip(".") for word in _WORD.findall(plain) if word.strip(".")]


def f1(found: str, wanted: str) -> float:
    a, b = Counter(words(found)), Counter(words(wanted))
    same = (a & b).total()
    return 2 * same / (a.total() + b.total()) if same else 0.0


def number_of(text: str) -> float | None:
    """ "$1,496.5 million" -> 1,496,500,000; "12.6 %" -> 12.6."""
    number = cell_number(text)
    return None if number is None else number * SCALES[named_scale(text)]


def grade(asked: Asked, short: str) -> float:
    """F1 of words; of a computed number, whether it is the number (with its scale, or as it stands)."""
    if not short:
        return 0.0
    if asked.kind == "WikiTableQuestions":
        return float(_same_set(asked.answers, short))
    if asked.is_number:
        found, wanted = number_of(short), float(asked.answers[0])
        scaled = (wanted, wanted * SCALES.get(asked.scale, 1.0))
        return float(found is not None and any(abs(found - one) <= max(0.0051, abs(one) * 5e-5) for one in scaled))
    return max(f1(short, " ".join(asked.answers)), f1(short, f"{' '.join(asked.answers)} {asked.scale}"))


def _same_set(answers: Sequence[str], short: str) -> bool:
    if [words(one) for one in answers] == [words(short)]:
        return True
    if len(answers) == 1:
        numbers = cell_number(answers[0]), cell_number(short)
        plain = re.fullmatch(r"[\d,.\s$%-]+", answers[0]) and re.fullmatch(r"[\d,.\s$%-]+", short)
        return bool(plain) and None not in numbers and numbers[0] == numbers[1]
    return sorted(tuple(words(one)) for one in answers) == sorted(tuple(words(one)) for one in short.split("; "))


# --- asking -----------------------------------------------------------------------------------------------------------


def by_plans(asked: Asked) -> tuple[str, float]:
    table, question = TableViews(read_grid(asked.rows, asked.caption, asked.head)), AskedWords(asked.question)
    plans = table.plans(question)
    scores = weights().scores(describe(question, table, plans))
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    if not plans:
        return "", 0.0
    best = int(scores[:-1].argmax())
    plan = plans[best]
    sure = float(chances[best])
    if plan.texts:
        return "; ".join(plan.texts), sure
    return (f"{plan.number:.4f}" if plan.number is not None else ""), sure


def by_desk(questions: Sequence[Asked]) -> Iterator[tuple[Asked, str, float]]:
    with Refdesk(CACHE / "table-questions") as desk:
        known = {document.name for document in desk.documents(status="ready")}
        contexts = json.loads((DATA / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))
        texts = []
        for asked in {one.document: one for one in questions}.values():
            if asked.document in known:
                continue
            if asked.document.startswith("tatqa"):
                context = contexts[int(re.findall(r"\d+", asked.document)[0])]
                texts.append({"name": asked.document, "text": page(context), "format": "html"})
            else:
                shown = "<table>" + "".join(_row(row, "th" if not at else "td") for at, row in enumerate(asked.rows))
                texts.append({"name": asked.document, "text": shown + "</table>", "format": "html"})
        desk.add_texts(texts)
        for asked in questions:
            answer = desk.ask_sync(asked.question, document=asked.document, cache=False)
            short = getattr(answer, "short", "") or (answer.content if answer.is_answered else "")
            yield asked, short, answer.confidence.score


def page(context: dict[str, Any]) -> str:
    rows = context["table"]["table"]
    texts = [f"<p>{html.escape(paragraph['text'])}</p>" for paragraph in context["paragraphs"]]
    table = f"<table>{''.join(_row(row, 'td') for row in rows)}</table>"
    return f"<html><body>{''.join(texts[:1])}{table}{''.join(texts[1:])}</body></html>"


def _row(row: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"


def measured(
    questions: Sequence[Asked], answer: Callable[[Sequence[Asked]], Iterator[tuple[Asked, str, float]]], show: bool
) -> list[Figure]:
    grades: dict[str, list[float]] = defaultdict(list)
    sure: dict[str, list[float]] = defaultdict(list)
    for asked, short, chance in answer(questions):
        grades[asked.kind].append(grade(asked, short))
        if chance > 0.7:
            sure[asked.kind].append(grades[asked.kind][-1])
        if show:
            known = f"{asked.answers} {asked.scale}"
            print(f"{grades[asked.kind][-1]:.2f} {chance:.2f} {asked.question} -> {short!r}, wanted {known}")
    found = []
    for kind, own in grades.items():
        bar = BARS.get(kind)
        share = sum(own) / len(own)
        high = f"; of {len(sure[kind])} sure ones {sum(sure[kind]) / max(1, len(sure[kind])):.3f}"
        found.append(
            Figure(
                f"{kind} ({len(own)})",
                f"{share:.3f}{high}",
                f"≥ {bar:.2f}" if bar else "",
                share >= bar if bar else None,
            )
        )
    every = [one for kind, own in grades.items() if kind.startswith("TAT-QA") for one in own]
    if every:
        share = sum(every) / len(every)
        found.append(Figure(f"TAT-QA, all questions ({len(every)})", f"{share:.3f}", f"≥ {ALL}", share >= ALL))
    return found


def figures() -> list[Figure]:
    return measured([*tatqa(1000), *wiki_tables(400)], by_desk, show=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wiki", type=int, default=400, help="questions of WikiTableQuestions")
    parser.add_argument("--tatqa", type=int, default=1000, help="contexts of TAT-QA, at most")
    parser.add_argument("--engine", action="store_true", help="the plans alone")
    parser.add_argument("--show", action="store_true", help="every question")
    given = parser.parse_args()
    questions = [*tatqa(given.tatqa), *wiki_tables(given.wiki)]
    plans = lambda rows: ((row, *by_plans(row)) for row in rows)  # noqa: E731
    found = measured(questions, plans if given.engine else by_desk, given.show)
    if given.engine:
        print(*found, sep="\n")
    else:
        write("table-questions", "Questions about tables", found)


if __name__ == "__main__":
    main()
