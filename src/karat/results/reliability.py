"""How far a collection can be trusted to order systems by one metric: the figures, and what they say in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from karat.records import dataclass
from karat.results.figures import Figure, share_figure
from karat.results.words import UnitWord, plural, round_up, units_text
from karat.store.codec import ends_json, rounded

if TYPE_CHECKING:
    from karat.results.reliability_document import (
        AgreementJson,
        CoefficientJson,
        MetricReliabilityJson,
        NeededJson,
        ReliabilityPointJson,
    )
    from karat.stats.generalizability import GeneralizabilityStudy, Needed, SignalRatio
    from karat.stats.intervals import Interval
    from karat.stats.rank_correlation import Agreement

TARGET = 0.95
"""The coefficient that a collection is built for (Carterette, Pavlu, Kanoulas, Aslam & Allan 2008)."""
STABLE = 0.8
"""An order is called stable where Eρ² is at least this, with its whole interval."""

RELIABILITY_HEADS = ("metric", "n", "Eρ²", f"n for {TARGET:g}", "Φ", "split-half τ", "τ_AP", "pairs separated")
NARROW_HEADS = ("metric", "n", "Eρ²", f"n for {TARGET:g}", "Φ", "half τ", "separated")
Stability = Literal["stable", "not stable", "open", "undefined"]


@dataclass(frozen=True)
class PairDifference:
    """Two systems and the p of their difference: the smallest level at which it is significant (Sakai's ASL)."""

    first: str
    second: str
    p: float


@dataclass(frozen=True)
class DiscriminativePower:
    """Sakai 2006, 2012: for how many pairs of systems a metric finds a significant difference, by randomised HSD."""

    pairs: tuple[PairDifference, ...]
    """In order of p."""
    alpha: float
    draws: int

    @property
    def significant(self) -> int:
        return sum(pair.p < self.alpha for pair in self.pairs)

    @property
    def share(self) -> float:
        return self.significant / len(self.pairs)

    @property
    def text(self) -> str:
        """`7 of 10`."""
        return f"{self.significant} of {len(self.pairs)}"


@dataclass(frozen=True)
class ReliabilityPoint:
    """What a collection of n units would give."""

    n: int
    relative: Interval
    """Eρ²: of the differences between systems."""
    absolute: Interval
    """Φ: of their levels."""
    agreement: Agreement
    """Of the orders that two samples of n units give."""


@dataclass(frozen=True)
class MetricReliability:
    """One metric: its variance components and coefficients, now and for other sizes of the collection."""

    metric: str
    order: tuple[str, ...]
    """The systems, best first."""
    queries: int
    units: int
    left_out: int
    """Queries for which some systems have a value and others have none."""
    study: GeneralizabilityStudy
    split_half: Agreement
    curve: tuple[ReliabilityPoint, ...]
    power: DiscriminativePower

    @property
    def relative(self) -> Interval:
        """Eρ² of this collection."""
        return self.study.relative.at(self.units)

    @property
    def absolute(self) -> Interval:
        """Φ of this collection."""
        return self.study.absolute.at(self.units)

    @property
    def needed(self) -> Needed:
        """The units with which Eρ² reaches its target."""
        return self.study.relative.needed(TARGET)

    @property
    def stability(self) -> Stability:
        """What the interval of Eρ² says of the order; without an interval, what Eρ² says."""
        one = self.relative
        if one.estimate != one.estimate:
            return "undefined"
        low, high = (one.estimate, one.estimate) if one.low != one.low else (one.low, one.high)
        return "stable" if low >= STABLE else "not stable" if high < STABLE else "open"

    @property
    def unit_word(self) -> UnitWord:
        """What is counted and drawn."""
        return "query" if self.units == self.queries else "conversation"

    @property
    def size(self) -> str:
        """`43 queries`, or `12 conversations`."""
        return units_text(self.units, self.unit_word)

    def cells(self, *, narrow: bool = False) -> tuple[str, ...]:
        """A row of a table: coefficients with their intervals, τ of halves with the range of the splits.

        A narrow row has one interval and no τ_AP.
        """
        figures = (self.relative, self.absolute, self.split_half.tau, self.split_half.tau_ap)
        relative, absolute, tau, ap = map(coefficient_figure, figures)
        first = (self.metric, str(self.units), relative.sentence, needed_text(self.needed))
        if narrow:
            return (*first, absolute.short, tau.short, self.power.text)
        return (*first, absolute.sentence, tau.sentence, ap.sentence, self.power.text)

    @property
    def statement(self) -> str:
        """Whether the order is stable, how sure that is, and how many queries would do, in one sentence."""
        systems = f"these {len(self.order)} systems"
        if self.stability == "undefined":
            return f"{systems.capitalize()} have the same values of {self.metric}, so they cannot be ranked"
        order = f"the order of {systems}"
        claim = {
            "stable": f"{order} is stable for {self.metric}",
            "not stable": f"{order} is not stable for {self.metric}",
            "open": f"it is open whether {order} is stable for {self.metric}",
        }[self.stability]
        parts = [f"With {self.size} {claim} (Eρ² {coefficient_figure(self.relative).sentence})"]
        alike = len(self.power.pairs) - self.power.significant
        if self.stability == "stable" and alike:
            verb = "does" if alike == 1 else "do"
            parts.append(
                f"except for {alike} of {plural(len(self.power.pairs), 'pair')} that {verb} not differ significantly"
            )
        return f"{', '.join(parts)}; {self._advice}"

    @property
    def _advice(self) -> str:
        needed = self.needed.n
        if needed is None:
            return "more queries would not help, as the systems do not differ beyond chance"
        if needed > self.units:
            doubt = ", if the systems differ at all" if self.relative.low == 0 else ""
            return f"about {units_text(round_up(needed), self.unit_word)} would reach {TARGET:g}{doubt}"
        enough = units_text(min(round_up(needed), self.units), self.unit_word)
        return f"about {enough} {'is' if needed == 1 else 'are'} enough for {TARGET:g}"

    def document(self) -> MetricReliabilityJson:
        """These figures as the JSON document has them."""
        from msgspec import UNSET

        from karat.results.reliability_document import (
            DiscriminativePowerJson,
            MetricReliabilityJson,
            PairDifferenceJson,
            VarianceJson,
        )

        parts, power = self.study.components, self.power
        return MetricReliabilityJson(
            metric=self.metric,
            statement=self.statement,
            stability=self.stability,
            order=list(self.order),
            n=self.queries,
            units=self.units,
            unit=self.unit_word,
            left_out=self.left_out,
            variance=VarianceJson(
                rounded(parts.system),
                rounded(parts.query),
                rounded(parts.interaction),
                list(parts.negative) or UNSET,
                rounded(self.study.sphericity),
            ),
            e_rho2=_coefficient(self.study.relative, self.units),
            phi=_coefficient(self.study.absolute, self.units),
            split_half=_agreement(self.split_half),
            curve=[_point(point) for point in self.curve],
            discriminative_power=DiscriminativePowerJson(
                rounded(power.share),
                power.significant,
                [PairDifferenceJson(p.first, p.second, rounded(p.p)) for p in power.pairs],
                power.draws,
            ),
        )


def coefficient_figure(interval: Interval) -> Figure:
    """A coefficient, τ or τ_AP with its interval, in writing."""
    return share_figure(interval.estimate, interval.low, interval.high)


def needed_text(needed: Needed) -> str:
    """`58`, or a dash where no number of queries is enough."""
    return "–" if needed.n is None else f"{needed.n:,}"


def _coefficient(ratio: SignalRatio, n: int) -> CoefficientJson:
    from karat.results.reliability_document import CoefficientJson

    one, needed = ratio.at(n), ratio.needed(TARGET)
    return CoefficientJson(rounded(one.estimate), ends_json(one), one.method, _needed(needed))


def _needed(needed: Needed) -> NeededJson:
    from karat.results.reliability_document import NeededJson

    return NeededJson(TARGET, needed.n, [needed.low, needed.high])


def _agreement(agreement: Agreement) -> AgreementJson:
    from karat.results.reliability_document import AgreementJson

    return AgreementJson(
        agreement.n,
        rounded(agreement.tau.estimate),
        ends_json(agreement.tau),
        rounded(agreement.tau_ap.estimate),
        ends_json(agreement.tau_ap),
        agreement.source,
        agreement.draws,
    )


def _point(point: ReliabilityPoint) -> ReliabilityPointJson:
    from karat.results.reliability_document import ReliabilityPointJson

    return ReliabilityPointJson(
        point.n,
        rounded(point.relative.estimate),
        ends_json(point.relative),
        rounded(point.absolute.estimate),
        ends_json(point.absolute),
        _agreement(point.agreement),
    )
