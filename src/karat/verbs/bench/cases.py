"""Case files as datasets: the index is labels and synonyms of all terms, and a term ranks by its best entry."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.model.policy import SEPARATOR
from karat.ontology.load import open_ontology
from karat.read.files import check_path
from karat.read.queries import read_queries_of_gold
from karat.verbs.bench.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.ontology.terms import Ontology


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


def case_datasets(sources: Sequence[str | os.PathLike[str]], ontology: Ontology | str) -> list[Dataset]:
    """One dataset per case file, called by its language, or by its folder and name where that is not enough."""
    files, terms = case_files(sources), open_ontology(ontology)
    docs = list_entries(terms)
    names: dict[str, str] = {}
    for path in files:
        table = read_queries_of_gold(path)
        if table is None:
            raise InputError(f"{path}: is not a case file, expected a list of cases with text and expected_ids")
        languages = list(dict.fromkeys(map(str, table.field("language").values())))
        names[path] = languages[0] if languages else Path(path).stem
    labels = list(names.values())
    return [
        Dataset(
            label if labels.count(label) == 1 else f"{label}-{Path(path).stem}",
            path,
            path,
            docs,
            ontology=terms,
            entries=True,
        )
        for path, label in names.items()
    ]


def list_entries(ontology: Ontology) -> dict[str, dict[str, str]]:
    """Label and synonyms of each term as docs of their own, each text of a term once."""
    out: dict[str, dict[str, str]] = {}
    for term, name, synonyms in zip(ontology.ids, ontology.names, ontology.synonyms, strict=True):
        texts = {text.casefold(): text for text in (*reversed(synonyms), name) if text.strip()}
        for number, text in enumerate(reversed(texts.values())):
            entry = f"synonym-{number}" if number else "label"
            out[f"{term}{SEPARATOR}{entry}"] = {"text": text, "language": "en"}
    return out
