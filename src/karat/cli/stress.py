"""`karat stress`: what hard negatives do to a reranker."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o


@o.takes_options
def stress(
    qrels: o.Qrels,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run log, or any run: the input of the reranker.")],
    reranker: Annotated[
        str, o.option("Takes (query, [(doc_id, text), …]); returns scores or doc ids.", metavar="MODULE:FUNCTION")
    ],
    mine: Annotated[str | None, o.option("Take negatives from the top of this run instead.", metavar="RUN")] = None,
    k: Annotated[int, o.option("Cutoff of ndcg (default 5).", "-k", metavar="K", min=1)] = 5,
    insert: Annotated[int, o.option("Negatives per query (default 3).", metavar="N", min=1)] = 3,
    sample: Annotated[int, o.option("Queries to take (default 100).", "-n", "--sample", metavar="N", min=1)] = 100,
    depth: Annotated[int, o.option("Docs to give to the reranker (default 50).", metavar="N", min=1)] = 50,
    top: Annotated[int, o.option("Queries with the largest losses to show (default 10).", metavar="N", min=0)] = 10,
    json: o.JsonFile = None,
    per_query: o.PerQuery = None,
    quiet: o.Quiet = False,
    *,
    options: o.Options,
) -> None:
    """Put hard negatives at the top of a reranker's input, and report how far ndcg drops.

    --queries (with the field negatives) and --docs are needed, for their texts.

    karat stress qrels.tsv log.jsonl --reranker rerank:score --queries queries.jsonl --docs corpus.jsonl

    karat stress qrels.tsv dense.run --reranker rerank:score --queries q.jsonl --docs c.jsonl --mine bm25.run
    """
    from karat import stress as stress_reranker
    from karat.report import files
    from karat.report.terminal import components as components_view

    if per_query is not None:
        files.check_table_name(per_query)
    drop = stress_reranker(qrels, run, reranker, mine=mine, k=k, insert=insert, sample=sample, depth=depth, **options)
    if per_query is not None:
        files.write_per_query(drop.comparison.result, per_query)
    if json is not None:
        files.write_json(drop, json)
    if json != "-" and not quiet:
        components_view.show_stress(drop, top)
