"""Benchmarks of case files: entries are searched, terms are ranked, and languages stay apart."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import karat
from command import run_karat
from karat.errors import InputError, UsageError
from karat.retrieve.corpus import read_corpus
from karat.retrieve.protocol import Answer
from karat.verbs.bench.cases import collapse, entries_to_ask, list_entries

OBO = """format-version: 1.2
data-version: test/1

[Term]
id: T:1
name: All

[Term]
id: T:2
name: Seizure
synonym: "seizure" EXACT []
synonym: "Epileptic seizure" EXACT []
synonym: "Seizure attack" EXACT []
is_a: T:1

[Term]
id: T:3
name: Focal seizure
is_a: T:2

[Term]
id: T:4
name: Short stature
synonym: "Small height" EXACT []
is_a: T:1
"""


@pytest.fixture
def obo(tmp_path: Path) -> str:
    (tmp_path / "t.obo").write_text(OBO, "utf-8")
    return str(tmp_path / "t.obo")


def write(path: Path, *cases: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(cases)), "utf-8")
    return path


def test_each_text_of_a_term_is_one_entry(obo: str) -> None:
    from karat.ontology.load import load_ontology

    entries = list_entries(load_ontology(obo))
    assert {key: fields["text"] for key, fields in entries.items() if key.startswith("T:2")} == {
        "T:2#label": "Seizure",
        "T:2#synonym-1": "Epileptic seizure",
        "T:2#synonym-2": "Seizure attack",
    }
    assert len(entries) == 7


def test_a_term_ranks_by_its_best_entry() -> None:
    corpus = read_corpus({f"{t}#{i}": "words" for t, n in (("A", 3), ("B", 1), ("C", 2)) for i in range(n)})
    answer = Answer(["A#1", "A#0", "C#1", "A#2", "B#0", "C#0"], [6, 5, 4, 3, 2, 1], {"first": ["C#0", "C#1", "A#0"]})
    collapsed = collapse(answer, corpus)
    assert (collapsed.ids, collapsed.scores) == (["A", "C", "B"], [6, 4, 2])
    assert collapsed.stages == {"first": ["C", "A"]}
    # Two terms: the first could fill 3 entries, so the 4th is sure to be of another. Three: 3 + 2 + 1.
    assert [entries_to_ask(corpus, k) for k in (1, 2, 3, 9)] == [1, 4, 6, 6]


def test_runs_hold_terms_and_metrics_look_at_the_ontology(obo: str, tmp_path: Path) -> None:
    cases = write(
        tmp_path / "en" / "tiny_v1.json",
        {"text": "epileptic seizure attack", "expected_ids": ["T:3"], "category": "complex"},
        {"text": "height", "expected_ids": ["T:4"], "category": "layperson"},
    )
    out = tmp_path / "runs"
    bench = karat.bench(cases=cases, retrievers=["bm25"], k=2, ontology=obo, out=str(out), cache=False, warmup=0)
    lists = [
        [item["doc_id"] for item in json.loads(line)["topk"]] for line in (out / "bm25.jsonl").read_text().splitlines()
    ]
    assert lists == [["T:2", "T:3"], ["T:4"]]
    result = bench["en"].result.runs[0]
    assert result.per_query("mrr") == {"1": 0.5, "2": 1.0}
    assert result.mean["hit@1"] == 0.5
    assert 0.5 < result.mean["max_ont_sim@1"] < 1.0
    assert "map(norm=min)@10" in result.values


def test_terms_in_the_index_are_found_by_former_ids_too(obo: str, tmp_path: Path) -> None:
    """T:9 is an alternative id of T:2, T:8 is replaced by T:4; T:3 is written with _, and T:7 is no term at all."""
    former = OBO.replace("id: T:2\n", "id: T:2\nalt_id: T:9\n") + (
        "\n[Term]\nid: T:8\nname: obsolete Dwarfism\nis_obsolete: true\nreplaced_by: T:4\n"
    )
    Path(obo).write_text(former, "utf-8")
    expected = {"epileptic seizure": "T:9", "small height": "T:8", "focal seizure": "T_3"}
    cases = [{"text": text, "expected_ids": [term]} for text, term in expected.items()]
    files = [write(tmp_path / "known.json", *cases)]
    files.append(write(tmp_path / "unknown.json", *cases, {"text": "none", "expected_ids": ["T:7"]}))
    bench = karat.bench(cases=files, retrievers=["bm25"], ontology=obo, out=str(tmp_path / "runs"), cache=False)
    assert list(bench["known"].result.runs[0].per_query("hit@1").values()) == [1.0, 1.0, 1.0]
    assert not [note for note in bench["known"].notes if "not in the corpus" in note]
    assert [note for note in bench["unknown"].notes if "not in the corpus" in note] == [
        'gold: 1 of 4 distinct relevant docs are not in the corpus ("T:7"), whose ids look like "T:1". '
        "See: karat validate"
    ]


def test_a_corpus_of_terms_holds_them_by_former_ids_too(obo: str) -> None:
    Path(obo).write_text(OBO.replace("id: T:2\n", "id: T:2\nalt_id: T:9\n"), "utf-8")
    docs = {"T:9#label": "Seizure", "T:4": "Short stature"}
    gold, run = {"q": {"T:2": 1, "T:4": 1, "T:3": 1}}, {"q": ["T:2", "T:4"]}
    (mine,) = karat.evaluate(gold, run, "hit@1", docs=docs, ontology=obo).runs
    assert [note for note in mine.notes if "corpus" in note] == [
        '1 of 3 distinct relevant docs are not in the corpus ("T:3"), whose ids look like "T:2"'
    ]


def test_languages_are_datasets_of_their_own(obo: str, tmp_path: Path) -> None:
    for code, text in (("de", "Krampf"), ("en", "seizure"), ("fr", "seizure")):
        write(tmp_path / "cases" / code / "tiny_v1.json", *({"text": text, "expected_ids": ["T:2"]} for _ in range(3)))
    bench = karat.bench(
        cases=[tmp_path / "cases"], retrievers=["bm25"], ontology=obo, out=str(tmp_path / "runs"), cache=False, warmup=0
    )
    assert [(part.dataset.name, part.result.runs[0].mean["hit@1"]) for part in bench.parts] == [
        ("de", 0.0),
        ("en", 1.0),
        ("fr", 1.0),
    ]
    assert bench.languages is not None and bench.languages.places == ("de", "en", "fr")


def test_files_that_hold_no_cases_are_refused(obo: str, tmp_path: Path) -> None:
    (tmp_path / "gold.json").write_text('{"q": {"d": 1}}')
    with pytest.raises(InputError, match=r"gold\.json: is not a case file"):
        karat.bench(cases=tmp_path / "gold.json", retrievers=["bm25"], ontology=obo)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: holds no case files, expected \.json files in it or below it"):
        karat.bench(cases=[tmp_path / "empty"], retrievers=["bm25"], ontology=obo)


BABELON = (
    "source_language\tsource_value\tsubject_id\tpredicate_id\ttranslation_language\ttranslation_value\ttranslation_status\n"
    "en\tSeizure\tT:2\trdfs:label\tde\tKrampfanfall\tOFFICIAL\n"
    "en\tEpileptic seizure\tT:2\toboInOwl:hasExactSynonym\tde\tEpileptischer Anfall\tCANDIDATE\n"
    "en\tSeizure\tT:2\trdfs:label\tde\tKrampfanfall\tOFFICIAL\n"
    "en\tA seizure is …\tT:2\tIAO:0000115\tde\tKleinwuchs und Kopfschmerz\tOFFICIAL\n"
    "en\tSeizure\tT:2\trdfs:label\tfr\tCrise\tOFFICIAL\n"
    "en\tShort stature\tT:4\trdfs:label\tde\tKleinwuchs\tOFFICIAL\n"
    "en\tFocal seizure\tT:3\trdfs:label\tde\t\tNOT_TRANSLATED\n"
    "en\tNewer\tT:9\trdfs:label\tde\tNeuer Begriff\tOFFICIAL\n"
)


def german(folder: Path) -> Path:
    return write(
        folder / "de" / "tiny_v1.json",
        {"text": "epileptischer anfall", "expected_ids": ["T:2"]},
        {"text": "Kleinwuchs", "expected_ids": ["T:4"]},
        {"text": "fokaler Anfall", "expected_ids": ["T:3"]},
    )


def bench_labels(cases: Path, labels: Any, obo: str, out: Path) -> karat.Bench:
    return karat.bench(
        cases=cases, labels=labels, retrievers=["bm25"], ontology=obo, out=str(out), cache=False, warmup=0
    )


def test_labels_replace_the_index_by_one_in_the_language_of_the_cases(obo: str, tmp_path: Path) -> None:
    (tmp_path / "hp-de.babelon.tsv").write_text(BABELON, "utf-8")
    cases = german(tmp_path)
    part = bench_labels(cases, tmp_path / "hp-de.babelon.tsv", obo, tmp_path / "runs")["de"]
    # Labels and synonyms in German, each once: neither definitions, nor French, nor what is not translated.
    assert {key: str(fields["text"]) for key, fields in part.dataset.docs.items()} == {
        "T:2#label": "Krampfanfall",
        "T:2#synonym-1": "Epileptischer Anfall",
        "T:4#label": "Kleinwuchs",
    }
    assert {fields["language"] for fields in part.dataset.docs.values()} == {"de"}
    assert part.result.runs[0].per_query("hit@1") == {"1": 1.0, "2": 1.0, "3": 0.0}
    assert part.own_notes[:3] == (
        "index: 2 of 4 terms have a label in de",
        "labels (3 ids): 1 unknown, or newer than test/1 (T:9)",
        "1 of 3 expected terms have no label in de, so no system can find them (T:3)",
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.tsv", "T:2\tKrampfanfall\nT:2\tEpileptischer Anfall\nT:4\tKleinwuchs\n"),
        ("labels.csv", 'id,label\nT:2,"Krampfanfall"\nT:2,Epileptischer Anfall\nT:4,Kleinwuchs\n'),
        ("labels.json", '{"T:2": ["Krampfanfall", "Epileptischer Anfall"], "T:4": "Kleinwuchs"}'),
        (
            "labels.jsonl",
            '{"id": "T:2", "labels": ["Krampfanfall", "Epileptischer Anfall"]}\n{"id": "T:4", "label": "Kleinwuchs"}\n',
        ),
    ],
)
def test_labels_may_be_a_text_for_each_id(name: str, text: str, obo: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    part = bench_labels(german(tmp_path), tmp_path / name, obo, tmp_path / "runs")["de"]
    assert [fields["text"] for fields in part.dataset.docs.values()] == [
        "Krampfanfall",
        "Epileptischer Anfall",
        "Kleinwuchs",
    ]
    assert part.result.runs[0].per_query("hit@1") == {"1": 1.0, "2": 1.0, "3": 0.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BABELON.replace("\tde\t", "\tnl\t"), r"has labels in nl, fr, but there are cases in de; name a file of their"),
        ("X:1\tEins\nX:2\tZwei\n", r"none of its 2 ids is a term of test/1 \(.X:1.\); check the ids"),
        ("T:1\tAlles\n", r"tiny_v1\.json: none of its 3 expected terms has a label in de \(.T:2.\), so nothing can be"),
        ("", r"labels\.tsv: is empty, expected a table of labels"),
        ("id\tlabel\nT:2\t\n", r"labels\.tsv:2: the label of .T:2. must be text, found nothing"),
        ("T:2\tKrampf\nT:4\n", r"labels\.tsv:2: found 1 column"),
        ('{"T:2": 7}', r"labels\.tsv: the label of .T:2. must be text, found 7"),
        ('{"T:2": "Krampf",\n', r"labels\.tsv: the JSON breaks off .*expected a JSON object \{id: label\} or"),
        ("[1, 2]", r"labels\.tsv: expected a JSON object \{id: label\} or \{id: \[labels\]\}, found"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(text: str, message: str, obo: str, tmp_path: Path) -> None:
    (tmp_path / "labels.tsv").write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        bench_labels(german(tmp_path), tmp_path / "labels.tsv", obo, tmp_path / "runs")


def test_labels_without_cases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"labels are for benchmarks of cases"):
        karat.bench(tmp_path, labels="labels.tsv")


def two_languages(folder: Path) -> Path:
    """Three German cases that are never found, and nine English ones that always are."""
    write(folder / "cases" / "de" / "tiny_v1.json", *({"text": "Krampf", "expected_ids": ["T:2"]} for _ in range(3)))
    write(folder / "cases" / "en" / "tiny_v1.json", *({"text": "seizure", "expected_ids": ["T:2"]} for _ in range(9)))
    return folder / "cases"


def test_languages_never_enter_one_mean(obo: str, tmp_path: Path) -> None:
    bench = karat.bench(
        cases=[two_languages(tmp_path)],
        retrievers=["bm25", "steep=bm25(k1=2)"],
        ontology=obo,
        out=str(tmp_path / "runs"),
        cache=False,
        warmup=0,
    )
    # Pooled over all 12 cases, each metric of relevance would be 9/12; no document holds such a number.
    document = json.dumps(bench.as_json())
    assert not [text for text in ("0.75,", "0.75}", "0.75]") if text in document]
    with pytest.raises(UsageError, match="2 datasets were run; choose one"):
        _ = bench.result
    assert bench.languages is not None and (bench.languages.metric, bench.languages.by) == ("ndcg@10", "language")
    mrr = next(table for table in bench.over_languages if table.metric == "mrr")
    for row in mrr.rows:
        # Means of 0 and 1: their sample variance is ½.
        assert ([cell.mean for cell in row.cells], row.variance) == ([0.0, 1.0], 0.5)
        assert [cell.n for cell in row.cells] == [3, 9]
        assert math.isnan(row.average)


def test_no_output_pools_languages_of_cases(obo: str, tmp_path: Path) -> None:
    # One case of three found in German, all nine in English: ⅔ is the average of the means, 10/12 the mean of all.
    texts = ("Krampf", "Krampf", "seizure")
    write(tmp_path / "cases" / "de" / "tiny_v1.json", *({"text": t, "expected_ids": ["T:2"]} for t in texts))
    write(tmp_path / "cases" / "en" / "tiny_v1.json", *({"text": "seizure", "expected_ids": ["T:2"]} for _ in range(9)))
    places = [str(tmp_path / name) for name in ("bench.md", "bench.json", "runs")]
    options = ["--ontology", obo, "-r", "bm25", "-r", "steep=bm25(k1=2)", "-m", "hit@1,mrr"]
    done = run_karat(
        "bench",
        "--cases",
        str(tmp_path / "cases"),
        *options,
        "--markdown",
        places[0],
        "--json",
        places[1],
        "-o",
        places[2],
    )
    assert done.returncode == 0, done.stderr
    pages = [path.read_text("utf-8") for path in sorted((tmp_path / "runs").rglob("*.html"))]
    outputs = [done.stdout, *(Path(place).read_text("utf-8") for place in places[:2]), *pages]
    assert len(outputs) == 5 and all("variance" in text for text in outputs[:3])
    for text in outputs[:3]:
        assert "average" not in text
    for text in outputs:
        assert not re.search(r"[^\d]0?\.(667|6667|66666\d+|833|8333|83333\d+)[^\d]", text)


def test_cases_are_sliced_by_what_they_say(obo: str, tmp_path: Path) -> None:
    cases = write(
        tmp_path / "en" / "tiny_v1.json",
        {"text": "seizure", "expected_ids": ["T:2"], "category": "synonym", "difficulty": "easy"},
        {"text": "height", "expected_ids": ["T:4"], "category": "layperson", "difficulty": "easy"},
    )
    bench = bench_labels(cases, None, obo, tmp_path / "runs")
    segments = [dict(segment.by) for segment in bench.result.runs[0].segments]
    # All cases are easy, so difficulty divides nothing; domains come from the ontology.
    assert segments == [
        {"category": "layperson"},
        {"category": "synonym"},
        {"domain": "Seizure"},
        {"domain": "Short stature"},
    ]


def test_several_languages_as_markdown(obo: str, tmp_path: Path) -> None:
    out = tmp_path / "bench.md"
    args = ["bench", "--cases", str(two_languages(tmp_path)), "--ontology", obo, "-r", "bm25", "-r", "steep=bm25(k1=2)"]
    run_karat(*args, "-m", "hit@1,mrr", "-o", str(tmp_path / "runs"), "--markdown", str(out), "--no-html", "-q")
    text = out.read_text("utf-8")
    assert "| bm25 | 0.0000 \\[0.000, 0.708\\] | 1.0000 \\[0.664, 1.000\\] | 0.5000 |" in text
    assert text.count("not for publication: at least 200 are needed") == 2
    assert text.index("## `hit@1` by language") < text.index("## `mrr` by language")


def found_terms(obo: str, folder: Path) -> tuple[Path, Path]:
    """Two cases and a run log, in which one is a miss."""
    cases = write(
        folder / "en" / "tiny_v1.json",
        {"text": "height", "expected_ids": ["T:4"]},
        {"text": "epileptic attack", "expected_ids": ["T:3"]},
    )
    bench_labels(cases, None, obo, folder / "runs")
    return cases, folder / "runs" / "bm25.jsonl"


def test_terms_are_named_by_their_labels_where_docs_have_texts(obo: str, tmp_path: Path) -> None:
    cases, log = found_terms(obo, tmp_path)
    done = run_karat("diagnose", str(cases), str(log), "--ontology", obo, "--misses", str(tmp_path / "misses.csv"))
    assert done.returncode == 0, done.stderr
    assert "epileptic attack,T:3 (1),1,T:2,not judged,Seizure" in (tmp_path / "misses.csv").read_text("utf-8")
    page = tmp_path / "page.html"
    done = run_karat("evaluate", str(cases), str(log), "--ontology", obo, "--html", str(page))
    assert done.returncode == 0 and "Short stature" in page.read_text("utf-8"), done.stderr


def test_case_files_bring_the_texts_of_a_stress_test(obo: str, tmp_path: Path) -> None:
    cases, log = found_terms(obo, tmp_path)
    texts: dict[str, list[tuple[str, str]]] = {}

    def rerank(query: str, docs: list[tuple[str, str]]) -> list[float]:
        texts[query] = docs
        return [float(len(docs) - i) for i in range(len(docs))]

    stress = karat.stress(cases, log, reranker=rerank, mine={"1": ["T:3"], "2": ["T:4"]}, ontology=obo, insert=1)
    assert stress.queries == 2 and texts["height"] == [("T:3", "Focal seizure"), ("T:4", "Short stature")]
    with pytest.raises(UsageError, match=r"a stress test needs docs= with their texts"):
        karat.stress(cases, log, reranker=rerank, mine={"1": ["T:3"]})
