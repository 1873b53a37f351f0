"""Every format that people bring means the same."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest
import zstandard

import karat
from karat.model.docs import Docs

GOLD = {"q1": {"a": 2.0, "b": 1.0, "c": -1.0}, "q10": {"ä#1": 1.0}, "q2": {"e": 0.5, "f f": 0.0}}
RUN = {"q1": {"b": 3.25, "x": 2.0, "a": 1.0}, "q10": {"ä#1": 0.5}, "q2": {"e": 9.0, "f f": 10.0}}
METRICS = ["ndcg@10", "map", "recall@2", "judged@5", "num_ret"]


def expected() -> dict[str, dict[str, float]]:
    result = karat.evaluate(GOLD, RUN, METRICS)
    return {m: result.per_query(m) for m in METRICS}


def found(qrels: Any, run: Any, **options: Any) -> dict[str, dict[str, float]]:
    result = karat.evaluate(qrels, run, METRICS, **options)
    return {m: result.per_query(m) for m in METRICS}


def gold_rows() -> list[tuple[str, str, float]]:
    return [(q, d, g) for q, docs in GOLD.items() for d, g in docs.items()]


def run_rows() -> list[tuple[str, str, float]]:
    return [(q, d, s) for q, docs in RUN.items() for d, s in docs.items()]


def table(rows: list[tuple[str, str, float]], header: str, mark: str, end: str = "\n") -> str:
    return end.join([header, *(mark.join((q, d, repr(v))) for q, d, v in rows)]) + end


TABLES = {
    "csv": (",", "query_id,doc_id,grade", "query_id,doc_id,score", "\n"),
    "beir tsv": ("\t", "query-id\tcorpus-id\tscore", "query-id\tcorpus-id\tscore", "\n"),
    "semicolons and CRLF": (";", "qid;docno;label", "QID;DocNo;sim", "\r\n"),
    "pipes": ("|", "q_id|docid|rel", "query|doc|score", "\n"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_with_a_header(tmp_path: Path, kind: str) -> None:
    mark, gold, run, end = TABLES[kind]
    (tmp_path / "g.txt").write_text(table(gold_rows(), gold, mark, end), newline="")
    (tmp_path / "r.txt").write_text("\ufeff" + table(run_rows(), run, mark, end), newline="", encoding="utf-8")
    assert found(tmp_path / "g.txt", tmp_path / "r.txt") == expected()


def test_columns_may_stand_in_any_order_beside_others(tmp_path: Path) -> None:
    lines = ["note,score,doc_id,rank,query_id"]
    lines += [f"hello,{s},{d},99,{q}" for q, d, s in run_rows()]
    (tmp_path / "r.csv").write_text("\n".join(lines))
    assert found(GOLD, tmp_path / "r.csv") == expected()


def test_quoted_fields_may_hold_marks_quotes_and_line_ends(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text('query_id,doc_id,score\nq1,"a,""b""\nc",2\nq1,plain,1\n')
    result = karat.evaluate({"q1": {'a,"b"\nc': 1}}, tmp_path / "r.csv", "mrr,num_ret")
    assert dict(result.mean) == {"mrr": 1.0, "num_ret": 2.0}


@pytest.mark.parametrize("packing", ["gz", "zst"])
@pytest.mark.parametrize("kind", ["trec", "csv", "jsonl"])
def test_packed_files(tmp_path: Path, packing: str, kind: str) -> None:
    rows = [(q, d, s) for q, d, s in run_rows() if " " not in d]
    text = {
        "trec": "".join(f"{q} Q0 {d} 1 {s} t\n" for q, d, s in rows),
        "csv": table(rows, "query_id,doc_id,score", ","),
        "jsonl": "".join(json.dumps({"query_id": q, "doc_id": d, "score": s}) + "\n" for q, d, s in rows),
    }[kind].encode()
    data = gzip.compress(text) if packing == "gz" else zstandard.compress(text)
    path = tmp_path / f"my.run.{packing}"
    path.write_bytes(data)
    plain = {q: {d: s for d, s in docs.items() if " " not in d} for q, docs in RUN.items()}
    assert found(GOLD, path) == found(GOLD, plain)
    assert karat.evaluate(GOLD, path, "mrr").runs[0].name == "my"


def test_json_lines_and_json(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text(
        "".join(json.dumps({"query_id": q, "doc_id": d, "grade": g}) + "\n" for q, d, g in gold_rows())
    )
    (tmp_path / "r.json").write_text(json.dumps(RUN, indent=1))
    assert found(tmp_path / "g.jsonl", tmp_path / "r.json") == expected()
    (tmp_path / "g.json").write_text(json.dumps(GOLD))
    assert found(tmp_path / "g.json", RUN) == expected()


FRAMES = {
    "pandas": lambda columns: pandas.DataFrame(columns),
    "pandas categories": lambda columns: pandas.DataFrame(columns).astype({"query_id": "category"}),
    "polars": lambda columns: polars.DataFrame(columns),
    "polars categories": lambda columns: polars.DataFrame(columns).with_columns(
        polars.col("doc_id").cast(polars.Categorical)
    ),
    "arrow": lambda columns: pyarrow.table(columns),
    "arrow in pieces": lambda columns: pyarrow.Table.from_batches(
        [b for i in range(0, len(columns["query_id"]), 2) for b in pyarrow.table(columns).slice(i, 2).to_batches()]
    ),
    "arrow large strings": lambda columns: pyarrow.table(columns).cast(
        pyarrow.schema([(n, pyarrow.large_string() if n != "score" else pyarrow.float64()) for n in columns])
    ),
    "duckdb": lambda columns: duckdb.from_arrow(pyarrow.table(columns)),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_data_frames(kind: str) -> None:
    def frame(rows: list[tuple[str, str, float]]) -> Any:
        return FRAMES[kind](
            {"query_id": [r[0] for r in rows], "doc_id": [r[1] for r in rows], "score": [r[2] for r in rows]}
        )

    assert found(frame(gold_rows()), frame(run_rows())) == expected()
    assert found(frame(gold_rows()), frame(run_rows()[::-1])) == expected()


def test_integer_ids_become_their_decimal_form() -> None:
    frame = pandas.DataFrame({"query_id": [1, 1, 2], "doc_id": [10, 11, 12], "score": [2.0, 1.0, 1.0]})
    gold = {1: {11: 1}, 2: {12: 1}}
    # rank 2 and rank 1: (1/2 + 1) / 2
    assert karat.evaluate(gold, frame, "mrr").mean["mrr"] == 0.75
    assert karat.evaluate(gold, {1: {10: 2.0, 11: 1.0}, 2: {12: 1.0}}, "mrr").mean["mrr"] == 0.75
    assert karat.evaluate(gold, {1: [10, 11], 2: [12]}, "mrr").mean["mrr"] == 0.75


def test_parquet(tmp_path: Path) -> None:
    for name, rows, value in (("g", gold_rows(), "grade"), ("r", run_rows(), "score")):
        polars.DataFrame(
            {"query_id": [r[0] for r in rows], "doc_id": [r[1] for r in rows], value: [r[2] for r in rows]}
        ).write_parquet(tmp_path / f"{name}.parquet")
    assert found(tmp_path / "g.parquet", tmp_path / "r.parquet") == expected()


@pytest.mark.parametrize(
    ("title", "caption"),
    [("Ducks", "Ducks. They swim"), ("Do ducks swim?", "Do ducks swim? They swim"), ("Ducks.", "Ducks. They swim")],
)
def test_a_caption_has_one_mark_between_title_and_text(title: str, caption: str) -> None:
    assert Docs({"d": {"title": title, "text": "They swim"}}).caption("d") == caption


def test_sets_and_lists_of_relevant_docs_have_grade_1() -> None:
    run = {"q": ["x", "a", "b"]}
    for gold in ({"q": {"a", "b"}}, {"q": ["a", "b"]}, {"q": {"a": 1, "b": 1}}):
        assert karat.evaluate(gold, run, "map").mean["map"] == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_a_run_log_is_read_with_its_facts(tmp_path: Path) -> None:
    lines = [
        {
            "query_id": "q1",
            "system": "s",
            "index_version": "v1",
            "topk": [{"rank": 2, "chunk_id": "d1#2", "score": 9.0}, {"rank": 1, "chunk_id": "d2#1", "score": 1.0}],
        },
        {"query_id": "q2", "system": "s", "index_version": "v1", "topk": []},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    result = karat.evaluate({"q1": {"d1#2": 1}, "q2": {"z": 1}}, path, "mrr,num_ret")
    assert result.per_query("mrr") == {"q1": 0.5, "q2": 0.0}  # rank, not score, gives the order
    assert result.runs[0].facts == {"system": "s", "index_version": "v1"}
    assert result.counts["missing"] == 0


def test_a_run_log_without_ranks_is_ordered_by_score_and_without_scores_as_listed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(
        json.dumps({"query_id": "q", "topk": [{"doc_id": "a", "score": 1}, {"doc_id": "b", "score": 2}]})
        + "\n"
        + json.dumps({"query_id": "p", "topk": [{"doc_id": "a"}, {"doc_id": "b"}]})
    )
    result = karat.evaluate({"q": {"b": 1}, "p": {"b": 1}}, path, "mrr")
    assert result.per_query("mrr") == {"q": 1.0, "p": 0.5}


def test_a_stage_of_a_run_log_is_evaluated_instead_of_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(
        json.dumps(
            {"query_id": "q", "topk": [{"doc_id": "b"}], "stages": {"retrieve": ["a", "c", "b"], "rerank": ["b"]}}
        )
    )
    gold = {"q": {"b": 1}}
    assert karat.evaluate(gold, path, "mrr").mean["mrr"] == 1.0
    assert karat.evaluate(gold, path, "mrr", stage="retrieve").mean["mrr"] == pytest.approx(1 / 3)


def test_items_newer_than_the_query_are_dropped_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    items = [
        {"rank": 1, "doc_id": "new", "doc_version": "2025-06-01"},
        {"rank": 2, "doc_id": "old", "doc_version": "2024-01-01"},
        {"rank": 3, "doc_id": "undated"},
    ]
    path.write_text(json.dumps({"query_id": "q", "topk": items}))
    gold, queries = {"q": {"old": 1}}, {"q": {"text": "?", "as_of": "2025-01-01"}}
    assert karat.evaluate(gold, path, "mrr", queries=queries).mean["mrr"] == 0.5
    filtered = karat.evaluate(gold, path, "mrr,num_ret", queries=queries, as_of_filter=True)
    assert filtered.mean["mrr"] == 1.0
    assert filtered.mean["num_ret"] == 2.0
    assert any("as_of_filter dropped 1" in note for note in filtered.notes)


def test_results_of_chroma_are_read() -> None:
    run = {
        "q": {
            "ids": [["d1#1", "d2#4"]],
            "metadatas": [[{"doc_id": "one"}, {"doc_id": "two"}]],
            "distances": [[0.1, 0.2]],
        }
    }
    assert karat.evaluate({"q": {"d2#4": 1}}, run, "mrr").mean["mrr"] == 0.5
    assert karat.evaluate({"q": {"two": 1}}, run, "mrr").mean["mrr"] == 0.5


def test_ids_of_chroma_that_are_under_another_name_are_noted() -> None:
    run = {"q": {"ids": [["0", "1"]], "metadatas": [[{"article_id": "HP:1"}, {"article_id": "HP:2"}]]}}
    notes = karat.evaluate({"q": {"HP:2": 1}}, run, "mrr").notes
    assert notes[0] == "no judged doc was returned for any query: check the ids"
    assert any("the metadata also hold 'article_id'" in note and "call it 'doc_id'" in note for note in notes)


def test_the_library_warns_as_the_command_line_does() -> None:
    result = karat.evaluate({"q1": {"a": 1}, "q2": {"b": 1}}, {"q1": ["x"]}, "mrr")
    assert result.notes == (
        "no judged doc was returned for any query: check the ids",
        "1 query of the gold without results",
        "only 2 queries: so few can only show large differences",
        "docs in the top 10 that nobody judged (counted as not relevant): run 1 of 1",
    )


QUERIES = {
    "q.jsonl": '{"_id": "q1", "text": "one", "metadata": {"language": "de"}}\n'
    '{"_id": "q2", "text": "two", "no_answer": true}\n',
    "q.csv": "query_id,text,language,no_answer\nq1,one,de,\nq2,two,,true\n",
    "q.tsv": "qid\ttext\tlanguage\tno_answer\nq1\tone\tde\t\nq2\ttwo\t\tyes\n",
}


@pytest.mark.parametrize("name", QUERIES)
def test_tables_of_queries(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(QUERIES[name])
    queries = karat.read_queries(tmp_path / name)
    assert queries.field("text") == {"q1": "one", "q2": "two"}
    assert queries.field("language") == {"q1": "de"}
    assert queries.no_answer == ["q2"]


def test_topic_files_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "topics.tsv").write_text("156493\tdo goldfish grow\n1110199\twhat is wifi, and why\n")
    assert karat.read_queries(tmp_path / "topics.tsv").field("text") == {
        "156493": "do goldfish grow",
        "1110199": "what is wifi, and why",
    }


def test_queries_as_parquet_and_frame(tmp_path: Path) -> None:
    frame = polars.DataFrame({"id": ["q1", "q2"], "text": ["one", "two"], "weight": [1.0, None]})
    frame.write_parquet(tmp_path / "q.parquet")
    for source in (tmp_path / "q.parquet", frame, frame.to_pandas()):
        assert karat.read_queries(source).field("text") == {"q1": "one", "q2": "two"}
        assert karat.read_queries(source).field("weight")["q1"] == 1.0


def test_queries_without_an_answer_are_never_in_relevance_means() -> None:
    gold = {"q1": {"a": 1}, "q2": {"b": 1}}
    result = karat.evaluate(gold, {"q1": {"a": 1.0}}, "mrr", queries={"q2": {"no_answer": True}})
    assert result.mean["mrr"] == 1.0
    assert result.counts["no_answer"] == 1
    assert result.counts["missing"] == 0


def test_several_runs_at_once_need_a_choice() -> None:
    result = karat.evaluate(GOLD, {"one": RUN, "two": {"q1": ["a"]}}, "mrr")
    assert result["two"].per_query("mrr")["q1"] == 1.0
    with pytest.raises(karat.ResultError, match=r"result\['one'\]\.mean"):
        _ = result.mean
    with pytest.raises(karat.ResultError, match="did you mean 'one'"):
        result["on"]


def test_a_forced_format_is_taken_at_its_word(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_text("query_id doc_id score\nq a 1\n")
    assert karat.evaluate({"q": {"a": 1}}, path, "mrr").mean["mrr"] == 1.0
    with pytest.raises(karat.InputError, match="expected a TREC run"):
        karat.evaluate({"q": {"a": 1}}, path, "mrr", run_format="trec")
