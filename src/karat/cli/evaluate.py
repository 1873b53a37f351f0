"""`karat evaluate`: runs × gold → metrics."""

from __future__ import annotations

from karat.cli import options as o
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED


def evaluate(
    qrels: o.Qrels,
    runs: o.Runs,
    metric: o.Metrics = None,
    k: o.Ks = None,
    queries: o.QueryTable = None,
    docs: o.DocTable = None,
    embeddings: o.EmbeddingFile = None,
    embedding_model: o.EmbeddingModel = None,
    by: o.By = None,
    components: o.Components = False,
    cut: o.Cut = 5,
    threshold: o.Threshold = None,
    confidence: o.Confidence = CONFIDENCE,
    method: o.Method = "auto",
    resamples: o.Resamples = RESAMPLES,
    seed: o.Seed = SEED,
    json: o.JsonFile = None,
    per_query: o.PerQuery = None,
    save: o.SaveFile = None,
    html: o.HtmlFile = None,
    qrels_format: o.QrelsFormat = None,
    subtopics: o.Subtopics = False,
    run_format: o.RunFormat = None,
    like: o.Like = None,
    score_precision: o.ScorePrecision = None,
    duplicates: o.Duplicates = None,
    missing: o.Missing = None,
    empty_gold: o.EmptyGold = None,
    level: o.Level = None,
    chunk_credit: o.ChunkCredit = None,
    separator: o.Separator = None,
    stage: o.Stage = None,
    as_of_filter: o.AsOfFilter = False,
    condensed: o.Condensed = False,
    ignore_self: o.IgnoreSelf = False,
    threads: o.Threads = None,
    memory: o.Memory = None,
    no_cache: o.NoCache = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Score runs against gold.

    karat evaluate qrels.txt bm25.run dense.run -m ndcg@10 -m map,recall@100

    karat evaluate qrels.txt bm25.run --queries queries.jsonl --by language

    karat evaluate qrels.txt log.jsonl --queries queries.jsonl --components

    karat evaluate qrels.tsv run.jsonl --json - | jq '.runs[0].metrics["ndcg@10"].mean'
    """
    from karat import evaluate as score_runs
    from karat import write_report as make_report
    from karat.errors import UsageError
    from karat.read.sources import run_files
    from karat.report import files
    from karat.report.terminal import evaluate as terminal

    if per_query is not None:
        files.check_table_name(per_query)
    if components and "-" in (qrels, queries, *runs):
        raise UsageError("--components reads its inputs a second time, and standard input comes only once: name files")
    if (threshold is not None or cut != 5) and not components:
        raise UsageError("--cut and --threshold are for --components; add it")
    with terminal.progress(quiet) as watch:
        result = score_runs(
            qrels,
            run_files(runs),
            metric or None,
            ks=terminal.cutoffs(k),
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
            details=save is not None or html is not None,
            threads=threads,
            memory=memory,
            cache=not no_cache,
            watch=watch,
        )
    if components:
        from karat.verbs.components import with_components

        result = with_components(
            result,
            qrels,
            run_files(runs),
            queries=queries,
            k=cut,
            threshold=threshold,
            like=like,
            score_precision=score_precision,
            duplicates=duplicates,
            missing=missing,
            empty_gold=empty_gold,
            level=level,
            chunk_credit=chunk_credit,
            separator=separator,
            condensed=condensed or None,
            ignore_self=ignore_self or None,
            confidence=confidence,
            method=method,
            resamples=resamples,
            seed=seed,
            qrels_format=qrels_format,
            run_format=run_format,
            threads=threads,
        )
    if per_query is not None:
        files.write_per_query(result, per_query)
    if save is not None:
        result.save(save)
    if html is not None:
        make_report(result, html, queries=queries, docs=docs)
    if json is not None:
        files.write_json(result, json)
    if json != "-" and not quiet:
        terminal.show(result, qrels, verbose=verbose)
        if components:
            from karat.report.terminal import components as parts

            parts.show(result)
