"""`karat diagnose`: what is wrong, how much it costs, and what to try."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED


def diagnose(
    qrels: Annotated[str, typer.Argument(metavar="QRELS|RESULT", help="Gold, or a saved result (--save) alone.")],
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run, best a run log; or the name of one in the result.")
    ] = None,
    queries: o.QueryTable = None,
    docs: Annotated[
        str | None, typer.Option(metavar="FILE", help="Corpus, to show the docs' texts beside misses.")
    ] = None,
    by: o.By = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="RUN", help="A run whose top 10 is shown beside that of the misses.")
    ] = None,
    misses: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the queries without a hit: .csv or .md; - shows them.")
    ] = None,
    top: Annotated[int | None, typer.Option(metavar="N", min=0, help="How many misses; all in files, 5 here.")] = None,
    threshold: Annotated[
        list[str] | None, typer.Option(metavar="NAME=X", help="Change a threshold; repeatable. See docs/diagnosis.md")
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take diagnosis.thresholds from this karat.yaml.")
    ] = None,
    confidence: o.Confidence = CONFIDENCE,
    resamples: o.Resamples = RESAMPLES,
    seed: o.Seed = SEED,
    json: o.JsonFile = None,
    qrels_format: o.QrelsFormat = None,
    run_format: o.RunFormat = None,
    level: o.Level = None,
    separator: o.Separator = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Name the likely causes of what a run loses, with evidence, what to try, and the queries.

    karat diagnose qrels.tsv log.jsonl --queries queries.jsonl

    karat diagnose qrels.tsv new.jsonl --baseline old.jsonl --misses misses.md --docs corpus.jsonl

    karat diagnose result.json    (what --save wrote; a run log tells more)
    """
    from karat import diagnose as look
    from karat.report import files
    from karat.report.terminal import diagnose as diagnose_view
    from karat.report.terminal import misses as table
    from karat.verbs.diagnose.misses import misses as missed
    from karat.verbs.diagnose.thresholds import changed

    if misses not in (None, "-"):
        table.check_name(misses or "")
    found = look(
        qrels,
        run,
        queries=queries,
        by=by or None,
        thresholds=changed(threshold or (), config),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        level=level,
        separator=separator,
        qrels_format=qrels_format,
        run_format=run_format,
    )
    if json is not None:
        files.write_json(found, json)
    speaks = json != "-" and not quiet
    if speaks:
        diagnose_view.show(found, verbose)
    if misses is None and baseline is None:
        return
    rows = missed(
        qrels,
        run,
        baseline=baseline,
        queries=queries,
        docs=docs,
        level=level,
        separator=separator,
        qrels_format=qrels_format,
        run_format=run_format,
    )
    if misses not in (None, "-"):
        table.write(rows, misses or "", top)
    elif speaks:
        table.show(rows, 5 if top is None else top)
