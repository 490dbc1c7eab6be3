"""Fitted numbers, written by `python -m benchmarks.calibration --fit`; not by hand."""

from __future__ import annotations

# Was the right passage found? Logistic weights of the features in relevance.py.
FOUND = {"best": 3.7, "gap": 8.43, "cosine": 6.53, "unnamed": -2.25}
FOUND_INTERCEPT = -6.04

# Share of right answers (second) among those with this probability (first), straight lines between.
CONFIDENCE = (
    (0.0, 0.0),
    (0.114, 0.181),
    (0.296, 0.253),
    (0.452, 0.422),
    (0.599, 0.494),
    (0.71, 0.518),
    (0.779, 0.59),
    (0.83, 0.747),
    (0.871, 0.831),
    (0.905, 0.939),
    (1.0, 0.939),
)
