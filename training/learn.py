"""How the reader learns: from what people marked, and from a larger reader that learned the same before it.

Three losses a batch for reading: the right passage first in its group, the tokens where the answer starts and ends, and
whether the answer is there at all; one for plans and one for claims beside them. The teacher's own judgements of the
same pairs are a second target for the small reader, but for sources that the teacher has not learned.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader

from training.examples import CLAIMS, GROUP, PLANS, READING, Batches, Drawn, Prepared
from training.model import ANSWERED, JUDGEMENTS, PLANNED, RELEVANT, SUPPORTED, Read, Reader
from training.reading import HIDDEN, read

THERE = 0.6  # weight of whether the answer is there, against order and place
BESIDE = 0.6  # weight of plans and of claims
MARKED = 0.4  # weight of what people marked, where there is a teacher as well
DECAY = 0.998  # of the running mean of the weights, which is what is kept; at most: short courses forget faster

Row = dict[str, Any]


@dataclass(frozen=True)
class Course:
    """How long and how fast."""

    steps: int
    groups: int
    rate: float
    seed: int = 7
    workers: int = 12
    untaught: frozenset[str] = frozenset()  # sources that the teacher knows nothing of: what people marked counts alone


def marked_span(found: Read, part: dict[str, Tensor], weight: Tensor) -> Tensor:
    """Cross entropy with the marked places, of the pairs that have some."""
    has = part["start"].sum(1) > 0.5
    if not bool(has.any()):
        return found.start.sum() * 0.0
    losses = [
        -(wanted[has] * torch.log_softmax(logits[has], 1)).sum(1)
        for wanted, logits in ((part["start"], found.start), (part["end"], found.end))
    ]
    return (weight[has] * (losses[0] + losses[1])).sum() / 2


def taught_span(found: Read, teacher: Read, is_taught: Tensor) -> Tensor:
    """Divergence from the teacher's places, as far as the teacher holds the question for answered."""
    weight = torch.sigmoid(teacher.judged[:, ANSWERED]) * is_taught
    losses = [
        functional.kl_div(torch.log_softmax(own, 1), torch.log_softmax(other, 1), log_target=True, reduction="none")
        for own, other in ((found.start, teacher.start), (found.end, teacher.end))
    ]
    return (weight * (losses[0] + losses[1]).sum(1)).sum() / 2


def loss_of(model: Reader, teacher: Reader | None, batch: Row, device: str) -> Tensor:
    use = batch["use"].to(device)
    is_taught = batch["is_taught"].to(device) & (teacher is not None)  # groups
    taught_reading = ((use == READING) & is_taught).repeat_interleave(GROUP).float()
    marked = torch.where(is_taught, MARKED, 1.0)
    marked_pairs = marked.repeat_interleave(GROUP)
    groups = (use == READING).sum().clamp(min=1)
    judged = torch.zeros(len(use) * GROUP, len(JUDGEMENTS), device=device)
    taught = torch.zeros_like(judged) if teacher else None
    span = torch.zeros((), device=device)
    for part in batch["parts"]:
        part = {name: value.to(device, non_blocking=True) for name, value in part.items()}
        found = read(model, part, device)
        judged = judged.index_copy(0, part["order"], found.judged)
        span = span + marked_span(found, part, marked_pairs[part["order"].to(device)]) / groups
        if teacher and taught is not None:
            with torch.no_grad():
                other = read(teacher, part, device)
            taught[part["order"]] = other.judged
            span = span + taught_span(found, other, taught_reading[part["order"]]) / groups
    marks = {name: batch[name].to(device) for name in ("answered", "is_ranked", "mark")}
    total = span + _reading_loss(judged, taught, marks, use, marked)
    for which, loss in ((PLANS, _plan_loss), (CLAIMS, _claim_loss)):
        chosen = use == which
        if bool(chosen.any()):
            own = judged.view(-1, GROUP, len(JUDGEMENTS))[chosen]
            other_own = None if taught is None else taught.view(-1, GROUP, len(JUDGEMENTS))[chosen]
            total = total + BESIDE * loss(own, other_own, marks["mark"][chosen])
    return total


