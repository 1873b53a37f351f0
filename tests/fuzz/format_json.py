"""JSON and JSON Lines: runs and gold, run logs, and what Chroma returns."""

from __future__ import annotations

from random import Random
from typing import Any

from references import (
    DOC,
    GRADE,
    QUERY,
    SCORE,
    Gold,
    Run,
    Scored,
    check_rivals,
    expect,
    finite,
    id_of,
    json_lines,
    of_role,
    parse_json,
    run_of,
    text_of,
)
from samples import SPACED, Case, Kind, as_number, damage_json, some_rows


def _jsonl(rng: Random, kind: str) -> Case:
    value = rng.choice(["grade", "relevance"] if kind.endswith("gold") else ["score"])
    query, doc = rng.choice(["query_id", "qid"]), rng.choice(["doc_id", "docno"])
    trees: list[Any] = [{query: q, doc: d, value: as_number(rng, v)} for q, d, v in some_rows(rng, SPACED)]
    for tree in trees:
        if rng.random() < 0.1:
            tree["metadata"] = {"a": 1}
    return damage_json(rng, kind, "data.jsonl", trees)


def _json(rng: Random, kind: str) -> Case:
    tree: dict[str, Any] = {}
    lists = rng.random() < 0.3
    for q, d, v in some_rows(rng, SPACED):
        if lists:
            tree.setdefault(q, []).append(d)
        else:
            tree.setdefault(q, {})[d] = as_number(rng, v)
    return damage_json(rng, kind, "data.json", [tree])


def _chroma(rng: Random, kind: str) -> Case:
    tree: dict[str, Any] = {}
    for q, d, v in some_rows(rng, SPACED):
        one = tree.setdefault(q, {"ids": [[]], "metadatas": [[]], "distances": [[]]})
        one["ids"][0].append(d)
        one["metadatas"][0].append(rng.choice([None, {"doc_id": d.partition("#")[0]}, {"page": 1}]))
        one["distances"][0].append(float(v))
    return damage_json(rng, kind, "data.json", [tree])


def _log(rng: Random, kind: str) -> Case:
    trees: dict[str, Any] = {}
    ranked, scored = rng.random() < 0.5, rng.random() < 0.5
    for q, d, v in some_rows(rng, SPACED):
        line = trees.setdefault(q, {"query_id": q, "topk": []})
        item: dict[str, Any] = {rng.choice(["doc_id", "chunk_id"]): d}
        if ranked:
            item["rank"] = len(line["topk"]) + 1
        if scored:
            item["score"] = as_number(rng, v)
        line["topk"].append(item)
    for line in trees.values():
        for key, value in (("latency_ms", {"total": 5}), ("route", "a"), ("stages", {"retrieve": ["d1"]}), ("k", 5)):
            if rng.random() < 0.2:
                line[key] = value
    return damage_json(rng, kind, "log.jsonl", list(trees.values()))


def read_jsonl(data: bytes, kind: str) -> Run | Gold:
    rows: Scored = []
    values = GRADE if kind.endswith("gold") else SCORE
    for row in json_lines(data):
        check_rivals(row, kind)
        query, doc, value = (next((row[n] for n in wanted if n in row), None) for wanted in (QUERY, DOC, values))
        doc = row["chunk_id"] if row.get("chunk_id") is not None else doc
        rows.append((id_of(query), id_of(doc), finite(value)))
    return of_role(kind, rows)


def read_json(data: bytes, kind: str) -> Run | Gold:
    tree = parse_json(text_of(data), alike=kind.endswith("gold"))
    expect(isinstance(tree, dict) and tree, "not an object")
    gold = kind.endswith("gold")
    if all(isinstance(docs, dict) and "ids" in docs for docs in tree.values()) and not gold:
        return read_chroma(tree)
    kinds = {type(docs) for docs in tree.values()}
    expect(kinds <= {dict, list} and (gold or len(kinds) == 1), "not docs")
    out: Any = {}
    for query, docs in tree.items():
        if isinstance(docs, list):
            ids = [id_of(doc) for doc in docs]
            out[id_of(query)] = dict.fromkeys(ids, 1.0) if gold else list(dict.fromkeys(ids))
        elif gold and any(isinstance(v, (dict, list)) for v in docs.values()):
            expect(all(isinstance(v, (dict, list)) and v for v in docs.values()), "grades beside subtopics")
            by = {id_of(d): v if isinstance(v, dict) else {id_of(t): 1 for t in v} for d, v in docs.items()}
            out[id_of(query)] = {d: max(finite(g) for g in topics.values()) for d, topics in by.items()}
        elif gold:
            out[id_of(query)] = {id_of(d): finite(v) for d, v in docs.items()}
        else:
            out[id_of(query)] = run_of([("", id_of(d), finite(v)) for d, v in docs.items()])[""] if docs else []
    return out


def read_chroma(tree: dict[str, Any]) -> Run:
    out: Run = {}
    for query, result in tree.items():
        ids = result["ids"]
        expect(isinstance(ids, list), "ids")
        if ids and isinstance(ids[0], list):
            expect(len(ids) == 1, "several results")
            ids = ids[0]
        out[id_of(query)] = list(dict.fromkeys(id_of(i) for i in ids))
    return out


def read_log(data: bytes, kind: str) -> Run:
    out: Run = {}
    lines = json_lines(data)
    expect(lines, "no lines")
    for line in lines:
        query, items = id_of(line.get("query_id")), line.get("topk")
        expect(query not in out and isinstance(items, list), "a query twice, or no list")
        docs = []
        for item in items:
            expect(isinstance(item, dict), "not an item")
            chunk, doc = (None if item.get(n) is None else id_of(item[n]) for n in ("chunk_id", "doc_id"))
            expect(chunk or doc, "no id")
            rank, score = item.get("rank"), item.get("score")
            expect(rank is None or (type(rank) is int and rank >= 1), "a rank")
            docs.append((chunk or doc or "", rank, None if score is None else finite(score)))
        ranks = [rank for _, rank, _ in docs if rank is not None]
        expect(len(ranks) in (0, len(docs)) and len(set(ranks)) == len(ranks), "ranks")
        if ranks:
            docs.sort(key=lambda d: d[1] or 0)
        elif all(d[2] is not None for d in docs):
            docs.sort(key=lambda d: (d[2] or 0.0, d[0].encode()), reverse=True)
        out[query] = list(dict.fromkeys(d[0] for d in docs))
    return out


KINDS = {
    "jsonl run": Kind(_jsonl, read_jsonl),
    "jsonl gold": Kind(_jsonl, read_jsonl),
    "json run": Kind(_json, read_json),
    "json gold": Kind(_json, read_json),
    "chroma run": Kind(_chroma, read_json, "json"),
    "log run": Kind(_log, read_log, "jsonl"),
}
