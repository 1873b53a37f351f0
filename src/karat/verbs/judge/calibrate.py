"""`karat judge calibrate`: the judgments of a model and the labels of people → what the model is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import UsageError, nearest, shown
from karat.judge.calibration import Calibration, Trait, calibrate
from karat.judge.judgments import Judgment, read_judgments, rows_of_model
from karat.judge.pool import DEPTH, find_best_ranks
from karat.model.policy import Policy
from karat.read.docs import read_docs
from karat.read.objects import build_qrels
from karat.read.queries import read_queries
from karat.read.sources import read_run, run_files
from karat.stats.defaults import CONFIDENCE

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence


def calibrate_judge(
    judgments: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    judge: str | None = None,
    queries: Any = None,
    by: Sequence[str] = (),
    docs: Any = None,
    runs: Sequence[str | os.PathLike[str]] = (),
    depth: int = DEPTH,
    confidence: float = CONFIDENCE,
) -> Calibration:
    """Compare what a model judged with what people say of the same pairs; both may be in one file.

    `by` names fields of the queries, to show the judge's bias for each value; `runs` are what systems returned, to show
    whether the judge favours one, and orders them as people do; `docs` are the texts, to show whether it favours long
    ones. What it returns is saved with `save(path)`, and goes to `evaluate(…, calibration=…)` as it is.
    """
    own = read_judgments(judgments)
    rows = rows_of_model(own, judge)
    judged = build_qrels(_by_query(rows), own.path)
    ranks = {
        name: find_best_ranks(read_run(path, name=name), judged, depth, Policy())[0]
        for name, path in run_files(runs).items()
    }
    return calibrate(
        rows,
        own if labels is None else read_judgments(labels),
        range(int(rows[0].scale.removeprefix("0-")) + 1),
        segments=_segments(queries, by),
        traits=_traits(rows, docs, ranks),
        runs={name: own.keys() for name, own in ranks.items()},
        depth=depth,
        confidence=confidence,
    )


def _by_query(rows: Sequence[Judgment]) -> dict[str, dict[str, int]]:
    """The grades as gold: it tells whether docs or chunks were judged."""
    out: dict[str, dict[str, int]] = {}
    for row in rows:
        assert row.grade is not None
        out.setdefault(row.query_id, {})[row.doc_id] = row.grade
    return out


def _traits(
    rows: Sequence[Judgment], docs: Any, ranks: Mapping[str, Mapping[tuple[str, str], int]]
) -> dict[Trait, dict[tuple[str, str], float]]:
    """The length of each judged doc, where texts are named, and its best rank in the runs."""
    out: dict[Trait, dict[tuple[str, str], float]] = {}
    if docs is not None:
        table = read_docs(docs)
        lengths = {row.ids: len(table.whole_text(row.doc_id)) for row in rows}
        out["length"] = {ids: length for ids, length in lengths.items() if length}
        if not out["length"]:
            raise UsageError(f"{table.source}: has no text of any doc that the judge graded; name their texts")
    if ranks:
        best: dict[tuple[str, str], float] = {}
        for own in ranks.values():
            for ids, rank in own.items():
                best[ids] = min(rank, best.get(ids, rank))
        out["rank"] = best
    return out


def _segments(queries: Any, by: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    if not by:
        return {}
    if queries is None:
        raise UsageError("the bias by a field needs the table of queries: --queries FILE")
    table = read_queries(queries)
    names = {name for fields in table.fields.values() for name in fields}
    for name in by:
        if name not in names:
            near = nearest(name, names)
            hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(sorted(names))}"
            raise UsageError(f"{table.source}: no query has a field {shown(name)}; {hint}")
    return {name: {query: str(value) for query, value in table.field(name).items()} for name in by}
