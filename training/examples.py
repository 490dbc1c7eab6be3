"""Batches to learn from: groups of one passage that bears on a question and seven that look as if they did.

Everything is drawn by the number of the batch, so the same seed gives the same batches in any number of processes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from training.model import LENGTH, Reader

OPENING, CLOSING = 101, 102  # [CLS] and [SEP]
GROUP = 8  # passages a question
QUESTION, TITLE = 48, 20  # tokens at most
DEPTH = 50  # of the search that finds what looks right
LACKING = 2  # of a group at most: questions that the right passage does not answer
PARTS = 3  # a batch is read in so many parts of like length
DENSE = 0.8  # weight of meaning against words in that search, as in the product

# How often a source is drawn. Where people marked answers it is most.
SHARES = {
    "squad": 0.22, "written": 0.22, "qamr": 0.16, "cloze": 0.1, "policyqa": 0.05, "covidqa": 0.04, "medquad": 0.04,
    "hotpot": 0.045, "musique": 0.02, "mtrag_cloud": 0.02, "mtrag_govt": 0.02, "tatqa": 0.05, "wiki_tables": 0.05,
    "inverse": 0.025,
}  # fmt: skip
JUDGED = {
    "plans_wiki": 0.09, "plans_tatqa": 0.035, "made": 0.035, "asked_squad": 0.035, "asked_qamr": 0.035,
    "written": 0.1,
}  # fmt: skip
LABELLED = {"fool_me_twice": 0.25, "wice": 0.15, "contract_nli": 0.2}  # claims that people judged, where learned
WRITTEN_LAST = 0.5  # share of the written claims where those are learned too
READING, PLANS, CLAIMS = range(3)  # what a group is for
ANSWERING = ("medquad", "mtrag_cloud", "mtrag_govt")  # a relevant passage answers, though nobody marked where

Ids = NDArray[np.uint16]
Row = dict[str, Any]


@dataclass
class Passage:
    title: Ids
    ids: Ids
    group: str


@dataclass
class Question:
    forms: list[Ids]  # as asked, without the mark, as keywords, mistyped
    altered: list[Ids]  # about the same passage, which does not answer them
    relevant: list[int]
    spans: dict[int, list[tuple[int, int]]]  # passage to (first token, last token)
    rivals: list[int] = field(default_factory=list)  # passages that look right and are not, best first


@dataclass
class Prepared:
    """A source in tokens."""

    name: str
    complete: bool
    passages: list[Passage]
    questions: list[Question]


@dataclass
class Pair:
    """A question with a window of a passage; `answered` is 1, 0, or -1 where nobody knows."""

    question: Ids
    title: Ids
    window: Ids
    answered: int
    spans: Sequence[tuple[int, int]] = ()  # in the window
    is_ranked: bool = True  # counts in the order of its group
    mark: float = 0.0  # of a claim: it is supported; of a plan: it is right


# --- text to tokens --------------------------------------------------------------------------------------------------

_LITTLE = """
    a an the is are was were be been of in on at to for by with and or do does did has have had that this it its as
    from what which who whom when where why how there their his her
