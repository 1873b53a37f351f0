"""The least and largest value of a metric, or difference of two runs, whatever the grades of unjudged docs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.metrics.graded import dcg, gain_of, log_discount
from karat.model.policy import is_judged
from karat.model.rankings import place_in_group
from karat.records import dataclass
from karat.stats.aggregates import SAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.metrics.grammar import Measure
    from karat.model.rankings import Counts, Cutoff, Rankings, Values


RISING = ("hit", "precision", "mrr", "dcg", "rbp", "rank_biased_gain", "err")
"""A better grade of a returned doc never lowers these, and other docs do not matter."""
SHARES = ("recall", "wrecall", "f1")
"""A better grade of a doc in the top k never lowers these, and one of any other doc never raises them."""
OFFERED = (*RISING, *SHARES, "map", "ndcg")
HALVINGS = 60
"""Of the range in which ndcg's bounds are looked for."""


@dataclass(frozen=True)
class ValueBounds:
    """The least and the largest value of each query."""

    low: Values
    high: Values


def bound_values(
    measure: Measure, rankings: Rankings, grades: Sequence[float], *, elsewhere: int | Counts = 0
) -> ValueBounds | None:
    """Exact bounds of a metric per query; None for a metric that offers none.

    `grades` is the scale that docs without a judgment may have. `elsewhere` is how many docs, by query, were neither
    judged nor returned and might be relevant: with 0 the bounds are about the returned docs alone. Chunks without a
    judgment count as docs of their own.
    """
    scale = np.unique(np.asarray([0.0, *grades]))
    if scale[0] < 0 or len(scale) < 2:
        raise UsageError(
            f"grades must be a scale from 0 such as 0, 1, 2, 3, found {', '.join(f'{g:g}' for g in grades)}"
        )
    name = measure.metric.name
    if name not in OFFERED or any(p == "gains" for p, _ in measure.params):
        return None
    k = None if measure.k is None else int(measure.k)
    r, gaps = _judged_alone(rankings), unjudged_docs(rankings)
    others = np.broadcast_to(np.asarray(elsewhere, dtype=np.int64), len(r))
    if name in RISING:
        return ValueBounds(measure(r), measure(fill(r, gaps.upto(k), scale[-1])))
    low = fill(add_gold(r, others, scale[-1]), gaps.below(k), scale[-1])
    if name in SHARES:
        return ValueBounds(measure(low), measure(fill(r, gaps.upto(k), scale[-1])))
    if name == "map":
        return _bound_by_number(measure, r, low, gaps.upto(k), scale[-1])
    gain = str(measure.param("gain"))
    beyond = others + np.bincount(gaps.below(k).query, minlength=len(r))
    return _bound_ndcg(r, gaps.upto(k), beyond, k, gain, gain_of(scale, gain, ()))


@dataclass(frozen=True)
class Gaps:
    """Returned docs without a judgment, in order of query and rank."""

    query: Counts
    rank: Counts

    def upto(self, k: Cutoff) -> Gaps:
        """Those in the top k."""
        rows = self.rank <= (k or math.inf)
        return Gaps(self.query[rows], self.rank[rows])

    def below(self, k: Cutoff) -> Gaps:
        """Those after rank k."""
        rows = self.rank > (k or math.inf)
        return Gaps(self.query[rows], self.rank[rows])


def unjudged_docs(r: Rankings) -> Gaps:
    """The ranks of returned docs that nobody judged."""
    depth = np.maximum(r.returned, 0)
    query = np.repeat(np.arange(len(r)), depth)
    start = np.cumsum(depth) - depth
    judged = np.zeros(len(query), dtype=bool)
    for part in (r, r.repeats):
        if part is not None:
            rows = is_judged(part.grade)
            judged[start[part.query[rows]] + part.rank[rows] - 1] = True
    rank = np.arange(len(query)) - start[query] + 1
    return Gaps(query[~judged], rank[~judged])


def _judged_alone(r: Rankings) -> Rankings:
    """Without rows that say that a doc was pooled and not judged."""
    rows, gold = is_judged(r.grade), is_judged(r.gold_grade)
    if rows.all() and gold.all():
        return r
    return replace(
        r,
        query=r.query[rows],
        rank=r.rank[rows],
        grade=r.grade[rows],
        gold_query=r.gold_query[gold],
        gold_grade=r.gold_grade[gold],
    )


def fill(r: Rankings, gaps: Gaps, grade: float | Values) -> Rankings:
    """The rankings as if these docs had been judged so."""
    grades = np.broadcast_to(np.asarray(grade, dtype=np.float64), gaps.rank.shape)
    query, rank = np.concatenate((r.query, gaps.query)), np.concatenate((r.rank, gaps.rank))
    order = np.lexsort((rank, query))
    rows = np.concatenate((r.grade, grades))[order]
    return _with_gold(replace(r, query=query[order], rank=rank[order], grade=rows), gaps.query, grades)


