"""What is wrong, how much it costs, and what to try: rules over measured values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from karat.config.options import Options, Settings, takes_options
from karat.verbs.diagnose.findings import Diagnosis, Evidence, Finding
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["Diagnosis", "Evidence", "Finding", "diagnose"]


@gives_warnings
@takes_options
def diagnose(
    qrels: Any, run: Any = None, *, thresholds: Mapping[str, float] | None = None, **options: Unpack[Options]
) -> Diagnosis:
    """Name the likely causes of what a run loses, the weightiest first.

    A run log tells most: with its stages, routes, dates and latencies all rules can be asked; what other runs lack is
    named in `unchecked`. `queries` brings as_of, expected_source and the fields that are compared with the rest (all
    with few values, or those of `by`). With `judgments`, rules on precision, ndcg and the share of judged docs take a
    judge's grades where the gold has none, and their evidence says so. `qrels` may also be a saved result, or its path;
    `run` then names one of its runs. `thresholds` changes what counts as low or high: see docs/diagnosis.md.
    """
    from karat.errors import UsageError
    from karat.results.result import Result
    from karat.results.saved import is_saved, load
    from karat.verbs.diagnose.reasoning import judge
    from karat.verbs.diagnose.rules import thresholds as checked
    from karat.verbs.diagnose.signals import FINAL, read_signals
    from karat.verbs.evaluate import evaluate, named_runs

    settings = Settings.of(options)
    checked(thresholds)
    by = settings.intervals.by
    if isinstance(qrels, Result) or is_saved(qrels):
        if run is not None and not isinstance(run, str):
            raise UsageError(f"with a saved result, run names one of its runs; found {type(run).__name__}")
        if settings.data.judgments:
            raise UsageError(
                "a saved result brings its own judgments; leave out judgments, or name the gold and the run instead"
            )
        result = qrels if isinstance(qrels, Result) else load(qrels)
        return judge(read_signals(result, run), thresholds)
    if run is None:
        raise UsageError("a diagnosis needs a run beside the gold, or a saved result alone")
    if (count := len(named_runs(run))) != 1:
        raise UsageError(f"a diagnosis is of one run, found {count}")
    result = evaluate(qrels, run, list(FINAL.values()), settings=settings, details=True)
    return judge(read_signals(result, by=by), thresholds)
