"""Checks of case files against an ontology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.errors import InputError, MissingPackage
from karat.read.cases import PUBLISHABLE, read_cases
from karat.read.files import InputFile, read_head
from karat.read.formats import recognise_format
from karat.verbs.validate.findings import list_some, make_finding, many
from karat.verbs.validate.languages import check_languages
from karat.verbs.validate.overlap import fold, words_of
from karat.verbs.validate.tables import place
from karat.verbs.validate.tolerant import FileProblems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.ontology.terms import Ontology
    from karat.read.cases import Case
    from karat.verbs.validate.findings import LintFinding

_STEM = 4
"""Letters that two words share at their beginning where they are forms of one: seizure, seizures."""


def holds_cases(path: str) -> bool:
    """Whether a file of gold is one of cases, which are queries too."""
    head = read_head(path)
    return bool(head) and recognise_format(InputFile(path, head), "qrels").holds_queries


def check_cases(path: str, ontology: str | None) -> Iterator[LintFinding]:
    """All checks of one case file; what cannot be read in it is said elsewhere."""
    try:
        cases = read_cases(InputFile(path, read_head(path)), FileProblems(path))
    except InputError:
        return
    terms = _ontology_of(cases, ontology)
    if terms is None:
        yield make_finding("T704", path, "no ontology is named that has the expected ids", [path])
    else:
        yield from _check_ids(path, cases, terms, named=ontology is not None)
        yield from _check_descriptions(path, cases, terms)
    yield from check_languages(path, cases)
    if len(cases) < PUBLISHABLE:
        text = f"{many(len(cases), 'case')}, fewer than the {PUBLISHABLE} that a publication needs"
        yield make_finding("T705", path, text, [path])


def ontology_of_cases(path: str) -> Ontology | None:
    """The ontology that the expected ids of a case file are checked with where none is named."""
    return _ontology_of(read_cases(InputFile(path, read_head(path)), FileProblems(path)), None)


def _ontology_of(cases: list[Case], name: str | None) -> Ontology | None:
    """The ontology that was named; without one, HPO for its ids where the package with its data is installed."""
    from karat.ontology.load import HPO, load_ontology

    if name is not None:
        return load_ontology(name)
    try:
        of_hpo = any(each.startswith("HP:") for case in cases for each in case.expected)
        return load_ontology(HPO) if of_hpo else None
    except MissingPackage:
        return None


def _check_ids(path: str, cases: list[Case], ontology: Ontology, *, named: bool) -> Iterator[LintFinding]:
    lines: dict[str, int] = {}
    for case in cases:
        for each in case.expected:
            lines.setdefault(each, case.line)
    resolution = ontology.resolve(lines)
    if named and resolution.unknown == len(lines):
        ids = list_some(list(lines))
        message = (
            f"{ontology.release} knows none of the expected ids ({len(lines):,}): {ids}; it may not be their ontology"
        )
        yield make_finding("T706", path, message, [place(path, line) for line in lines.values()], len(lines))
        return
    kinds = {
        "T701": (("unknown",), f"unknown, or newer than {ontology.release}"),
        "T702": (
            ("obsolete", "replaced", "alternative", "spelling"),
            f"obsolete, alternative or in another spelling in {ontology.release}",
        ),
    }
    for code, (statuses, text) in kinds.items():
        mine = [each for each, status in zip(resolution.ids, resolution.status, strict=True) if status in statuses]
        if mine:
            current = dict(zip(resolution.ids, resolution.term.tolist(), strict=True))
            names = [each + (f" (now {ontology.ids[n]})" if (n := current[each]) >= 0 else "") for each in mine]
            message = f"{many(len(mine), 'expected id is', 'expected ids are')} {text}: {list_some(names)}"
            yield make_finding(code, path, message, [place(path, lines[each]) for each in mine], len(mine))


def _check_descriptions(path: str, cases: list[Case], ontology: Ontology) -> Iterator[LintFinding]:
    """Descriptions without a word of an expected term; only the cases that have one, in English, can be checked."""
    unlike: list[tuple[Case, str]] = []
    for case in cases:
        resolution = ontology.resolve(case.expected)
        stems = _stems(case.description)
        for each, term in zip(resolution.ids, resolution.term.tolist(), strict=True):
            if stems and term >= 0:
                name = ontology.names[term]
                words = _stems(" ".join((name, *ontology.synonyms[term])))
                is_named = fold(name) in fold(case.description)  # by short words alone, such as "Cat cry"
                if stems.isdisjoint(words) and not is_named:
                    unlike.append((case, f"{each} {name!r} for {case.description!r}"))
    if unlike:
        many_terms = many(len(unlike), "expected term shares", "expected terms share")
        message = f"{many_terms} no word with the description of the case: {list_some([text for _, text in unlike])}"
        yield make_finding("T703", path, message, [place(path, case.line) for case, _ in unlike], len(unlike))


def _stems(text: str) -> set[str]:
    """The beginnings of the words of a text; short words say nothing."""
    return {word[:_STEM] for word in words_of(fold(text)) if len(word) >= _STEM and word not in ("with", "from")}
