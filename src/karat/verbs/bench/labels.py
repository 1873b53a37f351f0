"""The index of a benchmark of terms: entries of terms, from labels in the language of the cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.errors import InputError, shown
from karat.model.policy import SEPARATOR
from karat.ontology.terms import NO_TERM
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.ontology.terms import Ontology, Resolution
    from karat.read.labels import Label

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
