"""Similarities of terms: hand-worked values, brute force on random graphs, and what holds for all of HPO."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from karat.errors import InputError, UsageError
from karat.ontology.information import InformationContent, structural_content
from karat.ontology.load import load_content, load_ontology
from karat.ontology.similarity import SIMILARITIES, similarities
from karat.ontology.terms import Ontology

#       R
#      / \
#     A   B          A and B are R; C is A; D is A and B; E is C and D; F is B
#    / \ / \         depth: R 0, A B 1, C D F 2, E 3; leaves: E and F
#   C   D   F
#    \ /
#     E
EDGES = {"R": "", "A": "R", "B": "R", "C": "A", "D": "AB", "E": "CD", "F": "B"}


def write_obo(path: Path, edges: dict[str, str] | dict[str, list[str]], head: str = "data-version: t/1") -> str:
    terms = "".join(
        f"\n[Term]\nid: {term}\nname: {term.lower()}\n" + "".join(f"is_a: {p} ! a parent\n" for p in parents)
        for term, parents in edges.items()
    )
    path.write_text(f"format-version: 1.2\n{head}\n{terms}", "utf-8")
    return str(path)


@pytest.fixture
def small(tmp_path: Path) -> Ontology:
    return load_ontology(write_obo(tmp_path / "small.obo", EDGES))


@pytest.fixture(scope="module")
def hpo() -> Ontology:
    return load_ontology("hpo")


def of_pair(ontology: Ontology, one: str, other: str, content: InformationContent | None = None) -> dict[str, float]:
    a, b = (np.array([ontology.number_of(t)]) for t in (one, other))
    values = similarities(ontology, content or structural_content(ontology), list(SIMILARITIES), a, b)
    return {name: float(value[0]) for name, value in values.items()}


def test_depth_is_the_longest_path(small: Ontology) -> None:
    assert {t: int(small.depth[small.number_of(t)]) for t in EDGES} == dict(
        zip("RABCDEF", (0, 1, 1, 2, 2, 3, 2), strict=True)
    )


def test_structural_information_content_of_sanchez(small: Ontology) -> None:
    # −log((leaves / ancestors + 1) / 3), the term itself counted in both: R 2/1, A 1/2, B 2/2, C 1/3, D 1/4, E 1/6.
    content = structural_content(small).values
    expected = dict(zip("RABCDEF", (1, 2, 3 / 2, 9 / 4, 12 / 5, 18 / 7, 9 / 4), strict=True))
    assert {t: content[small.number_of(t)] for t in EDGES} == pytest.approx(
        {t: math.log(v) for t, v in expected.items()}
    )


def test_hand_worked_values_of_siblings(small: Ontology) -> None:
    # C and D meet in A: IC log 2, depth 1, two edges; IC log 2.25 and log 2.4, depth 2 each.
    assert of_pair(small, "C", "D") == pytest.approx(
        {
            "lin": 2 * math.log(2) / (math.log(2.25) + math.log(2.4)),  # .8220
            "resnik": math.log(2) / math.log(2.4),  # .7917
            "jiang_conrath": 1 / (1 + math.log(2.25) + math.log(2.4) - 2 * math.log(2)),  # .7692
            "wu_palmer": 2 * 1 / (2 + 2),
            "path": 1 / (1 + 2),
            "hybrid": 0.7 * 1 / 2 + 0.3 * (1 - 2 / 4),
        }
    )


def test_the_shortest_way_may_take_another_parent(small: Ontology) -> None:
    # E reaches B by D: E–D–B–F, 3 edges. IC of B is log 1.5; depths 3 and 2.
    values = of_pair(small, "E", "F")
    assert values["path"] == 1 / 4
    assert values["lin"] == pytest.approx(2 * math.log(1.5) / (math.log(18 / 7) + math.log(2.25)))
    assert values["hybrid"] == pytest.approx(0.7 * 1 / 3 + 0.3 * (1 - 3 / 5))


def test_terms_that_share_the_root_alone_are_similar_by_paths_only(small: Ontology) -> None:
    values = of_pair(small, "C", "F")
    assert [values[n] for n in ("lin", "resnik", "wu_palmer", "hybrid")] == [0, 0, 0, 0]
    assert values["path"] == 1 / 5
    assert values["jiang_conrath"] == pytest.approx(1 / (1 + 2 * math.log(2.25)))


def test_a_root_with_itself_is_one(small: Ontology) -> None:
    assert set(of_pair(small, "R", "R").values()) == {1.0}


def random_edges(seed: int) -> dict[str, list[str]]:
    """A graph with several roots, and terms with up to three parents, in any order in the file."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(5, 40))
    names = [f"T:{i}" for i in rng.permutation(size)]
    edges = {
        name: [] if i < 3 else [names[j] for j in set(rng.integers(0, i, rng.integers(0, 4)).tolist())]
        for i, name in enumerate(names)
    }
    return {name: edges[name] for name in sorted(edges)}


