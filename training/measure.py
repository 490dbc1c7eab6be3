"""What the reader reaches on the questions of `training.found`, none of which it learned from.

`readings` runs the network once over every pair; `figures` is plain arithmetic over what it said, so that thresholds
and blends can be tried without an accelerator.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from training.examples import LENGTH, QUESTION, TITLE, Pair, as_ids, encode, tensors
from training.model import Reader
from training.reading import HIDDEN, read

SPANS = 30  # tokens of the longest answer
READ = 10  # passages a question whose answers are kept
UNSEEN = ("squad_dev11", "squadshift_reddit", "squad2_disfl", "scifact", "cranfield")
FUSED = 20.0  # weight of the fused score against the logit of relevance; plateau 10-30, chosen on the unseen sets

Row = dict[str, Any]


# --- running the network ---------------------------------------------------------------------------------------------


@torch.no_grad()
def readings(model: Reader, found: Row, tokenizer: Tokenizer, device: str) -> Row:
    """For each set and question: {passage: [relevant, answered, span, log share, start, end, sentences]}."""
    every: Row = {}
    for name, kept in found.items():
        names = list(kept["passages"])
        rows = [kept["passages"][one] for one in names]
        texts = dict(zip(names, encode(tokenizer, [row["text"] for row in rows]), strict=True))
        titles = dict(zip(names, encode(tokenizer, [row["title"] for row in rows]), strict=True))
        asked = encode(tokenizer, [row["text"] for row in kept["questions"]])
        wanted = []
        for number, row in enumerate(kept["questions"]):
            hits = [one[0] for one in row["hits"]]
            close = dict.fromkeys([*hits[:READ], *row["relevant"], *(one[0] for one in row["outside"])])
            wanted += [(number, one, one in close) for one in dict.fromkeys([*hits, *close])]
        pairs = []
        for number, one, _ in wanted:
            question, title = as_ids(asked[number], QUESTION), as_ids(titles[one], TITLE)
            room = LENGTH - 3 - len(question) - len(title)
            pairs.append(Pair(question, title, as_ids(texts[one], room), -1))
        said: list[Any] = [None] * len(pairs)
        order = sorted(range(len(pairs)), key=lambda one: len(pairs[one].question) + len(pairs[one].window))
        for at in range(0, len(order), 512):
            some = order[at : at + 512]
            part = {key: value.to(device) for key, value in tensors([pairs[one] for one in some]).items()}
            out = read(model, part, device)
            share = torch.log_softmax(out.start, 1).amax(1) + torch.log_softmax(out.end, 1).amax(1)
            best, last = best_ends(out.start, out.end)
            judged, share, best, last = (one.cpu().numpy() for one in (out.judged, share, best, last))
            for place, one in enumerate(some):
                number, passage, is_close = wanted[one]
                row = [round(float(judged[place, 0]), 3), round(float(judged[place, 1]), 3)]
                if is_close:
                    begin = len(pairs[one].question) + 2 + len(pairs[one].title)
                    size = len(pairs[one].window)
                    offsets = texts[passage].offsets[:size]
                    scores = best[place, begin : begin + size]
                    row += spans_of(scores, last[place, begin : begin + size] - begin, offsets, float(share[place]),
                                    kept["passages"][passage]["sentences"])  # fmt: skip
                said[one] = row
        answers: list[Row] = [{} for _ in kept["questions"]]
        for (number, passage, _), row in zip(wanted, said, strict=True):
            answers[number][passage] = row
        every[name] = answers
    return every


def best_ends(start: torch.Tensor, end: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For each token the score of the best answer that begins with it, and its last token."""
    padded = torch.nn.functional.pad(end, (0, SPANS - 1), value=2 * HIDDEN).unfold(1, SPANS, 1)
    best, away = padded.max(-1)
    return start + best, away + torch.arange(start.shape[1], device=start.device)


def spans_of(
    scores: np.ndarray, last: np.ndarray, offsets: Sequence[tuple[int, int]], share: float, ranges: Sequence[Any]
) -> list[Any]:
    """[score, log share, start, end] of the best answer, and the best score in each sentence."""
    if not len(scores):
        return [HIDDEN, HIDDEN, 0, 0, []]
    first = int(scores.argmax())
    starts = np.array([one[0] for one in offsets])
    edges = np.searchsorted(starts, [low for low, _ in ranges] + [ranges[-1][1] if ranges else 0]).tolist()
    inside = [round(float(scores[a:b].max()), 2) if a < b else HIDDEN for a, b in pairwise(edges)]
    end = offsets[min(int(last[first]), len(offsets) - 1)][1]
    return [round(float(scores[first]), 3), round(share, 3), offsets[first][0], end, inside]


@torch.no_grad()
def held_figures(model: Reader, held: Sequence[Row], tokenizer: Tokenizer, device: str) -> dict[str, float]:
    """Written questions that were held back: the answer in its passage, and which of them the passage answers."""
    asked = [(row, question, answer) for row in held for question, answer in row["asked"]]
    asked += [(row, question, "") for row in held for question in row["unanswered"]]
    overlap, there, lacking = [], [], []
    for row, question, answer in asked:
        first, second, body = encode(tokenizer, [question, row["title"], row["text"]])
        asks, title = as_ids(first, QUESTION), as_ids(second, TITLE)
        ids = as_ids(body, LENGTH - 3 - len(asks) - len(title))
        part = {key: value.to(device) for key, value in tensors([Pair(asks, title, ids, -1)]).items()}
        out = read(model, part, device)
        (there if answer else lacking).append(float(out.judged[0, 1]))
        if answer:
            best, last = best_ends(out.start, out.end)
            begin = len(asks) + 2 + len(title)
            low = int(best[0, begin : begin + len(ids)].argmax())
            high = min(int(last[0, begin + low]) - begin, len(ids) - 1)
            overlap.append(f1(row["text"][body.offsets[low][0] : body.offsets[high][1]], [answer]))
    return {"written, own passage F1": float(np.mean(overlap)), "written, answered AUC": auc(there, lacking)}


