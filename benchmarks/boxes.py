"""Do the boxes of known sentences lie where the sentences are? `python -m benchmarks.boxes`

Truth: the advance width of each line by the ascent and descent in the font's metrics file, on the page as displayed
(tests/pdf_samples.py). IoU is taken over the union of a sentence's lines. Bar: the page right in all, IoU ≥ .8 in all.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.common import Figure, write
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.pdf import parse
from refdesk.types import boxes_between

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


def main() -> None:
    figures: list[Figure] = []
    every: list[float] = []
    wrong = 0
    for sample in samples():
        found, right, scores = measure(sample)
        every += scores
        wrong += len(sample.truths) - right
        mean = sum(scores) / len(scores)
        shown = (
            f"{right} of {len(scores)} on the right page; IoU {min(scores):.3f} to {max(scores):.3f}, mean {mean:.3f}"
        )
        figures.append(Figure(sample.name, shown, met=None if found == len(scores) else False))
    mean = sum(every) / len(every)
    head = [
        Figure("sentences on the right page", f"{len(every) - wrong} of {len(every)}", "all", wrong == 0),
        Figure("IoU with the truth, least", f"{min(every):.3f} (mean {mean:.3f})", f"≥ {BAR}", min(every) >= BAR),
    ]
    truth = "Truth: the advance width of each line by the ascent and descent of the font's metrics file, as displayed."
    write("boxes", f"Boxes of known sentences in {len(figures)} generated PDFs", head + figures, [truth])


if __name__ == "__main__":
    main()
