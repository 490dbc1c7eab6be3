"""How the reader learns: from what people marked, and from a larger reader that learned the same before it.

Three losses a batch: the right passage first in its group, the tokens where the answer starts and ends, and whether the
answer is there at all. The teacher's own judgements of the same pairs are a second target for the small reader.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader

from training.examples import (
    GROUP,
    LENGTH,
    QUESTION,
    TITLE,
    Batches,
    Pair,
    Prepared,
    as_ids,
    encode,
    tensors,
)
from training.model import Read, Reader, for_teacher

HIDDEN = -1e4  # logit of a token that is not of the passage
ANSWERED = 0.6  # weight of that loss against the other two
MARKED = 0.4  # weight of what people marked, where there is a teacher as well
DECAY = 0.998  # of the running mean of the weights, which is what is kept

Row = dict[str, Any]


@dataclass(frozen=True)
class Course:
    """How long and how fast."""

    steps: int
    groups: int
    rate: float
    seed: int = 7
    workers: int = 12


def read(model: Reader, part: dict[str, Tensor], device: str) -> Read:
    ids = for_teacher(part["ids"]) if model.is_teacher else part["ids"]
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        found = model(ids, part["types"], part["mask"])
    hidden = part["text"] < 0.5
    return Read(
        found.judged.float(),
        found.start.float().masked_fill(hidden, HIDDEN),
        found.end.float().masked_fill(hidden, HIDDEN),
    )


def marked_span(found: Read, part: dict[str, Tensor]) -> Tensor:
    """Cross entropy with the marked places, of the pairs that have some."""
    has = part["start"].sum(1) > 0.5
    if not bool(has.any()):
        return found.start.sum() * 0.0
    losses = [
        -(wanted[has] * torch.log_softmax(logits[has], 1)).sum(1)
        for wanted, logits in ((part["start"], found.start), (part["end"], found.end))
    ]
    return (losses[0] + losses[1]).sum() / 2


def taught_span(found: Read, teacher: Read) -> Tensor:
    """Divergence from the teacher's places, as far as the teacher holds the question for answered."""
    weight = torch.sigmoid(teacher.judged[:, 1])
    losses = [
        functional.kl_div(torch.log_softmax(own, 1), torch.log_softmax(other, 1), log_target=True, reduction="none")
        for own, other in ((found.start, teacher.start), (found.end, teacher.end))
    ]
    return (weight * (losses[0] + losses[1]).sum(1)).sum() / 2


def loss_of(model: Reader, teacher: Reader | None, batch: Row, device: str) -> Tensor:
    count = sum(len(part["order"]) for part in batch["parts"])
    judged = torch.zeros(count, 3, device=device)
    taught = torch.zeros(count, 3, device=device)
    span = torch.zeros((), device=device)
    for part in batch["parts"]:
        part = {name: value.to(device, non_blocking=True) for name, value in part.items()}
        found = read(model, part, device)
        judged = judged.index_copy(0, part["order"], found.judged)
        span = span + (MARKED if teacher else 1.0) * marked_span(found, part) * GROUP / count
        if teacher:
            with torch.no_grad():
                other = read(teacher, part, device)
            taught[part["order"]] = other.judged
            span = span + taught_span(found, other) * GROUP / count
    # Order: the right passage is the first of its group.
    ranked = batch["is_ranked"].to(device)
    order = judged[:, 0].view(-1, GROUP).masked_fill(~ranked, HIDDEN)
    first = functional.cross_entropy(order, torch.zeros(len(order), dtype=torch.long, device=device))
    answered = batch["answered"].to(device)
    known = (answered >= 0).float()
    there = functional.binary_cross_entropy_with_logits(judged[:, 1], answered.clamp(min=0), reduction="none")
    there = (there * known).sum() / known.sum().clamp(min=1)
    if not teacher:
        return first + span + ANSWERED * there
    wanted = torch.log_softmax(taught[:, 0].view(-1, GROUP).masked_fill(~ranked, HIDDEN), 1)
    order_taught = functional.kl_div(torch.log_softmax(order, 1), wanted, log_target=True, reduction="batchmean")
    there_taught = functional.binary_cross_entropy_with_logits(judged[:, 1], torch.sigmoid(taught[:, 1]))
    return MARKED * (first + ANSWERED * there) + order_taught + 2 * ANSWERED * there_taught + span


