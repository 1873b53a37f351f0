"""The part of a saved document that holds the result itself, as columns: its types, and the way there and back."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from karat.model.json_data import Json
from karat.model.policy import Policy
from karat.model.qrels import Qrels, Subtopics
from karat.model.queries import Queries
from karat.model.rankings import Rankings
from karat.results.asked import find_unanswered
from karat.results.by_judge_document import JudgedValuesJson, judged_values_json
from karat.results.gold import Gold
from karat.results.log_record import LogJson, log_json, read_log
from karat.results.result import Derived, Result, RunResult
from karat.results.sampling import Sampling
from karat.results.top_lists import DocNumbers, TopLists

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

T = TypeVar("T")
Counts = list[int]
Column = list[float | None]
"""Numbers, null where one is undefined."""


class Provenance(Struct, forbid_unknown_fields=True, frozen=True):
    """When and from what a result was saved; no part of its fingerprints."""

    time: Annotated[str, Meta(description="ISO 8601, in UTC.")]
    karat: str
    commit: str | UnsetType = UNSET
    branch: str | UnsetType = UNSET
    label: str | UnsetType = UNSET


class SubtopicsJson(Struct, forbid_unknown_fields=True, frozen=True):
    """Judgments by subtopic: the judgment that each is part of, its subtopic and its grade."""

    judgment: Counts
    names: list[str]
    grades: Column


class GoldJson(Struct, forbid_unknown_fields=True, frozen=True):
    """Gold: `judgments` of each query, and the doc (a number in `docs` of the record) and grade of each."""

    query_ids: list[str]
    judgments: Counts
    docs: Counts
    grades: Column
    source: str
    subtopics: SubtopicsJson | UnsetType = UNSET


class QueriesJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The table of queries by field; null where a query has none."""

    ids: list[str]
    fields: dict[str, list[Json]]
    source: str


class SamplingJson(Struct, forbid_unknown_fields=True, frozen=True):
    """How intervals and segments are found again."""

    confidence: float
    method: str
    resamples: int
    seed: int
    minimum: int
    by: list[list[str]]
    weights: dict[str, float]
    conversations: dict[str, str]
    fields: dict[str, dict[str, str | list[str]]]
    of_gates: Annotated[list[list[str]], Meta(description="Those of `by` that only gates look at.")] = []
    added: Annotated[
        dict[str, float] | UnsetType,
        Meta(description="Where intervals hold at every look: the day of each query, counted from the year 1."),
    ] = UNSET


class HitsJson(Struct, forbid_unknown_fields=True, frozen=True):
    """Judged docs that were returned: how many each query has, their ranks and grades."""

    hits: Counts
    ranks: Counts
    grades: Column


class RankingsJson(Struct, forbid_unknown_fields=True, frozen=True):
    """What relevance metrics are measured on; `gold_grades` are sorted by query and descending grade."""

    returned: Counts
    first: HitsJson
    judgments: Counts
    gold_grades: Column
    later: Annotated[HitsJson | UnsetType, Meta(description="Further chunks of a doc that has its grade.")] = UNSET
    later_earn: bool = False
    pipeline: Annotated[
        Counts | UnsetType, Meta(description="Rows of `query_ids`: the queries that metrics of the pipeline are about.")
    ] = UNSET
    whole: Annotated[Counts | UnsetType, Meta(description="The same of metrics of what the run says itself.")] = UNSET


class TopJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The first docs of each query: how many are listed, their numbers in `docs` of the record, and their scores.

    `judged` leads to those that have a judgment, each by its distance from the one before (the first from row 0), with
    `grades` beside them.
    """

    returned: Counts
    listed: Counts
    docs: Counts
    judged: Counts
    grades: Column
    scores: Column | UnsetType = UNSET


class DerivedJson(Struct, forbid_unknown_fields=True, frozen=True):
    """What follows from rankings, in a result that came from a file without them."""

    attainable: dict[str, float | None]
    judged: Column | UnsetType = UNSET


class RunRecordJson(Struct, forbid_unknown_fields=True, frozen=True):
    """One run: values by metric in the order of `query_ids`, and the ranks of the gold (0: not returned)."""

    query_ids: list[str]
    values: dict[str, Column]
    sampling: int
    ranked: Annotated[
        list[str] | UnsetType, Meta(description="The queries of rankings and lists, where some have values alone.")
    ] = UNSET
    gold: int | UnsetType = UNSET
    rankings: RankingsJson | UnsetType = UNSET
    gold_ranks: Counts | UnsetType = UNSET
    top: TopJson | UnsetType = UNSET
    log: LogJson | UnsetType = UNSET
    idle: Annotated[
        dict[str, list[str]] | UnsetType,
        Meta(
            description="By metric: queries whose lines say that the step did not run, and so has no latency or cost."
        ),
    ] = UNSET
    derived: DerivedJson | UnsetType = UNSET
    by_judge: JudgedValuesJson | UnsetType = UNSET
    completed_gold: Annotated[
        int | UnsetType, Meta(description="Among `gold`: the run's own with the judge's grades where it has none.")
    ] = UNSET


class RecordJson(Struct, forbid_unknown_fields=True, frozen=True):
    """What the runs share: ids of docs, and the gold and sampling that each run names by number."""

    docs: list[str]
    gold: list[GoldJson]
    sampling: list[SamplingJson]
    queries: QueriesJson | UnsetType = UNSET


def write_record(result: Result) -> tuple[RecordJson, list[RunRecordJson]]:
    """What the runs of a result share, and what each holds; the gold is written with lists alone."""
    numbers = DocNumbers()
    golds: list[Qrels] = []

    def place(gold: Gold | None, run: RunResult) -> int | UnsetType:
        """Where gold stands among all of it; nowhere without lists."""
        if gold is None or run.gold_ranks is None:
            return UNSET
        if not any(gold.qrels is other for other in golds):
            golds.append(gold.qrels)
        return next(i for i, other in enumerate(golds) if other is gold.qrels)

    samplings: list[Sampling] = []
    runs = []
    places = [(place(run.gold, run), place(run.completed_gold, run)) for run in result.runs]
    tops = [run.top.docs for run in result.runs if run.top is not None]
    codes = iter(numbers.of([*tops, *(qrels.docs for qrels in golds)]))
    for run, (gold, completed_gold) in zip(result.runs, places, strict=True):
        if run.sampling not in samplings:
            samplings.append(run.sampling)
        ranked = run.rankings.query_ids if run.rankings is not None else run.query_ids
        runs.append(
            RunRecordJson(
                query_ids=list(run.query_ids),
                values={name: _compact(values) for name, values in run.values.items()},
                sampling=samplings.index(run.sampling),
                ranked=UNSET if list(ranked) == list(run.query_ids) else list(ranked),
                gold=gold,
                rankings=_rankings_json(run.rankings, run.query_ids) if run.rankings is not None else UNSET,
                gold_ranks=run.gold_ranks.tolist() if run.gold_ranks is not None else UNSET,
                top=_top_json(run.top, next(codes)) if run.top is not None else UNSET,
                log=log_json(run.log, numbers.number) if run.log is not None else UNSET,
                idle={name: sorted(ids) for name, ids in run.idle.items()} or UNSET,
                derived=_derived_json(run.derived) if run.derived is not None else UNSET,
                by_judge=judged_values_json(run.by_judge) if run.by_judge is not None else UNSET,
                completed_gold=completed_gold,
            )
        )
    judgments = [_gold_json(qrels, docs) for qrels, docs in zip(golds, codes, strict=True)]
    queries = _queries_json(result) if result.queries is not None else UNSET
    return RecordJson(list(numbers.known), judgments, [sampling_json(s) for s in samplings], queries), runs


def _compact(values: Floats) -> Column:
    """Numbers as short as JSON has them; what is undefined is written as null."""
    whole = not np.isnan(values).any() and (values == np.floor(values)).all() and np.abs(values).max(initial=0) < 1e15
    column: Column = values.astype(np.int64).tolist() if whole else values.tolist()
    return column


def _gold_json(qrels: Qrels, docs: list[int]) -> GoldJson:
    subtopics = qrels.subtopics
    return GoldJson(
        query_ids=list(qrels.query_ids),
        judgments=np.diff(qrels.offsets).tolist(),
        docs=docs,
        grades=_compact(qrels.grades),
        source=qrels.source,
        subtopics=UNSET
        if subtopics is None
        else SubtopicsJson(subtopics.judgment.tolist(), list(subtopics.names), _compact(subtopics.grades)),
    )


def _queries_json(result: Result) -> QueriesJson:
    """The fields of the queries that were evaluated, that have no answer, or that a run lacks."""
    table = result.queries
    assert table is not None
    wanted = {q for run in result.runs for q in (*run.query_ids, *(run.log.traces if run.log is not None else ()))}
    wanted |= {*table.no_answer, *(q for run in result.runs for q in find_unanswered(run, table))}
    ids = [q for q in table.fields if q in wanted]
    names = dict.fromkeys(name for q in ids for name in table.fields[q])
    columns = {name: [_plain(table.fields[q].get(name)) for q in ids] for name in names}
    return QueriesJson(ids, columns, table.source)


def _plain(value: object) -> Json:
    """A cell of a table as JSON can hold it: a date becomes text, a number of numpy's a number."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return _plain(value.item()) if isinstance(value, np.generic) else str(value)


