"""`karat evaluate`: runs × gold → metrics."""

from __future__ import annotations

from typing import Annotated

import typer

_Q, _F, _C = "What to compute", "Files", "Conventions"


def evaluate(
    qrels: Annotated[str, typer.Argument(help="Gold: TREC qrels, BEIR tsv, CSV, JSONL, JSON or Parquet; - is stdin.")],
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Runs: TREC, run log, CSV, JSON or Parquet; globs work.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option("-m", "--metric", help="Such as ndcg@10 or map,recall@{10,100}. See: karat metrics",
                     rich_help_panel=_Q),
    ] = None,
    k: Annotated[
        str | None, typer.Option("-k", "--ks", help="Cutoffs for metrics named without one: 1,3,5.", rich_help_panel=_Q)
    ] = None,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Table of queries (as_of, no_answer, …).", rich_help_panel=_Q)
    ] = None,
    json: Annotated[
        str | None, typer.Option("--json", help="Write the result as JSON; - is stdout.", rich_help_panel=_F)
    ] = None,
    per_query: Annotated[
        str | None,
        typer.Option("--per-query", help="Write every query's values (.csv, .jsonl, .parquet).", rich_help_panel=_F),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option("--save", help="Write the full result, with lists, for later verbs.", rich_help_panel=_F),
    ] = None,
    qrels_format: Annotated[
        str | None, typer.Option("--qrels-format", help="trec, csv, tsv, jsonl, json or parquet; else detected.",
                                 rich_help_panel=_F)
    ] = None,
    run_format: Annotated[
        str | None, typer.Option("--run-format", help="The same for the runs.", rich_help_panel=_F)
    ] = None,
    like: Annotated[
        str | None,
        typer.Option("--like", help="Conventions of: trec_eval, ir_measures, ranx or beir.", rich_help_panel=_C),
    ] = None,
    score_precision: Annotated[
        str | None, typer.Option(help="float64, or float32 as trec_eval 9 rounds scores.", rich_help_panel=_C)
    ] = None,
    duplicates: Annotated[
        str | None, typer.Option(help="A doc returned twice: first (best counts) or error.", rich_help_panel=_C)
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="Query that a run lacks: zero or skip.", rich_help_panel=_C)
    ] = None,
    empty_gold: Annotated[
        str | None, typer.Option(help="Query without relevant docs: zero or skip.", rich_help_panel=_C)
    ] = None,
    level: Annotated[
        str | None, typer.Option(help="Match gold with chunk or doc ids; auto finds out.", rich_help_panel=_C)
    ] = None,
    chunk_credit: Annotated[
        str | None, typer.Option(help="Later chunks of a gold doc: first (none) or all (precision).",
                                 rich_help_panel=_C)
    ] = None,
    separator: Annotated[
        str | None, typer.Option(help="Between doc and chunk in an id; # by default.", rich_help_panel=_C)
    ] = None,
    stage: Annotated[
        str | None, typer.Option(help="Evaluate a stage of a run log, such as retrieve.", rich_help_panel=_C)
    ] = None,
    as_of_filter: Annotated[
        bool, typer.Option("--as-of-filter", help="Drop items newer than the query's as_of.", rich_help_panel=_C)
    ] = False,
    condensed: Annotated[
        bool, typer.Option("--condensed", help="Drop unjudged docs before ranking.", rich_help_panel=_C)
    ] = False,
    ignore_self: Annotated[
        bool, typer.Option("--ignore-self", help="Drop docs whose id is the query's.", rich_help_panel=_C)
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")] = None,
    memory: Annotated[str | None, typer.Option(help="Bound for runs that are out of order, such as 2GB.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the cache.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print no table, only errors.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Say more about what was read.")] = False,
) -> None:  # fmt: skip
    """Score runs against gold.

    karat evaluate qrels.txt bm25.run dense.run -m ndcg@10 -m map,recall@100

    karat evaluate qrels.tsv run.jsonl --json - | jq '.runs[0].metrics["ndcg@10"].mean'
    """
    from karat import evaluate as score_runs
    from karat.ingest.read import run_files
    from karat.report import files, terminal

    if per_query is not None:
        files.check_table_name(per_query)
    with terminal.progress(quiet) as watch:
        result = score_runs(
            qrels,
            run_files(runs),
            metric or None,
            ks=terminal.cutoffs(k),
            queries=queries,
            like=like,
            score_precision=score_precision,
            duplicates=duplicates,
            missing=missing,
            empty_gold=empty_gold,
            level=level,
            chunk_credit=chunk_credit,
            separator=separator,
            stage=stage,
            as_of_filter=as_of_filter or None,
            condensed=condensed or None,
            ignore_self=ignore_self or None,
            qrels_format=qrels_format,
            run_format=run_format,
            details=save is not None,
            threads=threads,
            memory=memory,
            cache=not no_cache,
            watch=watch,
        )
    if per_query is not None:
        files.write_per_query(result, per_query)
    if save is not None:
        result.save(save)
    if json is not None:
        files.write_json(result, json)
    if json != "-" and not quiet:
        terminal.show(result, qrels, verbose=verbose)
