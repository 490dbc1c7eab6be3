"""Fitted numbers, written by `python -m benchmarks.calibration --fit`; not by hand."""

from __future__ import annotations

# Was the right passage found? Logistic weights of the features in relevance.py.
FOUND = {"best": 2.0, "gap": 8.0, "cosine": 4.0, "unnamed": -2.0}
FOUND_INTERCEPT = -4.0

# Share of right answers (second) among those with this probability (first), straight lines between.
CONFIDENCE = ((0.0, 0.0), (1.0, 1.0))
