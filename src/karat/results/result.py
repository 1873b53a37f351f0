"""What an evaluation found: means, values per query, and what was counted. Everything later reads only this."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import ResultError, nearest
from karat.metrics.grammar import ByMeasure, parse
from karat.metrics.relevance import GM_FLOOR
from karat.results.sampling import Sampling
from karat.store.atomic import rounded, write_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure
    from karat.stats.intervals import Interval

FORMAT_VERSION = 1


def aggregated(
    measure: Measure, values: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> tuple[float, int]:
    """The one number for all queries, and over how many it is; undefined values are left out."""
    there = ~np.isnan(values)
    defined = values[there]
    n = len(defined)
    if n == 0:
        return math.nan, 0
    aggregate = measure.aggregate
    if aggregate == "sum":
        return float(defined.sum()), n
    if aggregate == "quantile":
        from karat.stats.quantiles import quantile_of

        return quantile_of(values, measure.quantile, weights), n
    if aggregate == "geometric mean":
        return math.exp(_mean(np.log(np.maximum(defined, GM_FLOOR)), there, weights)), n
    return _mean(defined, there, weights), n


def _mean(defined: NDArray[np.float64], there: NDArray[np.bool_], weights: NDArray[np.float64] | None) -> float:
    if weights is None:
        return float(defined.mean())
    mine = weights[there]
    return float((defined * mine).sum() / mine.sum()) if mine.sum() > 0 else math.nan


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """A slice of the queries with its own estimates."""

    by: Mapping[str, str]
    n: int
    small: bool
    """Whether it has too few queries to be judged alone."""
    judged: float
    """The mean share of judged docs in the top 10."""
    metrics: Mapping[str, Interval]

    def as_json(self) -> dict[str, Any]:
        return {
            "by": dict(self.by),
            "n": self.n,
            "small": self.small,
            "judged@10": rounded(self.judged),
            "metrics": {name: _interval_json(i) for name, i in self.metrics.items()},
        }


def _interval_json(found: Interval) -> dict[str, Any]:
    defined = found.low == found.low or found.high == found.high
    return {
        "mean": rounded(found.estimate),
        "ci": [rounded(found.low), rounded(found.high)] if defined else None,
        "ci_method": found.method,
        "n": found.n,
    }


@dataclass(frozen=True)
class RunResult:
    """One run's values."""

    name: str
    query_ids: Sequence[str]
    values: Mapping[str, NDArray[np.float64]]
    counts: Mapping[str, int]
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    ideal: Callable[[], Mapping[str, float]] = field(default=dict, repr=False, compare=False)
    """Finds the best values that the gold allows; asked only when somebody wants to know."""
    lists: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """By query: `top` docs with score and grade, `gold` with grade and rank; empty unless asked for."""
    sampling: Sampling = field(default_factory=Sampling, repr=False)
    judged: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    """The share of judged docs in each query's top 10, where segments were asked for."""
    threads: int = field(default=1, repr=False, compare=False)
    level: Callable[[], str] = field(default=lambda: "doc", repr=False, compare=False)
    """Finds out whether the gold is by chunk or by doc."""
    components: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The parts of the pipeline as plain data, where they were asked for."""

    @cached_property
    def gold_level(self) -> str:
        """Whether gold ids name chunks or docs: gold by chunk does not carry over to another chunker."""
        return self.level()

    @cached_property
    def attainable(self) -> Mapping[str, float]:
        """The best value that the gold allows, where a metric has a target."""
        return self.ideal()

    @property
    def mean(self) -> Mapping[str, float]:
        """The aggregate of each metric by any spelling of its name: a mean, a sum for counts, a quantile of times."""
        weights = self._weights
        return ByMeasure({name: aggregated(parse(name), v, weights)[0] for name, v in self.values.items()})

    @cached_property
    def _weights(self) -> NDArray[np.float64] | None:
        return self.sampling.units(self.query_ids).weight if self.sampling.weights else None

    @cached_property
    def _estimates(self) -> list[Mapping[str, Interval]]:
        """Intervals of all metrics, over all queries and in each segment, from the same resamples."""
        from karat.stats.groups import grouped_intervals

        values = {parse(name): v for name, v in self.values.items()}
        measures = [m for m in values if m.aggregate != "quantile"]
        logs = [m.aggregate == "geometric mean" for m in measures]
        rows = [
            np.log(np.maximum(values[m], GM_FLOOR)) if log else values[m] for m, log in zip(measures, logs, strict=True)
        ]
        everything, units = np.arange(len(self.query_ids)), self.sampling.units(self.query_ids)
        groups = [everything, *(s.rows for s in self.sampling.segments(self.query_ids))]
        found = grouped_intervals(
            np.array(rows).reshape(len(rows), len(everything)),
            units,
            groups,
            binary=[m.metric.binary for m in measures],
            confidence=self.sampling.confidence,
            method=self.sampling.method,
            resamples=self.sampling.resamples,
            seed=self.sampling.seed,
            threads=self.threads,
        )
        out = [
            {m: _of_aggregate(m, i, values[m][rows], log) for m, i, log in zip(measures, one, logs, strict=True)}
            for rows, one in zip(groups, found, strict=True)
        ]
        if len(measures) < len(values):
            from karat.stats.quantiles import grouped_quantiles

            for m in (m for m in values if m.aggregate == "quantile"):
                quantiles = grouped_quantiles(
                    values[m],
                    m.quantile,
                    units,
                    groups,
                    confidence=self.sampling.confidence,
                    resamples=self.sampling.resamples,
                    seed=self.sampling.seed,
                )
                for one, interval in zip(out, quantiles, strict=True):
                    one[m] = interval
        return [{m.name: one[m] for m in values} for one in out]

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """Each metric's estimate with its interval, by any spelling of its name."""
        return ByMeasure(self._estimates[0])

    @property
    def ci(self) -> Mapping[str, tuple[float, float]]:
        """The ends of each metric's confidence interval."""
        return ByMeasure({name: (i.low, i.high) for name, i in self._estimates[0].items()})

    @cached_property
    def segments(self) -> tuple[SegmentResult, ...]:
        """The same estimates in each segment that was asked for."""
        out = []
        slices = self.sampling.segments(self.query_ids)
        for segment, metrics in zip(slices, self._estimates[1:], strict=True) if slices else ():
            shares = self.judged[segment.rows] if self.judged is not None else np.full(1, math.nan)
            shares = shares[~np.isnan(shares)]
            judged = float(shares.mean()) if len(shares) else math.nan
            n = len(segment.rows)
            out.append(SegmentResult(segment.by, n, n < self.sampling.minimum, judged, metrics))
        return tuple(out)

    def across(self, by: str, metric: str) -> dict[str, float]:
        """How a metric varies over the segments of a field: sample variance and macro average of their means."""
        names = tuple(p.strip() for p in by.split(","))
        means = [ByMeasure(s.metrics)[metric].estimate for s in self.segments if tuple(s.by) == names]
        defined = [m for m in means if m == m]
        return {
            "segments": len(defined),
            "macro_average": float(np.mean(defined)) if defined else math.nan,
            "variance": float(np.var(defined, ddof=1)) if len(defined) > 1 else math.nan,
        }

    @property
    def n(self) -> Mapping[str, int]:
        """Over how many queries each metric is defined."""
        return ByMeasure({name: aggregated(parse(name), v)[1] for name, v in self.values.items()})

    def per_query(self, metric: str) -> dict[str, float]:
        """One metric's value for each query."""
        return dict(zip(self.query_ids, ByMeasure(self.values)[metric].tolist(), strict=True))

    def as_json(self) -> dict[str, Any]:
        """This run as the JSON document has it."""
        metrics = {}
        for name, found in self._estimates[0].items():
            metrics[name] = _interval_json(found)
            if (aggregate := parse(name).aggregate) != "mean":
                metrics[name]["aggregate"] = aggregate
        segments: dict[str, Any] = {}
        if self.sampling.by:
            segments["segments"] = [s.as_json() for s in self.segments]
            fields = [",".join(names) for names in self.sampling.by]
            segments["across"] = {f: {name: _rounded(self.across(f, name)) for name in self.values} for f in fields}
        facts: dict[str, Any] = {"facts": dict(self.facts)} if self.facts else {}
        notes = {"notes": list(self.notes)} if self.notes else {}
        facts |= {"gold_level": "chunk"} if self.gold_level == "chunk" else {}
        parts = {"components": dict(self.components)} if self.components else {}
        head = {"name": self.name, **facts, "metrics": metrics, "counts": dict(self.counts)}
        return {**head, **segments, **parts, **notes}


