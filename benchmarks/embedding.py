"""How much of plain onnxruntime's speed is left when chunks and their sentences are embedded?

    python -m benchmarks.embedding [DATA]

Both read the same texts with the same model file on one thread, in turns. Plain means what one would write first and
then tune: tokenise all, sort by length, pad batches to their longest text, run, take the masked mean; the best of
several batch sizes counts. The embedder also gives a vector per sentence. Bar: at least .9 of plain.
"""

from __future__ import annotations

import json
import os
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from benchmarks.common import DATA, Figure, write
from refdesk.providers.shipped import ASSETS, MODEL_FILE, TOKENIZER_FILE, OnnxEmbedder
from refdesk.types import Chunk, Sentence

Embed = Callable[[list[str]], NDArray[np.float32]]

CORPORA = ("scifact", "cranfield", "squad_dev11")
BATCH_SIZES = (1, 4, 8, 32)
ROUNDS, TEXTS_PER_ROUND = 10, 32
QUESTION = "Which pump failed in the third quarter of last year?"


def sample(data: Path) -> list[str]:
    """Texts of 30 to 200 words, the same ones each time."""
    texts = {
        text
        for corpus in CORPORA
        for line in (data / "retrieval" / corpus / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        if 30 <= len((text := json.loads(line)["text"]).split()) <= 200
    }
    return random.Random(7).sample(sorted(texts), ROUNDS * TEXTS_PER_ROUND)


def as_chunk(text: str) -> Chunk:
    sentences = tuple(Sentence(found.start(), found.end(), 1) for found in re.finditer(r"[^.!?]+[.!?]*", text))
    return Chunk("document", 1, "text", text, (), (1,), (), sentences, 0)


def plain(batch_size: int, threads: int = 1) -> Embed:
    """Sorted, padded batches straight through onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(ASSETS / MODEL_FILE, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(ASSETS / TOKENIZER_FILE))
    tokenizer.enable_truncation(OnnxEmbedder.max_tokens)

    def embed(texts: list[str]) -> NDArray[np.float32]:
        encoded = tokenizer.encode_batch(texts)
        order = sorted(range(len(encoded)), key=lambda number: len(encoded[number]))
        vectors = np.zeros((len(texts), OnnxEmbedder.dimensions), dtype=np.float32)
        for first in range(0, len(order), batch_size):
            batch = [encoded[number] for number in order[first : first + batch_size]]
            ids = np.zeros((len(batch), len(batch[-1])), dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, one in enumerate(batch):
                ids[row, : len(one)] = one.ids
                mask[row, : len(one)] = 1
            (states,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
            means = (states * mask[:, :, None]).sum(axis=1, dtype=np.float32) / mask.sum(axis=1, keepdims=True)
            vectors[order[first : first + batch_size]] = means / np.linalg.norm(means, axis=1, keepdims=True)
        return vectors

    return embed


def ours(threads: int) -> Embed:
    embedder = OnnxEmbedder(threads=threads)

    def embed(texts: list[str]) -> NDArray[np.float32]:
        return np.stack([embedded.vector for embedded in embedder.embed_chunks([as_chunk(text) for text in texts])])

    return embed


def query_p50_ms() -> float:
    embedder = OnnxEmbedder(threads=1)
    times = []
    for _ in range(60):
        started = time.perf_counter()
        embedder.embed_query(QUESTION)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


def race(contenders: dict[str, Embed], texts: list[str], clock: Callable[[], float]) -> dict[str, float]:
    """Texts per second of each; they take turns on the same texts, and nobody always goes first."""
    for embed in contenders.values():
        embed(texts[:4])
    seconds = dict.fromkeys(contenders, 0.0)
    names, size = list(contenders), TEXTS_PER_ROUND
    for number in range(ROUNDS):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            started = clock()
            contenders[name](texts[number * size : (number + 1) * size])
            seconds[name] += clock() - started
    return {name: ROUNDS * size / spent for name, spent in seconds.items()}


def run(data: Path = DATA) -> list[tuple[str, str]]:
    """Rows of (what, figure) for the table of `make bench`."""
    texts = sample(data)
    contenders = {f"plain, batches of {size}": plain(size) for size in BATCH_SIZES} | {"embedder": ours(1)}
    speeds = race(contenders, texts, time.process_time)  # processor time: neighbours on the machine do not count
    best = max(speed for name, speed in speeds.items() if name != "embedder")
    rows = [(f"embedding, {name}: chunks/s, one thread", f"{speed:.1f}") for name, speed in speeds.items()]
    rows.append(("embedding, embedder with sentences / best plain", f"{speeds['embedder'] / best:.3f}"))
    part = texts[:TEXTS_PER_ROUND]
    for size in BATCH_SIZES[1:]:
        cosines = (contenders["embedder"](part) * contenders[f"plain, batches of {size}"](part)).sum(axis=1)
        rows.append((f"cosine of a chunk alone to itself in a batch of {size}, min", f"{cosines.min():.4f}"))
    cores = os.cpu_count() or 1
    whole = {f"embedder, {cores} threads": ours(cores), f"plain, one pass on {cores} threads": plain(1, cores)}
    for name, speed in race(whole, texts, time.perf_counter).items():
        rows.append((f"embedding, {name}: chunks/s", f"{speed:.1f}"))
    rows.append(("embedding of a question, p50 ms", f"{query_p50_ms():.2f}"))
    return rows


def main() -> None:
    rows = run(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    judged = []
    for what, figure in rows:
        is_ratio = " / best plain" in what
        judged.append(Figure(what, figure, "≥ .9" if is_ratio else "", float(figure) >= 0.9 if is_ratio else None))
    write("embedding", "Speed of embedding", judged)


if __name__ == "__main__":
    main()
