"""Random gold and runs, to compare Karat with its peers on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Gold = Mapping[str, Mapping[str, int]]
Scores = Mapping[str, Mapping[str, float]]


def bulk(seed: int, queries: int, *, lowest: int = -1, ties: bool = True) -> tuple[Gold, Scores]:
    """Random gold and run: long and short lists, unjudged docs, queries that only one of the two has."""
    rng = np.random.default_rng(seed)
    gold: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for number in range(1, queries + 1):
        query, pool = str(number), [f"D{i}" for i in rng.permutation(400)]
        judged = pool[: int(rng.integers(1, 60))]
        if rng.random() > 0.05:
            weights = rng.dirichlet([4, 2, 1, 1, 0.5])
            grades = rng.choice(5, size=len(judged), p=weights)
            grades[1:][rng.random(len(judged) - 1) < 0.1] = lowest  # pytrec_eval needs one grade from 0 up
            gold[query] = {d: int(g) for d, g in zip(judged, grades, strict=True)}
        if rng.random() > 0.05:
            size = int(rng.choice([1, 2, 3, 8, 15, 40, 150, 300]))
            returned = rng.permutation(pool[: 60 + size])[:size].tolist()
            scores = rng.normal(size=size) if not ties else rng.integers(0, max(2, size // 2), size) / 7
            if not ties:
                scores = (np.argsort(np.argsort(scores)) + 1) / 4.0  # exact in float32, all different
            run[query] = dict(zip(returned, scores.tolist(), strict=True))
    return gold, run
