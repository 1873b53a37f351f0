"""The record of an evaluation. Everything right of it is a function of it, fresh or read back from a file.

`Result` holds what all runs share: `queries` (the table of queries: texts, as_of, fields), `conventions`, and what
the fingerprints are taken of. Each `RunResult` holds one run:

- `values`: by metric, one value per query of `query_ids`; NaN is undefined.
- `gold`: what its gold is read from (`gold.qrels` are the judgments, read once and only when needed).
- `rankings`: the judged docs at their ranks, from which any relevance metric can be measured again.
- `top` and `gold_ranks` (with `details`): the first 100 docs of each query, and the rank of each judgment of the
  gold, both as columns. `top_docs(query)` and `gold_docs(query)` give those of one query.
- `log`: what a run log says of each query's way through the pipeline (with `details`).
- `sampling`: how intervals and segments are found; `policy`: how run and gold were aligned; `counts`, `facts`.

Nothing in it is a function. What takes time (intervals, fingerprints, attainable values) is found when it is first
asked for. A result from a file of an older version, or a baseline, may lack gold, rankings and lists: they are None.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from functools import cached_property
from os import fspath
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.errors import ResultError, UsageError, nearest
from karat.metrics.grammar import ByMeasure, Measure, parse
from karat.metrics.registry import GOLD_ALONE
from karat.model.policy import RELEVANT, Policy, parent_of
from karat.records import dataclass
from karat.results.figures import figure
from karat.results.fingerprints import Fingerprints, fingerprint_file, fingerprint_metric, fingerprint_queries
from karat.results.remarks import remarks_of, serious_remarks
from karat.results.run_table import table_of
from karat.results.sampling import NONE, Sampling, split_fields
from karat.results.table import Documented, Table, Tabular
from karat.results.top_lists import GoldDoc, TopDoc, TopLists
from karat.results.values import SegmentResult, aggregate, estimate, pool, spread, statistic_of
from karat.results.words import plural, queries_text
from karat.store.codec import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from karat.model.json_data import Json
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.model.rankings import Rankings
    from karat.model.run_log import RunLog
    from karat.results.by_judge import Basis, JudgeIdentity, RunByJudge
    from karat.results.components import Components
    from karat.results.document import DocumentJson
    from karat.results.gold import Gold
    from karat.results.record import Provenance
    from karat.results.remarks import Remark
    from karat.results.totals import Summed, Totals
    from karat.stats.aggregates import Statistic
    from karat.stats.intervals import Interval
    from karat.stats.resample import Units

    Values = NDArray[np.float64]
    Level = Literal["doc", "chunk"]

FORMAT_VERSION: Literal[2] = 2
WITH_DETAILS = "evaluate again with details=True (on the command line --save FILE keeps it)"


@dataclass(frozen=True)
class Derived:
    """What follows from the rankings, as a file says it that does not hold them."""

    attainable: Mapping[str, float] = field(default_factory=dict)
    judged: Values | None = None


@dataclass(frozen=True, eq=False)
class RunResult(Tabular):
    """One run: its values, and all that they rest on."""

    name: str
    query_ids: Sequence[str]
    values: Mapping[str, Values]
    counts: Mapping[str, int]
    facts: Mapping[str, Json] = field(default_factory=dict)
    data_notes: tuple[str, ...] = ()
    """What was noted where gold and run were read, aligned and measured."""
    mismatches: tuple[str, ...] = field(default=(), kw_only=True)
    """Those that say why run and gold may not belong together: their figures may mean nothing."""
    sampling: Sampling = field(default_factory=Sampling, repr=False)
    policy: Policy = field(default_factory=Policy, repr=False)
    level: Level | None = None
    """Whether the gold names docs or chunks; None where its ids say so."""
    gold: Gold | None = field(default=None, repr=False)
    rankings: Rankings | None = field(default=None, repr=False)
    gold_ranks: NDArray[np.int64] | None = field(default=None, repr=False)
    """The rank at which each judgment's doc was returned, 0 where it was not; where details were asked for."""
    top: TopLists | None = field(default=None, repr=False)
    log: RunLog | None = field(default=None, repr=False)
    """What the run log says, where details were asked for and the run is one."""
    derived: Derived | None = field(default=None, repr=False)
    components: Components | None = field(default=None, repr=False)
    """The components of the pipeline, where they were asked for."""
    by_judge: RunByJudge | None = field(default=None, repr=False)
    """What a judge's grades make of it, where judgments were named."""
    completed_gold: Gold | None = field(default=None, repr=False)
    """The gold with the judge's grades where it has none; None without a judge, and in results of older versions."""
    unbounded: frozenset[str] = field(default=frozenset(), repr=False)
    """The metrics whose values are corrected: their mean is within the metric's bounds, a single value may not be."""
    threads: int = field(default=1, repr=False)
    lists_digest: str | None = field(default=None, repr=False)
    """Of the ranked lists, where they may be those of another run, or a baseline says it, and they are not held."""
    idle: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)
    """By metric: the queries that the run log says took no latency or cost, because the step did not run."""
    totals: Totals | None = field(default=None, repr=False)
    """Of all queries, where a cluster has too many to bring their values here."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What is said of the data behind the figures of this run alone."""
        return remarks_of([self])

    @property
    def serious_remarks(self) -> tuple[Remark, ...]:
        """The warnings among these, which take less time to find."""
        return serious_remarks([self])

    @property
    def summed(self) -> Mapping[str, Summed]:
        """By metric: what workers summed over all queries; nothing where the values of all queries are here."""
        totals = self.totals
        return totals.figures if totals is not None and totals.kept == len(self.query_ids) else {}

    @property
    def of_kept(self) -> RunResult:
        """The run with figures of the queries whose values are here, which are weighted."""
        if self.totals is None:
            return self
        kept = tuple(note for note in self.data_notes if note != self.totals.note)
        return replace(self, totals=None, data_notes=kept)

    def summed_changes(self, base: RunResult) -> Mapping[str, Summed] | None:
        """By metric: the summed differences from a baseline; None where values are compared."""
        return self.totals.changes.get(base.name) if self.totals is not None and self.summed and base.summed else None

    @property
    def ranked_lists(self) -> str | None:
        """A digest of the ranked lists; None where the result does not know them."""
        return self.top.digest if self.top is not None else self.lists_digest

    @property
    def is_without_gold(self) -> bool:
        """Whether the run was evaluated by what it says itself, without any gold."""
        return self.rankings is not None and len(self.rankings) > 0 and not len(self.rankings.gold_grade)

    @property
    def qrels(self) -> Qrels:
        """The judgments that the run was measured with."""
        if self.is_without_gold:
            raise ResultError(f"{self.name!r} was evaluated without gold, which is needed here; name the gold too")
        if self.gold is None:
            raise ResultError(f"this result of {self.name!r} holds no gold; {WITH_DETAILS}")
        return self.gold.qrels

    def doc_of(self, chunk: str) -> str:
        """The doc that a chunk belongs to: as the run log says, else by its id."""
        separator = self.policy.separator
        return parent_of(chunk, separator) if self.log is None else self.log.doc_of(chunk, separator)

    @cached_property
    def gold_level(self) -> Level:
        """Whether gold ids name chunks or docs: gold by chunk does not carry over to another chunker."""
        if self.level is not None:
            return self.level
        mark = self.policy.separator
        return "chunk" if mark and self.gold and mark in "\n".join(self.gold.qrels.docs) else "doc"

    @cached_property
    def attainable(self) -> Mapping[str, float]:
        """The best value that the gold allows, where a metric has a target."""
        from karat.results.reading import attainable_value

        if self.derived is not None:
            return self.derived.attainable
        best = {n: attainable_value(self, n) for n in self.values if n in parse(n).metric.targets}
        return {name: value for name, value in best.items() if value is not None}

    @cached_property
    def judged(self) -> Values | None:
        """The share of judged docs in each query's top 10."""
        if self.derived is not None or self.rankings is None:
            return self.derived.judged if self.derived is not None else None
        return spread(parse("judged@10")(self.rankings), self.rankings.query_ids, self.query_ids)

    @cached_property
    def without_relevant(self) -> frozenset[str]:
        """The queries that the gold has no relevant doc for; none where the result does not know."""
        if self.rankings is None:
            return frozenset()
        ids = self.rankings.query_ids
        return frozenset(ids[i] for i in np.flatnonzero(self.rankings.gold_count(RELEVANT) == 0).tolist())

    def measure(self, measures: Sequence[Measure]) -> RunResult:
        """The same run with the values of other metrics, of those that need no more than rankings."""
        rankings = self.rankings
        if rankings is None:
            raise ResultError(f"this result of {self.name!r} holds no rankings; evaluate again with this version")
        if self.is_without_gold:
            raise ResultError(f"{measures[0].name} needs gold, and {self.name!r} was evaluated without; name it too")
        ids = (rankings.query_ids, self.query_ids)
        return replace(self, values={m.name: spread(m(rankings), *ids) for m in measures})

    @cached_property
    def _by_both(self) -> RunResult:
        return replace(self, values={**self.values, **(self.by_judge.raw if self.by_judge is not None else {})})

    def on_basis(self, basis: Basis) -> RunResult:
        """The run with the values of gold + judge, raw or corrected, for the metrics that have them."""
        if basis == "none" or self.by_judge is None:
            return self
        if basis == "raw":
            return self._by_both
        corrected = {name: one.level for name, one in self.by_judge.corrected.items()}
        return replace(self, values={**self.values, **corrected}, unbounded=frozenset(corrected))

    def top_docs(self, query_id: str) -> list[TopDoc]:
        """The first docs that one query returned; none where details were not asked for."""
        return self.top.for_query(query_id) if self.top is not None else []

    def gold_docs(self, query_id: str) -> list[GoldDoc]:
        """The judged docs of one query with their ranks; none where details were not asked for."""
        if self.gold_ranks is None or (i := (qrels := self.qrels).query_index.get(query_id)) is None:
            return []
        rows = slice(int(qrels.offsets[i]), int(qrels.offsets[i + 1]))
        columns = (qrels.docs[rows], qrels.grades[rows].tolist(), self.gold_ranks[rows].tolist())
        return [GoldDoc(doc, grade, rank or None) for doc, grade, rank in zip(*columns, strict=True)]

    def statistic(self, metric: str) -> Statistic:
        """How the values of a metric become one figure, and the scale on which they lie."""
        return statistic_of(parse(metric), unbounded=metric in self.unbounded)

    @cached_property
    def mean(self) -> Mapping[str, float]:
        """The aggregate of each metric by any spelling of its name: a mean, a sum for counts, a quantile of times."""
        weights = self._weights
        means = {name: statistic_of(parse(name)).figure(v, weights) for name, v in self.values.items()}
        return ByMeasure({**means, **{m: one.estimate for m, one in self._summed_figures.items()}})

    @cached_property
    def _summed_figures(self) -> Mapping[str, Interval]:
        return {m: one.figure(self.sampling.confidence) for m, one in self.summed.items() if m in self.values}

    @cached_property
    def _units(self) -> Units:
        return self.sampling.units(self.query_ids)

    @cached_property
    def _weights(self) -> Values | None:
        return self._units.weight if self.sampling.weights else None

    @cached_property
    def estimates(self) -> list[Mapping[str, Interval]]:
        """Each metric with its interval by canonical name: over all queries, then in each segment."""
        summed = self._summed_figures
        values = {name: column for name, column in self.values.items() if name not in summed}
        if not values and summed:
            return [summed]
        corrected = self.by_judge.corrected if self.by_judge is not None else {}
        doubts = {name: corrected[name].doubt for name in self.unbounded if name in corrected}
        whole, *parts = estimate(
            values, self.query_ids, self.sampling, self.threads, unbounded=self.unbounded, doubts=doubts
        )
        return [{**summed, **whole}, *parts]

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """Each metric's estimate with its interval, by any spelling of its name."""
        return ByMeasure(self.estimates[0])

    @property
    def ci(self) -> Mapping[str, tuple[float, float]]:
        """The ends of each metric's confidence interval."""
        return ByMeasure({name: (i.low, i.high) for name, i in self.estimates[0].items()})

    @cached_property
    def segments(self) -> tuple[SegmentResult, ...]:
        """The same estimates in each segment that was asked for."""
        out = []
        slices, tables = self.sampling.segments(self.query_ids), self.sampling.tables
        pooled = pool(self.values, self.query_ids, self.sampling) if tables else ()
        for segment, metrics, own in zip(slices, self.estimates[1:], pooled, strict=True) if tables else ():
            if tuple(segment.by) not in tables:
                continue
            judged = self._judged_share(segment.rows)
            units = self._units.take(segment.rows).effective
            too_few = (m for m, one in metrics.items() if min(units, one.units) < self.sampling.minimum)
            out.append(SegmentResult(segment.by, len(segment.rows), frozenset(too_few), judged, metrics, own))
        return tuple(out)

    def _judged_share(self, rows: NDArray[np.int64]) -> float:
        """The share of judged docs in the top 10 of some queries, by their weights as any figure."""
        if self.judged is None:
            return math.nan
        weights = self._weights[rows] if self._weights is not None else None
        return aggregate(parse("judged@10"), self.judged[rows], weights)[0]

    def across(self, by: str, metric: str) -> dict[str, float]:
        """How a metric varies over the segments of a field: sample variance and macro average of their means.

        Queries without a value of the field are in no segment of it.
        """
        names = split_fields(by)
        mine = [s for s in self.segments if tuple(s.by) == names and NONE not in s.by.values()]
        means = [ByMeasure(s.metrics)[metric].estimate for s in mine]
        defined = [m for m in means if m == m]
        return {
            "segments": len(defined),
            "macro_average": float(np.mean(defined)) if defined else math.nan,
            "variance": float(np.var(defined, ddof=1)) if len(defined) > 1 else math.nan,
        }

    @property
    def n(self) -> Mapping[str, int]:
        """Over how many queries each metric is defined."""
        counts = {name: aggregate(parse(name), v)[1] for name, v in self.values.items()}
        return ByMeasure({**counts, **{m: one.n for m, one in self._summed_figures.items()}})

    def __repr__(self) -> str:
        values = ", ".join(f"{n}={figure(n, v).text}" for n, v in list(self.mean.items())[:4])
        more = ", …" if len(self.values) > 4 else ""
        return f"RunResult({self.name}: {values}{more}; {queries_text(len(self.query_ids))})"

    def table(self) -> Table:
        """A row for each metric: value, interval and number of queries."""
        return table_of([self])

    def per_query(self, metric: str) -> dict[str, float]:
        """One metric's value for each query."""
        return dict(zip(self.query_ids, ByMeasure(self.values)[metric].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Result(Documented):
    """The evaluation of one run or of several on the same gold."""

    runs: tuple[RunResult, ...]
    conventions: Mapping[str, Json] = field(default_factory=dict)
    """The choices that differ from the defaults."""
    queries: Queries | None = field(default=None, repr=False)
    corpus: str | None = field(default=None, repr=False)
    """The file of docs: where gold is by chunk, the result rests on it."""
    models: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By metric: the model of the embeddings that it looks at."""
    ontologies: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By metric: the release of the ontology that it looks at."""
    judge: JudgeIdentity | None = field(default=None, repr=False)
    """Who judged what the gold lacks, where judgments were named."""
    provenance: Provenance | None = field(default=None, repr=False)
    """When and from what it was saved; None for a fresh one."""
    basis: Fingerprints | None = field(default=None, repr=False)
    """The fingerprints as a file says them; those of a fresh result are found when somebody asks."""

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The text of each query, where a table of queries was given."""
        return self.queries.texts if self.queries is not None else {}

    @cached_property
    def fingerprints(self) -> Fingerprints:
        """What the result rests on: gold, queries, corpus (where gold is by chunk), definitions of metrics."""
        if self.basis is not None:
            return self.basis
        gold = self.runs[0].gold if self.runs else None
        by_chunk = any(r.gold_level == "chunk" for r in self.runs)
        return Fingerprints(
            gold.fingerprint if gold is not None else None,
            fingerprint_queries(self.queries) if self.queries is not None else None,
            fingerprint_file(self.corpus) if self.corpus is not None and by_chunk else None,
            self.models,
            {n: fingerprint_metric(parse(n), self.models.get(n), self.ontologies.get(n)) for n in self.metrics},
            self.ontologies,
            self.judge.fingerprint if self.judge is not None else None,
        )

    def __getitem__(self, name: str | int) -> RunResult:
        """A run by its name, or by its number from 0."""
        if isinstance(name, int):
            if not -len(self.runs) <= name < len(self.runs):
                raise ResultError(f"no run number {name} in this result, which holds {plural(len(self.runs), 'run')}")
            return self.runs[name]
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

    def _only(self, attribute: str) -> RunResult:
        if len(self.runs) != 1:
            names = [r.name for r in self.runs]
            raise ResultError(
                f"this result holds {len(names)} runs; choose one: result[{names[0]!r}].{attribute} "
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
    def remarks(self) -> tuple[Remark, ...]:
        """What every output says of the data behind the figures of all runs."""
        return remarks_of(self.runs)

    @property
    def serious_remarks(self) -> tuple[Remark, ...]:
        """The warnings among these, which take less time to find."""
        return serious_remarks(self.runs)

    def per_query(self, metric: str) -> dict[str, float]:
        """One metric's value for each query."""
        return self._only(f"per_query({metric!r})").per_query(metric)

    def measure(self, measures: Sequence[Measure]) -> Result:
        """The same runs with the values of other metrics, which their rankings must be enough for."""
        if beyond := next((m for m in measures if m.needs != GOLD_ALONE), None):
            parts = ", ".join(part for part in beyond.needs if part not in GOLD_ALONE)
            raise UsageError(f"{beyond.name} needs {parts}, which a result does not hold; evaluate the run with it")
        return replace(self, runs=tuple(run.measure(measures) for run in self.runs))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The canonical names of the metrics, in the order asked for."""
        return tuple(self.runs[0].values) if self.runs else ()

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        from karat.results.summary import summarize

        return summarize(self)

    def rows(self) -> Iterator[tuple[str, str, str, float | None]]:
        """The long table: run, query, metric, value."""
        for run in self.runs:
            for name, values in run.values.items():
                for query, value in zip(run.query_ids, values.tolist(), strict=True):
                    yield run.name, query, name, rounded(value)

    def save(self, path: str | PathLike[str], *, label: str = "") -> None:
        """Write the full result, to be read back by `karat.load`. A name that ends in .gz is packed."""
        from karat.results.saved import save

        result = self.of_kept
        save(result.document(), result, fspath(path), label=label)

    @property
    def of_kept(self) -> Result:
        """The same with figures of the values at hand, where workers summed those of all queries."""
        if not any(run.totals for run in self.runs):
            return self
        return replace(self, runs=tuple(run.of_kept for run in self.runs))

    def __repr__(self) -> str:
        names = ", ".join(r.name for r in self.runs)
        if len(self.runs) == 1:
            values = ", ".join(f"{n}={figure(n, v).text}" for n, v in list(self.mean.items())[:4])
            return f"Result({names}: {values}{', …' if len(self.metrics) > 4 else ''})"
        return f"Result({len(self.runs)} runs: {names}; {len(self.metrics)} metrics)"

    def table(self) -> Table:
        """A row for each run and metric: value, interval and number of queries."""
        return table_of(self.runs, self.conventions)
