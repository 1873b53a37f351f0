"""A check as tables for a paper: figures of all runs with intervals, and the gates. Needs the package booktabs."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from karat.gates.wording import figure_of, label_gate, value_text
from karat.report.terminal.check import grouped
from karat.report.terminal.evaluate import best_of
from karat.results.figures import Figure, estimate_figure
from karat.results.words import plain

if TYPE_CHECKING:
    from karat.verbs.check import Check

_MARKS = {"pass": r"$\checkmark$", "fail": r"$\times$", "undecided": "?"}
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
}


def text(words: str) -> str:
    """Words as LaTeX shows them."""
    flat = re.sub(r'[\\~^<>|`"Δ−–≥≤…→&%$#_{}]', lambda c: _SPECIAL.get(c[0], "\\" + c[0]), plain(words))
    flat = flat.replace("\N{REPLACEMENT CHARACTER}", "?")  # which fonts of LaTeX lack
    flat = re.sub(r"-(?=-)", "-{}", flat)  # two hyphens are no dash
    return "{}" + flat if flat[:1] in ("[", "*") else flat  # else they would be read as belonging to the row before


def rendered(check: Check) -> str:
    """Both tables, ready to be read by \\input."""
    return "\n".join(
        [
            "% Written by karat check. Needs \\usepackage{booktabs} and \\usepackage{amssymb};",
            "% names in other than Latin letters need LuaLaTeX or XeLaTeX.",
            *_forced(check),
            *(f"% note: {text(line)}" for line, _ in check.remarks),
            *_figures(check),
            "",
            *_gates(check),
            "",
        ]
    )


def _forced(check: Check) -> list[str]:
    return [f"% FORCED: compared although they differ: {text(str(d))}" for d in check.forced]


def _figures(check: Check) -> list[str]:
    runs = list(check.result.runs)
    if check.baseline is not None and check.baseline_file is not None:
        runs.insert(0, check.baseline)
    heads = [check.baseline_name if run is check.baseline else run.name for run in runs]
    found = [run.intervals for run in runs]
    lines = [r"\begin{tabular}{l" + "r" * len(runs) + "}", r"\toprule"]
    lines += [" & ".join(["Metric", *map(text, heads)]) + r" \\", r"\midrule"]
    for name in check.result.metrics:
        figures = [estimate_figure(name, f[name]) if name in f else Figure(math.nan) for f in found]
        values = [one.value for one in figures]
        best = best_of(name, values) if len(values) > 1 else set()
        cells, ends = [], []
        for i, one in enumerate(figures):
            cells.append(rf"\textbf{{{text(one.short)}}}" if i in best else text(one.short))
            ends.append(rf"{{\scriptsize {text(one.interval)}}}" if one.interval else "")
        lines.append(" & ".join([text(name), *cells]) + r" \\")
        lines.append(" & ".join(["", *ends]) + r" \\")
    level = f"{check.result.runs[0].sampling.confidence * 100:g}"
    queries = max(run.counts["queries"] for run in check.result.runs)
    note = rf"{level}\% confidence intervals over {queries:,} queries. Best values in bold."
    if check.forced:
        note += " Compared by force although " + "; ".join(text(d.what) for d in check.forced) + " differ."
    lines += [r"\bottomrule", rf"\multicolumn{{{len(runs) + 1}}}{{l}}{{\footnotesize {note}}} \\", r"\end{tabular}"]
    return lines


def _gates(check: Check) -> list[str]:
    lines = [r"\begin{tabular}{lp{0.4\linewidth}rlc}", r"\toprule", r"Run & Gate & Value & Interval & \\", r"\midrule"]
    for gate, run, rows in grouped(check):
        for row in rows:
            where = (f" ({row.where})" if gate.every else "") + (" (warning)" if gate.level == "warn" else "")
            one = figure_of(row)
            value = text(value_text(row) if one.defined else one.text)
            label = text(label_gate(gate) + where)
            cells = (text(run), label, value, text(one.interval), _MARKS[row.judged.outcome])
            lines.append(" & ".join(cells) + r" \\")
    verdict = rf"\multicolumn{{5}}{{l}}{{\footnotesize Verdict: {check.verdict}.}} \\"
    return [*lines, r"\bottomrule", verdict, r"\end{tabular}", f"% {text(check.why)}."]
