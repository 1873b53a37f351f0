"""`karat judge sample`: pairs for people to label, from what a judge graded."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.judge.flags import JudgeName, ReadJudgments


def sample(
    *,
    size: Annotated[
        int | None, typer.Argument(metavar="N", min=1, help="How many pairs; about 200 calibrate a judge.")
    ] = None,
    queries: Annotated[
        int | None, o.option("All pairs of N queries instead: corrects ndcg too.", "--queries", metavar="N", min=2)
    ] = None,
    judgments: ReadJudgments,
    output: Annotated[
        str, typer.Option("-o", "--output", "--out", metavar="FILE", help="Where the pairs go, one per line.")
    ],
    judge: JudgeName = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the random draw (default 0).")] = 0,
    quiet: o.Quiet = False,
) -> None:
    """Draw a random sample of what a language model graded, for people to label.

    karat judge sample 200 -j judged.jsonl -o sample.jsonl

    karat judge sample --queries 30 -j judged.jsonl -o sample.jsonl

    Each grade is drawn with its own probability, which the file states: rare grades get more than their share. Pairs
    correct precision; whole queries also correct figures that are not sums over pairs, such as ndcg.
    """
    from karat.errors import UsageError
    from karat.verbs.judge.label import sample_pairs

    if (size is None) == (queries is None):
        raise UsageError("expected a number of pairs, or of queries: karat judge sample 200, or --queries 30")
    if queries is not None:
        pairs, total = sample_pairs(queries, judgments, output, judge=judge, seed=seed, whole_queries=True)
        if not quiet:
            count = len({pair.query_id for pair in pairs})
            typer.echo(
                f"{output}: {len(pairs):,} pairs to label, all that are judged of {count:,} of {total:,} queries"
            )
        return
    assert size is not None
    pairs, total = sample_pairs(size, judgments, output, judge=judge, seed=seed)
    if not quiet:
        counts: dict[str, int] = {}
        for pair in pairs:
            counts[pair.drawn.stratum] = counts.get(pair.drawn.stratum, 0) + 1
        by_grade = ", ".join(f"{counts[grade]} of grade {grade}" for grade in sorted(counts))
        typer.echo(f"{output}: {len(pairs):,} of {total:,} pairs to label, by the judge's grade: {by_grade}")
