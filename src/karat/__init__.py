"""Karat: is our retrieval good enough to ship, how sure are we, and what should we fix?"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from karat.baseline import bless
    from karat.benchmark import Bench, bench
    from karat.checking import Check, check
    from karat.comparison import Comparison, compare
    from karat.curves import Sweep, sweep
    from karat.demonstration import Demo, demo
    from karat.diagnosis import Diagnosis, diagnose
    from karat.errors import (
        AmbiguousFormat,
        InputError,
        KaratError,
        MetricError,
        MissingPackage,
        NotComparable,
        ResultError,
        UsageError,
    )
    from karat.evaluation import evaluate
    from karat.functions import (
        average_precision,
        err_at_k,
        f1_at_k,
        hit_at_k,
        ndcg_at_k,
        precision_at_k,
        r_precision,
        rbp_at_k,
        recall_at_k,
        reciprocal_rank,
        score,
        wrecall_at_k,
    )
    from karat.gates import Gate, parse_gate
    from karat.ingest.queries import read_queries
    from karat.ingest.read import read_qrels, read_run
    from karat.metrics import Measure, Metric, all_metrics, lookup, metric, parse, parse_all
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.model.rankings import Rankings
    from karat.model.run import Run
    from karat.pipeline import Components, components
    from karat.pipeline.entities import entity_metrics
    from karat.pipeline.funnel import stage_funnel
    from karat.pipeline.gate import gate_metrics
    from karat.pipeline.no_answer import no_answer_metrics
    from karat.pipeline.reranker import rerank_metrics
    from karat.pipeline.rewriting import rewrite_metrics
    from karat.pipeline.router import router_metrics
    from karat.pipeline.stress import Stress, stress
    from karat.report.html.writing import write_report
    from karat.result import Result, RunResult
    from karat.retrieve import Corpus, Found, Query, Retriever, make_retriever, read_corpus, retriever
    from karat.saved import load
    from karat.starter import init
    from karat.stats.groups import interval
    from karat.stats.intervals import quantile_interval
    from karat.stats.paired import paired_test
    from karat.stats.power import power
    from karat.validation import Finding, Validation, validate

_HOMES = {
    "karat.errors": (
        "AmbiguousFormat",
        "InputError",
        "KaratError",
        "MetricError",
        "MissingPackage",
        "NotComparable",
        "ResultError",
        "UsageError",
    ),
    "karat.baseline": ("bless",),
    "karat.benchmark": ("Bench", "bench"),
    "karat.retrieve": ("Corpus", "Found", "Query", "Retriever", "make_retriever", "read_corpus", "retriever"),
    "karat.checking": ("Check", "check"),
    "karat.gates": ("Gate", "parse_gate"),
    "karat.comparison": ("Comparison", "compare"),
    "karat.curves": ("Sweep", "sweep"),
    "karat.demonstration": ("Demo", "demo"),
    "karat.diagnosis": ("Diagnosis", "diagnose"),
    "karat.evaluation": ("evaluate",),
    "karat.functions": (
        "average_precision",
        "err_at_k",
        "f1_at_k",
        "hit_at_k",
        "ndcg_at_k",
        "precision_at_k",
        "r_precision",
        "rbp_at_k",
        "recall_at_k",
        "reciprocal_rank",
        "score",
        "wrecall_at_k",
    ),
    "karat.ingest.queries": ("read_queries",),
    "karat.ingest.read": (
        "read_qrels",
        "read_run",
    ),
    "karat.metrics": (
        "Measure",
        "Metric",
        "all_metrics",
        "lookup",
        "metric",
        "parse",
        "parse_all",
    ),
    "karat.model.policy": ("Policy",),
    "karat.model.qrels": ("Qrels",),
    "karat.model.queries": ("Queries",),
    "karat.model.rankings": ("Rankings",),
    "karat.model.run": ("Run",),
    "karat.starter": ("init",),
    "karat.stats.groups": ("interval",),
    "karat.stats.intervals": ("quantile_interval",),
    "karat.stats.paired": ("paired_test",),
    "karat.stats.power": ("power",),
    "karat.pipeline": ("Components", "components"),
    "karat.pipeline.entities": ("entity_metrics",),
    "karat.pipeline.funnel": ("stage_funnel",),
    "karat.pipeline.gate": ("gate_metrics",),
    "karat.pipeline.no_answer": ("no_answer_metrics",),
    "karat.pipeline.reranker": ("rerank_metrics",),
    "karat.pipeline.rewriting": ("rewrite_metrics",),
    "karat.pipeline.router": ("router_metrics",),
    "karat.pipeline.stress": ("Stress", "stress"),
    "karat.validation": ("Finding", "Validation", "validate"),
    "karat.result": (
        "Result",
        "RunResult",
    ),
    "karat.report.html.writing": ("write_report",),
    "karat.saved": ("load",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that importing Karat costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'karat' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AmbiguousFormat",
    "Bench",
    "Check",
    "Comparison",
    "Corpus",
    "Demo",
    "Diagnosis",
    "Finding",
    "Found",
    "Gate",
    "InputError",
    "KaratError",
    "Measure",
    "Metric",
    "MetricError",
    "MissingPackage",
    "NotComparable",
    "Policy",
    "Qrels",
    "Queries",
    "Query",
    "Rankings",
    "Result",
    "ResultError",
    "Retriever",
    "Run",
    "RunResult",
    "Sweep",
    "UsageError",
    "Validation",
    "__version__",
    "all_metrics",
    "average_precision",
    "bench",
    "bless",
    "check",
    "compare",
    "demo",
    "diagnose",
    "err_at_k",
    "evaluate",
    "f1_at_k",
    "hit_at_k",
    "init",
    "interval",
    "load",
    "lookup",
    "make_retriever",
    "metric",
    "ndcg_at_k",
    "paired_test",
    "parse",
    "parse_all",
    "parse_gate",
    "power",
    "precision_at_k",
    "quantile_interval",
    "r_precision",
    "rbp_at_k",
    "read_corpus",
    "read_qrels",
    "read_queries",
    "read_run",
    "recall_at_k",
    "reciprocal_rank",
    "retriever",
    "score",
    "sweep",
    "validate",
    "wrecall_at_k",
    "write_report",
    "Components",
    "components",
    "entity_metrics",
    "stage_funnel",
    "gate_metrics",
    "no_answer_metrics",
    "rerank_metrics",
    "rewrite_metrics",
    "router_metrics",
    "Stress",
    "stress",
]
