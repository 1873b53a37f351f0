"""Router, retrieval gate, queries without an answer: what became of each query, as metrics like any other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import MetricError
from karat.metrics.registry import Metric, metric
from karat.model.rankings import ALL

if TYPE_CHECKING:
    from karat.model.rankings import Cutoff, Rankings, Values

PIPELINE = "pipeline"
ROUTER, GATE = ("route", "expected_source"), ("retrieved", "needs_retrieval")
_ALL = (
    " It is over all queries of the table that have the field, with gold or without; relevance metrics beside it stay"
    " over those with gold, and n shows it."
)


def is_of_pipeline(declared: Metric) -> bool:
    """Whether a metric is about queries with gold or without, by what a part of the pipeline did."""
    return not {ROUTER[0], GATE[0], "scores"}.isdisjoint(declared.needs)


def routing(route: str | None, expected: str) -> dict[str, float]:
    """What became of one query that was to be sent to a source."""
    return {
        "routing_accuracy": float(route == expected),
        "misroute_rate": float(route is not None and route != expected),
        "abstain_rate": float(route is None),
    }


def gating(retrieved: bool, needed: bool) -> dict[str, float]:
    """What became of one query at the retrieval gate; NaN where a share does not speak of it."""
    right = float(not retrieved and not needed)
    return {
        "gate_efficiency": right,
        "skip_precision": math.nan if retrieved else right,
        "skip_recall": math.nan if needed else right,
        "harmful_skips": float(not retrieved) if needed else math.nan,
    }


@metric(
    "routing_accuracy",
    title="Routing accuracy",
    family=PIPELINE,
    cutoff="none",
    aliases=("routing_coverage",),
    formula="1 if route is the query's expected_source, else 0",
    tells="The share of queries sent to the right source.",
    use_when="A router chooses among sources, and the wrong one cannot answer the query.",
    caution="A query without a route, or missing from the run log, counts as not sent to the right source." + _ALL,
    cites="run log of Karat",
    binary=True,
    empty_gold=math.nan,
    needs=ROUTER,
    complexity="queries",
    suits={"router": "routing_accuracy"},
)
def routing_accuracy(r: Rankings) -> Values:
    return _outcome(r, "routing_accuracy")


@metric(
    "misroute_rate",
    title="Misroute rate",
    family=PIPELINE,
    cutoff="none",
    formula="1 if route is a source other than the query's expected_source, else 0",
    tells="The share of queries sent to a wrong source.",
    use_when="A wrong source does more harm than none.",
    caution="routing_accuracy, misroute_rate and abstain_rate add up to 1." + _ALL,
    cites="run log of Karat",
    binary=True,
    higher_is_better=False,
    empty_gold=math.nan,
    needs=ROUTER,
    complexity="queries",
    suits={"router": "misroute_rate"},
)
def misroute_rate(r: Rankings) -> Values:
    return _outcome(r, "misroute_rate")


@metric(
    "abstain_rate",
    title="Abstain rate",
    family=PIPELINE,
    cutoff="none",
    formula="1 if the query has no route, else 0",
    tells="The share of queries that the router sends nowhere.",
    use_when="The router may abstain, and each abstention takes somebody's time.",
    caution="A query missing from the run log counts as sent nowhere (missing=skip leaves it out)." + _ALL,
    cites="run log of Karat",
    binary=True,
    higher_is_better=False,
    no_results=1.0,
    empty_gold=math.nan,
    needs=ROUTER,
    complexity="queries",
    suits={"router": "abstain_rate"},
)
def abstain_rate(r: Rankings) -> Values:
    return _outcome(r, "abstain_rate")


@metric(
    "gate_efficiency",
    title="Gate efficiency",
    family=PIPELINE,
    cutoff="none",
    formula="1 if retrieval is skipped and not needed, else 0",
    tells="The share of queries correctly answered without retrieval.",
    use_when="Skipped retrievals save time and money. Read it with skip_precision and harmful_skips.",
    caution="On its own it rewards skipping everything. It cannot exceed the share of queries that need no retrieval."
    + _ALL,
    cites="run log of Karat",
    binary=True,
    no_results=math.nan,
    empty_gold=math.nan,
    needs=GATE,
    complexity="queries",
    suits={"retrieval gate": "gate_efficiency"},
)
def gate_efficiency(r: Rankings) -> Values:
    return _outcome(r, "gate_efficiency")


@metric(
    "skip_precision",
    title="Precision of skips",
    family=PIPELINE,
    cutoff="none",
    formula="of the queries that skip retrieval: 1 if it is not needed, else 0",
    tells="The share of skipped retrievals that were not needed.",
    use_when="A skip must be safe.",
    caution="Undefined for queries that retrieve, and n shows it." + _ALL,
    cites="run log of Karat",
    binary=True,
    no_results=math.nan,
    empty_gold=math.nan,
    needs=GATE,
    complexity="queries",
    suits={"retrieval gate": "skip_precision"},
)
def skip_precision(r: Rankings) -> Values:
    return _outcome(r, "skip_precision")


@metric(
    "skip_recall",
    title="Recall of skips",
    family=PIPELINE,
    cutoff="none",
    formula="of the queries that need no retrieval: 1 if it is skipped, else 0",
    tells="The share of needless retrievals that are skipped.",
    use_when="Retrieval is expensive, and many queries do not need it.",
    caution="Undefined for queries that need retrieval, and n shows it." + _ALL,
    cites="run log of Karat",
    binary=True,
    no_results=math.nan,
    empty_gold=math.nan,
    needs=GATE,
    complexity="queries",
    suits={"retrieval gate": "skip_recall"},
)
def skip_recall(r: Rankings) -> Values:
    return _outcome(r, "skip_recall")


@metric(
    "harmful_skips",
    title="Harmful skips",
    family=PIPELINE,
    cutoff="none",
    formula="of the queries that need retrieval: 1 if it is skipped, else 0",
    tells="Of the queries that need retrieval, the share that does not get it.",
    use_when="A retrieval gate may skip retrieval: this is what it costs.",
    caution="Undefined for queries that need no retrieval, and n shows it." + _ALL,
    cites="run log of Karat",
    binary=True,
    higher_is_better=False,
    no_results=math.nan,
    empty_gold=math.nan,
    needs=GATE,
    complexity="queries",
    suits={"retrieval gate": "harmful_skips"},
)
def harmful_skips(r: Rankings) -> Values:
    return _outcome(r, "harmful_skips")


@metric(
    "false_evidence",
    title="False evidence",
    family=PIPELINE,
    required=("threshold",),
    example="false_evidence(threshold=0.5)@5",
    formula="of the queries without an answer: 1 if an item in the top k scores at least threshold, else 0",
    tells="The share of unanswerable queries that still get evidence.",
    use_when="Some questions have no answer in the corpus, and the system should say so.",
    caution="Covers only queries marked no_answer; those that the run lacks, or whose items lack scores, are left"
    " out. Scores of two systems are rarely on the same scale: compare at thresholds of equal recall (karat evaluate"
    " --components shows the curve).",
    cites="run log of Karat",
    binary=True,
    higher_is_better=False,
    empty_gold=math.nan,
    needs=("scores", "no_answer"),
    complexity="docs in the top k",
    suits={"no answer": "false_evidence(threshold=0.5)@5"},
)
def false_evidence(r: Rankings, k: Cutoff = ALL, threshold: float = 0.0) -> Values:
    if r.items is None or r.items.score is None:
        raise MetricError("false_evidence needs the scores of the items of no_answer queries; these rankings hold none")
    there = r.items.rank <= k if k is not None else np.ones(len(r.items.rank), dtype=bool)
    with np.errstate(invalid="ignore"):
        above = there & (r.items.score >= threshold)
    evidence, unscored = (
        np.bincount(r.items.query[rows], minlength=len(r)) > 0 for rows in (above, there & np.isnan(r.items.score))
    )
    out = evidence.astype(np.float64)
    out[(unscored & ~evidence) | (r.returned < 0)] = math.nan  # an item without a score may be above the threshold
    return out


def _outcome(r: Rankings, name: str) -> Values:
    values = r.log.get(PIPELINE, {}).get(name) if r.log is not None else None
    if values is None:
        raise MetricError(f"{name} needs a run log and a table of queries; these rankings hold no outcomes of it")
    return values.copy()
