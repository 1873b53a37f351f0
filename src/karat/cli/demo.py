"""`karat demo`: a project to look at, made from the handbook that ships with the package."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.codes import INTERRUPTED


def demo(
    folder: Annotated[
        str, typer.Argument(metavar="[FOLDER]", help="Where to make the project (default karat-demo).")
    ] = "karat-demo",
    quiet: o.Quiet = False,
) -> None:
    """Search a handbook in four ways, and see which may ship. Needs no network, no key and no files of yours.

    The support handbook of a made-up parcel box: 180 passages, 232 questions in English, German, Spanish and
    Portuguese with graded gold. BM25, dense, hybrid and Dartboard search it; gates judge; a report shows why.
    The folder is a project as your own would be: change its karat.yaml and run it again.
    """
    from karat import demo as make_demo
    from karat import write_report as make_report
    from karat.report.terminal import bench as bench_view
    from karat.report.terminal import demo as demo_view

    try:
        with bench_view.progress(quiet) as watch:
            project = make_demo(folder, watch=watch)
    except KeyboardInterrupt:
        typer.echo("karat: stopped; run the same command to resume", err=True)
        raise typer.Exit(INTERRUPTED) from None
    data = f"{project.folder}/data"
    make_report(project.check, project.report, queries=f"{data}/queries.jsonl", docs=f"{data}/corpus.jsonl")
    project.check.save(f"{project.folder}/result.json.gz")
    if not quiet:
        demo_view.show(project)
