"""`karat evaluate`: runs × gold → metrics."""

from __future__ import annotations

from os.path import isfile
from typing import TYPE_CHECKING, Annotated

from karat.cli import options as o
from karat.cli.outputs import Asked, takes_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.metrics.grammar import Measure


@o.takes_options
@takes_outputs("evaluate")
def evaluate(
    qrels: o.OptionalQrels = None,
    runs: o.OptionalRuns = None,
    config: Annotated[
        str | None,
        o.option(
            "Evaluate what this karat.yaml names, without its gates; options override it.",
            "-c",
            "--config",
            metavar="FILE",
        ),
    ] = None,
    no_gold: o.NoGold = False,
    metric: o.Metrics = None,
    k: o.Ks = None,
    components: Annotated[
        bool, o.option("Also measure every part of the pipeline that the run log holds.", "--components", panel=o.WHAT)
    ] = False,
    cut: Annotated[
        int,
        o.option("With --components: docs that the pipeline delivers (default 5).", panel=o.WHAT, metavar="K", min=1),
    ] = 5,
    threshold: Annotated[
        float | None,
        o.option("With --components: items from this score on count as evidence.", panel=o.WHAT, metavar="SCORE"),
    ] = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    *,
    outputs: Asked,
    options: o.Options,
) -> None:
    """Score runs against gold.

    karat evaluate qrels.txt bm25.run dense.run -m ndcg@10 -m map,recall@100

    karat evaluate qrels.txt old=v1/bm25.run new=v2/bm25.run --queries queries.jsonl --by language

    karat evaluate qrels.txt log.jsonl --queries queries.jsonl --components

    karat evaluate -c karat.yaml

    karat evaluate log.jsonl    (a run log alone: latency, cost, empty results, …; other runs with --no-gold)

    karat evaluate qrels.tsv run.jsonl --json - | jq '.runs[0].metrics["ndcg@10"].mean'
    """
    from karat import evaluate as score_runs
    from karat.config.options import Settings, doc_texts
    from karat.errors import UsageError
    from karat.read.files import is_run_log, read_head
    from karat.read.sources import run_files
    from karat.report.outputs import open_outputs, write
    from karat.report.terminal import evaluate as terminal

    alone = not runs and config is None and qrels is not None and isfile(qrels) and is_run_log(read_head(qrels))
    if no_gold or alone:
        if config is not None or components:
            raise UsageError("--no-gold goes without --config and --components, which need gold")
        qrels, runs = None, [*([qrels] if qrels is not None else []), *(runs or [])]
        if not runs:
            raise UsageError("name at least one run: karat evaluate --no-gold RUN")
    elif (qrels is None or not runs) and (config is None or qrels is not None):
        raise UsageError(
            "name the gold and at least one run, or a config: karat evaluate QRELS RUN, or -c karat.yaml "
            "(without gold: karat evaluate --no-gold RUN)"
        )
    if (threshold is not None or cut != 5) and not components:
        raise UsageError("--cut and --threshold are for --components; add it")
    with open_outputs(outputs) as files:
        settings, sources = Settings.of(options), run_files(runs or ())
        metrics: Sequence[str | Measure] | None = metric or None
        if config is not None:
            from karat.config.checks import evaluation_of
            from karat.config.reading import find_config, read_config

            read = read_config(find_config(config))
            evaluation = evaluation_of(read, (), options, qrels=qrels, runs=sources)
            settings, qrels, sources = evaluation.settings, evaluation.qrels, dict(evaluation.runs)
            metrics = metric or evaluation.measures
            if not components and read.config.components is not None:
                components, cut, threshold = True, read.config.components.k, read.config.components.threshold
        with terminal.progress(quiet) as watch:
            result = score_runs(
                qrels,
                runs if config is None else sources,
                metrics,
                ks=terminal.cutoffs(k),
                settings=settings,
                details=files.details or components,
                watch=watch,
            )
        if components:
            from karat.verbs.components import with_components

            here = sources if settings.engine.engine is None else None  # a cluster's tables are not read again
            result = with_components(result, runs=here, k=cut, threshold=threshold)
        if files.places:
            from karat.report.view import view_of

            write(view_of(result, tables={"queries": settings.data.queries, "docs": doc_texts(settings.data)}), files)
    if not files.printed and not quiet:
        terminal.show(result, qrels or "", verbose=verbose)
        if components:
            from karat.report.terminal import components as parts

            parts.show(result)
