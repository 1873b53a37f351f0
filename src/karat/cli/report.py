"""`karat report`: a saved result as one HTML file."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o


def report(
    result: Annotated[
        str, typer.Argument(metavar="RESULT", help="What --save wrote: of evaluate, compare, check or bench.")
    ],
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")] = "report.html",
    queries: Annotated[str | None, typer.Option(metavar="FILE", help="Table of queries, to show their texts.")] = None,
    docs: Annotated[
        str | None, typer.Option("--docs", metavar="FILE", help="Table of docs (corpus), to show their texts.")
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Make a report that works offline: verdict, gates, segments, curves, and every query with its ranked lists.

    karat evaluate qrels.txt old.run new.run --save result.json

    karat report result.json --queries queries.jsonl --docs corpus.jsonl -o report.html
    """
    from karat import write_report as make

    path = make(result, output, queries=queries, docs=docs)
    if not quiet:
        typer.echo(f"wrote {path}")
