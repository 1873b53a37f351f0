"""Case files as datasets: the index is labels and synonyms of all terms, and a term ranks by its best entry."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from karat.errors import InputError, shown
from karat.model.policy import SEPARATOR
from karat.ontology.load import open_ontology
from karat.ontology.terms import NO_TERM, Ontology, Resolution
from karat.read.files import check_path
from karat.read.queries import read_queries_of_gold
from karat.read.term_labels import Label, read_labels
from karat.records import dataclass
from karat.verbs.bench.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Answer


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


Entries = dict[str, dict[str, str]]
"""The fields of each entry by its id, which begins with that of its term."""


@dataclass(frozen=True)
class LabelFile:
    """The labels of one file."""

    path: str
    labels: Sequence[Label]

    @property
    def languages(self) -> dict[str | None, None]:
        """The languages that it states, in its order; None for labels without one."""
        return dict.fromkeys(label.language for label in self.labels)


@dataclass(frozen=True)
class LabelIndex:
    """The entries in one language, and what the ids of their labels mean in the ontology."""

    language: str | None
    entries: Entries
    terms: frozenset[int]
    """The numbers of the terms that have a label."""
    ids: Resolution

    def describe(self, ontology: Ontology, expected: Iterable[str], cases: str) -> tuple[str, ...]:
        """How much of the ontology has a label, ids that name no term, and expected terms that cannot be found.

        Labels that miss every expected term are an error: no system could find anything.
        """
        where = f" in {self.language}" if self.language else ""
        resolution = ontology.resolve(dict.fromkeys(expected))
        known = [term for term in resolution.term.tolist() if term != NO_TERM]
        without = [ontology.ids[term] for term in dict.fromkeys(known) if term not in self.terms]
        count = len(dict.fromkeys(known))
        if count and len(without) == count:
            raise InputError(
                f"{cases}: none of its {count:,} expected terms has a label{where} ({shown(without[0])}), so nothing "
                "can be found; name a file that has their labels, or leave --labels out to search in English"
            )
        notes = [f"index: {len(self.terms):,} of {len(ontology):,} terms have a label{where}"]
        if problem := self.ids.describe(ontology.release):
            notes.append(f"labels ({len(self.ids.ids):,} ids): {problem}")
        if without:
            some = ", ".join(without[:3]) + (", …" if len(without) > 3 else "")
            share = f"{len(without):,} of {count:,} expected terms"
            notes.append(f"{share} have no label{where}, so no system can find them ({some})")
        return tuple(notes)


def index_labels(ontology: Ontology, files: Sequence[LabelFile], language: str | None) -> LabelIndex:
    """The entries of all labels in a language; a file that states none has that of the cases."""
    labels = [label for file in files for label in file.labels if label.language in (language, None)]
    stated = list(dict.fromkeys(name for file in files for name in file.languages if name is not None))
    if language is None and len(stated) == 1:
        return index_labels(ontology, files, stated[0])
    paths = ", ".join(file.path for file in files)
    if not labels:
        cases = f"cases in {language}" if language else "cases that state no language"
        raise InputError(
            f"{paths}: has labels in {', '.join(stated)}, but there are {cases}; name a file of their language"
        )
    ids = ontology.resolve(dict.fromkeys(label.term for label in labels))
    if all(term == NO_TERM for term in ids.term.tolist()):
        raise InputError(
            f"{paths}: none of its {len(ids.ids):,} ids is a term of {ontology.release} ({shown(ids.ids[0])}); "
            "check the ids, and that the ontology is theirs"
        )
    number: Mapping[str, int] = dict(zip(ids.ids, ids.term.tolist(), strict=True))
    texts: dict[int, list[str]] = {}
    for label in labels:
        if number[label.term] != NO_TERM:
            texts.setdefault(number[label.term], []).append(label.text)
    entries: Entries = {}
    for term, names in texts.items():
        entries |= term_entries(ontology.ids[term], names, language or "")
    return LabelIndex(language, entries, frozenset(texts), ids)


def term_entries(term: str, texts: Iterable[str], language: str) -> Entries:
    """The names of a term as docs of their own, each text once; the first is its label."""
    unique: dict[str, str] = {}
    for text in texts:
        if text.strip():
            unique.setdefault(text.casefold(), text)
    return {
        f"{term}{SEPARATOR}{f'synonym-{number}' if number else 'label'}": {"text": text, "language": language}
        for number, text in enumerate(unique.values())
    }


def entries_to_ask(corpus: Corpus, k: int) -> int:
    """So many entries are sure to hold k terms, however many entries a term has."""
    counts: dict[str, int] = {}
    for each in corpus.ids:
        counts[corpus.parent(each)] = counts.get(corpus.parent(each), 0) + 1
    return min(len(corpus), sum(sorted(counts.values(), reverse=True)[: k - 1]) + 1)


def collapse(answer: Answer, corpus: Corpus) -> Answer:
    """The answer with terms in place of entries: each at the rank and with the score of its best entry."""
    rows: dict[str, int] = {}
    for row, each in enumerate(answer.ids):
        rows.setdefault(corpus.parent(each), row)
    scores = None if answer.scores is None else [answer.scores[row] for row in rows.values()]
    stages = {name: list(dict.fromkeys(map(corpus.parent, ids))) for name, ids in answer.stages.items()}
    return replace(answer, ids=list(rows), scores=scores, stages=stages)
