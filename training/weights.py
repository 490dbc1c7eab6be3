"""Weights of a BERT-like encoder in a small file: matrices as int8 with a scale for each row, the rest as float16.

Training starts from them, so what rounding takes is learned again; the file is a quarter of the original.
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
