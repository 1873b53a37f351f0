"""`karat reliability`: how far can a collection be trusted to order systems?"""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.outputs import Asked, takes_outputs


@o.takes_options
@takes_outputs("reliability")
def reliability(
    qrels: Annotated[str, typer.Argument(metavar="QRELS|RESULT", help="Gold, or a saved result (--save) alone.")],
    runs: o.OptionalRuns = None,
    metric: o.Metrics = None,
    alpha: Annotated[float, o.option("Significance level (default 0.05).", metavar="X")] = 0.05,
    plot: Annotated[
        str | None, o.option("Draw Eρ² and Φ against n to a .png or .svg file.", panel=o.OUTPUTS, metavar="FILE")
    ] = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    *,
    outputs: Asked,
    options: o.Options,
) -> None:
    """Say how far these queries can be trusted to order systems, and how many would be enough.

    karat reliability qrels.txt bm25.run splade.run dense.run -m ndcg@10,map

    karat reliability result.json    (written by --save)
    """
    from karat import reliability as study_reliability
    from karat.errors import UsageError
    from karat.report.outputs import open_outputs, write
    from karat.report.terminal import evaluate as terminal
    from karat.report.terminal import reliability as reliability_view
    from karat.report.terminal import sweep as pictures
    from karat.report.view import view_of
    from karat.results.saved import is_saved

    saved = is_saved(qrels)  # a result brings its own runs and choices
    if not saved and not runs:
        raise UsageError("name the gold and at least two runs, or a saved result: karat reliability QRELS RUN RUN")
    if plot is not None:
        pictures.check_plot_name(plot)
    with open_outputs(outputs) as files:
        with terminal.progress(quiet) as watch:
            if not saved:
                options = {**options, "watch": watch}
            study = study_reliability(qrels, runs or None, metric or None, alpha=alpha, **options)
        if plot is not None:
            pictures.draw(study, plot)
        write(view_of(study), files)
    if not files.printed and not quiet:
        reliability_view.show(study, verbose=verbose)