def _rounded(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if isinstance(value, int) else rounded(value) for name, value in numbers.items()}


def _of_aggregate(measure: Measure, found: Interval, values: NDArray[np.float64], log: bool) -> Interval:
    """The interval of what a metric reports: a sum has none, a geometric mean comes back from logarithms."""
    if measure.aggregate == "sum":
        return replace(found, estimate=aggregated(measure, values)[0], low=math.nan, high=math.nan, method="none")
    if log and found.n:
        return replace(found, estimate=math.exp(found.estimate), low=math.exp(found.low), high=math.exp(found.high))
    least, most = measure.metric.bounds
    high = found.high if most is None else min(found.high, most)
    return replace(found, low=max(found.low, least), high=high) if found.low == found.low else found


@dataclass(frozen=True)
class Result:
    """The evaluation of one run or of several on the same gold."""

    runs: tuple[RunResult, ...]
    conventions: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "evaluation"
    prints: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False, compare=False)
    """Finds the fingerprints; asked only when somebody wants to know."""

    words: Callable[[], Mapping[str, str]] = field(default=dict, repr=False, compare=False)
    """Finds the texts of the queries; asked only when somebody wants to know."""

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The text of each query, where a table of queries was given."""
        return self.words()

    @cached_property
    def fingerprints(self) -> Mapping[str, Any]:
        """What the result rests on: gold, queries, corpus (where gold is by chunk), definitions of metrics."""
        return self.prints()

    def __getitem__(self, name: str) -> RunResult:
        for run in self.runs:
            if run.name == name:
                return run
        names = [r.name for r in self.runs]
        near = nearest(name, names)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ResultError(f"no run {name!r} in this result, which holds {', '.join(names)}{hint}")

    def __iter__(self) -> Iterator[RunResult]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def _only(self, wanted: str) -> RunResult:
        if len(self.runs) != 1:
            names = [r.name for r in self.runs]
            raise ResultError(
                f"this result holds {len(names)} runs; choose one: result[{names[0]!r}].{wanted} "
                f"(it has {', '.join(names)})"
            )
        return self.runs[0]

    @property
    def mean(self) -> Mapping[str, float]:
        """The aggregate of each metric; with several runs choose one first: `result["name"].mean`."""
        return self._only("mean").mean

    @property
    def n(self) -> Mapping[str, int]:
        """Over how many queries each metric is defined."""
        return self._only("n").n

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """Each metric's estimate with its confidence interval."""
        return self._only("intervals").intervals

    @property
    def ci(self) -> Mapping[str, tuple[float, float]]:
        """The ends of each metric's confidence interval."""
        return self._only("ci").ci

    @property
    def segments(self) -> tuple[SegmentResult, ...]:
        """The same estimates in each segment that was asked for."""
        return self._only("segments").segments

    @property
    def counts(self) -> Mapping[str, int]:
        """Queries, missing ones, duplicates, and whatever else alignment counted."""
        return self._only("counts").counts

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known about how the numbers came to be."""
        return self._only("notes").notes

    def per_query(self, metric: str) -> dict[str, float]:
        """One metric's value for each query."""
        return self._only(f"per_query({metric!r})").per_query(metric)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The canonical names of the metrics, in the order asked for."""
        return tuple(self.runs[0].values) if self.runs else ()

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` writes."""
        told = {"conventions": dict(self.conventions)} if self.conventions else {}
        return {
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            **told,
            **({"intervals": self.runs[0].sampling.told()} if self.runs else {}),
            "runs": [r.as_json() for r in self.runs],
            **({"fingerprints": dict(self.fingerprints)} if self.fingerprints else {}),
        }

    def rows(self) -> Iterator[tuple[str, str, str, float | None]]:
        """The long table: run, query, metric, value."""
        for run in self.runs:
            for name, values in run.values.items():
                for query, value in zip(run.query_ids, values.tolist(), strict=True):
                    yield run.name, query, name, rounded(value)

    def full_json(self) -> dict[str, Any]:
        """The document that `save` writes: with every query's values, and its lists where they were kept."""
        document = self.as_json()
        if self.texts:
            held = {q for run in self.runs for q in run.query_ids}
            document["texts"] = {q: t for q, t in self.texts.items() if q in held}
        for run, written in zip(self.runs, document["runs"], strict=True):
            written["query_ids"] = list(run.query_ids)
            written["sampling"] = run.sampling.as_json()
            if run.judged is not None:
                written["judged@10"] = [rounded(x) for x in run.judged.tolist()]
            written["per_query"] = {n: [rounded(x) for x in v.tolist()] for n, v in run.values.items()}
            if run.attainable:
                written["attainable"] = {n: rounded(v) for n, v in run.attainable.items()}
            if run.lists:
                written["lists"] = run.lists
        return document

    def save(self, path: str) -> None:
        """Write the full result, to be read back by `karat.load`. A name that ends in .gz is packed."""
        write_document(self.full_json(), path)

    def __repr__(self) -> str:
        names = ", ".join(r.name for r in self.runs)
        if len(self.runs) == 1:
            shown = ", ".join(f"{n}={v:.4f}" for n, v in list(self.mean.items())[:4])
            return f"Result({names}: {shown}{', …' if len(self.metrics) > 4 else ''})"
        return f"Result({len(self.runs)} runs: {names}; {len(self.metrics)} metrics)"

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{escape(n)}</th>" for n in self.metrics)
        body = "".join(
            f"<tr><th>{escape(r.name)}</th>" + "".join(f"<td>{v:.4f}</td>" for v in r.mean.values()) + "</tr>"
            for r in self.runs
        )
        return f"<table><thead><tr><th>run</th>{head}</tr></thead><tbody>{body}</tbody></table>"
