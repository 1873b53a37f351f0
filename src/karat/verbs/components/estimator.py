"""How the figures of components get their intervals."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Unpack

import numpy as np

from karat.config.options import Options, Settings
from karat.records import dataclass
from karat.results.sampling import Sampling, sampling
from karat.stats.aggregates import Statistic, estimate_figures
from karat.stats.ratios import ratio_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.stats.intervals import Interval

SHARE = (0.0, 1.0)
"""The scale of every figure of a part."""


@dataclass(frozen=True)
class Estimator:
    """How intervals are found: the choices that all parts share."""

    sampling: Sampling = field(default_factory=Sampling)
    threads: int = 1

    @staticmethod
    def of(**options: Unpack[Options]) -> Estimator:
        """From the options of `karat.evaluate`: the table of queries has weights and conversations."""
        from karat.read.queries import read_queries

        settings = Settings.of(options)
        table = read_queries(settings.data.queries) if settings.data.queries is not None else None
        return Estimator(sampling(table, settings.intervals), settings.engine.threads or 1)

    def means(
        self, queries: Sequence[str], rows: Mapping[str, Sequence[float]], *, binary: bool = False
    ) -> dict[str, Interval]:
        """The mean of each row of values from 0 to 1 by query; NaN is undefined and leaves the mean."""
        values = [np.array(row, dtype=np.float64) for row in rows.values()]
        how = replace(self.sampling, method=_for(self.sampling.method, binary))
        (estimates,) = estimate_figures(
            values,
            [Statistic(bounds=SHARE)] * len(rows),
            how.units(queries),
            [np.arange(len(queries))],
            how.choice(self.threads),
        )
        return dict(zip(rows, estimates, strict=True))

    def ratio(self, queries: Sequence[str], part: Sequence[float], whole: Sequence[float]) -> Interval:
        """A sum over queries as a share of another one."""
        how = self.sampling
        interval = ratio_interval(
            np.array(part, dtype=np.float64),
            np.array(whole, dtype=np.float64),
            how.units(queries),
            confidence=how.confidence,
            method=how.method,
            resamples=how.resamples,
            seed=how.seed,
            threads=self.threads,
        )
        return interval.clip(*SHARE)


def _for(method: str, binary: bool) -> str:
    """A method for shares alone is not asked for values of another kind."""
    return "auto" if method in ("wilson", "clopper-pearson") and not binary else method


def of_all(count: int, total: int, what: str, field_name: str, where: str) -> str:
    """`0 of 43 lines have route`."""
    return f"{count} of {total} {what} ha{'s' if count == 1 else 've'} {field_name}{where}"
