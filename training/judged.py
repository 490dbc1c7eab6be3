"""What is judged in the same pass beside reading: whether evidence supports a claim, and which plan answers.

A claim stands where the question does, its evidence where the passage does. A plan over a table stands in words where
the passage does ("change in sales from 2018 to 2019: 412"); the plans of one question are a group, and `none`, whose
logit is nought, is one more choice.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from training.examples import GROUP, LENGTH, QUESTION, TITLE, Ids, Pair, as_ids, encode, tensors
from training.model import JUDGEMENTS, PLANNED, Reader
from training.reading import read

CHOSEN = 10  # plans that the reader chooses from
NO_TITLE: Ids = np.zeros(0, dtype=np.uint16)

Row = dict[str, Any]


@dataclass
class Claims:
    name: str
    pairs: list[Pair]

    def group(self, dice: random.Random) -> list[Pair]:
        return dice.choices(self.pairs, k=GROUP)


@dataclass
class PlanGroup:
    forms: list[Ids]  # as asked, without the mark
    plans: list[tuple[Ids, bool]]  # best first by the log-linear ranking


@dataclass
class Plans:
    name: str
    groups: list[PlanGroup]

    def group(self, dice: random.Random) -> list[Pair]:
        """A right plan, where there is one, and others from the front of the ranking."""
        row = dice.choice(self.groups)
        asked = dice.choices(row.forms, (0.8, 0.2))[0]
        right = [one for one in row.plans if one[1]]
        places = sorted(range(len(row.plans)), key=lambda one: one * dice.random() ** 0.5)
        chosen = [row.plans[one] for one in places[:GROUP]]
        if right and not any(is_right for _, is_right in chosen):
            chosen[dice.randrange(GROUP)] = dice.choice(right)
        return [plan_pair(asked, ids, is_right) for ids, is_right in chosen]


def plan_pair(asked: Ids, ids: Ids, is_right: bool) -> Pair:
    return Pair(asked, NO_TITLE, ids[: LENGTH - 3 - len(asked)], -1, mark=float(is_right))


def prepare_claims(name: str, rows: Sequence[Row], tokenizer: Tokenizer) -> Claims:
    said, texts, titles = (encode(tokenizer, [row[part] for row in rows]) for part in ("claim", "evidence", "title"))
    found = []
    for claim, text, title, row in zip(said, texts, titles, rows, strict=True):
        ids, head = as_ids(claim, 2 * QUESTION), as_ids(title, TITLE)
        window = as_ids(text, LENGTH - 3 - len(ids) - len(head))
        found.append(Pair(ids, head, window, -1, mark=float(row["label"])))
    return Claims(name, found)


def prepare_plans(name: str, rows: Sequence[Row], tokenizer: Tokenizer) -> Plans:
    """Questions with fewer plans than a group has are left out."""
    rows = [row for row in rows if len(row["plans"]) >= GROUP]
    asked = [encode(tokenizer, [change(row["question"]) for row in rows]) for change in (str, _without_mark)]
    texts = encode(tokenizer, [plan[0] for row in rows for plan in row["plans"]])
    groups, at = [], 0
    for number, row in enumerate(rows):
        own = texts[at : at + len(row["plans"])]
        at += len(own)
        plans = [(as_ids(ids), bool(plan[1])) for ids, plan in zip(own, row["plans"], strict=True)]
        groups.append(PlanGroup([as_ids(form[number], QUESTION) for form in asked], plans))
    return Plans(name, groups)


def _without_mark(text: str) -> str:
    return text.rstrip("? ")


@torch.no_grad()
def judgements(model: Reader, pairs: Sequence[Pair], device: str) -> np.ndarray:
    """All judgements of many pairs."""
    found = torch.zeros(len(pairs), len(JUDGEMENTS))
    order = sorted(range(len(pairs)), key=lambda one: len(pairs[one].question) + len(pairs[one].window))
    for at in range(0, len(order), 512):
        some = order[at : at + 512]
        part = {name: value.to(device) for name, value in tensors([pairs[one] for one in some]).items()}
        found[some] = read(model, part, device).judged.cpu()
    return found.numpy()


def planned(model: Reader, rows: Sequence[Row], tokenizer: Tokenizer, device: str) -> list[list[float]]:
    """The logits of the first ten plans of each question."""
    asked = encode(tokenizer, [row["question"] for row in rows])
    pairs, counts = [], []
    for question, row in zip(asked, rows, strict=True):
        plans = row["plans"][:CHOSEN]
        counts.append(len(plans))
        ids = as_ids(question, QUESTION)
        pairs += [plan_pair(ids, as_ids(one), False) for one in encode(tokenizer, [plan[0] for plan in plans])]
    said = judgements(model, pairs, device)[:, PLANNED].astype(float).round(3).tolist()
    found, at = [], 0
    for count in counts:
        found.append(said[at : at + count])
        at += count
    return found


def plan_figures(rows: Sequence[Row], said: Sequence[Sequence[float]], share: float = 1.0) -> dict[str, float]:
    """Right at the first place by kind of question: the log-linear ranking, the reader, and both added."""
    table: dict[str, float] = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [(row, logit) for row, logit in zip(rows, said, strict=True) if row["kind"] == kind]
        before, alone, together, among = [], [], [], []
        for row, logit in own:
            plans = row["plans"][:CHOSEN]
            right = [plan[1] for plan in plans] or [False]
            chance = np.log(np.array([plan[3] for plan in plans] or [1.0]) + 1e-5)
            scores = np.array(logit or [0.0])
            before.append(right[0])
            alone.append(right[int(scores.argmax())])
            together.append(right[int((scores + share * chance).argmax())])
            among.append(any(right))
        name = f"plans {kind} ({len(own)})"
        for what, values in (("ranking", before), ("reader", alone), ("both", together), ("among ten", among)):
            table[f"{name} {what}"] = float(np.mean(values))
    return table
