"""`karat validate` finds each planted defect at its place, and nothing in clean data."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import karat
from command import run_karat
from karat.verbs.validate.findings import quote_id
from karat.verbs.validate.overlap import fold, near_groups, quoted_words
from karat.verbs.validate.rules import LINT_RULES
from places import ROOT, SUPPORT

KETTLE = SUPPORT / "kettle"
DATA = ROOT.parent / "shared" / "data"
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schemas/validation.schema.json").read_text()))

PLANTS = (
    "amber basil cedar delta ember fjord grove heron inlet juniper kelp larch maple nettle otter pine quartz reed "
    "sage thyme umber violet willow yarrow zinc acorn birch clover daisy elm fern gorse hazel iris jasmine lotus"
)
WORDS = PLANTS.split()
"""Texts are made of words that no two of them share much of."""

Files = dict[str, str]
Change = Callable[[Files], Any]


def text(i: int, length: int) -> str:
    return " ".join(WORDS[(i * (k + 3) + k * k * 5) % len(WORDS)] + str(i) * (k == 0) for k in range(length))


def clean() -> Files:
    """12 queries, 24 docs, gold with grades 0 to 2, a TREC run and a run log: nothing is wrong with it."""
    judged = {i: [(i * 2 + k) % 24 for k in range(4)] for i in range(12)}
    gold = [f"q{i} 0 d{d} {(2, 1, 0, 0)[k]}" for i in judged for k, d in enumerate(judged[i])]
    # The third result of each query is not judged, so that gold is no run's top.
    listed = {i: [judged[i][1], judged[i][0], (i * 2 + 9) % 24, judged[i][2]] for i in judged}
    run = [f"q{i} Q0 d{d} {r} {9.5 - r} tag" for i in listed for r, d in enumerate(listed[i], start=1)]
    log = [
        {
            "query_id": f"q{i}",
            "index_version": "v1",
            "latency_ms": {"retrieve": 10 + i},
            "topk": [
                {"rank": r, "doc_id": f"d{d}", "score": 1 - r / 10, "doc_version": "2024-03-01"}
                for r, d in enumerate(reversed(listed[i]), start=1)
            ],
        }
        for i in listed
    ]
    queries = [{"_id": f"q{i}", "text": text(i, 7), "language": "en", "as_of": "2024-06-30"} for i in range(12)]
    corpus = [{"_id": f"d{i}", "title": f"title {i}", "text": text(i + 50, 20)} for i in range(24)]
    return {
        "gold.txt": "\n".join(gold) + "\n",
        "queries.jsonl": lines(queries),
        "bm25.run": "\n".join(run) + "\n",
        "dense.jsonl": lines(log),
        "corpus.jsonl": lines(corpus),
    }


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def found_in(folder: Path, files: Files, **options: Any) -> karat.Validation:
    for name, content in files.items():
        (folder / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    return karat.validate(files=[folder / name for name in files], **options)


def add(name: str, line: str) -> Change:
    return lambda files: files.update({name: files[name] + line + "\n"})


def cut(name: str, keep: Callable[[str], bool]) -> Change:
    return lambda files: files.update({name: "".join(x for x in files[name].splitlines(True) if keep(x))})


def line(name: str, number: int, change: Callable[[str], str]) -> Change:
    """Change one line, counted from 1."""

    def apply(files: Files) -> None:
        rows = files[name].splitlines()
        rows[number - 1] = change(rows[number - 1])
        files[name] = "\n".join(rows) + "\n"

    return apply


def field(name: str, number: int | None, **values: Any) -> Change:
    """Set fields of one JSON line, or of all."""

    def apply(files: Files) -> None:
        rows = [json.loads(x) for x in files[name].splitlines()]
        for i, row in enumerate(rows, start=1):
            if number in (None, i):
                row.update({k: v(i) if callable(v) else v for k, v in values.items()})
        files[name] = lines(rows)

    return apply


def items(number: int, change: Callable[[list[dict[str, Any]]], Any]) -> Change:
    """Change the results on one line of the run log, or on all (0)."""

    def apply(files: Files) -> None:
        rows = [json.loads(x) for x in files["dense.jsonl"].splitlines()]
        for i, row in enumerate(rows, start=1):
            if number in (0, i):
                changed = change(row["topk"])
                row["topk"] = row["topk"] if changed is None else changed
        files["dense.jsonl"] = lines(rows)

    return apply


def columns(name: str, change: Callable[[list[str]], list[str]]) -> Change:
    """Change the columns of every line of a TREC file."""

    def apply(files: Files) -> None:
        rows = [change(x.split()) for x in files[name].splitlines()]
        files[name] = "".join(" ".join(row) + "\n" for row in rows)

    return apply


def both(*changes: Change) -> Change:
    return lambda files: [change(files) for change in changes]


def chunks_of_corpus(files: Files) -> None:
    """The corpus names the doc of each chunk; nothing in the chunks' own ids does."""
    docs = [json.loads(row) for row in files["corpus.jsonl"].splitlines()]
    files["corpus.jsonl"] = lines([{**row, "_id": "c" + row["_id"][1:], "doc_id": row["_id"]} for row in docs])
    columns("bm25.run", lambda c: [*c[:2], "c" + c[2][1:], *c[3:]])(files)


def top_as_gold(files: Files) -> None:
    """Gold made of the first three results of the run."""
    rows = [x.split() for x in files["bm25.run"].splitlines()]
    files["gold.txt"] = "".join(f"{q} 0 {d} 1\n" for q, _, d, rank, *_ in rows if int(rank) <= 3)


def thin_gold(grades: str) -> Change:
    """Only one judged doc that the run returns for each query, on rank 2; d23 stands for docs that it does not."""

    def apply(files: Files) -> None:
        kept = [x for x in files["gold.txt"].splitlines() if x.endswith(" 2")]
        files["gold.txt"] = "".join(f"{x}\n" for x in kept)
        if "0" in grades:
            files["gold.txt"] += "q0 0 d23 0\n"

    return apply


def named(name: str, **values: str) -> Change:
    """A field with a given value for each query, the same for all but those that are named."""
    return field("queries.jsonl", None, **{name: lambda i: values.get(f"q{i - 1}", "default")})


def deep(run: str, results: int) -> Change:
    """More docs for each query of a run, all of the corpus, with falling scores."""

    def apply(files: Files) -> None:
        out = []
        for i in range(12):
            mine = [x.split() for x in files[run].splitlines() if x.startswith(f"q{i} ")]
            have = [x[2] for x in mine]
            more = [f"d{d}" for d in range(24) if f"d{d}" not in have][: results - len(have)]
            out += [f"q{i} Q0 {d} {r} {99 - r} tag" for r, d in enumerate(have + more, start=1)]
        files[run] = "\n".join(out) + "\n"

    return apply


NAMED = "dataset: {qrels: gold.txt, queries: queries.jsonl}\nruns: bm25.run\n"


def config(words: str) -> Change:
    """A karat.yaml beside the data."""
    return lambda f: f.update({"karat.yaml": words})


def cases(number: int = 1, **values: Any) -> Change:
    """A case file beside the data: two good cases, of which the last few are changed."""
    good = {"description": "Seizures", "expected_ids": ["HP:0001250"]}
    rows = [
        {"text": text, **good, **(values if i >= 2 - number else {})} for i, text in enumerate(("Anfall", "Krampf"))
    ]
    return lambda f: f.update({"cases.json": "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"})


