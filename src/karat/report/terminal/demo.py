"""What the demo found, for a person at a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

from karat.gates.groups import group_gates
from karat.report.marks import mark_of
from karat.report.terminal import bench as bench_view
from karat.report.terminal import check as check_view
from karat.report.terminal.console import colour_of, console, grid, line
from karat.results.figures import estimate_figure
from karat.results.words import plain, round_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.report.terminal.console import Output
    from karat.report.terminal.layout import Grid
    from karat.results.decisions import Decision
    from karat.verbs.demo import Demo

METRIC = "ndcg@10"
KINDS = {"same": "uses the words of the answer", "other": "uses other words", "code": "names a code or a part"}


def show(demo: Demo) -> None:
    """Who is better, where, whether it may ship, why not, and what to try."""
    out = console()
    part = demo.bench.only
    unanswered = sum(bool(q.fields.get("no_answer")) for q in part.dataset.queries)
    size = f"{len(part.dataset.corpus)} passages, {len(part.dataset.queries)} questions in four languages, graded gold"
    out.print(line((f"{len(part.result)} ways to search a handbook", "bold"), f": {size}"))
    out.print(line(f"{unanswered} questions have no answer there, and are in no mean below\n", style="dim"))
    metrics = [m for m in (METRIC, "recall@10", "ild@10", "latency.p50", "latency.p90") if m in part.result.metrics]
    out.print(bench_view.systems_table(part.result, metrics))
    how = f"{METRIC}: 1 is the best possible order; latency after a warm-up, one query at a time"
    out.print(line(how, style="dim"))
    out.print(line("\nWhich is better", style="bold"))
    rows = [row for row in (*demo.check.comparisons, *demo.check.others) if row.metric == METRIC and not row.segment]
    names = [run.name for run in part.result]
    for row in sorted(rows, key=lambda row: names.index(row.candidate)):
        out.print(line(f"  {plain(row.candidate):<10} {row.figure.sentence:<24}  {conclude(row, 'questions')}"))
    out.print(line("\nWhere", style="bold"))
    out.print(_where(demo))
    out.print()
    out.print(bench_view.languages_table(demo.languages))
    out.print(line(bench_view.describe_languages(demo.languages), style="dim"))
    _verdict(demo, out)
    _next(demo, out)


def conclude(row: Decision, queries: str) -> str:
    """The decision in the few words that a newcomer reads; `queries` is what they are called there."""
    if not row.significant:
        enough = f"; about {round_up(row.needed):,} would settle it" if row.needed is not None else ""
        return f"no significant difference ({row.n} {queries}{enough})"
    return plain(f"{row.outcome} than {row.baseline} (adjusted p {row.p_adjusted_text})")


def _where(demo: Demo) -> Grid:
    result = demo.bench.result
    table = grid(f"{METRIC} by how the question is put", *(plain(run.name) for run in result), "queries")
    for value, title in KINDS.items():
        segments = [s for run in result for s in run.segments if dict(s.by) == {"wording": value}]
        if len(segments) == len(result):
            cells = (estimate_figure(METRIC, s.metrics[METRIC]).short for s in segments)
            table.add_row(title, *cells, str(segments[0].metrics[METRIC].n))
    return table


def _verdict(demo: Demo, out: Output) -> None:
    check = demo.check
    title = plain(f"May {', '.join(check.candidates)} replace {check.baseline_name}?")
    out.print(line((f"\n{title}", "bold"), f"\n  {check_view.verdict_line(check)}"))
    for group in group_gates(check.rows):
        passes = sum(row.judged.outcome == "pass" for row in group.rows)
        several = len(group.rows) > 1
        value = f"{passes} of {len(group.rows)} pass" if several else " ".join(check_view.cells(group.rows[0])[:2])
        mark = (mark_of(group.outcome), colour_of(group.outcome))
        out.print(line("  ", mark, f" {plain(str(group.gate))}  ", (plain(value), "dim")))


def _next(demo: Demo, out: Output) -> None:
    findings = demo.diagnosis.findings[:3]
    if findings:
        out.print(line("\n", ("What is likely wrong", "bold"), " (karat diagnose)"))
    for finding in findings:
        about = f" ({finding.subject})" if finding.subject else ""
        out.print(line(f"  • {plain(finding.title + about)}"))
        for advice in finding.advice[:2]:
            out.print(line(f"    try: {plain(advice)}", style="dim"))
    karat, folder = karat_command(demo.folder), shlex.quote(demo.folder)
    steps = (
        (f"cd {folder}", ""),
        (f"{karat} bench -r bm25 -r my_search:find -o mine", "your own search: write it into my_search.py"),
        (f"{karat} check", "change a gate in karat.yaml, and judge again"),
        (f"{karat} diagnose data/qrels.tsv runs/hybrid.jsonl --queries data/queries.jsonl", "what is wrong, in full"),
        (f"{karat} bench -d FOLDER -r bm25 -r dense", "your own corpus.jsonl, queries.jsonl and qrels.tsv"),
    )
    out.print(line("\nLook at it", style="bold"))
    out.print(line(f"  {plain(demo.report)}   ", ("every gate, segment and question", "dim")))
    show_steps(steps)


def show_steps(steps: Sequence[tuple[str, str]]) -> None:
    """Commands to try, each with what it is for."""
    out = console()
    out.print(line("\nTry next", style="bold"))
    for step, why in steps:
        if why:
            out.print(line(f"  # {why}", style="dim"))
        out.print(line(f"  {plain(step)}"), soft_wrap=True)


def karat_command(folder: str) -> str:
    """How Karat is called from inside the folder."""
    if shutil.which("karat"):
        return "karat"
    beside = os.path.join(os.path.dirname(sys.executable), "karat")
    return shlex.quote(os.path.relpath(beside, folder) if os.path.exists(beside) else "karat")
