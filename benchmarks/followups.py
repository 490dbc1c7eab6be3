"""Follow-ups without a model: how much of what a gold rewrite gains do we gain, and is what stands alone left alone?

python -m benchmarks.followups

MTRAG: recall@5 of the hybrid search for the last turn as typed, for our rewrite, and for the rewrite of its annotators.
Rules and weights were chosen on the conversations of the first half, with the totals of both in view: neither half is a
clean hold-out. CANARD and CAsT 2019 have no documents here, so words alone decide: an upper bound of what is changed
wrongly.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from benchmarks.common import DATA, Figure, read_jsonl, write
from benchmarks.retrieval import library
from refdesk import Refdesk
from refdesk.answer import EVERYTHING, Turn
from refdesk.ask.followup import stand_alone
from refdesk.ask.retrieve import BESIDE_WEIGHT
from refdesk.ask.understand import DocumentNearness
from refdesk.library import EngineHits, fuse
from refdesk.text import terms

SETS = ("cloud", "govt")
BAR = 0.4
DEPTH, CUT = 30, 5


@dataclass(frozen=True, slots=True)
class Case:
    """The last question of a conversation with what was said before, its gold rewrite and the passages wanted."""

    conversation: str
    question: str
    gold: str
    turns: tuple[Turn, ...]
    relevant: frozenset[str] = frozenset()

    @property
    def half(self) -> int:
        return int(hashlib.md5(self.conversation.encode(), usedforsecurity=False).hexdigest(), 16) % 2


def mtrag(name: str) -> Iterator[Case]:
    folder = DATA / "retrieval" / f"mtrag_{name}"
    last, gold = (
        {str(row["_id"]): str(row["text"]).split("|user|:", 1)[-1].strip() for row in read_jsonl(folder / file)}
        for file in (f"{name}_lastturn.jsonl", f"{name}_rewrite.jsonl")
    )
    said = {str(row["task_id"]): row for row in read_jsonl(folder / "generation_tasks.jsonl")}
    relevant: dict[str, set[str]] = {}
    for path in (folder / "qrels").glob("*.tsv"):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            query, passage, grade = line.split("\t")
            if int(grade) > 0:
                relevant.setdefault(query, set()).add(passage)
    for key, question in last.items():
        conversation, number = key.split("<::>")
        turns: list[Turn] = []
        for earlier in range(1, int(number)):
            row = said[f"{conversation}<::>{earlier}"]
            turns += [Turn("user", row["user"]["text"]), Turn("assistant", row["agent"]["text"])]  # type: ignore[index]
        if key in relevant:
            yield Case(conversation, question, gold[key], tuple(turns), frozenset(relevant[key]))


def canard() -> Iterator[Case]:
    for row in json.loads((DATA / "conversation" / "canard_dev.json").read_text(encoding="utf-8")):
        title, *said = [": ".join(row["History"][:2]), *row["History"][2:]]
        turns = [Turn("user", title), Turn("assistant", "")]
        turns += [Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(said)]
        yield Case(f"{row['QuAC_dialog_id']}", row["Question"], row["Rewrite"], tuple(turns))


def cast() -> Iterator[Case]:
    folder = DATA / "conversation" / "trec_cast_2019" / "data" / "evaluation"
    lines = (folder / "evaluation_topics_annotated_resolved_v1.0.tsv").read_text(encoding="utf-8").splitlines()
    gold = dict(line.split("\t") for line in lines)
    for topic in json.loads((folder / "evaluation_topics_v1.0.json").read_text(encoding="utf-8")):
        turns: list[Turn] = []
        for turn in topic["turn"]:
            question = turn["raw_utterance"].strip()
            yield Case(str(topic["number"]), question, gold[f"{topic['number']}_{turn['number']}"], tuple(turns))
            turns.append(Turn("user", question))


def recall(desk: Refdesk, texts: tuple[str, ...], relevant: frozenset[str]) -> float:
    """Of one text, or of two whose hits are fused as the flow does it."""
    lists = [
        desk.parts.reader.search(
            text, desk.parts.embedder.embed_query(text), DEPTH, "hybrid", EVERYTHING, desk.settings
        )
        for text in texts
    ]
    found_lists = [EngineHits("hybrid", hits, weight) for hits, weight in zip(lists, (BESIDE_WEIGHT, 1), strict=False)]
    hits = fuse(found_lists, desk.settings.rrf_k)
    found = list(dict.fromkeys(hit.document.name for hit in hits))[:CUT]
    return len(relevant.intersection(found)) / len(relevant)


@cache
def recalls() -> dict[tuple[str, int], list[tuple[float, float, float]]]:
    """Per set and half: recall@5 of the last turn, of ours, of the gold rewrite."""
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for name in SETS:
        with library(f"mtrag_{name}") as desk:
            for case in mtrag(name):
                nearness = DocumentNearness(desk.parts.reader, desk.parts.embedder, EVERYTHING, desk.settings)
                ours = stand_alone(case.question, case.turns, nearness)
                own_texts = (ours.beside, ours.text) if ours.beside else (ours.text,)
                last, own, gold = (
                    recall(desk, texts, case.relevant) for texts in ((case.question,), own_texts, (case.gold,))
                )
                found.setdefault((name, case.half), []).append((last, own, gold))
    return found


def gap(rows: list[tuple[float, float, float]]) -> tuple[float, float, float, float]:
    """Mean recall of each, and the share of the gap between last turn and gold that ours closes."""
    last, ours, gold = (sum(column) / len(rows) for column in zip(*rows, strict=True))
    return last, ours, gold, (ours - last) / (gold - last) if gold != last else 0.0


def overlap(one: str, other: str) -> float:
    """Token F1."""
    first, second = (Counter(re.findall(r"\w+", text.lower())) for text in (one, other))
    shared = (first & second).total()
    return 2 * shared / (first.total() + second.total()) if shared else 0.0


def names_a_wrong_thing(case: Case, text: str) -> bool:
    """Whether a rewrite puts in a word that the gold rewrite does not have."""
    added = set(terms(text)) - set(terms(case.question))
    return not added <= set(terms(case.gold))


def rewriting(name: str, cases: list[Case]) -> Figure:
    alone = wrong = rewritten = wrong_things = beside = 0
    ours, typed = [], []
    for case in cases:
        found = stand_alone(case.question, case.turns)
        text = found.text
        beside += bool(found.beside)
        if text != case.question:
            rewritten += 1
            wrong_things += names_a_wrong_thing(case, text)
        if overlap(case.question, case.gold) > 0.999:
            alone += 1
            wrong += text != case.question
        else:
            ours.append(overlap(text, case.gold))
            typed.append(overlap(case.question, case.gold))
    shown = (
        f"token F1 of {len(ours)} that lean: ours {sum(ours) / len(ours):.3f}, as typed {sum(typed) / len(typed):.3f}; "
        f"changed wrongly of {alone} that stand alone: {wrong / max(1, alone):.1%}; "
        f"rewritten {rewritten}, of them with a word the gold rewrite has not: {wrong_things / max(1, rewritten):.1%}; "
        f"left as typed and searched with a topic beside: {beside}"
    )
    return Figure(name, shown)


def after_another_topic() -> Figure:
    """Questions of SQuAD that stand alone, each asked after a question about something else."""
    before = (Turn("user", "How heavy is the anchor of the WB-7 buoy?"), Turn("assistant", "It weighs 350 kg. [1]"))
    rows = read_jsonl(DATA / "retrieval" / "squad_dev11" / "queries.jsonl")[::25]
    texts = [" ".join(str(row["text"]).split()) for row in rows]
    alone = [
        text for text in texts if not re.search(r"\b(?:he|she|him|his|her|it|its|they|them|their|this)\b", text, re.I)
    ]
    with library("squad_dev11") as desk:
        nearness = DocumentNearness(desk.parts.reader, desk.parts.embedder, EVERYTHING, desk.settings)
        changed = [text for text in alone if stand_alone(text, before, nearness).text != text]
    share = len(changed) / len(alone)
    return Figure(f"follow-ups, SQuAD after another topic ({len(alone)} questions): changed wrongly", f"{share:.1%}")


def figures() -> list[Figure]:
    found = recalls()
    every = [row for rows in found.values() for row in rows]
    listed = [("mtrag_cloud + mtrag_govt", every)]
    listed += [(f"mtrag_{name}", [row for half in (0, 1) for row in found[name, half]]) for name in SETS]
    halves = ("first half", "second half")
    listed += [(f"both, {halves[half]}", [row for name in SETS for row in found[name, half]]) for half in (0, 1)]
    figures = []
    for place, (name, rows) in enumerate(listed):
        last, ours, gold, closed = gap(rows)
        share = f"gap closed {closed:.0%}" if gold > last else "no gap to close"
        shown = f"last turn {last:.4f} · ours {ours:.4f} · gold rewrite {gold:.4f}; {share}"
        judged = {"bar": "closes ≥ 40 %", "met": closed >= BAR} if place == 0 else {}
        figures.append(Figure(f"follow-ups, recall@5, {name} ({len(rows)} questions)", shown, **judged))  # type: ignore[arg-type]
    for half in (0, 1):
        kept = [case for case in canard() if case.half == half]
        figures.append(rewriting(f"follow-ups, CANARD, {halves[half]}", kept))
    return [*figures, rewriting("follow-ups, CAsT 2019", list(cast())), after_another_topic()]


def main() -> None:
    write("followups", "Follow-ups without a model", figures())


if __name__ == "__main__":
    main()
