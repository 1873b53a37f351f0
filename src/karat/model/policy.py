"""Every choice that could differ between tools when a run meets its gold, in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import numpy as np

from karat.errors import UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Grades = NDArray[np.float64]
    Mask = NDArray[np.bool_]

Precision = Literal["float64", "float32"]
Level = Literal["auto", "chunk", "doc"]

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


def binarize(grades: Grades) -> Grades:
    """Grades as 1 for relevant and 0 for not relevant; what is not a judgment stays as it is."""
    return np.where(is_judged(grades), is_relevant(grades).astype(np.float64), grades)


def parent_of(chunk_id: str, separator: str, parents: Mapping[str, str] | None = None) -> str:
    """The doc that a chunk belongs to: as `parents` says, else the part of its id before the separator."""
    return (parents.get(chunk_id) if parents else None) or chunk_id.partition(separator)[0]


@dataclass(frozen=True, slots=True)
class Policy:
    """How a run is lined up with its gold.

    The order is always by falling score, then by falling doc id in byte order.
    """

    score_precision: Precision = "float64"
    """float32 rounds scores first, as trec_eval 9 and pytrec_eval do: more docs tie."""
    duplicates: Literal["first", "error"] = "first"
    """A doc returned twice for a query: its best place counts and the rest are dropped, or an error."""
    missing: Literal["zero", "skip"] = "zero"
    """A query of the gold that the run lacks scores as an empty result, or is left out."""
    empty_gold: Literal["zero", "skip"] = "zero"
    """A query without any relevant doc scores 0, or is left out."""
    level: Level = "auto"
    """Whether gold ids are matched with the run's chunks or with the docs they belong to."""
    chunk_credit: Literal["first", "all"] = "first"
    """Doc-level gold: only a doc's first chunk earns its grade, or later ones count for precision too."""
    separator: str = SEPARATOR
    """What divides a chunk id into its doc and the rest."""
    stage: str | None = None
    """Evaluate this stage of a run log instead of its final list."""
    as_of_filter: bool = False
    """Drop items whose doc_version is later than the query's as_of."""
    condensed: bool = False
    """Drop docs without a judgment before ranks are given."""
    ignore_self: bool = False
    """Drop docs whose id is the query's id."""
    binary: bool = False
    """Grades from 1 on count as 1, lower ones as 0; a negative grade stays one."""

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"{name} must be one of {', '.join(allowed)}, found {value!r}")
        if not self.separator:
            raise UsageError(f"separator must be at least one character, such as {SEPARATOR!r}")

    def compared(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores as they are compared: as they are, or rounded to 32 bits (beyond their range, infinite)."""
        if self.score_precision == "float64":
            return scores
        with np.errstate(over="ignore"):
            return scores.astype(np.float32).astype(np.float64)

    def told(self) -> dict[str, Any]:
        """The choices that differ from the defaults: what a report must name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}


_CHOICES: dict[str, tuple[str, ...]] = {
    "score_precision": get_args(Precision),
    "duplicates": ("first", "error"),
    "missing": ("zero", "skip"),
    "empty_gold": ("zero", "skip"),
    "level": get_args(Level),
    "chunk_credit": ("first", "all"),
}

PRESETS: dict[str, dict[str, Any]] = {
    # Scores as 32-bit floats; means over the queries that both gold and run have (no -c).
    "trec_eval": {"score_precision": "float32", "missing": "skip", "level": "chunk"},
    # Runs through pytrec_eval; a query that the run lacks scores 0.
    "ir_measures": {"score_precision": "float32", "missing": "zero", "level": "chunk"},
    "ranx": {"score_precision": "float64", "missing": "zero", "level": "chunk"},
    # pytrec_eval on the queries of both, with docs dropped whose id is the query's.
    "beir": {"score_precision": "float32", "missing": "skip", "ignore_self": True, "level": "chunk"},
}


def policy(like: str | None = None, **choices: Any) -> Policy:
    """The defaults, changed by the preset of another tool, changed by what was asked for."""
    if like is not None and (not isinstance(like, str) or like not in PRESETS):
        near = nearest(str(like), PRESETS)
        hint = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"like must be one of {', '.join(PRESETS)}, found {like!r}{hint}")
    known = {f.name for f in fields(Policy)}
    for name in choices:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(sorted(known))}"
            raise UsageError(f"unknown option {name!r}; {hint}")
    asked = {name: value for name, value in choices.items() if value is not None}
    return replace(Policy(), **{**PRESETS.get(like or "", {}), **asked})