def sampling_json(sampling: Sampling) -> SamplingJson:
    """The sampling design, to be read back."""
    return SamplingJson(
        sampling.confidence,
        sampling.method,
        sampling.resamples,
        sampling.seed,
        sampling.minimum,
        [list(names) for names in sampling.by],
        dict(sampling.weights),
        dict(sampling.conversations),
        {
            f: {q: v if isinstance(v, str) else list(v) for q, v in column.items()}
            for f, column in sampling.fields.items()
        },
        of_gates=[list(names) for names in sampling.of_gates],
        added=UNSET if sampling.added is None else dict(sampling.added),
    )


def _rankings_json(rankings: Rankings, query_ids: Sequence[str]) -> RankingsJson:
    later = rankings.repeats

    def asked(part: Rankings | None) -> Counts | UnsetType:
        if part is None:
            return UNSET
        row = {q: i for i, q in enumerate(query_ids)}
        return [row[q] for q in part.query_ids]

    return RankingsJson(
        returned=rankings.returned.tolist(),
        first=_hits_json(rankings),
        judgments=np.bincount(rankings.gold_query, minlength=len(rankings)).tolist(),
        gold_grades=_compact(rankings.gold_grade),
        later=_hits_json(later) if later is not None else UNSET,
        later_earn=rankings.repeats_earn,
        pipeline=asked(rankings.pipeline),
        whole=asked(rankings.whole),
    )


def _hits_json(rankings: Rankings) -> HitsJson:
    counts = np.bincount(rankings.query, minlength=len(rankings)).tolist()
    return HitsJson(counts, rankings.rank.tolist(), _compact(rankings.grade))


def _derived_json(derived: Derived) -> DerivedJson:
    return DerivedJson(dict(derived.attainable), UNSET if derived.judged is None else _compact(derived.judged))


def _top_json(top: TopLists, docs: list[int]) -> TopJson:
    judged = np.flatnonzero(~np.isnan(top.grades))
    return TopJson(
        returned=top.returned.tolist(),
        listed=np.diff(top.offsets).tolist(),
        docs=docs,
        judged=np.diff(judged, prepend=0).tolist(),
        grades=_compact(top.grades[judged]),
        scores=UNSET if np.isnan(top.scores).all() else _compact(top.scores),
    )


class Damaged(ValueError):
    """A record that contradicts itself."""


