"""The case files that ship with Karat: sizes, coverage, and texts that are neither labels nor repetitions."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path

import jsonschema
import pytest

import karat
from karat.model.policy import RELEVANT
from karat.ontology.domains import domains_of
from karat.ontology.load import load_ontology
from karat.ontology.terms import Ontology
from karat.read.cases import CATEGORIES, DIFFICULTIES, LANGUAGES, Case, case_schema, read_cases
from karat.read.files import InputFile, read_head
from karat.read.problems import Problems
from karat.verbs.validate.overlap import fold, near_groups

CASES = Path(karat.__file__).parent / "example" / "cases"
FILES = {f"{path.parent.name}/{path.stem.removesuffix('_v1')}": path for path in sorted(CASES.glob("*/*.json"))}
SIZES = {"tiny": 9, "small": 50, "standard": 200}
NOTES = {"Q209", "T705"}
"""Small segments and few cases: true of these files, and meant to be."""
COPIES = ("exact_match", "synonym")
"""Categories whose texts may be a label or a synonym."""

each_file = pytest.mark.parametrize("name", FILES)


@cache
def hpo() -> Ontology:
    return load_ontology("hpo")


@cache
def cases_of(name: str) -> list[Case]:
    path = str(FILES[name])
    return read_cases(InputFile(path, read_head(path)), Problems(path))


def field(name: str, case: Case) -> str:
    assert case.fields is not None
    return case.fields[name]


def entries_of(term: str) -> list[str]:
    number = hpo().number_of(term)
    return [fold(text) for text in (hpo().names[number], *hpo().synonyms[number])]


def test_two_languages_have_standard_files_three_have_small_ones_and_all_have_tiny_ones() -> None:
    sizes = {"standard": ("de", "en"), "small": ("es", "fr", "nl"), "tiny": LANGUAGES}
    assert set(FILES) == {f"{language}/{size}" for size, languages in sizes.items() for language in languages}


@each_file
def test_case_files_pass_the_checks_of_schema_and_ontology(name: str) -> None:
    jsonschema.validate(json.loads(FILES[name].read_text("utf-8")), case_schema())
    findings = karat.validate(files=FILES[name], ontology="hpo").findings
    assert not [finding for finding in findings if finding.code not in NOTES]


@each_file
def test_categories_are_of_one_size_and_difficulties_of_three(name: str) -> None:
    size = SIZES[name.partition("/")[2]]
    cases = cases_of(name)
    assert len(cases) == size
    categories = Counter(field("category", case) for case in cases)
    assert set(categories) == set(CATEGORIES)
    assert set(categories.values()) == ({size // 5} if size > 9 else {1, 2})
    difficulties = Counter(field("difficulty", case) for case in cases)
    assert set(difficulties) == set(DIFFICULTIES)
    assert min(difficulties.values()) >= size // 4


@each_file
def test_the_domain_of_a_case_is_the_organ_system_of_its_first_term(name: str) -> None:
    cases = cases_of(name)
    systems = domains_of(hpo(), [next(iter(case.expected)) for case in cases])
    assert [field("domain", case) for case in cases] == [systems[next(iter(case.expected))] for case in cases]
    least = {"tiny": 5, "small": 16, "standard": 18}[name.partition("/")[2]]
    assert len(set(systems.values())) >= least


@each_file
def test_the_first_term_of_a_case_has_the_highest_grade(name: str) -> None:
    for case in cases_of(name):
        grades = list(case.expected.values())
        assert grades == sorted(grades, reverse=True)
        assert grades[-1] >= RELEVANT


def first_terms(language: str) -> list[str]:
    names = [name for name in FILES if name.startswith(language)]
    return [next(iter(case.expected)) for name in names for case in cases_of(name)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_case_of_a_language_is_about_another_term_in_other_words(language: str) -> None:
    assert max(Counter(first_terms(language)).values()) == 1
    texts = [fold(case.text) for name in FILES if name.startswith(language) for case in cases_of(name)]
    assert near_groups(texts) == ([], True)
    openings = Counter(" ".join(text.split()[:2]) for text in texts if text.count(" ") >= 2)
    assert max(openings.values()) <= 2  # no text is a template for others


def test_languages_are_about_different_terms() -> None:
    for one, other in combinations(LANGUAGES, 2):
        assert len(set(first_terms(one)) & set(first_terms(other))) <= 2


@each_file
def test_only_two_categories_copy_labels_and_synonyms(name: str) -> None:
    entries = {fold(text) for names in (hpo().names, *hpo().synonyms) for text in names}
    for case in cases_of(name):
        category, text = field("category", case), fold(case.text)
        if category in COPIES:
            continue
        assert text not in entries, case
        mine = [entry for term in case.expected for entry in entries_of(term)]
        if category == "abbreviation":  # the abbreviation itself may be a synonym
            mine = [entry for entry in mine if " " in entry]
        assert not [entry for entry in mine if f" {entry} " in f" {text} "], case


def test_exact_matches_in_english_are_labels() -> None:
    for case in cases_of("en/standard"):
        if field("category", case) == "exact_match":
            assert fold(case.text) == entries_of(next(iter(case.expected)))[0]


def test_keyword_search_finds_labels_best_then_synonyms_then_the_rest(tmp_path: Path) -> None:
    bench = karat.bench(
        cases=FILES["en/standard"], ontology="hpo", retrievers=["bm25"], metrics=["hit@1"], k=10, out=str(tmp_path)
    )
    hits = bench["en"].result.runs[0].per_query("hit@1")
    by_category: dict[str, list[float]] = {}
    for case in cases_of("en/standard"):
        by_category.setdefault(field("category", case), []).append(hits[case.id])
    rate = {category: sum(values) / len(values) for category, values in by_category.items()}
    assert rate["exact_match"] > rate["synonym"] + 0.1
    assert rate["synonym"] > rate["abbreviation"] + 0.1
    assert rate["synonym"] > 2 * max(rate["layperson"], rate["complex"])
