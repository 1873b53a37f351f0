"""`karat bless`: make a result the baseline."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o


@o.takes_options
def bless(
    source: Annotated[
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
    from karat.verbs.bless import prepare_blessing

    with terminal.progress(quiet) as watch:
        options = {**options, "watch": watch}
        found = prepare_blessing(source, run=run, **options)
    path = output or found.place
    changed = found.changes(path)  # before the file is replaced
    make_folder(path)
    make_baseline(found.result, path, run=found.run, metrics=found.metrics)
    if quiet:
        return
    typer.echo(f"{path}: {found.run} is the baseline ({len(found.metrics)} metrics, {found.queries:,} queries)")
    if changed:
        typer.echo(changed)
    if found.read is not None and (line := found.line(path)):
        typer.echo(f"{found.read.path} does not name it yet; put this line there:\n{line}")
