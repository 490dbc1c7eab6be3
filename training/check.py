"""Is the shipped file as good as what was trained, and how fast is it? On one thread, as the product runs it.

python -m training.check WORK/reader.int8.onnx FOUND SAID [QUESTIONS]
"""

from __future__ import annotations

import json
import lzma
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

OPENING, CLOSING, LENGTH, QUESTION, TITLE, SPAN = 101, 102, 256, 48, 20, 30
TOKENIZER = Path(__file__).parent.parent / "src" / "refdesk" / "assets" / "tokenizer.json"


class Session:
    """Reads one pair at a time: a batch would share the scales its activations are rounded by."""

    def __init__(self, model: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER))
        self._tokenizer.encode_special_tokens = True

    def read(self, question: str, title: str, text: str) -> tuple[float, float, float, str]:
        """(relevant, answered, score of the best answer, the answer)"""
        asked, head, body = (self._tokenizer.encode(one, add_special_tokens=False) for one in (question, title, text))
        first, second = asked.ids[:QUESTION], head.ids[:TITLE]
        window = body.ids[: LENGTH - 3 - len(first) - len(second)]
        judged, start, end = self.run([OPENING, *first, CLOSING, *second, *window, CLOSING], len(first) + 2)
        begin = len(first) + 2 + len(second)
        starts, ends = start[begin : begin + len(window)], end[begin : begin + len(window)]
        scores = starts[:, None] + ends[None, :]
        places = np.arange(len(window))
        away = places[None, :] - places[:, None]
        scores[(away < 0) | (away >= SPAN)] = -1e4
        low, high = np.unravel_index(int(scores.argmax()), scores.shape)
        answer = text[body.offsets[low][0] : body.offsets[high][1]]
        return float(judged[0]), float(judged[1]), float(scores[low, high]), answer

    def run(self, ids: list[int], second: int) -> list[Any]:
        """Judgements, starts and ends of one pair; the second text begins at token `second`."""
        row = np.array([ids], dtype=np.int64)
        types = (np.arange(len(ids)) >= second).astype(np.int64)[None]
        mask = np.ones((1, len(ids)), dtype=np.float32)
        given = {"input_ids": row, "token_types": types, "attention_mask": mask}
        return [one[0] for one in self._session.run(None, given)]


def main() -> None:
    from training.measure import f1

    model, found, said = (Path(one) for one in sys.argv[1:4])
    most = int(sys.argv[4]) if len(sys.argv) > 4 else 300
    session = Session(model)
    kept = json.loads(lzma.decompress(found.read_bytes()))["squad_dev11"]
    before = json.loads(lzma.decompress(said.read_bytes()))["squad_dev11"]
    step = len(kept["questions"]) // most
    pairs, ours, theirs = [], [], []
    for row, own in list(zip(kept["questions"], before, strict=True))[::step]:
        name = row["relevant"][0]
        passage = kept["passages"][name]
        relevant, answered, _, answer = session.read(row["text"], passage["title"], passage["text"])
        ours.append(f1(answer, row["answers"]))
        theirs.append(f1(passage["text"][own[name][4] : own[name][5]], row["answers"]))
        pairs.append((relevant - own[name][0], answered - own[name][1]))
    apart = np.abs(np.array(pairs)).mean(axis=0)
    print(f"gold passage F1, {len(ours)} questions: int8 {np.mean(ours):.4f}, before {np.mean(theirs):.4f}")
    print(f"mean distance of the logits: relevant {apart[0]:.3f}, answered {apart[1]:.3f}")
    for size in (64, 128, 256):
        ids = [OPENING, *range(2000, 2000 + size - 2), CLOSING]
        times = []
        for _ in range(30):
            begin = time.thread_time()
            session.run(ids, 14)
            times.append((time.thread_time() - begin) * 1000)
        print(f"{size} tokens: {min(times):.1f} ms of the processor")


if __name__ == "__main__":
    main()