def german_as_english() -> Change:
    """A case file that states English, with texts in German."""
    texts = ("Krampfanfall", "Kleinwuchs", "Trommelschlegelfinger", "Entwicklungsverzögerung")
    rows = [{"text": text, "expected_ids": ["HP:0001250"]} for text in texts]
    return lambda f: f.update({"cases.json": json.dumps({"metadata": {"language": "en"}, "test_cases": rows})})


DEFECTS: dict[str, tuple[str, str, str, Change]] = {
    # F: any file
    "a line with three columns": ("F001", "error", "gold.txt:3", line("gold.txt", 3, lambda x: x.rsplit(" ", 1)[0])),
    "a grade that is no number": ("F001", "error", "gold.txt:5", line("gold.txt", 5, lambda x: x[:-1] + "high")),
    "a score that is NaN": ("F001", "error", "bm25.run:2", line("bm25.run", 2, lambda x: x.replace("7.5", "nan"))),
    "JSON that breaks off": ("F001", "error", "queries.jsonl:4", line("queries.jsonl", 4, lambda x: x[:-20])),
    "a rank that is text in a run log": (
        "F001",
        "error",
        "dense.jsonl:6",
        items(6, lambda topk: topk[0].update(rank="first")),
    ),
    "a query that is logged twice": (
        "F001",
        "error",
        "dense.jsonl:13",
        lambda f: f.update({"dense.jsonl": f["dense.jsonl"] + f["dense.jsonl"].splitlines(True)[0]}),
    ),
    "an id that is a float": ("F001", "error", "corpus.jsonl:9", field("corpus.jsonl", 9, _id=1.5)),
    "bytes that are not UTF-8 in a field that nobody reads": (
        "F001",
        "error",
        "dense.jsonl:3",
        line("dense.jsonl", 3, lambda x: x[:-1] + ', "note": "\udcff"}'),
    ),
    "an empty file": ("F001", "error", "gold.txt", lambda f: f.update({"gold.txt": ""})),
    "an empty file of no known kind": ("F001", "error", "notes.md", lambda f: f.update({"notes.md": "\n"})),
    "bytes that are not UTF-8": ("F001", "error", "gold.txt:2", line("gold.txt", 2, lambda x: x + "\udcff")),
    "a file of no known kind": ("F002", "error", "notes.md", lambda f: f.update({"notes.md": "to do\nmore\n"})),
    "a result of Karat": (
        "F003",
        "info",
        "old.json",
        lambda f: f.update({"old.json": '{"format_version": 2, "kind": "evaluation"}'}),
    ),
    "a configuration without gates": ("K604", "warning", "karat.yaml", config("gates: []\n")),
    "a configuration with an unknown key": ("K601", "error", "karat.yaml:2", config("gates: ['mrr > 0']\ngats: []\n")),
    "a configuration whose gold is gone": (
        "K602",
        "error",
        "karat.yaml:2",
        config("gates: ['mrr > 0']\ndataset: {qrels: gone.txt}\n"),
    ),
    "a configuration whose run is gone": (
        "K602",
        "error",
        "karat.yaml:5",
        config("gates: ['mrr > 0']\ndataset: {qrels: gold.txt}\nruns:\n  bm25: bm25.run\n  gone: gone.run\n"),
    ),
    "a gate that passes where the value is bad": (
        "K607",
        "warning",
        "karat.yaml:1",
        config("gates: ['ndcg@10 <= 0.99']\n" + NAMED),
    ),
    "a gate on a field that no query has": (
        "K603",
        "error",
        "karat.yaml:1",
        config("gates: ['mrr > 0 for every colour']\n" + NAMED),
    ),
    "a gate that 12 queries cannot pass": (
        "K610",
        "warning",
        "karat.yaml:1",
        config("gates: ['hit@10 >= 0.95']\n" + NAMED),
    ),
    "a gate on a component that the run does not log": (
        "K610",
        "warning",
        "karat.yaml:1",
        config("gates: ['funnel.never_retrieved <= 0.2']\n" + NAMED),
    ),
    "a configuration whose baseline is not there": (
        "K602",
        "error",
        "karat.yaml:4",
        config("gates: ['mrr > 0']\n" + NAMED + "baseline: base.json\n"),
    ),
    "a gate against a baseline that is not named": (
        "K603",
        "error",
        "karat.yaml:1",
        config("gates: ['mrr no worse than baseline by 0.5']\n" + NAMED),
    ),
    "a configuration whose baseline nobody blessed": (
        "K603",
        "error",
        "karat.yaml:4",
        both(
            config("gates: ['mrr > 0']\n" + NAMED + "baseline: base.json\n"),
            lambda f: f.update({"base.json": '{"format_version": 2, "kind": "evaluation", "runs": []}'}),
        ),
    ),
    "a configuration in which one file is gold and run": (
        "X520",
        "error",
        "karat.yaml:3",
        config("gates: ['mrr > 0']\ndataset: {qrels: gold.txt}\nruns: {a: ./gold.txt}\n"),
    ),
    "a configuration that only warns": ("K605", "warning", "karat.yaml:1", config("gates: [warn: mrr > 0]\n" + NAMED)),
    "a gate on a value that no query has": (
        "K606",
        "error",
        "karat.yaml:1",
        config("gates: ['mrr > 0 where language = eng']\n" + NAMED),
    ),
    "text in Latin-1 of no known kind": (
        "F001",
        "error",
        "x.jsonl:1",
        lambda f: f.update({"x.jsonl": '{"_id": "q1", "text": "caf\udce9"}\n'}),
    ),
    "a query id with a space at its end": ("F005", "warning", "queries.jsonl:5", field("queries.jsonl", 5, _id="q4 ")),
    "a doc id with a zero-width space": (
        "F005",
        "warning",
        "gold.txt:7",
        line("gold.txt", 7, lambda x: x.replace(" d", " d\u200b")),
    ),
    "a no-break space in a run's doc id": (
        "F005",
        "warning",
        "bm25.run:1",
        line("bm25.run", 1, lambda x: x.replace("d1 ", "d1\u00a0 ")),
    ),
    "integer ids that became decimals": (
        "F006",
        "warning",
        "gold.txt:1",
        columns("gold.txt", lambda c: [c[0][1:] + ".0", *c[1:]]),
    ),
    "a score beside the grade": (
        "F007",
        "info",
        "gold.txt",
        lambda files: files.update(
            {
                "gold.txt": "query_id doc_id grade score\n"
                + "".join("{0} {2} {3} 9.5\n".format(*row.split()) for row in files["gold.txt"].splitlines())
            }
        ),
    ),
    # G: gold
    "two grades for one pair": ("G101", "error", "gold.txt:49", add("gold.txt", "q0 0 d0 1")),
    "one judgment twice": ("G102", "warning", "gold.txt:49", add("gold.txt", "q0 0 d0 2")),
    "a query without a relevant doc": (
        "G103",
        "warning",
        "gold.txt:9",
        both(*(line("gold.txt", n, lambda x: x[:-1] + "0") for n in (9, 10))),
    ),
    "no relevant doc at all": ("G104", "error", "gold.txt", columns("gold.txt", lambda c: [*c[:3], "0"])),
    "grades as shares": ("G104", "error", "gold.txt", columns("gold.txt", lambda c: [*c[:3], f"0.{c[3]}"])),
    "one grade for all": ("G105", "info", "gold.txt", columns("gold.txt", lambda c: [*c[:3], "1"])),
    "a fractional grade": ("G106", "info", "gold.txt:2", line("gold.txt", 2, lambda x: x[:-1] + "1.5")),
    "a negative grade": ("G107", "info", "gold.txt:4", line("gold.txt", 4, lambda x: x[:-1] + "-1")),
    "a grade above the scale": ("G108", "warning", "gold.txt:1", line("gold.txt", 1, lambda x: x[:-1] + "87")),
    # Q: queries
    "a query id twice": (
        "Q201",
        "error",
        "queries.jsonl:13",
        add("queries.jsonl", '{"_id": "q3", "text": "other", "language": "en"}'),
    ),
    "a query without text": ("Q202", "warning", "queries.jsonl:8", field("queries.jsonl", 8, text="  ")),
    "the same text but for case and punctuation": (
        "Q203",
        "warning",
        "queries.jsonl:11",
        field("queries.jsonl", 11, text=text(2, 7).upper() + "?!"),
    ),
    "a text with one more word": (
        "Q204",
        "info",
        "queries.jsonl:12",
        field("queries.jsonl", 12, text=text(5, 7) + " please"),
    ),
    "a text with a typing error": (
        "Q204",
        "info",
        "queries.jsonl:10",
        both(
            field("queries.jsonl", 9, text="wheelbarrow maintenance handbook"),
            field("queries.jsonl", 10, text="wheelbarow maintenance handbook"),
        ),
    ),
    "as_of that is no date": ("Q205", "warning", "queries.jsonl:2", field("queries.jsonl", 2, as_of="30/06/2024")),
    "as_of on a day that does not exist": (
        "Q205",
        "warning",
        "queries.jsonl:2",
        field("queries.jsonl", 2, as_of="2024-06-31"),
    ),
    "as_of in the future": ("Q206", "warning", "queries.jsonl:7", field("queries.jsonl", 7, as_of="2924-06-30")),
    "a value in two cases": ("Q207", "warning", "queries.jsonl:3", named("topic", q2="Default")),
    "a value with an accent that stands apart": (
        "Q207",
        "warning",
        "queries.jsonl:3",
        named("topic", q1="café", q2="cafe\u0301"),
    ),
    "a value with a space at its end": ("Q207", "warning", "queries.jsonl:4", named("topic", q3="default ")),
    "a value in two cases beside an empty one": (
        "Q207",
        "warning",
        "queries.jsonl:3",
        named("topic", q2="Default", q5=""),
    ),
    "a value in two cases in lists": (
        "Q207",
        "warning",
        "queries.jsonl:3",
        field("queries.jsonl", None, topic=lambda i: ["Default" if i == 3 else "default"]),
    ),
    "a small segment beside an empty value": (
        "Q209",
        "info",
        "queries.jsonl:1",
        named("topic", q0="rare", q1="rare", q5=""),
    ),
    "a small segment of lists": (
        "Q209",
        "info",
        "queries.jsonl:1",
        field("queries.jsonl", None, topic=lambda i: ["default", "rare"] if i < 3 else ["default"]),
    ),
    "en and English": ("Q208", "warning", "queries.jsonl:5", field("queries.jsonl", 5, language="English")),
    "pt-BR and pt_br": (
        "Q208",
        "warning",
        "queries.jsonl:6",
        both(field("queries.jsonl", None, language="pt-BR"), field("queries.jsonl", 6, language="pt_br")),
    ),
    "pt-BR and PT": (
        "Q208",
        "warning",
        "queries.jsonl:6",
        both(field("queries.jsonl", None, language="pt-BR"), field("queries.jsonl", 6, language="PT")),
    ),
    "a segment of two queries": ("Q209", "info", "queries.jsonl:1", named("topic", q0="rare", q1="rare")),
    "a weight that is text": ("Q210", "error", "queries.jsonl:3", field("queries.jsonl", 3, weight="heavy")),
    "a negative weight": ("Q210", "error", "queries.jsonl:3", field("queries.jsonl", 3, weight=-1)),
    "all weights zero": ("Q211", "error", "queries.jsonl:1", field("queries.jsonl", None, weight=0)),
    "conversations of one query": (
        "Q212",
        "info",
        "queries.jsonl:1",
        field("queries.jsonl", None, conversation=lambda i: f"c{i}"),
    ),
    "no_answer that is maybe": ("Q213", "error", "queries.jsonl:9", field("queries.jsonl", 9, no_answer="maybe")),
    "needs_retrieval that is maybe": (
        "Q214",
        "warning",
        "queries.jsonl:9",
        field("queries.jsonl", 9, needs_retrieval="maybe"),
    ),
    "entities in one text": ("Q214", "warning", "queries.jsonl:3", field("queries.jsonl", 3, entities="E1, E2")),
    "a day of joining that is no date": ("Q214", "warning", "queries.jsonl:2", field("queries.jsonl", 2, added="May")),
    # R: runs
    "a doc twice in a query": ("R301", "warning", "bm25.run:49", add("bm25.run", "q11 Q0 d22 5 1.5 tag")),
    "a doc twice in a run log": (
        "R301",
        "warning",
        "dense.jsonl:2",
        items(2, lambda topk: topk[3].update(doc_id=topk[0]["doc_id"])),
    ),
    "one rank against its score": (
        "R302",
        "warning",
        "bm25.run:5",
        line("bm25.run", 7, lambda x: x.replace("6.5", "96")),
    ),
    "distances instead of scores": ("R303", "error", "bm25.run:1", columns("bm25.run", lambda c: [*c[:4], c[3], c[5]])),
    "distances without ranks": (
        "R304",
        "warning",
        "bm25.run:2",
        lambda f: f.update(
            {
                "bm25.run": "query_id,doc_id,score\n"
                + "".join(f"{c[0]},{c[2]},{c[3]}.5\n" for c in map(str.split, f["bm25.run"].splitlines()))
            }
        ),
    ),
    "distances in a run log": (
        "R305",
        "info",
        "dense.jsonl:1",
        items(0, lambda topk: [i.update(score=i["rank"]) for i in topk] and None),
    ),
    "constant scores": ("R306", "warning", "bm25.run:1", columns("bm25.run", lambda c: [*c[:4], "1.0", c[5]])),
    "ranks from 0": ("R307", "info", "bm25.run:1", columns("bm25.run", lambda c: [*c[:3], str(int(c[3]) - 1), *c[4:]])),
    "a short list among long ones": (
        "R308",
        "info",
        "bm25.run:13",
        both(deep("bm25.run", 12), cut("bm25.run", lambda x: not (x.startswith("q1 ") and int(x.split()[3]) > 3))),
    ),
    "a run that breaks off after a line": (
        "R309",
        "warning",
        "bm25.run:45",
        cut("bm25.run", lambda x: not (x.startswith("q11 ") and int(x.split()[3]) > 1)),
    ),
    "an empty list": ("R310", "warning", "dense.jsonl:4", field("dense.jsonl", 4, topk=[])),
    "a line without latency": ("R311", "warning", "dense.jsonl:3", field("dense.jsonl", 3, latency_ms=None)),
    "a line without a stage's latency": (
        "R311",
        "warning",
        "dense.jsonl:3",
        both(
            field("dense.jsonl", None, latency_ms={"retrieve": 5, "rerank": 2}),
            field("dense.jsonl", 3, latency_ms={"retrieve": 5}),
        ),
    ),
    "a stage that ran without its latency": (
        "R311",
        "warning",
        "dense.jsonl:3",
        both(
            field("dense.jsonl", None, latency_ms={"retrieve": 5, "rerank": 2}, stages={"retrieve": [], "rerank": []}),
            field("dense.jsonl", 3, latency_ms={"retrieve": 5}),
        ),
    ),
    "a negative latency": ("R312", "error", "dense.jsonl:9", field("dense.jsonl", 9, latency_ms={"retrieve": -3})),
    "a latency that is null": (
        "R312",
        "error",
        "dense.jsonl:9",
        field("dense.jsonl", 9, latency_ms={"retrieve": None}),
    ),
    "a latency without its stage": ("F001", "error", "dense.jsonl:9", field("dense.jsonl", 9, latency_ms=12)),
    "two index versions": ("R313", "warning", "dense.jsonl:12", field("dense.jsonl", 12, index_version="v2")),
    "a gap in the ranks": ("R314", "warning", "dense.jsonl:5", items(5, lambda topk: topk[:1] + topk[2:])),
    "doc_version that is no date": (
        "R315",
        "warning",
        "dense.jsonl:1",
        items(1, lambda topk: topk[0].update(doc_version="yesterday")),
    ),
    "a field that is misspelt": ("R316", "warning", "dense.jsonl:1", field("dense.jsonl", None, rewriten_query="?")),
    # C: corpus
    "a doc id twice": (
        "C401",
        "error",
        "corpus.jsonl:25",
        add("corpus.jsonl", '{"_id": "d3", "title": "t", "text": "another text"}'),
    ),
    "a doc without text": ("C402", "warning", "corpus.jsonl:20", field("corpus.jsonl", 20, text="", title="")),
    "two docs with one text": (
        "C403",
        "info",
        "corpus.jsonl:25",
        add("corpus.jsonl", json.dumps({"_id": "copy", "title": "title 4", "text": text(54, 20) + " "})),
    ),
    "a version of a doc that is no date": (
        "C404",
        "warning",
        "corpus.jsonl:6",
        field("corpus.jsonl", 6, doc_version="v2"),
    ),
    # X: files together
    "a gold doc that the corpus lacks": ("X501", "error", "gold.txt:49", add("gold.txt", "q0 0 missing 1")),
    "a returned doc that the corpus lacks": (
        "X502",
        "warning",
        "bm25.run:49",
        add("bm25.run", "q11 Q0 other 5 1.0 tag"),
    ),
    "a query without gold": ("X503", "info", "queries.jsonl:1", cut("gold.txt", lambda x: not x.startswith("q0 "))),
    "gold of an unknown query": ("X504", "warning", "gold.txt:1", cut("queries.jsonl", lambda x: '"q0"' not in x)),
    "a query of a run without gold": ("X505", "info", "bm25.run:1", cut("gold.txt", lambda x: not x.startswith("q0 "))),
    "a query that a run lacks": ("X506", "warning", "gold.txt:9", cut("bm25.run", lambda x: not x.startswith("q2 "))),
    "no query in common": ("X507", "error", "bm25.run:1", columns("bm25.run", lambda c: ["topic" + c[0], *c[1:]])),
    "no judged doc returned": (
        "X508",
        "error",
        "bm25.run:1",
        columns("bm25.run", lambda c: [*c[:2], "doc/" + c[2], *c[3:]]),
    ),
    "doc ids in another case than in the corpus": (
        "X509",
        "error",
        "gold.txt:1",
        columns("gold.txt", lambda c: [c[0], c[1], c[2].upper(), c[3]]),
    ),
    "doc ids of a run in another case": (
        "X509",
        "error",
        "bm25.run:1",
        columns("bm25.run", lambda c: [*c[:2], c[2].upper(), *c[3:]]),
    ),
    "query ids in another case": ("X509", "error", "bm25.run:1", columns("bm25.run", lambda c: [c[0].upper(), *c[1:]])),
    "query ids with leading zeros": (
        "X509",
        "error",
        "gold.txt:1",
        both(
            field("queries.jsonl", None, _id=lambda i: str(i)),
            columns("gold.txt", lambda c: [f"{int(c[0][1:]) + 1:03}", *c[1:]]),
        ),
    ),
    "a copy of a relevant doc": (
        "X510",
        "warning",
        "corpus.jsonl:25",
        add("corpus.jsonl", json.dumps({"_id": "copy", "title": "title 0", "text": text(50, 20)})),
    ),
    "a query that quotes its doc": (
        "X511",
        "warning",
        "queries.jsonl:1",
        field("queries.jsonl", 1, text="why " + text(50, 9).upper() + "?"),
    ),
    "gold that is a run's top": ("X512", "warning", "bm25.run:1", top_as_gold),
    "a doc newer than as_of": (
        "X513",
        "warning",
        "dense.jsonl:8",
        items(8, lambda topk: topk[1].update(doc_version="2025-01-01")),
    ),
    "a no_answer query with gold": ("X514", "error", "queries.jsonl:6", field("queries.jsonl", 6, no_answer=True)),
    "a top that the pool missed": ("X515", "warning", "bm25.run:1", thin_gold("0")),
    "a top that is not in the gold": ("X516", "info", "bm25.run:1", thin_gold("")),
    "one run under two names": (
        "X517",
        "warning",
        "copy.run",
        lambda f: f.update({"copy.run": f["bm25.run"].replace("tag", "other")}),
    ),
    "a run that was cut earlier": (
        "X518",
        "warning",
        "bm25.run",
        both(
            deep("bm25.run", 20),
            lambda f: f.update({"deep.run": f["bm25.run"]}),
            cut("bm25.run", lambda x: int(x.split()[3]) <= 10),  # half as deep, as evaluate warns of too
        ),
    ),
    "gold that is given as a run": (
        "X520",
        "error",
        "own.run",
        lambda f: f.update(
            {"own.run": "".join(f"{q} Q0 {d} 1 {g} tag\n" for q, _, d, g in map(str.split, f["gold.txt"].splitlines()))}
        ),
    ),
    # T: case files
    "an expected id that HPO does not know": ("T701", "warning", "cases.json:3", cases(expected_ids=["HP:9999999"])),
    "an alternative id of HPO": ("T702", "warning", "cases.json:3", cases(expected_ids=["HP:0001453"])),
    "a description of another term": ("T703", "warning", "cases.json:3", cases(description="Short stature")),
    "ids of an ontology that nobody names": ("T704", "info", "cases.json", cases(2, expected_ids=["GO:1"])),
    "ids of another spelling": ("T702", "warning", "cases.json:3", cases(expected_ids=["hp:0001250"])),
    "texts in another language": ("T707", "warning", "cases.json", german_as_english()),
    "a few cases": ("T705", "info", "cases.json", cases()),
    "a hard negative that is relevant": (
        "X519",
        "error",
        "queries.jsonl:3",
        field("queries.jsonl", 3, negatives=["d4", "d9"]),
    ),
}