def add_gold(r: Rankings, count: Counts, grade: float) -> Rankings:
    """The rankings as if so many more docs of each query had been judged, none of them returned."""
    query = np.repeat(np.arange(len(r)), count)
    return _with_gold(r, query, np.full(len(query), grade))


def _with_gold(r: Rankings, query: Counts, grade: Values) -> Rankings:
    queries, grades = np.concatenate((r.gold_query, query)), np.concatenate((r.gold_grade, grade))
    order = np.lexsort((-grades, queries))
    return replace(r, gold_query=queries[order], gold_grade=grades[order])


def _bound_by_number(measure: Measure, r: Rankings, low: Rankings, gaps: Gaps, grade: float) -> ValueBounds:
    """For each number of relevant docs, they do best at the first free ranks and worst at the last ones."""
    place = place_in_group(gaps.query)
    last = np.bincount(gaps.query, minlength=len(r))[gaps.query] - place + 1
    least, most = measure(low), measure(r)
    for number in range(1, int(place.max(initial=0)) + 1):
        first, final = place <= number, last <= number
        most = np.fmax(most, measure(fill(r, Gaps(gaps.query[first], gaps.rank[first]), grade)))
        least = np.fmin(least, measure(fill(low, Gaps(gaps.query[final], gaps.rank[final]), grade)))
    return ValueBounds(least, most)


def _bound_ndcg(r: Rankings, gaps: Gaps, beyond: Counts, k: Cutoff, gain: str, gains: Values) -> ValueBounds:
    """The extremes of DCG / ideal DCG over the grades of these docs, and of as many more `beyond` the cutoff."""
    queries, size = len(r), np.bincount(gaps.query, minlength=len(r))
    base, ideal = dcg(r, k, gain), Ideal.of(r.gold_query, gain_of(r.gold_grade, gain, ()), queries, k, gains)
    discounts = 1 / log_discount(gaps.rank)
    high = ideal.extreme(base, cumulate(gaps.query, discounts, size), size, largest=True)
    room = size + (beyond if k is None else np.minimum(beyond, k))
    last = np.repeat(np.arange(queries), room - size)  # docs beyond the cutoff gain nothing, and come first
    query, worth = np.concatenate((last, gaps.query[::-1])), np.concatenate((np.zeros(len(last)), discounts[::-1]))
    order = np.argsort(query, kind="stable")
    low = ideal.extreme(base, cumulate(query[order], worth[order], room), room, largest=False)
    known = ideal.known > 0
    return ValueBounds(np.where(known, low, 0.0), np.where(known | (room > 0), high, 0.0))


def sum_by(query: Counts, values: Values, queries: int) -> Values:
    """The sum of each query's values."""
    return np.bincount(query, values, minlength=queries).astype(np.float64, copy=False)


def cumulate(query: Counts, worth: Values, size: Counts) -> Values:
    """What the first 0, 1, 2 … docs of each query are worth together; rows are in the order of queries."""
    out = np.zeros((len(size), int(size.max(initial=0)) + 1))
    out[query, place_in_group(query)] = worth
    return np.cumsum(out, axis=1)


