"""The domain of a term: the branch of the ontology that it belongs to, such as an organ system in HPO."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.ontology.terms import Ontology

DOMAIN = "domain"
"""The field of a query that names the domain of its expected term."""

BRANCHING = ("HP:0000118",)
"""Terms whose children are the domains, where an ontology has one: Phenotypic abnormality. Otherwise its roots are."""


def domains_of(ontology: Ontology, ids: Iterable[str]) -> dict[str, str]:
    """The name of the nearest branch above each id that names a term; of several as near, the first by number.

    An id on the way to the branches, or in none of them, has no domain.
    """
    known = [ontology.known[each][0] for each in BRANCHING if each in ontology.known]
    tops = np.array(known, dtype=np.int64) if known else np.flatnonzero(ontology.depth == 0)
    branches = np.isin(ontology.parents.other, tops)
    is_branch = np.zeros(len(ontology), dtype=bool)
    is_branch[np.repeat(np.arange(len(ontology)), ontology.parents.counts)[branches]] = True
    above, out = ontology.ancestors, {}
    resolution = ontology.resolve(dict.fromkeys(ids))
    for each, term in zip(resolution.ids, resolution.term.tolist(), strict=True):
        rows = slice(above.start[term], above.start[term + 1])
        mine = np.flatnonzero(is_branch[above.other[rows]]) if term >= 0 else np.zeros(0, dtype=np.int64)
        if len(mine):
            nearest = mine[np.argmin(above.steps[rows][mine])]
            out[each] = ontology.names[above.other[rows][nearest]]
    return out


def with_domains(queries: Queries, gold: Qrels, ontology: Ontology) -> Queries:
    """The queries; one that names no domain takes that of its first expected term."""
    first = {q: next(iter(gold.for_query(q))) for q in gold.query_ids}
    domains = domains_of(ontology, first.values())
    fields = {
        q: {DOMAIN: domains.get(first.get(q, "")), **{n: v for n, v in own.items() if v is not None}}
        for q, own in queries.fields.items()
    }
    return replace(queries, fields=fields)
