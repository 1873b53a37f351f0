"""`karat bless`: make a result the baseline."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o


@o.takes_options
def bless(
    config: Annotated[
        str | None, typer.Argument(metavar="[CONFIG|RESULT]", help="A karat.yaml, or a saved result (--save).")
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which run; the config's candidate by default.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="The config's baseline, or karat.baseline.json."),
    ] = None,
    quiet: o.Quiet = False,
    *,
    options: o.Options,
) -> None:
    """Make a result the baseline that later checks compare with.

    The file holds every query's values and the fingerprints of gold, queries and metrics; commit it.

    karat bless

    karat bless result.json --run hybrid -o baselines/hybrid.json
    """
    from karat import bless as make_baseline
    from karat.report.outputs import make_folder
    from karat.report.terminal import evaluate as terminal
    from karat.results.words import plural, queries_text
    from karat.verbs.bless import prepare_blessing

    with terminal.progress(quiet) as watch:
        options = {**options, "watch": watch}
        baseline = prepare_blessing(config, run=run, **options)
    path = output or baseline.place
    difference = baseline.changes(path)  # before the file is replaced
    make_folder(path)
    make_baseline(baseline.result, path, run=baseline.run, metrics=baseline.metrics)
    if quiet:
        return
    typer.echo(
        f"{path}: {baseline.run} is the baseline ({plural(len(baseline.metrics), 'metric')}, {queries_text(baseline.queries)})"
    )
    if difference:
        typer.echo(difference)
    if step := baseline.next_step(path):
        typer.echo(step)
