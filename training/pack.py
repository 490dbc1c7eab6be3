"""What the reader is trained on: passages, questions, where the answer stands, and claims with evidence, in one form.

Only sets whose licence lets a shipped model learn from them (`SOURCES`; training/README.md names the licences). What is
made here without people: questions from sentences with a name or a number taken out (`cloze`), sentences as questions
to the rest of their passage (`inverse`), and questions about another name or number, which their passage does not
answer (`altered`).
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from refdesk.text import sentences
from training.claims import (
    HELD,
    asked_claims,
    claims,
    learned_claims,
    made_claims,
    texts_written_about,
    things,
    written_claims,
)

ARTICLES = 24  # of squad_dev11, in file order; the others measure
ROWS = 12  # of a table in one passage
WRITTEN = Path(__file__).parent / "written_questions.jsonl"

Row = dict[str, Any]


class Source:
    """Passages with their group (article, document, table) and questions about them.

    `complete`: passages that are not named as relevant do not answer.
    """

    def __init__(self, *, complete: bool = True) -> None:
        self.complete = complete
        self.passages: list[Row] = []
        self.questions: list[Row] = []
        self._known: dict[tuple[str, str], int] = {}

    def passage(self, text: str, title: str = "", group: str = "") -> int:
        key = (title, text)
        if key not in self._known:
            self._known[key] = len(self.passages)
            self.passages.append({"title": " ".join(title.split()), "text": text, "group": group or title})
        return self._known[key]

    def ask(self, text: str, relevant: Sequence[int], spans: Iterable[tuple[int, int, int]] = (), **more: Any) -> None:
        """A question, the passages that bear on it, and the answers as (passage, start, end)."""
        text = " ".join(text.replace("|user|:", "").split())
        if text and relevant:
            self.questions.append({"text": text, "relevant": list(relevant), "spans": [list(s) for s in spans], **more})

    def packed(self) -> Row:
        return {"complete": self.complete, "passages": self.passages, "questions": self.questions}


def lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


# --- questions people asked ------------------------------------------------------------------------------------------


def squad(data: Path) -> Source:
    """Several people marked each answer: every mark counts."""
    source = Source()
    articles = json.loads((data / "retrieval/squad_dev11/dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    for article in articles[:ARTICLES]:
        title = article["title"].replace("_", " ")
        for paragraph in article["paragraphs"]:
            number = source.passage(paragraph["context"], title)
            for row in paragraph["qas"]:
                spans = [
                    (number, one["answer_start"], one["answer_start"] + len(one["text"])) for one in row["answers"]
                ]
                source.ask(row["question"], [number], spans)
    return source


def spans_in_context(path: Path, *, complete: bool = True, document: str = "") -> Source:
    source = Source(complete=complete)
    for row in lines(path):
        number = source.passage(row["context"], group=row.get(document, "") or row["context"][:80])
        start = row["start"] + len(row["answer"]) - len(row["answer"].lstrip())
        source.ask(row["question"], [number], [(number, start, row["start"] + len(row["answer"].rstrip()))])
    return source


def medquad(data: Path) -> Source:
    source = Source(complete=False)
    for row in lines(data / "train/medquad.jsonl"):
        source.ask(row["question"], [source.passage(row["passage"])])
    return source


def retrieval(*folders: Path) -> Source:
    """Questions with the passages that bear on them; where an answer is known, each place where it stands."""
    source = Source()
    for folder in folders:
        numbers = {
            str(row["_id"]): source.passage(
                row["text"].strip(), str(row.get("title") or ""), str(row.get("title") or "")
            )
            for row in lines(folder / "corpus.jsonl")
        }
        relevant: dict[str, list[int]] = {}
        for path in (folder / "qrels").glob("*.tsv"):
            for line in path.read_text(encoding="utf-8").splitlines()[1:]:
                question, passage, grade = line.split("\t")
                if int(grade) > 0 and passage in numbers:
                    relevant.setdefault(question, []).append(numbers[passage])
        files = [folder / "queries.jsonl", *sorted(folder.glob("*_rewrite.jsonl"))]
        for row in lines(next(path for path in files if path.exists())):
            places = relevant.get(str(row["_id"]), [])
            spans = [
                (place, match.start(), match.end())
                for answer in row.get("answers", [])
                if answer.lower() not in ("yes", "no")
                for place in places
                for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", source.passages[place]["text"])
            ]
            source.ask(row["text"], places, spans)
    return source


def written_questions(data: Path) -> tuple[Source, list[Row]]:
    """Questions written for this purpose: what a text answers, and `altered`, what it only looks as if it answered.

    Apart, those about each twelfth text, which measure.
    """
    source, held = Source(), []
    texts = texts_written_about(data)
    for number, row in enumerate(lines(WRITTEN)):
        text, title = row["text"], row["title"]
        if row["source"] != "own":
            start, end = row["range"]
            text = texts[row["source"]][text][start:end]
        if number % HELD == 0:
            held.append({"text": text, "title": title, "asked": row["asked"], "unanswered": row["unanswered"]})
            continue
        place = source.passage(text, title, f"{row['source']} {number}")
        for question, answer in row["asked"]:
            spans = [(place, at.start(), at.end()) for at in re.finditer(re.escape(answer), text)]
            source.ask(question, [place], spans[:3], altered=row["unanswered"])
    return source, held


# --- tables ----------------------------------------------------------------------------------------------------------


def table_text(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(" | ".join(" ".join(cell.split()) for cell in row) for row in rows)


def tatqa(data: Path) -> Source:
    source = Source()
    contexts = json.loads((data / "tables/tatqa_dev.json").read_text(encoding="utf-8"))
    for number, context in enumerate(contexts):
        if number % 2:
            continue
        rows = context["table"]["table"]
        head = rows[: 2 if not rows[0][0].strip() and len(rows) > 2 and not rows[1][0].strip() else 1]
        body = rows[len(head) :]
        pieces = [head + body[at : at + ROWS] for at in range(0, max(1, len(body)), ROWS)]
        tables = [source.passage(table_text(piece), group=str(number)) for piece in pieces]
        texts = {str(one["order"]): source.passage(one["text"], group=str(number)) for one in context["paragraphs"]}
        for row in context["questions"]:
            if row["answer_type"] != "span" or not row["answer"]:
                continue
            answer, spans = " ".join(row["answer"][0].split()), []
            places = (
                [texts[one] for one in row["rel_paragraphs"] if one in texts]
                if row["answer_from"] == "text"
                else tables
            )
            for place in places:
                text = source.passages[place]["text"]
                at = [match.start() for match in re.finditer(rf"(?<![\w.,]){re.escape(answer)}(?![\w]|[.,]\d)", text)]
                spans += [(place, start, start + len(answer)) for start in at] if len(at) == 1 else []
            if len(spans) == 1:
                source.ask(row["question"], [spans[0][0]], spans)
    return source


def wiki_tables(data: Path) -> Source:
    """Small tables, read whole; questions whose answer is one cell."""
    source = Source()
    archive = zipfile.ZipFile(data / "tables/wikitablequestions/tables.zip")
    texts: dict[str, str | None] = {}
    for row in lines(data / "tables/wikitablequestions/questions.jsonl"):
        table = row["table"]
        if int(table.split("-")[1]) % 2 or len(row["answers"]) != 1:
            continue
        if table not in texts:
            rows = list(csv.reader(io.StringIO(archive.read(f"{table}.csv").decode("utf-8")), escapechar="\\"))
            texts[table] = table_text(rows) if len(rows) <= ROWS + 1 else None
        text, answer = texts[table], " ".join(row["answers"][0].split())
        if text:
            at = [one.start() for one in re.finditer(rf"(?:(?<=\| )|(?<=\n)|^){re.escape(answer)}(?= \||\n|$)", text)]
            if len(at) == 1:
                number = source.passage(text, group=table)
                source.ask(row["question"], [number], [(number, at[0], at[0] + len(answer))])
    return source


# --- questions made from texts ---------------------------------------------------------------------------------------

_WORDS = {
    "date": ("when", "in what year", "what year"),
    "number": ("how many", "how much", "what number of"),
    "name": ("who", "what", "which", "what is the name of"),
}


def cloze(passages: Sequence[Row], count: int, dice: random.Random) -> Source:
    """Questions from sentences: a name or number is taken out, a question word and some words around it are left."""
    source = Source()
    order = [row for row in passages if 200 < len(row["text"]) < 4000]
    while len(source.questions) < count:
        row = dice.choice(order)
        start, end = dice.choice(list(sentences(row["text"])))
        sentence = row["text"][start:end]
        found = things(sentence)
        if not found or not 40 < len(sentence) < 350 or "|" in sentence:
            continue
        kind, low, high = dice.choice(found)
        before, after = sentence[:low].split(), sentence[high:].split()
        room = dice.randint(5, 12)
        left = min(len(before), dice.randint(0, room))
        words = [one for one in before[len(before) - left :] + after[: room - left] if dice.random() > 0.12]
        word = dice.choice(_WORDS[kind])
        if kind == "name" and before and before[-1] in ("in", "at", "from", "near") and dice.random() < 0.6:
            word = "where"
        if len(words) < 4:
            continue
        number = source.passage(row["text"], row["title"], row["group"])
        question = f"{word} {' '.join(words).strip(' .,;:')}?"
        source.ask(question, [number], [(number, start + low, start + high)])
    return source


def inverse(passages: Sequence[Row], count: int, dice: random.Random) -> Source:
    """A sentence, or a part of one, is the question; the rest of its passage answers (inverse cloze)."""
    source = Source(complete=False)
    order = [row for row in passages if 300 < len(row["text"]) < 4000]
    while len(source.questions) < count:
        row = dice.choice(order)
        ranges = list(sentences(row["text"]))
        start, end = dice.choice(ranges)
        words = row["text"][start:end].split()
        if len(ranges) < 3 or len(words) < 6:
            continue
        first = dice.randint(0, len(words) - 6)
        rest = f"{row['text'][:start].rstrip()} {row['text'][end:].lstrip()}".strip()
        number = source.passage(rest, row["title"], row["group"])
        source.ask(" ".join(words[first : first + dice.randint(5, 14)]), [number])
    return source


def alter(source: Source, dice: random.Random) -> None:
    """Gives questions a twin about another name or number of the same article, which their passage does not answer."""
    pools: dict[tuple[str, str], set[str]] = {}
    for row in source.passages:
        for kind, start, end in things(row["text"]):
            pools.setdefault((row["group"], kind), set()).add(row["text"][start:end])
    for row in source.questions:
        group = source.passages[row["relevant"][0]]["group"]
        found = things(row["text"])
        if not found:
            continue
        kind, start, end = dice.choice(found)
        held = source.passages[row["relevant"][0]]["text"]
        others = sorted(one for one in pools.get((group, kind), ()) if one not in row["text"])
        near = [one for one in others if one in held]
        if others:
            other = dice.choice(near if near and dice.random() < 0.5 else others)
            row["altered"] = [row["text"][:start] + other + row["text"][end:]]


def pack(data: Path, seed: int = 7) -> Row:
    """All that is learned from, and the claims that measure."""
    dice = random.Random(seed)
    retrieved = data / "retrieval"
    sources = {
        "squad": squad(data),
        "qamr": spans_in_context(data / "train/qamr.jsonl"),
        "policyqa": spans_in_context(data / "train/policyqa.jsonl", complete=False, document="document"),
        "covidqa": spans_in_context(data / "train/covidqa.jsonl"),
        "medquad": medquad(data),
        "hotpot": retrieval(retrieved / "hotpot500", retrieved / "hotpot_train100"),
        "musique": retrieval(retrieved / "musique_train100"),
        "mtrag_cloud": retrieval(retrieved / "mtrag_cloud"),
        "mtrag_govt": retrieval(retrieved / "mtrag_govt"),
        "tatqa": tatqa(data),
        "wiki_tables": wiki_tables(data),
    }
    alter(sources["squad"], dice)
    alter(sources["qamr"], dice)
    read = [row for name in ("squad", "hotpot", "musique", "mtrag_govt") for row in sources[name].passages]
    dry = dice.sample(sources["medquad"].passages, 1500) + dice.sample(sources["mtrag_cloud"].passages, 1500)
    sources["written"], held = written_questions(data)
    sources["cloze"] = cloze(read + dry, 40_000, dice)
    sources["inverse"] = inverse(read + dry, 8_000, dice)
    packed = {name: source.packed() for name, source in sources.items()}
    written, held_claims = written_claims(data, random.Random(seed))
    return {
        "sources": packed,
        "held_questions": held,
        "claims": claims() | {"written": held_claims},
        "learned_claims": {
            **learned_claims(dice),
            "written": written,
            "made": made_claims(read, 12_000, dice),
            "asked_squad": asked_claims(packed["squad"], 12_000, dice),
            "asked_qamr": asked_claims(packed["qamr"], 20_000, dice),
        },
    }
