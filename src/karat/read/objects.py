"""Dicts, lists and sets → gold and runs. Ids are strings; integers become their decimal form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from karat.errors import InputError, shown
from karat.model import kernel
from karat.model.policy import SEPARATOR
from karat.model.qrels import Qrels
from karat.model.run import OrderedLists, Run, ScoredLists
from karat.read.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from karat.model.queries import Queries

DOCS_TO_CHECK = 300_000
"""Docs of a run in memory whose ids are all checked before the run is trusted."""


def text_id(value: Any) -> str | None:
    """The value as an id, or None if it cannot be one."""
    if type(value) is str:
        return value if value and "\x00" not in value else None
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return str(value) if isinstance(value, str) and value else None


def build_qrels(grades: Mapping[str, Mapping[str, float]], source: str) -> Qrels:
    """Gold from clean ids and finite grades."""
    query_ids = sorted(grades)
    sizes = [len(grades[q]) for q in query_ids]
    return Qrels(
        query_ids,
        np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64),
        [d for q in query_ids for d in grades[q]],
        np.array([g for q in query_ids for g in grades[q].values()], dtype=np.float64),
        source,
    )


def qrels_by_doc(qrels: Qrels, doc_of: Callable[[str], str]) -> Qrels:
    """Gold by chunk as gold by doc: a doc is as relevant as its best chunk."""
    docs: dict[str, dict[str, float]] = {}
    for query in qrels.query_ids:
        grades = docs.setdefault(query, {})
        for chunk, grade in qrels.for_query(query).items():
            doc = doc_of(chunk)
            grades[doc] = max(grade, grades.get(doc, grade))
    return build_qrels(docs, qrels.source)


def qrels_from_mapping(data: Mapping[Any, Any], source: str = "qrels") -> Qrels:
    """Gold from {query: {doc: grade}}, or from {query: docs} with grade 1 for each."""
    if not data:
        raise InputError(f"{source}: is empty, expected judgments as {{query: {{doc: grade}}}}")
    clean = _compiled_qrels(data, source) or _clean_qrels(data, source)
    if clean is not None:
        return clean
    from karat.read import subtopics

    return subtopics.gold_from_mapping(data, source) if subtopics.is_nested(data) else _check_qrels(data, source)


def _compiled_qrels(data: Mapping[Any, Any], source: str) -> Qrels | None:
    """Gold from dicts of dicts in which nothing is wrong, by the compiled kernel; None to look closer."""
    plain = kernel.dicts.read_gold(data) if kernel.dicts is not None else None
    if plain is None:
        return None
    query_ids, docs, offsets, grades = plain
    return Qrels(query_ids, np.frombuffer(offsets, np.int64), docs, np.frombuffer(grades, np.float64), source)


def _clean_qrels(data: Mapping[Any, Any], source: str) -> Qrels | None:
    """Gold from dicts of dicts in which nothing is wrong, as nearly always; None to look closer."""
    if set(map(type, data.values())) != {dict}:
        return None
    try:
        query_ids = sorted(data)
        by_query = [data[q] for q in query_ids]
        docs = list(chain.from_iterable(by_query))
        text = "".join(query_ids) + "".join(docs)  # the quickest test that every id is a string
        if {bool, str, bytes} & set(map(type, chain.from_iterable(map(dict.values, by_query)))):
            return None
        grades = np.fromiter(chain.from_iterable(map(dict.values, by_query)), np.float64, count=len(docs))
    except (TypeError, ValueError, OverflowError):
        return None
    if not all(docs) or not all(query_ids) or "\x00" in text or not np.isfinite(grades).all():
        return None
    sizes = np.fromiter(map(len, by_query), np.int64, count=len(query_ids))
    return Qrels(query_ids, np.concatenate(([0], np.cumsum(sizes))), docs, grades, source)


def _check_qrels(data: Mapping[Any, Any], source: str) -> Qrels:
    problems = Problems(source)
    out: dict[str, dict[str, float]] = {}
    for query, docs in data.items():
        q = text_id(query)
        if q is None:
            problems.add(None, f"a query id must be text or an integer, found {_show_id(query)}")
            continue
        if isinstance(docs, (str, bytes)) or not isinstance(docs, Iterable):
            problems.add(
                None, f"query {shown(q)}: expected a dict of grades or a collection of docs, found {shown(docs)}"
            )
            continue
        pairs = docs.items() if isinstance(docs, Mapping) else ((doc, 1) for doc in docs)
        grades = out.setdefault(q, {})
        for doc, grade in pairs:
            d = text_id(doc)
            if d is None:
                problems.add(None, f"query {shown(q)}: a doc id must be text or an integer, found {_show_id(doc)}")
            elif not is_finite(grade):
                problems.add(
                    None, f"query {shown(q)}, doc {shown(d)}: grade must be a finite number, found {shown(grade)}"
                )
            elif grades.setdefault(d, float(grade)) != float(grade):
                problems.add(None, f"query {shown(q)}, doc {shown(d)}: judged twice, as {grades[d]:g} and as {grade:g}")
    problems.check()
    return build_qrels(out, source)


def run_from_mapping(
    data: Mapping[Any, Any],
    name: str = "run",
    source: str | None = None,
    *,
    separator: str = SEPARATOR,
    queries: Queries | None = None,
) -> Run:
    """A run from {query: {doc: score}}, {query: [docs in order]}, or Chroma's results. Clean data is not copied.

    `source` is what errors name: the file, if there is one. `separator` divides chunk ids of Chroma's results, and
    `queries` has the order of those that one such result is for.
    """
    source = source or name
    if not data:
        raise InputError(f"{source}: is empty, expected results as {{query: {{doc: score}}}} or {{query: [docs]}}")
    if (lists := _compiled_lists(data, source)) is not None:
        return Run(name, lists)
    values = list(data.values())
    if set(map(type, values)) == {dict} and "ids" not in values[0]:
        return Run(name, _scored_lists(data, source))
    from karat.read import chroma

    if chroma.is_batch(data):
        results, note = chroma.split_batch(data, queries, source)
        run = chroma.run_of_results(results, name, source, separator=separator)
        return replace(run, notes=(note, *run.notes))
    if all(map(chroma.is_result, values)):
        return chroma.run_of_results(data, name, source, separator=separator)
    if all(isinstance(v, Mapping) for v in values):
        return Run(name, _scored_lists(data, source))
    if any(isinstance(v, Mapping) for v in values):
        raise InputError(f"{source}: some queries have scores and some have lists; expected one kind for all")
    return Run(name, OrderedLists(_ordered_lists(data, source)))


def _compiled_lists(data: Mapping[Any, Any], name: str) -> ScoredLists | None:
    """The data itself, if there is a kernel for dicts and it finds nothing but plain dicts of ids and scores."""
    first = next(iter(data.values()))
    if kernel.dicts is None or type(first) is not dict or "ids" in first:
        return None
    marked = kernel.dicts.check_ids(data, SEPARATOR, DOCS_TO_CHECK)
    return None if marked is None else ScoredLists(data, name, "" if marked else SEPARATOR)


def _scored_lists(data: Mapping[Any, Any], name: str) -> ScoredLists:
    """The data itself if nothing seems wrong with it, else a checked copy."""
    try:
        unmarked = _check_some_ids(data) if set(map(type, data)) <= {str} and all(data) else None
    except (TypeError, OverflowError):
        unmarked = None
    return ScoredLists(check_scores(data, name), name) if unmarked is None else ScoredLists(data, name, unmarked)


def _check_some_ids(data: Mapping[str, Mapping[Any, Any]]) -> str | None:
    """Check every id of a run of usual size; beyond that, the first and last id of each list.

    Returns the separator if no id holds it, None if something is wrong. Of the scores only the first of each list is
    checked here; all are checked when they are used.
    """
    remaining, unmarked = DOCS_TO_CHECK, SEPARATOR
    beyond = []
    for docs in data.values():
        if remaining > 0:
            remaining -= len(docs)
            text = "".join(docs)  # the quickest test that all ids are strings
            if "\x00" in text or "" in docs:
                return None
            if SEPARATOR in text:
                unmarked = ""
        elif docs:
            beyond.append(docs)
    lists: Any = filter(None, data.values())
    if {str, bool} & set(map(type, map(next, map(iter, map(dict.values, lists))))):
        return None
    ends = (set(map(type, map(next, map(side, beyond)))) for side in (iter, reversed))  # type: ignore[arg-type]
    if not all(kinds <= {str} for kinds in ends):
        return None
    return "" if beyond else unmarked


def check_scores(data: Mapping[Any, Any], name: str) -> dict[str, dict[str, float]]:
    """The scores with every id as a string; each bad id or score is an error."""
    problems = Problems(name)
    out: dict[str, dict[str, float]] = {}
    for query, docs in data.items():
        q = check_query(query, problems)
        if q is None:
            continue
        mine = out.setdefault(q, {})
        for doc, score in docs.items():
            d = text_id(doc)
            if d is None:
                problems.add(None, f"query {shown(q)}: a doc id must be text or an integer, found {_show_id(doc)}")
            elif not is_finite(score):
                problems.add(
                    None, f"query {shown(q)}, doc {shown(d)}: score must be a finite number, found {shown(score)}"
                )
            else:
                mine[d] = float(score)
    problems.check()
    return out


def _ordered_lists(data: Mapping[Any, Any], name: str) -> dict[str, list[str]]:
    problems = Problems(name)
    out: dict[str, list[str]] = {}
    for query, docs in data.items():
        q = check_query(query, problems)
        if q is None:
            continue
        if isinstance(docs, (str, bytes)) or not isinstance(docs, Iterable):
            problems.add(None, f"query {shown(q)}: expected a dict of scores or a list of docs, found {shown(docs)}")
            continue
        if isinstance(docs, (set, frozenset)):
            problems.add(None, f"query {shown(q)}: a set has no order; expected a list of docs, best first")
            continue
        ids = []
        for doc in docs:
            d = text_id(doc)
            if d is None:
                problems.add(None, f"query {shown(q)}: a doc id must be text or an integer, found {_show_id(doc)}")
            else:
                ids.append(d)
        out[q] = ids
    problems.check()
    return out


def _show_id(value: Any) -> str:
    """A value that should be an id, for a message; bytes are shown as bytes, since they are not text."""
    return repr(value)[:60] if isinstance(value, bytes) else shown(value)


def check_query(query: Any, problems: Problems) -> str | None:
    """The id of a query; None where it cannot be one, which is a problem."""
    q = text_id(query)
    if q is None:
        problems.add(None, f"a query id must be text or an integer, found {_show_id(query)}")
    return q


def is_finite(value: object) -> TypeGuard[float]:
    """Whether this is a number, and a finite one; true and false are not numbers."""
    try:
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        return number and math.isfinite(value)  # type: ignore[arg-type]
    except OverflowError:  # an integer beyond every float
        return False
