"""A real cross-encoder, small enough to be written byte by byte: it adds up what each word of the passage is worth.

The `onnx` package is not needed for it: a model file is a protobuf message, and these are the few fields it takes
(onnx/onnx.proto: ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, ValueInfoProto).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "anchor", "iron", "lunch", "fish")
WORTH = (0.0, 0.0, 0.0, 0.0, 2.0, 1.0, -2.0, -1.0)


def write_reranker(
    folder: Path, inputs: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids"), columns: int = 1
) -> Path:
    """`columns` is how many values the model gives for each pair."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(_model(inputs, columns))
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def write_colbert(folder: Path, columns: int = 4) -> Path:
    """A model that gives each word a vector of its own, whatever stands beside it."""
    write_reranker(folder)
    worths = [[float(column == number % columns) for column in range(columns)] for number in range(len(WORDS))]
    table = b"".join(struct.pack("<f", value) for row in worths for value in row)
    graph = _field(1, _node("Gather", ("worth", "input_ids"), "each")) + _field(2, b"g")
    graph += _field(5, _tensor("worth", FLOAT, (len(WORDS), columns), table))
    graph += _field(11, _value("input_ids", INT64, ("texts", "words")))
    graph += _field(12, _value("each", FLOAT, ("texts", "words", columns)))
    (folder / "model.onnx").write_bytes(_number(1, 8) + _field(8, _number(2, 13)) + _field(7, graph))
    return folder


def _model(inputs: Sequence[str], columns: int) -> bytes:
    """Gather the worth of each word, keep that of the passage's words, sum."""
    table = b"".join(struct.pack("<f", worth * (column + 1)) for worth in WORTH for column in range(columns))
    tensors = [_tensor("worth", FLOAT, (len(WORTH), columns), table), _tensor("axis", INT64, (1,), _int64(1))]
    tensors.append(_tensor("last", INT64, (1,), _int64(2)))
    nodes = [_node("Gather", ("worth", inputs[0]), "each")]
    last = "each"
    for name in inputs[1:]:
        nodes.append(_node("Cast", (name,), f"{name}_float", _attribute("to", FLOAT)))
        nodes.append(_node("Unsqueeze", (f"{name}_float", "last"), f"{name}_column"))
        nodes.append(_node("Mul", (last, f"{name}_column"), f"after_{name}"))
        last = f"after_{name}"
    nodes.append(_node("ReduceSum", (last, "axis"), "score", _attribute("keepdims", 0)))
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"g") + b"".join(_field(5, one) for one in tensors)
    graph += b"".join(_field(11, _value(name, INT64, ("pairs", "words"))) for name in inputs)
    graph += _field(12, _value("score", FLOAT, ("pairs", columns)))
    return _number(1, 8) + _field(8, _number(2, 13)) + _field(7, graph)


def _node(operation: str, inputs: Sequence[str], output: str, attribute: bytes = b"") -> bytes:
    told = b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode())
    return told + _field(4, operation.encode()) + (_field(5, attribute) if attribute else b"")


def _attribute(name: str, value: int) -> bytes:
    return _field(1, name.encode()) + _number(3, value) + _number(20, 2)  # 2: an integer


def _tensor(name: str, kind: int, shape: Sequence[int], data: bytes) -> bytes:
    return b"".join(_number(1, size) for size in shape) + _number(2, kind) + _field(8, name.encode()) + _field(9, data)


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = (_field(2, one.encode()) if isinstance(one, str) else _number(1, one) for one in shape)
    dimensions = b"".join(_field(1, one) for one in sizes)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, dimensions)))


def _int64(value: int) -> bytes:
    return struct.pack("<q", value)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


@cache
def adds_exactly() -> bool:
    """Whether this processor adds 8-bit products without saturating; if not, embeddings differ (docs/embedding.md)."""
    size = 64
    graph = _field(1, _node("MatMulInteger", ("row", "table"), "sum")) + _field(2, b"g")
    graph += _field(5, _tensor("table", INT8, (size, size), struct.pack("b", 127) * size * size))
    graph += _field(11, _value("row", UINT8, (1, size))) + _field(12, _value("sum", INT32, (1, size)))
    model = _number(1, 8) + _field(8, _number(2, 13)) + _field(7, graph)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"row": np.full((1, size), 255, dtype=np.uint8)})
    return bool((found == 255 * 127 * size).all())
