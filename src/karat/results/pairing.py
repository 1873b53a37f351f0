"""Two runs on the same queries: their values side by side, and whether they may be compared at all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import NotComparable, UsageError
from karat.metrics.grammar import parse
from karat.metrics.registry import GOLD_ALONE
from karat.records import dataclass
from karat.results.depths import cutoff_of, depth_of
from karat.results.fingerprints import Difference, find_differences, of_system
from karat.results.top_lists import DEPTH
from karat.stats.aggregates import SAME
from karat.stats.prediction_powered import tune_difference
from karat.stats.unseen_labels import keep_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure
    from karat.results.by_judge import Basis
    from karat.results.result import Result, RunResult

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Paired:
    """The values of two runs on the queries that both have, metrics × queries."""

    query_ids: Sequence[str]
    base: Floats
    candidate: Floats


def paired(base: RunResult, run: RunResult, metrics: Sequence[str]) -> Paired:
    """Line up two runs by query."""
    if list(base.query_ids) == list(run.query_ids):
        rows: tuple[Any, Any] = (slice(None), slice(None))
        ids: Sequence[str] = base.query_ids
    else:
        index = {q: i for i, q in enumerate(base.query_ids)}
        shared = [(index[q], i) for i, q in enumerate(run.query_ids) if q in index]
        if not shared:
            raise UsageError(f"{base.name} and {run.name} share no query; nothing can be paired")
        rows = tuple(np.array(column) for column in zip(*shared, strict=True))  # type: ignore[assignment]
        ids = [base.query_ids[i] for i in rows[0]]
    values = (np.array([r.values[m][own_rows] for m in metrics]) for r, own_rows in ((base, rows[0]), (run, rows[1])))
    return Paired(ids, *values)


def lack_of_common_judge(base: RunResult, run: RunResult) -> str:
    """Why figures by a judge cannot be compared; empty if they can."""
    if base.by_judge is None or run.by_judge is None:
        return f"{(base if base.by_judge is None else run).name} was not judged"
    if base.by_judge.judgments != run.by_judge.judgments:
        return f"{base.name} and {run.name} rest on different judgments or labels"
    return ""


def pair_on_basis(base: RunResult, run: RunResult, basis: Basis) -> tuple[RunResult, RunResult]:
    """Both runs with figures by gold + judge, raw or corrected; corrected ones with the λ of their difference.

    The candidate's corrected values are as far apart as few labels leave open: their mean is what it was.
    """
    first, second = base.on_basis(basis), run.on_basis(basis)
    if basis != "corrected" or base.by_judge is None or run.by_judge is None:
        return first, second
    one, two = base.by_judge.corrected, run.by_judge.corrected
    metrics = [m for m in one if m in two and m in base.values and m in run.values]
    zero, gain = (
        paired(replace(base, values=before), replace(run, values=after), metrics)
        for before, after in (
            ({m: one[m].at(0.0) for m in metrics}, {m: two[m].at(0.0) for m in metrics}),
            ({m: one[m].control for m in metrics}, {m: two[m].control for m in metrics}),
        )
    )
    units = run.sampling.units(zero.query_ids)
    before, after = {m: one[m].at(0.0) for m in metrics}, {m: two[m].at(0.0) for m in metrics}
    place = {q: i for i, q in enumerate(run.query_ids)}
    rows = [place[q] for q in zero.query_ids]
    differences = zip(metrics, zero.candidate - zero.base, gain.candidate - gain.base, strict=True)
    for m, values, control in differences:
        factor = tune_difference(values, control, units)
        before[m], after[m] = one[m].at(factor), two[m].at(factor)
        after[m][rows] += keep_apart(values + factor * control, one[m].doubt, two[m].doubt, units)
    return (replace(first, values={**first.values, **before}), replace(second, values={**second.values, **after}))


def follows_lists(measure: Measure) -> bool:
    """Whether the ranked lists determine a metric, as they do not determine latency or cost."""
    return measure.needs == GOLD_ALONE


def have_same_lists(base: RunResult, run: RunResult, metric: str) -> bool:
    """Whether two runs returned the same docs in the same order for every query, as far as a metric looks.

    With other gold its values differ all the same, and then the lists show nothing.
    """
    same = run.ranked_lists is not None and run.ranked_lists == base.ranked_lists
    return same and are_lists_held(run, metric) and have_same_values(base, run, metric)


def are_lists_held(run: RunResult, metric: str) -> bool:
    """Whether the lists that results hold, or know by a digest, are all that a metric looks at.

    Without the docs that nobody judged, or those that are too new, other lists become the same.
    """
    measure, depth = parse(metric), depth_of(run)
    if not follows_lists(measure) or run.policy.selects_by_gold or run.policy.as_of_filter:
        return False
    return min(cutoff_of(measure) or math.inf, math.inf if depth is None else depth) <= DEPTH


def have_same_values(base: RunResult, run: RunResult, metric: str) -> bool:
    """Whether two runs have the same value of a metric for every query; a file keeps its values with 12 digits."""
    same = list(base.query_ids) == list(run.query_ids)
    return same and np.allclose(base.values[metric], run.values[metric], rtol=SAME, atol=SAME, equal_nan=True)


def have_same_rankings(base: RunResult, run: RunResult) -> bool:
    """Whether two runs returned the judged docs at the same ranks, as they do if their lists are identical."""
    one, two = base.rankings, run.rankings
    if one is None or two is None or list(one.query_ids) != list(two.query_ids):
        return False
    pairs = ((one.rank, two.rank), (one.query, two.query), (one.grade, two.grade), (one.returned, two.returned))
    return all(np.array_equal(*pair) for pair in pairs)


@dataclass(frozen=True)
class Verified:
    """What two comparable runs differ in: what was overridden, and what belongs to the system under test."""

    forced: tuple[Difference, ...] = ()
    system: tuple[Difference, ...] = ()


def check_comparable(
    here: Result,
    run: RunResult,
    there: Result,
    base: RunResult,
    metrics: Sequence[str],
    *,
    force: bool = False,
    label: str | None = None,
    places: Mapping[str, str] | None = None,
) -> Verified:
    """Refuse a comparison of results that rest on different things, and name them; `force` compares all the same.

    `named` is how the baseline is called in the message, `places` are the files of gold, queries and baseline.
    """
    wrong: list[Difference] = []
    if here is not there:
        conventions = (here.conventions, there.conventions)
        both = [name for name in metrics if name in run.values and name in base.values]
        wrong = find_differences(here.fingerprints, there.fingerprints, conventions, both)
    system = of_system(run.facts, base.facts)
    if "chunk" in (run.gold_level, base.gold_level):
        wrong += [d for d in system if d.what == "chunker"]
        system = [d for d in system if d.what != "chunker"]
    if wrong and not force:
        files = places or {}
        messages = [
            f"{run.name} cannot be compared with {label or base.name}: "
            + d.describe(files.get(d.what, ""), files.get("baseline", ""))
            for d in wrong
        ]
        if any(d.what == "chunker" for d in wrong):
            messages.append("the gold is by chunk, and its ids do not carry over to another chunker: use gold by doc")
        messages.append(
            f"{_todo(wrong) if 'baseline' in files else 'evaluate both alike'}; --force compares all the same"
        )
        raise NotComparable(messages)
    return Verified(tuple(wrong), tuple(system))


_PARTS = {"gold": "dataset.qrels", "queries": "dataset.queries or --queries", "corpus": "dataset.corpus or --corpus"}
"""What a result rests on, and how it is named."""


def _todo(wrong: Sequence[Difference]) -> str:
    """What to do about a baseline that rests on something else: never to bless the run that is to be judged."""
    missing = [f"name the {d.what} ({_PARTS[d.what]})" for d in wrong if d.what in _PARTS and d.missing]
    if missing and len(missing) == len(wrong):
        return " and ".join(missing)
    what = " and ".join(d.what for d in wrong if d.what in _PARTS and not d.missing) or "settings"
    return "; ".join([*missing, f"bless the system that is in production with the {what} used here, then compare"])