def test_nothing_is_found_in_clean_data(tmp_path: Path) -> None:
    found = found_in(tmp_path, clean())
    assert [(f.code, f.message) for f in found.findings] == []
    assert found.ok and found.worst is None
    assert list(found.roles.values()) == ["gold", "queries", "run", "run", "corpus"]


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found_at_its_place(tmp_path: Path, name: str) -> None:
    code, severity, where, change = DEFECTS[name]
    files = clean()
    change(files)
    mine = [f for f in found_in(tmp_path, files).findings if f.code == code]
    places = [w.removeprefix(f"{tmp_path}/") for f in mine for w in f.where]
    assert where in places, (places, [f.message for f in mine])
    assert {f.severity for f in mine} == {severity}
    assert all(f.count >= 1 and f.message and f.fix for f in mine)


def test_every_check_but_the_one_for_large_files_has_a_planted_defect() -> None:
    # T706 needs an ontology by name: test_ids_of_another_ontology_than_the_one_named_are_an_error.
    assert set(LINT_RULES) - {code for code, *_ in DEFECTS.values()} == {"F004", "T706"}


def test_a_negative_grade_is_no_judgment(tmp_path: Path) -> None:
    """As everywhere else: validate and evaluate count the same docs as unjudged."""
    files = clean()
    columns("gold.txt", lambda c: [*c[:3], c[3] if c[3] == "2" else "-1"])(files)
    files["gold.txt"] += "q0 0 d23 0\n"
    message = next(f.message for f in found_in(tmp_path, files).findings if f.code == "X515" and "bm25" in f.file)
    counts = karat.evaluate(tmp_path / "gold.txt", tmp_path / "bm25.run", "mrr").runs[0].counts
    assert counts["unjudged_at_10"] == 36 and message == "75% of the top 10 has no judgment (36 of 48 results)"


