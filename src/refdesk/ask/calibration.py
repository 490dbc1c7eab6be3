"""Fitted numbers, written by `python -m benchmarks.calibration --fit`; not by hand."""

from __future__ import annotations

# Was the right passage found? Logistic weights of the features in relevance.py.
FOUND = {"best": 3.7, "gap": 8.43, "cosine": 6.53, "unnamed": -2.25}
FOUND_INTERCEPT = -6.04

# Share of right answers (second) among those with this probability (first), straight lines between.
CONFIDENCE = (
    (0.0, 0.0),
    (0.134, 0.19),
    (0.331, 0.305),
    (0.506, 0.438),
    (0.634, 0.457),
    (0.725, 0.519),
    (0.786, 0.548),
    (0.832, 0.663),
    (0.872, 0.731),
    (0.906, 0.846),
    (1.0, 0.846),
)