"""
_STOP = frozenset(_LITTLE.split())


def keywords(text: str) -> str:
    """'Which pump failed in 2019?' -> 'pump failed 2019'"""
    words = [word for word in re.findall(r"[\w'’.-]*\w", text) if word.lower() not in _STOP]
    return " ".join(words) if len(words) > 1 else text


def mistyped(text: str, dice: random.Random) -> str:
    """One letter inside a long word is dropped, doubled or swapped with the next."""
    places = list(re.finditer(r"\w{5,}", text))
    if not places:
        return text
    word = dice.choice(places)
    at = dice.randrange(word.start() + 1, word.end() - 2)
    change = dice.choice(("", text[at] * 2, text[at + 1] + text[at]))
    return text[:at] + change + text[at + (2 if len(change) == 2 and change[0] != change[1] else 1) :]


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Any]:
    return tokenizer.encode_batch(list(texts), add_special_tokens=False)


def as_ids(encoded: Any, most: int | None = None) -> Ids:
    return np.array(encoded.ids[:most], dtype=np.uint16)


def prepare(name: str, source: Row, tokenizer: Tokenizer, seed: int) -> Prepared:
    dice = random.Random(seed)
    encoded = encode(tokenizer, [row["text"] for row in source["passages"]])
    titles = encode(tokenizer, [row["title"] for row in source["passages"]])
    passages = [
        Passage(as_ids(title, TITLE), as_ids(text), row["group"])
        for title, text, row in zip(titles, encoded, source["passages"], strict=True)
    ]
    rows = source["questions"]
    forms = [
        encode(tokenizer, [change(row["text"]) for row in rows])
        for change in (str, lambda text: text.rstrip("? "), keywords, lambda text: mistyped(text, dice))
    ]
    questions = []
    for number, row in enumerate(rows):
        spans: dict[int, list[tuple[int, int]]] = {}
        for passage, start, end in row["spans"]:
            if not 0 <= start < end:  # a few marks of the sets are off
                continue
            first, last = encoded[passage].char_to_token(start), encoded[passage].char_to_token(end - 1)
            if first is not None and last is not None and first <= last:
                spans.setdefault(passage, []).append((first, last))
        questions.append(
            Question(
                [as_ids(form[number], QUESTION) for form in forms],
                [as_ids(one, QUESTION) for one in encode(tokenizer, row.get("altered", []))],
                row["relevant"],
                spans,
            )
        )
    return Prepared(name, source["complete"], passages, questions)


# --- passages that look right ----------------------------------------------------------------------------------------


@torch.no_grad()
def embed(encoder: Reader, rows: Sequence[Ids], device: str) -> Tensor:
    """Unit vectors as the shipped embedder makes them: the mean of the token states."""
    found = torch.zeros(len(rows), encoder.positions.shape[1], device=device)
    order = sorted(range(len(rows)), key=lambda one: len(rows[one]))
    for at in range(0, len(order), 512):
        some = order[at : at + 512]
        ids, mask = padded([np.concatenate(([OPENING], rows[one][: LENGTH - 2], [CLOSING])) for one in some])
        ids, mask = ids.to(device), mask.to(device)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            states = encoder.states(ids, torch.zeros_like(ids), mask)
        found[some] = ((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).float()
    return functional.normalize(found, dim=-1)


def bm25(rows: Sequence[Ids], device: str, size: int = 30522, k1: float = 1.2, b: float = 0.75) -> Tensor:
    """Passages × word pieces, sparse: what each piece adds to the score of a question that holds it."""
    lengths = np.array([len(row) for row in rows], dtype=np.float32)
    counts = [np.unique(row, return_counts=True) for row in rows]
    places = np.repeat(np.arange(len(rows)), [len(one[0]) for one in counts])
    pieces = np.concatenate([one[0] for one in counts]).astype(np.int64)
    often = np.concatenate([one[1] for one in counts]).astype(np.float32)
    holders = np.bincount(pieces, minlength=size)
    idf = np.log(1 + (len(rows) - holders + 0.5) / (holders + 0.5))
    norm = k1 * (1 - b + b * lengths / lengths.mean())
    values = idf[pieces] * often * (k1 + 1) / (often + norm[places])
    index = torch.from_numpy(np.stack((places, pieces)))
    return torch.sparse_coo_tensor(index, torch.from_numpy(values).float(), (len(rows), size)).coalesce().to(device)


@torch.no_grad()
def find_rivals(source: Prepared, encoder: Reader, device: str) -> None:
    """The best passages of a hybrid search that are not relevant and, as far as marked, do not hold the answer."""
    passages = [np.concatenate((one.title, one.ids)) for one in source.passages]
    asked = [one.forms[0] for one in source.questions]
    vectors, wanted = embed(encoder, passages, device), embed(encoder, asked, device)
    weights = bm25(passages, device)
    depth = min(DEPTH, len(passages))
    for at in range(0, len(asked), 512):
        some = asked[at : at + 512]
        held = torch.zeros(weights.shape[1], len(some), device=device)
        for column, row in enumerate(some):
            held[row.astype(np.int64), column] = 1.0
        words = torch.sparse.mm(weights, held).T
        meaning = wanted[at : at + 512] @ vectors.T + 1.0
        score = DENSE * meaning / meaning.amax(1, keepdim=True)
        score += (1 - DENSE) * words / words.amax(1, keepdim=True).clamp(min=1e-6)
        best = score.topk(depth, dim=1).indices.tolist()
        for question, found in zip(source.questions[at : at + 512], best, strict=True):
            question.rivals = [one for one in found if one not in question.relevant]
    for question in source.questions:
        answers = {
            source.passages[passage].ids[first : last + 1].tobytes()
            for passage, spans in question.spans.items()
            for first, last in spans
        }
        question.rivals = [
            one for one in question.rivals if not any(_holds(source.passages[one].ids, text) for text in answers)
        ]


def _holds(ids: Ids, part: bytes) -> bool:
    whole, at = ids.tobytes(), -1
    while (at := whole.find(part, at + 1)) >= 0:
        if at % 2 == 0:
            return True
    return False


# --- groups ----------------------------------------------------------------------------------------------------------


def window(passage: Passage, spans: Sequence[tuple[int, int]], room: int, dice: random.Random) -> tuple[Ids, list[Any]]:
    """A stretch of the passage with one of the answers in it; now and then a short one, as the product reads them."""
    size = min(len(passage.ids), room)
    if dice.random() < 0.35:
        size = min(size, dice.randint(48, 160))
    first, last = dice.choice(spans) if spans else (0, 0)
    low, high = max(0, last + 1 - size), min(first, len(passage.ids) - size)
    start = dice.randint(low, high) if low <= high else max(0, min(first, len(passage.ids) - size))
    if not spans and dice.random() < 0.5:
        start = 0
    inside = [(a - start, b - start) for a, b in spans if a >= start and b < start + size]
    return passage.ids[start : start + size], inside


def form(question: Question, dice: random.Random) -> Ids:
    return question.forms[dice.choices((0, 1, 2, 3), (0.66, 0.16, 0.1, 0.08))[0]]


def joined(source: Prepared, number: int, question: Question, dice: random.Random) -> tuple[Passage, list[Any]]:
    """A sentence among others, as a passage: QAMR has single sentences."""
    others = dice.sample(question.rivals[:30], min(len(question.rivals[:30]), dice.randint(0, 5)))
    order = [number, *others]
    dice.shuffle(order)
    before = sum(len(source.passages[one].ids) for one in order[: order.index(number)])
    spans = [(a + before, b + before) for a, b in question.spans.get(number, [])]
    ids = np.concatenate([source.passages[one].ids for one in order])
    return Passage(source.passages[number].title, ids, ""), spans


def group(source: Prepared, dice: random.Random) -> list[Pair]:
    """The right passage first."""
    question = dice.choice(source.questions)
    is_single = source.name == "qamr"
    asked = form(question, dice)
    with_answer = [one for one in question.relevant if question.spans.get(one)]
    number = dice.choice(with_answer or question.relevant)

    def pair(passage: Passage, spans: Sequence[Any], answered: int, asked: Ids = asked, is_ranked: bool = True) -> Pair:
        title = passage.title if dice.random() < 0.8 else passage.title[:0]
        cut, inside = window(passage, spans, LENGTH - 3 - len(asked) - len(title), dice)
        return Pair(asked, title, cut, answered, inside, is_ranked)

    right, spans = joined(source, number, question, dice) if is_single else (
        source.passages[number], question.spans.get(number, [])
    )  # fmt: skip
    answers = 1 if spans or source.name in ANSWERING else -1
    pairs = [pair(right, spans, answers)]
    rivals = question.rivals
    while len(pairs) < GROUP:
        if rivals and dice.random() < 0.9:
            other = rivals[int(len(rivals) * dice.random() ** 2)]
        else:
            other = dice.randrange(len(source.passages))
            if other in question.relevant:
                continue
        passage = source.passages[other]
        if is_single:
            more = [source.passages[one].ids for one in dice.sample(rivals, min(len(rivals), dice.randint(0, 5)))]
            passage = Passage(passage.title, np.concatenate([passage.ids, *more]), "")
        pairs.append(pair(passage, (), 0 if source.complete else -1))
    # The right passage, but it does not say it.
    for place, other in enumerate(dice.sample(question.altered, min(len(question.altered), LACKING))):
        if spans and dice.random() < (0.8 if source.name == "written" else 0.5):
            pairs[-1 - place] = pair(right, (), 0, other, is_ranked=False)
    if spans and not question.altered and not is_single and source.complete and dice.random() < 0.5:
        first, last = min(a for a, _ in spans), max(b for _, b in spans)
        rest = max((right.ids[:first], right.ids[last + 1 :]), key=len)
        if len(rest) > 40:
            pairs[-1] = pair(Passage(right.title, rest, ""), (), 0, is_ranked=False)
    return pairs


# --- batches ---------------------------------------------------------------------------------------------------------


def padded(rows: Sequence[NDArray[Any]]) -> tuple[Tensor, Tensor]:
    """Ids and mask, as long as the longest, rounded up to sixteen."""
    longest = min(LENGTH, -(-max(map(len, rows)) // 16) * 16)
    ids, mask = np.zeros((len(rows), longest), dtype=np.int64), np.zeros((len(rows), longest), dtype=np.float32)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        mask[place, : len(row)] = 1.0
    return torch.from_numpy(ids), torch.from_numpy(mask)


def tensors(pairs: Sequence[Pair]) -> dict[str, Tensor]:
    """Ids, types, mask, which tokens are text of the passage, and where answers start and end, each as shares."""
    rows = [np.concatenate(([OPENING], one.question, [CLOSING], one.title, one.window, [CLOSING])) for one in pairs]
    ids, mask = padded(rows)
    types, text = torch.zeros_like(ids), torch.zeros_like(mask)
    start, end = torch.zeros_like(mask), torch.zeros_like(mask)
    for place, one in enumerate(pairs):
        second = len(one.question) + 2
        begin = second + len(one.title)
        types[place, second : len(rows[place])] = 1
        text[place, begin : begin + len(one.window)] = 1.0
        for first, last in one.spans:
            start[place, begin + first] += 1.0 / len(one.spans)
            end[place, begin + last] += 1.0 / len(one.spans)
    return {"ids": ids, "types": types, "mask": mask, "text": text, "start": start, "end": end}


def in_parts(pairs: Sequence[Pair], parts: int = PARTS) -> list[dict[str, Tensor]]:
    """The pairs sorted by length and cut, so that little is padded; `order` says which pair each one is."""
    order = sorted(range(len(pairs)), key=lambda one: len(pairs[one].question) + len(pairs[one].window))
    size = -(-len(order) // parts)
    return [
        tensors([pairs[one] for one in order[at : at + size]]) | {"order": torch.tensor(order[at : at + size])}
        for at in range(0, len(order), size)
    ]


class Drawn(Protocol):
    """A source whose groups are pairs with marks."""

    name: str

    def group(self, dice: random.Random) -> list[Pair]: ...


def use_of(name: str) -> int:
    return READING if name in SHARES else PLANS if name.startswith("plans") else CLAIMS


class Batches(torch.utils.data.Dataset[Any]):
    """Batch `number` is drawn by the seed and its number, of all the sources that are given, by their shares."""

    def __init__(
        self,
        sources: Sequence[Prepared | Drawn],
        groups: int,
        count: int,
        seed: int,
        untaught: frozenset[str] = frozenset(),
    ) -> None:
        self._untaught = untaught
        self._sources = {one.name: one for one in sources}
        shares = SHARES | JUDGED | LABELLED
        if LABELLED.keys() & self._sources.keys():
            shares["written"] = WRITTEN_LAST
        self._shares = {name: share for name, share in shares.items() if name in self._sources}
        self._groups, self._count, self._seed = groups, count, seed

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> dict[str, Any]:
        dice = random.Random(self._seed * 1_000_003 + number)
        names = dice.choices(list(self._shares), list(self._shares.values()), k=self._groups)
        pairs: list[Pair] = []
        for name in names:
            source = self._sources[name]
            pairs += group(source, dice) if isinstance(source, Prepared) else source.group(dice)
        return {
            "parts": in_parts(pairs),
            "answered": torch.tensor([one.answered for one in pairs], dtype=torch.float32),
            "is_ranked": torch.tensor([one.is_ranked for one in pairs]).view(-1, GROUP),
            "mark": torch.tensor([one.mark for one in pairs]).view(-1, GROUP),
            "use": torch.tensor([use_of(name) for name in names]),
            "is_taught": torch.tensor([name not in self._untaught for name in names]),
        }
