"""`karat sweep`: how metrics grow with k."""

from __future__ import annotations

from typing import Annotated

from karat.cli import options as o
from karat.cli.outputs import Asked, takes_outputs


@o.takes_options
@takes_outputs("sweep")
def sweep(
    qrels: o.Qrels,
    runs: o.Runs,
    metric: Annotated[
        list[str] | None,
        o.option("Without a cutoff: recall, ndcg, …", "-m", "--metric", panel=o.WHAT, metavar="METRIC"),
    ] = None,
    k: Annotated[
        str | None,
        o.option(
            "Cutoffs (default 1,3,5,10,20,50,100, and where lists end).", "-k", "--ks", panel=o.WHAT, metavar="K,K"
        ),
    ] = None,
    plot: Annotated[
        str | None, o.option("Draw the curves to a .png or .svg file.", panel=o.OUTPUTS, metavar="FILE")
    ] = None,
    quiet: o.Quiet = False,
    *,
    outputs: Asked,
    options: o.Options,
) -> None:
    """Show how recall, ndcg, precision and hit grow with the cutoff k, and where more stops helping.

    karat sweep qrels.txt bm25.run splade.run -m recall --plot recall.svg
    """
    from karat import sweep as sweep_runs
    from karat.report.outputs import open_outputs, write
    from karat.report.terminal import evaluate as terminal
    from karat.report.terminal import sweep as sweep_view
    from karat.report.view import view_of
    from karat.verbs.sweep import KS, METRICS

    if plot is not None:
        sweep_view.check_plot_name(plot)
    with open_outputs(outputs) as files:
        with terminal.progress(quiet) as watch:
            options = {**options, "watch": watch}
            curves = sweep_runs(qrels, runs, metric or METRICS, ks=terminal.cutoffs(k) or KS, **options)
        if plot is not None:
            sweep_view.draw(curves, plot)
        write(view_of(curves), files)
    if not files.printed and not quiet:
        sweep_view.show(curves)
