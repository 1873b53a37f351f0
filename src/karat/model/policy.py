"""Conventions: every choice that tools make differently when a run meets its gold, and those that `--like` takes;
`is_relevant`: which grades are relevant; `parent_of`: chunk → doc (of columns: `align/columns.py`); the rule of ties,
which `align/` applies.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypedDict, overload

from karat.model.option import Option, OptionGroup, option, options_of
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from karat.model.ranked_docs import RankedDocs

    Grades = NDArray[np.float64]
    Mask = NDArray[np.bool_]

Precision = Literal["float64", "float32"]
Level = Literal["auto", "chunk", "doc"]
DuplicateRule = Literal["first", "error"]
AbsenceRule = Literal["zero", "skip"]
ChunkCredit = Literal["first", "all"]

RELEVANT: float = 1
"""The lowest grade of a relevant doc, unless a metric's name sets another (`rel=2`).

An integer, since the fingerprints of metrics hold it.
"""
SEPARATOR = "#"
"""What divides a chunk id into its doc and the rest, unless the user names another separator."""


@overload
def is_relevant(grade: Grades, rel: float = RELEVANT) -> Mask: ...
@overload
def is_relevant(grade: float, rel: float = RELEVANT) -> bool: ...
def is_relevant(grade: Grades | float, rel: float = RELEVANT) -> Mask | bool:
    """Whether a doc of this grade is relevant."""
    return grade >= rel


@overload
def earns_gain(grade: Grades) -> Mask: ...
@overload
def earns_gain(grade: float) -> bool: ...
def earns_gain(grade: Grades | float) -> Mask | bool:
    """Whether a doc of this grade adds to graded metrics; a fraction below the relevant grades does."""
    return grade > 0


@overload
def is_judged(grade: Grades) -> Mask: ...
@overload
def is_judged(grade: float) -> bool: ...
def is_judged(grade: Grades | float) -> Mask | bool:
    """Whether a grade is a judgment; a negative one says that the doc was pooled and not judged."""
    return grade >= 0


def binarize(grades: Grades, _: bool = True) -> Grades:
    """Grades as 1 for relevant and 0 for not relevant; what is not a judgment stays as it is."""
    import numpy as np

    return np.where(is_judged(grades), is_relevant(grades).astype(np.float64), grades)


def parent_of(chunk_id: str, separator: str, parents: Mapping[str, str] | None = None) -> str:
    """The doc that a chunk belongs to: as `parents` says, else the part of its id before the separator.

    Without a separator ids name whole docs.
    """
    parent = parents.get(chunk_id) if parents else None
    return parent or (chunk_id.partition(separator)[0] if separator else chunk_id)


def with_judgment(docs: RankedDocs, _: bool) -> Mask:
    """The docs that have a judgment."""
    return docs.judged


def other_than_query(docs: RankedDocs, _: bool) -> Mask:
    """The docs whose id is not the query's."""
    return ~docs.doc_id.equals(docs.query_id)


class PolicyOptions(TypedDict, total=False):
    """The fields of `Policy`, as type checkers see keyword arguments."""

    score_precision: Precision | None
    duplicates: DuplicateRule | None
    missing: AbsenceRule | None
    empty_gold: AbsenceRule | None
    level: Level | None
    chunk_credit: ChunkCredit | None
    separator: str | None
    stage: str | None
    as_of_filter: bool | None
    condensed: bool | None
    ignore_self: bool | None
    binary: bool | None


