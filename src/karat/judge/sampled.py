"""Figures from judgments that were drawn with known probabilities: docs without a judgment need not be irrelevant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.metrics.sampled_gold import OFFERED, SampledGold, SampledValues, estimate_metric
from karat.model.policy import is_relevant
from karat.stats.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.judge.pairs import Draw
    from karat.metrics.corrected import JudgedPairs
    from karat.metrics.grammar import Measure
    from karat.results.sampling import Sampling

RELEVANT_DOCS = 10
"""Per query, in the sample: with 7, intervals of map hold 91%, with 10 all hold 94% or more (bench/judges.py)."""


def estimate_sampled(
    measures: Sequence[Measure],
    pairs: JudgedPairs,
    draws: Sequence[Draw | None],
    sampling: Sampling,
    query_ids: Sequence[str],
) -> tuple[dict[str, SampledValues], dict[str, str]]:
    """Precision, recall, map and ndcg by Horvitz and Thompson, and why some of them are not estimated.

    Nothing where some pair was not drawn at random. `draws` says how each pair was drawn; None for the gold, which is
    certain.
    """
    survey = _survey(draws)
    if survey is None:
        return {}, {}
    relevant = float(np.count_nonzero(is_relevant(pairs.grade))) / max(pairs.queries, 1)
    lack = f"the sample has {relevant:.1f} relevant docs per query, and a ratio needs about {RELEVANT_DOCS}"
    reasons: dict[str, str] = {}
    gold = SampledGold(pairs.queries, pairs.query, pairs.rank, pairs.grade, survey)
    out: dict[str, SampledValues] = {}
    for m in (m for m in measures if m.metric.name in OFFERED):
        if m.metric.name != "precision" and relevant < RELEVANT_DOCS:
            reasons[m.name] = lack
            continue
        try:
            out[m.name] = estimate_metric(
                m,
                gold,
                units=sampling.units(query_ids),
                confidence=sampling.confidence,
                resamples=sampling.resamples,
                seed=sampling.seed,
            )
        except UsageError as error:  # a variant that cannot be estimated
            reasons[m.name] = str(error)
    return out, reasons


def _survey(draws: Sequence[Draw | None]) -> Survey | None:
    """The probabilities, one stratum for each part that pairs were drawn from; None unless all are known.

    Pairs of whole queries are not drawn by themselves.
    """
    chances = [1.0 if draw is None else draw.probability if draw.unit == "pair" else None for draw in draws]
    known = [chance for chance in chances if chance is not None]
    if len(known) < len(chances) or not any(chance < 1 for chance in known):
        return None
    keys = [(draw.stratum if draw is not None else "", chance) for draw, chance in zip(draws, known, strict=True)]
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return Survey(np.array(known), np.array([numbers[key] for key in keys], dtype=np.int64))
