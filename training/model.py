"""The reader as a network: an encoder over [CLS] question [SEP] passage [SEP], and what it says of the pair.

One class for both sizes: MiniLM (6 layers, 384 wide), which ships, and MPNet (12 layers, 768 wide), which teaches. Both
know the same word pieces; MPNet numbers them four higher (`for_teacher`). The network is written out so that it exports
to the same ONNX graph whatever the version of transformers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.weights import Arrays

LENGTH = 256  # tokens of question and passage together
HEADS = 12  # of attention, in both sizes
JUDGEMENTS = ("relevant", "answered", "supported", "planned")
RELEVANT, ANSWERED, SUPPORTED, PLANNED = range(len(JUDGEMENTS))


class Read(NamedTuple):
    """What the network says: four logits a pair, and for each token whether the answer starts or ends there."""

    judged: Tensor  # pairs × judgements
    start: Tensor  # pairs × tokens
    end: Tensor


class Layer(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.attention, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mix_norm, self.narrow_norm = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)

    def forward(self, states: Tensor, bias: Tensor, drop: float) -> Tensor:
        pairs, tokens, width = states.shape
        parts = self.attention(states).view(pairs, tokens, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        if torch.onnx.is_in_onnx_export():
            scores = torch.matmul(parts[0], parts[1].transpose(-1, -2)) / (width // HEADS) ** 0.5 + bias
            mixed = torch.matmul(torch.softmax(scores, -1), parts[2])
        else:
            mixed = functional.scaled_dot_product_attention(
                parts[0], parts[1], parts[2], attn_mask=bias.to(parts.dtype), dropout_p=drop
            )
        mixed = self.mix(mixed.transpose(1, 2).reshape(pairs, tokens, width))
        states = self.mix_norm(states + functional.dropout(mixed, drop, self.training))
        widened = self.narrow(functional.gelu(self.widen(states)))
        return self.narrow_norm(states + functional.dropout(widened, drop, self.training))


class Reader(nn.Module):
    """Begins with the weights of a sentence encoder; what it has none of begins at nought or by chance."""

    def __init__(self, weights: Arrays, drop: float = 0.1) -> None:
        super().__init__()
        is_teacher = "encoder.relative_attention_bias.weight" in weights
        width = weights["embeddings.word_embeddings.weight"].shape[1]
        eps = 1e-5 if is_teacher else 1e-12
        self.drop, self.is_teacher = drop, is_teacher
        get = lambda name: torch.from_numpy(weights[name])  # noqa: E731
        self.words = nn.Embedding.from_pretrained(get("embeddings.word_embeddings.weight"), freeze=True)
        first = 2 if is_teacher else 0  # MPNet's positions begin behind its padding
        self.positions = nn.Parameter(get("embeddings.position_embeddings.weight")[first : first + LENGTH].clone())
        types = weights.get("embeddings.token_type_embeddings.weight")
        self.types = nn.Parameter(torch.zeros(2, width) if types is None else torch.from_numpy(types))
        self.norm = nn.LayerNorm(width, eps)
        self.norm.load_state_dict({part: get(f"embeddings.LayerNorm.{part}") for part in ("weight", "bias")})
        count = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
        self.layers = nn.ModuleList(Layer(width, eps) for _ in range(count))
        names = _NAMES["teacher" if is_teacher else "student"]
        for number, layer in enumerate(self.layers):
            for own, theirs in names.items():
                for part in ("weight", "bias"):
                    found = [get(f"encoder.layer.{number}.{one}.{part}") for one in theirs]
                    getattr(getattr(layer, own), part).data = torch.cat(found).contiguous()
        if is_teacher:
            self.relative = nn.Parameter(get("encoder.relative_attention_bias.weight").clone())
            self.register_buffer("buckets", _buckets(LENGTH), persistent=False)
        self.pooler = nn.Linear(width, width)
        self.pooler.load_state_dict({part: get(f"pooler.dense.{part}") for part in ("weight", "bias")})
        self.judge, self.span = nn.Linear(width, len(JUDGEMENTS)), nn.Linear(width, 2)
        for head in (self.judge, self.span):
            nn.init.normal_(head.weight, std=0.02)
            nn.init.zeros_(head.bias)

    def states(self, ids: Tensor, types: Tensor, mask: Tensor) -> Tensor:
        tokens = ids.shape[1]
        states = self.words(ids) + self.positions[:tokens] + functional.embedding(types, self.types)
        states = functional.dropout(self.norm(states), self.drop, self.training)
        bias = (1.0 - mask[:, None, None, :].to(states.dtype)) * -10000.0
        if self.is_teacher:
            bias = bias + self.relative[self.buckets[:tokens, :tokens]].permute(2, 0, 1)[None]
            bias = bias.contiguous()  # else attention falls back to plain float32 products, three times as slow
        if not torch.onnx.is_in_onnx_export() and states.is_cuda:
            bias = bias.to(torch.bfloat16)
        drop = self.drop if self.training else 0.0
        for layer in self.layers:
            states = layer(states, bias, drop)
        return states

    def forward(self, ids: Tensor, types: Tensor, mask: Tensor) -> Read:
        states = self.states(ids, types, mask)
        pooled = functional.dropout(torch.tanh(self.pooler(states[:, 0])), self.drop, self.training)
        spans = self.span(states)
        return Read(self.judge(pooled), spans[..., 0], spans[..., 1])


def for_teacher(ids: Tensor) -> Tensor:
    """MiniLM's word pieces as MPNet numbers them; [CLS], [SEP] and [PAD] have names of their own there."""
    moved = ids + 4
    for theirs, own in ((0, 101), (2, 102), (1, 0)):
        moved = torch.where(ids == own, theirs, moved)
    return moved


_NAMES = {
    "student": {
        "attention": [f"attention.self.{part}" for part in ("query", "key", "value")],
        "mix": ["attention.output.dense"],
        "mix_norm": ["attention.output.LayerNorm"],
        "widen": ["intermediate.dense"],
        "narrow": ["output.dense"],
        "narrow_norm": ["output.LayerNorm"],
    },
    "teacher": {
        "attention": [f"attention.attn.{part}" for part in "qkv"],
        "mix": ["attention.attn.o"],
        "mix_norm": ["attention.LayerNorm"],
        "widen": ["intermediate.dense"],
        "narrow": ["output.dense"],
        "narrow_norm": ["output.LayerNorm"],
    },
}


def _buckets(tokens: int, count: int = 16, furthest: int = 128) -> Tensor:
    """MPNet's classes of distance: one each for near ones, logarithmic for far ones; both directions apart."""
    places = torch.arange(tokens)
    distance = places[:, None] - places[None, :]
    far, exact = distance.abs(), count // 2
    steps = torch.log(far.clamp(min=1).float() / exact) / math.log(furthest / exact) * (count - exact)
    large = (exact + steps.long()).clamp(max=count - 1)
    return (distance < 0).long() * count + torch.where(far < exact, far, large)
