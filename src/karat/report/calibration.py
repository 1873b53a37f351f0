"""What is said of a judge beside people: tables of text and lines, which terminal and Markdown lay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.reliability import Section
from karat.results.figures import share_figure
from karat.results.reliability import coefficient_figure
from karat.results.words import TOO_FEW, plural, queries_text
from karat.stats.intervals import ALL_EQUAL

if TYPE_CHECKING:
    from karat.judge.calibration import Bias, Calibration
    from karat.judge.people_labels import PeopleAgreement
    from karat.judge.systems import JudgedSystem, SystemsByJudge
    from karat.stats.intervals import Interval
    from karat.stats.prediction_powered import CorrectedMean


def headline(one: Calibration) -> str:
    """Who labelled how many of the judge's pairs; the judge stands before it."""
    whole = ", all of the queries that were drawn," if one.unit == "query" else ""
    return f": {plural(one.labelled, 'pair')} of {one.judged:,}{whole} labelled by {', '.join(one.people)}"


def remarks(one: Calibration) -> list[str]:
    """What to know of the labels before believing the figures."""
    left_out = (
        f"labels of {plural(one.left_out, 'pair')} left out: not drawn at random, or not in the way of the others "
        "(single pairs, whole queries)"
    )
    return [*([left_out] if one.left_out else []), *one.notes]


def confusion(one: Calibration) -> Section:
    """How often people and the judge gave which grades."""
    heads = ("people \\ judge", *(f"{grade:g}" for grade in one.matrix.grades))
    rows = zip(one.matrix.grades, one.matrix.counts.tolist(), strict=True)
    return Section("", heads, tuple((f"{grade:g}", *map(str, row)) for grade, row in rows))


def figures(one: Calibration) -> list[tuple[str, str]]:
    """How well the judge tells relevant docs, and what its means become with labels: names and values."""
    worth = one.discrimination
    intervals = {
        "sensitivity": worth.sensitivity,
        "specificity": worth.specificity,
        "weighted kappa": one.weighted_kappa,
    }
    out = [(name, _text(interval)) for name, interval in intervals.items()]
    return [*out, ("share relevant", _means(one.relevant)), ("mean grade", _means(one.mean_grade))]


def people(agreement: PeopleAgreement) -> list[str]:
    """How far people agree, and what they leave to settle."""
    out = []
    for one in agreement.kappas[:KAPPAS]:
        n = plural(one.kappa.n, "pair")
        out.append(f"{one.first} and {one.second}: weighted kappa {_text(one.kappa)}, over {n}")
    if (more := len(agreement.kappas) - KAPPAS) > 0:
        out.append(f"and {more:,} more pairs of people")
    out.append(f"Krippendorff's alpha of the labels {_text(agreement.alpha)}, over {plural(agreement.pairs, 'pair')}")
    settled = f", {agreement.adjudicated:,} of them adjudicated" if agreement.adjudicated else ""
    left = agreement.disputed - agreement.adjudicated
    advice = "; to settle them: karat judge label … --adjudicate" if left else ""
    out.append(f"{agreement.disputed:,} of {plural(agreement.pairs, 'pair')} have different labels{settled}{advice}")
    return out


KAPPAS = 6
"""Pairs of people that are shown one by one."""


def biases(one: Calibration) -> Section:
    """By how much the judge is off in each segment."""
    return Section(
        "Judge − people, in grades", ("segment", "judge − people", "pairs", ""), tuple(map(_bias, one.biases))
    )


def trait_statements(one: Calibration) -> list[str]:
    """Whether the judge grades by length or rank beside relevance."""
    out = []
    for bias in one.traits:
        if bias.pull.estimate != bias.pull.estimate:
            out.append(
                f"Nothing can be said about {bias.trait}: among docs that people grade the same, it does not vary"
            )
            continue
        seen = "" if bias.pull.low > 0 or bias.pull.high < 0 else "; not significant"
        out.append(
            f"Per doubling of {bias.trait}, the judge's grade changes by {_text(bias.pull, difference=True)} among "
            f"docs that people grade the same{seen}"
        )
    return out


def systems(source: SystemsByJudge, *, narrow: bool = False) -> Section:
    """The runs, those that people grade best first; a narrow screen has no room for the judge's own means."""
    order = sorted(source.systems, key=lambda one: (one.people != one.people, -one.people))
    columns = [i for i, head in enumerate(SYSTEMS) if not (narrow and head in ("judged", "judge"))]
    rows = (_system(one) for one in order)
    return Section(
        f"Mean grade of the top {source.depth}",
        tuple(SYSTEMS[i] for i in columns),
        tuple(tuple(row[i] for i in columns) for row in rows),
    )


SYSTEMS = ("run", "judged", "labelled", "judge", "people", "judge − people", "at equal grades")


def statements(source: SystemsByJudge) -> list[str]:
    """Whether the judge orders the runs as people do, and which of them it favours."""
    out = []
    if source.tau is not None:
        known = sum(one.labelled > 0 for one in source.systems)
        alike = "; samples of these queries all give the same, so that it has no interval"
        out.append(
            f"Order of the {plural(known, 'run')}, judge against people: Kendall's τ "
            f"{coefficient_figure(source.tau).sentence}, over {queries_text(source.tau.n)}"
            f"{alike if source.tau.method == ALL_EQUAL else ''}"
        )
    for one in sorted(source.systems, key=lambda one: -one.favour.estimate):
        if one.favoured or one.disfavoured:
            verb, how = ("favours", "higher") if one.favoured else ("is harder on", "lower")
            size = share_figure(one.favour.estimate, one.favour.low, one.favour.high, difference=True)
            out.append(
                f"The judge {verb} {one.run}: it grades its docs {size.size} {size.size_interval} {how} than other "
                "docs that people grade the same"
            )
    if not any(one.favoured or one.disfavoured for one in source.systems):
        out.append("No run is significantly favoured over docs that people grade the same")
    return out


def legend(source: SystemsByJudge) -> list[str]:
    """What the columns of the runs mean."""
    together = ", with intervals that hold for all runs together" if len(source.systems) > 1 else ""
    return [
        "people: the judge's mean, less its mean error on labelled pairs of the run",
        "at equal grades: what the judge gives docs of the run beyond other docs that people grade the same" + together,
    ]


def _system(one: JudgedSystem) -> tuple[str, ...]:
    means = (str(share_figure(value)) for value in (one.judge, one.people))
    favour = TOO_FEW if one.small else _text(one.favour, difference=True)
    return one.run, f"{one.judged:,}", f"{one.labelled:,}", *means, _text(one.error, difference=True), favour


def _bias(bias: Bias) -> tuple[str, ...]:
    few = TOO_FEW if bias.small else ""
    return f"{bias.by} = {bias.value}", _text(bias.error, difference=True), f"{bias.pairs:,}", few


def _text(interval: Interval, *, difference: bool = False) -> str:
    return str(share_figure(interval.estimate, interval.low, interval.high, difference=difference))


def _means(mean: CorrectedMean) -> str:
    return f"judge {share_figure(mean.raw)} · labels {_text(mean.human)} · corrected {_text(mean.interval)}"
