"""A decision: one metric of a candidate against the baseline, and all that was decided, its p in writing too.

Every output shows these objects, so that no two can disagree on what is significant.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.metrics.grammar import parse
from karat.records import dataclass
from karat.results.figures import Figure, change_figure, change_text, figure, p_text, ratio_figure
from karat.results.no_spread import describe_equal_changes
from karat.results.words import BASELINE, SharedLevels, plural, queries_text, round_up, segment_text
from karat.stats.aggregates import NEUTRAL, ChangeScale
from karat.stats.changes import ONE_MORE
from karat.stats.defaults import ALPHA, LEAST_P
from karat.stats.intervals import ALL_EQUAL, Interval
from karat.stats.power import POWER, detectable, fewest_queries, power_of
from karat.store.codec import ends_json, rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msgspec import UnsetType

    from karat.results.decision_document import ComparisonJson, FamilyJson, PooledJson
    from karat.results.result import RunResult

TEST_LABELS = {ONE_MORE: "one unseen query"}
"""What readers call tests whose names in JSON do not explain themselves."""
CORRECTIONS = {"holm": "Holm", "bh": "Benjamini–Hochberg", "none": "no correction"}
ComparisonOutcome = Literal[
    "better", "worse", "different", "no significant difference", "too few queries", "not tested"
]
"""What a decision says of the candidate; a metric without a direction is neither better nor worse."""


@dataclass(frozen=True)
class Family:
    """What a p is adjusted over: the comparisons that are decided together."""

    method: str
    size: int
    over: Literal["candidates", "segments"]
    metrics: int = 1
    """How many metrics are adjusted for together; the primary one is alone."""
    untested: int = 0
    """Comparisons of the same candidates or segments and metrics that are not among them."""

    def __str__(self) -> str:
        size = f"the {self.size:,} tested of {self.size + self.untested:,}" if self.untested else f"{self.size:,}"
        if self.metrics > 1:
            return f"{CORRECTIONS[self.method]} over {size} comparisons ({self.over} × {self.metrics} metrics)"
        what = self.over if self.size + self.untested != 1 else self.over.removesuffix("s")
        return f"{CORRECTIONS[self.method]} over {size} {what}"

    def document(self) -> FamilyJson:
        """This family as the JSON document has it."""
        from msgspec import UNSET

        from karat.results.decision_document import FamilyJson

        return FamilyJson(self.method, self.size, self.over, self.metrics, self.untested or UNSET)


@dataclass(frozen=True)
class SegmentInteraction:
    """Whether the segments of a field differ in their Δ."""

    fields: tuple[str, ...]
    segments: int
    p: float
    significant: bool

    def __str__(self) -> str:
        head = "Δ depends on" if self.significant else "no sign that Δ depends on"
        return f"{head} {', '.join(self.fields)} ({self.segments} segments, interaction p {p_text(self.p)})"


@dataclass(frozen=True)
class RestComparison:
    """Whether the Δ of a segment differs from that of the field's other segments."""

    p: float
    p_adjusted: float
    differs: bool


