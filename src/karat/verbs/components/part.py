"""What was found of one part of a pipeline, or what is missing to find it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from karat.errors import ResultError, nearest
from karat.model.options import Settings
from karat.results.sampling import Sampling, sampling
from karat.stats.groups import intervals
from karat.stats.ratios import ratio_interval
from karat.store.codec import as_plain, rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.options import Options
    from karat.results.decisions import Decision
    from karat.stats.intervals import Interval


@dataclass(frozen=True)
class Part:
    """One part of the pipeline: figures with intervals, changes with tests, counts, tables; or what is missing."""

    name: str
    figures: Mapping[str, Interval] = field(default_factory=dict)
    changes: Mapping[str, Decision] = field(default_factory=dict)
    """Differences on the same queries: after − before."""
    counts: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Plain data that is no single figure: a confusion table, a curve, names of stages."""
    per_query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    missing: str = ""
    """Which field is missing, and where; empty where the part was measured."""

    @property
    def measured(self) -> bool:
        return not self.missing

    def __bool__(self) -> bool:
        return self.measured

    def __getitem__(self, name: str) -> Any:
        """A figure (Interval) or a change (Decision) by its name."""
        known = {**self.figures, **self.changes}
        if name in known:
            return known[name]
        if self.missing:
            raise ResultError(f"{self.name} was not measured: {self.missing}")
        near = nearest(name, known)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ResultError(f"{self.name} has no {name!r}; it has {', '.join(known)}{hint}")

    def as_json(self) -> dict[str, Any]:
        """This part as the JSON document has it."""
        if self.missing:
            return {"measured": False, "missing": self.missing}
        out: dict[str, Any] = {"measured": True}
        if self.figures:
            out["figures"] = {name: interval_json(found) for name, found in self.figures.items()}
        if self.changes:
            out["changes"] = {
                name: {**as_plain(change.document()), "improvement": rounded(improvement(change))}
                for name, change in self.changes.items()
            }
        for key in ("counts", "tables", "per_query"):
            if found := getattr(self, key):
                out[key] = dict(found)
        if self.notes:
            out["notes"] = list(self.notes)
        return out


def interval_json(found: Interval) -> dict[str, Any]:
    """An interval as JSON documents have it."""
    defined = found.low == found.low or found.high == found.high
    return {
        "mean": rounded(found.estimate),
        "ci": [rounded(found.low), rounded(found.high)] if defined else None,
        "ci_method": found.method,
        "n": found.n,
    }


def improvement(change: Decision) -> float:
    """Δ in percent of the value before; undefined where that is zero."""
    before = change.mean_baseline
    return 100 * change.delta / before if before == before and before > 0 else math.nan


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
