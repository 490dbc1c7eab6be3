"""One part of a batch through the network."""

from __future__ import annotations

import torch
from torch import Tensor

from training.model import Read, Reader, for_teacher

HIDDEN = -1e4  # logit of a token that is not of the passage


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
