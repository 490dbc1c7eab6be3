"""Do the boxes of known sentences lie where the sentences are? `python benchmarks/boxes.py`

Truth: the advance width of each line by the ascent and descent in the font's metrics file, on the page as displayed
(tests/pdf_samples.py). IoU is taken over the union of a sentence's lines. Bar: the page right in all, IoU ≥ .8 in all.
"""

from __future__ import annotations

import sys
from pathlib import Path

from refdesk.geometry import boxes_between
from refdesk.ingest.parsers.options import ParseOptions
from refdesk.ingest.parsers.pdf import parse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from pdf_samples import Sample, overlap, samples

BAR = 0.8


def measure(sample: Sample) -> tuple[int, int, list[float]]:
    """(sentences found, sentences on the right pages, IoU of each)."""
    parsed = parse(sample.data, ParseOptions())
    assert parsed.geometry is not None
    found = right = 0
    scores = []
    for truth in sample.truths:
        start = parsed.text.find(truth.sentence)
        if start < 0:
            scores.append(0.0)
            continue
        found += 1
        boxes = boxes_between(parsed.geometry, start, start + len(truth.sentence))
        right += [box.page for box in boxes] == [box[0] for box in truth.boxes]
        edges = [(box.page, box.x, box.y, box.x + box.width, box.y + box.height) for box in boxes]
        scores.append(overlap(edges, list(truth.boxes)))
    return found, right, scores


def main() -> int:
    print("| PDF | sentences | found | page right | IoU min | IoU mean |\n|---|---|---|---|---|---|")
    every: list[float] = []
    wrong = 0
    for sample in samples():
        found, right, scores = measure(sample)
        every += scores
        wrong += len(sample.truths) - right
        mean = sum(scores) / len(scores)
        print(f"| {sample.name} | {len(scores)} | {found} | {right} | {min(scores):.3f} | {mean:.3f} |")
    mean = sum(every) / len(every)
    print(f"| **all** | {len(every)} | | {len(every) - wrong} | {min(every):.3f} | {mean:.3f} |")
    return 0 if wrong == 0 and min(every) >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
