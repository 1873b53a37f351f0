"""More than two runs at once: all pairs of them, and the replicates of one system."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from karat.errors import UsageError
from karat.metrics.grammar import parse
from karat.records import dataclass
from karat.results.values import statistic_of
from karat.stats.changes import p_with_one_more
from karat.stats.multiple import randomised_hsd
from karat.store.codec import rounded
from karat.verbs.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from karat.config.options import Settings
    from karat.results.document import PairsJson
    from karat.results.result import Result


@dataclass(frozen=True)
class PairwiseTest:
    """The p of every pair of runs by randomised HSD, and the number of draws."""

    draws: int
    p: Mapping[str, Mapping[str, float]]
    block: Literal["query", "conversation"] = "query"
    """What the values of all runs are permuted within."""

    @property
    def method(self) -> str:
        """The test in words."""
        return describe_tests([self])

    def document(self) -> PairsJson:
        """This test as the JSON document has it."""
        from karat.results.document import PairsJson

        return PairsJson(self.draws, {a: {b: rounded(p) for b, p in row.items()} for a, row in self.p.items()})


def describe_tests(tests: Collection[PairwiseTest]) -> str:
    """The test of several metrics in words; they may differ in their draws."""
    fewest = min(tests, key=lambda test: test.draws)
    least = "at least " if any(test.draws > fewest.draws for test in tests) else ""
    return f"randomised Tukey HSD, blocked by {fewest.block}, {least}{fewest.draws:,} draws"


def all_pairs_of(result: Result, draws: int, seed: int) -> dict[str, PairwiseTest]:
    """By metric: p of every pair of runs by randomised HSD, which compares means, and the number of draws."""
    shared = set(result.runs[0].query_ids).intersection(*(r.query_ids for r in result.runs[1:]))
    out: dict[str, PairwiseTest] = {}
    first = result.runs[0]
    units = first.sampling.units([q for q in first.query_ids if q in shared])
    block: Literal["query", "conversation"] = "conversation" if len(units) < len(shared) else "query"
    for name in result.metrics:
        statistic = statistic_of(parse(name))
        if statistic.aggregate == "quantile":
            continue
        values = np.array([[v for q, v in r.per_query(name).items() if q in shared] for r in result.runs])
        scores, own = statistic.scores(values), units if statistic.weighted else units.unweighted()
        p, used = randomised_hsd(scores, own, draws=draws, seed=seed)
        p = np.maximum(p, p_with_one_more(scores, statistic.shares(values), own, statistic.change_bounds()))
        names = [r.name for r in result.runs]
        out[name] = PairwiseTest(
            used, {a: {b: float(p[i, j]) for j, b in enumerate(names) if i != j} for i, a in enumerate(names)}, block
        )
    return out


def noise_of(qrels: Any, replicates: Any, result: Result, settings: Settings) -> dict[str, float]:
    """What two builds of one system differ by, at the most usual: t · √2 · the spread of its replicates' means.

    Of geometric means it is a ratio above 1, from the spread of their logarithms.
    """
    from scipy.special import stdtrit

    whole = replace(settings, intervals=replace(settings.intervals, by=None))
    again = evaluate(qrels, replicates, [parse(name) for name in result.metrics], settings=whole)
    if len(again.runs) < 2:
        raise UsageError(f"the noise floor needs at least two replicates of one system, found {len(again.runs)}")
    out = {}
    for name in result.metrics:
        ratio = statistic_of(parse(name)).change == "ratio"
        means = np.array([math.log(r.mean[name]) if ratio else r.mean[name] for r in again.runs])
        floor = float(stdtrit(len(means) - 1, 0.975)) * math.sqrt(2) * float(means.std(ddof=1))
        out[name] = math.exp(floor) if ratio else floor
    return out
