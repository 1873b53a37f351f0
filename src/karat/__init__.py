"""Karat: is our retrieval good enough to ship, how sure are we, and what should we fix?"""

TYPE_CHECKING = False  # importing `typing` takes as long as all the rest of `karat --version`
__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from karat.config.options import Settings
    from karat.errors import (
        AmbiguousFormat,
        InputError,
        KaratError,
        KaratWarning,
        MetricError,
        MissingPackage,
        NotComparable,
        ResultError,
        UsageError,
    )
    from karat.gates import Gate, parse_gate
    from karat.judge.judgments import Judgment, read_judgments
    from karat.metrics import Measure, Metric, all_metrics, lookup, metric, parse, parse_all
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.model.rankings import Rankings
    from karat.model.run import Run
    from karat.read.queries import read_queries
    from karat.read.sources import read_qrels, read_run
    from karat.report.html.write import write_report
    from karat.results.components import Component, Components
    from karat.results.result import Result, RunResult
    from karat.results.saved import load
    from karat.retrieve import Answer, Corpus, Found, Query, Retriever, make_retriever, read_corpus, retriever
    from karat.stats.groups import interval
    from karat.stats.intervals import quantile_interval
    from karat.stats.paired import paired_test
    from karat.stats.power import power
    from karat.verbs.bench import Bench, bench
    from karat.verbs.bless import bless
    from karat.verbs.check import Check, check
    from karat.verbs.compare import Comparison, compare
    from karat.verbs.components import components
    from karat.verbs.components.entities import entity_metrics
    from karat.verbs.components.funnel import stage_funnel
    from karat.verbs.components.gate import gate_metrics
    from karat.verbs.components.no_answer import no_answer_metrics
    from karat.verbs.components.reranker import rerank_metrics
    from karat.verbs.components.rewriting import rewrite_metrics
    from karat.verbs.components.router import router_metrics
    from karat.verbs.demo import Demo, demo
    from karat.verbs.demo_judge import JudgeDemo, demo_judge
    from karat.verbs.demo_ontology import OntologyDemo, demo_ontology
    from karat.verbs.diagnose import Diagnosis, diagnose
    from karat.verbs.evaluate import evaluate
    from karat.verbs.init import init
    from karat.verbs.judge.ask import JudgeOptions, ask_pairs
    from karat.verbs.judge.calibrate import calibrate_judge
    from karat.verbs.judge.label import sample_pairs
    from karat.verbs.judge.pool import pool_pairs
    from karat.verbs.plan import Plan, plan
    from karat.verbs.reliability import Reliability, reliability
    from karat.verbs.score import (
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
    from karat.verbs.stress import Stress, stress
    from karat.verbs.sweep import Sweep, sweep
    from karat.verbs.validate import Finding, Validation, validate

_HOMES = {
    "karat.errors": (
        "AmbiguousFormat",
        "InputError",
        "KaratError",
        "KaratWarning",
        "MetricError",
        "MissingPackage",
        "NotComparable",
        "ResultError",
        "UsageError",
    ),
    "karat.verbs.bless": ("bless",),
    "karat.verbs.bench": ("Bench", "bench"),
    "karat.retrieve": ("Answer", "Corpus", "Found", "Query", "Retriever", "make_retriever", "read_corpus", "retriever"),
    "karat.verbs.check": ("Check", "check"),
    "karat.gates": ("Gate", "parse_gate"),
    "karat.verbs.compare": ("Comparison", "compare"),
    "karat.verbs.sweep": ("Sweep", "sweep"),
    "karat.judge.judgments": ("Judgment", "read_judgments"),
    "karat.verbs.judge.ask": ("JudgeOptions", "ask_pairs"),
    "karat.verbs.judge.calibrate": ("calibrate_judge",),
    "karat.verbs.judge.pool": ("pool_pairs",),
    "karat.verbs.judge.label": ("sample_pairs",),
    "karat.verbs.plan": ("Plan", "plan"),
    "karat.verbs.reliability": ("Reliability", "reliability"),
    "karat.verbs.demo": ("Demo", "demo"),
    "karat.verbs.demo_judge": ("JudgeDemo", "demo_judge"),
    "karat.verbs.demo_ontology": ("OntologyDemo", "demo_ontology"),
    "karat.verbs.diagnose": ("Diagnosis", "diagnose"),
    "karat.verbs.evaluate": ("evaluate",),
    "karat.verbs.score": (
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
    "karat.read.queries": ("read_queries",),
    "karat.read.sources": ("read_qrels", "read_run"),
    "karat.metrics": ("Measure", "Metric", "all_metrics", "lookup", "metric", "parse", "parse_all"),
    "karat.config.options": ("Settings",),
    "karat.model.policy": ("Policy",),
    "karat.model.qrels": ("Qrels",),
    "karat.model.queries": ("Queries",),
    "karat.model.rankings": ("Rankings",),
    "karat.model.run": ("Run",),
    "karat.verbs.init": ("init",),
    "karat.stats.groups": ("interval",),
    "karat.stats.intervals": ("quantile_interval",),
    "karat.stats.paired": ("paired_test",),
    "karat.stats.power": ("power",),
    "karat.results.components": ("Component", "Components"),
    "karat.verbs.components": ("components",),
    "karat.verbs.components.entities": ("entity_metrics",),
    "karat.verbs.components.funnel": ("stage_funnel",),
    "karat.verbs.components.gate": ("gate_metrics",),
    "karat.verbs.components.no_answer": ("no_answer_metrics",),
    "karat.verbs.components.reranker": ("rerank_metrics",),
    "karat.verbs.components.rewriting": ("rewrite_metrics",),
    "karat.verbs.components.router": ("router_metrics",),
    "karat.verbs.stress": ("Stress", "stress"),
    "karat.verbs.validate": ("Finding", "Validation", "validate"),
    "karat.results.result": ("Result", "RunResult"),
    "karat.report.html.write": ("write_report",),
    "karat.results.saved": ("load",),
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
    "Answer",
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
    "JudgeDemo",
    "JudgeOptions",
    "Judgment",
    "KaratError",
    "KaratWarning",
    "Measure",
    "Metric",
    "MetricError",
    "MissingPackage",
    "NotComparable",
    "OntologyDemo",
    "Plan",
    "Policy",
    "Qrels",
    "Queries",
    "Query",
    "Rankings",
    "Reliability",
    "Result",
    "ResultError",
    "Retriever",
    "Run",
    "RunResult",
    "Settings",
    "Sweep",
    "UsageError",
    "Validation",
    "__version__",
    "all_metrics",
    "ask_pairs",
    "average_precision",
    "bench",
    "bless",
    "calibrate_judge",
    "check",
    "compare",
    "demo",
    "demo_judge",
    "demo_ontology",
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
    "plan",
    "pool_pairs",
    "power",
    "precision_at_k",
    "quantile_interval",
    "r_precision",
    "rbp_at_k",
    "read_corpus",
    "read_judgments",
    "read_qrels",
    "read_queries",
    "read_run",
    "recall_at_k",
    "reciprocal_rank",
    "reliability",
    "retriever",
    "sample_pairs",
    "score",
    "sweep",
    "validate",
    "wrecall_at_k",
    "write_report",
    "Component",
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