# --- figures ---------------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """As SQuAD compares answers."""
    text = "".join(one for one in text.lower() if one not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(given: str, answers: Sequence[str]) -> float:
    best = 0.0
    for answer in answers:
        own, other = plain(given).split(), plain(answer).split()
        same = sum((Counter(own) & Counter(other)).values())
        if same:
            best = max(best, 2 * same / (len(own) + len(other)))
    return best


def holds(sentence: str, answers: Sequence[str]) -> bool:
    def words(text: str) -> str:
        return " ".join("".join(one if one.isalnum() else " " for one in text.lower()).split())

    text = f" {words(sentence)} "
    return any(f" {words(one)} " in text for one in answers if words(one))


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """How often a positive one stands above a negative one; equal ones count half."""
    ordered = np.sort(np.asarray(negative))
    below = np.searchsorted(ordered, positive, side="left") + np.searchsorted(ordered, positive, side="right")
    return float(below.mean() / 2 / len(ordered))


def ndcg(ranked: Sequence[str], relevant: Sequence[str]) -> float:
    gain = sum(1 / math.log2(place + 2) for place, name in enumerate(ranked[:10]) if name in relevant)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(10, len(relevant))))


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, value))))


def blended(hits: Sequence[Any], said: Row) -> list[tuple[float, str]]:
    """Passages best first: the fused score over its best, and the reader's logit of relevance."""
    top = max((one[1] for one in hits), default=1.0) or 1.0
    return sorted(((FUSED * one[1] / top + said[one[0]][0], one[0]) for one in hits), reverse=True)


def chosen(hits: Sequence[Any], said: Row, gone: Sequence[str] = (), depth: int = 8) -> list[tuple[float, str]]:
    """Passages by how well their best answer does: the span, whether it is there, relevance and the search."""
    left = [one for one in hits if one[0] not in gone][:depth]
    top = max((one[1] for one in left), default=1.0) or 1.0
    scored = [(0.5 * said[name][2] + 0.5 * said[name][1] + said[name][0] + 16 * score / top, name)
              for name, score, *_ in left]  # fmt: skip
    return sorted(scored, reverse=True)


def figures(found: Row, said: Row) -> dict[str, float]:
    """Every figure by its name."""
    table: dict[str, float] = {}
    for name, kept in found.items():
        asked, read_ = kept["questions"], said[name]
        hybrid = [ndcg([one[0] for one in row["hits"]], row["relevant"]) for row in asked]
        after = [
            ndcg([one for _, one in blended(row["hits"], own)], row["relevant"])
            for row, own in zip(asked, read_, strict=True)
        ]
        keep = [place for place, row in enumerate(asked) if not row["is_impossible"]]
        table[f"{name} nDCG@10 hybrid"] = float(np.mean([hybrid[one] for one in keep]))
        table[f"{name} nDCG@10 read"] = float(np.mean([after[one] for one in keep]))
        if not any(row["answers"] for row in asked) or name in ("hotpot_train100", "musique_train100"):
            continue
        texts = {one: passage["text"] for one, passage in kept["passages"].items()}
        gold, whole, first, three, there, lacking, outside = [], [], [], [], [], [], []
        for row, own in zip(asked, read_, strict=True):
            right = row["relevant"][0]
            if row["is_impossible"]:
                lacking.append(own[right][1])
                continue
            gold.append(f1(texts[right][own[right][4] : own[right][5]], row["answers"]))
            order = chosen(row["hits"], own)
            best = order[0][1]
            whole.append(f1(texts[best][own[best][4] : own[best][5]], row["answers"]))
            lines = sorted(
                (
                    (score - 0.5 * own[one][2] + 0.5 * mark, texts[one][low:high])
                    for score, one in order
                    for mark, (low, high) in zip(own[one][6], kept["passages"][one]["sentences"], strict=True)
                ),
                reverse=True,
            )
            first.append(holds(lines[0][1], row["answers"]))
            three.append(any(holds(line, row["answers"]) for _, line in lines[:3]))
            there.append(max(own[one[0]][1] for one in row["hits"][:8]))
            if name == "squad_dev11":
                lacking.append(max(own[one[0]][1] for one in [h for h in row["hits"] if h[0] != right][:8]))
                if row["outside"]:
                    outside.append(max(own[one[0]][1] for one in row["outside"][:8]))
        table[f"{name} gold passage F1"] = float(np.mean(gold))
        table[f"{name} whole flow F1"] = float(np.mean(whole))
        table[f"{name} first sentence"] = float(np.mean(first))
        table[f"{name} one of three"] = float(np.mean(three))
        if name == "squad2_disfl":
            answered = [
                own[row["relevant"][0]][1] for row, own in zip(asked, read_, strict=True) if not row["is_impossible"]
            ]
            table[f"{name} answered AUC, gold passage"] = auc(answered, lacking)
        if name == "squad_dev11":
            table[f"{name} answered AUC, passage removed"] = auc(there, lacking)
            table[f"{name} answered AUC, article removed"] = auc(there, outside)
    pairs = [(table[f"{one} nDCG@10 hybrid"], table[f"{one} nDCG@10 read"]) for one in UNSEEN if one in found]
    table["unseen sets nDCG@10 hybrid"] = float(np.mean([one for one, _ in pairs]))
    table["unseen sets nDCG@10 read"] = float(np.mean([one for _, one in pairs]))
    return table


def shown(table: dict[str, float]) -> str:
    return "\n".join(f"{name:48} {value:.4f}" for name, value in table.items())
