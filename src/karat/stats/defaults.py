"""How intervals and tests are computed unless the user says otherwise: in `karat.yaml` (`config/checks.py`), or by the
`risk` of gates (`gates/evidence.py`).
"""

from typing import Literal

Method = Literal["auto", "bca", "percentile", "studentized", "t", "gaffke", "wilson", "clopper-pearson", "none"]
CONFIDENCE = 0.95
RESAMPLES = 10_000
"""Of a bootstrap: the ends of an interval move by 1% of its length from seed to seed."""
SEED = 0
ALPHA = 0.05
"""The level of tests."""
MIN_SEGMENT = 10
"""Segments with fewer units (queries or conversations) are shown, and never judged on their own."""
MIN_UNITS = 5
"""With fewer conversations, or fewer units of equal weight, nothing is judged."""
DRAWS = 100_000
"""Random sign flips of a randomization test."""
LEAST_P = 1e-12
"""A p that is computed is not known to be right below this: it stands for all that are smaller."""
