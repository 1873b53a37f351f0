"""Information content: how much a term says, from the structure of the ontology or from annotations of diseases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, Problem, shown
from karat.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.ontology.terms import Ontology

    Values = NDArray[np.float64]

CONTENTS = ("sanchez", "omim")
"""Where information content comes from: the structure alone, or the diseases of OMIM that have a term."""
_COLUMNS = ("database_id", "qualifier", "hpo_id")


@dataclass(frozen=True)
class InformationContent:
    """The information content of each term; never less than that of an ancestor."""

    name: str
    values: Values
    without: NDArray[np.bool_]
    """Which terms have no annotation, and take the structural value."""
    fingerprint: str = ""
    """Of the annotations that it comes from."""


def structural_content(ontology: Ontology) -> InformationContent:
    """−log((leaves / ancestors + 1) / (all leaves + 1)): Sánchez, Batet and Isern 2011, equation 10.

    Both counts include the term itself, so that a leaf says more than a parent that has no other child.
    """
    ancestors = ontology.ancestors
    below = np.bincount(ancestors.other[ontology.leaves[ancestors.owner]], minlength=len(ontology))
    share = (below / ancestors.counts + 1.0) / (ontology.leaves.sum() + 1.0)
    values = np.abs(np.log(share))  # abs: a root has 0, not −0
    return InformationContent("sanchez", values, np.zeros(len(values), dtype=bool))


def annotation_content(ontology: Ontology, data: bytes, source: str) -> InformationContent:
    """−log(diseases of OMIM with the term or a descendant / all diseases of OMIM), from a file phenotype.hpoa.

    A term that no disease has takes its structural value, but no less than the largest of its ancestors: it says more
    than they do.
    """
    import hashlib

    disease, term = _annotations(ontology, data, source)
    rows = ontology.ancestors.rows_of(term)
    pairs = np.repeat(disease, ontology.ancestors.counts[term]) * len(ontology) + ontology.ancestors.other[rows]
    counts = np.bincount(np.unique(pairs) % len(ontology), minlength=len(ontology))
    without = counts == 0
    values = np.where(without, structural_content(ontology).values, 0.0)
    values[~without] = np.abs(np.log(counts[~without] / (disease.max() + 1)))
    largest = np.maximum.reduceat(values[ontology.ancestors.other], ontology.ancestors.start[:-1])
    return InformationContent(
        "omim", np.where(without, largest, values), without, hashlib.sha256(data).hexdigest()[:12]
    )


def _annotations(ontology: Ontology, data: bytes, source: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The diseases of OMIM, numbered, and their terms; a disease that a row denies a term (NOT) does not have it."""
    lines = data.split(b"\n")
    head = next((i for i, line in enumerate(lines) if line and not line.startswith(b"#")), 0)
    columns = lines[head].decode("utf-8", "replace").rstrip("\r").split("\t")
    if lost := [name for name in _COLUMNS if name not in columns]:
        first = shown(lines[head].decode("utf-8", "replace"))
        raise InputError(
            Problem(source, head + 1, f"expected the columns of phenotype.hpoa ({lost[0]}), found {first}")
        )
    database, qualifier, hpo = (columns.index(name) for name in _COLUMNS)
    numbers: dict[bytes, int] = {}
    pairs: dict[tuple[int, bytes], None] = {}
    for i, line in enumerate(lines[head + 1 :], start=head + 2):
        if not line.startswith(b"OMIM:"):
            continue
        cells = line.split(b"\t", hpo + 2)
        if len(cells) <= hpo:
            raise InputError(Problem(source, i, f"expected {len(columns)} columns, found {len(cells)}"))
        if cells[qualifier] != b"NOT":
            pairs[numbers.setdefault(cells[database], len(numbers)), cells[hpo]] = None
    resolution = ontology.resolve(term.decode("utf-8", "replace") for _, term in pairs)
    known = resolution.term >= 0
    if not known.any():
        raise InputError(f"{source}: no disease of OMIM with a term of {ontology.release}; expected its annotations")
    return np.array([disease for disease, _ in pairs], dtype=np.int64)[known], resolution.term[known]
