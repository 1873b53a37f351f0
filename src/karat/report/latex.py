"""A view as tables for a paper: all systems with intervals and what they significantly beat, and the gates."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from karat.gates.wording import figure_of, label_gate, note_pooling, notes_of, value_text
from karat.metrics.grammar import parse
from karat.report.marks import mark_of
from karat.report.sweep import HEADS, LEGEND, curve_table
from karat.report.terminal.evaluate import best_runs
from karat.results.figures import Figure, estimate_figure
from karat.results.words import plain
from karat.verbs.compare import describe_tests

if TYPE_CHECKING:
    from karat.report.formats import Problem
    from karat.report.view import View
    from karat.verbs.sweep import Sweep

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': "''",
    "Δ": r"$\Delta$",
    "−": "$-$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "…": r"\dots{}",
    "–": "--",
    "→": r"$\to$",
    "×": r"$\times$",
    "✓": r"$\checkmark$",
    "✗": r"$\times$",
    "·": r"$\cdot$",
}


def text(words: str) -> str:
    """Words as LaTeX shows them."""
    flat = re.sub(r'[\\~^<>|`"Δ−–≥≤…→×✓✗·&%$#_{}]', lambda c: _SPECIAL.get(c[0], "\\" + c[0]), plain(words))
    flat = flat.replace("\N{REPLACEMENT CHARACTER}", "?")  # which fonts of LaTeX lack
    flat = re.sub(r"-(?=-)", "-{}", flat)  # which would become a dash
    return "{}" + flat if flat[:1] in ("[", "*") else flat  # else they would be read as belonging to the row before


def render(view: View) -> str:
    """The table of systems and, where there are gates, that of gates; ready to be read by \\input."""
    return "\n".join(
        [
            "% Written by Karat. Needs \\usepackage{booktabs} and \\usepackage{amssymb};",
            "% names in other than Latin letters need LuaLaTeX or XeLaTeX.",
            *(f"% FORCED: compared although they differ: {text(str(d))}" for d in view.forced),
            *([f"% conventions: {text(view.conventions)}"] if view.conventions else []),
            *(f"% note: {text(line)}" for line in (*(r.text for r in view.remarks), *view.notes)),
            *_systems(view),
            "",
            *(_curves(view.sweep) if view.sweep is not None else ()),
            *(_gates(view) if view.gates else ()),
        ]
    )


def render_error(problem: Problem) -> str:
    """A line that a paper shows instead of an old table, and what went wrong as comments."""
    lines = [f"% {text(message)}" for message in problem.messages]
    return "\n".join([*lines, r"\emph{Karat: no result; the last run ended with an error.}", ""])


def _systems(view: View) -> list[str]:
    """As papers print it: one row per system, the best in bold, superscripts for what it significantly beats."""
    several = len(view.systems) > 1
    letters = [_letter(i) for i in range(len(view.systems))]
    best = {m: best_runs(m, [s.run for s in view.systems]) for m in view.metrics}
    marks = {
        (i, m): "".join(letters[j] for j in _beaten(view, i, m)) for i in range(len(letters)) for m in view.metrics
    }
    lines = [r"\begin{tabular}{l" + "r" * len(view.metrics) + "}", r"\toprule"]
    lines += [" & ".join(["System", *map(text, view.metrics)]) + r" \\", r"\midrule"]
    for i, system in enumerate(view.systems):
        name = text(system.label)
        cells, ends = [f"{name}$^{{{letters[i]}}}$" if several else name], [""]
        for m in view.metrics:
            has_metric = m in system.run.values
            one = estimate_figure(m, system.run.intervals[m]) if has_metric else Figure(math.nan)
            value = rf"\textbf{{{text(one.short)}}}" if i in best[m] else text(one.short)
            cells.append(f"{value}$^{{{marks[i, m]}}}$" if marks[i, m] else value)
            ends.append(rf"{{\scriptsize {text(one.interval)}}}" if one.interval else "")
        lines += [" & ".join(cells) + r" \\", " & ".join(ends) + r" \\"]
    width = len(view.metrics) + 1
    captions = _caption(view, bold=any(best.values()), marked=any(marks.values()))
    notes = (rf"\multicolumn{{{width}}}{{l}}{{\footnotesize {note}}} \\" for note in captions)
    return [*lines, r"\bottomrule", *notes, r"\end{tabular}"]


def _letter(i: int) -> str:
    """a, b, …, z, aa: what superscripts call a system."""
    return (_letter(i // 26 - 1) if i >= 26 else "") + chr(ord("a") + i % 26)


def _beaten(view: View, i: int, metric: str) -> list[int]:
    """The systems that this one is significantly better than; of a run and its baseline, what was decided counts."""
    test = view.pairs.get(metric)
    higher = parse(metric).metric.higher_is_better
    if higher is None:
        return []
    mine, p = view.systems[i], test.p.get(view.systems[i].name, {}) if test is not None else {}
    out = []
    for j, other in enumerate(view.systems):
        value = p.get(other.name)
        better = (mine.value_of(metric) > other.value_of(metric)) == higher
        outcome = _outcome(view, i, j, metric)
        if outcome is not None:
            beats = outcome == "better"
        else:
            beats = j != i and value is not None and value < view.alpha and better
        if beats:
            out.append(j)
    return out


def _outcome(view: View, i: int, j: int, metric: str) -> str | None:
    """What was decided of one system against another; None where neither is the other's baseline."""
    first, second = view.systems[i].name, view.systems[j].name
    for d in view.decisions:
        if d.segment is None and d.metric == metric and not view.known_pairs:
            if (d.candidate, d.baseline) == (first, second):
                return d.outcome
            if (d.baseline, d.candidate) == (first, second):
                return {"better": "worse", "worse": "better"}.get(d.outcome, d.outcome)
    return None


