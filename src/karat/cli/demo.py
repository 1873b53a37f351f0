"""`karat demo`: a project to look at, made from the data that ships with the package."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from karat.cli import options as o
from karat.errors import UsageError
from karat.exit_codes import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.verbs.bench.benchmark import Watch


def demo(
    folder: Annotated[
        str | None,
        typer.Argument(help="Where to make the project (default karat-demo, karat-demo-ontology or karat-demo-judge)."),
    ] = None,
    ontology: Annotated[
        bool, typer.Option("--ontology", help="Map phrases in five languages to terms of the Human Phenotype Ontology.")
    ] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Pool, judge, sample, label and calibrate, with a script as the judge.")
    ] = False,
    quiet: o.Quiet = False,
) -> None:
    """Search a handbook in four ways, and see which may ship. Needs no network, no key and no files of yours.

    The support handbook of a made-up parcel box: 180 passages, 232 questions in English, German, Spanish and
    Portuguese with graded gold. BM25, dense, hybrid and Dartboard search it; gates judge; a report shows why.
    The folder is a project as your own would be: change its karat.yaml and run it again.

    karat demo --ontology    (clinical phrases → terms: which retriever is better, where, and how near its misses are)

    karat demo --judge    (gold that lacks what a new search returns: a scripted judge, and what its grades are worth)
    """
    if ontology and judge:
        raise UsageError("--ontology and --judge are two demos: name one")
    if judge:
        _demo_judge(folder, quiet)
    elif ontology:
        _demo_ontology(folder, quiet)
    else:
        _demo_handbook(folder, quiet)


def _demo_handbook(folder: str | None, quiet: bool) -> None:
    from karat import demo as make_demo
    from karat import write_report as make_report
    from karat.report.terminal import demo as demo_view
    from karat.verbs.demo import FOLDER

    with _progress(quiet) as watch:
        project = make_demo(folder or FOLDER, watch=watch)
    data = f"{project.folder}/data"
    make_report(project.check, project.report, queries=f"{data}/queries.jsonl", docs=f"{data}/corpus.jsonl")
    project.check.save(f"{project.folder}/result.json.gz")
    if not quiet:
        demo_view.show(project)


def _demo_ontology(folder: str | None, quiet: bool) -> None:
    import os

    # Before numpy is loaded: on a busy machine, threads that wait for each other make the model ten times slower.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from karat import demo_ontology as make_demo
    from karat import write_report as make_report
    from karat.report.terminal import demo_ontology as demo_view
    from karat.verbs.demo_ontology import ONTOLOGY_FOLDER

    with _progress(quiet) as watch:
        made = make_demo(folder or ONTOLOGY_FOLDER, watch=watch)
    dataset = made.main.dataset
    make_report(made.main.document, made.report, queries=dataset.query_table, docs=dataset.docs)
    made.main.document.save(f"{made.folder}/result.json.gz")
    if not quiet:
        demo_view.show(made)


def _demo_judge(folder: str | None, quiet: bool) -> None:
    from karat import demo_judge as make_demo
    from karat.report.terminal import demo_judge as demo_view
    from karat.verbs.demo_judge import JUDGE_FOLDER

    with _progress(quiet) as watch:
        made = make_demo(folder or JUDGE_FOLDER, watch=watch)
    if not quiet:
        demo_view.show(made)


@contextmanager
def _progress(quiet: bool) -> Iterator[Watch | None]:
    """Bars for a person who waits; an interruption says how to resume."""
    from karat.report.terminal import bench as bench_view

    try:
        with bench_view.progress(quiet) as watch:
            yield watch
    except KeyboardInterrupt:
        typer.echo("karat: stopped; run the same command to resume", err=True)
        raise typer.Exit(INTERRUPTED) from None
