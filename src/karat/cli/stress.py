"""`karat stress`: what hard negatives do to a reranker."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED


def stress(
    qrels: o.Qrels,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run log, or any run: what the reranker is given.")],
    reranker: Annotated[
        str,
        typer.Option(metavar="MODULE:FUNCTION", help="Takes (query, [(doc_id, text), …]); gives scores or doc ids."),
    ],
    queries: Annotated[str, typer.Option(metavar="FILE", help="Table of queries: text, and the field negatives.")],
    docs: Annotated[str, typer.Option(metavar="FILE", help="Table of docs with their texts.")],
    mine: Annotated[
        str | None, typer.Option(metavar="RUN", help="Take negatives from the top of this run instead.")
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="K", min=1, help="The cutoff of ndcg.")] = 5,
    insert: Annotated[int, typer.Option(metavar="N", min=1, help="Negatives for each query.")] = 3,
    sample: Annotated[int, typer.Option("-n", "--sample", metavar="N", min=1, help="Queries to take.")] = 100,
    depth: Annotated[int, typer.Option(metavar="N", min=1, help="Docs that the reranker is given.")] = 50,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Queries that lost most to show.")] = 10,
    confidence: o.Confidence = CONFIDENCE,
    method: o.Method = "auto",
    resamples: o.Resamples = RESAMPLES,
    seed: o.Seed = SEED,
    json: o.JsonFile = None,
    per_query: o.PerQuery = None,
    qrels_format: o.QrelsFormat = None,
    run_format: o.RunFormat = None,
    level: o.Level = None,
    separator: o.Separator = None,
    threads: o.Threads = None,
    quiet: o.Quiet = False,
) -> None:
    """Put hard negatives at the top of a reranker's input, and tell how far ndcg falls.

    karat stress qrels.tsv log.jsonl --reranker rerank:score --queries queries.jsonl --docs corpus.jsonl

    karat stress qrels.tsv dense.run --reranker rerank:score --queries q.jsonl --docs c.jsonl --mine bm25.run
    """
    from karat import stress as stress_reranker
    from karat.report import files
    from karat.report.terminal import components as components_view

    if per_query is not None:
        files.check_table_name(per_query)
    found = stress_reranker(
        qrels,
        run,
        reranker,
        queries=queries,
        docs=docs,
        mine=mine,
        k=k,
        insert=insert,
        sample=sample,
        depth=depth,
        seed=seed,
        confidence=confidence,
        method=method,
        resamples=resamples,
        qrels_format=qrels_format,
        run_format=run_format,
        level=level,
        separator=separator,
        threads=threads,
    )
    if per_query is not None:
        files.write_per_query(found.comparison.result, per_query)
    if json is not None:
        files.write_json(found, json)
    if json != "-" and not quiet:
        components_view.show_stress(found, top)
