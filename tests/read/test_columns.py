"""Which column of a table is read where several could be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest

import karat
from karat.errors import InputError

ROWS = [("a", "x", 12.1, 0), ("a", "y", 11.3, 0), ("a", "z", 9.8, 1), ("b", "x", 7.1, 0), ("b", "y", 6.3, 1)]
"""Query, doc, the score of a system, and the grade: relevant docs are at rank 3 and rank 2."""
FORMATS = ("csv", "tsv", "jsonl", "parquet", "polars", "pandas")


def written(folder: Path, format: str, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Any:
    """The rows as a file of one format, or as a data frame."""
    frame = polars.DataFrame(rows, schema=list(names), orient="row")
    if format == "polars":
        return frame
    if format == "pandas":
        return pandas.DataFrame(rows, columns=list(names))
    path = folder / f"table.{format}"
    if format == "parquet":
        frame.write_parquet(path)
    elif format == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        mark = "," if format == "csv" else "\t"
        path.write_text("".join(mark.join(map(str, row)) + "\n" for row in [names, *rows]))
    return path


@pytest.mark.parametrize("grade", ["grade", "relevance", "rel", "label"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_retrieval_score_beside_the_grade_is_not_the_grade(tmp_path: Path, format: str, grade: str) -> None:
    judged = written(tmp_path, format, ("query_id", "doc_id", "score", grade), ROWS)
    result = karat.evaluate(judged, {"a": ["x", "y", "z"], "b": ["x", "y"]}, "mrr")
    assert result.mean["mrr"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert f"the grade is read from '{grade}'; 'score' is ignored" in result.notes


@pytest.mark.parametrize("format", ["csv", "parquet", "polars"])
def test_one_table_serves_as_gold_and_as_run(tmp_path: Path, format: str) -> None:
    both = written(tmp_path, format, ("query_id", "doc_id", "score", "label"), ROWS)
    other = both if format == "polars" else tmp_path / "run.bin"
    if format != "polars":
        other.write_bytes(both.read_bytes())
    assert karat.evaluate(both, other, "mrr").mean["mrr"] == pytest.approx((1 / 3 + 1 / 2) / 2)


@pytest.mark.parametrize("format", FORMATS)
def test_score_is_the_grade_where_nothing_else_is(tmp_path: Path, format: str) -> None:
    judged = written(tmp_path, format, ("query-id", "corpus-id", "score"), [("a", "x", 0), ("a", "y", 2)])
    qrels = karat.read_qrels(judged)
    assert qrels.for_query("a") == {"x": 0.0, "y": 2.0}
    assert qrels.notes == ()


@pytest.mark.parametrize("format", FORMATS)
def test_two_columns_that_disagree_on_the_grade_are_refused(tmp_path: Path, format: str) -> None:
    judged = written(tmp_path, format, ("query_id", "doc_id", "rel", "grade"), [("a", "x", 1, 1), ("a", "y", 0, 2)])
    with pytest.raises(InputError, match=r"'grade' holds .*2.* and 'rel' holds .*0.*both name the grade") as error:
        karat.read_qrels(judged)
    place = {"csv": "table.csv:3:", "tsv": "table.tsv:3:", "jsonl": "table.jsonl:2:"}.get(format, "row 2:")
    assert place in str(error.value)


@pytest.mark.parametrize("format", FORMATS)
def test_two_columns_that_agree_are_noted(tmp_path: Path, format: str) -> None:
    judged = written(tmp_path, format, ("query_id", "qid", "doc_id", "rel", "grade"), [("a", "a", "x", 1, 1)])
    assert karat.read_qrels(judged).notes == (
        "the query is read from 'query_id'; 'qid' is ignored",
        "the grade is read from 'grade'; 'rel' is ignored",
    )


@pytest.mark.parametrize("format", FORMATS)
def test_two_scores_of_a_run_that_disagree_are_refused(tmp_path: Path, format: str) -> None:
    run = written(
        tmp_path, format, ("query_id", "doc_id", "sim", "score"), [("a", "x", 0.5, 0.5), ("a", "y", 0.9, 0.1)]
    )
    with pytest.raises(InputError, match="both name the score"):
        karat.read_run(run)


@pytest.mark.parametrize("format", FORMATS)
def test_a_text_beside_the_id_or_the_grade_claims_nothing(tmp_path: Path, format: str) -> None:
    names = ("query_id", "query", "doc_id", "doc", "grade", "label")
    judged = written(tmp_path, format, names, [("a", "what is x", "x", "X is a letter", 2, "very relevant")])
    assert karat.read_qrels(judged).for_query("a") == {"x": 2.0}
