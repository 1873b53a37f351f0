"""Which steps of a query ran, as its line of a run log says, and how long they took together (`total`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.model.log_names import SKIPPED, STAGES, TOTAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from karat.model.items import Log, Values


def mark_steps(stages: Iterable[str], *, skipped: bool) -> dict[str, dict[str, float]]:
    """Which stages a line names, and whether it says that retrieval was skipped: a 1 for each."""
    return {STAGES: dict.fromkeys(stages, 1.0), SKIPPED: {SKIPPED: 1.0} if skipped else {}}


def did_not_run(step: str, steps: Log, lines: int) -> NDArray[np.bool_]:
    """Which lines say that a step did not run, by the marks of each line (`mark_steps`).

    Retrieval was skipped, or the line names its stages without one that others name.
    """
    stages, skipped = steps[STAGES], steps[SKIPPED].get(SKIPPED, np.full(lines, math.nan))
    out: NDArray[np.bool_] = ~np.isnan(skipped)
    if step in stages:
        out |= np.isnan(stages[step]) & ~np.isnan(np.array(list(stages.values()))).all(axis=0)
    return out


def add_times(times: Mapping[str, Values], steps: Log) -> Values:
    """How long each line took in all: its `total`, else the sum of its steps; NaN where that is not known.

    It is not where the line names a stage that took time on other lines, and does not say how long it took here.
    """
    lines = len(next(iter(times.values())))
    total = times.get(TOTAL, np.full(lines, math.nan)).copy()
    known = ~np.isnan(np.array(list(times.values()))).all(axis=0)
    for step in times.keys() & steps[STAGES].keys():
        ran = ~np.isnan(steps[STAGES][step]) & ~did_not_run(step, steps, lines)
        known &= ~(ran & np.isnan(times[step]))
    rest = np.flatnonzero(np.isnan(total) & known)
    rows = np.stack([time[rest] for time in times.values()], axis=1).tolist()
    total[rest] = [math.fsum(time for time in row if time == time) for row in rows]
    return total
