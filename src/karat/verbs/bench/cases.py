"""Case files as datasets: the index is labels and synonyms of all terms, and a term ranks by its best entry."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.ontology.load import open_ontology
from karat.read.files import check_path
from karat.read.labels import read_labels
from karat.read.queries import read_queries_of_gold
from karat.verbs.bench.dataset import Dataset
from karat.verbs.bench.labels import LabelFile, index_labels, term_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.ontology.terms import Ontology

ENGLISH = "en"
"""The language of the labels in an ontology's own file."""


def case_files(sources: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The case files that paths name; a folder stands for all of them in it and below it."""
    out: list[str] = []
    for source in [os.fspath(each) for each in sources]:
        if not os.path.isdir(source):
            out.append(check_path(source))
        elif files := sorted(str(path) for path in Path(source).rglob("*.json")):
            out += files
        else:
            raise InputError(f"{source}: holds no case files, expected .json files in it or below it")
    return list(dict.fromkeys(out))


def case_datasets(
    sources: Sequence[str | os.PathLike[str]], ontology: Ontology | str, labels: Sequence[str | os.PathLike[str]] = ()
) -> list[Dataset]:
    """One dataset per case file, called by its language, or by its folder and name where that is not enough.

    The index is labels and synonyms of the ontology; with files of `labels`, theirs in the language of the cases.
    """
    files, terms = case_files(sources), open_ontology(ontology)
    translations = [LabelFile(os.fspath(path), read_labels(os.fspath(path))) for path in labels]
    docs = {} if labels else list_entries(terms)
    languages = {path: _language_of(path) for path in files}
    names = {path: language or Path(path).stem for path, language in languages.items()}
    indexes = {each: index_labels(terms, translations, each) for each in set(languages.values())} if labels else {}
    out = []
    for path, name in names.items():
        unique = name if list(names.values()).count(name) == 1 else f"{name}-{Path(path).stem}"
        dataset = Dataset(unique, path, path, docs, ontology=terms, entries=True)
        if labels:
            index = indexes[languages[path]]
            notes = index.describe(terms, dataset.qrels.docs, path)
            dataset = replace(dataset, docs=index.entries, notes=notes)
        out.append(dataset)
    return out


def _language_of(path: str) -> str | None:
    """The language of a case file, of which a file holds one at most."""
    table = read_queries_of_gold(path)
    if table is None:
        raise InputError(f"{path}: is not a case file, expected a list of cases with text and expected_ids")
    return next(iter(map(str, table.field("language").values())), None)


def list_entries(ontology: Ontology) -> dict[str, dict[str, str]]:
    """Label and synonyms of each term as docs of their own, each text of a term once."""
    out: dict[str, dict[str, str]] = {}
    for term, name, synonyms in zip(ontology.ids, ontology.names, ontology.synonyms, strict=True):
        out |= term_entries(term, (name, *synonyms), ENGLISH)
    return out