def _reading_loss(
    judged: Tensor, taught: Tensor | None, marks: dict[str, Tensor], use: Tensor, weight: Tensor
) -> Tensor:
    """The right passage is the first of its group, and whether the answer is there; `weight` is that of the marks."""
    chosen = use == READING
    if not bool(chosen.any()):
        return judged.sum() * 0.0
    weight = weight[chosen]
    ranked = marks["is_ranked"][chosen]
    order = judged[:, RELEVANT].view(-1, GROUP)[chosen].masked_fill(~ranked, HIDDEN)
    right = torch.zeros(len(order), dtype=torch.long, device=order.device)
    first = functional.cross_entropy(order, right, reduction="none")
    there_logit = judged[:, ANSWERED].view(-1, GROUP)[chosen]
    answered = marks["answered"].view(-1, GROUP)[chosen]
    known = (answered >= 0).float()
    there = functional.binary_cross_entropy_with_logits(there_logit, answered.clamp(min=0), reduction="none")
    there = (weight[:, None] * there * known).sum() / known.sum().clamp(min=1)
    own = (weight * first).mean() + THERE * there
    if taught is None:
        return own
    is_taught = (weight < 1.0).float()
    wanted = torch.log_softmax(taught[:, RELEVANT].view(-1, GROUP)[chosen].masked_fill(~ranked, HIDDEN), 1)
    order_taught = functional.kl_div(torch.log_softmax(order, 1), wanted, log_target=True, reduction="none").sum(1)
    wanted_there = torch.sigmoid(taught[:, ANSWERED].view(-1, GROUP)[chosen])
    there_taught = functional.binary_cross_entropy_with_logits(there_logit, wanted_there, reduction="none").mean(1)
    return own + (is_taught * (order_taught + 2 * THERE * there_taught)).mean()


def _plan_loss(judged: Tensor, taught: Tensor | None, mark: Tensor) -> Tensor:
    """Any of the right plans, or `none` where there is none; only answers were marked, so that several may be right."""
    none = torch.zeros(len(judged), 1, device=judged.device)
    chances = torch.log_softmax(torch.cat((judged[:, :, PLANNED], none), 1), 1)
    right = torch.cat((mark, (mark.sum(1, keepdim=True) < 0.5).float()), 1)
    loss = -torch.logsumexp(chances.masked_fill(right < 0.5, HIDDEN), 1).mean()
    if taught is None:
        return loss
    wanted = torch.log_softmax(torch.cat((taught[:, :, PLANNED], none), 1), 1)
    return MARKED * loss + functional.kl_div(chances, wanted, log_target=True, reduction="batchmean")


def _claim_loss(judged: Tensor, taught: Tensor | None, mark: Tensor) -> Tensor:
    logit = judged[:, :, SUPPORTED]
    loss = functional.binary_cross_entropy_with_logits(logit, mark)
    if taught is None:
        return loss
    wanted = torch.sigmoid(taught[:, :, SUPPORTED])
    return MARKED * loss + functional.binary_cross_entropy_with_logits(logit, wanted)


def optimiser(model: Reader, rate: float, device: str) -> torch.optim.Optimizer:
    plain = [one for one in model.parameters() if one.requires_grad and one.ndim < 2]
    matrices = [one for one in model.parameters() if one.requires_grad and one.ndim >= 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, rate, betas=(0.9, 0.98), fused=device == "cuda")


def learn(
    model: Reader,
    sources: Sequence[Prepared | Drawn],
    course: Course,
    device: str,
    teacher: Reader | None = None,
) -> Reader:
    """The running mean of the weights at the end of the course."""
    torch.manual_seed(course.seed)
    batches = Batches(sources, course.groups, course.steps, course.seed, course.untaught)
    loader = DataLoader(
        batches, batch_size=None, num_workers=course.workers, prefetch_factor=4 if course.workers else None
    )
    chosen, mean = optimiser(model, course.rate, device), copy.deepcopy(model)
    decay = min(DECAY, 1 - 4 / course.steps)
    model.train()
    begin = time.monotonic()
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
            torch._foreach_lerp_(list(mean.parameters()), list(model.parameters()), 1 - min(decay, step / (step + 10)))
        if step % 500 == 0:
            print(f"  step {step}, {time.monotonic() - begin:.0f} s, loss {float(loss.detach()):.3f}", flush=True)
    print(f"  {step + 1} steps of {course.groups} groups in {time.monotonic() - begin:.0f} s", flush=True)
    return mean.eval()
