"""The reader and the judge as int8 ONNX: ids, types and mask in; judgements, start and end out.

Activations of the feed-forward layers have a few very large channels, which take the precision of all others when a
whole tensor shares one scale. They are evened out first ("smoothed"): each channel is divided by its largest value to a
power, and the weights are multiplied by the same, so that the network computes what it did.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from training.examples import Pair, tensors
from training.model import LENGTH, Reader

POWER = 0.8  # of the activations against the weights; MEASUREMENTS §14
INPUTS, OUTPUTS = ("input_ids", "token_types", "attention_mask"), ("judged", "start", "end")


class Evened(nn.Module):
    """A linear layer whose input channels are scaled before and whose weights are scaled back."""

    def __init__(self, linear: nn.Linear, largest: Tensor) -> None:
        super().__init__()
        weights = linear.weight.detach().abs().amax(0).clamp(min=1e-5)
        scale = (largest.clamp(min=1e-5) ** POWER / weights ** (1 - POWER)).clamp(min=1e-3)
        self.register_buffer("inverse", 1.0 / scale)
        self.linear = nn.Linear(linear.in_features, linear.out_features)
        self.linear.weight.data = linear.weight.detach() * scale
        self.linear.bias.data = linear.bias.detach().clone()

    def forward(self, states: Tensor) -> Tensor:
        return self.linear(states * self.inverse)


class Words(nn.Module):
    """The word vectors as they were packed: int8, one scale for each; nothing is rounded a second time."""

    def __init__(self, words: nn.Embedding) -> None:
        super().__init__()
        scale = words.weight.detach().abs().amax(1, keepdim=True) / 127 + 1e-12
        self.register_buffer("scale", scale)
        self.register_buffer("table", torch.round(words.weight.detach() / scale).to(torch.int8))

    def forward(self, ids: Tensor) -> Tensor:
        return self.table[ids].to(torch.float32) * self.scale[ids]


@torch.no_grad()
def smooth(model: Reader, pairs: Sequence[Pair]) -> None:
    """Replaces the feed-forward layers in place; the pairs show how large activations get."""
    largest: dict[nn.Module, Tensor] = {}

    def note(module: nn.Module, given: tuple[Tensor, ...], _: Tensor) -> None:
        now = given[0].abs().flatten(0, -2).amax(0)
        largest[module] = torch.maximum(largest.get(module, now), now)

    layers = [(layer, name) for layer in model.layers for name in ("widen", "narrow")]
    hooks = [getattr(layer, name).register_forward_hook(note) for layer, name in layers]
    for pair in pairs:
        part = tensors([pair])
        size = int(part["mask"].sum())
        model(part["ids"][:, :size], part["types"][:, :size], part["mask"][:, :size])
    for hook in hooks:
        hook.remove()
    for layer, name in layers:
        setattr(layer, name, Evened(getattr(layer, name), largest[getattr(layer, name)]))


def export(model: Reader, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = model.cpu().float().eval()
    model.words = Words(model.words)
    ids = torch.randint(1000, 20000, (2, 17))
    mask = torch.ones(2, 17)
    mask[1, 10:] = 0
    with tempfile.TemporaryDirectory() as folder:
        whole, prepared = Path(folder, "fp32.onnx"), Path(folder, "prepared.onnx")
        torch.onnx.export(
            model,
            (ids, torch.zeros_like(ids), mask),
            str(whole),
            dynamo=False,
            opset_version=17,
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
            dynamic_axes={name: {0: "pairs", 1: "tokens"} for name in (*INPUTS, *OUTPUTS[1:])}
            | {"judged": {0: "pairs"}},
        )
        quant_pre_process(str(whole), str(prepared), skip_symbolic_shape=True)
        quantize_dynamic(str(prepared), str(target), op_types_to_quantize=["MatMul"], weight_type=QuantType.QInt8,
                         per_channel=True)  # fmt: skip
    print(f"{target.name}: {target.stat().st_size / 1e6:.1f} MB, up to {LENGTH} tokens", flush=True)


def share_words(model: Path, host: Path, target: Path) -> None:
    """The model without its word vectors: they are read where the same ones stand in another file beside it.

    Other large arrays were kept as float16 in training and are so in the file. Only the judgements are given out.
    """
    import numpy as np
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(model))
    held = host.read_bytes()
    for kept in list(graph.graph.initializer):
        if kept.data_type == onnx.TensorProto.INT8 and len(kept.raw_data) > 30_000 * 384:
            place, size = held.find(kept.raw_data), len(kept.raw_data)
            if place < 0:
                raise ValueError(f"{host.name} holds other word vectors")
            kept.ClearField("raw_data")
            kept.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", host.name), ("offset", place), ("length", size)):
                entry = kept.external_data.add()
                entry.key, entry.value = key, str(value)
        elif kept.data_type == onnx.TensorProto.FLOAT and len(kept.raw_data) > 300_000:
            half = numpy_helper.from_array(numpy_helper.to_array(kept).astype(np.float16), f"{kept.name}.half")
            graph.graph.initializer.append(half)
            graph.graph.node.insert(
                0, onnx.helper.make_node("Cast", [half.name], [kept.name], to=onnx.TensorProto.FLOAT)
            )
            graph.graph.initializer.remove(kept)
    for one in list(graph.graph.output)[1:]:
        graph.graph.output.remove(one)
    target.write_bytes(graph.SerializeToString())
    print(f"{target.name}: {target.stat().st_size / 1e6:.2f} MB beside {host.name}", flush=True)


def follow_words(judge: Path, host: Path, new: Path, target: Path) -> None:
    """The judge beside a reader made anew: the word vectors are the same, but stand elsewhere in the new file."""
    import onnx

    graph = onnx.load(str(judge), load_external_data=False)
    (kept,) = (one for one in graph.graph.initializer if one.data_location == onnx.TensorProto.EXTERNAL)
    named = {one.key: one for one in kept.external_data}
    place, size = int(named["offset"].value), int(named["length"].value)
    found = new.read_bytes().find(host.read_bytes()[place : place + size])
    if found < 0:
        raise ValueError(f"{new.name} holds other word vectors than {host.name}; make the judge anew")
    named["offset"].value = str(found)
    target.write_bytes(graph.SerializeToString())
