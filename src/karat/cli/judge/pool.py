"""`karat judge pool`: the pairs that are worth a judgment."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.judge import flags as f


def pool(
    run: o.Runs,
    output: Annotated[
        str, typer.Option("-o", "--output", "--out", metavar="FILE", help="Where the pairs go, one per line.")
    ],
    gold: Annotated[
        str | None, typer.Option("--gold", "--qrels", metavar="QRELS", help="Leave out pairs that this gold judges.")
    ] = None,
    judgments: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Leave out pairs that this file of judgments holds.")
    ] = None,
    depth: Annotated[
        int, typer.Option("-k", "--depth", metavar="K", min=1, help="Docs of each list to look at (default 10).")
    ] = 10,
    order: Annotated[
        str,
        typer.Option(
            metavar="random|value", help="By value: first what could change the comparison with the first run."
        ),
    ] = "random",
    metric: Annotated[
        str | None, typer.Option("-m", "--metric", help="By value: compare by this (default ndcg at the depth).")
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(metavar="GATE", help="By value: first what could change this gate, such as 'ndcg@10 >= 0.55'."),
    ] = None,
    scale: f.ScaleName = None,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", metavar="N", min=1, help="Keep the first N pairs of that order.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the random order (default 0).")] = 0,
    level: Annotated[
        str, typer.Option(metavar="auto|chunk|doc", help="What is judged: chunks or whole docs; auto asks the gold.")
    ] = "auto",
    separator: o.Separator = None,
    quiet: o.Quiet = False,
) -> None:
    """Collect the docs that runs return and nobody has judged, in the order to judge them.

    karat judge pool bm25.run dense.run --gold qrels.tsv --depth 10 -o pairs.jsonl

    karat judge pool bm25.run dense.run --order value -n 200 --judgments judged.jsonl -o pairs.jsonl

    karat judge pool old.run new.run --order value --gate 'ndcg@10 no worse than baseline by 0.02' -o pairs.jsonl

    By value, run it again after each round of judging: it says which comparisons or gates are decided whatever the
    other grades are, and which pairs could still change one. The first run is the baseline. Judgments of pairs in
    random order can be used for estimates, too.
    """
    from karat.report.terminal.judge import show_pool
    from karat.verbs.judge.pool import pool_pairs

    result = pool_pairs(
        run,
        output,
        gold=gold,
        judgments=judgments or (),
        depth=depth,
        order=order,
        metric=metric,
        gates=gate or (),
        scale=scale,
        limit=limit,
        seed=seed,
        level=level,
        separator=separator,
    )
    show_pool(result, output, depth, by_value=order == "value", quiet=quiet)
