"""How a metric grows with the cutoff k: curves with bands, area, knee, and where it is as good as done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from karat.config.options import Options, Settings, takes_options
from karat.errors import UsageError
from karat.gates.basis import WORDS
from karat.metrics.grammar import parse, parse_all
from karat.metrics.registry import GOLD_ALONE
from karat.metrics.relevance import SWEEP
from karat.records import dataclass
from karat.results.depths import NAMED
from karat.results.figures import estimate_figure
from karat.results.remarks import serious_remarks
from karat.results.result import FORMAT_VERSION, Result, RunResult
from karat.results.saved import is_saved, load
from karat.results.table import Documented, Table
from karat.results.words import segment_text
from karat.store.codec import ends_json, rounded
from karat.verbs.evaluate import evaluate
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.metrics.grammar import Measure
    from karat.results.by_judge import Basis
    from karat.results.document import CurveJson, DocumentJson
    from karat.results.remarks import Remark
    from karat.stats.intervals import Interval

KS = SWEEP
METRICS = ("recall", "ndcg", "precision", "hit")
ENOUGH = 0.98
"""Values this near are as good: of the deepest value, and of the largest one so far."""


@dataclass(frozen=True)
class Curve:
    """One metric of one run over the cutoffs, for all queries or in one segment."""

    run: str
    metric: str
    segment: Mapping[str, str] | None
    ks: tuple[int, ...]
    points: tuple[Interval, ...]
    common: int | None = None
    """The deepest cutoff that all runs of a sweep reach: areas are compared up to it."""
    judged: Basis | None = None
    """What it rests on, where it is not by the gold alone."""

    @property
    def label(self) -> str:
        """The run, and what its curve rests on."""
        return self.run if self.judged is None else f"{self.run}, {WORDS[self.judged]}"

    @property
    def values(self) -> list[float]:
        return [p.estimate for p in self.points]

    @property
    def area(self) -> float:
        """The area under the curve by trapezoids over k, as far as all runs go, divided by the range of k."""
        ks = [k for k in self.ks if self.common is None or k <= self.common]
        return area(ks, self.values[: len(ks)])

    @property
    def knee(self) -> int | None:
        """The cutoff after which more gives little; for curves that rise (`rises`)."""
        return knee(self.ks, self.values)

    @property
    def enough(self) -> int | None:
        """The smallest cutoff that reaches 98% of the deepest value; for curves that rise (`rises`)."""
        deepest = self.values[-1]
        if len(self.ks) < 2 or deepest <= 0 or not rises(self.values):
            return None
        return next(k for k, v in zip(self.ks, self.values, strict=True) if v >= ENOUGH * deepest)

    def document(self) -> CurveJson:
        """The curve as the JSON document has it."""
        from msgspec import UNSET

        from karat.results.document import CurveJson

        return CurveJson(
            run=self.run,
            metric=self.metric,
            segment=dict(self.segment) if self.segment else None,
            k=list(self.ks),
            mean=[rounded(v) for v in self.values],
            ci=[ends_json(p) for p in self.points],
            n=self.points[0].n,
            area=rounded(self.area),
            knee=self.knee,
            k98=self.enough,
            judged=UNSET if self.judged is None else self.judged,
        )


@dataclass(frozen=True)
class Sweep(Documented):
    """The curves of all runs, metrics and segments."""

    result: Result
    curves: tuple[Curve, ...]
    own_notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        runs = ", ".join(dict.fromkeys(c.run for c in self.curves))
        return f"Sweep({', '.join(dict.fromkeys(c.metric for c in self.curves))}; {runs})"

    @property
    def shown_runs(self) -> list[RunResult]:
        """The runs with the values of the points that there are: none beyond the end of a run's lists."""
        shown: dict[str, set[str]] = {}
        for curve in self.curves:
            shown.setdefault(curve.run, set()).update(f"{curve.metric}@{k}" for k in curve.ks)
        runs = self.result.runs
        return [replace(run, values={m: v for m, v in run.values.items() if m in shown[run.name]}) for run in runs]

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What is to be checked in the data behind the points that there are."""
        return serious_remarks(self.shown_runs)

    def table(self) -> Table:
        """A row for each point of each curve; a reader sees a row for each curve."""
        columns = ("run", "metric", "segment", "k", "value", "low", "high", "n")
        rows = [
            (c.label, c.metric, segment_text(c.segment) or None, k, p.estimate, p.low, p.high, p.n)
            for c in self.curves
            for k, p in zip(c.ks, c.points, strict=True)
        ]
        ks = list(dict.fromkeys(k for c in self.curves for k in c.ks))
        cells = []
        for c in self.curves:
            at = {k: str(estimate_figure(f"{c.metric}@{k}", p)) for k, p in zip(c.ks, c.points, strict=True)}
            cells.append((c.label, c.metric, segment_text(c.segment), *(at.get(k, "") for k in ks)))
        heads = ("run", "metric", "segment", *(f"k = {k}" for k in ks))
        return Table(columns, rows, heads, cells, notes=self.notes)

    def plot(self) -> Any:
        """A matplotlib figure of the curves with their bands, one panel per metric; notebooks show it."""
        from karat.verbs.plot import draw_curves

        return draw_curves(self.curves)

    def curve(self, metric: str, run: str | None = None) -> Curve:
        """The overall curve of one metric; the first run's unless one is named."""
        for c in self.curves:
            if c.metric == metric and c.segment is None and (run is None or c.run == run):
                return c
        names = ", ".join(dict.fromkeys(c.metric for c in self.curves))
        raise UsageError(f"no curve of {metric!r}; this sweep has {names}")

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        from msgspec import UNSET

        from karat.results.document import DocumentJson

        curves = [c.document() for c in self.curves]
        return DocumentJson(
            format_version=FORMAT_VERSION,
            kind="sweep",
            curves=curves,
            notes=list(self.own_notes) or UNSET,
            warnings=list(self.warnings) or UNSET,
        )


