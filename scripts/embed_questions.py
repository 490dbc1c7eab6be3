"""Writes the vectors of the labelled questions: src/refdesk/assets/questions.npy, int8, one row per question.

python scripts/embed_questions.py   (after a change of questions.json or of the shipped embedder)
"""

from __future__ import annotations

import numpy as np

from refdesk.ask.classify import ASSETS, VECTORS_FILE, questions
from refdesk.providers.shipped import OnnxEmbedder


def main() -> None:
    embedder = OnnxEmbedder(threads=1)
    vectors = np.stack([embedder.embed_query(text) for _, text in questions()])
    scaled = np.round(vectors / np.abs(vectors).max() * 127).astype(np.int8)
    np.save(ASSETS / VECTORS_FILE, scaled)
    print(f"{scaled.shape[0]} questions, {scaled.nbytes / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
