"""Learned numbers, written by `python -m benchmarks.calibration --fit`; not by hand."""

from __future__ import annotations

# Is this the sentence that answers? Log-odds weights of the columns in weigh.py.
SENTENCE = {
    "cosine": 7.61,
    "coverage": 7.21,
    "proximity": 1.48,
    "fit": 2.11,
    "passage": 2.34,
    "passage_cosine": 4.17,
    "passage_coverage": 2.91,
    "row": -2.42,
    "number": 1.0,
    "row_number": 5.3,
}

# Was the right passage found? Logistic weights of the features in relevance.py.
FOUND = {"best": 2.84, "gap": 8.66, "cosine": 6.2, "unnamed": -0.97}
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