@gives_warnings
@takes_options
def sweep(
    qrels: Any,
    runs: Any = None,
    metrics: str | Sequence[str] = METRICS,
    *,
    ks: Sequence[int] = KS,
    **options: Unpack[Options],
) -> Sweep:
    """Curves over k, as deep as the runs go.

    Unless `ks` are stated, they are 1, 3, 5, 10, 20, 50 and 100, and the ends of the longest and of the shortest lists.
    `sweep(result)` takes a result instead of gold and runs, or the file that one was saved in.
    """
    like = Settings.of(options).like
    names = [m.name for m in parse_all(metrics, ks=[1], like=like)]
    measures = parse_all(metrics, ks=sorted(set(ks)), like=like)
    if any(m.metric.cutoff == "none" for m in measures):
        fixed = next(m.name for m in measures if m.metric.cutoff == "none")
        raise UsageError(f"{fixed} has no cutoff, so that it has no curve; sweep metrics such as {', '.join(METRICS)}")
    if len(measures) == len(names):
        raise UsageError(f"a sweep needs metrics without a cutoff, such as {', '.join(METRICS)}")
    measures.append(parse("num_ret"))
    if isinstance(qrels, Result) or is_saved(qrels):
        if runs is not None or options:
            raise UsageError("a sweep of a result takes metrics and ks alone; evaluate again with the other options")
        result = (qrels if isinstance(qrels, Result) else load(qrels)).measure(measures)
    else:
        result = evaluate(qrels, runs, measures, **options)
    cuts = cutoffs(map(_depth, result.runs)) if tuple(ks) == KS else ks
    if len(cuts) > len(ks) and _can_measure_again(result, measures):
        result = result.measure([*parse_all(metrics, ks=cuts, like=like), parse("num_ret")])
    curves = [c for run in result.runs for c in (*curves_of(run), *_curves_by_judge(run))]
    common = min((c.ks[-1] for c in curves), default=None)
    curves = [replace(c, common=common) for c in curves]
    return Sweep(result, tuple(curves), tuple(_describe_ends(result.runs, curves, ks)))


def cutoffs(depths: Iterable[int]) -> list[int]:
    """Those that are shown unless others are asked for: a curve ends, and areas are compared, where lists end."""
    ends = sorted(depths)
    return sorted({*KS, *(end for end in (*ends[:1], *ends[-1:]) if 0 < end < KS[-1])})


def _can_measure_again(result: Result, measures: Sequence[Measure]) -> bool:
    """Whether the rankings that a result holds are enough for other cutoffs."""
    whole = all(run.rankings is not None and run.totals is None and run.by_judge is None for run in result.runs)
    return whole and all(m.needs == GOLD_ALONE for m in measures)


