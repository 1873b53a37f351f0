"""`karat metrics`: what there is, and what each one means."""

from __future__ import annotations

from typing import Annotated

import typer


def metrics(
    name: Annotated[str | None, typer.Argument(help="A metric, in any spelling: ndcg, P, recip_rank.")] = None,
    purpose: Annotated[
        str | None, typer.Option("--for", help="What for: one answer, several pieces, graded, top 3, sanity, a/b test.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the declarations as JSON.")] = False,
) -> None:
    """List the metrics, or explain one.

    karat metrics ndcg

    karat metrics --for "several pieces"
    """
    from karat.report.terminal import metrics as metrics_view

    if json:
        typer.echo(metrics_view.as_json(name))
    elif name is not None:
        metrics_view.show_one(name)
    else:
        metrics_view.show_all(purpose)
