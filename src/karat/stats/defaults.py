"""How intervals and tests are computed unless the user says otherwise."""

from typing import Literal

Method = Literal["auto", "bca", "percentile", "studentized", "t", "wilson", "clopper-pearson", "none"]
CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 0
ALPHA = 0.05
"""The level of tests."""
MIN_SEGMENT = 10
"""Segments with fewer queries are shown, and never judged on their own."""
