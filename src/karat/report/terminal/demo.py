"""What the demo found, for a person at a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

from karat.report.terminal import bench as bench_view
from karat.report.terminal import check as check_view
from karat.report.terminal import evaluate as terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from karat.results.differences import Compared
    from karat.verbs.demo import Demo

METRIC = "ndcg@10"
KINDS = {"same": "uses the words of the answer", "other": "uses other words", "code": "names a code or a part"}


def show(demo: Demo) -> None:
    """Who is better, where, whether it may ship, why not, and what to try."""
    out = terminal.console()
    part = demo.bench.only
    unanswered = sum(bool(q.fields.get("no_answer")) for q in part.dataset.queries)
    out.print(
        f"[bold]{len(part.result)} ways to search a handbook[/bold]: {len(part.dataset.corpus)} passages, "
        f"{len(part.dataset.queries)} questions in four languages, graded gold\n"
        f"[dim]{unanswered} questions have no answer there, and are in no mean below[/dim]\n"
    )
    chosen = [m for m in (METRIC, "recall@10", "ild@10", "latency.p50", "latency.p90") if m in part.result.metrics]
    out.print(bench_view.systems_table(part.result, chosen))
    out.print(f"[dim]{METRIC}: 1 is the best possible order; latency after a warm-up, one query at a time[/dim]")
    assert part.comparison is not None
    out.print("\n[bold]Which is better[/bold]")
    for row in part.comparison.of(METRIC):
        low, high = row.difference.low, row.difference.high
        told = _sure(row, part.comparison.baseline)
        out.print(f"  {terminal.escaped(row.candidate):<10} {row.delta:+.3f} [{low:+.3f}, {high:+.3f}]  {told}")
    out.print("\n[bold]Where[/bold]")
    out.print(_where(demo))
    if demo.bench.languages is not None:
        out.print()
        out.print(bench_view.languages_table(demo.bench.languages))
        out.print(bench_view.told_languages(demo.bench.languages), style="dim")
    _verdict(demo, out)
    _next(demo, out)


def _sure(row: Compared, baseline: str) -> str:
    """Whether a difference is one, in few words."""
    if not row.significant:
        enough = f"; about {row.needed:,} would tell" if row.needed is not None else ""
        return f"not sure: {row.n} questions are too few{enough}"
    better = (row.delta > 0) == (row.better_when_higher is not False)
    told = f"{'better' if better else 'worse'} than {baseline}"
    return f"[bold]{terminal.escaped(told)}[/bold], surely (p {row.p_adjusted:.1g})"


def _where(demo: Demo) -> Table:
    from rich.table import Table

    result = demo.bench.result
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(f"{METRIC} by how the question is put")
    for run in result:
        table.add_column(terminal.escaped(run.name), justify="right")
    table.add_column("queries", justify="right")
    for value, told in KINDS.items():
        found = [s for run in result for s in run.segments if dict(s.by) == {"wording": value}]
        if len(found) == len(result):
            cells = (f"{s.metrics[METRIC].estimate:.3f}" for s in found)
            table.add_row(told, *cells, str(found[0].n))
    return table


def _verdict(demo: Demo, out: Console) -> None:
    check = demo.check
    asked = f"May {', '.join(check.candidates)} replace {check.baseline_name}?"
    out.print(f"\n[bold]{terminal.escaped(asked)}[/bold]\n  {check_view.verdict_line(check)}")
    for gate, _, rows in check_view.grouped(check):
        mark = {"pass": "[green]✓[/green]", "fail": "[red]✗[/red]"}.get(check_view.worst(rows), "[yellow]?[/yellow]")
        passing = sum(row.judged.outcome == "pass" for row in rows)
        told = f"{passing} of {len(rows)} pass" if len(rows) > 1 else " ".join(check_view.cells(rows[0])[:2])
        out.print(f"  {mark} {terminal.escaped(str(gate))}  [dim]{terminal.escaped(told)}[/dim]")


def _next(demo: Demo, out: Console) -> None:
    found = demo.diagnosis.findings[:3]
    if found:
        out.print("\n[bold]What is likely wrong[/bold] (karat diagnose)")
    for finding in found:
        about = f" ({finding.subject})" if finding.subject else ""
        out.print(f"  • {terminal.escaped(finding.title + about)}")
        for advice in finding.advice[:2]:
            out.print(f"    [dim]try: {terminal.escaped(advice)}[/dim]")
    karat, folder = _command(demo.folder), shlex.quote(demo.folder)
    steps = (
        (f"cd {folder}", ""),
        (f"{karat} bench -r bm25 -r my_search:find -o mine", "your own search: write it into my_search.py"),
        (f"{karat} check", "change a gate in karat.yaml, and judge again"),
        (f"{karat} diagnose data/qrels.tsv runs/hybrid.jsonl --queries data/queries.jsonl", "what is wrong, in full"),
    )
    told = "".join((f"\n  [dim]# {why}[/dim]" if why else "") + f"\n  {terminal.escaped(step)}" for step, why in steps)
    out.print(
        f"\n[bold]Look at it[/bold]\n  {terminal.escaped(demo.report)}   [dim]every gate, segment and question[/dim]"
        f"\n\n[bold]Try next[/bold]{told}"
        "\n  [dim]# your own corpus.jsonl, queries.jsonl and qrels.tsv[/dim]"
        f"\n  {karat} bench -d FOLDER -r bm25 -r dense"
    )


def _command(folder: str) -> str:
    """How Karat is called from inside the folder."""
    if shutil.which("karat"):
        return "karat"
    beside = os.path.join(os.path.dirname(sys.executable), "karat")
    return shlex.quote(os.path.relpath(beside, folder) if os.path.exists(beside) else "karat")
