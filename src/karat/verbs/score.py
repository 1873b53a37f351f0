"""Scores of single lists: the same metrics, for one query at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from karat.errors import InputError, UsageError, shown
from karat.metrics.grammar import Measure, parse
from karat.metrics.registry import GOLD_ALONE
from karat.model.policy import SEPARATOR, parent_of
from karat.model.rankings import Rankings
from karat.read.objects import is_finite, text_id


def score(metric: str | Measure, retrieved: Sequence[Any], relevant: Collection[Any] | Mapping[Any, float]) -> float:
    """One metric of one list: docs in their order, against docs that are relevant or have grades."""
    measure = metric if isinstance(metric, Measure) else parse(metric)
    return _score(f'score("{measure.name}", ', measure, retrieved, relevant)


def _score(call: str, measure: Measure, retrieved: Sequence[Any], relevant: Any, end: str = "") -> float:
    """A metric of one list; `call` and `end` are how the caller is written around its two lists."""
    example = f'karat.{call}["d1", "d2", "d3"], {{"d1": 3, "d3": 1}}{end})'
    rankings = _one_query(retrieved, relevant, example)
    if measure.needs != GOLD_ALONE:
        rankings = _with_items(measure, rankings, retrieved)
    return float(measure(rankings)[0])


def _with_items(measure: Measure, rankings: Rankings, retrieved: Sequence[Any]) -> Rankings:
    """The rankings with the docs themselves, for a metric that looks beyond the judged ones."""
    from karat.model.items import Items

    more = [n for n in measure.needs if n not in ("gold", "items", "returned")]
    if more:
        raise UsageError(f"{measure.name} needs {' and '.join(more)}, which a list of docs does not have; use evaluate")
    parents = [parent_of(doc, SEPARATOR) for doc in map(_id, retrieved)]
    first = np.array([parent not in parents[:i] for i, parent in enumerate(parents)], dtype=bool)
    none = np.full(len(parents), np.nan)
    rows = np.arange(len(parents))
    return replace(rankings, items=Items(rows * 0, rows + 1, first, none, np.full(1, np.nan)))


def _one_query(retrieved: Sequence[Any], relevant: Collection[Any] | Mapping[Any, float], example: str) -> Rankings:
    if isinstance(retrieved, (str, bytes, set, frozenset)) or not isinstance(retrieved, Iterable):
        raise InputError(f"retrieved must be a list of doc ids, best first, found a {type(retrieved).__name__}")
    if isinstance(relevant, (str, bytes)) or not isinstance(relevant, Iterable):
        raise InputError(f"relevant must be a set or a dict of doc ids, found a {type(relevant).__name__}")
    grades = list(relevant.items()) if isinstance(relevant, Mapping) else [(doc, 1.0) for doc in relevant]
    for doc, grade in grades:
        if not is_finite(grade):
            raise InputError(f"doc {doc!r}: grade must be a finite number, found {shown(grade)}")
    gold = dict(
        zip(_distinct((doc for doc, _ in grades), "relevant", example), (float(g) for _, g in grades), strict=True)
    )
    docs = _distinct(retrieved, "retrieved", example)
    hits = [(rank, gold[doc]) for rank, doc in enumerate(docs, start=1) if doc in gold]
    ideal = np.array(sorted(gold.values(), reverse=True), dtype=np.float64)
    return Rankings(
        query_ids=("query",),
        query=np.zeros(len(hits), dtype=np.int64),
        rank=np.array([rank for rank, _ in hits], dtype=np.int64),
        grade=np.array([grade for _, grade in hits], dtype=np.float64),
        returned=np.array([len(docs)], dtype=np.int64),
        gold_query=np.zeros(len(ideal), dtype=np.int64),
        gold_grade=ideal,
    )


def _distinct(docs: Iterable[Any], argument: str, example: str) -> list[str]:
    """The ids of docs; one that appears twice is an error, since it is the sign of a list of grades."""
    ids = [_id(doc) for doc in docs]
    if len(set(ids)) < len(ids):
        repeated = next(doc for i, doc in enumerate(ids) if doc in ids[:i])
        raise InputError(
            f"{argument}: doc {shown(repeated)} appears twice; expected doc ids, each once. Grades go into a dict: "
            f"{example}"
        )
    return ids


def _id(doc: Any) -> str:
    text = text_id(doc)
    if text is None:
        raise InputError(f"a doc id must be text or an integer, found {doc!r}")
    return text


def _at(function: str, name: str, k: int | None, retrieved: Sequence[Any], relevant: Any) -> float:
    """The metric that a function is about, up to a rank."""
    measure = parse(name if k is None else f"{name}@{k}")
    return _score(f"{function}(", measure, retrieved, relevant, "" if k is None else f", k={k}")


def hit_at_k(retrieved: Sequence[Any], relevant: Any, k: int) -> float:
    """1 if a relevant doc is in the top k, else 0."""
    return _at("hit_at_k", "hit", k, retrieved, relevant)


def precision_at_k(retrieved: Sequence[Any], relevant: Any, k: int) -> float:
    """Relevant docs in the top k / k."""
    return _at("precision_at_k", "precision", k, retrieved, relevant)


def recall_at_k(retrieved: Sequence[Any], relevant: Any, k: int) -> float:
    """Relevant docs in the top k / all relevant docs."""
    return _at("recall_at_k", "recall", k, retrieved, relevant)


def f1_at_k(retrieved: Sequence[Any], relevant: Any, k: int) -> float:
    """The harmonic mean of precision and recall in the top k."""
    return _at("f1_at_k", "f1", k, retrieved, relevant)


def reciprocal_rank(retrieved: Sequence[Any], relevant: Any, k: int | None = None) -> float:
    """1 / rank of the first relevant doc."""
    return _at("reciprocal_rank", "mrr", k, retrieved, relevant)


def average_precision(retrieved: Sequence[Any], relevant: Any, k: int | None = None) -> float:
    """The mean over relevant docs of the precision at their ranks."""
    return _at("average_precision", "map", k, retrieved, relevant)


def ndcg_at_k(retrieved: Sequence[Any], relevant: Any, k: int | None = None) -> float:
    """Discounted gain in the top k over that of the ideal order."""
    return _at("ndcg_at_k", "ndcg", k, retrieved, relevant)


def wrecall_at_k(retrieved: Sequence[Any], relevant: Any, k: int | None = None) -> float:
    """Grades found in the top k / all gold grades."""
    return _at("wrecall_at_k", "wrecall", k, retrieved, relevant)


def r_precision(retrieved: Sequence[Any], relevant: Any, k: int | None = None) -> float:
    """Precision at as many docs as are relevant; it takes no cutoff."""
    return _at("r_precision", "rprec", k, retrieved, relevant)


def err_at_k(retrieved: Sequence[Any], relevant: Any, k: int | None = None) -> float:
    """Expected reciprocal rank."""
    return _at("err_at_k", "err", k, retrieved, relevant)


def rbp_at_k(retrieved: Sequence[Any], relevant: Any, k: int | None = None) -> float:
    """Rank-biased precision with p = .8."""
    return _at("rbp_at_k", "rbp", k, retrieved, relevant)
