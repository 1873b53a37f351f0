"""Shares counted by an imperfect judge: what they are once its errors are known."""

from __future__ import annotations

import math

from karat.errors import UsageError
from karat.records import dataclass
from karat.stats.defaults import CONFIDENCE
from karat.stats.distributions import normal_quantile
from karat.stats.intervals import Interval, checked_share

METHOD = "Rogan-Gladen"


@dataclass(frozen=True)
class ErrorRate:
    """A share of right answers, and of how many."""

    share: float
    n: float


@dataclass(frozen=True)
class CorrectedShare:
    """A share that is corrected for the errors of the judge that counted it."""

    interval: Interval
    error: float
    """The standard error."""
    raw: float
    """The share that the judge counted."""


def correct_share(
    raw: float, n: int, sensitivity: ErrorRate, specificity: ErrorRate, *, confidence: float = CONFIDENCE
) -> CorrectedShare:
    """Rogan & Gladen 1978: (raw + specificity − 1) / (sensitivity + specificity − 1), cut to [0, 1].

    The error is that of the three shares together, by their derivatives. Assumes that the judge errs on these pairs as
    often as on those that people judged too, whatever the query and the system.
    """
    level = checked_share("confidence", confidence)
    skill = sensitivity.share + specificity.share - 1
    if skill <= 0:
        raise UsageError(
            f"sensitivity {round(sensitivity.share, 3)} and specificity {round(specificity.share, 3)} add up to 1 or "
            "less: the judge is no better than chance, and its shares cannot be corrected"
        )
    share = (raw + specificity.share - 1) / skill
    spreads = (
        (raw * (1 - raw), n, 1.0),
        (sensitivity.share * (1 - sensitivity.share), sensitivity.n, share),
        (specificity.share * (1 - specificity.share), specificity.n, 1 - share),
    )
    error = math.sqrt(sum(spread / size * factor**2 for spread, size, factor in spreads)) / skill
    half = normal_quantile(0.5 + level / 2) * error
    whole = Interval(min(max(share, 0.0), 1.0), share - half, share + half, METHOD, n)
    return CorrectedShare(whole.clip(0.0, 1.0), error, raw)
