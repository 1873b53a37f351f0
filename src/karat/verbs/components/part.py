"""How the figures of components get their intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Unpack

import numpy as np

from karat.model.options import Settings
from karat.results.sampling import Sampling, sampling
from karat.stats.groups import intervals
from karat.stats.ratios import ratio_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.options import Options
    from karat.stats.intervals import Interval


@dataclass(frozen=True)
class Sure:
    """How intervals are found: the choices that all parts share."""

    sampling: Sampling = field(default_factory=Sampling)
    threads: int = 1

    @staticmethod
    def of(**options: Unpack[Options]) -> Sure:
        """From the options of `karat.evaluate`: the table of queries has weights and conversations."""
        from karat.read.queries import read_queries

        settings = Settings.of(options)
        table = read_queries(settings.data.queries) if settings.data.queries is not None else None
        return Sure(sampling(table, settings.intervals), settings.engine.threads or 1)

    def means(
        self, queries: Sequence[str], rows: Mapping[str, Sequence[float]], *, binary: bool = False
    ) -> dict[str, Interval]:
        """The mean of each row of values by query; NaN is undefined and leaves the mean."""
        if not rows:
            return {}
        values = np.array([list(row) for row in rows.values()], dtype=np.float64).reshape(len(rows), len(queries))
        how = self.sampling
        found = intervals(
            values,
            how.units(queries),
            binary=[binary] * len(rows),
            confidence=how.confidence,
            method=_for(how.method, binary),
            resamples=how.resamples,
            seed=how.seed,
            threads=self.threads,
        )
        return dict(zip(rows, found, strict=True))

    def ratio(self, queries: Sequence[str], part: Sequence[float], whole: Sequence[float]) -> Interval:
        """A sum over queries by another one."""
        how = self.sampling
        return ratio_interval(
            np.array(part, dtype=np.float64),
            np.array(whole, dtype=np.float64),
            how.units(queries),
            confidence=how.confidence,
            method=how.method,
            resamples=how.resamples,
            seed=how.seed,
            threads=self.threads,
        )


def _for(method: str, binary: bool) -> str:
    """A method for shares alone is not asked for values of another kind."""
    return "auto" if method in ("wilson", "clopper-pearson") and not binary else method


def of_all(count: int, total: int, what: str, field_name: str, where: str) -> str:
    """`0 of 43 lines have route`."""
    return f"{count} of {total} {what} ha{'s' if count == 1 else 've'} {field_name}{where}"