def brute_force(edges: dict[str, list[str]], one: str, other: str) -> dict[str, float]:
    def ways(term: str) -> Iterator[tuple[str, int]]:
        yield term, 0
        for parent in edges[term]:
            yield from ((t, n + 1) for t, n in ways(parent))

    def above(term: str) -> dict[str, int]:
        best: dict[str, int] = {}
        for t, n in ways(term):
            best[t] = min(n, best.get(t, n))
        return best

    def depth(term: str) -> int:
        return max((depth(p) + 1 for p in edges[term]), default=0)

    leaves = set(edges) - {p for parents in edges.values() for p in parents}

    def content(term: str) -> float:
        under = sum(term in above(leaf) for leaf in leaves)
        return -math.log((under / len(above(term)) + 1) / (len(leaves) + 1))

    a, b = above(one), above(other)
    common = set(a) & set(b)
    if one == other:
        return dict.fromkeys(SIMILARITIES, 1.0)
    ic = max((content(t) for t in common), default=0.0)
    deepest = max((depth(t) for t in common), default=0)
    steps = min((a[t] + b[t] for t in common), default=math.inf)
    ics, depths = (content(one), content(other)), (depth(one), depth(other))
    return {
        "lin": 2 * ic / sum(ics) if sum(ics) else 0.0,
        "resnik": ic / max(ics) if max(ics) else 0.0,
        "jiang_conrath": 1 / (1 + sum(ics) - 2 * ic),
        "wu_palmer": 2 * deepest / sum(depths) if sum(depths) else 0.0,
        "path": 1 / (1 + steps),
        "hybrid": 0.7 * deepest / max(depths) + 0.3 * (1 - steps / sum(depths)) if common else 0.0,
    }


@pytest.mark.parametrize("way", ["by pair", "by term", "by term, in order"])
@pytest.mark.parametrize("seed", range(6))
def test_brute_force_on_random_graphs(seed: int, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.ontology.similarity._DENSE", 10**9 if way == "by pair" else 0)
    monkeypatch.setattr("karat.ontology.similarity._BLOCK", 7)
    edges = random_edges(seed)
    ontology = load_ontology(write_obo(tmp_path / "random.obo", edges))
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, len(ontology), (2, 60))
    if way == "by term, in order":
        one, other = np.repeat([1, 4, 9], len(ontology)), np.tile(np.arange(len(ontology)), 3)
    values = similarities(ontology, structural_content(ontology), list(SIMILARITIES), one, other)
    for i, (a, b) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        expected = brute_force(edges, ontology.ids[a], ontology.ids[b])
        assert {n: v[i] for n, v in values.items()} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ic", ["sanchez", "omim"])
def test_every_term_of_hpo_is_one_with_itself(ic: str, hpo: Ontology) -> None:
    terms = np.arange(len(hpo))
    for name, values in similarities(hpo, load_content(hpo, ic), list(SIMILARITIES), terms, terms).items():
        assert (values == 1.0).all(), name


@pytest.mark.parametrize("ic", ["sanchez", "omim"])
def test_similarities_of_hpo_are_symmetric_and_from_0_to_1(ic: str, hpo: Ontology) -> None:
    one, other = np.random.default_rng(1).integers(0, len(hpo), (2, 100_000))
    content = load_content(hpo, ic)
    there = similarities(hpo, content, list(SIMILARITIES), one, other)
    back = similarities(hpo, content, list(SIMILARITIES), other, one)
    for name in SIMILARITIES:
        assert there[name].min() >= 0 and there[name].max() <= 1, name
        assert np.array_equal(there[name], back[name]), name
        assert 0 < there[name].mean() < 0.5, name


