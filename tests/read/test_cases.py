"""Case files: both forms, their queries and gold, languages, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import karat
from karat.errors import InputError
from karat.read.cases import case_schema
from karat.report.view import view_of
from places import SHARED

CASE = {"text": "Krampfanfall", "expected_ids": ["HP:0001250"]}
FULL = {
    "case_id": "de-1",
    "text": "Kleinwuchs",
    "description": "Short stature",
    "expected_ids": {"HP:0004322": 2, "HP:0001510": 1},
    "difficulty": "easy",
    "category": "synonym",
    "domain": "Growth",
}


def write(path: Path, content: Any) -> str:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(content, indent=1), "utf-8")
    return str(path)


def test_the_form_with_metadata(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", {"metadata": {"language": "de"}, "test_cases": [FULL, CASE]})
    gold, queries = karat.read_qrels(path), karat.read_queries(path)
    assert gold.for_query("de-1") == {"HP:0004322": 2.0, "HP:0001510": 1.0}
    assert gold.for_query("2") == {"HP:0001250": 1.0}  # without an id: its number
    assert queries.fields["de-1"] == {
        "text": "Kleinwuchs",
        "difficulty": "easy",
        "category": "synonym",
        "domain": "Growth",
        "language": "de",
    }
    assert "Short stature" not in str(queries.fields)  # it would give the label away


def test_the_plain_list_with_the_names_of_hpo(tmp_path: Path) -> None:
    cases = [{"text": "Anfall", "expected_hpo_ids": ["HP:0001250"], "hpo_domain": "Nerves", "description": "Seizure"}]
    path = write(tmp_path / "german" / "tiny_v1.json", cases)
    assert karat.read_qrels(path).for_query("1") == {"HP:0001250": 1.0}
    assert karat.read_queries(path).fields["1"] == {"text": "Anfall", "domain": "Nerves", "language": "de"}


def test_evaluate_takes_texts_and_segments_from_the_cases(tmp_path: Path) -> None:
    cases = [{**CASE, "case_id": f"c{i}", "category": "synonym" if i % 2 else "layperson"} for i in range(12)]
    path = write(tmp_path / "de" / "small_v1.json", cases)
    run = {f"c{i}": ["HP:0001250" if i % 2 else "HP:0002069", "HP:0004322"] for i in range(12)}
    result = karat.evaluate(path, run, ontology="hpo", by="category,language", min_segment=2)
    assert result.mean["hit@1"] == 0.5
    assert {s.by["category"]: s.metrics["hit@1"].estimate for s in result.segments if "category" in s.by} == {
        "synonym": 1.0,
        "layperson": 0.0,
    }
    assert "map(norm=min)@10" in result.metrics and "max_ont_sim@10" in result.metrics
    assert result.mean["max_ont_sim@1"] == pytest.approx((1 + 0.7805) / 2, abs=5e-5)
    assert result.counts["cases"] == 12


def test_few_cases_are_not_for_publication_and_say_what_they_can_detect(tmp_path: Path) -> None:
    path = write(tmp_path / "de" / "small_v1.json", [{**CASE, "case_id": f"c{i}"} for i in range(12)])
    half = {f"c{i}": ["HP:0001250" if i % 2 else "HP:0002069"] for i in range(12)}
    third = {f"c{i}": ["HP:0001250" if i % 3 else "HP:0002069"] for i in range(12)}
    note = "12 cases, not for publication: at least 200 are needed"
    # Six values are 1 and six are 0: their deviation is √(12 · .25 / 11) = .5222.
    least = karat.power(deviation=math.sqrt(3 / 11), n=12)["smallest_detectable"]
    result = karat.evaluate(path, half, "hit@1")
    assert f"{note}; they can tell hit@1 from a target that is {least:.3f} away" in result.notes
    comparison = karat.compare(path, {"half": half, "third": third}, "hit@1,mrr")
    row = comparison["hit@1"]
    assert comparison.notes[-1] == (
        f"12 cases can detect a difference of {row.detectable:.4f} in hit@1 (third against half)"
    )
    assert [r.text for r in view_of(comparison).remarks if r.serious] == [note]
    saved = tmp_path / "result.json"
    comparison.save(str(saved))
    assert [r.text for r in view_of(karat.load(str(saved))).remarks if r.serious] == [note]


def test_cases_that_can_detect_nothing_say_so(tmp_path: Path) -> None:
    path = write(tmp_path / "de" / "tiny_v1.json", [{**CASE, "case_id": f"c{i}"} for i in range(3)])
    mine, other = ({f"c{i}": ["HP:0001250" if i == found else "HP:0002069"] for i in range(3)} for found in (0, 1))
    result = karat.evaluate(path, mine, "hit@1")
    assert any("they can tell hit@1 from no target, however far away" in note for note in result.notes)
    comparison = karat.compare(path, {"mine": mine, "other": other}, "hit@1")
    assert comparison["hit@1"].detectable > 1
    assert comparison.notes[-1] == "3 cases can detect no difference in hit@1, however large (other against mine)"
    assert "3 can detect no difference, however large" in comparison["hit@1"].statement


def test_hpo_may_be_written_in_capitals(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", [CASE])
    assert karat.evaluate(path, {"1": ["HP:0002069"]}, "max_ont_sim@1", ontology="HPO").mean["max_ont_sim@1"] > 0.5
    write(tmp_path / "run.json", {"1": ["HP:0001250"]})
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: c.json, ontology: HPO}\nruns: [run.json]\ngates: ['max_ont_sim@1 >= 0.5 at the mean']\n"
    )
    assert karat.check(str(tmp_path / "karat.yaml")).verdict == "SHIP"


def test_two_hundred_cases_need_no_note(tmp_path: Path) -> None:
    path = write(tmp_path / "de" / "standard_v1.json", [{**CASE, "case_id": f"c{i}"} for i in range(200)])
    result = karat.evaluate(path, {f"c{i}": ["HP:0001250" if i % 2 else "HP:0002069"] for i in range(200)}, "hit@1")
    assert not [note for note in result.notes if "publication" in note]


def test_cases_without_a_domain_take_the_organ_system(tmp_path: Path) -> None:
    cases = [CASE, {"text": "klein", "expected_ids": ["HP:0004322"]}, {**FULL, "domain": "Own"}]
    path = write(tmp_path / "c.json", cases)
    run = {"1": ["HP:0001250"], "2": ["HP:0001250"], "de-1": ["HP:0004322"]}
    result = karat.evaluate(path, run, "hit@1", ontology="hpo", by="domain", min_segment=1)
    assert {s.by["domain"] for s in result.segments} == {
        "Abnormality of the nervous system",
        "Growth abnormality",
        "Own",
    }


def test_a_config_names_cases_as_gold(tmp_path: Path) -> None:
    write(tmp_path / "de" / "c.json", [{**CASE, "case_id": f"c{i}"} for i in range(20)])
    write(tmp_path / "run.json", {f"c{i}": ["HP:0001250"] for i in range(20)})
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: de/c.json}\nruns: [run.json]\ngates: ['hit@1 >= 0.5 for every language']\n"
    )
    assert karat.check(str(tmp_path / "karat.yaml")).verdict == "SHIP"


BAD: list[tuple[Any, str]] = [
    ([{**CASE, "text": " "}], r'c\.json:2: case "1": text must not be empty'),
    ([CASE, {"text": "x", "expected_ids": []}], r'c\.json:8: case "2": expected_ids must hold at least one id'),
    ([{"text": "x", "expected_hpo_ids": ["HP:12"]}], r'an id of HPO is HP: and seven digits, found "HP:12"'),
    ([{**CASE, "expected_ids": {"HP:0001250": 0}}], r"the grade of HP:0001250 must be a number above 0, found 0"),
    (
        [{"text": "x"}, CASE],
        r'case "1": expected_ids is missing; expected the ids of its terms, such as \["HP:0001250"\]',
    ),
    ([{**CASE, "expected_ids": "HP:0001250"}], r'expected_ids must be a list of ids, .* found "HP:0001250"'),
    ([{**CASE, "category": "synonyms"}], r"category must be one of .*; did you mean .synonym.\?"),
    ([{**CASE, "difficulty": "trivial"}], r'difficulty must be one of easy, medium, hard, found "trivial"'),
    ({"metadata": {"language": "german2"}, "test_cases": [CASE]}, r"metadata\.language must be one of de, en, fr, es"),
    (
        {"test_cases": {"expected_ids": 1}},
        r"c\.json: expected \{metadata, test_cases: \[case, …\]\} or a list of cases",
    ),
    (["expected_ids", 3], r'c\.json:2: case 1: expected an object with text and expected_ids, found "expected_ids"'),
]


def test_expected_ids_may_stand_in_both_fields_where_they_agree(tmp_path: Path) -> None:
    case = {**CASE, "expected_hpo_ids": {"HP:0001250": 1}}
    assert karat.read_qrels(write(tmp_path / "c.json", [case])).for_query("1") == {"HP:0001250": 1}
    path = write(tmp_path / "c.json", [{**CASE, "expected_hpo_ids": ["HP:0004322"]}])
    with pytest.raises(InputError, match=r"found expected_ids .* and expected_hpo_ids .*, which differ; remove one"):
        karat.read_qrels(path)


@pytest.mark.parametrize(("content", "message"), BAD)
def test_bad_cases_are_errors_with_their_line(content: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", content)
    with pytest.raises(InputError, match=message):
        karat.read_qrels(path, format="cases")


def test_duplicate_ids_and_mixed_languages_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", [{**CASE, "case_id": "a"}, {**CASE, "case_id": "a"}])
    with pytest.raises(InputError, match=r'c\.json:9: case "a" already appears at line 2; expected each once'):
        karat.read_qrels(path)
    cases = [{**CASE, "language": "de"}, {**CASE, "language": "en"}]
    path = write(tmp_path / "c.json", {"metadata": {"language": "de"}, "test_cases": cases})
    with pytest.raises(InputError, match=r'case "2": language "en" in a file of de; expected one language per file'):
        karat.read_qrels(path)
    path = write(tmp_path / "en" / "c.json", {"metadata": {"language": "de"}, "test_cases": cases[:1]})
    with pytest.raises(InputError, match=r"metadata\.language is de, but the folder is that of en"):
        karat.read_qrels(path)


def test_a_file_that_breaks_off_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('[\n{"text": "a", "expected_ids": ["HP:0001250"]},\n{"text": ')
    with pytest.raises(InputError, match=r"c\.json:3: "):
        karat.read_qrels(str(path))


def test_the_schema_refuses_what_the_reader_refuses() -> None:
    schema = jsonschema.Draft202012Validator(case_schema())
    for content in ([CASE, FULL], {"metadata": {"language": "de"}, "test_cases": [FULL]}):
        assert schema.is_valid(content)
    for content, _ in BAD:
        assert not schema.is_valid(content), content


@pytest.mark.skipif(not (SHARED / "hpo-german").is_dir(), reason="needs ../shared/data/hpo-german")
@pytest.mark.parametrize(
    ("name", "size", "unknown"), [("tiny_v1", 9, 0), ("70cases_o3_v1", 70, 0), ("200cases_o3_v1", 200, 2)]
)
def test_the_german_cases_of_the_shared_data_run(name: str, size: int, unknown: int) -> None:
    path = SHARED / "hpo-german" / f"{name}.json"
    jsonschema.validate(json.loads(path.read_text("utf-8")), case_schema())
    gold = karat.read_qrels(path)
    assert len(gold) == size
    run = {q: ["HP:0001250"] for q in gold.query_ids}
    result = karat.evaluate(path, run, "max_ont_sim@1,mrr", ontology="hpo")
    notes = [note for note in result.notes if note.startswith(f"max_ont_sim: over {size - unknown} of {size} queries")]
    assert len(notes) == (1 if unknown else 0)


def test_validate_warns_of_wrong_gold_in_the_german_cases_of_the_shared_data() -> None:
    if not (SHARED / "hpo-german").is_dir():
        pytest.skip("needs ../shared/data/hpo-german")
    warnings = {
        name: [
            (f.code, f.count) for f in karat.validate(SHARED / "hpo-german" / name).findings if f.severity == "warning"
        ]
        for name in ("tiny_v1.json", "70cases_o3_v1.json", "200cases_o3_v1.json")
    }
    # "Epilepsie mit Anfällen" is not ataxia, and a Down syndrome not an abnormality of the ear.
    assert warnings == {"tiny_v1.json": [("T703", 2)], "70cases_o3_v1.json": [], "200cases_o3_v1.json": [("T701", 2)]}
