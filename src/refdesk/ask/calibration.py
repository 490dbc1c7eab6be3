"""Fitted numbers, written by `python -m benchmarks.calibration --fit`; not by hand."""

from __future__ import annotations

RELEVANCE = {"best": 3.0, "gap": 5.0}
RELEVANCE_INTERCEPT = -3.0
