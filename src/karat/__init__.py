"""Karat: is our retrieval good enough to ship, how sure are we, and what should we fix?"""

__version__ = "0.1.0"

from karat.errors import (
    AmbiguousFormat,
    InputError,
    KaratError,
    MetricError,
    MissingPackage,
    ResultError,
    UsageError,
)
from karat.evaluate import evaluate
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
from karat.ingest.read import read_qrels, read_queries, read_run
from karat.metrics import Measure, Metric, lookup, metric, metrics, parse, parse_all
from karat.model.policy import Policy
from karat.model.qrels import Qrels
from karat.model.queries import Queries
from karat.model.rankings import Rankings
from karat.model.run import Run
from karat.result import Result, RunResult, load

__all__ = [
    "AmbiguousFormat",
    "InputError",
    "KaratError",
    "Measure",
    "Metric",
    "MetricError",
    "MissingPackage",
    "Policy",
    "Qrels",
    "Queries",
    "Rankings",
    "ResultError",
    "Result",
    "Run",
    "RunResult",
    "UsageError",
    "__version__",
    "average_precision",
    "err_at_k",
    "evaluate",
    "f1_at_k",
    "hit_at_k",
    "load",
    "lookup",
    "metric",
    "metrics",
    "ndcg_at_k",
    "parse",
    "parse_all",
    "precision_at_k",
    "r_precision",
    "rbp_at_k",
    "read_qrels",
    "read_queries",
    "read_run",
    "recall_at_k",
    "reciprocal_rank",
    "score",
    "wrecall_at_k",
]
