"""`karat sweep`: how metrics grow with k."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED


def sweep(
    qrels: o.Qrels,
    runs: o.Runs,
    metric: Annotated[
        list[str] | None, typer.Option("-m", "--metric", metavar="METRIC", help="Without a cutoff: recall, ndcg, …")
    ] = None,
    k: Annotated[
        str | None, typer.Option("-k", "--ks", metavar="K,K", help="Cutoffs; 1,3,5,10,20,50,100 by default.")
    ] = None,
    queries: o.QueryTable = None,
    docs: o.DocTable = None,
    embeddings: o.EmbeddingFile = None,
    embedding_model: o.EmbeddingModel = None,
    by: o.By = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw the curves to a .png or .svg file.")] = None,
    confidence: o.Confidence = CONFIDENCE,
    method: o.Method = "auto",
    resamples: o.Resamples = RESAMPLES,
    seed: o.Seed = SEED,
    json: o.JsonFile = None,
    qrels_format: o.QrelsFormat = None,
    subtopics: o.Subtopics = False,
    run_format: o.RunFormat = None,
    like: o.Like = None,
    level: o.Level = None,
    threads: o.Threads = None,
    no_cache: o.NoCache = False,
    quiet: o.Quiet = False,
) -> None:
    """Show how recall, ndcg, precision and hit grow with the cutoff k, and where more stops to help.

    karat sweep qrels.txt bm25.run splade.run -m recall --plot recall.svg
    """
    from karat import sweep as sweep_runs
    from karat.read.sources import run_files
    from karat.report import files
    from karat.report.terminal import evaluate as terminal
    from karat.report.terminal import sweep as sweep_view
    from karat.verbs.sweep import KS, METRICS

    if plot is not None:
        sweep_view.check_plot_name(plot)
    with terminal.progress(quiet) as watch:
        found = sweep_runs(
            qrels,
            run_files(runs),
            metric or METRICS,
            ks=terminal.cutoffs(k) or KS,
            queries=queries,
            docs=docs,
            embeddings=embeddings,
            embedding_model=embedding_model,
            subtopics=subtopics or None,
            by=by,
            confidence=confidence,
            method=method,
            resamples=resamples,
            seed=seed,
            qrels_format=qrels_format,
            run_format=run_format,
            like=like,
            level=level,
            threads=threads,
            cache=not no_cache,
            watch=watch,
        )
    if plot is not None:
        sweep_view.draw(found, plot)
    if json is not None:
        files.write_json(found, json)
    if json != "-" and not quiet:
        sweep_view.show(found)
