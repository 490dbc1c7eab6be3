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
RIGHT = {"there": 0.8, "share": 1.5, "fit": 0.8, "unnamed": -2.0}
RIGHT_INTERCEPT = -1.0

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