def _caption(view: View, *, bold: bool, marked: bool) -> list[str]:
    """What the marks mean: the intervals, the test, and what it was adjusted over."""
    sampling = view.result.runs[0].sampling
    what = rf"{sampling.confidence * 100:g}\% confidence intervals" if sampling.level else "Values"
    best = " Best values in bold." if bold else ""
    notes = [f"{what} over {text(_sizes(view))}.{best}"]
    if view.pairs:
        test = describe_tests(view.pairs.values())
        families = dict.fromkeys(str(d.family) for d in view.decisions if d.segment is None and d.family is not None)
        if families and not view.known_pairs:
            ways = f"against the baseline by {' and '.join(families)}" + (
                f", other pairs by {test}" if len(view.systems) > 2 else ""
            )
        else:
            ways = test
        what = (
            "Superscripts: significantly better than the system of that letter"
            if marked
            else "No system is significantly better than another"
        )
        notes.append(f"{what} ({text(ways)}, level {view.alpha:g}).")
    compared = {d.metric for d in view.decisions if len(view.systems) == 2}
    if others := [m for m in view.metrics if view.pairs and m not in view.pairs and m not in compared]:
        notes.append(f"Not tested over all pairs: {text(', '.join(others))}.")
    if view.forced:
        notes.append("Compared by force although " + "; ".join(text(d.what) for d in view.forced) + " differ.")
    return notes


def _sizes(view: View) -> str:
    """How many queries the intervals are over: `90 queries (latency.p90, latency.mean: 95)`."""
    metrics: dict[str, list[str]] = {}
    for metric in view.metrics:
        sizes = sorted({s.run.intervals[metric].n for s in view.systems if metric in s.run.values})
        metrics.setdefault("–".join(f"{n:,}" for n in dict.fromkeys((sizes[0], sizes[-1]))), []).append(metric)
    main = max(metrics, key=lambda size: len(metrics[size]))
    others = "; ".join(f"{', '.join(names)}: {size}" for size, names in metrics.items() if size != main)
    return f"{main} {'query' if main == '1' else 'queries'}{f' ({others})' if others else ''}"


def _curves(sweep: Sweep) -> list[str]:
    """The area, the knee and the end of the rise of each curve."""
    heads, rows = curve_table(sweep)
    texts = len(heads) - len(HEADS)
    lines = [r"\begin{tabular}{" + "l" * texts + "r" * len(HEADS) + "}", r"\toprule"]
    lines += [" & ".join(map(text, heads)) + r" \\", r"\midrule"]
    lines += [" & ".join(map(text, row)) + r" \\" for row in rows]
    note = rf"\multicolumn{{{len(heads)}}}{{l}}{{\footnotesize {text(LEGEND)}.}} \\"
    return [*lines, r"\bottomrule", note, r"\end{tabular}", ""]


def _gates(view: View) -> list[str]:
    lines = [r"\begin{tabular}{lp{0.4\linewidth}rlc}", r"\toprule", r"Run & Gate & Value & Interval & \\", r"\midrule"]
    for group in view.gates:
        for row in group.rows:
            where = f" ({row.where})" if group.gate.every else ""
            warning = " (warning)" if group.gate.level == "warn" else ""
            notes = filter(None, (*notes_of(row), note_pooling([row])))
            label = text("; ".join((label_gate(group.gate) + where + warning, *notes)))
            cells = (row.run, value_text(row), figure_of(row).interval, mark_of(row.outcome))
            run, *others = map(text, cells)
            lines.append(" & ".join((run, label, *others)) + r" \\")
    verdict = rf"\multicolumn{{5}}{{l}}{{\footnotesize Verdict: {view.verdict}.}} \\"
    return [*lines, r"\bottomrule", verdict, r"\end{tabular}", f"% {text(view.why)}.", ""]
