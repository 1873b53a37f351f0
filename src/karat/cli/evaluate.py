"""`karat evaluate`: runs × gold → metrics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

_WHAT, _FILES, _CONVENTIONS = "What to compute", "Files", "Conventions"


def _option(panel: str, meta: str | None, help: str, *names: str) -> Any:
    return typer.Option(*names, metavar=meta, help=help, rich_help_panel=panel)


_METRIC = _option(_WHAT, "METRIC", "Such as ndcg@10 or map,recall@{10,100}. See: karat metrics", "-m", "--metric")
_KS = _option(_WHAT, "K,K", "Cutoffs for metrics named without one: 1,3,5.", "-k", "--ks")
_QUERIES = _option(_WHAT, "FILE", "Table of queries (as_of, no_answer, …).", "--queries")
_JSON = _option(_FILES, "FILE|-", "Write the result as JSON; - is stdout.", "--json")
_PER_QUERY = _option(_FILES, "FILE", "Write every query's values (.csv, .jsonl, .parquet).", "--per-query")
_SAVE = _option(_FILES, "FILE", "Write the full result, with lists, for later verbs.", "--save")
_QRELS_FORMAT = _option(_FILES, "FORMAT", "trec, csv, tsv, jsonl, json or parquet; else detected.", "--qrels-format")
_RUN_FORMAT = _option(_FILES, "FORMAT", "The same for the runs.", "--run-format")
_LIKE = _option(_CONVENTIONS, "TOOL", "Conventions of trec_eval, ir_measures, ranx or beir.", "--like")
_PRECISION = _option(_CONVENTIONS, "TYPE", "float64, or float32 as trec_eval 9 rounds scores.", "--score-precision")
_DUPLICATES = _option(_CONVENTIONS, "RULE", "A doc returned twice: first (best counts) or error.", "--duplicates")
_MISSING = _option(_CONVENTIONS, "RULE", "Query that a run lacks: zero or skip.", "--missing")
_EMPTY_GOLD = _option(_CONVENTIONS, "RULE", "Query without relevant docs: zero or skip.", "--empty-gold")
_LEVEL = _option(_CONVENTIONS, "LEVEL", "Match gold with chunk or doc ids; auto finds out.", "--level")
_CREDIT = _option(_CONVENTIONS, "RULE", "Later chunks of a gold doc: first (none), all (precision).", "--chunk-credit")
_SEPARATOR = _option(_CONVENTIONS, "MARK", "Between doc and chunk in an id; # by default.", "--separator")
_STAGE = _option(_CONVENTIONS, "NAME", "Evaluate a stage of a run log, such as retrieve.", "--stage")
_AS_OF = _option(_CONVENTIONS, None, "Drop items newer than the query's as_of.", "--as-of-filter")
_CONDENSED = _option(_CONVENTIONS, None, "Drop unjudged docs before ranking.", "--condensed")
_SELF = _option(_CONVENTIONS, None, "Drop docs whose id is the query's.", "--ignore-self")


def evaluate(
    qrels: Annotated[
        str,
        typer.Argument(metavar="QRELS", help="Gold: TREC qrels, BEIR tsv, CSV, JSONL, JSON or Parquet; - is stdin."),
    ],
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Runs: TREC, run log, CSV, JSON or Parquet; globs work.")
    ],
    metric: Annotated[list[str] | None, _METRIC] = None,
    k: Annotated[str | None, _KS] = None,
    queries: Annotated[str | None, _QUERIES] = None,
    json: Annotated[str | None, _JSON] = None,
    per_query: Annotated[str | None, _PER_QUERY] = None,
    save: Annotated[str | None, _SAVE] = None,
    qrels_format: Annotated[str | None, _QRELS_FORMAT] = None,
    run_format: Annotated[str | None, _RUN_FORMAT] = None,
    like: Annotated[str | None, _LIKE] = None,
    score_precision: Annotated[str | None, _PRECISION] = None,
    duplicates: Annotated[str | None, _DUPLICATES] = None,
    missing: Annotated[str | None, _MISSING] = None,
    empty_gold: Annotated[str | None, _EMPTY_GOLD] = None,
    level: Annotated[str | None, _LEVEL] = None,
    chunk_credit: Annotated[str | None, _CREDIT] = None,
    separator: Annotated[str | None, _SEPARATOR] = None,
    stage: Annotated[str | None, _STAGE] = None,
    as_of_filter: Annotated[bool, _AS_OF] = False,
    condensed: Annotated[bool, _CONDENSED] = False,
    ignore_self: Annotated[bool, _SELF] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")] = None,
    memory: Annotated[str | None, typer.Option(help="Bound for runs that are out of order, such as 2GB.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the cache.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print no table, only errors.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Say more about what was read.")] = False,
) -> None:
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
