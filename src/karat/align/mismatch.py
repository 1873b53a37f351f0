"""Runs that cannot match their gold: ids in another spelling, scores upside down. Looked for only on suspicion."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, shown
from karat.model.ids import are_plain, find_twins
from karat.model.policy import parent_of
from karat.model.rankings import place_in_group
from karat.model.run import OrderedLists, RemoteRows, ScoredLists, Table
from karat.model.strings import equal_words
from karat.read.column_stream import ColumnStream
from karat.read.log_blocks import LogColumns
from karat.read.textfile import Irregular, TextFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.align.hits import Hits
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import Rows, Run, StreamedFile

RELEVANT = 0.02
"""The share of ids in another spelling from which it is said."""
MOST = 0.9
"""The share of queries from which rising scores belong to the whole run."""
SOME = 0.1
"""The share of lists from which equal scores are said."""
PROBE = 50
"""Judgments, from end to end of the gold, that show with their lists whether spellings can differ at all."""
FIRST = 2
"""Docs of each such list that are looked at."""
SAMPLE = 5_000
"""Results whose ids are compared with the gold."""
DEPTH = 100
"""Results of each list among them: of long lists the first ones, so that there are several lists."""
FEW_ROWS = 1 << 14
"""Bytes of a file that are read again for a probe; for a sample it is a block."""
HEAD = 1 << 16
"""Bytes of a file whose ranks are looked at."""


def describe_mismatch(
    qrels: Qrels, run: Run, hits: Hits, policy: Policy, *, corpus: Collection[str] = ()
) -> tuple[str, ...]:
    """What makes it look as if run and gold write their ids differently, or as if scores were not what ranks docs.

    `corpus` is the ids of all docs, where they are known. Costs next to nothing where all judged docs are found, or ids
    have only one spelling, and scores descend.
    """
    notes = (
        _query_ids(qrels, hits),
        _doc_ids(qrels, run, hits, policy, corpus),
        _docs_or_chunks(qrels, hits, policy),
        _metadata(qrels, run, hits),
        _scores(run, hits),
        _level_scores(hits),
    )
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
    none = "its only query is not" if len(others) == 1 else f"none of its {len(others):,} queries is"
    raise InputError(
        f"{run.path or run.name}: {none} in {gold}: the run has ids such as "
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
    if not hits.without_gold or not (missing := hits.returned < 0).any():
        return ""
    return _spelling(hits.without_gold, [qrels.query_ids[i] for i in np.flatnonzero(missing).tolist()])


def _doc_ids(qrels: Qrels, run: Run, hits: Hits, policy: Policy, corpus: Collection[str]) -> str:
    """Returned docs that the gold, or else the corpus, has in another spelling alone."""
    absent = (hits.returned > 0)[qrels.query_of]
    absent[hits.gold] = False
    where = np.flatnonzero(absent)
    if not len(where):
        return ""
    few = where[:: -(-len(where) // PROBE)]
    judged = [qrels.docs[i] for i in few.tolist()]
    if are_plain([*judged, *_probe(run, [qrels.query_ids[i] for i in qrels.query_of[few].tolist()])]):
        return ""
    queries = [qrels.query_ids[i] for i in np.unique(qrels.query_of[where]).tolist()]
    sample = _sample(run, queries)
    lists = {q: docs | _parents(docs, run, policy) for q, docs in sample.items()}
    by_query = isinstance(run.content, (ScoredLists, OrderedLists))
    where_looked = _name_sample(len(lists), len(queries) if by_query else int((hits.returned > 0).sum()))
    text = _unlike_gold(qrels, lists, absent, where_looked)
    return text or (_unlike_corpus(sample, run, policy, corpus, where_looked) if corpus else "")


def _name_sample(lists: int, total: int) -> str:
    """Where ids were compared: `50 lists`, or `50 of 136 lists (a sample)`."""
    if lists < total:
        return f"{lists:,} of {total:,} lists (a sample)"
    return "1 list" if lists == 1 else f"{lists:,} lists"


def _metadata(qrels: Qrels, run: Run, hits: Hits) -> str:
    """A field of the results that holds more of the gold's ids than what the docs are named by."""
    absent = np.ones(len(qrels.docs), dtype=bool)
    absent[hits.gold] = False
    if not run.doc_fields or not absent.any():
        return ""
    missing, there = {qrels.docs[i] for i in np.flatnonzero(absent).tolist()}, len({*qrels.docs})
    matches = {name: len(missing & {*values}) for name, values in run.doc_fields.items()}
    name = max(matches, key=lambda field: matches[field])
    # A reader's own note may name the field already.
    if matches[name] <= there - len(missing) or any(repr(name) in note for note in run.notes):
        return ""
    return (
        f"{there - len(missing):,} of {there:,} gold ids match the ids of the results, and {matches[name]:,} others "
        f"match {name!r} in their metadata: if it names the docs, call it 'doc_id'"
    )


def _docs_or_chunks(qrels: Qrels, hits: Hits, policy: Policy) -> str:
    """Ids that the run calls docs, and that would match more of the gold if they were chunks."""
    if not hits.as_chunks:
        return ""
    return (
        f"{hits.extent.matches:,} of {len(qrels.docs):,} judgments match the run's docs, {hits.as_chunks:,} match what "
        f"stands before {shown(policy.separator)} in them: if they are chunks, call the column or field chunk_id"
    )


