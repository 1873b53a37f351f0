"""An ontology as arrays: terms by number, their ancestors and how far these are, and every id that names a term."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from karat.errors import MAX_PROBLEMS, InputError, Problem, nearest, shown
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.ontology.obo import OboFile, Stanza

    Numbers = NDArray[np.int64]

IdStatus = Literal["term", "spelling", "alternative", "replaced", "obsolete", "unknown"]
"""A live term; one in another spelling (`hp:0001250`, `HP_0001250`, its IRI); an alternative id of one; obsolete, and
replaced by one; obsolete without a replacement; not known."""
STATUSES: tuple[IdStatus, ...] = get_args(IdStatus)
NO_TERM = -1
"""The number of an id that names no live term."""
WIDEST, WIDE = 16, 4
"""At most so many terms are looked at as columns over all terms, each with at least one in so many terms below it."""
EXAMPLES = 5
"""Ids that a note names."""


@dataclass(frozen=True)
class Relatives:
    """Terms related to each term: those of term t are `other[start[t]:start[t + 1]]`, `steps` edges away at least."""

    start: Numbers
    other: Numbers
    steps: Numbers

    @property
    def counts(self) -> Numbers:
        """How many relatives each term has."""
        return np.diff(self.start)

    @property
    def owner(self) -> Numbers:
        """The term whose relative each row is."""
        return np.repeat(np.arange(len(self.start) - 1), self.counts)

    def rows_of(self, terms: Numbers) -> Numbers:
        """The rows of these terms, one term after the other."""
        counts = self.counts[terms]
        ends = np.cumsum(counts)
        return np.arange(ends[-1] if len(ends) else 0) + np.repeat(self.start[terms] - ends + counts, counts)


@dataclass(frozen=True)
class Spread:
    """A term that has many descendants, as columns over all terms: which are below it, and how far (else infinite)."""

    below: NDArray[np.bool_]
    steps: NDArray[np.float64]


@dataclass(frozen=True)
class Resolution:
    """What ids mean in a release: the number of the term that each names (`NO_TERM` for none), and how it does."""

    ids: Sequence[str]
    term: Numbers
    status: Sequence[IdStatus]

    @property
    def counts(self) -> Mapping[IdStatus, int]:
        """How many ids have each status."""
        return Counter(self.status)

    @property
    def resolved(self) -> int:
        """How many ids name a live term otherwise than by its own id."""
        return sum(self.counts[status] for status in ("spelling", "alternative", "replaced"))

    @property
    def is_known(self) -> list[bool]:
        """Which ids the release knows, obsolete ones included."""
        return [status != "unknown" for status in self.status]

    @property
    def unknown(self) -> int:
        """How many ids the release does not know."""
        return self.counts["unknown"]

    def describe(self, release: str) -> str:
        """What a reader must know of these ids; empty where all of them are live terms."""
        words = {
            "spelling": "in another spelling",
            "alternative": "by an alternative id",
            "replaced": "obsolete and replaced",
            "obsolete": "obsolete without a replacement",
            "unknown": f"unknown, or newer than {release}",
        }
        some = []
        for status, text in words.items():
            mine = [i for i, each in zip(self.ids, self.status, strict=True) if each == status]
            if mine:
                names = ", ".join(mine[:EXAMPLES]) + (", …" if len(mine) > EXAMPLES else "")
                some.append(f"{len(mine):,} {text} ({names})")
        return ", ".join(some)


@dataclass(frozen=True, eq=False)
class Ontology:
    """The live terms of a release, numbered by depth: an ancestor has a smaller number than its descendants.

    `depth` is the longest path from a root, so that no ancestor of a term is deeper than it. `ancestors` include the
    term itself and are sorted by number.
    """

    source: str
    path: str
    release: str
    """As the file names it, or its fingerprint."""
    fingerprint: str
    """Of the file's bytes, unpacked."""
    ids: tuple[str, ...]
    names: tuple[str, ...]
    synonyms: tuple[tuple[str, ...], ...]
    depth: Numbers
    parents: Relatives
    ancestors: Relatives
    obsolete: int
    """How many terms are obsolete, and no terms here."""
    known: Mapping[str, tuple[int, IdStatus]]
    """Every id of the file: the number of its term, and how it names it."""

    def __len__(self) -> int:
        return len(self.ids)

    def resolve(self, ids: Iterable[str]) -> Resolution:
        """What ids mean in this release."""
        names = tuple(ids)
        pairs = [self.known.get(each) or self._respell(each) for each in names]
        return Resolution(names, np.array([n for n, _ in pairs], dtype=np.int64), tuple(s for _, s in pairs))

    def _respell(self, term_id: str) -> tuple[int, IdStatus]:
        """What an id means that the file does not hold as it is written: in lower case, with _ for :, as an IRI."""
        local = re.split("[/#]", term_id.strip())[-1].replace("_", ":", 1)
        number, status = self.known.get(self._spellings.get(local.casefold(), ""), (NO_TERM, "unknown"))
        return number, "spelling" if status == "term" else status

    @cached_property
    def _spellings(self) -> Mapping[str, str]:
        """Every id of the file by its letters alone, whatever their case."""
        return {each.casefold(): each for each in self.known}

    def number_of(self, term_id: str) -> int:
        """The number of the term that an id names; one that names none is an error."""
        number = int(self.resolve((term_id,)).term[0])
        if number == NO_TERM:
            near = nearest(term_id, self.known)
            hint = f"; did you mean {near}?" if near else ""
            raise InputError(f"{self.source}: {shown(term_id)} is unknown, or newer than {self.release}{hint}")
        return number

    def labels(self) -> dict[str, dict[str, str]]:
        """The label of each term as the text of a doc."""
        return {term: {"text": name} for term, name in zip(self.ids, self.names, strict=True)}

    @cached_property
    def descendants(self) -> Relatives:
        """The descendants of each term, itself included."""
        order = np.argsort(self.ancestors.other.astype(np.min_scalar_type(len(self))), kind="stable")
        return Relatives(
            _starts(np.bincount(self.ancestors.other, minlength=len(self))),
            self.ancestors.owner[order],
            self.ancestors.steps[order],
        )

    @cached_property
    def ancestor_keys(self) -> Numbers:
        """Each term with each of its ancestors as one number, ascending: term × number of terms + ancestor."""
        return self.ancestors.owner * len(self) + self.ancestors.other

    @cached_property
    def widest(self) -> Mapping[int, Spread]:
        """The few terms with so many descendants that looking at all terms at once is faster than looking them up."""
        counts, below = self.descendants.counts, self.descendants
        most = np.argsort(-counts, kind="stable")[:WIDEST]
        out = {}
        for term in most[counts[most] * WIDE >= len(self)].tolist():
            rows = slice(below.start[term], below.start[term + 1])
            steps = np.full(len(self), np.inf)
            steps[below.other[rows]] = below.steps[rows]
            out[term] = Spread(np.isfinite(steps), steps)
        return out

    @cached_property
    def leaves(self) -> NDArray[np.bool_]:
        """Which terms have no children."""
        leaf = np.ones(len(self), dtype=bool)
        leaf[self.parents.other] = False
        return leaf