def test_no_term_says_less_than_its_ancestors_or_is_less_deep(hpo: Ontology) -> None:
    above = hpo.ancestors
    for ic in ("sanchez", "omim"):
        content = load_content(hpo, ic).values
        assert (content[above.other] <= content[above.owner]).all(), ic
    assert (hpo.depth[above.other] <= hpo.depth[above.owner]).all()


def test_terms_of_hpo_without_annotations_take_the_structural_value(hpo: Ontology) -> None:
    content = load_content(hpo, "omim")
    assert content.without.sum() == 7_906
    assert content.values[hpo.number_of("HP:0000001")] == 0.0
    assert 0 < content.values[hpo.number_of("HP:0001250")] < content.values[hpo.number_of("HP:0002069")]


def test_seizures_as_other_packages_measure_them(hpo: Ontology) -> None:
    # Seizure and bilateral tonic-clonic seizure: pyhpo and hpo3 with OMIM, nxontology with Sánchez.
    omim = of_pair(hpo, "HP:0001250", "HP:0002069", load_content(hpo, "omim"))
    assert omim["lin"] == pytest.approx(0.6391, abs=5e-5)
    assert omim["jiang_conrath"] == pytest.approx(0.3667, abs=5e-5)
    sanchez = of_pair(hpo, "HP:0001250", "HP:0002069")
    assert sanchez["lin"] == pytest.approx(0.7805, abs=5e-5)
    assert sanchez["jiang_conrath"] == pytest.approx(0.2363, abs=5e-5)


def test_annotations_are_read_from_the_folder_of_the_file(tmp_path: Path) -> None:
    ontology = load_ontology(write_obo(tmp_path / "small.obo", EDGES))
    with pytest.raises(UsageError, match=r"ic=omim needs .*phenotype\.hpoa in the folder of .*small\.obo"):
        load_content(ontology, "omim")
    rows = [("OMIM:1", "", "C"), ("OMIM:1", "NOT", "F"), ("OMIM:2", "", "D"), ("ORPHA:3", "", "F"), ("OMIM:4", "", "X")]
    head = "#version: 1\ndatabase_id\tdisease_name\tqualifier\thpo_id\treference\n"
    (tmp_path / "phenotype.hpoa").write_text(head + "".join(f"{d}\tn\t{q}\t{t}\tr\n" for d, q, t in rows), "utf-8")
    content = load_content(ontology, "omim")
    # Two diseases: C has one, D has one, A both, B one (by D), R both; E and F none.
    values = {t: content.values[ontology.number_of(t)] for t in EDGES}
    assert [values[t] for t in "RABCD"] == pytest.approx([0, 0, math.log(2), math.log(2), math.log(2)])
    assert values["E"] == pytest.approx(math.log(18 / 7))
    assert values["F"] == pytest.approx(math.log(2.25))
    assert content.without.sum() == 2


def test_a_term_without_annotations_says_no_less_than_its_ancestors(tmp_path: Path) -> None:
    ontology = load_ontology(write_obo(tmp_path / "small.obo", EDGES))
    head = "database_id\tdisease_name\tqualifier\thpo_id\n"
    rows = "".join(f"OMIM:{i}\tn\t\tA\n" for i in range(99)) + "OMIM:99\tn\t\tD\n"
    (tmp_path / "phenotype.hpoa").write_text(head + rows, "utf-8")
    content = load_content(ontology, "omim").values
    assert content[ontology.number_of("D")] == pytest.approx(math.log(100))
    assert content[ontology.number_of("E")] == pytest.approx(math.log(100))  # its structural value is log(18/7)


def test_a_broken_annotation_file_is_an_error_with_its_line(tmp_path: Path) -> None:
    ontology = load_ontology(write_obo(tmp_path / "small.obo", EDGES))
    path = tmp_path / "phenotype.hpoa"
    path.write_text("#version: 1\ngene\tterm\n", "utf-8")
    with pytest.raises(InputError, match=r"phenotype\.hpoa:2: expected the columns of phenotype\.hpoa \(database_id\)"):
        load_content(ontology, "omim")
    path.write_text("database_id\tdisease_name\tqualifier\thpo_id\nOMIM:1\tname\n", "utf-8")
    with pytest.raises(InputError, match=r"phenotype\.hpoa:2: expected 4 columns, found 2"):
        load_content(ontology, "omim")
