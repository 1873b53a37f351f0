"""`karat judge sample`: pairs for people to label, from what a judge graded."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.judge.flags import JudgeName, ReadJudgments


def sample(
    size: Annotated[int, typer.Argument(metavar="N", min=1, help="How many pairs; about 200 calibrate a judge.")],
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

    Each grade is drawn with its own probability, which the file states: rare grades get more than their share.
    """
    from karat.verbs.judge.sample import sample_pairs

    pairs, total = sample_pairs(size, judgments, output, judge=judge, seed=seed)
    if not quiet:
        counts: dict[str, int] = {}
        for pair in pairs:
            counts[pair.drawn.stratum] = counts.get(pair.drawn.stratum, 0) + 1
        by_grade = ", ".join(f"{counts[grade]} of grade {grade}" for grade in sorted(counts))
        typer.echo(f"{output}: {len(pairs):,} of {total:,} pairs to label, by the judge's grade: {by_grade}")