def build_ontology(obo: OboFile, *, path: str, fingerprint: str) -> Ontology:
    """The terms of a file as arrays; ids that appear twice, unknown parents and circles are errors with their line."""
    live = [stanza for stanza in obo.stanzas if not stanza.obsolete]
    if not live:
        raise InputError(
            f"{obo.source}: all of its {len(obo.stanzas):,} terms are obsolete, expected some that are not"
        )
    child, parent = _edges(obo, live)
    depth = _depths(len(live), child, parent)
    if (depth < 0).any():
        raise InputError(_describe_circle(obo.source, live, depth, child, parent))
    order = np.argsort(depth, kind="stable")
    number = np.empty(len(live), dtype=np.int64)
    number[order] = np.arange(len(live))
    terms = [live[i] for i in order.tolist()]
    edge = np.argsort(number[child], kind="stable")
    parents = Relatives(
        _starts(np.bincount(number[child], minlength=len(live))),
        number[parent][edge],
        np.ones(len(edge), dtype=np.int64),
    )
    return Ontology(
        obo.source,
        path,
        obo.release or f"sha256:{fingerprint}",
        fingerprint,
        tuple(each.id for each in terms),
        tuple(each.name for each in terms),
        tuple(each.synonyms for each in terms),
        depth[order],
        parents,
        _find_ancestors(parents, depth[order]),
        len(obo.stanzas) - len(live),
        _known_ids(obo, terms),
    )


