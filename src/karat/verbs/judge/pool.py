"""`karat judge pool`: runs and what is judged already → a file of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from karat.errors import UsageError
from karat.judge.judgments import read_judgments
from karat.judge.pairs import write_pairs
from karat.judge.pool import DEPTH, build_pool
from karat.model.policy import policy
from karat.read.sources import read_qrels, read_run, run_files
from karat.stats.defaults import SEED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.judge.pool import Order, Pool
    from karat.model.policy import Level

CHOICES: dict[str, tuple[str, ...]] = {"level": ("auto", "chunk", "doc"), "order": ("random", "value")}


def pool_pairs(
    runs: Sequence[str],
    output: str,
    *,
    gold: str | None = None,
    judgments: Sequence[str] = (),
    depth: int = DEPTH,
    order: str = "random",
    limit: int | None = None,
    seed: int = SEED,
    level: str = "auto",
    separator: str | None = None,
) -> Pool:
    """Write the pairs to judge of these runs (paths, globs, `NAME=file`) to a file, one per line."""
    for name, value in (("level", level), ("order", order)):
        if value not in CHOICES[name]:
            raise UsageError(f"{name} must be one of {', '.join(CHOICES[name])}, found {value!r}")
    how = policy(level=cast("Level", level), separator=separator)
    judged = {row.ids for path in judgments for row in read_judgments(path).rows}
    pool = build_pool(
        [read_run(path, name=name, policy=how) for name, path in run_files(runs).items()],
        gold=read_qrels(gold) if gold is not None else None,
        judged=judged,
        depth=depth,
        order=cast("Order", order),
        limit=limit,
        seed=seed,
        policy=how,
    )
    write_pairs(pool.pairs, output)
    return pool