def _describe_ends(runs: Sequence[RunResult], curves: Sequence[Curve], ks: Sequence[int]) -> list[str]:
    """Which points are missing, of those that somebody asked for or that another run has."""
    wanted = {k for curve in curves for k in curve.ks} if tuple(ks) == KS else set(ks)
    names: dict[int, list[str]] = {}
    for run in runs:
        names.setdefault(_depth(run), []).append(run.name)
    notes = []
    for depth, some in names.items():
        if beyond := sorted(wanted.difference(*(c.ks for c in curves if c.run in some))):
            who = f"{', '.join(some[:NAMED])}{', …' if len(some) > NAMED else ''}"
            notes.append(f"{who} returned at most {depth:,} docs: no points at {', '.join(map(str, beyond))}")
    common = min((c.ks[-1] for c in curves), default=None)
    if notes and any(c.ks[-1] != common for c in curves):
        notes.append(f"areas are up to k = {common}, which all runs reach")
    return notes


def _depth(run: RunResult) -> int:
    """The length of the longest list, of queries with gold."""
    return int(np.nan_to_num(run.values["num_ret"]).max(initial=0))


def curves_of(run: RunResult) -> list[Curve]:
    """The curves of a run that was measured at several cutoffs."""
    depth = max(1, _depth(run))
    grouped: dict[str, list[tuple[int, str]]] = {}
    for name in run.values:
        base, at, k = name.rpartition("@")
        if at:
            grouped.setdefault(base, []).append((int(k), name))
    out = []
    slices: list[tuple[Mapping[str, str] | None, Mapping[str, Interval]]] = [(None, run.intervals)]
    slices += [(s.by, s.metrics) for s in run.segments]
    for base, members in grouped.items():
        deep = [(k, name) for k, name in members if k <= depth] or members[:1]
        for by, segment in slices:
            out.append(Curve(run.name, base, by, tuple(k for k, _ in deep), tuple(segment[name] for _, name in deep)))
    return out


def _curves_by_judge(run: RunResult) -> list[Curve]:
    """The curves over all queries of the metrics that a judge's grades feed at every cutoff."""
    if run.by_judge is None:
        return []
    fed: dict[Basis, Mapping[str, object]] = {"raw": run.by_judge.raw, "corrected": run.by_judge.corrected}
    return [
        replace(curve, judged=basis)
        for basis, metrics in fed.items()
        for curve in curves_of(run.on_basis(basis))
        if curve.segment is None and all(f"{curve.metric}@{k}" in metrics for k in curve.ks)
    ]


def area(ks: Sequence[float], values: Sequence[float], *, log: bool = False) -> float:
    """The area under a curve by trapezoids, divided by its range; over log k if asked."""
    if len(ks) < 2:
        return float(values[0])
    x, y = np.asarray(ks, dtype=np.float64), np.asarray(values, dtype=np.float64)
    x = np.log(x) if log else x
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / (x[-1] - x[0]))


def rises(values: Sequence[float]) -> bool:
    """Whether a curve ends no lower than it starts, and nowhere falls by more than 2% of what it had reached."""
    y = np.asarray(values, dtype=np.float64)
    return bool(y[-1] >= y[0] and (y >= ENOUGH * np.maximum.accumulate(y)).all())


def knee(ks: Sequence[float], values: Sequence[float], sensitivity: float = 1.0) -> int | None:
    """Kneedle (Satopää et al. 2011), else the point farthest from the chord; None unless the curve rises and bends."""
    x, y = np.asarray(ks, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if len(x) < 3 or np.isnan(y).any() or y.max() == y.min() or not rises(values):
        return None
    across = (x - x[0]) / (x[-1] - x[0])
    up = (y - y.min()) / (y.max() - y.min())
    above = up - across
    if above.max() <= 1e-12:
        return None
    threshold = sensitivity * float(np.diff(across).mean())
    for i in range(1, len(above) - 1):
        peak = above[i] >= above[i - 1] and above[i] > above[i + 1]
        if peak and (above[i + 1 :] < above[i] - threshold).any():
            return int(ks[i])
    farthest = int(above.argmax())
    return int(ks[farthest]) if 0 < farthest < len(ks) - 1 else None  # a curve does not bend at its ends