def _edges(obo: OboFile, live: Sequence[Stanza]) -> tuple[Numbers, Numbers]:
    """Child and parent of every is_a, by their places among the live terms."""
    problems: list[str] = []
    lines: dict[str, int] = {}
    for stanza in obo.stanzas:
        if (before := lines.setdefault(stanza.id, stanza.line)) != stanza.line:
            text = f"term {shown(stanza.id)} appears twice, first in line {before}"
            problems.append(Problem(obo.source, stanza.line, text))
    place = {stanza.id: i for i, stanza in enumerate(live)}
    edges: list[tuple[int, int]] = []
    for i, stanza in enumerate(live):
        for parent, line in stanza.parents:
            if parent in place:
                edges.append((i, place[parent]))
            else:
                what = "is obsolete" if parent in lines else "is not in the file (truncated, or without its imports)"
                text = f"{stanza.id} is_a {shown(parent)}, which {what}; use the full release of the ontology"
                problems.append(Problem(obo.source, line, text))
    if problems:
        raise InputError(problems, more=len(problems) > MAX_PROBLEMS)
    pairs = np.unique(np.array(edges, dtype=np.int64).reshape(-1, 2), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _depths(size: int, child: Numbers, parent: Numbers) -> Numbers:
    """The longest path from a root to each term; −1 for terms on a circle and below one."""
    depth = np.full(size, -1, dtype=np.int64)
    waiting = np.bincount(child, minlength=size)
    order = np.argsort(parent, kind="stable")
    below = Relatives(_starts(np.bincount(parent, minlength=size)), child[order], np.ones(len(child), dtype=np.int64))
    level, ready = 0, np.flatnonzero(waiting == 0)
    while len(ready):
        depth[ready] = level
        children = below.other[below.rows_of(ready)]
        waiting -= np.bincount(children, minlength=size)
        ready = np.unique(children[waiting[children] == 0])
        level += 1
    return depth


def _describe_circle(source: str, live: Sequence[Stanza], depth: Numbers, child: Numbers, parent: Numbers) -> str:
    """One circle of is_a, from a term back to itself, at the line of its first step."""
    inside = {c: p for c, p in zip(child.tolist(), parent.tolist(), strict=True) if depth[c] < 0 and depth[p] < 0}
    walk: dict[int, int] = {}
    term = next(iter(inside))
    while term not in walk:
        walk[term] = len(walk)
        term = inside[term]
    circle = [i for i, place in walk.items() if place >= walk[term]]
    step = inside[circle[0]]
    line = next(line for p, line in live[circle[0]].parents if p == live[step].id)
    names = " is_a ".join(live[i].id for i in [*circle[:EXAMPLES], *([circle[0]] if len(circle) <= EXAMPLES else [])])
    more = " is_a …" if len(circle) > EXAMPLES else ""
    return Problem(source, line, f"terms in a circle: {names}{more}; an ontology must lead from each term to a root")


def _find_ancestors(parents: Relatives, depth: Numbers) -> Relatives:
    """The ancestors of each term, itself included, with the shortest way to each, level by level from the roots.

    All parents of a term are on earlier levels, so its ancestors are itself and those of its parents, a step further:

        C is_a A, C is_a B, B is_a A      A: A 0    B: B 0, A 1    C: C 0, A 1 (not 2, by B), B 1
    """
    size = len(depth)
    bounds = np.searchsorted(depth, np.arange(depth[-1] + 2))
    counts = np.zeros(size, dtype=np.int64)
    other, steps = [], []
    done = Relatives(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        terms = np.arange(first, last)
        edges = parents.rows_of(terms)
        above = done.rows_of(parents.other[edges])
        owner = np.repeat(np.repeat(terms, parents.counts[terms]), done.counts[parents.other[edges]])
        child = np.concatenate((terms, owner))
        ancestor = np.concatenate((terms, done.other[above]))
        step = np.concatenate((np.zeros(len(terms), dtype=np.int64), done.steps[above] + 1))
        order = np.lexsort((step, ancestor, child))
        key = (child * size + ancestor)[order]
        nearest_way = order[np.concatenate(([True], key[1:] != key[:-1]))]
        counts[first:last] = np.bincount(child[nearest_way] - first, minlength=last - first)
        other.append(ancestor[nearest_way])
        steps.append(step[nearest_way])
        done = Relatives(_starts(counts), np.concatenate(other), np.concatenate(steps))
    return done


def _known_ids(obo: OboFile, terms: Sequence[Stanza]) -> dict[str, tuple[int, IdStatus]]:
    """Every id of the file: live terms, their alternative ids, and obsolete ones, which may be alternative ids too.

    An obsolete term that names several replacements was divided: which of them is meant, nobody can say.
    """
    known: dict[str, tuple[int, IdStatus]] = {}
    for i, each in enumerate(terms):
        known.update(dict.fromkeys(each.alt_ids, (i, "alternative")))
    known.update({each.id: (i, "term") for i, each in enumerate(terms)})
    obsolete = {each.id: each for each in obo.stanzas if each.obsolete}
    for start in obsolete.values():
        target, passed = start.id, set[str]()
        while target in obsolete and target not in passed and len(obsolete[target].replaced_by) == 1:
            passed.add(target)
            target = obsolete[target].replaced_by[0]
        number, _ = known.get(target, known.get(start.id, (NO_TERM, "obsolete")))
        known[start.id] = (number, "obsolete" if number == NO_TERM else "replaced")
    return known


def _starts(counts: Numbers) -> Numbers:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
