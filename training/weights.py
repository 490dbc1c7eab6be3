"""Where does training begin? Weights of a BERT-like encoder in a small file, or those of a reader that shipped.

The small file has matrices as int8 with a scale for each row, the rest as float16. What rounding takes is learned
again; the file is a quarter of the original.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.float32]]


def pack_weights(safetensors: Path, target: Path) -> None:
    from safetensors.numpy import load_file

    packed = {}
    for name, array in load_file(safetensors).items():
        if array.ndim != 2:
            if array.dtype.kind == "f":
                packed[name] = array.astype(np.float16)
            continue
        scale = np.abs(array).max(axis=1, keepdims=True) / 127 + 1e-12
        packed[f"{name}:int8"] = np.rint(array / scale).astype(np.int8)
        packed[f"{name}:scale"] = scale.astype(np.float32)
    np.savez_compressed(target, **packed)


def read_weights(path: Path) -> Arrays:
    found: Arrays = {}
    with np.load(path) as packed:
        for key in packed.files:
            name, _, part = key.partition(":")
            if part == "int8":
                found[name] = packed[key].astype(np.float32) * packed[f"{name}:scale"]
            elif not part:
                found[name] = packed[key].astype(np.float32)
    return found


def read_shipped(path: Path) -> Arrays:
    """The weights of a reader from its int8 file, by the names of `model.Reader`.

    The products stand in the order of the layers; what was evened out between them (`export.smooth`) is taken back.
    """
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    arrays = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    whole = {
        name.removesuffix("_quantized"): (arrays[name].astype(np.float32) * arrays[f"{name[:-10]}_scale"]).T
        for name in arrays
        if name.endswith("_quantized")
    }
    unnamed = sorted((name for name in whole if "MatMul_" in name), key=lambda name: int(name.split("_")[1]))
    products = iter([whole[name] for name in unnamed])
    count = 1 + max(int(name.split(".")[1]) for name in arrays if name.startswith("layers."))
    found = {"words.weight": arrays["words.table"].astype(np.float32) * arrays["words.scale"]}
    for number in range(count):
        for part in ("attention", "mix", "widen", "narrow"):
            name, weight = f"layers.{number}.{part}", next(products)
            inverse = arrays.get(f"{name}.inverse")
            found[f"{name}.weight"] = weight if inverse is None else weight * inverse
            found[f"{name}.bias"] = arrays[f"{name}.bias" if inverse is None else f"{name}.linear.bias"]
    found["span.weight"] = next(products)
    found |= {f"{part}.weight": whole[f"{part}.weight"] for part in ("pooler", "judge")}
    found |= {f"{part}.bias": arrays[f"{part}.bias"] for part in ("pooler", "judge", "span")}
    plain = ("positions", "types", "norm.weight", "norm.bias")
    norms = (f"layers.{number}.{part}_norm.{which}"
             for number in range(count) for part in ("mix", "narrow") for which in ("weight", "bias"))  # fmt: skip
    return found | {name: arrays[name] for name in (*plain, *norms)}