def optimiser(model: Reader, rate: float, device: str) -> torch.optim.Optimizer:
    plain = [one for one in model.parameters() if one.requires_grad and one.ndim < 2]
    matrices = [one for one in model.parameters() if one.requires_grad and one.ndim >= 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, rate, betas=(0.9, 0.98), fused=device == "cuda")


def learn(
    model: Reader, sources: Sequence[Prepared], course: Course, device: str, teacher: Reader | None = None
) -> Reader:
    """The running mean of the weights at the end of the course."""
    torch.manual_seed(course.seed)
    batches = Batches(sources, course.groups, course.steps, course.seed)
    loader = DataLoader(
        batches, batch_size=None, num_workers=course.workers, prefetch_factor=4 if course.workers else None
    )
    chosen, mean = optimiser(model, course.rate, device), copy.deepcopy(model)
    model.train()
    begin, seen = time.monotonic(), 0.0
    for step, batch in enumerate(loader):
        passed = step / course.steps
        for one in chosen.param_groups:
            one["lr"] = course.rate * min(1.0, passed / 0.06, (1 - passed) / 0.94)
        loss = loss_of(model, teacher, batch, device)
        chosen.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        chosen.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(mean.parameters()), list(model.parameters()), 1 - min(DECAY, step / (step + 10)))
        seen += float(loss.detach()) if step % 50 == 0 else 0.0
        if step % 500 == 0:
            print(f"  step {step}, {time.monotonic() - begin:.0f} s, loss {float(loss.detach()):.3f}", flush=True)
    print(f"  {step + 1} steps of {course.groups} groups in {time.monotonic() - begin:.0f} s", flush=True)
    return mean.eval()


# --- claims ----------------------------------------------------------------------------------------------------------


def claim_pairs(rows: Sequence[Row], tokenizer: Tokenizer) -> list[tuple[Pair, bool]]:
    """A claim stands where the question does, its evidence where the passage does."""
    said, texts, titles = (encode(tokenizer, [row[part] for row in rows]) for part in ("claim", "evidence", "title"))
    found = []
    for claim, text, title, row in zip(said, texts, titles, rows, strict=True):
        ids, head = as_ids(claim, 2 * QUESTION), as_ids(title, TITLE)
        found.append((Pair(ids, head, as_ids(text, LENGTH - 3 - len(ids) - len(head)), -1), bool(row["label"])))
    return found


def learn_claims(
    model: Reader,
    teacher: Reader,
    sources: Sequence[Prepared],
    sets: Sequence[Sequence[tuple[Pair, bool]]],
    course: Course,
    device: str,
) -> Reader:
    """A copy that also judges claims; questions are read on beside them, so that nothing is unlearned."""
    torch.manual_seed(course.seed)
    model, dice = copy.deepcopy(model), random.Random(course.seed)
    mean = copy.deepcopy(model)
    batches = Batches(sources, course.groups, course.steps, course.seed + 1)
    loader = DataLoader(
        batches, batch_size=None, num_workers=course.workers, prefetch_factor=4 if course.workers else None
    )
    chosen = optimiser(model, course.rate, device)
    model.train()
    begin = time.monotonic()
    for step, batch in enumerate(loader):
        passed = step / course.steps
        for one in chosen.param_groups:
            one["lr"] = course.rate * min(1.0, passed / 0.06, (1 - passed) / 0.94)
        drawn = [dice.choice(some) for some in sets for _ in range(24)]
        part = {name: value.to(device) for name, value in tensors([pair for pair, _ in drawn]).items()}
        label = torch.tensor([float(is_true) for _, is_true in drawn], device=device)
        said = functional.binary_cross_entropy_with_logits(read(model, part, device).judged[:, 2], label)
        loss = said + loss_of(model, teacher, batch, device)
        chosen.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        chosen.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(mean.parameters()), list(model.parameters()), 1 - min(0.99, step / (step + 10)))
    print(f"  claims: {step + 1} steps in {time.monotonic() - begin:.0f} s", flush=True)
    return mean.eval()


@torch.no_grad()
def supported(model: Reader, pairs: Sequence[tuple[Pair, bool]], device: str) -> np.ndarray:
    """The logit of support of each claim."""
    found = []
    for at in range(0, len(pairs), 256):
        part = tensors([pair for pair, _ in pairs[at : at + 256]])
        found.append(read(model, {name: value.to(device) for name, value in part.items()}, device).judged[:, 2].cpu())
    return torch.cat(found).numpy()
