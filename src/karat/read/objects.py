"""Dicts, lists and sets → gold and runs. Ids are strings; integers become their decimal form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeGuard

import numpy as np

from karat.errors import InputError, shown
from karat.model.policy import SEPARATOR, parent_of
from karat.model.qrels import Qrels
from karat.model.run import OrderedLists, Run, ScoredLists
from karat.read.problems import Problems

_CHROMA_DOC = ("doc_id", "hpo_id")
"""Fields of Chroma's metadata that name the doc of an entry; the first that is there counts."""
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


def qrels_from_mapping(data: Mapping[Any, Any], source: str = "qrels") -> Qrels:
    """Gold from {query: {doc: grade}}, or from {query: docs} with grade 1 for each."""
    if not data:
        raise InputError(f"{source}: is empty, expected judgments as {{query: {{doc: grade}}}}")
    clean = _clean_qrels(data, source)
    if clean is not None:
        return clean
    from karat.read import subtopics

    return subtopics.gold_from_mapping(data, source) if subtopics.is_nested(data) else _check_qrels(data, source)


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
    data: Mapping[Any, Any], name: str = "run", source: str | None = None, *, separator: str = SEPARATOR
) -> Run:
    """A run from {query: {doc: score}} or from {query: [docs in order]}. Clean data is not copied.

    `source` is what errors name: the file, if there is one. `separator` divides chunk ids of Chroma's results.
    """
    source = source or name
    if not data:
        raise InputError(f"{source}: is empty, expected results as {{query: {{doc: score}}}} or {{query: [docs]}}")
    if "ids" in data and isinstance(data["ids"], Sequence) and ("metadatas" in data or "distances" in data):
        raise InputError(
            f"{source}: looks like one result of Chroma, which does not name its queries; "
            "write {query_id: result} with one result for each query"
        )
    values = list(data.values())
    if set(map(type, values)) == {dict} and "ids" not in values[0]:
        return Run(name, _scored_lists(data, source))
    if all(isinstance(v, Mapping) and "ids" in v and not isinstance(v["ids"], (int, float)) for v in values):
        lists, parents = _chroma(data, source, separator)
        return Run(name, OrderedLists(lists, parents), notes=_note_other_ids(values))
    if all(isinstance(v, Mapping) for v in values):
        return Run(name, _scored_lists(data, source))
    if any(isinstance(v, Mapping) for v in values):
        raise InputError(f"{source}: some queries have scores and some have lists; expected one kind for all")
    return Run(name, OrderedLists(_ordered_lists(data, source)))


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
        q = _check_query(query, problems)
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
        q = _check_query(query, problems)
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


def _chroma(data: Mapping[Any, Any], name: str, separator: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """{query: Chroma's result} → ids in order, and the docs that the metadata name."""
    problems = Problems(name)
    lists: dict[str, list[str]] = {}
    parents: dict[str, list[str]] = {}
    for query, result in data.items():
        q = _check_query(query, problems)
        if q is None:
            continue
        ids, metadata = result["ids"], result.get("metadatas")
        if isinstance(ids, (list, tuple)) and ids and isinstance(ids[0], (list, tuple)):
            if len(ids) > 1:  # Chroma nests one level for its list of queries
                problems.add(None, f"query {shown(q)}: holds the results of {len(ids)} queries, expected those of one")
                continue
            ids = ids[0]
            metadata = metadata[0] if isinstance(metadata, (list, tuple)) and metadata else metadata
        texts = [text_id(i) for i in ids] if isinstance(ids, (list, tuple)) else [None]
        if None in texts:
            problems.add(None, f"query {shown(q)}: ids must be a list of texts or integers, found {shown(ids)}")
            continue
        metadata = [None] * len(texts) if metadata is None or metadata == [] else metadata
        columns = isinstance(metadata, (list, tuple)) and len(metadata) == len(texts)
        if not columns or not all(m is None or isinstance(m, Mapping) for m in metadata):
            problems.add(None, f"query {shown(q)}: metadatas must be a dict or None for each of the {len(texts)} ids")
            continue
        lists[q] = [i for i in texts if i is not None]
        parents[q] = [
            next((str(m[name]) for name in _CHROMA_DOC if m and name in m), parent_of(i, separator))
            for i, m in zip(lists[q], metadata, strict=True)
        ]
    problems.check()
    return lists, parents


def _note_other_ids(results: Sequence[Mapping[Any, Any]]) -> tuple[str, ...]:
    """A note on fields of Chroma's metadata that look like the ids of docs and are not read as such."""
    columns = [result.get("metadatas") for result in results]
    nested = [m for column in columns if isinstance(column, (list, tuple)) for m in column]
    metadata = [m for one in nested for m in (one if isinstance(one, (list, tuple)) else (one,))]
    names = {str(name) for m in metadata if isinstance(m, Mapping) for name in m}
    others = sorted(name for name in names if name.lower().endswith("id"))
    if names.intersection(_CHROMA_DOC) or not others:
        return ()
    return (
        f"docs are named by Chroma's ids; the metadata also hold {', '.join(map(repr, others))}: if the gold names "
        "docs by it, call it 'doc_id'",
    )


def _show_id(value: Any) -> str:
    """A value that should be an id, for a message; bytes are shown as bytes, since they are not text."""
    return repr(value)[:60] if isinstance(value, bytes) else shown(value)


def _check_query(query: Any, problems: Problems) -> str | None:
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