@dataclass(frozen=True)
class Decision:
    """One metric of a candidate against the baseline, over all queries or in one segment."""

    metric: str
    baseline: str
    candidate: str
    segment: Mapping[str, str] | None
    mean_baseline: float
    """The metric's aggregate over the queries that both runs have: a mean, a sum, a geometric mean, a quantile."""
    mean_candidate: float
    difference: Interval
    """Δ: candidate − baseline; of geometric means candidate / baseline, as `scale` says."""
    p: Mapping[str, float]
    p_adjusted: float
    correction: str
    effect_size: float
    wins: int
    ties: int
    losses: int
    small: bool
    better_when_higher: bool | None
    significant: bool
    decided_by: str
    """The test whose p is adjusted and decides."""
    scale: ChangeScale = "difference"
    spread: float = math.nan
    """The standard deviation of a unit's difference, where Δ is a mean (or a sum); of logarithms for a ratio."""
    stretch: float = 1.0
    """How much longer the interval is than Student's; the excess falls as 1/n."""
    alpha: float = ALPHA
    times: int = 1
    """How many means Δ is: the number of queries for a sum."""
    margin: float | None = None
    non_inferior: bool | None = None
    equivalent: bool | None = None
    noise: float | None = None
    """The change that a rebuild of one system alone makes, where replicates were given."""
    against_trend: bool = False
    """A segment that moves significantly against the overall difference."""
    pooled: Interval | None = None
    """In a segment: Δ drawn towards that of the field's other segments, where it is a mean and there are enough."""
    interactions: tuple[SegmentInteraction, ...] = ()
    """Over all queries, of the primary metric: for each field that queries are sliced by."""
    rest: RestComparison | None = None
    """In a segment, of the primary metric: the segment beside the others."""
    depths: tuple[int, int] | None = None
    """How deep the lists of baseline and candidate are, where that touches the metric."""
    same_lists: bool = False
    """Whether the ranked lists of both runs are identical, and determine the metric."""
    family: Family | None = None
    """What p was adjusted over; None where nothing was tested, and in segments too small to be judged alone."""
    primary: bool = True
    """Whether this metric decides which run is better; the others are secondary."""

    @cached_property
    def detectable(self) -> float:
        """The smallest change that these queries show with a power of .8; of a ratio, the smallest above 1.

        NaN where they show none, because too few of them bound a change.
        """
        if self.difference.unbounded:
            return math.nan
        least = self.stretch * detectable(self.difference.units, self.spread, alpha=self._planned_alpha)
        return math.exp(least) if self.scale == "ratio" else self.times * least

    @property
    def detectable_text(self) -> str:
        """That change in writing; a ratio in the direction of Δ."""
        falls = self.scale == "ratio" and self.shift < 0
        return self.size(1 / self.detectable if falls else self.detectable)

    @property
    def detects_nothing(self) -> bool:
        """Whether even the largest change that there can be is too small for these queries."""
        if self.difference.unbounded:
            return True
        low, high = parse(self.metric).metric.bounds
        return self.scale != "ratio" and high is not None and self.detectable > high - low

    @cached_property
    def needed(self) -> int | None:
        """The queries that would show the difference seen, with a power of .8."""
        if not math.isfinite(self.shift) or not math.isfinite(self.spread) or self.shift == 0:
            return None
        if self.spread == 0:
            return 2
        effect, units = abs(self.shift) / self.times / self.spread, self.difference.units
        least = self.n + 1 if self.difference.unbounded else 0
        return fewest_queries(
            lambda n: (
                n >= least and power_of(n * units / self.n, effect / self._stretch_at(n), self._planned_alpha) >= POWER
            )
        )

    def _stretch_at(self, n: int) -> float:
        """How much longer the interval of n queries is than Student's; of fewer than there are, as of these."""
        return 1 + (self.stretch - 1) * self.n / max(n, self.n)

    @property
    def _planned_alpha(self) -> float:
        """The level at which the first of a family is decided by Holm."""
        by_holm = self.family is not None and self.family.method == "holm"
        return self.alpha / self.family.size if self.family is not None and by_holm else self.alpha

    @property
    def delta(self) -> float:
        return self.difference.estimate

    @property
    def p_adjusted_text(self) -> str:
        """The p that decides, in writing: below its own value where the p of the test is only known to be below one."""
        below = "< " if self.p.get(self.decided_by) == LEAST_P and self.p_adjusted > LEAST_P else ""
        return below + p_text(self.p_adjusted)

    @property
    def shift(self) -> float:
        """How far Δ is from no change, and in which direction: the logarithm of a ratio, else Δ itself."""
        return self._distance(self.delta)

    @property
    def shift_interval(self) -> Interval:
        """The interval of that distance."""
        one = self.difference
        return replace(one, estimate=self.shift, low=self._distance(one.low), high=self._distance(one.high))

    def _distance(self, change: float) -> float:
        return math.log(change) if self.scale == "ratio" else change

    @property
    def n(self) -> int:
        return self.difference.n

    @property
    def inside_noise(self) -> bool | None:
        """Whether a rebuild alone makes as large a difference."""
        return None if self.noise is None else abs(self.shift) <= self._distance(self.noise)

    @property
    def figure(self) -> Figure:
        """Δ with its interval, unit and sign."""
        return change_figure(self.metric, self.scale, self.delta, self.difference.low, self.difference.high)

    @property
    def pooled_figure(self) -> Figure:
        """The pooled Δ with its interval; undefined where there is none."""
        one = self.pooled or Interval(math.nan, math.nan, math.nan, "none", 0)
        return change_figure(self.metric, self.scale, one.estimate, one.low, one.high)

    def size(self, change: float) -> str:
        """How large a change is, in writing."""
        return (ratio_figure(change) if self.scale == "ratio" else figure(self.metric, abs(change))).text

    def shared_levels(self, base: RunResult, run: RunResult) -> SharedLevels | None:
        """The levels that Δ is the difference of, where those of the runs are over more queries and look different."""
        most = max(int(np.count_nonzero(~np.isnan(one.values[self.metric]))) for one in (base, run))
        if self.segment is not None or self.n >= most:
            return None
        levels = change_text(self.metric, self.mean_baseline, self.mean_candidate)
        if levels == change_text(self.metric, base.mean[self.metric], run.mean[self.metric]):
            return None
        return SharedLevels(plural(self.n, "shared query", "shared queries"), levels)

    @property
    def improves(self) -> bool:
        """Whether the difference is for the better."""
        return (self.shift > 0) == (self.better_when_higher is not False)

    @property
    def outcome(self) -> ComparisonOutcome:
        """What is decided, in a word or two."""
        if self.small:
            return "too few queries"
        if self.family is None:
            return "not tested"
        if not self.significant:
            return "no significant difference"
        if self.better_when_higher is None:
            return "different"
        return "better" if self.improves else "worse"

    @property
    def statement(self) -> str:
        """The decision in words, as every output has it."""
        return self.state()

    @property
    def full_statement(self) -> str:
        """The decision in words with the names of both runs, which the statement has only where they differ."""
        return self.statement if self.significant else f"{self.candidate} against {self._opponent}, {self.statement}"

    def state(self, also: str = "") -> str:
        """The decision in words, with what else fell or rose before the comparison of segments."""
        where = f" where {segment_text(self.segment)}" if self.segment is not None else ""
        return f"{self.metric}{where}: {self._finding}{also}{self._segments}"

    @property
    def conclusion(self) -> str:
        """The decision in words, without the metric and the segment."""
        return self._finding + self._segments

    @property
    def _opponent(self) -> str:
        return "the baseline" if self.baseline == BASELINE else self.baseline

    @property
    def _finding(self) -> str:
        """The conclusion but for the comparison of segments."""
        label = "allowing for one unseen query" if self.decided_by == ONE_MORE else ""
        few = "; too few for an interval" if self._too_few else ""
        test = f"adjusted p {self.p_adjusted_text}, {label or self.decided_by}"
        if self.without_spread:
            single = math.isnan(self.difference.n_eff)
            text = describe_equal_changes(self.metric, self.delta, self.n, scale=self.scale, single=single)
        elif self.same_lists:
            text = f"no difference ({queries_text(self.n)}): the ranked lists are identical"
        elif self.significant:
            verb = "differs from" if self.outcome == "different" else f"is {self.outcome} than"
            text = f"{self.candidate} {verb} {self._opponent}, Δ {self.figure.sentence} ({test})"
        elif self.outcome == "no significant difference":
            text = f"no significant difference ({queries_text(self.n)}{few}; {test})"
            text += self._beside_interval + self._power
        else:
            text = f"{self.outcome} ({queries_text(self.n)}{few})"
        return text + self._margins + self._ends

    @property
    def _too_few(self) -> bool:
        """Whether there are too few queries for an interval; what is tested without one was asked for so."""
        return self.difference.unbounded or (self.difference.method == "none" and self.family is None)

    @property
    def without_spread(self) -> bool:
        """Whether all changes are equal, and on no scale that says how far others may reach: nothing is tested."""
        return self.difference.method == ALL_EQUAL and not self.small and not self.same_lists

    @property
    def _beside_interval(self) -> str:
        """Why a difference whose interval excludes no change is not significant."""
        neutral, test = NEUTRAL[self.scale], self.decided_by
        if not (self.difference.low > neutral or self.difference.high < neutral):
            return ""
        p = "p" if test in TEST_LABELS or test == self.difference.method else f"the p of {test}"
        if self.p_adjusted > self.p.get(test, math.nan):
            return f"; on its own the interval excludes {neutral:g}, but {p} decides, adjusted by {self.family}"
        return f"; the interval excludes {neutral:g}, but {p} decides, and it is not below the level of significance"

    @property
    def _ends(self) -> str:
        """Where the lists end, if the metric looks further or they do not end alike."""
        if self.depths is None:
            return ""
        ends = dict.fromkeys(f"{depth:,}" for depth in self.depths)
        return f"; lists end at rank {' and '.join(ends)}" + (" (baseline and candidate)" if len(ends) > 1 else "")

    @property
    def _segments(self) -> str:
        """Whether segments differ; of one segment, whether it differs from the others."""
        if self.rest is not None and self.rest.differs:
            return f"; differs from the other segments (interaction, adjusted p {p_text(self.rest.p_adjusted)})"
        return "".join(f"; {one}" for one in self.interactions)

    @property
    def contrast(self) -> str:
        """Of a segment: how its change stands to that of the other queries, where that is worth a word."""
        differs = self.rest is not None and self.rest.differs
        against = "moves against the whole" if self.against_trend and not self.small else ""
        return "; ".join(filter(None, (against, "differs from the rest" if differs else "")))

    @property
    def more_queries(self) -> str:
        """`about 860 queries`: how many would detect what these do not; empty where none or these would."""
        if self.outcome != "no significant difference" or self.without_spread or self.same_lists:
            return ""
        return "" if self.needed is None or self.needed <= self.n else f"about {round_up(self.needed):,} queries"

    @property
    def _power(self) -> str:
        """How many queries would detect the difference seen, and what these can detect."""
        out = []
        if self.needed is None and self.shift == 0:
            out.append(f"No number of queries would detect a {self.scale} of {NEUTRAL[self.scale]:g}")
        elif self.more_queries:
            out.append(f"Detecting a Δ of {self.size(self.delta)} would take {self.more_queries}")
        if self.detects_nothing:
            out.append(f"{self.n:,} can detect no difference, however large")
        elif self.detectable == self.detectable:
            often = ""
            if self.needed is not None and self.needed <= self.n:  # and yet this one was not found
                adjusted = self.family is not None and self.family.method == "bh" and self.family.size > 1
                often = f" in {10 * POWER:g} of 10 samples" + (" (without a correction)" if adjusted else "")
            out.append(f"{self.n:,} can detect {'' if out else 'a Δ of '}{self.detectable_text}{often}")
        return f". {'; '.join(out)}" if out else ""

    @property
    def _margins(self) -> str:
        text = ""
        if self.margin is not None and (self.equivalent is not None or self.non_inferior is not None):
            holds = [n for n, yes in (("equivalent", self.equivalent), ("non-inferior", self.non_inferior)) if yes]
            claim = " and ".join(holds) if holds else "neither equivalent nor non-inferior"
            within = f"{100 * self.margin:g}%" if self.scale == "ratio" else f"{self.margin:g}"
            text += f"; {claim} within {within}"
        if self.inside_noise is not None and self.noise is not None:
            text += f"; {'inside' if self.inside_noise else 'beyond'} the noise floor of {self.size(self.noise)}"
        return text

    def document(self) -> ComparisonJson:
        """This comparison as the JSON document has it."""
        from msgspec import UNSET

        from karat.results.decision_document import ComparisonJson, InteractionJson, RestJson

        interval, family = self.difference, self.family
        part, tested = self.segment is not None, self.margin is not None
        return ComparisonJson(
            metric=self.metric,
            baseline=self.baseline,
            candidate=self.candidate,
            mean_baseline=rounded(self.mean_baseline),
            mean_candidate=rounded(self.mean_candidate),
            delta=rounded(interval.estimate),
            scale=UNSET if self.scale == "difference" else self.scale,
            ci=ends_json(interval),
            ci_method=interval.method,
            p={name: rounded(p) for name, p in self.p.items()},
            p_adjusted=rounded(self.p_adjusted),
            correction=self.correction,
            decided_by=self.decided_by,
            significant=bool(self.significant),
            outcome=self.outcome,
            statement=self.statement,
            family=None if family is None else family.document(),
            primary=self.primary,
            effect_size=rounded(self.effect_size) if math.isfinite(self.effect_size) else None,
            wins=self.wins,
            ties=self.ties,
            losses=self.losses,
            n=interval.n,
            n_eff=UNSET if math.isnan(interval.n_eff) else rounded(interval.n_eff),
            identical_lists=True if self.same_lists else UNSET,
            segment=dict(self.segment) if self.segment is not None else None,
            smallest_detectable=rounded(self.detectable),
            queries_needed=self.needed,
            small=self.small if part else UNSET,
            against_trend=self.against_trend if part else UNSET,
            pooled=pooled_json(self.pooled),
            interactions=[
                InteractionJson(list(one.fields), one.segments, rounded(one.p), one.significant)
                for one in self.interactions
            ]
            or UNSET,
            rest=UNSET
            if self.rest is None
            else RestJson(rounded(self.rest.p), rounded(self.rest.p_adjusted), self.rest.differs),
            margin=self.margin if self.margin is not None else UNSET,
            non_inferior=self.non_inferior if tested else UNSET,
            equivalent=self.equivalent if tested else UNSET,
            depths=list(self.depths) if self.depths is not None else UNSET,
            noise_floor=rounded(self.noise) if self.noise is not None else UNSET,
            inside_noise=self.inside_noise if self.noise is not None else UNSET,
        )


def pooled_json(interval: Interval | None) -> PooledJson | UnsetType:
    """A pooled mean; left out where there is none."""
    from msgspec import UNSET

    from karat.results.decision_document import PooledJson

    return UNSET if interval is None else PooledJson(rounded(interval.estimate), ends_json(interval))


def describe_families(rows: Sequence[Decision]) -> str:
    """What p was adjusted over, for the primary metric and for the others; nothing where nothing is tested."""
    texts: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for row in rows:
        if row.family is not None:
            texts[row.primary][str(row.family)] = None
    first, others = (" and ".join(texts[side]) for side in (True, False))
    if not (first and others):
        return f"p is adjusted by {first or others}" if first or others else ""
    primary = next(row.metric for row in rows if row.primary)
    return f"p is adjusted for {primary}, the primary metric, by {first}; for the other metrics by {others}"


def number(value: float | None) -> float:
    """A number of a document, where null stands for NaN."""
    return math.nan if value is None else value