@dataclass(frozen=True, slots=True)
class Policy(OptionGroup):
    """How a run is aligned with its gold.

    The rule of ties is no choice: the order is always by score, descending, then by doc id, descending in byte order.
    `align/columns.py` and `align/lists.py` apply it, the other aligners give the same. A field and its entry in
    `PolicyOptions` make a convention a keyword argument, a flag and a key of karat.yaml. Its function says what it
    does: `selects` picks the docs of a list that count (called in the order of the fields, by `select_docs` alone),
    `regrades` changes grades. The other fields are about queries, chunks and the choice of a list.
    """

    PANEL: ClassVar[str] = "Conventions"
    BLOCK: ClassVar[str] = "conventions"

    score_precision: Precision = option(
        "float64", "Precision of scores; trec_eval 9 rounds to float32, so that more docs tie."
    )
    duplicates: DuplicateRule = option("first", "A doc returned twice for a query: count its best rank, or fail.")
    missing: AbsenceRule = option("zero", "A query that the run lacks: score it as an empty result, or leave it out.")
    empty_gold: AbsenceRule = option("zero", "A query without relevant docs: score it 0, or leave it out.")
    level: Level = option("auto", "Match gold ids with chunks or with the docs they belong to.")
    chunk_credit: ChunkCredit = option(
        "first", "If the gold names docs: credit a doc's first chunk alone, or later ones in precision too."
    )
    separator: str = option(
        SEPARATOR,
        "What divides a chunk id into its doc and the rest; '' if ids name whole docs.",
        metavar="TEXT",
        least=0,
    )
    stage: str | None = option(None, "Evaluate this stage of a run log instead of its final list.", metavar="NAME")
    as_of_filter: bool = option(False, "Drop items whose doc_version is later than the query's as_of.")
    condensed: bool = option(
        False, "Drop docs without a judgment before ranks are counted.", selects=with_judgment, by_gold=True
    )
    ignore_self: bool = option(False, "Drop docs whose id is the query's id.", selects=other_than_query)
    binary: bool = option(
        False, "Make grades binary: 1 and above count as 1, lower ones as 0; negative ones stay.", regrades=binarize
    )

    def comparable(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores in the precision of comparisons: unchanged, or rounded to 32 bits (infinite beyond their range)."""
        import numpy as np  # the command line reads these declarations before it needs arrays

        if self.score_precision == "float64":
            return scores
        with np.errstate(over="ignore"):
            return scores.astype(np.float32).astype(np.float64)

    def changes(self) -> list[tuple[Option, Any]]:
        """The conventions that differ from their defaults, with their values."""
        return list(_changes(self))

    def selections(self, *, by_gold: bool) -> list[tuple[Callable[[RankedDocs, Any], Any], Any]]:
        """The functions that select docs, with their values: those that look at judgments, or the others."""
        return [(each.selects, value) for each, value in self.changes() if each.selects and each.by_gold == by_gold]

    @property
    def selects(self) -> bool:
        """Whether some docs of a list may not count, or count in another order."""
        return any(each.selects for each, _ in _changes(self))

    @property
    def selects_by_gold(self) -> bool:
        """Whether judgments say which docs count."""
        return any(each.by_gold for each, _ in self.changes())

    def without_gold(self) -> Self:
        """The policy for lists without gold: conventions that look at judgments have their defaults."""
        return replace(self, **{each.name: each.default for each, _ in self.changes() if each.by_gold})

    def regrade(self, grades: Grades) -> Grades:
        """The grades that count."""
        for each, value in self.changes():
            if each.regrades:
                grades = each.regrades(grades, value)
        return grades


@lru_cache(maxsize=16)  # asked several times for each run
def _changes(policy: Policy) -> tuple[tuple[Option, Any], ...]:
    values = ((each, getattr(policy, each.name)) for each in options_of(type(policy)))
    return tuple((each, value) for each, value in values if value != each.default)


def regrading_conventions() -> tuple[str, ...]:
    """The names of the conventions that change grades."""
    return tuple(each.name for each in options_of(Policy) if each.regrades)


# What `--like` changes in conventions; what it changes in names of metrics is in `metrics/spellings.py`.
PRESETS: dict[str, PolicyOptions] = {
    # Scores as 32-bit floats; means over the queries that both gold and run have (no -c).
    "trec_eval": {"score_precision": "float32", "missing": "skip", "level": "chunk"},
    # Runs through pytrec_eval; a query that the run lacks scores 0.
    "ir_measures": {"score_precision": "float32", "missing": "zero", "level": "chunk"},
    "ranx": {"score_precision": "float64", "missing": "zero", "level": "chunk"},
    # pytrec_eval on the queries of both, with docs dropped whose id is the query's.
    "beir": {"score_precision": "float32", "missing": "skip", "ignore_self": True, "level": "chunk"},
}


def policy(like: str | None = None, base: Policy | None = None, **choices: Any) -> Policy:
    """The defaults (or `base`), changed by the preset of another tool, then by these choices."""
    changes = {name: value for name, value in choices.items() if value is not None}
    return replace(base or Policy(), **{**PRESETS.get(like or "", {}), **changes})
