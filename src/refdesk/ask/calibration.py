"""Learned numbers, written by `python -m benchmarks.calibration --fit`; not by hand."""

from __future__ import annotations

# Is this the sentence that answers? Log-odds weights of the columns in weigh.py.
SENTENCE = {
    "cosine": 6.67,
    "coverage": 6.68,
    "proximity": 0.95,
    "fit": 1.43,
    "passage": 1.46,
    "passage_cosine": 3.26,
    "passage_coverage": 3.11,
}

# Was the right passage found? Logistic weights of the features in relevance.py.
FOUND = {"best": 2.14, "gap": 8.98, "cosine": 7.01, "unnamed": -1.22}
FOUND_INTERCEPT = -6.34

# Is what is quoted right? Logistic weights of the features in confidence.py.
RIGHT = {"there": 0.66, "share": 3.79}
RIGHT_INTERCEPT = -1.94

# Share of right answers (second) among those with this probability (first), straight lines between.
CONFIDENCE = (
    (0.0, 0.0),
    (0.094, 0.091),
    (0.225, 0.25),
    (0.37, 0.364),
    (0.523, 0.508),
    (0.665, 0.659),
    (0.766, 0.689),
    (0.828, 0.809),
    (0.87, 0.931),
    (0.907, 0.947),
    (1.0, 0.947),
)
