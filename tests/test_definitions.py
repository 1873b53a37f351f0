"""Ideas that have one definition: what they mean, and that no second one comes back."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import karat
from karat import errors
from karat.align.disorder import align_disorder
from karat.model.docs import TEXT_FIELDS, Docs
from karat.model.policy import RELEVANT, SEPARATOR, binarize, earns_gain, is_judged, is_relevant, parent_of
from karat.read.docs import read_docs
from karat.stats import defaults
from karat.verbs.diagnose.misses import misses

if TYPE_CHECKING:
    from collections.abc import Iterator

SRC = Path(karat.__file__).parent
MODULES = {str(path.relative_to(SRC)): path.read_text("utf-8") for path in sorted(SRC.rglob("*.py"))}


def nodes(kind: type[ast.AST], *, outside: str) -> Iterator[tuple[str, Any]]:
    for name, text in MODULES.items():
        if name != outside:
            yield from ((name, node) for node in ast.walk(ast.parse(text)) if isinstance(node, kind))


def write_lines(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def page_data(result: Any, path: Path, **options: Any) -> dict[str, Any]:
    karat.write_report(result, str(path), **options)
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', path.read_text("utf-8"), re.S)
    assert found is not None
    return dict(json.loads(found[1]))


class TestRelevant:
    def test_grades_from_one_on_are_relevant_and_fractions_only_earn_gain(self) -> None:
        assert [is_relevant(g) for g in (-1, 0, 0.5, 1, 2)] == [False, False, False, True, True]
        assert [earns_gain(g) for g in (-1, 0, 0.5, 1)] == [False, False, True, True]
        assert [is_judged(g) for g in (-1, 0, 0.5)] == [False, True, True]
        assert is_relevant(1, rel=2) is False

    def test_binary_grades_keep_what_is_not_a_judgment(self) -> None:
        import numpy as np

        assert binarize(np.array([-2.0, 0.0, 0.5, 1.0, 3.0])).tolist() == [-2.0, 0.0, 0.0, 1.0, 1.0]

    def test_the_page_counts_as_relevant_what_recall_does(self, tmp_path: Path) -> None:
        gold = {"q1": {"d1": 1, "d2": 0.5}, "q2": {"d3": 0.5, "d4": 1}}
        result = karat.evaluate(gold, {"q1": {"d1": 2.0}, "q2": {"d4": 1.0}}, "recall@10", details=True)
        assert result.mean["recall@10"] == 1.0
        (account,) = page_data(result, tmp_path / "report.html")["rank_counts"]
        assert account["gold"] == 2
        assert account["counts"][-1] == 0  # never found

    def test_bench_counts_relevant_docs_that_the_corpus_lacks_the_same_way(self) -> None:
        from karat.verbs.bench.dataset import Dataset
        from karat.verbs.bench.warnings import list_warnings

        gold = {"q1": {"d1": 1, "lost": 0.5}}
        data = Dataset("d", gold, {"q1": "words"}, {"d1": "words"})
        assert list_warnings(data, {}, [], 10) == []

    def test_no_other_module_compares_grades_with_a_number(self) -> None:
        found = []
        for name, node in nodes(ast.Compare, outside="model/policy.py"):
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            is_grade = re.search(r"grades?\b['\"]?\]?$|^g$", left)
            if is_grade and isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.Lt)) and right in ("0", "0.0", "1", "1.0"):
                found.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
        assert [f for f in found if not f.startswith("report/misses.py")] == []

    def test_metrics_take_their_default_from_it(self) -> None:
        defaults_of_rel = [p.default for m in karat.all_metrics() for p in m.params if p.name == "rel"]
        assert defaults_of_rel
        assert all(default is RELEVANT for default in defaults_of_rel)
        assert not [name for name, text in MODULES.items() if re.search(r"\brel: float = \d", text)]


class TestParent:
    def test_the_table_comes_before_the_separator(self) -> None:
        assert parent_of("d1#p2#x", SEPARATOR) == "d1"
        assert parent_of("d1::p2", "::") == "d1"
        assert parent_of("c18", SEPARATOR, {"c18": "D1"}) == "D1"
        assert parent_of("c19#1", SEPARATOR, {"c18": "D1"}) == "c19"

    @pytest.mark.parametrize("mark", ["#", "::"])
    def test_gold_fields_are_found_for_chunks_with_any_separator(self, mark: str, tmp_path: Path) -> None:
        gold = {"q1": {f"d1{mark}p1": 1}, "q2": {f"d2{mark}p1": 1}}
        docs = {"d1": {"text": "one", "source": "web"}, "d2": {"text": "two", "source": "wiki"}}
        run = {q: dict.fromkeys(grades, 1.0) for q, grades in gold.items()}
        result = karat.evaluate(
            gold, run, "recall@5", docs=docs, by="gold.source", separator=mark, details=True, min_segment=1
        )
        assert {s.by["gold.source"]: s.n for s in result.segments} == {"web": 1, "wiki": 1}
        shown = page_data(result, tmp_path / "report.html", docs=docs)["docs"]
        assert set(shown["texts"].values()) == {"one", "two"}

    def test_top_misses_show_the_texts_of_chunks_with_any_separator(self) -> None:
        docs = {"d1": {"title": "Title", "content": "one"}}
        found = misses({"q1": {"d1::p1": 1}}, {"q1": {"x": 1.0}}, docs=docs, separator="::")
        assert found.rows[0].gold[0].text == "Title. one"

    def test_chroma_results_use_the_separator(self) -> None:
        run = {"q1": {"ids": [["d1::p1", "d1::p2"]], "metadatas": [[None, None]]}}
        assert karat.evaluate({"q1": {"d1": 1}}, run, "mrr", separator="::", level="doc").mean["mrr"] == 1.0

    def test_validate_knows_chunks_with_any_separator(self, tmp_path: Path) -> None:
        corpus = write_lines(tmp_path / "corpus.jsonl", {"_id": "d1::p1", "title": "t", "text": "words"})
        gold = tmp_path / "qrels.tsv"
        gold.write_text("q1\t0\td1\t1\n", "utf-8")
        codes = [f.code for f in karat.validate(qrels=str(gold), corpus=corpus).findings]
        assert "X501" in codes
        codes = [f.code for f in karat.validate(qrels=str(gold), corpus=corpus, separator="::").findings]
        assert "X501" not in codes

    def test_the_separator_stands_in_one_module(self) -> None:
        found = [
            f"{name}:{node.lineno}"
            for name, node in nodes(ast.Constant, outside="model/policy.py")
            if node.value == SEPARATOR
        ]
        assert [f for f in found if not f.startswith("read/")] == []
        comments = [MODULES[f.split(":")[0]].splitlines()[int(f.split(":")[1]) - 1] for f in found]
        assert all("startswith" in line for line in comments)  # in TREC files it begins a comment

    def test_ids_are_divided_in_one_function(self) -> None:
        divided = re.compile(r"\.(r?partition|split)\([^)]*(separator|SEPARATOR)\b")
        assert [name for name, text in MODULES.items() if divided.search(text)] == ["model/policy.py"]


class TestDocs:
    @pytest.mark.parametrize("name", TEXT_FIELDS)
    def test_every_text_field_is_read_by_every_reader(self, name: str, tmp_path: Path) -> None:
        rows = [{"_id": d, "title": "Title", name: text} for d, text in (("d1", "red fox"), ("d2", "blue sky"))]
        path = write_lines(tmp_path / "corpus.jsonl", *rows)
        gold, run = {"q1": {"d1": 1, "d2": 1}}, {"q1": {"d1": 2.0, "d2": 1.0}}
        result = karat.evaluate(gold, run, "novelty@5,recall@5", docs=path, details=True)
        assert result.mean["novelty@5"] > 0
        assert list(karat.read_corpus(path).texts) == ["Title red fox", "Title blue sky"]
        assert {"Title. red fox", "Title. blue sky"} == set(
            page_data(result, tmp_path / "report.html", docs=path)["docs"]["texts"].values()
        )
        missed = misses({"q1": {"d1": 1}}, {"q1": {"x": 1.0}}, docs=path)
        assert missed.rows[0].gold[0].text == "Title. red fox"
        found = karat.validate(corpus=path).findings
        assert [f.code for f in found if f.code in ("C402", "C403")] == []

    def test_the_first_text_field_with_a_value_counts(self) -> None:
        docs = Docs({"a": {"text": "", "content": "one", "question": "two"}, "b": {"title": "T"}, "c": {"source": "x"}})
        assert [docs.text(d) for d in ("a", "b", "c", "d")] == ["one", "T", None, None]

    def test_text_fields_are_listed_once(self) -> None:
        lists = [
            name
            for name, node in nodes(ast.Tuple, outside="model/docs.py")
            if len({e.value for e in node.elts if isinstance(e, ast.Constant)} & set(TEXT_FIELDS)) > 1
        ]
        assert [name for name in lists if not name.startswith("retrieve/")] == []  # there they are kinds of texts
        texts = [
            name for name, text in MODULES.items() if re.search(r"(field|get)\(\"(text|contents?|body|passage)\"", text)
        ]
        assert texts == []


CHUNKS = (
    {"chunk_id": "c17", "doc_id": "D1", "text": "red fox", "source": "web"},
    {"chunk_id": "c18", "doc_id": "D1", "text": "blue sky", "source": "web"},
    {"chunk_id": "c19", "doc_id": "D2", "text": "green tea", "source": "wiki"},
)
GOLD = {"q1": {"D1": 1}, "q2": {"D2": 1}}
SCORES = {"q1": {"c18": 3.0, "c17": 2.0, "c19": 1.0}, "q2": {"c17": 2.0, "c19": 1.0}}


class TestChunksOfACorpus:
    """A corpus that names the doc of each chunk: level, distinct docs, redundancy, segments and reports use it."""

    @pytest.fixture
    def corpus(self, tmp_path: Path) -> str:
        return write_lines(tmp_path / "corpus.jsonl", *CHUNKS)

    def test_ids_are_those_of_the_chunks(self, corpus: str, tmp_path: Path) -> None:
        docs = read_docs(corpus)
        assert list(docs.fields) == ["c17", "c18", "c19"]
        assert docs.parents == {"c17": "D1", "c18": "D1", "c19": "D2"}
        renamed = [{"_id": row["chunk_id"], **{k: v for k, v in row.items() if k != "chunk_id"}} for row in CHUNKS]
        assert read_docs(write_lines(tmp_path / "ids.jsonl", *renamed)).parents == docs.parents
        assert [f.code for f in karat.validate(corpus=corpus).findings if f.level == "error"] == []

    def test_a_chunk_that_appears_twice_is_named_as_a_doc(self, tmp_path: Path) -> None:
        path = write_lines(tmp_path / "corpus.jsonl", CHUNKS[0], CHUNKS[0])
        with pytest.raises(karat.InputError, match='doc "c17"'):
            read_docs(path)

    @pytest.mark.parametrize("shape", ["scores", "lists", "trec", "unordered", "log", "frame"])
    def test_gold_by_doc_meets_runs_by_chunk(self, shape: str, corpus: str, tmp_path: Path) -> None:
        lists = {q: list(docs) for q, docs in SCORES.items()}
        rows = [(q, d, s) for q, docs in SCORES.items() for d, s in docs.items()]
        run: Any = {"scores": SCORES, "lists": lists}.get(shape)
        if shape in ("trec", "unordered"):
            run = str(tmp_path / "a.run")
            listed = rows if shape == "trec" else rows[::2] + rows[1::2]
            Path(run).write_text("".join(f"{q} Q0 {d} 0 {s} t\n" for q, d, s in listed), "utf-8")
        elif shape == "log":
            log = [{"query_id": q, "topk": [{"chunk_id": d} for d in docs]} for q, docs in lists.items()]
            run = write_lines(tmp_path / "a.jsonl", *log)
        elif shape == "frame":
            import pandas as pd

            run = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
        result = karat.evaluate(GOLD, run, "mrr,recall@5,distinct_docs@5,redundancy@5", docs=corpus, level="doc")
        # q1: D1 at ranks 1 and 2, D2 at 3; q2: D1 at 1, D2 at 2.
        assert result.per_query("mrr") == {"q1": 1.0, "q2": 0.5}
        assert result.per_query("distinct_docs@5") == {"q1": 2.0, "q2": 2.0}
        assert result.per_query("redundancy@5") == {"q1": pytest.approx(1 / 3), "q2": 0.0}
        assert karat.evaluate(GOLD, run, "mrr", docs=corpus).mean["mrr"] == 0.75  # level=auto finds out

    def test_two_passes_use_it(self, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import karat.align

        calls: list[dict[str, Any]] = []

        def spied(*args: Any, **options: Any) -> Any:
            calls.append(options)
            return align_disorder(*args, **options)

        monkeypatch.setattr("karat.align.IN_MEMORY", 0)
        monkeypatch.setattr("karat.align.disorder.align_disorder", spied)
        rows = [f"{q} Q0 {d} 0 {s} t\n" for q, docs in SCORES.items() for d, s in docs.items()]
        run = tmp_path / "a.run"
        run.write_text("".join(rows[::2] + rows[1::2]), "utf-8")
        result = karat.evaluate(GOLD, str(run), "mrr,distinct_docs@5", docs=corpus, level="doc")
        assert calls and calls[0]["parents"] == {"c17": "D1", "c18": "D1", "c19": "D2"}
        assert result.per_query("mrr") == {"q1": 1.0, "q2": 0.5}
        assert result.per_query("distinct_docs@5") == {"q1": 2.0, "q2": 2.0}

    def test_what_the_run_says_comes_first(self, corpus: str, tmp_path: Path) -> None:
        run = write_lines(tmp_path / "a.jsonl", {"query_id": "q1", "topk": [{"chunk_id": "c17", "doc_id": "D9"}]})
        assert karat.evaluate({"q1": {"D1": 1}}, run, "mrr", docs=corpus, level="doc").mean["mrr"] == 0.0
        assert karat.evaluate({"q1": {"D9": 1}}, run, "mrr", docs=corpus, level="doc").mean["mrr"] == 1.0

    def test_segments_and_reports_follow_it_from_doc_to_chunk(self, corpus: str, tmp_path: Path) -> None:
        result = karat.evaluate(
            GOLD, SCORES, "mrr", docs=corpus, level="doc", by="gold.source", min_segment=1, details=True
        )
        assert {s.by["gold.source"]: s.n for s in result.segments} == {"web": 1, "wiki": 1}
        shown = page_data(result, tmp_path / "report.html", docs=corpus)["docs"]
        texts = {shown["ids"][int(i)]: text for i, text in shown["texts"].items()}
        assert texts["c18"] == "blue sky"
        assert texts["D1"] == "red fox"  # its first chunk

    def test_a_benchmark_names_both(self, corpus: str, tmp_path: Path) -> None:
        assert [karat.read_corpus(corpus).parent(i) for i in ("c17", "c18", "c19")] == ["D1", "D1", "D2"]


class TestDefaults:
    def test_numbers_stand_in_one_module(self) -> None:
        names = r"(confidence|resamples|seed|min_segment|minimum|alpha)"
        numbers = re.compile(names + r'"?(: [^=\n]+)? ?[=:] ?(Field\()?(0\.95|2_?000|0|10|0\.05)\b(?!\.)')
        found = [
            f"{name}: {match[0]}"
            for name, text in MODULES.items()
            if name != "stats/defaults.py"
            for match in numbers.finditer(text)
        ]
        assert found == []

    def test_every_verb_has_them(self) -> None:
        import inspect

        expected = {
            "confidence": defaults.CONFIDENCE,
            "resamples": defaults.RESAMPLES,
            "seed": defaults.SEED,
            "min_segment": defaults.MIN_SEGMENT,
            "alpha": defaults.ALPHA,
        }
        for verb in (karat.evaluate, karat.compare, karat.diagnose, karat.components, karat.stress):
            for name, parameter in inspect.signature(verb).parameters.items():
                if name in expected and parameter.default is not None:
                    assert parameter.default is expected[name], (verb, name)


class TestPackages:
    def test_the_error_names_packages_and_the_command(self) -> None:
        told = str(errors.missing_package("the demo", "bm25s", "Stemmer", "jinja2"))
        assert told == "the demo needs bm25s, PyStemmer and jinja2: pip install 'karat-ir[report,retrieve]'"
        assert str(errors.missing_package("reading this", "duckdb")) == "reading this needs duckdb: pip install duckdb"

    def test_extras_bring_the_packages_that_errors_name(self) -> None:
        import tomllib

        project = tomllib.loads((SRC.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
        assert project["name"] == errors.DISTRIBUTION
        for package, extra in errors.PACKAGES.values():
            assert any(
                re.match(rf"{re.escape(package)}(\[|>)", need) for need in project["optional-dependencies"][extra]
            )

    def test_the_command_stands_in_one_module(self) -> None:
        assert [name for name, text in MODULES.items() if re.search(r"pip install|karat(-ir)?\[", text)] == [
            "errors.py"
        ]

    def test_docs_name_the_distribution(self) -> None:
        root = SRC.parents[1]
        for path in (root / "README.md", *(root / "docs").rglob("*.md")):
            assert not re.search(r"\bkarat\[", path.read_text("utf-8")), path