@dataclass(frozen=True)
class Ideal:
    """The ideal DCG of queries, and how it grows with the number of docs that reach each grade."""

    known: Values
    """Of the docs that are judged."""
    steps: Values
    """How much more each level of gain is than the one below."""
    group: Counts
    """The grade of the scale that a doc needs to reach each level, by its place among the gains above 0."""
    reach: tuple[Counts, ...]
    """How many judged docs of each query reach each level."""
    k: Cutoff
    grades: int
    """How many grades of the scale gain anything."""

    @staticmethod
    def of(query: Counts, gain: Values, queries: int, k: Cutoff, gains: Values) -> Ideal:
        """From the gains of judged docs, and the gains that others may have."""
        positive = gains[gains > 0]
        levels = np.unique(np.concatenate((positive, gain[gain > 0])))
        order = np.lexsort((-gain, query))
        place = place_in_group(query[order])
        top = place <= (k or math.inf)
        known = sum_by(query[order][top], (gain[order] / log_discount(place))[top], queries)
        reach = tuple(np.bincount(query[gain >= g], minlength=queries) for g in levels.tolist())
        return Ideal(known, np.diff(levels, prepend=0.0), np.searchsorted(positive, levels), reach, k, len(positive))

    def extreme(self, base: Values, taken: Values, room: Counts, *, largest: bool, least: float = 0.0) -> Values:
        """The largest or least sum / ideal DCG of each query, over the grades of `room` more docs.

        `base` is the sum of judged docs, and `taken` what m more docs add to it for a gain of 1 (queries × numbers),
        the best (or worst) docs first: those take the better grades, whatever the numbers m₁ ≥ m₂ ≥ … of docs that
        reach each grade. The ideal only knows the numbers. So sum − θ · ideal is a sum over grades, whose extreme over
        all m is found grade by grade; the θ from `least` to 1 at which it is 0 is the bound (Dinkelbach 1967).
        """
        numbers = np.arange(taken.shape[1])
        sums, gained = np.zeros((self.grades, *taken.shape)), np.zeros(self.grades)
        deepest = self.k or int(max((c.max(initial=0) for c in self.reach), default=0)) + len(numbers)
        top = np.concatenate(([0.0], np.cumsum(1 / log_discount(np.arange(1, deepest + 1)))))
        for step, group, reach in zip(self.steps, self.group, self.reach, strict=True):
            if group < self.grades:
                before = np.minimum(reach, deepest)[:, None]
                after = np.minimum(reach[:, None] + numbers, deepest)
                sums[group] += step * (top[after] - top[before])  # the ideal's part of each grade, by number
                gained[group] += step
        sign, low, high = (1.0 if largest else -1.0), np.full(len(base), least), np.ones(len(base))
        fixed = sign * gained[:, None, None] * taken
        fixed[:, numbers[None, :] > room[:, None]] = -np.inf
        fixed[0, self.known <= 0, 0] = -np.inf  # without any relevant doc there is no ratio
        for _ in range(HALVINGS):
            theta = (low + high) / 2
            best = np.zeros(taken.shape)
            for grade in range(self.grades - 1, -1, -1):
                worth = fixed[grade] - (sign * theta)[:, None] * sums[grade]
                worth += best
                best = np.maximum.accumulate(worth, axis=1)
            value = sign * (base - theta * self.known) + best[:, -1]
            rises = (value >= 0) if largest else (value < 0)
            low, high = np.where(rises, theta, low), np.where(rises, high, theta)
        return (low + high) / 2


@dataclass(frozen=True)
class PooledDocs:
    """Docs that runs return or that are judged, each once per query, and what their grades gain."""

    queries: int
    query: Counts
    gain: Values
    """NaN where nobody judged the doc."""


def offers_difference_bounds(measure: Measure) -> bool:
    """Whether differences of this metric have exact bounds: ndcg, and precision of the top k."""
    if measure.metric.name == "precision":
        return measure.k is not None and measure.param("denom") != "retrieved"
    return measure.metric.name == "ndcg" and not any(name == "gains" for name, _ in measure.params)


def weigh_ranks(measure: Measure, rank: Counts) -> Values:
    """What a gain of 1 at each rank adds to precision, or to the DCG of ndcg; nothing at rank 0: not in the list."""
    inside = (rank > 0) & (rank <= (measure.k or np.inf))
    if measure.metric.name == "precision":
        return inside / float(measure.k or 1)
    return np.where(inside, 1 / log_discount(np.maximum(rank, 1)), 0.0)


def gain_of_grades(measure: Measure, grades: Values) -> Values:
    """What each grade counts in the metric; NaN stays."""
    if measure.metric.name == "precision":
        return np.where(np.isnan(grades), np.nan, grades >= measure.param("rel"))
    return gain_of(grades, str(measure.param("gain")), ())


def bound_differences(measure: Measure, docs: PooledDocs, weight: Values, gains: Values) -> ValueBounds:
    """Exact bounds of each query's Σ weight · gain, which for ndcg is divided by the ideal DCG.

    `weight` is what the candidate's rank of each doc weighs minus what the baseline's does (`weigh_ranks`), and `gains`
    what docs without a judgment may gain.
    """
    free = np.isnan(docs.gain)
    query, gain = docs.query[~free], docs.gain[~free]
    base = sum_by(query, gain * weight[~free], docs.queries)
    query_of, worth = docs.query[free], weight[free]
    if measure.metric.name == "precision":
        most = float(gains.max())
        ends = (sum_by(query_of, most * cut(worth, 0.0), docs.queries) for cut in (np.minimum, np.maximum))
        return ValueBounds(*(_without_rounding(base + end) for end in ends))
    ideal = Ideal.of(query, gain, docs.queries, None if measure.k is None else int(measure.k), gains)
    size = np.bincount(query_of, minlength=docs.queries)

    def extreme(largest: bool) -> Values:
        order = np.lexsort((-worth if largest else worth, query_of))
        taken = cumulate(query_of[order], worth[order], size)
        value = ideal.extreme(base, taken, size, largest=largest, least=-1.0)
        nothing = np.maximum(value, 0.0) if largest else np.minimum(value, 0.0)  # no relevant doc: both runs have 0
        return _without_rounding(np.where(ideal.known > 0, value, np.where(size > 0, nothing, 0.0)))

    return ValueBounds(extreme(False), extreme(True))


def _without_rounding(values: Values) -> Values:
    """What differs from 0 by rounding alone is 0, as in comparisons."""
    return np.where(np.abs(values) <= SAME, 0.0, values)