def _parents(docs: Iterable[str], run: Run, policy: Policy) -> dict[str, None]:
    return dict.fromkeys(parent_of(doc, run.separator(policy), run.parents) for doc in docs)


def _unlike_gold(
    qrels: Qrels, lists: Mapping[str, Collection[str]], absent: NDArray[np.bool_], where_looked: str
) -> str:
    twins: list[tuple[str, str]] = []
    matches = 0
    for q, docs in lists.items():
        i = qrels.query_index.get(q)
        if i is None:
            continue
        own = range(int(qrels.offsets[i]), int(qrels.offsets[i + 1]))
        matches += sum(not absent[j] for j in own)
        lonely = [qrels.docs[j] for j in own if absent[j]]
        if lonely:
            graded = qrels.for_query(q)
            twins += find_twins(lonely, (doc for doc in docs if doc not in graded))
    if not twins or len(twins) < RELEVANT * (matches + len(twins)):
        return ""
    there, here = twins[0]
    return (
        f"{len(twins):,} of {matches + len(twins):,} judged docs in {where_looked} are not recognized: ids "
        f"differ in spelling: the run writes {shown(here)}, the gold {shown(there)}; write them alike"
    )


def _unlike_corpus(
    lists: Mapping[str, Collection[str]], run: Run, policy: Policy, corpus: Collection[str], where_looked: str
) -> str:
    docs = dict.fromkeys(doc for own in lists.values() for doc in own)
    lonely = [
        doc for doc in docs if doc not in corpus and not any(one in corpus for one in _parents((doc,), run, policy))
    ]
    twins = find_twins(lonely, corpus) if len(lonely) >= RELEVANT * len(docs) else []
    if not twins or len(twins) < RELEVANT * len(docs):
        return ""
    here, there = twins[0]
    return (
        f"{len(twins):,} of {len(docs):,} distinct docs in {where_looked} are not recognized: ids differ in "
        f"spelling: the run writes {shown(here)}, the corpus {shown(there)}; write them alike"
    )


def _probe(run: Run, queries: Sequence[str]) -> list[str]:
    """A few docs of each of these queries, or the first ones of a file or a table."""
    content = run.content
    if isinstance(content, (ScoredLists, OrderedLists)):
        return [doc for q in queries for doc in islice(content.lists.get(q, ()), FIRST)]
    rows = _first_rows(content, FEW_ROWS)
    return [] if rows is None else rows.doc.take(np.arange(min(FIRST * PROBE, len(rows)))).texts()


def _sample(run: Run, queries: Sequence[str]) -> dict[str, dict[str, None]]:
    """Some results of a run: docs, and those that their chunks belong to by the run's own word, by query.

    Of lists they are those of the `queries`, of a file or a table the first ones.
    """
    content = run.content
    out: dict[str, dict[str, None]] = {}
    pairs: Iterable[tuple[str, str]]
    if isinstance(content, (ScoredLists, OrderedLists)):
        columns = [content.lists]
        if isinstance(content, OrderedLists) and content.parents is not None:
            columns.append(content.parents)
        pairs = ((q, doc) for q in queries for lists in columns for doc in islice(lists.get(q, ()), DEPTH))
    else:
        rows = _first_rows(content)
        if rows is None or not len(rows):
            return {}
        words = rows.query.words()
        same = equal_words([w[1:] for w in words], [w[:-1] for w in words])
        places = place_in_group(np.cumsum(np.concatenate(([False], ~same))))
        some = rows.take(np.flatnonzero(places <= DEPTH)[:SAMPLE])
        ids = [some.doc] if some.parent is None else [some.doc, some.parent]
        pairs = ((q, doc) for column in ids for q, doc in zip(some.query.texts(), column.texts(), strict=True))
    for q, doc in islice(pairs, 2 * SAMPLE):  # docs and their parents
        out.setdefault(q, {})[doc] = None
    return out


def _first_rows(content: Table | StreamedFile | RemoteRows, size: int | None = None) -> Rows | None:
    """All rows of a table, or those in the first block of a file or frame; None where these are not regular."""
    if isinstance(content, Table):
        return content.rows
    if isinstance(content, (ColumnStream, RemoteRows)):
        return content.first_rows()
    if isinstance(content, LogColumns):
        return next(map(content.rows, content.blocks()), None)
    if not isinstance(content, TextFile):
        return None
    try:
        return content.rows(next(content.blocks(size)))
    except (Irregular, StopIteration):
        return None


def _scores(run: Run, hits: Hits) -> str:
    """Scores that rise where the rank, or the file without one, says that docs get worse."""
    if hits.ascending < 2 or hits.ascending < MOST * (several := _count_longer(hits)):
        return ""
    ranks = _rank_steps(run.content) if isinstance(run.content, TextFile) else None
    if ranks is not None and ranks <= 0:
        return ""  # the file begins with the last rank
    what = "with the rank" if ranks is not None else "from row to row"
    return (
        f"scores rise {what} in {hits.ascending:,} of {several:,} queries, and the highest score counts as the best: "
        "if lower is better, negate the scores"
    )


def _level_scores(hits: Hits) -> str:
    """Lists that their scores do not order."""
    if not hits.level or hits.level < SOME * (several := _count_longer(hits)):
        return ""
    return f"the scores of {hits.level:,} of {several:,} lists are all equal: ranked by doc id, descending"


def _count_longer(hits: Hits) -> int:
    """How many lists hold several docs."""
    return int(np.count_nonzero(hits.returned > 1))


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
