"""`karat plan`: what will the gates say of more queries, and how many are needed?"""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.outputs import Asked, takes_outputs


@o.takes_options
@takes_outputs("plan")
def plan(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONFIG|RESULT|QRELS]",
            help="A karat.yaml, a saved result, or gold; the karat.yaml here by default.",
        ),
    ] = None,
    runs: o.OptionalRuns = None,
    config: Annotated[
        str | None,
        o.option("Plan for the gates of this karat.yaml; the same as CONFIG.", "-c", "--config", metavar="FILE"),
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            "-g", "--gate", metavar="GATE", help="A gate to plan for, such as 'recall@5 >= 0.90'; repeatable."
        ),
    ] = None,
    truth: Annotated[
        float | None, o.option("The true value is this much better than the gate (below 0: worse).", metavar="X")
    ] = None,
    true_value: Annotated[float | None, o.option("The true value, or change from the baseline.", metavar="X")] = None,
    power: Annotated[float, o.option("The wanted chance of the right verdict (default 0.8).", metavar="X")] = 0.8,
    n: Annotated[
        str | None, o.option("Numbers of queries (default 25,50,100,200,400,800,1600).", "--n", metavar="N,…")
    ] = None,
    icc: Annotated[
        float | None, o.option("How alike the queries of a conversation are, from 0 to 1; with --turns.", metavar="X")
    ] = None,
    turns: Annotated[int | None, o.option("Queries in each conversation; with --icc.", metavar="N", min=2)] = None,
    candidate: Annotated[list[str] | None, o.option("Plan for this run alone; repeatable.", metavar="RUN")] = None,
    baseline: Annotated[
        str | None, o.option("The baseline: a run's name, or a blessed file.", metavar="RUN|FILE")
    ] = None,
    plot: Annotated[
        str | None, o.option("Draw the chances against n to a .png or .svg file.", panel=o.OUTPUTS, metavar="FILE")
    ] = None,
    quiet: o.Quiet = False,
    *,
    outputs: Asked,
    options: o.Options,
) -> None:
    """Predict what the gates would say with more queries, and how many they need.

    karat plan qrels.txt bm25.run --gate 'ndcg@10 >= 0.5' --truth 0.03

    karat plan qrels.txt old.run new.run    (how many queries show that new is better?)

    karat plan result.json --gate 'recall@5 >= 0.9 for every language'    (a result written by --save)

    karat plan    (the undecided gates of karat.yaml, and what would decide them)
    """
    from karat import plan as plan_gates
    from karat.errors import UsageError
    from karat.read.sources import run_files
    from karat.report.outputs import open_outputs, write
    from karat.report.terminal import evaluate as terminal
    from karat.report.terminal import plan as plan_view
    from karat.report.terminal import sweep as pictures
    from karat.report.view import view_of
    from karat.results.saved import is_saved
    from karat.verbs.plan import SIZES

    sizes = SIZES if n is None else tuple(int(part) for part in n.split(",") if part.strip().isdecimal())
    if n is not None and len(sizes) < len(n.split(",")):
        raise UsageError(f"--n must be whole numbers, such as 100,400, found {n!r}")
    if config is not None and (runs or source not in (None, config)):
        raise UsageError(f"--config {config} names gold and runs itself; leave out {source}")
    source = config or source
    if plot is not None:
        pictures.check_plot_name(plot)
    with open_outputs(outputs) as files:
        with terminal.progress(quiet) as watch:
            if not is_saved(source):
                options = {**options, "watch": watch}
            outlook = plan_gates(
                source,
                run_files(runs) if runs else None,
                gate or None,
                truth=truth,
                true_value=true_value,
                power=power,
                sizes=sizes,
                icc=icc,
                turns=turns,
                baseline=baseline,
                candidate=candidate or None,
                **options,
            )
        if plot is not None:
            pictures.draw(outlook, plot)
        write(view_of(outlook), files)
    if not files.printed and not quiet:
        plan_view.show(outlook)