class RecordReader:
    """A record with what several runs refer to, each made once."""

    def __init__(self, record: RecordJson, conventions: Mapping[str, Json]) -> None:
        self.docs = record.docs
        self.golds = [Gold(self._gold(gold)) for gold in record.gold]
        self.samplings = [read_sampling(sampling) for sampling in record.sampling]
        self.queries = _queries(record.queries) if record.queries is not UNSET else None
        names = {f.name for f in fields(Policy)}
        self.policy = Policy(**{name: value for name, value in conventions.items() if name in names})  # type: ignore[arg-type]

    def run(self, name: str, record: RunRecordJson) -> RunResult:
        """One run without what the head of its document says of it."""
        n = len(record.query_ids)
        ids = record.query_ids if record.ranked is UNSET else record.ranked
        gold = None if record.gold is UNSET else self._at(self.golds, record.gold, "gold")
        ranks = None
        if record.gold_ranks is not UNSET:
            _check(gold is not None and len(record.gold_ranks) == len(gold.qrels.docs), "a rank for each judgment")
            ranks = _integers(record.gold_ranks)
        return RunResult(
            name,
            record.query_ids,
            {metric: _floats(values, n, f"values of {metric}") for metric, values in record.values.items()},
            {},
            sampling=self._at(self.samplings, record.sampling, "sampling"),
            policy=self.policy,
            gold=gold,
            rankings=_rankings(record.rankings, ids, record.query_ids) if record.rankings is not UNSET else None,
            gold_ranks=ranks,
            top=self._top(record.top, ids) if record.top is not UNSET else None,
            log=read_log(record.log, self.docs) if record.log is not UNSET else None,
            idle={} if record.idle is UNSET else {name: frozenset(ids) for name, ids in record.idle.items()},
            derived=_derived(record.derived, n) if record.derived is not UNSET else None,
            completed_gold=None
            if record.completed_gold is UNSET
            else self._at(self.golds, record.completed_gold, "gold"),
        )

    def _at(self, values: Sequence[T], number: int, what: str) -> T:
        _check(0 <= number < len(values), f"a {what} with the number {number}")
        return values[number]

    def _named(self, numbers: list[int]) -> list[str]:
        _check(not numbers or (min(numbers) >= 0 and max(numbers) < len(self.docs)), "a doc for each number")
        docs = self.docs
        return [docs[i] for i in numbers]

    def _gold(self, gold: GoldJson) -> Qrels:
        offsets = _offsets(gold.judgments, len(gold.query_ids), len(gold.docs), "judgments")
        subtopics = None
        if (by := gold.subtopics) is not UNSET:
            grades = _floats(by.grades, len(by.judgment), "grades by subtopic")
            _check(len(by.names) == len(by.judgment), "a subtopic for each judgment by subtopic")
            subtopics = Subtopics(_integers(by.judgment, below=len(gold.docs)), by.names, grades)
        grades = _floats(gold.grades, len(gold.docs), "grades of the gold")
        return Qrels(gold.query_ids, offsets, self._named(gold.docs), grades, gold.source, subtopics)

    def _top(self, top: TopJson, query_ids: Sequence[str]) -> TopLists:
        n = len(top.docs)
        grades = np.full(n, np.nan)
        judged = np.cumsum(_integers(top.judged))
        _check(not len(judged) or judged[-1] < n, "a listed doc for each judgment")
        grades[judged] = _floats(top.grades, len(top.judged), "grades of the lists")
        scores = np.full(n, np.nan) if top.scores is UNSET else _floats(top.scores, n, "scores")
        _check(len(top.returned) == len(query_ids), "how many docs each query returned")
        offsets = _offsets(top.listed, len(query_ids), n, "listed docs")
        return TopLists(query_ids, _integers(top.returned), offsets, self._named(top.docs), scores, grades)


def _derived(derived: DerivedJson, queries: int) -> Derived:
    best = {name: math.nan if value is None else value for name, value in derived.attainable.items()}
    return Derived(best, None if derived.judged is UNSET else _floats(derived.judged, queries, "shares of judged docs"))


