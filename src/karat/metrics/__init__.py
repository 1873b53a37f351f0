"""The metrics: their registry, the grammar of their names, one module per family."""

from karat.metrics import (
    budget,
    component_figures,
    diversity,
    gain,
    graded,
    ontology,
    pipeline,
    relevance,
    subtopics,
    trec,
    user_models,
)
from karat.metrics.grammar import DEFAULT_METRICS, LOG_METRICS, PRIMARY, ByMeasure, Measure, parse, parse_all
from karat.metrics.registry import Metric, all_metrics, lookup, metric, register, unregister

__all__ = [
    "DEFAULT_METRICS",
    "LOG_METRICS",
    "PRIMARY",
    "ByMeasure",
    "Measure",
    "Metric",
    "all_metrics",
    "budget",
    "component_figures",
    "diversity",
    "gain",
    "graded",
    "lookup",
    "metric",
    "ontology",
    "parse",
    "parse_all",
    "pipeline",
    "register",
    "relevance",
    "subtopics",
    "trec",
    "unregister",
    "user_models",
]
