"""`karat judge pool`: runs and what is judged already → a file of pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from karat.errors import InputError, UsageError
from karat.gates.pool_rules import read_pool_gates
from karat.judge.judgments import Judgment, Judgments, ModelJudge, read_all_judgments
from karat.judge.pairs import write_pairs
from karat.judge.people_labels import PairLabels, group_labels
from karat.judge.pool import DEPTH, Order, Pool, build_pool
from karat.model.policy import Level, policy
from karat.read.sources import read_qrels, read_run, run_files
from karat.stats.defaults import SEED
from karat.verbs.judge.scale import choose_scale

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from karat.model.qrels import Qrels

CHOICES: dict[str, tuple[str, ...]] = {"level": ("auto", "chunk", "doc"), "order": ("random", "value")}


def pool_pairs(
    runs: Sequence[str | os.PathLike[str]],
    output: str,
    *,
    gold: str | None = None,
    judgments: Sequence[str] = (),
    depth: int = DEPTH,
    order: str = "random",
    metric: str | None = None,
    gates: Sequence[str] = (),
    scale: str | None = None,
    limit: int | None = None,
    seed: int = SEED,
    level: str = "auto",
    separator: str | None = None,
) -> Pool:
    """Write the pairs to judge of these runs (paths, globs, `NAME=file`) to a file, one per line.

    With `gates` as texts (order "value"), pairs come first that bring a gate nearest to its decision; gates `than
    baseline` compare with the first run.
    """
    for name, value in (("level", level), ("order", order)):
        if value not in CHOICES[name]:
            raise UsageError(f"{name} must be one of {', '.join(CHOICES[name])}, found {value!r}")
    how = policy(level=cast("Level", level), separator=separator)
    files = run_files(runs)
    if not files:
        raise UsageError("a pool needs runs: name at least one file")
    rules = read_pool_gates(gates, list(files))
    earlier = read_all_judgments(judgments)
    qrels = read_qrels(gold) if gold is not None else None
    by_value = order == "value"
    grades = _find_scale(scale, earlier, qrels) if by_value else range(0)
    pool = build_pool(
        [read_run(path, name=name, policy=how) for name, path in files.items()],
        gold=qrels,
        judged=_grades_of(earlier) if by_value else {row.ids: math.nan for row in earlier.rows},
        depth=depth,
        order=cast("Order", order),
        metric=metric,
        gates=rules,
        scale=grades,
        limit=limit,
        seed=seed,
        policy=how,
    )
    write_pairs(pool.pairs, output)
    return pool


def _grades_of(judgments: Judgments) -> dict[tuple[str, str], float]:
    """The grade of each pair: that of people (`PairLabels.grade`), else the median of models' grades."""
    by_models: dict[tuple[str, str], list[Judgment]] = {}
    for row in judgments.rows:
        if isinstance(row.by, ModelJudge):
            by_models.setdefault(row.ids, []).append(row)
    models = {ids: PairLabels(tuple(rows)) for ids, rows in by_models.items()}
    people = group_labels(judgments, judgments.rows[0].scale) if judgments.rows else {}
    return {ids: float(pair.grade) for ids, pair in (models | people).items()}


def _find_scale(name: str | None, judgments: Judgments, gold: Qrels | None) -> range:
    """The grades that unjudged docs may have; judgments and gold must lie on that scale."""
    scale = choose_scale(name)
    other = next((row for row in judgments.rows if row.scale != scale.name), None)
    if other is not None:
        raise InputError(
            f"the judgments are on the scale {other.scale}, expected {scale.name}: state --scale {other.scale}"
        )
    largest = 0.0 if gold is None else float(gold.grades.max(initial=0.0))
    if largest > scale.grades[-1]:
        raise InputError(
            f"the gold has the grade {largest:g}, expected the scale {scale.name}: state --scale 0-{largest:g}"
        )
    return scale.grades