def test_a_file_is_named_in_one_role(tmp_path: Path) -> None:
    (tmp_path / "gold.txt").write_text(clean()["gold.txt"])
    (tmp_path / "link.txt").symlink_to("gold.txt")
    found = karat.validate(qrels=tmp_path / "gold.txt", runs=[tmp_path / "link.txt"])
    assert [(f.code, f.message) for f in found.findings] == [("X520", "the same file is given as gold and as run")]
    assert list(found.roles.values()) == ["gold"]


def test_what_is_packed_and_broken_has_the_role_that_was_stated_or_none(tmp_path: Path) -> None:
    (tmp_path / "run.gz").write_bytes(gzip.compress(clean()["bm25.run"].encode())[:100])
    for stated, role in (("files", "unknown"), ("runs", "run"), ("queries", "queries")):
        found = karat.validate(**{stated: tmp_path / "run.gz"})
        assert [f.code for f in found.findings] == ["F001"] and "breaks off" in found.findings[0].message
        assert list(found.roles.values()) == [role]


def test_the_order_of_two_corpora_changes_nothing(tmp_path: Path) -> None:
    files = clean()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    # The same ids with other texts, of which query q0 quotes one.
    quoting = [json.loads(x) for x in files["queries.jsonl"].splitlines()]
    quoting[0]["text"] = text(90, 12)
    (tmp_path / "queries.jsonl").write_text(lines(quoting))
    (tmp_path / "more.jsonl").write_text(lines([{"_id": "d0", "title": "t", "text": text(90, 20)}]))
    corpora = [tmp_path / "corpus.jsonl", tmp_path / "more.jsonl"]
    rest = {"qrels": tmp_path / "gold.txt", "queries": tmp_path / "queries.jsonl", "runs": tmp_path / "bm25.run"}
    both_ways = [karat.validate(corpus=c, **rest).findings for c in (corpora, corpora[::-1])]
    assert sorted(map(str, both_ways[0])) == sorted(map(str, both_ways[1]))
    assert "X511" in [f.code for f in both_ways[0]]


