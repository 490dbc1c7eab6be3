"""Fitted numbers, written by `python -m benchmarks.calibration --fit`; not by hand."""

from __future__ import annotations

# Was the right passage found? Logistic weights of the features in relevance.py.
FOUND = {"best": 1.21, "gap": 9.75, "cosine": 4.86, "unnamed": -1.29}
FOUND_INTERCEPT = -4.48

# Share of right answers (second) among those with this probability (first), straight lines between.
CONFIDENCE = (
    (0.0, 0.0),
    (0.133, 0.19),
    (0.292, 0.257),
    (0.412, 0.39),
    (0.515, 0.419),
    (0.601, 0.5),
    (0.677, 0.587),
    (0.753, 0.683),
    (0.826, 0.76),
    (0.887, 0.913),
    (1.0, 0.913),
)
