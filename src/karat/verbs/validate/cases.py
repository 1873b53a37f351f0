"""Checks of case files: against an ontology, and whether texts are in the language that their file states."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from karat.errors import InputError, MissingPackage
from karat.read.cases import LANGUAGES, PUBLISHABLE, Case, read_cases
from karat.read.files import InputFile, read_head
from karat.read.formats import recognise_format
from karat.records import dataclass
from karat.verbs.validate.findings import LintFinding, list_some, make_finding, many
from karat.verbs.validate.overlap import fold, words_of
from karat.verbs.validate.tables import place
from karat.verbs.validate.tolerant import FileProblems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karat.ontology.terms import Ontology


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


_CASES = Path(__file__).parents[2] / "example" / "cases"
_LETTERS = 3
_SMOOTHING = 0.5
CERTAIN = 25.0
"""The log-likelihood by which a text, or all texts of a file, must favour another language. Latin names are alike in
all: of 874 texts in five languages that the profiles had not seen, the largest for a wrong language was 19.5. The right
one is ahead by about 10 for each text of a file."""


@dataclass(frozen=True)
class _Profile:
    """How often groups of letters occur in a language."""

    counts: Mapping[str, int]
    total: int
    groups: int

    def likelihood(self, text: str) -> float:
        """The log-likelihood of a text."""
        rest = self.total + _SMOOTHING * self.groups
        return sum(math.log((self.counts.get(g, 0) + _SMOOTHING) / rest) for g in _groups(text))


def check_languages(path: str, cases: Sequence[Case]) -> Iterator[LintFinding]:
    """A file whose texts are in another language than it states, or some of whose texts surely are."""
    language = next((case.fields["language"] for case in cases if case.fields and "language" in case.fields), None)
    if language is None:
        return
    values = [{code: one.likelihood(case.text) for code, one in _profiles().items()} for case in cases]
    totals = {code: math.fsum(each[code] for each in values) for code in LANGUAGES}
    best = max(totals, key=totals.__getitem__)
    most = sum(each[best] > each[language] for each in values) > len(cases) / 2  # one long text does not make a file
    if most and totals[best] - totals[language] > CERTAIN:
        text = f"the texts look like {best}, but the file states {language}: {list_some([c.text for c in cases])}"
        yield make_finding("T707", path, text, [path], len(cases))
        return
    others = [case for case, each in zip(cases, values, strict=True) if max(each.values()) - each[language] > CERTAIN]
    if others:
        text = f"{many(len(others), 'text looks', 'texts look')} like another language than {language}"
        message = f"{text}: {list_some([case.text for case in others])}"
        yield make_finding("T707", path, message, [place(path, case.line) for case in others], len(others))


@cache
def _profiles() -> dict[str, _Profile]:
    """A profile of each language, from the cases that ship with Karat."""
    counts = {code: Counter[str]() for code in LANGUAGES}
    for code, mine in counts.items():
        for path in sorted(map(str, (_CASES / code).glob("*.json"))):
            for case in read_cases(InputFile(path, read_head(path)), FileProblems(path)):
                mine.update(_groups(case.text))
    groups = len(set().union(*counts.values()))
    return {code: _Profile(mine, mine.total(), groups) for code, mine in counts.items()}


def _groups(text: str) -> list[str]:
    """Groups of letters, with the ends of words."""
    words = " ".join("".join(c if c.isalpha() else " " for c in fold(text)).split())
    line = f" {words} "
    return [line[i : i + _LETTERS] for i in range(len(line) - _LETTERS + 1)]