def read_sampling(sampling: SamplingJson) -> Sampling:
    """What `sampling_json` made."""
    _check(0 < sampling.confidence < 1, f"a confidence between 0 and 1, found {sampling.confidence:g}")
    _check(sampling.minimum >= 1 and sampling.resamples >= 1, "a positive minimum and number of resamples")
    _check(all(0 <= weight < math.inf for weight in sampling.weights.values()), "weights of queries from 0 on")
    return Sampling(
        sampling.confidence,
        sampling.method,
        sampling.resamples,
        sampling.seed,
        sampling.minimum,
        tuple(map(tuple, sampling.by)),
        sampling.weights,
        sampling.conversations,
        sampling.fields,
        of_gates=tuple(map(tuple, sampling.of_gates)),
        added=None if sampling.added is UNSET else sampling.added,
    )


def _queries(queries: QueriesJson) -> Queries:
    for name, column in queries.fields.items():
        _check(len(column) == len(queries.ids), f"a value of {name} for each query")
    rows = zip(*queries.fields.values(), strict=True) if queries.fields else ((),) * len(queries.ids)
    names = list(queries.fields)
    table = {
        q: {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for q, row in zip(queries.ids, rows, strict=True)
    }
    return Queries(table, queries.source)


def _rankings(rankings: RankingsJson, query_ids: Sequence[str], over: Sequence[str]) -> Rankings:
    """The rankings of the queries with gold; `over` are all that the run has values of."""
    n = len(query_ids)
    _check(len(rankings.returned) == n, "how many docs each query returned")
    returned = _integers(rankings.returned)
    gold_grade = _floats(rankings.gold_grades, len(rankings.gold_grades), "grades of the gold")
    gold_query = _expanded(rankings.judgments, n, len(gold_grade), "judgments")
    first, later = (
        Rankings(query_ids, *_hits(hits, n), returned, gold_query, gold_grade) if hits is not UNSET else None
        for hits in (rankings.first, rankings.later)
    )
    assert first is not None
    pipeline, whole = (_asked(part, over) for part in (rankings.pipeline, rankings.whole))
    earn = later is not None and rankings.later_earn
    return replace(first, repeats=later, repeats_earn=earn, pipeline=pipeline, whole=whole)


def _asked(rows: Counts | UnsetType, over: Sequence[str]) -> Rankings | None:
    """Which queries some metrics are about, and nothing that these could be measured on again."""
    if rows is UNSET:
        return None
    none, empty = np.zeros(0, dtype=np.int64), np.zeros(0)
    ids = [over[i] for i in _integers(rows, below=len(over)).tolist()]
    return Rankings(ids, none, none, empty, np.zeros(len(ids), dtype=np.int64), none, empty)


def _hits(hits: HitsJson, n: int) -> tuple[Integers, Integers, Floats]:
    grades = _floats(hits.grades, len(hits.ranks), "grades of the docs returned")
    _check(min(hits.ranks, default=1) >= 1, "ranks from 1 on")
    return _expanded(hits.hits, n, len(hits.ranks), "docs returned"), _integers(hits.ranks), grades


def _expanded(counts: list[int], queries: int, total: int, what: str) -> Integers:
    """The query of each row."""
    return np.repeat(np.arange(queries), np.diff(_offsets(counts, queries, total, what)))


def _offsets(counts: list[int], queries: int, total: int, what: str) -> Integers:
    fits = len(counts) == queries and min(counts, default=0) >= 0 and sum(counts) == total
    _check(fits, f"{what} for each query")
    return np.cumsum([0, *counts])


def _integers(values: list[int], below: int | None = None) -> Integers:
    column = np.array(values, dtype=np.int64)
    _check(not len(column) or column.min() >= 0, "no number below 0")
    _check(below is None or not len(column) or column.max() < below, f"numbers below {below}")
    return column


def _floats(values: Sequence[float | None], length: int, what: str) -> Floats:
    _check(len(values) == length, f"{length} {what}")
    return np.array(values, dtype=np.float64)


def _check(holds: bool | np.bool_, expected: str) -> None:
    if not holds:
        raise Damaged(f"expected {expected}")
