"""What a judge does to a comparison of systems: which runs it favours, and whether it orders them as people do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.records import dataclass
from karat.stats.aggregates import without_zero_width
from karat.stats.defaults import CONFIDENCE, MIN_SEGMENT, RESAMPLES, SEED
from karat.stats.differential import measure_pull
from karat.stats.intervals import Interval, student
from karat.stats.rank_correlation import compare_estimates
from karat.stats.resample import Group, Units, mean_of, resampled
from karat.stats.survey import group_sums

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.stats.prediction_powered import Labels

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class JudgedSystem:
    """What a run returns near the top, as the judge and as people grade it."""

    run: str
    judged: int
    """Pairs of the run that the judge graded."""
    labelled: int
    judge: float
    """The mean grade of its judged pairs."""
    people: float
    """The mean grade that people would give: the judge's, less its mean error on labelled pairs."""
    error: Interval
    """The mean of judge − people over labelled pairs, by query."""
    favour: Interval
    """How much more the judge gives docs of this run than other docs to which people give the same grade. The
    intervals of all runs hold together."""

    @property
    def small(self) -> bool:
        """Whether there are too few labelled pairs to say anything of them."""
        return self.labelled < MIN_SEGMENT

    @property
    def favoured(self) -> bool:
        return not self.small and self.favour.low > 0

    @property
    def disfavoured(self) -> bool:
        return not self.small and self.favour.high < 0


@dataclass(frozen=True)
class SystemsByJudge:
    """Runs by mean grade, as the judge and as people order them."""

    depth: int
    systems: tuple[JudgedSystem, ...]
    tau: Interval | None
    """Kendall's τ of the two orders, over queries; None where fewer than two runs have labelled pairs. It has no
    interval where all samples of the queries give the same one."""


def compare_systems(
    ids: Sequence[tuple[str, str]],
    judge: Floats,
    labels: Labels,
    runs: Mapping[str, Collection[tuple[str, str]]],
    *,
    depth: int,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> SystemsByJudge:
    """Compare what a judge and people say of runs; `ids` and `judge` are of all judged pairs, `runs` what each returns.

    The order by people rests on all judged pairs too: each run's mean grade is the judge's, less the judge's mean error
    on the run's labelled pairs. On labelled pairs alone, a few docs that happen to be good would order both alike.
    """
    inside = np.array([[pair in pairs for pair in ids] for pairs in runs.values()]).reshape(len(runs), len(ids))
    query = np.unique([query for query, _ in ids], return_inverse=True)[1]
    own, errors = inside[:, labels.row], judge[labels.row] - labels.value
    units = Units.of(len(errors), query[labels.row].tolist(), labels.survey.weight)
    together = 1 - (1 - confidence) / max(len(runs), 1)
    systems = []
    for name, pairs, here in zip(runs, inside, own, strict=True):
        mean = float(judge[pairs].mean()) if pairs.any() else math.nan
        error = favour = Interval(math.nan, math.nan, math.nan, "none", 0)
        if here.any():
            part = units.take(here)
            ends = student(errors[here], part, confidence)
            error = Interval(mean_of(errors[here], part), *ends, "t", int(here.sum()))
            favour = measure_pull(here.astype(np.float64), judge[labels.row], labels.value, units, confidence=together)
        systems.append(
            JudgedSystem(name, int(pairs.sum()), int(here.sum()), mean, mean - error.estimate, error, favour)
        )
    known = [place for place, one in enumerate(systems) if one.labelled]
    if len(known) < 2:
        return SystemsByJudge(depth, tuple(systems), None)
    # By query: sums of the judge's grades and of its weighted errors, and what to divide them by.
    size, at, weight = int(query.max()) + 1, query[labels.row], labels.survey.weight
    top = [_by_query(query, pairs * judge, size) for pairs in inside[known]]
    bottom = [_by_query(query, pairs, size) for pairs in inside[known]]
    top += [_by_query(at, here * weight * errors, size) for here in own[known]]
    bottom += [_by_query(at, here * weight, size) for here in own[known]]
    (draws,) = resampled([Group(np.transpose(top), np.transpose(bottom))], size, resamples, seed)
    grades, off = draws[:, : len(known)], draws[:, len(known) :]
    by_people, by_judge = (np.array([getattr(systems[i], who) for i in known]) for who in ("people", "judge"))
    orders = compare_estimates(by_people, by_judge, grades - off, grades, size, confidence=confidence)
    return SystemsByJudge(depth, tuple(systems), without_zero_width(orders.tau, 0.0))


def _by_query(query: NDArray[np.int64], values: Floats | Mask, size: int) -> Floats:
    return group_sums(values.astype(np.float64), query, size)
