"""`karat bench`: run retrievers over a dataset, then compare them."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.outputs import Asked, takes_outputs
from karat.errors import KaratError, UsageError
from karat.exit_codes import INTERRUPTED

_RUN, _TIME = "What to run", "How"


@o.takes_options
@takes_outputs("bench")
def bench(
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "-d",
            "--dataset",
            metavar="DIR|CONFIG",
            rich_help_panel=_RUN,
            help="A folder with corpus.jsonl, queries.jsonl and qrels/test.tsv; a karat.yaml; ir_datasets:NAME; "
            "[NAME=]… and several compare over datasets. Without it: karat.yaml here.",
        ),
    ] = None,
    cases: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|DIR",
            rich_help_panel=_RUN,
            help="Case files: texts with expected terms of --ontology (hpo), whose labels and synonyms are searched.",
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_RUN,
            help="Labels of the terms in the language of the cases, to search in place of the English ones: a table of "
            "babelon, or an id and a text (TSV, CSV, JSON).",
        ),
    ] = None,
    retriever: Annotated[
        list[str] | None,
        typer.Option(
            "-r",
            "--retriever",
            metavar="SPEC",
            rich_help_panel=_RUN,
            help="bm25, dense(model=…), NAME=hybrid(bm25, dense), my_module:search. See: karat bench --list",
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", metavar="N", min=1, rich_help_panel=_RUN, help="Docs to request per query (default 100)."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", metavar="DIR", rich_help_panel=_RUN, help="Folder for the run logs (default runs)."
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="NAME", rich_help_panel=_RUN, help="The gold qrels/NAME.tsv (default test).")
    ] = None,
    chunk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS:OVERLAP",
            rich_help_panel=_RUN,
            help="Re-chunk the corpus; asis leaves it as it is. Several are compared.",
        ),
    ] = None,
    list_kinds: Annotated[
        bool, typer.Option("--list", rich_help_panel=_RUN, help="List the retrievers and their parameters, and stop.")
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The run to compare the others with (default: the first).", rich_help_panel=o.WHAT
        ),
    ] = None,
    metric: o.Metrics = None,
    no_html: Annotated[
        bool, typer.Option("--no-html", help="Write no report into the folder of the runs.", rich_help_panel=o.OUTPUTS)
    ] = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, rich_help_panel=_TIME, help="Queries to run at once (default 1).")
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, rich_help_panel=_TIME, help="Warm-up queries before timing starts (default 5)."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", rich_help_panel=_TIME, help="Run again what is already there.")
    ] = False,
    quiet: o.Quiet = False,
    *,
    outputs: Asked,
    options: o.Options,
) -> None:
    """Run retrievers over a dataset, time them, write run logs, and compare them.

    karat bench -d scifact -r bm25 -r dense -r "hybrid(bm25, dense)" -k 100 -o runs

    karat bench -d scifact -r "mine=dense(model=./my-model, query_prefix='query: ')" -r my_search:find

    karat bench -d en=data/en -d de=data/de -r bm25 -r dense    (per language, and over all)

    karat bench --cases cases/de --ontology hpo -r bm25 -r "dense(model=…)"

    karat bench --cases cases/de --labels hp-de.babelon.tsv -r bm25    (German labels)

    A benchmark that was stopped resumes where it stopped: run the same command again.
    """
    from karat.report.terminal import bench as bench_view

    if list_kinds:
        bench_view.show_kinds()
        return
    from karat import bench as run_bench
    from karat.report.outputs import Files
    from karat.verbs.bench.cases import case_files
    from karat.verbs.bench.request import read_request

    request = read_request(
        dataset,
        retriever,
        metric,
        options,
        cases=case_files(cases) if cases else None,
        labels=labels,
        k=k,
        out=out,
        split=split,
        chunks=chunk,
        baseline=baseline,
        workers=workers,
        warmup=warmup,
    )
    files = Files.of(outputs)
    single = [name for name in files.places if name not in ("json", "markdown")]
    if len(request["dataset"] or ()) + len(request.get("cases", ())) > 1 and single:
        flag = f"--{single[0].replace('_', '-')}"
        raise UsageError(
            f"{flag} is for one dataset; with several, each dataset's folder has its own result and report"
        )
    try:
        # What a retriever prints must not get between the lines of a document.
        with bench_view.progress(quiet) as watch, contextlib.redirect_stdout(sys.stderr):
            benchmark = run_bench(**request, fresh=fresh, watch=watch)
    except KeyboardInterrupt:
        typer.echo("karat: stopped; run the same command to resume", err=True)
        raise typer.Exit(INTERRUPTED) from None
    problem: KaratError | None = None
    paths: list[str] = []
    try:
        paths = bench_view.write(benchmark, request["out"], files, report=not no_html)
    except KaratError as error:  # the figures are printed anyway
        problem = error
    if not files.printed and not quiet:
        bench_view.show(benchmark, paths)
    if problem is not None:
        raise problem
