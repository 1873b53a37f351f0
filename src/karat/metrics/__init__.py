"""The metrics: their registry, the grammar of their names, one module a family."""

from karat.metrics import budget, diversity, graded, pipeline, relevance, trec
from karat.metrics.grammar import DEFAULT_METRICS, PRIMARY, ByMeasure, Measure, parse, parse_all
from karat.metrics.registry import Metric, all_metrics, lookup, metric, register, unregister

__all__ = [
    "DEFAULT_METRICS",
    "PRIMARY",
    "ByMeasure",
    "Measure",
    "Metric",
    "all_metrics",
    "budget",
    "diversity",
    "graded",
    "lookup",
    "metric",
    "parse",
    "parse_all",
    "pipeline",
    "register",
    "relevance",
    "trec",
    "unregister",
]
