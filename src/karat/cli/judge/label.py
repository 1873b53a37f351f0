"""`karat judge label`: a person grades pairs in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.judge.flags import ConfigFile, Corpus, Judgments, Pairs, Queries, ScaleName
from karat.exit_codes import INTERRUPTED


def label(
    pairs: Pairs,
    queries: Queries,
    corpus: Corpus,
    judgments: Judgments,
    by: Annotated[str, o.option("Who labels: stands in every judgment.", "--by", metavar="NAME")],
    adjudicate: Annotated[
        bool, o.option("Show only pairs with different labels, and the labels: your grade counts.", "--adjudicate")
    ] = False,
    scale: ScaleName = None,
    config: ConfigFile = None,
) -> None:
    """Label pairs in the terminal, with one key each.

    karat judge label sample.jsonl --queries queries.jsonl --corpus corpus.jsonl -j judged.jsonl --by ana

    karat judge label sample.jsonl … --by cleo --adjudicate

    You see the query and the doc, and neither who returned it, nor at which rank, nor what a model thinks of it. Pairs
    come in random order. Every label is on disk at once; run the same command to resume. Several people can label into
    one file at the same time.
    """
    from karat.report.terminal import label as view
    from karat.verbs.judge.label import open_session
    from karat.verbs.judge.scale import choose_scale

    session = open_session(
        pairs,
        queries=queries,
        docs=corpus,
        judgments=judgments,
        person=by,
        scale=choose_scale(scale, config),
        adjudicate=adjudicate,
    )
    try:
        view.run(session)
    except KeyboardInterrupt:
        typer.echo("\nkarat: stopped, and every label is kept; run the same command to resume", err=True)
        raise typer.Exit(INTERRUPTED) from None
