"""Broken and odd input, as people bring it: what is refused says where, what and why; what is only odd is read.

Most cases go through the command line in this process; a few run it as a process of its own. docs/data.md
says what is read.
"""

from __future__ import annotations

import builtins
import gzip
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import karat
from karat.cli import main
from karat.read.formats import format_names

GOLD = b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\n"
RUN = b"q1 Q0 d2 1 2.5 t\nq1 Q0 d1 2 1.5 t\nq2 Q0 d3 1 0.9 t\nq2 Q0 d9 2 0.1 t\n"
MEAN = (1 / math.log2(3) + 1) / 2
"""ndcg@10 of RUN on GOLD: q1 finds its doc at rank 2, q2 at rank 1."""

ROW = b'{"query_id": "q1", "doc_id": "d1", "score": 1}\n'
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256))
LONG_RUN = b"".join(b"q%d Q0 d%d 1 %d.5 t\n" % (i // 100, i * 7919, 1000 - i % 100) for i in range(20_000))
BASE = {"qrels.txt": GOLD, "run.txt": RUN}


def parquet(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


PARQUET = parquet(query_id=["q1", "q1", "q2"], doc_id=["d2", "d1", "d3"], score=[2.5, 1.5, 0.9])


def log(*items: str, query: str = '"q1"', more: str = "") -> bytes:
    """A line of a run log."""
    return f'{{"query_id": {query}, "topk": [{", ".join(items)}]{more}}}\n'.encode()


def damaged(packed: bytes) -> bytes:
    """The same bytes with some in the middle overwritten."""
    half = len(packed) // 2
    return packed[:half] + b"\x00\xff" * 50 + packed[half + 100 :]


@dataclass(frozen=True)
class Case:
    """Files, the arguments after `karat evaluate`, and what must come of them."""

    id: str
    args: tuple[str, ...]
    files: Mapping[str, bytes | None]
    """None is a folder."""
    says: tuple[str, ...] = ()
    """Fragments of the message: its place, what was found, what was expected."""
    gives: Mapping[str, Any] = field(default_factory=dict)
    """For what is read: values of the first run, its counts, or its notes."""
    code: int = 2
    stdin: bytes = b""


def run(id: str, content: bytes | None, *says: str, name: str = "run.txt", args: tuple[str, ...] = ()) -> Case:
    """A run that is refused."""
    return Case(id, ("qrels.txt", name, *args), {"qrels.txt": GOLD, name: content}, says)


def gold(id: str, content: bytes | None, *says: str, name: str = "qrels.txt", args: tuple[str, ...] = ()) -> Case:
    """Gold that is refused."""
    return Case(id, (name, "run.txt", *args), {name: content, "run.txt": RUN}, says)


def option(id: str, args: tuple[str, ...], *says: str) -> Case:
    """Good files with options that are refused."""
    return Case(id, ("qrels.txt", "run.txt", *args), BASE, says)


def queries(id: str, content: bytes, *says: str, name: str = "q.csv") -> Case:
    """A table of queries that is refused."""
    return Case(id, ("qrels.txt", "run.txt", "--queries", name), {**BASE, name: content}, says)


def odd(
    id: str,
    files: Mapping[str, bytes],
    args: tuple[str, ...] = ("qrels.txt", "run.txt"),
    *,
    stdin: bytes = b"",
    **gives: Any,
) -> Case:
    """Something odd that is read, by default with the values of the plain files."""
    return Case(id, args, {**BASE, **files}, gives=gives or {"mean": MEAN}, code=0, stdin=stdin)


def with_score(text: bytes) -> bytes:
    return RUN.replace(b"0.9", text)


FINITE = "score must be a finite number"
TREC_RUN = "expected a TREC run (query Q0 doc rank score tag)"
TREC_QRELS = "expected TREC qrels (query iter doc grade)"

REFUSED = [
    # Packed files
    run("gzip-truncated", gzip.compress(LONG_RUN)[:-4000], "run.gz", "breaks off", "copy or pack", name="run.gz"),
    run("gzip-cut-at-once", gzip.compress(LONG_RUN)[:5], "run.gz", "breaks off", name="run.gz"),
    run("gzip-without-its-end", gzip.compress(RUN)[:-4], "run.gz", "breaks off", name="run.gz"),
    run("gzip-damaged", damaged(gzip.compress(LONG_RUN)), "run.gz", "damaged", "copy or pack", name="run.gz"),
    run("gzip-wrong-sum", gzip.compress(RUN)[:-8] + b"abcdefgh", "run.gz", "CRC", name="run.gz"),
    run("gzip-of-nothing", gzip.compress(b""), "run.gz: is empty", TREC_RUN, name="run.gz"),
    run("gzip-truncated-log", gzip.compress(log() * 999)[:-9], "log.jsonl.gz", "breaks off", name="log.jsonl.gz"),
    run("gzip-truncated-json", gzip.compress(b'{"q1": {"d1": 1}}')[:-9], "r.json.gz", "breaks off", name="r.json.gz"),
    gold("gzip-truncated-gold", gzip.compress(GOLD)[:-9], "qrels.gz", "breaks off", name="qrels.gz"),
    run(
        "zstd-truncated", zstandard.compress(LONG_RUN)[:-9000], "run.zst", "breaks off", "copy or pack", name="run.zst"
    ),
    run("zstd-without-its-end", zstandard.compress(RUN)[:-1], "run.zst", "breaks off", name="run.zst"),
    run("zstd-truncated-log", zstandard.compress(log() * 999)[:-3], "r.jsonl.zst", "breaks off", name="r.jsonl.zst"),
    run("zstd-damaged", zstandard.compress(RUN)[:9] + b"\xff" * 40, "run.zst", "damaged", name="run.zst"),
    Case("gzip-truncated-stdin", ("qrels.txt", "-"), BASE, ("-: ", "breaks off"), stdin=gzip.compress(RUN)[:-9]),
    # Numbers
    run("score-nan", with_score(b"NaN"), f'run.txt:3: {FINITE}, found "NaN"'),
    run("score-inf", with_score(b"inf"), f'run.txt:3: {FINITE}, found "inf"'),
    run("score-minus-infinity", with_score(b"-Infinity"), f'run.txt:3: {FINITE}, found "-Infinity"'),
    run("score-1e999", with_score(b"1e999"), f'run.txt:3: {FINITE}, found "1e999"'),
    run("score-1_000", with_score(b"1_000"), f'run.txt:3: {FINITE}, found "1_000"'),
    run("score-hex", with_score(b"0x1F"), f'run.txt:3: {FINITE}, found "0x1F"'),
    run("score-decimal-comma", with_score(b"0,9"), f'run.txt:3: {FINITE}, found "0,9"'),
    run("score-arabic-digit", with_score("١".encode()), f'run.txt:3: {FINITE}, found "١"'),
    run("score-exponent-only", with_score(b"1e"), f'run.txt:3: {FINITE}, found "1e"'),
    gold("grade-word", GOLD.replace(b"d3 2", b"d3 yes"), 'qrels.txt:3: grade must be a finite number, found "yes"'),
    gold(
        "grade-with-a-decimal-comma",
        GOLD.replace(b"d3 2", b"d3 2,5"),
        'qrels.txt:3: grade must be a finite number, found "2,5": write its decimals after a point',
    ),
    gold("bytes-at-the-start-of-a-line", GOLD.replace(b"d3 2", b"d\xfc 2"), 'qrels.txt:3: not UTF-8 near "q'),
    gold("grade-nan", GOLD.replace(b"d3 2", b"d3 nan"), 'qrels.txt:3: grade must be a finite number, found "nan"'),
    gold(
        "grade-empty",
        b"query_id,doc_id,grade\nq1,d1,1\nq1,d2,\n",
        'qrels.csv:3: grade must be a finite number, found ""',
        name="qrels.csv",
    ),
    # Columns
    run(
        "column-missing",
        RUN.replace(b"q2 Q0 d3 1 0.9 t", b"q2 Q0 d3 1"),
        'run.txt:3: found 4 columns ("q2 Q0 d3 1"), expected 6 (query Q0 doc rank score tag)',
    ),
    run("column-too-many", RUN.replace(b"0.9 t", b"0.9 my tag"), "run.txt:3: found 7 columns", "expected 6"),
    run("five-columns", b"q1 Q0 d1 1 1\nq2 Q0 d3 1\n", "run.txt:2: found 4", "expected 5 (query Q0 doc rank score)"),
    run("last-line-breaks-off", RUN[:-8], 'run.txt:4: found 3 columns ("q2 Q0 d9")', "expected 6", "breaks off here"),
    gold(
        "mixed-columns",
        GOLD + b"q3 0 d1\nq3 0 d2 1 1\n",
        'qrels.txt:4: found 3 columns ("q3 0 d1"), expected 4 (query iter doc grade)',
        'qrels.txt:5: found 5 columns ("q3 0 d2 1 1"), expected 4',
    ),
    run(
        "mixed-columns-csv",
        b"query_id,doc_id,score\nq1,d1,1\nq2,d3\nq2,d3,1,1\n",
        "run.csv:3: found 2 columns",
        "run.csv:4: found 4 columns",
        "expected 3 (query_id, doc_id, score)",
        name="run.csv",
    ),
    run("three-columns", b"q1 d1 1\n", 'run.txt:1: found 3 columns ("q1 d1 1")', TREC_RUN, "state the format"),
    run("no-header", b"q1,d1,1\n", "run.csv:1: no header", "query_id,doc_id,score", '"q1,d1,1"', name="run.csv"),
    run("unknown-header", b"a,b,c\nq1,d1,1\n", "run.csv:1: no header", 'found "a,b,c"', name="run.csv"),
    run(
        "header-no-query",
        b"topic,doc_id,score\nq1,d1,1\n",
        "run.csv:1: no query column",
        "query_id",
        '"topic"',
        "Rename a column",
        name="run.csv",
    ),
    run(
        "header-no-doc",
        b"query_id,item,score\nq1,d1,1\n",
        "run.csv:1: no doc column",
        "doc_id",
        '"item"',
        name="run.csv",
    ),
    run(
        "header-no-score",
        b"query_id,doc_id,points\nq1,d1,1\n",
        "run.csv:1: no score column",
        "score, sim",
        '"points"',
        name="run.csv",
    ),
    gold(
        "header-no-grade",
        b"query_id,doc_id,points\nq1,d1,1\n",
        "qrels.csv:1: no grade column",
        "grade, relevance",
        '"points"',
        name="qrels.csv",
    ),
    run(
        "header-column-twice",
        b"query_id,doc_id,score,score\nq1,d1,1,2\n",
        'run.csv:1: the column "score" appears twice',
        name="run.csv",
    ),
    run("header-only", b"query_id,doc_id,score\n", "run.csv: holds no results, expected at least one", name="run.csv"),
    run("header-and-blanks", b"query_id,doc_id,score\n\n\n", "run.csv: holds no results", name="run.csv"),
    run("header-without-newline", b"query_id,doc_id,score", "run.csv: holds no results", name="run.csv"),
    gold("header-only-gold", b"query_id,doc_id,grade\n", "qrels.csv: holds no judgments", name="qrels.csv"),
    run(
        "quote-not-closed",
        b'query_id,doc_id,score\nq1,"d1,1\nq2,d3,1\n',
        "run.csv:2: a quoted cell that begins here is not closed",
        name="run.csv",
    ),
    run(
        "id-empty",
        b"query_id,doc_id,score\nq1,,1\n,d3,1\n",
        "run.csv:2: the doc id is empty, expected an id",
        "run.csv:3: the query id is empty",
        name="run.csv",
    ),
    # Pairs that come twice
    run(
        "duplicates-refused",
        RUN + b"q2 Q0 d3 3 0.05 t\n",
        'query "q2", doc "d3": returned more than once',
        "expected each doc once",
        "Remove the repeats",
        args=("--duplicates", "error"),
    ),
    run(
        "duplicates-refused-log",
        log('{"chunk_id": "d1"}', '{"chunk_id": "d1"}'),
        'query "q1", doc "d1"',
        name="run.jsonl",
        args=("--duplicates", "error"),
    ),
    gold(
        "two-grades",
        GOLD + b"q1 0 d1 2\n",
        'qrels.txt:4: query "q1", doc "d1" is judged 2 here and 1 at line 1; expected one grade: remove one',
    ),
    gold(
        "two-grades-csv",
        b"query_id,doc_id,grade\nq1,d1,1\nq2,d3,2\nq1,d1,2\n",
        'qrels.csv:4: query "q1", doc "d1" is judged 2 here and 1 at line 2',
        name="qrels.csv",
    ),
    gold(
        "two-grades-jsonl",
        b'{"qid": "q1", "doc": "d1", "rel": 1}\n\n{"qid": "q1", "doc": "d1", "rel": 2}\n',
        'qrels.jsonl:3: query "q1", doc "d1" is judged 2 here and 1 at line 1',
        name="qrels.jsonl",
    ),
    gold(
        "two-grades-json",
        b'{"q1": {"d1": 1, "d1": 2}}',
        'qrels.json: "d1" appears twice, with 1 and with 2',
        name="qrels.json",
    ),
    gold(
        "two-grades-parquet",
        parquet(query_id=["q1", "q1"], doc_id=["d1", "d1"], grade=[1, 2]),
        'qrels.parquet: query "q1", doc "d1" is judged 1 in row 1 and 2 in row 2',
        name="qrels.parquet",
    ),
    # Files that are no files, or hold nothing
    run("empty", b"", "run.txt: is empty", TREC_RUN),
    run("mark-only", b"\xef\xbb\xbf", "run.txt: is empty", TREC_RUN),
    run("blank-lines", b"\n\n  \n", "run.txt: holds no rows", TREC_RUN),
    run("comments-only", b"# one\n# two\n", "run.txt: holds no rows", TREC_RUN),
    gold("empty-gold", b"", "qrels.txt: is empty", TREC_QRELS),
    gold("blank-lines-gold", b"\n \n", "qrels.txt: holds no rows", TREC_QRELS),
    gold("comments-only-gold", b"# one\n", "qrels.txt: holds no rows", TREC_QRELS),
    run("folder", None, "run.txt: is a directory, expected a file"),
    gold("folder-gold", None, "qrels.txt: is a directory, expected a file"),
    Case("missing-file", ("qrels.txt", "rum.txt"), BASE, ("rum.txt: no such file; did you mean 'run.txt'?",)),
    Case("missing-far", ("qrels.txt", "none.txt"), BASE, ("none.txt: no such file; check the path",)),
    Case("missing-gold", ("qrel.txt", "run.txt"), BASE, ("qrel.txt: no such file; did you mean 'qrels.txt'?",)),
    Case("missing-folder", ("qrels.txt", "runs/x"), BASE, ("runs/x: no such file; the folder 'runs' does not exist",)),
    Case("glob-of-nothing", ("qrels.txt", "*.run"), BASE, ("*.run: no file matches", "check the folder")),
    Case("stdin-empty", ("qrels.txt", "-"), BASE, ("-: standard input is empty",)),
    Case("stdin-twice", ("-", "-"), {}, ("-: standard input", "read already", "at most one"), stdin=RUN),
    # Bytes that are no text
    run("latin-1", RUN.replace(b"d3", b"d\xe93"), "run.txt:3: not UTF-8 near", "expected UTF-8", "iconv"),
    gold("latin-1-gold", GOLD.replace(b"d3", b"d\xe93"), "qrels.txt:3: not UTF-8 near", "iconv"),
    run("latin-1-csv", b"query_id,doc_id,score\nq1,d\xe9,1\n", "run.csv:2: not UTF-8", "iconv", name="run.csv"),
    run("tsv-score", b"query-id\tcorpus-id\tscore\nq1\td1\thigh\n", "r.tsv:2: score must be", "high", name="r.tsv"),
    run("latin-1-jsonl", ROW + ROW.replace(b"d1", b"d\xe9"), "run.jsonl:2: not UTF-8", "iconv", name="run.jsonl"),
    run("utf-16", RUN.decode().encode("utf-16"), "run.txt: is UTF-16 text", "expected", "UTF-8", "iconv"),
    run("nul-byte", RUN.replace(b"d3", b"d\x003"), "run.txt:3: found a NUL byte", TREC_RUN),
    run(
        "nul-byte-late", LONG_RUN + b"q9999 Q0 d\x003 1 0.9 t\n", 'run.txt:20001: the doc id "d\\x003" holds a NUL byte'
    ),
    run("png", PNG, "run.txt:3: found a NUL byte: a binary file", TREC_RUN),
    run("elf", b"\x7fELF\x02\x01\x01" + bytes(9), "run.txt:1: found a NUL byte: a binary file", TREC_RUN),
    run("zip", b"PK\x03\x04\x14" + bytes(range(256)), "run.txt: is a ZIP file", TREC_RUN),
    run("pdf", b"%PDF-1.7\n1 0 obj\n", "run.txt: is a PDF file", TREC_RUN),
    gold("png-gold", PNG, "qrels.txt:3: found a NUL byte", TREC_QRELS),
    run("png-forced", PNG, "run.txt:3: found a NUL byte", args=("--run-format", "trec")),
    # Files that are something else
    Case("swapped", ("run.txt", "qrels.txt"), BASE, ("qrels.txt:1: found 4 columns", "looks like qrels", "swap gold")),
    Case("gold-as-run", ("qrels.txt", "qrels.txt"), BASE, ("qrels.txt:1: found 4", "looks like qrels", "swap gold")),
    Case("run-as-gold", ("run.txt", "run.txt"), BASE, ("run.txt:1: found 6 columns", "looks like a run", "swap gold")),
    run(
        "gold-as-run-csv",
        b"query_id,doc_id,grade\nq1,d1,1\n",
        "run.csv:1: no score column",
        "looks like gold",
        name="run.csv",
    ),
    gold(
        "log-as-gold",
        b'{"query_id": "q1", "topk": [{"doc_id": "d1"}]}\n' * 30,
        "g.jsonl:1: expected TREC qrels",
        'found "query_id", "topk"',
        "looks like a run log: did you swap gold",
        name="g.jsonl",
    ),
    gold(
        "queries-as-gold",
        b'{"_id": "q1", "text": "who?"}\n' * 30,
        'found "_id", "text"',
        "looks like a table of queries or docs: give it as queries or corpus",
        name="g.jsonl",
    ),
    run(
        "log-with-results-of-another-name",
        b'{"query_id": "q1", "results": [{"doc_id": "d1", "score": 1}]}\n' * 30,
        "r.jsonl:1: ",
        "looks like a run log: write its results as 'topk', not as \"results\"",
        name="r.jsonl",
    ),
    run(
        "queries-as-run",
        b'{"query_id": "q1", "text": "who?", "language": "en"}\n' * 30,
        "r.jsonl:1: ",
        "looks like a table of queries or docs",
        name="r.jsonl",
    ),
    run(
        "gold-as-run-jsonl",
        b'{"query_id": "q1", "doc_id": "d1", "grade": 1}\n' * 30,
        "looks like gold: did you swap",
        name="r.jsonl",
    ),
    option(
        "format-unknown", ("--run-format", "jsnol"), "run_format must be one of", "'jsnol'", "did you mean 'jsonl'?"
    ),
    option(
        "format-unknown-gold",
        ("--qrels-format", "xml"),
        f"qrels_format must be one of {', '.join(format_names('qrels'))}",
        "'xml'",
    ),
    option("format-csv-forced", ("--run-format", "csv"), "run.txt:1: no header", "q1 Q0 d2", "query_id,doc_id,score"),
    option(
        "format-jsonl-forced", ("--run-format", "jsonl"), "run.txt:1: not JSON", "q1 Q0 d2", "one JSON object per line"
    ),
    gold(
        "cases-without-ids",
        b'[\n{"text": "Krampf", "expected_ids": []}]',
        "qrels.txt:2: case",
        "expected_ids must hold at least one id",
    ),
    option(
        "format-json-forced", ("--qrels-format", "json"), "qrels.txt:1: not JSON", "q1 0 d1", "{query: {doc: value}}"
    ),
    option("format-parquet-forced", ("--run-format", "parquet"), "run.txt: cannot be read as Parquet"),
    run(
        "format-trec-forced",
        b"query_id,doc_id,score\nq1,d1,1\n",
        "run.csv:1: found 1 column",
        TREC_RUN,
        name="run.csv",
        args=("--run-format", "trec"),
    ),
    # Metrics
    option("metric-unknown", ("-m", "ndgc@10"), "unknown metric 'ndgc@10'; did you mean 'ndcg@10'?"),
    option("metric-unknown-far", ("-m", "zzz"), "unknown metric 'zzz'", "karat metrics"),
    option("metric-parameter", ("-m", "ndcg(gian=exp)@10"), "no parameter 'gian'", "did you mean 'gain'?"),
    option("metric-choice", ("-m", "ndcg(gain=cubic)@10"), "gain must be one of linear, exp", "'cubic'"),
    option("metric-range", ("-m", "rbp(p=1.5)"), "'rbp(p=1.5)': p must be above 0 and below 1, found '1.5'"),
    option("metric-parameter-word", ("-m", "recall(rel=x)@5"), "rel must be a number, found 'x'"),
    option("metric-no-value", ("-m", "recall(rel=)@5"), "expected parameters as name=value, found 'rel='"),
    option("k-0", ("-m", "ndcg@0"), "'ndcg@0': the cutoff must be an integer from 1, found 0"),
    option("k-negative", ("-m", "ndcg@-1"), "'ndcg@-1': the cutoff must be an integer from 1, found -1"),
    option("k-fraction", ("-m", "ndcg@1.5"), "'ndcg@1.5': the cutoff must be an integer from 1, found 1.5"),
    option("k-missing", ("-m", "ndcg@"), "'ndcg@': the cutoff must be", "found ''"),
    option("k-word", ("-m", "ndcg@ten"), "'ndcg@ten': the cutoff must be", "found 'ten'"),
    option("k-not-taken", ("-m", "rprec@5"), "rprec takes no cutoff; write 'rprec'"),
    option(
        "bracket-not-closed", ("-m", "ndcg(gain=exp@10"), "cannot read metric 'ndcg(gain=exp@10'", "expected a name"
    ),
    option("brace-not-closed", ("-m", "ndcg@{1,2"), "'ndcg@{1,2'", "found '{1,2'"),
    option("metric-empty", ("-m", ""), "no metric was named; expected a name such as 'ndcg@10'"),
    option("ks-word", ("-m", "ndcg", "-k", "five"), "cutoffs must be integers such as 1,3,5, found 'five'"),
    option("ks-0", ("-m", "ndcg", "-k", "0"), "ks must be integers from 1, found 0"),
    # Options
    option("like", ("--like", "trec"), "like must be one of trec_eval", "'trec'", "did you mean 'trec_eval'?"),
    option("level", ("--level", "para"), "level must be one of auto, chunk, doc, found 'para'"),
    option("missing", ("--missing", "drop"), "missing must be one of zero, skip, found 'drop'"),
    option("duplicates", ("--duplicates", "last"), "duplicates must be one of first, error, found 'last'"),
    option("precision", ("--score-precision", "float16"), "must be one of float64, float32, found 'float16'"),
    option("stage", ("--stage", ""), "stage must be at least one character"),
    option("threads-0", ("--threads", "0"), "threads must be an integer from 1, found 0"),
    option("threads-word", ("--threads", "two"), "--threads", "whole number"),
    option("memory", ("--memory", "lots"), "memory must be a size such as 2GB", "'lots'"),
    option("memory-unit", ("--memory", "2XB"), "memory must be a size such as 2GB", "'2XB'"),
    option("unknown-option", ("--metrix", "ndcg"), "--metrix", "--metric"),
    Case("no-run", ("qrels.txt",), BASE, ("RUN",)),
    option("stage-of-trec", ("--stage", "retrieve"), "run: stage needs a run log (JSONL with topk)"),
    option("as-of-of-trec", ("--as-of-filter",), "run: as_of_filter needs a run log (JSONL with topk)"),
    # JSON Lines
    run("jsonl-breaks-off", ROW + ROW[:-12], "run.jsonl:2: the JSON breaks off", "one JSON object", name="run.jsonl"),
    run("jsonl-array", ROW + b'["q1", "d1", 1]\n', "run.jsonl:2: expected a JSON object", '["q1"', name="run.jsonl"),
    run("jsonl-array-first", b'["q1", "d1", 1]\n' + ROW, "run.jsonl:1: expected a JSON object", name="run.jsonl"),
    run("jsonl-word", ROW + b"hello\n", 'run.jsonl:2: not JSON at "hello"', name="run.jsonl"),
    run(
        "jsonl-spread",
        json.dumps(json.loads(ROW), indent=1).encode(),
        "run.jsonl:1: JSON spread over several lines",
        "one JSON object per line",
        name="run.jsonl",
    ),
    run(
        "jsonl-no-doc",
        ROW + b'{"query_id": "q1", "score": 1}\n',
        "run.jsonl:2: doc id must be text or an integer",
        "'doc_id'",
        "found nothing",
        name="run.jsonl",
    ),
    run(
        "jsonl-no-score",
        b'{"query_id": "q1", "doc_id": "d2"}\n',
        f"run.jsonl:1: {FINITE}",
        "found nothing",
        name="run.jsonl",
    ),
    run(
        "jsonl-score-text", ROW.replace(b": 1}", b': "1.5"}'), f"run.jsonl:1: {FINITE}", 'found "1.5"', name="run.jsonl"
    ),
    run(
        "jsonl-score-nan",
        ROW + ROW.replace(b": 1}", b": NaN}"),
        'run.jsonl:2: numbers must be finite, found "NaN"',
        name="run.jsonl",
    ),
    run("jsonl-score-1e999", ROW.replace(b": 1}", b": 1e999}"), "run.jsonl:1: a number is too large", name="run.jsonl"),
    run(
        "jsonl-score-400-digits",
        ROW.replace(b": 1}", b": " + b"9" * 400 + b"}"),
        "run.jsonl:1: score must be a finite number",
        "found 999",
        name="run.jsonl",
    ),
    run(
        "jsonl-float-id",
        ROW.replace(b'"d1"', b"1.5"),
        "run.jsonl:1: doc id must be text or an integer",
        "found 1.5",
        name="run.jsonl",
    ),
    run("jsonl-too-deep", b'{"a": ' * 3000 + b"1" + b"}" * 3000, "run.jsonl:1: nested too deeply", name="run.jsonl"),
    gold(
        "jsonl-grade-word",
        b'{"query_id": "q1", "doc_id": "d2", "grade": "high"}\n',
        "qrels.jsonl:1: grade must be a finite number",
        'found "high"',
        name="qrels.jsonl",
    ),
    # Run logs
    run(
        "log-breaks-off",
        log() + log(query='"q2"')[:-9],
        "run.jsonl:2: the JSON breaks off",
        "query_id and topk",
        name="run.jsonl",
    ),
    run("log-array", log() + b"[1]\n", "run.jsonl:2: found a list", "query_id and topk", name="run.jsonl"),
    run(
        "log-rank-word",
        log('{"rank": "first", "chunk_id": "d1"}'),
        'run.jsonl:1: topk item 1: rank must be an integer from 1, found "first"',
        name="run.jsonl",
    ),
    run(
        "log-rank-0",
        log('{"chunk_id": "d1", "rank": 1}', '{"chunk_id": "d2", "rank": 0}'),
        "run.jsonl:1: topk item 2: rank must be an integer from 1, found 0",
        name="run.jsonl",
    ),
    run(
        "log-rank-twice",
        log('{"rank": 1, "chunk_id": "d1"}', '{"rank": 1, "chunk_id": "d2"}'),
        "run.jsonl:1: rank 1 appears twice; expected each rank once",
        name="run.jsonl",
    ),
    run(
        "log-rank-partly",
        log('{"rank": 1, "chunk_id": "d1"}', '{"chunk_id": "d2"}'),
        "run.jsonl:1: 1 of 2 results have no rank; give all or none",
        name="run.jsonl",
    ),
    run(
        "log-query-twice",
        log() + log(),
        'run.jsonl:2: query "q1" already appears at line 1; expected it once',
        name="run.jsonl",
    ),
    run(
        "log-float-id",
        log('{"chunk_id": 1.5}'),
        "run.jsonl:1: topk item 1: chunk_id must be text or an integer",
        "found 1.5",
        name="run.jsonl",
    ),
    run(
        "log-float-doc",
        log('{"chunk_id": "c", "doc_id": 1.5}'),
        "topk item 1: doc_id must be text or an integer",
        "found 1.5",
        name="run.jsonl",
    ),
    run(
        "log-float-query",
        log(query="1.5"),
        "run.jsonl:1: query_id must be text or an integer, found 1.5",
        name="run.jsonl",
    ),
    run(
        "log-no-query",
        b'{"topk": []}\n',
        "run.jsonl:1: query_id must be text or an integer, found nothing",
        name="run.jsonl",
    ),
    run("log-no-topk", log() + b'{"query_id": "q2"}\n', "run.jsonl:2: no topk; expected a list", name="run.jsonl"),
    run("log-no-id", log('{"rank": 1}'), "run.jsonl:1: topk item 1: no chunk_id and no doc_id", name="run.jsonl"),
    run(
        "log-score-word",
        log('{"chunk_id": "d1", "score": "high"}'),
        f'run.jsonl:1: topk item 1: {FINITE}, found "high"',
        name="run.jsonl",
    ),
    run(
        "log-number-too-large-in-another-field",
        log(more=', "mine": 1e999'),
        "run.jsonl:1: a number is too large",
        name="run.jsonl",
    ),
    run(
        "log-topk-of-texts",
        log('"d1"'),
        'run.jsonl:1: topk item 1: expected an object, such as {"doc_id": "d1"}, found text',
        name="run.jsonl",
    ),
    run(
        "log-topk-text",
        b'{"query_id": "q1", "topk": "d1"}\n',
        'run.jsonl:1: topk: expected a list, such as [{"doc_id": "d1"}], found text',
        name="run.jsonl",
    ),
    run(
        "log-stage-unknown",
        log(more=', "stages": {"retrieve": ["d1"]}'),
        'run.jsonl:1: no stage "rerank"',
        '"retrieve"',
        name="run.jsonl",
        args=("--stage", "rerank"),
    ),
    run(
        "log-without-stages",
        log(),
        'run.jsonl:1: no stage "rerank"',
        "no stages",
        name="run.jsonl",
        args=("--stage", "rerank"),
    ),
    run(
        "log-stage-float-id",
        log(more=', "stages": {"retrieve": [1.5]}'),
        'stage "retrieve" must be a list of ids',
        "found 1.5",
        name="run.jsonl",
        args=("--stage", "retrieve"),
    ),
    run(
        "log-as-of-without-queries",
        log(),
        "as_of_filter needs queries with an as_of field",
        name="run.jsonl",
        args=("--as-of-filter",),
    ),
    # JSON
    run(
        "json-list",
        b'[{"q1": {"d1": 1}}]',
        "run.json: expected a JSON object {query: {doc: value}}",
        "JSONL",
        name="run.json",
    ),
    gold("json-list-gold", b"[1]", "qrels.json: expected a JSON object", 'found "[1]"', name="qrels.json"),
    run("json-empty", b"{}", "run.json: is empty, expected results as {query: {doc: score}}", name="run.json"),
    gold("json-empty-gold", b"{}", "qrels.json: is empty, expected judgments as", name="qrels.json"),
    run(
        "json-breaks-off",
        b'{"q1": {"d1": 1,\n',
        "run.json: the JSON breaks off",
        "{query: {doc: value}}",
        name="run.json",
    ),
    run("json-broken", b'{"q1": {"d1": 1},\n"q2" {}}', 'run.json:2: not JSON at "{}}"', name="run.json"),
    run("json-score-text", b'{"q1": {"d1": "x"}}', f'query "q1", doc "d1": {FINITE}, found "x"', name="run.json"),
    run(
        "json-number",
        b'{"q1": 5}',
        'run.json: query "q1": expected a dict of scores or a list',
        "found 5",
        name="run.json",
    ),
    run(
        "json-mixed",
        b'{"q1": {"d1": 1}, "q2": ["d3"]}',
        "run.json: some queries have scores and some have lists",
        name="run.json",
    ),
    run(
        "json-log-spread",
        b'{\n"query_id": "q1",\n"topk": []}',
        "run.json: looks like one line of a run log",
        "JSONL",
        name="run.json",
    ),
    # Parquet
    run(
        "parquet-no-score",
        parquet(query_id=["q1"], doc_id=["d1"], points=[1.0]),
        "run.parquet: no score column",
        "score, sim",
        '"points"',
        name="run.parquet",
    ),
    run(
        "parquet-null-score",
        parquet(query_id=["q1", "q1"], doc_id=["d1", "d2"], score=[1.0, None]),
        f"run.parquet: row 2: {FINITE}, found NaN or null",
        name="run.parquet",
    ),
    run(
        "parquet-null-id",
        parquet(query_id=["q1", "q1"], doc_id=["d1", None], score=[1.0, 2.0]),
        "run.parquet: row 2: the doc id is empty or null",
        name="run.parquet",
    ),
    run(
        "parquet-nul-in-id",
        parquet(query_id=["q1"], doc_id=["d1\x00"], score=[1.0]),
        "run.parquet: row 1: the doc id holds a NUL byte",
        name="run.parquet",
    ),
    run(
        "parquet-float-ids",
        parquet(query_id=["q1"], doc_id=[1.5], score=[1.0]),
        "run.parquet: doc ids in column 'doc_id' are DOUBLE, expected text or integers",
        name="run.parquet",
    ),
    run(
        "parquet-list-ids",
        parquet(query_id=["q1"], doc_id=[["d1"]], score=[1.0]),
        "doc ids in column 'doc_id' are VARCHAR[]",
        name="run.parquet",
    ),
    run(
        "parquet-text-scores",
        parquet(query_id=["q1"], doc_id=["d1"], score=["high"]),
        "run.parquet: the score column 'score' is VARCHAR, expected numbers",
        name="run.parquet",
    ),
    run(
        "parquet-no-rows",
        parquet(query_id=pa.array([], pa.string()), doc_id=pa.array([], pa.string()), score=pa.array([], pa.float64())),
        "run.parquet: has no rows",
        name="run.parquet",
    ),
    run(
        "parquet-is-text",
        b"hello world\n",
        "run.parquet:1: found 2 columns",
        "hello world",
        TREC_RUN,
        name="run.parquet",
    ),
    run(
        "parquet-truncated",
        PARQUET[:-30],
        "run.parquet: cannot be read as Parquet",
        "copy or write",
        name="run.parquet",
    ),
    run("parquet-only-magic", PARQUET[:4], "run.parquet: cannot be read as Parquet", name="run.parquet"),
    run(
        "parquet-in-gzip",
        gzip.compress(PARQUET),
        "run.parquet.gz: Parquet is read from plain files",
        "unpack",
        name="run.parquet.gz",
    ),
    Case("parquet-on-stdin", ("qrels.txt", "-"), BASE, ("-: Parquet is read from plain files",), stdin=PARQUET),
    # Tables of queries
    queries(
        "queries-twice",
        b'{"_id": "q1"}\n{"_id": "q1"}\n',
        'q.jsonl:2: query "q1" already appears at line 1',
        "expected each query once",
        name="q.jsonl",
    ),
    queries(
        "queries-twice-csv", b'query_id,text\nq1,"a\nb"\n\nq1,c\n', 'q.csv:5: query "q1" already appears at line 2'
    ),
    queries("queries-no-id", b'{"text": "a"}\n', "q.jsonl:1: no query id; expected one of _id, id", name="q.jsonl"),
    queries(
        "queries-float-id", b'{"_id": 1.5}\n', "q.jsonl:1: _id must be text or an integer, found 1.5", name="q.jsonl"
    ),
    queries("queries-break-off", b'{"_id": "q1"}\n{"_id":', "q.jsonl:2: the JSON breaks off", name="q.jsonl"),
    queries("queries-array", b'{"_id": "q1"}\n[1]\n', 'q.jsonl:2: expected a JSON object, found "[1]"', name="q.jsonl"),
    queries("queries-empty", b"", "q.csv: is empty, expected a table of queries"),
    queries("queries-blank", b"\n\n", "q.csv: is empty, expected a table of queries"),
    queries("queries-columns", b"query_id,text\nq1,a,b\n", "q.csv:2: found 3 columns, expected 2 (query_id, text)"),
    queries("topic-open", b"<top>\n<num> q1\n", "q.xml:1: this topic has no </top>", "write it again", name="q.xml"),
    queries("queries-latin-1", b"query_id,text\nq1,\xe9\n", "q.csv:2: not UTF-8", "iconv"),
    queries("queries-parquet-truncated", PARQUET[:-30], "q.parquet: cannot be read as Parquet", name="q.parquet"),
    Case("queries-missing", ("qrels.txt", "run.txt", "--queries", "q.csv"), BASE, ("q.csv: no such file",)),
    # Outputs
    option("per-query-ending", ("--per-query", "out.xlsx"), "out.xlsx: --per-query must end in one of .csv"),
    option("per-query-folder", ("--per-query", "run.txt/out.csv"), "run.txt/out.csv: its folder cannot be made"),
    option("json-folder", ("--json", "run.txt/out.json"), "run.txt/out.json: its folder cannot be made"),
    option("save-folder", ("--save", "run.txt/out.json"), "run.txt/out.json: its folder cannot be made"),
    Case(
        "json-to-folder",
        ("qrels.txt", "run.txt", "--json", "out"),
        {**BASE, "out": None},
        ("out: cannot be written (Is a directory)",),
    ),
]

UNICODE_GOLD = 'q1 0 dé1 1\nqü 0 🦊 1\nq3 0 مستند 1\nq4 0 d"4" 1\nq5 0 d\u00a05 1\n'.encode()
UNICODE_RUN = 'q1 Q0 dé1 1 1 t\nqü Q0 🦊 1 1 t\nq3 Q0 مستند 1 1 t\nq4 Q0 d"4" 1 1 t\nq5 Q0 d\u00a05 1 1 t\n'.encode()

READ = [
    odd("plain", {}),
    odd("gzip", {"run.gz": gzip.compress(RUN)}, ("qrels.txt", "run.gz")),
    odd("gzip-of-two-parts", {"run.gz": gzip.compress(RUN[:34]) + gzip.compress(RUN[34:])}, ("qrels.txt", "run.gz")),
    odd("zstd", {"run.zst": zstandard.compress(RUN)}, ("qrels.txt", "run.zst")),
    odd(
        "zstd-of-two-frames",
        {"run.zst": zstandard.compress(RUN[:34]) + zstandard.compress(RUN[34:])},
        ("qrels.txt", "run.zst"),
    ),
    odd("crlf", {"qrels.txt": GOLD.replace(b"\n", b"\r\n"), "run.txt": RUN.replace(b"\n", b"\r\n")}),
    odd("byte-order-mark", {"qrels.txt": b"\xef\xbb\xbf" + GOLD, "run.txt": b"\xef\xbb\xbf" + RUN}),
    odd("tabs-and-spaces", {"qrels.txt": GOLD.replace(b" ", b"\t"), "run.txt": RUN.replace(b" ", b" \t  ")}),
    odd(
        "spaces-around-lines",
        {"qrels.txt": b"  " + GOLD.replace(b"\n", b"  \n "), "run.txt": RUN.replace(b"\n", b" \t\n ")},
    ),
    odd("no-last-newline", {"qrels.txt": GOLD[:-1], "run.txt": RUN[:-1]}),
    odd(
        "comments-between",
        {
            "qrels.txt": b"# c\n" + GOLD.replace(b"q2", b"# c\nq2"),
            "run.txt": b"# c\n" + RUN.replace(b"q2", b"#c d\n\nq2", 1) + b"# end",
        },
    ),
    odd("other-numbers", {"run.txt": RUN.replace(b"0.9", b"+9.e-1").replace(b"0.1", b".1")}),
    odd("unicode-ids", {"qrels.txt": UNICODE_GOLD, "run.txt": UNICODE_RUN}, mean=1, queries=5),
    odd(
        "unicode-ids-after-comment",
        {"qrels.txt": b"# c\n" + UNICODE_GOLD, "run.txt": b"# c\n" + UNICODE_RUN},
        mean=1,
        queries=5,
    ),
    odd(
        "csv-quotes",
        {
            "g.csv": b'query_id,doc_id,grade\n"q,1","d ""one"", a",1\n',
            "r.csv": b'query_id,doc_id,score\r\n"q,1","d ""one"", a",1\r\n',
        },
        ("g.csv", "r.csv"),
        mean=1,
        missing=0,
    ),
    odd(
        "csv-spaces-around-cells",
        {"r.csv": b"query_id, doc_id, score\nq1, d2, 3\nq1 ,d1 ,2\nq2 , d3 , 1\n"},
        ("qrels.txt", "r.csv"),
    ),
    odd("csv-semicolons", {"r.csv": b"qid;docno;sim\nq1;d2;2\nq1;d1;1\nq2;d3;1\n"}, ("qrels.txt", "r.csv")),
    odd("csv-blank-lines", {"r.csv": b"qid,docno,sim\n\nq1,d2,2\n\nq1,d1,1\nq2,d3,1\n"}, ("qrels.txt", "r.csv")),
    odd("duplicates-counted", {"run.txt": RUN + b"q2 Q0 d3 3 0.05 t\nq2 Q0 d3 4 0.01 t\n"}, mean=MEAN, duplicates=2),
    odd("judged-twice-alike", {"qrels.txt": GOLD + b"q1 0 d1 1\n"}),
    odd(
        "judged-twice-alike-json",
        {"g.json": b'{"q1": {"d1": 1, "d1": 1, "d2": 0}, "q2": {"d3": 2}}'},
        ("g.json", "run.txt"),
    ),
    odd("stdin", {}, ("qrels.txt", "-"), stdin=RUN, mean=MEAN, name="stdin"),
    odd("stdin-gold", {}, ("-", "run.txt"), stdin=GOLD),
    odd("stdin-gzip", {}, ("qrels.txt", "-"), stdin=gzip.compress(RUN)),
    odd("stdin-zstd", {}, ("qrels.txt", "-"), stdin=zstandard.compress(RUN)),
    odd(
        "json-dicts",
        {"g.json": b'{"q1": {"d1": 1}}', "r.json": b'{"q1": {"d1": 0.5, "d2": 1}}'},
        ("g.json", "r.json"),
        mean=1 / math.log2(3),
    ),
    odd(
        "json-lists",
        {"g.json": b'{"q1": ["d1"]}', "r.json": b'{"q1": ["d2", "d1"]}'},
        ("g.json", "r.json"),
        mean=1 / math.log2(3),
    ),
    odd("json-without-its-ending", {"run.txt": b'{"q1": {"d1": 0.5, "d2": 1}, "q2": {"d3": 1}}'}),
    odd(
        "jsonl-called-json",
        {
            "r.json": log('"x"').replace(b'"x"', b'{"chunk_id": "d2"}, {"chunk_id": "d1"}')
            + log('{"chunk_id": "d3"}', query='"q2"')
        },
        ("qrels.txt", "r.json"),
    ),
    odd(
        "log-integer-ids",
        {"qrels.txt": b"1 0 7 1\n", "r.jsonl": log('{"chunk_id": 7}', query="1")},
        ("qrels.txt", "r.jsonl"),
        mean=1,
        missing=0,
    ),
    odd(
        "log-rank-gaps",
        {"r.jsonl": log('{"rank": 3, "chunk_id": "d2"}', '{"rank": 7, "chunk_id": "d1"}')},
        ("qrels.txt", "r.jsonl"),
        mean=1 / math.log2(3) / 2,
        notes=["1 line has gaps in its ranks; positions were renumbered from 1"],
    ),
    odd(
        "log-ranks-over-scores",
        {"r.jsonl": log('{"rank": 2, "chunk_id": "d1", "score": 9}', '{"rank": 1, "chunk_id": "d2"}')},
        ("qrels.txt", "r.jsonl"),
        mean=1 / math.log2(3) / 2,
    ),
    odd("log-nothing-found", {"r.jsonl": log() + log(query='"q2"')}, ("qrels.txt", "r.jsonl"), mean=0, missing=0),
    odd(
        "log-stage",
        {"r.jsonl": log(more=', "stages": {"retrieve": ["d1"]}')},
        ("qrels.txt", "r.jsonl", "--stage", "retrieve"),
        mean=0.5,
        missing=1,
    ),
    odd("parquet", {"r.parquet": PARQUET}, ("qrels.txt", "r.parquet")),
    odd(
        "parquet-integer-ids",
        {"qrels.txt": b"1 0 7 1\n", "r.parquet": parquet(qid=[1], docid=[7], score=[1])},
        ("qrels.txt", "r.parquet"),
        mean=1,
        missing=0,
    ),
    odd("text-called-parquet", {"r.parquet": RUN}, ("qrels.txt", "r.parquet")),
    odd("glob", {"a.run": RUN, "b.run": RUN}, ("qrels.txt", "*.run"), mean=MEAN, names=["a", "b"]),
    odd(
        "one-stem-two-folders",
        {"a/r.txt": RUN, "b/r.txt": RUN},
        ("qrels.txt", "a/r.txt", "b/r.txt"),
        names=["a/r", "b/r"],
    ),
    odd("one-stem-two-endings", {"run.tsv": RUN}, ("qrels.txt", "run.txt", "run.tsv"), names=["run.txt", "run.tsv"]),
    odd("one-file-named-twice", {}, ("qrels.txt", "run.txt", "./run.txt"), names=["run"]),
    odd("a-query-without-rows", {"run.txt": RUN[:34]}, mean=1 / math.log2(3) / 2, missing=1, without_gold=0),
    odd(
        "a-query-without-rows-skipped",
        {"run.txt": RUN[:34]},
        ("qrels.txt", "run.txt", "--missing", "skip"),
        mean=1 / math.log2(3),
        missing=1,
    ),
    odd(
        "queries-metadata-null",
        {"q.jsonl": b'{"_id": "q1", "metadata": null}\n'},
        ("qrels.txt", "run.txt", "--queries", "q.jsonl"),
    ),
]


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def write(files: Mapping[str, bytes | None]) -> None:
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)


def arguments(case: Case) -> list[str]:
    """The case's arguments, with one metric and JSON on standard output where it asks for nothing else."""
    metric = () if "-m" in case.args else ("-m", "ndcg@10")
    return ["evaluate", *case.args, *metric, *(() if "--json" in case.args else ("--json", "-"))]


def called(arguments: list[str], stdin: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of the command line, run in this process."""
    monkeypatch.setattr(sys, "argv", ["karat", *arguments])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    try:
        main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0


def left() -> set[str]:
    """All files and folders here."""
    return {str(p) for p in Path().rglob("*")}


def check_refusal(case: Case, code: int, out: str, err: str) -> None:
    assert code == 2, err
    assert out == ""
    assert err.strip()
    assert "Traceback" not in err and "internal error" not in err and "NoneType" not in err
    for fragment in case.says:
        assert fragment in err
    if not err.startswith("Usage:"):
        assert all(line.startswith("karat: ") and len(line) < 300 for line in err.splitlines())


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.id)
def test_is_refused_with_a_reason(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(case.files)
    before = left()
    code = called(arguments(case), case.stdin, monkeypatch)
    out, err = capsys.readouterr()
    check_refusal(case, code, out, err)
    assert left() == before  # neither half an output nor a temporary file


@pytest.mark.parametrize("case", READ, ids=lambda c: c.id)
def test_is_read(case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write(case.files)
    code = called(arguments(case), case.stdin, monkeypatch)
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    runs = json.loads(out)["runs"]
    first = runs[0]
    known = {
        "mean": first["metrics"]["ndcg@10"]["mean"],
        "name": first["name"],
        "notes": first.get("notes"),
        "names": [r["name"] for r in runs],
        **first["counts"],
    }
    for key, value in case.gives.items():
        assert known[key] == (pytest.approx(value, abs=1e-11) if key == "mean" else value), key


def test_there_are_many_cases_each_with_its_own_name() -> None:
    cases = REFUSED + READ
    assert len({c.id for c in cases}) == len(cases) >= 200
    assert all(c.says for c in REFUSED) and all(c.gives for c in READ)


AS_PROCESS = [
    next(c for c in REFUSED + READ if c.id == id)
    for id in ("gzip-truncated", "score-nan", "metric-unknown", "stdin", "threads-0")
]


@pytest.mark.parametrize("case", AS_PROCESS, ids=lambda c: c.id)
def test_as_a_process(case: Case) -> None:
    write(case.files)
    done = subprocess.run([sys.executable, "-m", "karat", *arguments(case)], input=case.stdin, capture_output=True)
    out, err = done.stdout.decode(), done.stderr.decode()
    if case.code == 0:
        assert (done.returncode, err) == (0, "")
        assert json.loads(out)["runs"][0]["metrics"]["ndcg@10"]["mean"] == pytest.approx(MEAN, abs=1e-11)
    else:
        check_refusal(case, done.returncode, out, err)


@pytest.mark.parametrize(("count", "more"), [(19, False), (20, False), (21, True), (500, True)])
@pytest.mark.parametrize("name", ["run.txt", "run.jsonl", "run.parquet"])
def test_twenty_problems_are_shown(
    name: str, count: int, more: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "run.txt": b"".join(b"q1 Q0 d%d 1 x t\n" % i for i in range(count)),
        "run.jsonl": b"".join(b'{"query_id": "q1", "doc_id": "d%d"}\n' % i for i in range(count)),
        "run.parquet": parquet(
            query_id=["q1"] * count, doc_id=[str(i) for i in range(count)], score=pa.array([None] * count, pa.float64())
        ),
    }[name]
    write({"qrels.txt": GOLD, name: content})
    assert called(["evaluate", "qrels.txt", name, "--json", "-"], b"", monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == ""
    # All are wrong in one way, which is said once.
    problems = [line for line in err.splitlines() if line.startswith(f"karat: {name}:")]
    again = re.search(r"the same at (?:lines|rows) ([\d, ]+)\n", err)
    assert again is not None
    assert len(problems) == 1
    assert len(again[1].split(", ")) == min(count, 20) - 1
    assert ("and more (the first 20 are shown)" in err) == more


def test_a_stage_that_no_line_has_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        b'{"query_id": "q%d", "topk": [{"doc_id": "d1"}], "stages": {"retrieve": ["d1"]}}\n' % i for i in range(30)
    ]
    write({"qrels.txt": GOLD, "run.jsonl": b"".join(lines)})
    assert called(["evaluate", "qrels.txt", "run.jsonl", "--stage", "rerank"], b"", monkeypatch) == 2
    err = capsys.readouterr().err
    assert err.count("no stage") == 1
    assert "the same at lines 2, 3, 4" in err


def test_a_file_without_permission(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write(BASE)
    Path("run.txt").chmod(0)
    if os.geteuid() == 0:  # the superuser may read anything, so the refusal is played
        really = builtins.open

        def refuse(path: Any, *args: Any, **kwargs: Any) -> Any:
            if path == "run.txt":
                raise PermissionError(13, "Permission denied", path)
            return really(path, *args, **kwargs)

        monkeypatch.setattr(builtins, "open", refuse)
    code = called(["evaluate", "qrels.txt", "run.txt", "--json", "-"], b"", monkeypatch)
    monkeypatch.undo()
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "karat: run.txt: cannot be opened (Permission denied); check its permissions" in err


@pytest.mark.parametrize("option", ["--json", "--per-query", "--save"])
def test_a_folder_without_permission(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write({**BASE, "closed": None})
    Path("closed").chmod(0o500)
    if os.geteuid() == 0:

        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tempfile, "mkstemp", refuse)
    code = called(["evaluate", "qrels.txt", "run.txt", option, "closed/out.csv"], b"", monkeypatch)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "karat: closed/out.csv: cannot be written (Permission denied)" in err
    assert os.listdir("closed") == []


# The library: the same errors, as exceptions.

NAN = math.nan
DICT_GOLD: dict[str, dict[str, float]] = {"q1": {"d1": 1}}
DICT_RUN = {"q1": {"d1": 1.0}}


def evaluated(gold: Any = DICT_GOLD, run: Any = DICT_RUN, metrics: Any = "ndcg@10", **options: Any) -> object:
    return karat.evaluate(gold, run, metrics, cache=False, **options)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"query_id": ["q1"], "doc_id": ["d1"], "score": [1.0], **columns})


INPUT, USAGE, METRIC = karat.InputError, karat.UsageError, karat.MetricError
KINDS = "expected a path, a dict, a data frame or karat."
LIBRARY: list[tuple[str, Callable[[], object], type[karat.KaratError], str]] = [
    ("gold-int", lambda: evaluated(5), INPUT, f"qrels: {KINDS}Qrels, found int"),
    ("gold-none", lambda: evaluated(None), INPUT, "ndcg@10 needs gold, and there is none"),
    ("gold-list-of-dicts", lambda: evaluated([{"q1": "d1"}]), INPUT, f"qrels: {KINDS}Qrels, found list"),
    ("gold-empty", lambda: evaluated({}), INPUT, "qrels: is empty, expected judgments as {query: {doc: grade}}"),
    ("gold-missing-file", lambda: evaluated("nowhere"), INPUT, "nowhere: no such file; check the path"),
    ("gold-nan", lambda: evaluated({"q1": {"d1": NAN}}), INPUT, 'doc "d1": grade must be a finite number, found nan'),
    ("gold-huge", lambda: evaluated({"q1": {"d1": 10**400}}), INPUT, "grade must be a finite number, found 1000"),
    ("gold-text", lambda: evaluated({"q1": "d1"}), INPUT, 'query "q1": expected a dict of grades or a collection'),
    ("gold-float-id", lambda: evaluated({"q1": {1.5: 1}}), INPUT, "a doc id must be text or an integer, found 1.5"),
    ("gold-bytes-id", lambda: evaluated({"q1": {b"d": 1}}), INPUT, "a doc id must be text or an integer, found b'd'"),
    ("gold-two-grades", lambda: evaluated({"q1": {1: 1, "1": 2}}), INPUT, 'doc "1": judged twice, as 1 and as 2'),
    ("run-int", lambda: evaluated(run=5), INPUT, f"run: {KINDS}Run, found int"),
    ("run-none", lambda: evaluated(run=None), INPUT, f"run: {KINDS}Run, found NoneType"),
    ("run-list-of-dicts", lambda: evaluated(run=[{"q1": "d1"}]), INPUT, f"run: {KINDS}Run, found list"),
    ("run-empty", lambda: evaluated(run={}), INPUT, "run: is empty, expected results as {query: {doc: score}}"),
    ("run-nan", lambda: evaluated(run={"q1": {"d1": NAN}}), INPUT, f'query "q1", doc "d1": {FINITE}, found nan'),
    ("run-inf", lambda: evaluated(run={"q1": {"d1": math.inf}}), INPUT, f'query "q1", doc "d1": {FINITE}, found inf'),
    ("run-none-score", lambda: evaluated(run={"q1": {"d1": None}}), INPUT, f"{FINITE}, found nothing"),
    ("run-float-id", lambda: evaluated(run={"q1": {1.5: 1.0}}), INPUT, 'query "q1": a doc id must be text or an'),
    ("run-float-query", lambda: evaluated(run={1.5: {"d1": 1.0}}), INPUT, "a query id must be text or an integer"),
    (
        "run-set",
        lambda: evaluated(run={"q1": {"d1"}}),
        INPUT,
        "a set has no order; expected a list of docs, best first",
    ),
    ("run-mixed", lambda: evaluated(run={"q1": {"d1": 1.0}, "q2": ["d1"]}), INPUT, "expected one kind for all"),
    ("run-number", lambda: evaluated(run={"q1": 5}), INPUT, "expected a dict of scores or a list of docs, found 5"),
    ("run-pairs", lambda: evaluated(run={"q1": [("d1", 1.0)]}), INPUT, "must be text or an integer, found ('d1', 1.0)"),
    ("run-list-of-hits", lambda: evaluated(run={"q1": [{"id": "d1", "text": "x" * 999}]}), INPUT, "found {'id': 'd1'"),
    ("runs-one-bad", lambda: evaluated(run={"a": {"q1": {"d1": 1.0}}, "b": 5}), INPUT, "b: expected a path"),
    (
        "chroma-alone",
        lambda: evaluated(run={"ids": [["d1"]], "distances": [[1]]}),
        INPUT,
        "a result of Chroma for 1 query",
    ),
    ("chroma-none", lambda: evaluated(run={"q1": {"ids": None}}), INPUT, "ids must be a list of texts or integers"),
    ("chroma-float", lambda: evaluated(run={"q1": {"ids": [1.5]}}), INPUT, "ids must be a list of texts or integers"),
    ("chroma-batch", lambda: evaluated(run={"q1": {"ids": [["d1"], ["d2"]]}}), INPUT, "results of 2 queries"),
    ("chroma-metadata", lambda: evaluated(run={"q1": {"ids": ["d1"], "metadatas": [1]}}), INPUT, "metadatas must be"),
    ("frame-nan", lambda: evaluated(run=frame(score=[NAN])), INPUT, f"run: row 1: {FINITE}, found NaN or null"),
    ("frame-float-ids", lambda: evaluated(run=frame(doc_id=[1.5])), INPUT, "column 'doc_id' are DOUBLE, expected text"),
    ("frame-dates", lambda: evaluated(run=frame(doc_id=[pd.Timestamp(0)])), INPUT, "are TIMESTAMP"),
    ("frame-nul", lambda: evaluated(run=frame(doc_id=["d1\0"])), INPUT, "row 1: the doc id holds a NUL byte"),
    ("frame-text-scores", lambda: evaluated(run=frame(score=["1"])), INPUT, "is VARCHAR, expected numbers"),
    ("frame-columns", lambda: evaluated(run=pl.DataFrame({"a": [1]})), INPUT, "run: no query column; expected one of"),
    ("frame-empty", lambda: evaluated(run=frame().iloc[:0]), INPUT, "run: has no rows, expected at least one"),
    ("queries-int", lambda: evaluated(queries=5), INPUT, "queries: expected a path, a dict or a data frame, found int"),
    ("queries-float-id", lambda: evaluated(queries={1.5: {}}), INPUT, "queries: a query id must be text or an integer"),
    ("metrics-unknown", lambda: evaluated(metrics="ndgc@10"), METRIC, "did you mean 'ndcg@10'?"),
    ("metrics-empty", lambda: evaluated(metrics=[]), METRIC, "no metric was named"),
    ("metrics-of-ints", lambda: evaluated(metrics=[5]), METRIC, "named by text such as 'ndcg@10', found 5"),
    ("level", lambda: evaluated(level="page"), USAGE, "level must be one of auto, chunk, doc, found 'page'"),
    ("like", lambda: evaluated(like="trek_eval"), USAGE, "did you mean 'trec_eval'?"),
    ("stage", lambda: evaluated(stage="retrieve"), USAGE, "run: stage needs a run log"),
    ("memory", lambda: evaluated(memory="lots"), USAGE, "memory must be a size such as 2GB"),
    ("score-text", lambda: karat.score("mrr", "d1", {"d1"}), INPUT, "retrieved must be a list of doc ids, best first"),
    ("score-set", lambda: karat.score("mrr", {"d1"}, {"d1"}), INPUT, "best first, found a set"),  # type: ignore[arg-type]
    ("score-float-id", lambda: karat.score("mrr", [1.5], {"d1"}), INPUT, "must be text or an integer, found 1.5"),
    ("score-relevant-text", lambda: karat.score("mrr", ["d1"], "d1"), INPUT, "relevant must be a set or a dict"),
    ("score-nan", lambda: karat.score("mrr", ["d1"], {"d1": NAN}), INPUT, "grade must be a finite number, found nan"),
    ("score-two-metrics", lambda: karat.score("ndcg@{1,2}", ["d1"], {"d1"}), METRIC, "expected one metric, found 2"),
    ("hit-at-0", lambda: karat.hit_at_k(["d1"], {"d1"}, 0), METRIC, "the cutoff must be an integer from 1, found 0"),
]


@pytest.mark.parametrize(("call", "kind", "says"), [c[1:] for c in LIBRARY], ids=[c[0] for c in LIBRARY])
def test_the_library_refuses(call: Callable[[], object], kind: type[karat.KaratError], says: str) -> None:
    with pytest.raises(karat.KaratError) as caught:
        call()
    assert isinstance(caught.value, kind)
    assert says in str(caught.value)
    assert all(len(line) < 300 for line in str(caught.value).splitlines())


# What is known to go wrong outside of ingest: each test here fails as soon as it is mended, and then moves up.

NONSENSE: list[tuple[str, Callable[[], object]]] = [
    ("score-huge-in-run", lambda: evaluated(run={"q1": {"d1": 10**400}})),
    ("float-id-amid-text", lambda: evaluated(run={"q1": {"a": 3.0, 1.5: 2.0, "b": 1.0}})),
    ("text-as-score", lambda: evaluated(run={"q1": {"d1": "1.5"}})),
    ("metrics-int", lambda: evaluated(metrics=5)),
    ("ks-int", lambda: evaluated(metrics="ndcg", ks=5)),
    ("ks-texts", lambda: evaluated(metrics="ndcg", ks=["a"])),
    ("ks-nan", lambda: evaluated(metrics="ndcg", ks=[NAN])),
    ("like-int", lambda: evaluated(like=5)),
    ("memory-float", lambda: evaluated(memory=1.5)),
    ("memory-negative", lambda: evaluated(memory="-5")),
    ("memory-beyond-all-bounds", lambda: evaluated(memory="1e400GB")),
    ("score-none", lambda: karat.score("mrr", None, {"d1"})),  # type: ignore[arg-type]
    ("score-relevant-none", lambda: karat.score("mrr", ["d1"], None)),  # type: ignore[arg-type]
    ("score-metric-none", lambda: karat.score(None, ["d1"], {"d1"})),  # type: ignore[arg-type]
    ("per-query-not-asked-for", lambda: karat.evaluate(DICT_GOLD, DICT_RUN, "mrr").per_query("map")),
]


@pytest.mark.parametrize("call", [c[1] for c in NONSENSE], ids=[c[0] for c in NONSENSE])
def test_the_library_refuses_what_makes_no_sense(call: Callable[[], object]) -> None:
    with pytest.raises(karat.KaratError):
        call()


def test_a_run_log_with_broken_bytes_in_a_field_that_is_not_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"query_id": "q1", "system": "x", "note": "\xff", "topk": [{"doc_id": "a"}]}\n')
    with pytest.raises(karat.InputError, match=r"log\.jsonl:1: not UTF-8 near"):
        karat.evaluate({"q1": {"a": 1}}, path, "mrr")
