"""A calibration for a person at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.terminal.console import console, grid, line, note
from karat.results.figures import share_figure
from karat.results.words import plain, plural

if TYPE_CHECKING:
    from karat.judge.calibration import Bias, Calibration
    from karat.stats.intervals import Interval
    from karat.stats.prediction_powered import CorrectedMean


def show(one: Calibration) -> None:
    """The confusion matrix, how well the judge tells relevant docs, and what its means become with labels."""
    out = console()
    who = ", ".join(map(plain, one.people))
    head = f": {plural(one.labelled, 'pair')} of {one.judged:,} labelled by {who}"
    out.print(line((plain(one.judge.label), "bold"), head))
    if one.left_out:
        text = f"{plural(one.left_out, 'label')} left out: not drawn at random, so they say nothing of other pairs"
        out.print(note(text, serious=False))
    for text in one.notes:
        out.print(note(plain(text), serious=False))
    out.print()
    table = grid("people \\ judge", *(f"{grade:g}" for grade in one.matrix.grades))
    for grade, row in zip(one.matrix.grades, one.matrix.counts.tolist(), strict=True):
        table.add_row(f"{grade:g}", *map(str, row))
    out.print(table)
    out.print()
    worth = one.discrimination
    for name, interval in (
        ("sensitivity", worth.sensitivity),
        ("specificity", worth.specificity),
        ("weighted kappa", one.weighted_kappa),
        ("alpha of people", one.alpha),
    ):
        if interval is not None:
            out.print(line(f"{name:<18} {_text(interval)}"))
    for name, mean in (("share relevant", one.relevant), ("mean grade", one.mean_grade)):
        out.print(line(f"{name:<18} {_means(mean)}"))
    if one.biases:
        out.print(line("\nJudge − people, in grades:"))
        for bias in one.biases:
            out.print(line(f"  {_bias(bias)}"))


def _text(interval: Interval, *, difference: bool = False) -> str:
    return str(share_figure(interval.estimate, interval.low, interval.high, difference=difference))


def _means(mean: CorrectedMean) -> str:
    raw = share_figure(mean.raw)
    return f"judge {raw} · labels {_text(mean.human)} · corrected {_text(mean.interval)}"


def _bias(bias: Bias) -> str:
    few = " (too few to say)" if bias.small else ""
    figure = _text(bias.error, difference=True) if bias.pairs else "–"
    return f"{plain(bias.by)} = {plain(bias.value)}: {figure}, {plural(bias.pairs, 'pair')}{few}"
