"""Cases: files of every kind that Karat reads, first whole, then damaged. A seed makes the same case everywhere."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mutations import VALUES, mutate_bytes, mutate_lines, mutate_tree, pack


@dataclass(frozen=True)
class Case:
    """One input: its kind, the name of its file, and what the file holds."""

    kind: str
    name: str
    data: bytes
    damaged: bool = True


IDS = [
    *("d1", "d2", "d3", "D3", "10", "9", "007", "é", "日本", "a-b_c.d", "HP:0000118", "d#1", "d#2"),
    *("=1+1", "-", "null", "nan", "x" * 40, "x" * 150),
]
SPACED = [*IDS, "a b", " lead", "a,b", 'say "hi"', "a;b", "it's", "topk", "a\tb"]
NUMBERS = [
    *("1", "0", "2", "3", "-1", "0.5", "1.0", "+2", ".25", "3.", "1e-3", "2E2", "0.1", "0.10000000000000001"),
    *("0.30000000000000004", "0.3", "123456789012345678", "5e-324", "1e22", "00.5"),
]


def make_case(kind: str, seed: int) -> Case:
    """The case of a kind that a seed stands for."""
    rng = Random(f"{kind}:{seed}")
    return KINDS[kind](rng, kind)


def _rows(rng: Random, ids: list[str], most: int = 12) -> list[tuple[str, str, str]]:
    rows = []
    for q in rng.sample(["q1", "q2", "q3", "10", "9", "ü"], rng.randint(1, 3)):
        docs = rng.sample(ids, rng.randint(1, min(most, len(ids))))
        numbers = [rng.choice(NUMBERS) for _ in docs]
        if rng.random() < 0.7:
            numbers.sort(key=float, reverse=True)
        rows += [(q, doc, number) for doc, number in zip(docs, numbers, strict=True)]
    if rng.random() < 0.2:
        rng.shuffle(rows)
    return rows


def _damage(rng: Random, data: bytes, *, lines: bool = True) -> tuple[bytes, bool]:
    count = rng.choice([0, 1, 1, 1, 2, 4])
    for _ in range(count):
        data = (mutate_lines if lines and rng.random() < 0.6 else mutate_bytes)(rng, data)
    if lines and rng.random() < 0.03:
        data = b"\xef\xbb\xbf" + data
    return data, count > 0


def _finish(rng: Random, kind: str, name: str, data: bytes, *, lines: bool = True) -> Case:
    data, damaged = _damage(rng, data, lines=lines)
    if rng.random() < 0.05:
        return Case(kind, name, pack(rng, data))
    return Case(kind, name, data, damaged)


def _trec(rng: Random, kind: str) -> Case:
    mark = rng.choice([" ", " ", "\t", "  "])
    lines = []
    for n, (q, d, v) in enumerate(_rows(rng, IDS), start=1):
        cells = (q, "0", d, v) if kind.endswith("gold") else (q, "Q0", d, str(n), v, "tag")
        lines.append(mark.join(cells) + "\n")
    return _finish(rng, kind, "data.txt", "".join(lines).encode())


def _table(rng: Random, kind: str) -> Case:
    mark = "\t" if "tsv" in kind else rng.choice([",", ",", ";", "|"])
    value = rng.choice(["grade", "relevance", "rel"] if kind.endswith("gold") else ["score", "sim"])
    names = [
        rng.choice(["query_id", "query-id", "qid", "Query_ID"]),
        rng.choice(["doc_id", "corpus-id", "docno"]),
        value,
    ]
    more = rng.random() < 0.3
    order = rng.sample(range(4 if more else 3), 4 if more else 3)
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=mark, lineterminator=rng.choice(["\n", "\n", "\r\n"]), quoting=rng.choice([0, 0, 1])
    )
    for row in [tuple(names), *_rows(rng, [i for i in SPACED if i == i.strip()])]:
        cells = (*row, rng.choice(["note", "", "a note"]))
        writer.writerow([cells[i] for i in order])
    return _finish(rng, kind, "data.tsv" if mark == "\t" else "data.csv", out.getvalue().encode())


def _number(rng: Random, text: str) -> Any:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 1e15 and rng.random() < 0.7 else value


def _dump(rng: Random, tree: Any) -> bytes:
    style: dict[str, Any] = rng.choice([{}, {}, {"separators": (",", ":")}, {"ensure_ascii": False}])
    return json.dumps(tree, **style).encode("utf-8", "surrogatepass")


def _json_damage(rng: Random, kind: str, name: str, trees: list[Any]) -> Case:
    """One text per tree on a line of its own: damage to trees, to lines, and keys that appear twice."""
    damaged = False
    if rng.random() < 0.5:
        damaged = True
        place = rng.randrange(len(trees))
        trees[place] = mutate_tree(rng, trees[place])
    texts = [_dump(rng, tree) for tree in trees]
    if rng.random() < 0.1:
        place = rng.randrange(len(texts))
        keys = [key for key in trees[place] if key] if isinstance(trees[place], dict) else []
        if keys:
            damaged = True
            again = _dump(rng, {rng.choice(keys): rng.choice(VALUES)})
            texts[place] = texts[place][:-1] + b", " + again[1:]
    case = _finish(rng, kind, name, b"\n".join(texts) + rng.choice([b"\n", b"\n", b""]))
    return replace(case, damaged=case.damaged or damaged)


def _jsonl(rng: Random, kind: str) -> Case:
    value = rng.choice(["grade", "relevance"] if kind.endswith("gold") else ["score"])
    query, doc = rng.choice(["query_id", "qid"]), rng.choice(["doc_id", "docno"])
    trees: list[Any] = [{query: q, doc: d, value: _number(rng, v)} for q, d, v in _rows(rng, SPACED)]
    for tree in trees:
        if rng.random() < 0.1:
            tree["metadata"] = {"a": 1}
    return _json_damage(rng, kind, "data.jsonl", trees)


def _json(rng: Random, kind: str) -> Case:
    tree: dict[str, Any] = {}
    lists = rng.random() < 0.3
    for q, d, v in _rows(rng, SPACED):
        if lists:
            tree.setdefault(q, []).append(d)
        else:
            tree.setdefault(q, {})[d] = _number(rng, v)
    return _json_damage(rng, kind, "data.json", [tree])


def _chroma(rng: Random, kind: str) -> Case:
    tree: dict[str, Any] = {}
    for q, d, v in _rows(rng, SPACED):
        one = tree.setdefault(q, {"ids": [[]], "metadatas": [[]], "distances": [[]]})
        one["ids"][0].append(d)
        one["metadatas"][0].append(rng.choice([None, {"doc_id": d.partition("#")[0]}, {"page": 1}]))
        one["distances"][0].append(float(v))
    return _json_damage(rng, kind, "data.json", [tree])


def _log(rng: Random, kind: str) -> Case:
    trees: dict[str, Any] = {}
    ranked, scored = rng.random() < 0.5, rng.random() < 0.5
    for q, d, v in _rows(rng, SPACED):
        line = trees.setdefault(q, {"query_id": q, "topk": []})
        item: dict[str, Any] = {rng.choice(["doc_id", "chunk_id"]): d}
        if ranked:
            item["rank"] = len(line["topk"]) + 1
        if scored:
            item["score"] = _number(rng, v)
        line["topk"].append(item)
    for line in trees.values():
        for key, value in (("latency_ms", {"total": 5}), ("route", "a"), ("stages", {"retrieve": ["d1"]}), ("k", 5)):
            if rng.random() < 0.2:
                line[key] = value
    return _json_damage(rng, kind, "log.jsonl", list(trees.values()))


def _parquet(rng: Random, kind: str) -> Case:
    """Columns of odd types, or a file with damaged bytes."""
    rows = _rows(rng, SPACED)
    value = "grade" if kind.endswith("gold") else "score"
    columns: dict[str, list[Any]] = {
        "query_id": [r[0] for r in rows],
        "doc_id": [r[1] for r in rows],
        value: [_number(rng, r[2]) for r in rows],
    }
    columns[value] = [float(v) for v in columns[value]]
    if rng.random() < 0.5:
        name = rng.choice(list(columns))
        odd: list[Any] = [None, "", True, 7, 1.5, float("nan"), float("inf"), "a\x00b", b"x", [1]]
        replacement = rng.choice(odd)
        if rng.random() < 0.5:
            columns[name] = [replacement] * len(rows)
        else:
            columns[name][rng.randrange(len(rows))] = replacement
    try:
        table = pa.table(columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        table = pa.table({name: [str(v) for v in values] for name, values in columns.items()})
    if rng.random() < 0.2:
        table = table.rename_columns(
            [rng.choice([n, n.upper(), n + " ", 'a"b', "query_id"]) for n in table.column_names]
        )
    out = io.BytesIO()
    pq.write_table(table, out, compression=rng.choice(["none", "snappy", "zstd"]), use_dictionary=rng.random() < 0.5)
    data = out.getvalue()
    if rng.random() < 0.3:
        data, _ = _damage(rng, data, lines=False)
    return Case(kind, "data.parquet", data)


def _frame(rng: Random, kind: str) -> Case:
    """Columns for a data frame, as JSON."""
    rows = _rows(rng, SPACED)
    value = "grade" if kind.endswith("gold") else "score"
    tree: Any = {"query_id": [r[0] for r in rows], "doc_id": [r[1] for r in rows], value: [float(r[2]) for r in rows]}
    for _ in range(rng.choice([0, 1, 1, 2])):
        tree = mutate_tree(rng, tree)
    return Case(kind, "frame.json", _dump(rng, tree))


def _npy(rng: Random, kind: str) -> Case:
    ids = rng.sample(IDS, rng.randint(1, 6))
    kinds = ["<f4", "<f8", ">f8", "<i4", "|u1", "<f2", "|b1", "<U4", "<c16"]
    matrix = np.array([[rng.randint(1, 9) for _ in range(3)] for _ in ids]).astype(
        rng.choice(kinds[:4] if rng.random() < 0.8 else kinds)
    )
    out = io.BytesIO()
    if kind.endswith("npz"):
        np.savez_compressed(out, ids=np.array(ids), vectors=matrix)
    else:
        np.save(out, np.asfortranarray(matrix) if rng.random() < 0.2 else matrix)
    data, damaged = _damage(rng, out.getvalue(), lines=False)
    return Case(kind, f"data.{kind[-3:]}", json.dumps({"ids": ids, "data": data.hex()}).encode(), damaged)


def _queries(rng: Random, kind: str) -> Case:
    ids = rng.sample(["q1", "q2", "q3", "10", "ü", "a b"], rng.randint(1, 5))
    texts = ["what is love", 'say "hi"', '"quoted', "a, b", "tab\there", "", "5'", "ä ö", "#tag", "a\nb", "x" * 80]
    name = rng.choice(["_id", "query_id", "id"] if kind.startswith("queries") else ["_id", "doc_id", "id"])
    rows = [
        {
            name: i,
            "text": rng.choice(texts),
            "language": rng.choice(["de", "en", ""]),
            "n": rng.choice(["1", "no", "x"]),
        }
        for i in ids
    ]
    if kind.endswith("jsonl"):
        trees: list[Any] = [{k: v for k, v in row.items() if rng.random() < 0.9 or k == name} for row in rows]
        return _json_damage(rng, kind, "data.jsonl", trees)
    if kind.endswith("tsv"):
        flat = [
            [str(v).replace("\t", " ").replace("\n", " ") for v in row.values()]
            for row in [dict(zip(rows[0], rows[0], strict=True)), *rows]
        ]
        return _finish(rng, kind, "data.tsv", "".join("\t".join(cells) + "\n" for cells in flat).encode())
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writeheader()
    writer.writerows(rows)
    return _finish(rng, kind, "data.csv", out.getvalue().encode())


def _topics(rng: Random, kind: str) -> Case:
    lines = [
        f"{q}\t{text}\n" for q, text in (("1", "what is love"), ("2", 'a "b" c'), ("3", '"open'), ("4", "last, one"))
    ]
    return _finish(rng, kind, "topics.tsv", "".join(lines).encode())


def _cases(rng: Random, kind: str) -> Case:
    cases: list[Any] = []
    for n in range(rng.randint(1, 5)):
        ids = rng.sample(["HP:0000118", "HP:0000001", "HP:0001250", "X:1"], rng.randint(1, 3))
        expected: Any = ids if rng.random() < 0.5 else {i: rng.choice([1, 2, 0.5]) for i in ids}
        case = {"case_id": f"c{n}", "text": rng.choice(["Kopfschmerz", "a", "ä"]), "expected_ids": expected}
        if rng.random() < 0.3:
            case["difficulty"] = rng.choice(["easy", "hard"])
        cases.append(case)
    tree: Any = cases if rng.random() < 0.4 else {"metadata": {"language": "de"}, "test_cases": cases}
    return _json_damage(rng, kind, "cases.json", [tree])


def _obo(rng: Random, kind: str) -> Case:
    out = ["format-version: 1.2\ndata-version: 2025-01-01\n"]
    for n in range(rng.randint(1, 6)):
        lines = [f"[Term]\nid: X:{n}\nname: term {n}\n"]
        if n:
            lines.append(f"is_a: X:{rng.randrange(n)} ! a parent\n")
        for line in ('synonym: "a \\"b\\" c" EXACT []\n', f"alt_id: X:9{n}\n", "xref: Y:1\n", "comment: a: b\n"):
            if rng.random() < 0.3:
                lines.append(line)
        out.append("".join(lines))
    if rng.random() < 0.3:
        out.append("[Typedef]\nid: part_of\nname: part of\n")
    return _finish(rng, kind, "data.obo", "\n".join(out).encode())


KINDS: dict[str, Callable[[Random, str], Case]] = {
    "trec run": _trec,
    "trec gold": _trec,
    "csv run": _table,
    "csv gold": _table,
    "tsv run": _table,
    "tsv gold": _table,
    "jsonl run": _jsonl,
    "jsonl gold": _jsonl,
    "json run": _json,
    "json gold": _json,
    "chroma run": _chroma,
    "log run": _log,
    "parquet run": _parquet,
    "parquet gold": _parquet,
    "frame run": _frame,
    "frame gold": _frame,
    "embeddings npy": _npy,
    "embeddings npz": _npy,
    "queries jsonl": _queries,
    "queries csv": _queries,
    "queries tsv": _queries,
    "queries topics": _topics,
    "corpus jsonl": _queries,
    "corpus csv": _queries,
    "corpus tsv": _queries,
    "cases": _cases,
    "obo": _obo,
}
