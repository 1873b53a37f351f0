"""`karat compare`: is a candidate better than the baseline?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from karat.cli import options as o
from karat.stats.defaults import ALPHA, CONFIDENCE, RESAMPLES, SEED

_UNASKED = {"confidence": CONFIDENCE, "method": "auto", "resamples": RESAMPLES, "seed": SEED, "cache": True}


def compare(
    qrels: o.Qrels,
    runs: Annotated[
        list[str],
        typer.Argument(metavar="BASE CAND...", help="The baseline's run, then those of the candidates; globs work."),
    ],
    metric: o.Metrics = None,
    queries: o.QueryTable = None,
    docs: o.DocTable = None,
    embeddings: o.EmbeddingFile = None,
    embedding_model: o.EmbeddingModel = None,
    by: o.By = None,
    margin: Annotated[
        float | None, typer.Option(metavar="X", help="Also tell non-inferiority and equivalence within this margin.")
    ] = None,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Every pair of runs, by randomised Tukey HSD.")
    ] = False,
    replicate: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="A run of one system built again; two or more give the noise floor."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Which differences these queries show, and how many more need.")
    ] = False,
    test: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="t, randomization, bootstrap, wilcoxon, sign.")
    ] = None,
    correction: Annotated[str, typer.Option(metavar="NAME", help="Over candidates: holm, bh or none.")] = "holm",
    alpha: Annotated[float, typer.Option(metavar="X", help="The level of the tests.")] = ALPHA,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Queries with the largest differences to show.")] = 5,
    confidence: o.Confidence = CONFIDENCE,
    method: o.Method = "auto",
    resamples: o.Resamples = RESAMPLES,
    seed: o.Seed = SEED,
    force: Annotated[
        bool, typer.Option("--force", help="Compare results that rest on different gold or definitions; says so.")
    ] = False,
    save: o.SaveFile = None,
    html: o.HtmlFile = None,
    json: o.JsonFile = None,
    per_query: o.PerQuery = None,
    qrels_format: o.QrelsFormat = None,
    subtopics: o.Subtopics = False,
    run_format: o.RunFormat = None,
    like: o.Like = None,
    missing: o.Missing = None,
    level: o.Level = None,
    threads: o.Threads = None,
    no_cache: o.NoCache = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare candidates with a baseline on the same queries; or saved results, the baseline's first.

    karat compare qrels.txt bm25.run splade.run -m ndcg@10,recall@100

    karat compare qrels.txt old.run new.run --queries q.jsonl --by language --margin 0.01

    karat compare old.json new.json    (what --save or karat bless wrote)
    """
    from karat import compare as compare_runs
    from karat import write_report as make_report
    from karat.read.sources import run_files
    from karat.report import files
    from karat.report.terminal import compare as compare_view
    from karat.report.terminal import evaluate as terminal
    from karat.results.saved import is_saved

    if per_query is not None:
        files.check_table_name(per_query)
    options: dict[str, Any] = {
        "queries": queries,
        "docs": docs,
        "by": by,
        "confidence": confidence,
        "method": method,
        "resamples": resamples,
        "seed": seed,
        "qrels_format": qrels_format,
        "run_format": run_format,
        "like": like,
        "missing": missing,
        "level": level,
        "threads": threads,
        "cache": not no_cache,
        "embeddings": embeddings,
        "embedding_model": embedding_model,
        "subtopics": subtopics or None,
    }
    saved = is_saved(qrels)
    if saved:  # results bring their own choices
        options = {name: value for name, value in options.items() if value != _UNASKED.get(name)}
    with terminal.progress(quiet) as watch:
        options |= {} if saved else {"watch": watch, "details": save is not None or html is not None}
        found = compare_runs(
            qrels,
            runs if saved else run_files(runs),
            metric or None,
            tests=tuple(test) if test else ("t", "randomization"),
            correction=correction,
            alpha=alpha,
            margin=margin,
            all_pairs=all_pairs,
            replicates=run_files(replicate) if replicate else None,
            force=force,
            **options,
        )
    if per_query is not None:
        files.write_per_query(found.result, per_query)
    if save is not None:
        found.save(save)
    if html is not None:
        make_report(found, html, queries=queries, docs=docs)
    if json is not None:
        files.write_json(found, json)
    if json != "-" and not quiet:
        compare_view.show(found, plan=plan, top=top)