def test_paths_come_first_and_their_role_is_told(tmp_path: Path) -> None:
    files = clean()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "karat.yaml").write_text("gates: []\n")
    assert [f.code for f in karat.validate(tmp_path / "karat.yaml").findings] == ["K604"]
    assert list(karat.validate(tmp_path / "gold.txt", tmp_path / "bm25.run").roles.values()) == ["gold", "run"]


# What a careless linter would report: each of these is fine.
FINE: dict[str, tuple[str, Change]] = {
    "fields as metrics read them": (
        "Q214",
        field("queries.jsonl", None, needs_retrieval="no", expected_source=7, entities='["E1"]', added="2025-04-01"),
    ),
    "an empty no_answer": ("Q213", field("queries.jsonl", 9, no_answer="")),
    "numbers with decimals": ("Q209", field("queries.jsonl", None, length=lambda i: 0.5 if i < 3 else 1.5)),
    "two regions of one language": (
        "Q208",
        field("queries.jsonl", None, language=lambda i: "pt-BR" if i % 2 else "pt-PT"),
    ),
    "numbers of sections as ids": ("F006", columns("gold.txt", lambda c: [c[0], c[1], f"{c[2][1:]}.{c[3]}", c[3]])),
    "texts that differ in a number": (
        "Q204",
        field("queries.jsonl", None, text=lambda i: f"what was the yearly revenue of the group in {2000 + i}"),
    ),
    "C++ and C#": (
        "Q203",
        both(field("queries.jsonl", 1, text="what is C++"), field("queries.jsonl", 2, text="what is C#")),
    ),
    "ties that follow the ranks": ("R302", line("bm25.run", 2, lambda x: x.replace("7.5", "8.5"))),
    "a field of one's own": ("R316", field("dense.jsonl", None, query_text="?", latency_p90=3, user="ana")),
    "a list that was empty on purpose": ("R310", field("dense.jsonl", 4, topk=[], retrieved=False)),
    "a latency without retrieval": ("R311", field("dense.jsonl", 3, latency_ms={}, topk=[], retrieved=False)),
    "a latency without the stage": (
        "R311",
        both(
            field("dense.jsonl", None, latency_ms={"retrieve": 5, "rerank": 2}, stages={"retrieve": [], "Rerank": []}),
            field("dense.jsonl", 3, latency_ms={"retrieve": 5}, stages={"retrieve": []}),
        ),
    ),
    "gold by doc and chunks in the run": ("X508", columns("bm25.run", lambda c: [*c[:2], c[2] + "#p1", *c[3:]])),
    "gold by doc and chunks that the corpus maps": ("X508", chunks_of_corpus),
    "chunks that the corpus maps": ("X502", chunks_of_corpus),
    "chunks of docs of the corpus": ("X502", columns("bm25.run", lambda c: [*c[:2], c[2] + "#p1", *c[3:]])),
    "ids of two docs that differ in case": (
        "X509",
        both(
            add("corpus.jsonl", '{"_id": "D0", "title": "another", "text": "quite another text"}'),
            add("bm25.run", "q11 Q0 D0 5 1.0 tag"),
        ),
    ),
    "a time on the day of as_of": ("X513", items(8, lambda topk: topk[1].update(doc_version="2024-06-30T12:00:00Z"))),
    "a short query that stands in its doc": ("X511", field("queries.jsonl", 1, text=text(50, 4))),
    "joiners inside an id": ("F005", field("corpus.jsonl", 5, _id="می\u200cخواهم")),
    "gold of one doc that a good run has first": ("X512", cut("gold.txt", lambda x: x.endswith(" 1"))),
    "lists that end because nothing more was found": (
        "X518",
        both(
            deep("bm25.run", 20),
            lambda f: f.update({"other.run": f["bm25.run"]}),
            lambda f: f.pop("dense.jsonl"),
            cut("bm25.run", lambda x: int(x.split()[3]) <= 1 + int(x.split()[0][1:]) % 6),
        ),
    ),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_fine_is_not_reported(tmp_path: Path, name: str) -> None:
    code, change = FINE[name]
    files = clean()
    change(files)
    assert [f.message for f in found_in(tmp_path, files).findings if f.code == code] == []


# Each finding in real data, and why it is true.
SCIFACT = {
    ("queries.jsonl", "Q204", 24),  # 12 pairs of test claims, most with one word turned (increases, decreases)
    ("queries.jsonl", "X503", 809),  # 1,109 claims less the 300 of the test split
    ("queries.jsonl", "X511", 1),  # claim 845: "neutrophil extracellular traps nets are released by anca …"
    ("test.tsv", "G105", 339),  # BEIR lists only relevant docs, all with score 1
}
DL19 = {
    ("segments.tsv", "Q209", 23)  # 8 of 9 intents, 5 of 7 answer types and 10 of 12 domains have under 10 queries
}


def found_names(found: karat.Validation) -> set[tuple[str, str, int]]:
    return {(Path(f.file).name, f.code, f.count) for f in found.findings}


@pytest.mark.skipif(not (DATA / "scifact").is_dir(), reason="needs shared/data/scifact")
def test_scifact_from_shared_data_has_only_true_findings() -> None:
    folder = DATA / "scifact"
    found = karat.validate(files=[folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels/test.tsv"])
    assert found_names(found) == SCIFACT
    assert list(found.roles.values()) == ["corpus", "queries", "gold"]
    near = next(f for f in found.findings if f.code == "Q204")
    texts = [json.loads(x)["text"] for x in (folder / "queries.jsonl").read_text().splitlines()]
    first, second = (set(fold(texts[int(w.rpartition(":")[2]) - 1]).split()) for w in near.where[:2])
    assert len(first & second) / len(first | second) >= 0.8


@pytest.mark.skipif(not (DATA / "dl19").is_dir(), reason="needs shared/data/dl19")
def test_dl19_from_shared_data_has_only_true_findings() -> None:
    found = karat.validate(files=DATA / "dl19" / "*")
    assert found_names(found) == DL19
    assert sorted(found.roles.values()) == ["gold", "queries", "queries", "run", "run", "run", "run", "run"]


def test_the_small_example_has_only_true_findings() -> None:
    # q07 shares no word with any passage, so keyword search returns nothing for it; the gold lists relevant docs only.
    assert {(name, code) for name, code, _ in found_names(karat.validate(files=KETTLE / "*"))} == {
        ("keyword.run", "X506"),
        ("keyword.run", "X516"),
        ("dense.jsonl", "X516"),
        ("queries.jsonl", "Q209"),
    }


def test_a_label_of_short_words_is_seen_in_a_description(tmp_path: Path) -> None:
    case = {"text": "Miauen", "description": "Cat cry; High-pitched cry", "expected_ids": ["HP:0200046", "HP:0025430"]}
    (tmp_path / "cases.json").write_text(json.dumps([case]))
    assert {finding.code for finding in karat.validate(files=tmp_path / "cases.json").findings} == {"T705"}


def test_ids_of_another_ontology_than_the_one_named_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([{"text": "Anfall", "expected_ids": ["GO:0008150"]}]))
    (finding, *_) = karat.validate(files=path, ontology="HPO").findings
    assert (finding.code, finding.severity) == ("T706", "error")
    assert "knows none of the expected ids (1): GO:0008150; it may not be their ontology" in finding.message
    assert {f.code for f in karat.validate(files=path).findings} == {"T704", "T705"}


def test_one_text_in_another_language_is_found_among_many(tmp_path: Path) -> None:
    texts = [
        "Krampfanfall",
        "Kleinwuchs",
        "Trommelschlegelfinger",
        "les doigts en baguette de tambour",
        "Plazenta praevia",
    ]
    rows = [{"text": text, "expected_ids": ["HP:0001250"]} for text in texts * 3]
    path = tmp_path / "de" / "cases.json"
    path.parent.mkdir()
    path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]")
    (finding,) = (f for f in karat.validate(files=path).findings if f.code == "T707")
    assert finding.count == 3 and finding.where[0].endswith("cases.json:5")


def test_nothing_is_found_in_the_handbook_of_the_demo() -> None:
    assert not karat.validate(files=Path(karat.__file__).parent / "example" / "*.*").findings


def test_queries_that_nothing_answers_need_no_relevant_gold(tmp_path: Path) -> None:
    files = clean()
    gold, queries = (next(n for n in files if n.startswith(kind)) for kind in ("gold", "queries"))
    rows = [json.loads(line) for line in files[queries].splitlines()]
    rows += [{"_id": name, "text": f"asked of {name} by nobody yet", "no_answer": True} for name in ("n1", "n2")]
    files[queries] = "".join(json.dumps(row) + "\n" for row in rows)
    files[gold] += "n1 0 d1 0\n"
    marked = {f.code for f in found_in(tmp_path, files).findings}
    assert not marked & {"G103", "X503"}
    files[queries] = files[queries].replace(', "no_answer": true', "")
    assert {"G103", "X503"} <= {f.code for f in found_in(tmp_path, files).findings}


def test_each_problem_of_a_reader_is_a_finding_and_the_rest_a_number(tmp_path: Path) -> None:
    files = clean()
    files["gold.txt"] = "".join(f"q{i % 12} 0 d{i % 24} {'x' if i < 25 else 1}\n" for i in range(60))
    broken = [f for f in found_in(tmp_path, files).findings if f.code == "F001"]
    assert [f.where for f in broken[:20]] == [(f"{tmp_path}/gold.txt:{n}",) for n in range(1, 21)]
    assert broken[20].message.startswith("5 more problems") and broken[20].count == 5
    assert len(broken) == 21


def test_many_findings_of_one_check_are_one_with_a_count(tmp_path: Path) -> None:
    files = clean()
    columns("gold.txt", lambda c: [c[0], c[1], "x" + c[2], c[3]])(files)
    mine = [f for f in found_in(tmp_path, files).findings if f.code == "X501"]
    assert [(f.count, len(f.where)) for f in mine] == [(24, 5)]
    assert (
        mine[0].message
        == "24 of 24 judged docs are not in the corpus: xd0, xd1, xd2, …; ids of the corpus look like d0"
    )


def test_a_broken_gold_line_does_not_hide_what_else_is_wrong(tmp_path: Path) -> None:
    files = clean()
    both(line("gold.txt", 1, lambda x: x[:-1] + "?"), add("gold.txt", "q0 0 missing 1"))(files)
    assert {"F001", "X501"} <= {f.code for f in found_in(tmp_path, files).findings}


def test_packed_files_and_tables_are_read_alike(tmp_path: Path) -> None:
    files = clean()
    add("bm25.run", "q11 Q0 d22 5 1.5 tag")(files)
    packed = tmp_path / "bm25.run.gz"
    packed.write_bytes(gzip.compress(files["bm25.run"].encode()))
    table = tmp_path / "run.csv"
    rows = [x.split() for x in files["bm25.run"].splitlines()]
    table.write_text("query_id,doc_id,rank,score\n" + "".join(f"{c[0]},{c[2]},{c[3]},{c[4]}\n" for c in rows))
    found = karat.validate(files=[packed, table])
    twice = {(f.where, f.count) for f in found.findings if f.code == "R301"}
    assert twice == {((f"{packed}:49",), 1), ((f"{table}:50",), 1)}
    assert [f.code for f in found.findings if f.code == "X517"] == ["X517"]


def test_a_packed_file_that_breaks_off_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "gold.txt.gz"
    path.write_bytes(gzip.compress(clean()["gold.txt"].encode())[:40])
    found = karat.validate(files=path)
    assert [(f.code, f.where) for f in found.findings] == [("F001", (str(path),))]
    assert "breaks off" in found.findings[0].message


def test_parquet_is_read_with_rows_as_lines(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "gold.parquet"
    duckdb.sql(
        "SELECT * FROM (VALUES ('q1', 'a', 1), ('q1', 'b', 0), ('q1', 'a', 2)) t(query_id, doc_id, grade)"
    ).write_parquet(str(path))
    found = karat.validate(files=path)
    assert [(f.code, f.where) for f in found.findings] == [("G101", (f"{path}:1", f"{path}:3"))]


def test_json_objects_have_no_lines(tmp_path: Path) -> None:
    (tmp_path / "gold.json").write_text('{"q1": {"a": 1, "b": 0}, "q2": {"c": 0}}')
    (tmp_path / "run.json").write_text('{"q1": {"a": 0.5, "b": 0.25}, "q2": {}}')
    found = karat.validate(files=[tmp_path / "gold.json", tmp_path / "run.json"])
    assert {(f.code, f.where) for f in found.findings} == {
        ("G103", (f"{tmp_path}/gold.json",)),
        ("R310", (f"{tmp_path}/run.json",)),
    }


def test_unicode_ids_and_texts(tmp_path: Path) -> None:
    files = clean()
    files["gold.txt"] += "q0 0 Zu\u0308rich 1\n"  # u and a combining diaeresis
    files["corpus.jsonl"] += lines([{"_id": "Zürich", "title": "Stadt", "text": "am See"}])
    mine = [f for f in found_in(tmp_path, files).findings if f.code == "X509"]
    assert [f.where for f in mine] == [(f"{tmp_path}/gold.txt:49",)]


@pytest.mark.parametrize(
    ("name", "content", "role"),
    [
        ("a.txt", "q1 0 d1 1\n", "gold"),
        ("a.txt", "q1 Q0 d1 1 3.5 tag\n", "run"),
        ("a.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n", "gold"),
        ("a.csv", "query_id,doc_id,score\nq1,d1,0.25\n", "run"),
        ("a.csv", "query_id,doc_id,rank,score\nq1,d1,1,2\n", "run"),
        ("a.csv", "query_id,doc_id,relevance\nq1,d1,2\n", "gold"),
        ("qrels/test.csv", "query_id,doc_id,score\nq1,d1,250\n", "gold"),
        ("a.tsv", "q1\twhat is gold\nq2\twhat is a karat\n", "queries"),
        ("a.tsv", "p1\t" + "long " * 100 + "\n", "corpus"),
        ("a.jsonl", '{"_id": "1", "text": "what is gold"}\n', "queries"),
        ("a.jsonl", '{"_id": "1", "title": "Gold", "text": "A metal."}\n', "corpus"),
        ("corpus.jsonl", '{"_id": "1", "text": "A metal."}\n', "corpus"),
        ("a.jsonl", '{"query_id": "1", "topk": []}\n', "run"),
        ("a.jsonl", '{"query_id": "1", "doc_id": "2", "grade": 1}\n', "gold"),
        ("a.csv", "query_id,language\n1,en\n", "queries"),
        ("a.csv", "doc_id,source\n1,faq\n", "corpus"),
        ("a.json", '{"q1": {"d1": 0.5}}', "run"),
        ("a.json", '{"q1": {"d1": 2}}', "gold"),
    ],
)
def test_the_role_of_a_file_is_told(tmp_path: Path, name: str, content: str, role: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    assert list(karat.validate(files=path).roles.values()) == [role]


def test_a_stated_role_beats_the_content(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("query_id,doc_id,score\nq1,d1,1\n")
    assert list(karat.validate(runs=tmp_path / "x.csv").roles.values()) == ["run"]
    assert list(karat.validate(qrels=tmp_path / "x.csv", files=tmp_path / "x.csv").roles.values()) == ["gold"]


def test_dicts_and_standard_input_are_refused() -> None:
    with pytest.raises(karat.UsageError, match="paths of files, found dict"):
        karat.validate(runs=[{"q": {"d": 1.0}}])
    with pytest.raises(karat.UsageError, match="standard input does not work"):
        karat.validate(files="-")
    with pytest.raises(karat.UsageError, match="nothing to validate"):
        karat.validate()


def test_large_runs_are_looked_at_in_part_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karat.read import textfile
    from karat.verbs.validate import run_columns

    monkeypatch.setattr(run_columns, "MOST_ROWS", 10)
    monkeypatch.setattr(textfile, "BLOCK", 200)
    found = found_in(tmp_path, clean())
    codes = {f.code for f in found.findings}
    part = next(f for f in found.findings if f.code == "F004" and f.file.endswith("bm25.run"))
    assert part.severity == "info" and part.message.startswith(f"only the first {part.count:,} rows are checked")
    assert "X506" not in codes  # queries that come later are not missing


def test_a_large_irregular_run_is_read_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karat.read import textfile
    from karat.verbs.validate import run_columns

    monkeypatch.setattr(run_columns, "MOST_BYTES", 100)
    monkeypatch.setattr(textfile, "BLOCK", 200)
    files = clean()
    both(line("bm25.run", 30, lambda x: x.replace("7.5", "?")), add("bm25.run", "q11 Q0 d22 5 1.5 tag"))(files)
    found = found_in(tmp_path, files)
    places = {f.code: f.where for f in found.findings}
    assert places["F001"] == (f"{tmp_path}/bm25.run:30",)
    assert places["R301"] == (f"{tmp_path}/bm25.run:49",)


def test_ten_thousand_queries_are_compared_within_seconds() -> None:
    import time

    texts = [text(i, 8) + f" {WORDS[i % 31]}{chr(97 + i % 26)}{chr(97 + i // 26 % 26)}" for i in range(10_000)]
    texts[9_999] = texts[17] + " x"
    begun = time.process_time()
    groups, _ = near_groups(texts)
    assert time.process_time() - begun < 20
    assert any({17, 9_999} <= set(g) for g in groups)


def test_near_duplicates_are_those_of_all_pairs() -> None:
    rng = random.Random(5)
    texts = [" ".join(rng.sample(WORDS, rng.randint(3, 9))) for _ in range(150)]
    for i in range(150):  # as many that lack a word, have one more, or a letter less
        words = texts[i].split()
        changed = (words[:-1], [*words, "more"], [words[0][1:], *words[1:]])[i % 3]
        texts.append(" ".join(changed))
    groups, complete = near_groups(texts)
    joined = {(a, b) for g in groups for a in g for b in g if a < b}

    def near(a: str, b: str) -> bool:
        words = set(a.split()), set(b.split())
        letters = tuple({t[i : i + 3] for i in range(len(t) - 2)} for t in (a, b))
        same_numbers = [c for c in a if c.isdigit()] == [c for c in b if c.isdigit()]
        shares = [len(x & y) / len(x | y) for x, y in (words, letters)]
        return same_numbers and (shares[0] >= 0.8 or shares[1] >= 0.85)

    pairs = {(i, j) for i in range(300) for j in range(i + 1, 300) if near(texts[i], texts[j])}
    assert complete and len(pairs) > 50 and pairs <= joined
    for a, b in joined:  # a group hangs together by near pairs
        assert any((min(a, c), max(a, c)) in pairs for c in range(300) if c != a), (a, b)


def test_a_quotation_is_eight_words_in_a_row_or_a_whole_query_of_six() -> None:
    doc = "The quick brown fox jumps over the lazy dog, and then it sleeps."
    assert quoted_words("Why: quick brown fox jumps over the lazy dog?", doc) == [
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "the",
        "lazy",
        "dog",
    ]
    assert quoted_words("why quick brown fox jumps over the lazy", doc) == []  # seven of eight words
    assert quoted_words("Fox jumps over the lazy dog", doc) == ["fox", "jumps", "over", "the", "lazy", "dog"]
    assert quoted_words("over the lazy dog", doc) == []


def karat_cli(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_karat("validate", *arguments, cwd=cwd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in clean().items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_exit_codes(folder: Path) -> None:
    names = sorted(clean())
    fine = karat_cli(*names, cwd=folder)
    assert (fine.returncode, fine.stdout) == (0, "No problems found in 5 files\n")
    with (folder / "gold.txt").open("a") as file:
        file.write("q0 0 d0 2\n")  # the same judgment again: a warning
    assert karat_cli(*names, cwd=folder).returncode == 0
    assert karat_cli(*names, "--strict", cwd=folder).returncode == 1
    with (folder / "gold.txt").open("a") as file:
        file.write("q0 0 d0 1\n")  # and another grade: an error
    wrong = karat_cli(*names, cwd=folder)
    assert wrong.returncode == 1
    assert wrong.stdout.splitlines()[-1] == "1 error, 1 warning"
    assert "error   G101  1 judgment contradicts an earlier one: query q0, doc d0 has grade 2 and 1" in wrong.stdout
    assert "at gold.txt:1, gold.txt:50" in wrong.stdout
    assert "\x1b[" not in wrong.stdout
    assert karat_cli(*names, "--ignore", "G101", cwd=folder).returncode == 0
    assert karat_cli(*names, "--select", "Q,R", cwd=folder).stdout == "No problems found in 5 files\n"
    quiet = karat_cli(*names, "-q", cwd=folder).stdout
    assert "G101" in quiet and "G102" not in quiet


def test_wrong_usage_is_exit_code_2(folder: Path) -> None:
    missing = karat_cli("nothing.txt", cwd=folder)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "nothing.txt: no such file" in missing.stderr
    unknown = karat_cli("gold.txt", "--ignore", "Z9", cwd=folder)
    assert unknown.returncode == 2 and "no rule has a code that starts with 'Z9'" in unknown.stderr
    assert karat_cli(cwd=folder).returncode == 2


def test_the_json_follows_its_schema_and_is_alone_on_standard_output(folder: Path) -> None:
    done = karat_cli("gold.txt", "--run", "bm25.run", "--queries", "queries.jsonl", "--json", "-", cwd=folder)
    SCHEMA.validate(document := json.loads(done.stdout))
    assert (document["ok"], document["findings"]) == (True, [])
    assert {f["file"]: f["role"] for f in document["files"]} == {
        "gold.txt": "gold",
        "bm25.run": "run",
        "queries.jsonl": "queries",
    }


@pytest.mark.parametrize("name", DEFECTS)
def test_every_finding_follows_the_schema(tmp_path: Path, name: str) -> None:
    files = clean()
    DEFECTS[name][3](files)
    SCHEMA.validate(json.loads(json.dumps(found_in(tmp_path, files).as_json())))


def test_select_and_ignore_take_beginnings_of_codes(tmp_path: Path) -> None:
    files = clean()
    both(add("gold.txt", "q0 0 d0 1"), field("queries.jsonl", 8, text=""))(files)
    assert {f.code for f in found_in(tmp_path, files).findings} == {"G101", "Q202"}
    assert {f.code for f in found_in(tmp_path, files, select=["G"]).findings} == {"G101"}
    assert {f.code for f in found_in(tmp_path, files, ignore=["g1"]).findings} == {"Q202"}


def test_every_check_says_what_goes_wrong_and_what_to_do() -> None:
    for code, rule in LINT_RULES.items():
        assert code == rule.code and rule.severity in ("error", "warning", "info")
        assert rule.why.endswith((".", "?")) and rule.fix.endswith("."), code
        assert not rule.title.endswith("."), code


def test_leading_zeros_are_another_spelling_and_good_gold_is_not_to_be_removed(tmp_path: Path) -> None:
    """Ids of CACM: the qrels say CACM-115, the corpus CACM-0115."""
    (tmp_path / "qrels.txt").write_text("1 0 CACM-115 1\n1 0 CACM-1605 1\n1 0 XYZ 1\n")
    (tmp_path / "corpus.jsonl").write_text('{"_id": "CACM-0115", "text": "a"}\n{"_id": "CACM-1605", "text": "b"}\n')
    findings = {
        f.code: f for f in karat.validate(qrels=tmp_path / "qrels.txt", corpus=tmp_path / "corpus.jsonl").findings
    }
    assert findings["X509"].message.endswith("CACM-115 here, CACM-0115 there")
    assert findings["X501"].message.endswith("not in the corpus: XYZ; ids of the corpus look like CACM-0115")
    assert "remove" not in findings["X501"].fix.lower()
    result = karat.evaluate(tmp_path / "qrels.txt", {"1": ["CACM-0115"]}, "mrr", docs=tmp_path / "corpus.jsonl")
    assert (
        '2 of 3 distinct relevant docs are not in the corpus ("CACM-115", "XYZ"); '
        'the corpus writes 1 of them differently: "CACM-0115" for "CACM-115"'
    ) in result.notes


def test_a_folder_is_what_a_benchmark_takes(tmp_path: Path) -> None:
    files = clean()
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.txt").write_text(files["gold.txt"])
    for name in ("queries.jsonl", "corpus.jsonl"):
        (tmp_path / name).write_text(files[name])
    validation = karat.validate(str(tmp_path))
    assert {os.path.relpath(f, tmp_path): r for f, r in validation.roles.items()} == {
        "qrels/test.txt": "gold",
        "queries.jsonl": "queries",
        "corpus.jsonl": "corpus",
    }
    with pytest.raises(karat.InputError, match=r"has no corpus\.jsonl"):
        karat.validate(str(tmp_path / "qrels"))


def test_a_folder_is_checked_with_its_config_and_all_that_it_names(folder: Path) -> None:
    (folder / "karat.yaml").write_text(
        "dataset: {qrels: ./gold.txt, queries: queries.jsonl}\nruns: [bm25.run]\ngates: [mrr >= 0.1, nope >= 1]\n"
    )
    broken = karat.validate(str(folder))
    assert [f.code for f in broken.findings if f.severity == "error"] == ["K601"]
    (folder / "karat.yaml").write_text(
        "dataset: {qrels: ./gold.txt, queries: ./queries.jsonl}\nruns: [bm25.run]\ngates: [mrr >= 0.1]\n"
    )
    names = sorted(Path(path).name for path in karat.validate(str(folder)).roles)
    assert names == ["bm25.run", "corpus.jsonl", "gold.txt", "karat.yaml", "queries.jsonl"]  # each once


def test_a_repeated_doc_does_not_make_a_list_deeper(tmp_path: Path) -> None:
    """Five lines that name four docs are a list of four, as evaluate ranks them: it is not cut after five."""
    queries = [f"q{i}" for i in range(6)]
    docs = {"a.run": ["d1", "d2", "d3", "d4", "d4"], "b.run": ["d1", "d2", "d3", "d4", "d5"]}
    for name, ids in docs.items():
        rows = [f"{q} Q0 {d} {i} {9 - i} tag" for q in queries for i, d in enumerate(ids, start=1)]
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    (tmp_path / "gold.txt").write_text("".join(f"{q} 0 d1 1\n" for q in queries))
    validation = karat.validate([str(tmp_path / name) for name in ("gold.txt", "a.run", "b.run")])
    (finding,) = [f for f in validation.findings if f.code == "X518"]
    assert "is cut after 4 results" in finding.message
    assert finding.message.endswith("has up to 5")


def test_ids_that_look_the_same_are_told_apart() -> None:
    """Only an accent that stands apart is spelled out: of a script that needs such marks, words stay words."""
    assert (quote_id("café"), quote_id("cafe\u0301"), quote_id("हिन्दी")) == ("café", '"cafe\\u0301"', "हिन्दी")
