"""Metrics of terms of an ontology: how near the terms that were returned are to those that are expected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import MetricError
from karat.metrics.registry import Params, metric
from karat.model.policy import RELEVANT, is_relevant
from karat.model.rankings import ALL, ratio
from karat.ontology.information import CONTENTS
from karat.ontology.similarity import BY_CONTENT, SIMILARITIES, content_name

if TYPE_CHECKING:
    from karat.model.items import TermPairs
    from karat.model.rankings import Cutoff, Rankings, Values

ONTOLOGY = "ontology"
_SIMILARITIES = (
    "sim: lin = 2·IC(a) / (IC₁ + IC₂); resnik = IC(a) / max(IC₁, IC₂); jiang_conrath = 1 / (1 + IC₁ + IC₂ − 2·IC(a));"
    " wu_palmer = 2·d(a) / (d₁ + d₂); path = 1 / (1 + edges); hybrid = .7·d(a) / max(d₁, d₂) + .3·(1 − edges / (d₁ +"
    " d₂)); a = best common ancestor, d = longest path from a root, a term with itself 1. ic=sanchez: −log((leaves /"
    " ancestors + 1) / (all leaves + 1)); ic=omim: −log(share of OMIM's diseases)"
)
_CAUTION = (
    " The gold must name terms of the ontology. Ids that the release does not know are counted in a note: unknown"
    " returned ids are similar to nothing, and a query without any known expected term has no value. Values of two"
    " similarities are not comparable: jiang_conrath and path are above 0 for unrelated terms."
    " Opposites that share a parent are near each other, and terms drawn at random are above 0 on average."
)


def _wrong_content(explicit: Params) -> str | None:
    sim = explicit.get("sim", "lin")
    if "ic" in explicit and sim not in BY_CONTENT:
        return f"ic belongs to sim={', '.join(BY_CONTENT)}; sim={sim} looks at paths alone"
    return None


@metric(
    "max_ont_sim",
    aliases=("max_ontology_similarity",),
    title="Best ontology similarity",
    family=ONTOLOGY,
    formula=f"largest similarity of an expected term and a term in the top k. {_SIMILARITIES}",
    tells="How near the top k comes to an expected term; a near miss is worth something, an exact match is 1.",
    use_when="Texts are mapped to terms of an ontology, and a neighbouring term is better than a distant one.",
    caution=f"Longer lists can only raise it: compare it at the same k.{_CAUTION}",
    cites="Lin 1998; Resnik 1995; Jiang & Conrath 1997; Wu & Palmer 1994; Sánchez et al. 2011",
    choices={"sim": tuple(SIMILARITIES), "ic": CONTENTS},
    empty_gold=math.nan,
    needs=("gold", "items", ONTOLOGY),
    refuses=_wrong_content,
    complexity="expected terms × docs in the top k × their ancestors",
    suits={"ontology terms": "max_ont_sim@5"},
)
def max_ont_sim(r: Rankings, k: Cutoff = ALL, sim: str = "lin", ic: str = "sanchez", rel: float = RELEVANT) -> Values:
    pairs = _pairs(r)
    return _largest(len(r), pairs.gold_query, _best_matches(pairs, k, sim, ic), is_relevant(pairs.gold_grade, rel))


@metric(
    "best_match_sim",
    title="Mean best-match similarity",
    family=ONTOLOGY,
    formula=f"mean over expected terms of the largest similarity with a term in the top k. {_SIMILARITIES}",
    tells="How near the top k comes to each of the expected terms, on average.",
    use_when="A text has several expected terms, and all of them count.",
    caution=f"With one expected term per query it equals max_ont_sim.{_CAUTION}",
    cites="Lin 1998; best-match average: Pesquita et al. 2009",
    choices={"sim": tuple(SIMILARITIES), "ic": CONTENTS},
    empty_gold=math.nan,
    needs=("gold", "items", ONTOLOGY),
    refuses=_wrong_content,
    complexity="expected terms × docs in the top k × their ancestors",
)
def best_match_sim(
    r: Rankings, k: Cutoff = ALL, sim: str = "lin", ic: str = "sanchez", rel: float = RELEVANT
) -> Values:
    pairs = _pairs(r)
    expected = is_relevant(pairs.gold_grade, rel)
    query, best = pairs.gold_query[expected], _best_matches(pairs, k, sim, ic)[expected]
    count = np.bincount(query, minlength=len(r)).astype(np.float64)
    total = np.bincount(query, weights=best, minlength=len(r)).astype(np.float64, copy=False)
    return ratio(total, count, undefined=math.nan)


def _best_matches(pairs: TermPairs, k: Cutoff, sim: str, ic: str) -> Values:
    """For each expected term, the largest similarity with a term in the top k; 0 where nothing was returned."""
    best = np.zeros(len(pairs.gold_query))
    top = pairs.rank <= k if k is not None else np.ones(len(pairs.rank), dtype=bool)
    np.maximum.at(best, pairs.expected[top], pairs.similarity[sim, content_name(sim, ic)][top])
    return best


def _largest(size: int, query: np.ndarray, values: Values, which: np.ndarray) -> Values:
    """The largest value of each query; NaN for those without one."""
    out = np.full(size, math.nan)
    np.fmax.at(out, query[which], values[which])
    return out


def _pairs(r: Rankings) -> TermPairs:
    if r.terms is None:
        raise MetricError("this metric needs the terms of an ontology, which these rankings do not hold")
    return r.terms
