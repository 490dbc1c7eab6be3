"""Which directions of the embedder's token states tell best whether a word is met? Learned for late interaction.

The embedder itself stays as it is, so that a chunk is embedded once for everything. Of two of its layers a linear map
to 64 directions each is learned: the passage that answers is to come first in its group of eight, and the others in the
order in which a large reader puts them. Begins with the principal components, which were used before.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from training.examples import CLOSING, GROUP, OPENING, SHARES, Ids, Prepared, as_ids, encode, group, in_parts, padded
from training.learn import Course
from training.model import RELEVANT, Reader
from training.reading import read

FOURTH, DIRECTIONS, WINDOW = 3, 64, 254
SHARPNESS = 5.0  # as in refdesk/index/tokens.py
FIRST_SCALE = 20.0  # of a score between 0 and 1 as a logit; learned on
MARKED = 0.5  # weight of the right passage against the teacher's order
DEPTH = 50

Row = dict[str, Any]


class Projection(nn.Module):
    def __init__(self, components: Tensor) -> None:  # (layers, 1 + width, 64), as the product keeps them
        super().__init__()
        self.middle, self.directions = nn.Parameter(components[:, 0].clone()), nn.Parameter(components[:, 1:].clone())
        self.scale = nn.Parameter(torch.tensor(FIRST_SCALE).log())

    def forward(self, states: Tensor) -> Tensor:
        """(…, layers, width) -> (…, layers, 64), unit vectors."""
        units = functional.normalize(states.float(), dim=-1)
        found = torch.einsum("...ld,ldk->...lk", units, self.directions) - self.middle
        return functional.normalize(found, dim=-1)

    def kept(self) -> np.ndarray:
        return torch.cat((self.middle[:, None], self.directions), 1).detach().cpu().numpy()


@torch.no_grad()
def token_states(encoder: Reader, ids: Tensor, mask: Tensor) -> Tensor:
    """(texts, tokens, 2, width): the last layer and the fourth."""
    with torch.autocast("cuda", torch.bfloat16, enabled=ids.is_cuda):
        states = encoder.words(ids) + encoder.positions[: ids.shape[1]] + encoder.types[0]
        states = encoder.norm(states)
        bias = ((1.0 - mask[:, None, None, :]) * -10000.0).to(torch.bfloat16 if ids.is_cuda else states.dtype)
        for number, layer in enumerate(encoder.layers):
            states = layer(states, bias, 0.0)
            if number == FOURTH:
                fourth = states
    return torch.stack((states, fourth), 2)


def components(rows: Tensor) -> Tensor:
    """The principal ones of the unit vectors, (layers, 1 + width, 64)."""
    found = []
    for layer in functional.normalize(rows.float(), dim=-1).unbind(1):
        middle = layer.mean(0)
        _, directions = torch.linalg.eigh((layer - middle).T @ (layer - middle))
        chosen = directions.flip(1)[:, :DIRECTIONS]
        found.append(torch.cat(((middle @ chosen)[None], chosen)))
    return torch.stack(found)


def met(asked: Tensor, asked_weight: Tensor, texts: Tensor, is_text: Tensor, sharpness: float) -> Tensor:
    """Groups × passages: how well each word is met by the nearest of the passage, weighted."""
    near = torch.einsum("gqlk,gptlk->gplqt", asked, texts)
    near = near.masked_fill(is_text[:, :, None, None, :] < 0.5, -1.0).amax(-1).clamp(min=1e-4)
    weight = asked_weight / asked_weight.sum(1, keepdim=True).clamp(min=1e-6)
    return (near**sharpness).mean(2).mul(weight[:, None]).sum(-1)


def rarity(rows: Sequence[Ids]) -> np.ndarray:
    counts = np.zeros(30522)
    for row in rows:
        counts[np.unique(row)] += 1
    known = np.log(1.0 + (len(rows) - counts + 0.5) / (counts + 0.5))
    return np.where(counts > 0, known, np.log(1.0 + 2.0 * len(rows))).astype(np.float32)


class LateBatches(torch.utils.data.Dataset[Any]):
    def __init__(self, sources: Sequence[Prepared], groups: int, count: int, seed: int) -> None:
        self._sources = {one.name: one for one in sources}
        self._rare = {one.name: rarity([passage.ids for passage in one.passages]) for one in sources}
        self._groups, self._count, self._seed = groups, count, seed

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Row:
        dice = random.Random(self._seed * 1_000_003 + number)
        names = dice.choices(list(self._sources), [SHARES[name] for name in self._sources], k=self._groups)
        pairs, weights = [], []
        for name in names:
            own = group(self._sources[name], dice)
            pairs += own
            weights.append(self._rare[name][own[0].question])
        asked, asked_mask = padded([marked(pairs[at].question) for at in range(0, len(pairs), GROUP)])
        texts, text_mask = padded([marked(np.concatenate((one.title, one.window))) for one in pairs])
        weight = torch.zeros(asked.shape)
        for place, row in enumerate(weights):
            weight[place, 1 : 1 + len(row)] = torch.from_numpy(row)
        return {
            "asked": asked, "asked_mask": asked_mask, "texts": texts, "text_mask": text_mask, "weight": weight,
            "is_ranked": torch.tensor([one.is_ranked for one in pairs]).view(-1, GROUP), "parts": in_parts(pairs),
        }  # fmt: skip


def marked(ids: Ids) -> Ids:
    return np.concatenate(([OPENING], ids[:WINDOW], [CLOSING]))


def inner(mask: Tensor) -> Tensor:
    """Without the first token and the last."""
    found = mask.clone()
    found[:, 0] = 0.0
    found[torch.arange(len(mask)), mask.sum(1).long() - 1] = 0.0
    return found


@torch.no_grad()
def start(encoder: Reader, sources: Sequence[Prepared], device: str, seed: int) -> Projection:
    sample = [passage.ids for one in sources for passage in random.Random(seed).sample(one.passages, 200)]
    ids, mask = (part.to(device) for part in padded([marked(row) for row in sample]))
    parts = zip(ids.split(64), mask.split(64), strict=True)
    rows = torch.cat([token_states(encoder, *part)[inner(part[1]) > 0.5] for part in parts])
    return Projection(components(rows)).to(device)


def learn_projection(
    encoder: Reader, teacher: Reader, sources: Sequence[Prepared], device: str, course: Course, anchor: float
) -> Projection:
    """`anchor`: how strongly it is held to where it began."""
    torch.manual_seed(course.seed)
    model = start(encoder, sources, device, course.seed)
    first = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimiser = torch.optim.Adam(model.parameters(), course.rate)
    batches = LateBatches(sources, course.groups, course.steps, course.seed)
    loader = DataLoader(
        batches, batch_size=None, num_workers=course.workers, prefetch_factor=4 if course.workers else None
    )
    begin = time.monotonic()
    for step, batch in enumerate(loader):
        passed = step / course.steps
        for one in optimiser.param_groups:
            one["lr"] = course.rate * min(1.0, passed / 0.05, (1 - passed) / 0.95)
        taught = torch.zeros(len(batch["texts"]), device=device)
        with torch.no_grad():
            for part in batch["parts"]:
                part = {name: value.to(device) for name, value in part.items()}
                taught[part["order"]] = read(teacher, part, device).judged[:, RELEVANT]
        given = {name: value.to(device) for name, value in batch.items() if name != "parts"}
        asked = model(token_states(encoder, given["asked"], given["asked_mask"]))
        texts = model(token_states(encoder, given["texts"], given["text_mask"]))
        texts = texts.view(len(asked), GROUP, *texts.shape[1:])
        is_text = inner(given["text_mask"]).view(len(asked), GROUP, -1)
        hidden = ~given["is_ranked"]
        logits = (met(asked, given["weight"], texts, is_text, SHARPNESS) * model.scale.exp()).masked_fill(hidden, -1e4)
        wanted = torch.log_softmax(taught.view(-1, GROUP).masked_fill(hidden, -1e4), 1)
        order = functional.kl_div(torch.log_softmax(logits, 1), wanted, log_target=True, reduction="batchmean")
        right = functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=device))
        held = sum(((value - first[name]) ** 2).sum() for name, value in model.named_parameters() if name != "scale")
        loss = order + MARKED * right + anchor * held
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % 200 == 0:
            print(f"  step {step}, {time.monotonic() - begin:.0f} s, order {float(order):.3f} right {float(right):.3f}"
                  f" moved {float(held):.2f}", flush=True)  # fmt: skip
    return model


# --- what it gives ---------------------------------------------------------------------------------------------------


def gain(relevant: Sequence[str], ranked: Sequence[str]) -> float:
    ideal = sum(1 / np.log2(2 + place) for place in range(min(10, len(relevant))))
    return sum(1 / np.log2(2 + place) for place, one in enumerate(ranked[:10]) if one in relevant) / ideal


@torch.no_grad()
def late_scores(
    encoder: Reader, models: Mapping[str, Projection], kept: Row, tokenizer: Tokenizer, device: str, most: int
) -> tuple[list[Row], dict[str, list[np.ndarray]]]:
    """The questions, and of each model the scores of their hits."""
    asked = kept["questions"][:most]
    names = sorted({hit[0] for row in asked for hit in row["hits"][:DEPTH]})
    shown = [f"{kept['passages'][name]['title']}\n{kept['passages'][name]['text']}" for name in names]
    rows = [as_ids(one, WINDOW) for one in encode(tokenizer, shown)]
    place = {name: number for number, name in enumerate(names)}
    rare = rarity(rows)
    stored: dict[str, list[Tensor]] = {name: [] for name in models}
    for at in range(0, len(rows), 256):
        ids, mask = (part.to(device) for part in padded([marked(row) for row in rows[at : at + 256]]))
        states = token_states(encoder, ids, mask)
        for name, model in models.items():
            found = (model(states) * 127).round() / 127
            stored[name] += [found[n, 1 : 1 + len(row)].half() for n, row in enumerate(rows[at : at + 256])]
    scores: dict[str, list[np.ndarray]] = {name: [] for name in models}
    for row in asked:
        ids = as_ids(encode(tokenizer, [row["text"]])[0], WINDOW)
        given, mask = (part.to(device) for part in padded([marked(ids)]))
        states = token_states(encoder, given, mask)[:, 1 : 1 + len(ids)]
        weight = torch.from_numpy(rare[ids])[None].to(device)
        for name, model in models.items():
            texts = [stored[name][place[hit[0]]] for hit in row["hits"][:DEPTH]]
            whole = nn.utils.rnn.pad_sequence(texts, batch_first=True).float()
            is_text = torch.tensor([len(text) for text in texts], device=device)[:, None] > torch.arange(
                whole.shape[1], device=device
            )
            scores[name].append(
                met(model(states), weight, whole[None], is_text[None].float(), SHARPNESS)[0].cpu().numpy()
            )
    return asked, scores


def blended(asked: Sequence[Row], scores: Sequence[np.ndarray], weight: float) -> float:
    found = []
    for row, late in zip(asked, scores, strict=True):
        hits = row["hits"][:DEPTH]
        best = max(hit[1] for hit in hits)
        order = np.argsort(-(np.array([hit[1] for hit in hits]) / best + weight * late), kind="stable")
        found.append(gain(row["relevant"], [hits[number][0] for number in order]))
    return float(np.mean(found))


def save(model: Projection, target: Path) -> None:
    np.save(target, model.kept().astype(np.float16))
