"""`karat compare`: is a candidate better than the baseline?"""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o
from karat.cli.outputs import Asked, takes_outputs


@o.takes_options
@takes_outputs("compare")
def compare(
    qrels: o.Qrels,
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BASE CAND...", help="The baseline's run, then those of the candidates; globs and NAME=FILE work."
        ),
    ] = None,
    no_gold: o.NoGold = False,
    metric: o.Metrics = None,
    primary: Annotated[
        str | None, o.option("The metric that decides which run is better (ndcg@10, or the first).", metavar="NAME")
    ] = None,
    margin: Annotated[
        float | None, o.option("Also test non-inferiority and equivalence within this margin.", metavar="X")
    ] = None,
    all_pairs: Annotated[bool, o.option("Compare every pair of runs, by randomised Tukey HSD.", "--all-pairs")] = False,
    replicate: Annotated[
        list[str] | None,
        o.option("A rebuilt run of the same system; two or more measure the noise floor.", metavar="RUN"),
    ] = None,
    test: Annotated[
        list[str] | None,
        o.option("t, randomization, bootstrap, wilcoxon or sign (default t and randomization).", metavar="NAME"),
    ] = None,
    correction: Annotated[str, o.option("Over candidates: holm, bh or none (default holm).", metavar="NAME")] = "holm",
    alpha: Annotated[float, o.option("Significance level (default 0.05).", metavar="X")] = 0.05,
    top: Annotated[int, o.option("Queries with the largest differences to show (default 5).", metavar="N", min=0)] = 5,
    force: o.Force = False,
    quiet: o.Quiet = False,
    *,
    outputs: Asked,
    options: o.Options,
) -> None:
    """Compare candidates with a baseline on the same queries; or saved results, the baseline's first.

    karat compare qrels.txt bm25.run splade.run -m ndcg@10,recall@100

    karat compare qrels.txt old=v1/bm25.run new=v2/bm25.run --queries q.jsonl --by language --margin 0.01

    karat compare old.json new.json    (what --save or karat bless wrote)

    karat compare --no-gold old.jsonl new.jsonl -m latency.p90,cost.tokens
    """
    from karat import compare as compare_runs
    from karat.config.options import Settings, doc_texts
    from karat.errors import UsageError
    from karat.report.outputs import open_outputs, write
    from karat.report.terminal import compare as compare_view
    from karat.report.terminal import evaluate as terminal
    from karat.report.view import view_of
    from karat.results.saved import is_saved
    from karat.verbs.compare import DEFAULT_TESTS

    gold: str | None = qrels
    runs = list(runs or ())
    if no_gold:
        gold, runs = None, [qrels, *runs]
    saved = is_saved(gold)  # results bring their own choices
    if saved and no_gold:
        raise UsageError("--no-gold is for runs; saved results bring their own gold")
    if not runs and saved:
        raise UsageError("name a second saved result: karat compare OLD.json NEW.json")
    if not runs:
        raise UsageError("name the gold, the baseline and a candidate: karat compare QRELS BASE CAND")
    with open_outputs(outputs) as files:
        with terminal.progress(quiet) as watch:
            if not saved:
                options = {**options, "watch": watch, "details": files.details}
            comparison = compare_runs(
                gold,
                runs,
                metric or None,
                tests=tuple(test) if test else DEFAULT_TESTS,
                primary=primary,
                correction=correction,
                alpha=alpha,
                margin=margin,
                all_pairs=all_pairs,
                replicates=replicate or None,
                force=force,
                **options,
            )
        data = Settings.of(options).data
        write(view_of(comparison, tables={"queries": data.queries, "docs": doc_texts(data)}), files)
    if not files.printed and not quiet:
        compare_view.show(comparison, top=top)
