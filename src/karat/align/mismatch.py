"""Runs that cannot match their gold: ids in another spelling, scores upside down. Looked for only on suspicion."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, shown
from karat.model.ids import find_twins
from karat.model.policy import parent_of
from karat.model.run import OrderedLists, ScoredLists, Table
from karat.read.textfile import Irregular, TextFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from karat.align.hits import Hits
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import Rows, Run

FEW = 0.2
"""The share of judged docs, of those that could have been returned, below which ids are looked at."""
MOST = 0.9
"""The share of queries from which rising scores belong to the whole run."""
SAMPLE = 5_000
"""Results whose ids are looked at."""
HEAD = 1 << 16
"""Bytes of a file whose ranks are looked at."""


def describe_mismatch(qrels: Qrels, run: Run, hits: Hits, policy: Policy) -> tuple[str, ...]:
    """What makes it look as if run and gold write their ids differently, or as if lower scores were better.

    Costs nothing where most judged docs are found and scores descend.
    """
    notes = (_query_ids(qrels, hits), _doc_ids(qrels, run, hits, policy), _scores(run, hits))
    return tuple(note for note in notes if note)


def check_common_queries(
    qrels: Qrels, run: Run, hits: Hits, *, gold: str = "the gold", no_answer: Collection[str] = ()
) -> None:
    """Refuse a run none of whose queries has gold: it would score 0, as if the system had failed.

    A run of nothing but queries that have no answer is measured as it is.
    """
    others = [q for q in hits.without_gold if q not in no_answer]
    if not others or not len(qrels) or (hits.returned >= 0).any():
        return
    advice = _spelling(others, qrels.query_ids) or "name the gold of these queries, or write the ids alike"
    raise InputError(
        f"{run.path or run.name}: none of its {len(others):,} queries is in {gold}: the run has ids such as "
        f"{_first_ids(others)}, the gold such as {_first_ids(qrels.query_ids)}; expected the same query ids in both: "
        f"{advice}"
    )


def _first_ids(ids: Sequence[str]) -> str:
    return ", ".join(map(shown, ids[:3])) + (", …" if len(ids) > 3 else "")


def _spelling(here: Iterable[str], there: Iterable[str]) -> str:
    """Which ids of a run and its gold differ in spelling alone."""
    twins = find_twins(here, there)
    if not twins:
        return ""
    one, other = twins[0]
    return f"query ids differ in spelling: the run writes {shown(one)}, the gold {shown(other)}; write them alike"


def _query_ids(qrels: Qrels, hits: Hits) -> str:
    missing = hits.returned < 0
    if not hits.without_gold or not missing.any():
        return ""
    return _spelling(hits.without_gold, [qrels.query_ids[i] for i in np.flatnonzero(missing).tolist()])


def _doc_ids(qrels: Qrels, run: Run, hits: Hits, policy: Policy) -> str:
    judgments = np.bincount(qrels.query_of, minlength=len(qrels))
    possible = int(np.minimum(judgments, np.maximum(hits.returned, 0)).sum())
    if not possible or len(hits.gold) >= FEW * possible:
        return ""
    sample = _sample(run)
    gold = dict.fromkeys(doc for q in sample if q in qrels.query_index for doc in qrels.for_query(q))
    chunks = dict.fromkeys(doc for docs in sample.values() for doc in docs)
    docs = chunks | dict.fromkeys(parent_of(doc, policy.separator) for doc in chunks)
    alike = [doc for doc in docs if doc in gold]
    twins = find_twins((doc for doc in docs if doc not in gold), islice(gold, SAMPLE))
    if len(twins) <= len(alike):
        return ""
    here, there = twins[0]
    return (
        f"hardly any returned doc is in the gold, and ids differ in spelling: the run writes {shown(here)}, "
        f"the gold {shown(there)}; write them alike"
    )


def _sample(run: Run) -> dict[str, list[str]]:
    """Some results of a run: docs by query."""
    content = run.content
    out: dict[str, list[str]] = {}
    pairs: Iterable[tuple[str, str]]
    if isinstance(content, (ScoredLists, OrderedLists)):
        parents = content.parents if isinstance(content, OrderedLists) else None
        pairs = ((q, doc) for lists in (content.lists, parents or {}) for q, docs in lists.items() for doc in docs)
    else:
        rows = (
            _first_rows(content)
            if isinstance(content, TextFile)
            else content.rows
            if isinstance(content, Table)
            else None
        )
        if rows is None:
            return {}
        some = rows.take(np.arange(min(SAMPLE, len(rows))))
        pairs = zip(some.query.texts(), some.doc.texts(), strict=True)
    for q, doc in islice(pairs, SAMPLE):
        out.setdefault(q, []).append(doc)
    return out


def _first_rows(file: TextFile) -> Rows | None:
    try:
        return file.rows(next(file.blocks()))
    except (Irregular, StopIteration):
        return None


def _scores(run: Run, hits: Hits) -> str:
    """Scores that rise where the rank, or the file without one, says that docs get worse."""
    several = int((hits.returned > 1).sum())
    if hits.ascending < 2 or hits.ascending < MOST * several:
        return ""
    ranks = _rank_steps(run.content) if isinstance(run.content, TextFile) else None
    if ranks is not None and ranks <= 0:
        return ""  # the file begins with the last rank
    what = "with the rank" if ranks is not None else "from row to row"
    return (
        f"scores rise {what} in {hits.ascending:,} of {several:,} queries, and the highest score counts as the best: "
        "if lower is better, negate the scores"
    )


def _rank_steps(file: TextFile) -> int | None:
    """Whether ranks rise (above 0) or fall (below 0) from line to line; None where the file has no ranks."""
    layout = file.layout
    column = (layout.header.index("rank") if "rank" in layout.header else None) if layout.header else 3
    if column is None:
        return None
    lines = next(file.blocks(HEAD)).text().splitlines()
    cells = [line.split(layout.delimiter) for line in lines]
    ranks = [(row[layout.query], row[column].strip()) for row in cells if len(row) == layout.width]
    if not all(rank.isdecimal() for _, rank in ranks):
        return None
    steps = [int(b) - int(a) for (q, a), (p, b) in pairwise(ranks) if p == q]
    return sum((step > 0) - (step < 0) for step in steps)
