"""Synthetic retrieval pipelines with planted faults: corpus, queries, gold and run log, all from a seed.

A pipeline is gate → router → retriever (raw k 100) → reranker (top 50 of it) → top 10. Scores are noise plus
affinities of language and topic plus what relevance earns; a fault changes the scores, the filters, the times or the
gold, never a metric. Nothing here knows how a diagnosis is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CLEAR = 0.7
"""The strength from which a fault counts as clear. It was set, like the table below, before any rule was written."""

FAULTS: dict[str, str] = {
    "reranker": "the pool of 70% of the queries is shuffled, or turned upside down",
    "chunker": "42% of the gold chunks are cut so that they are hardly found, while their docs are",
    "time filter": "docs newer than as_of come back for 70% of the queries",
    "language": "gold scores 2.8 standard deviations lower in one language, with at least 12% of the queries",
    "slow stage": "one stage takes 22 times as long, or 20 times as long for 17.5% of the queries",
    "router": "30% of the queries are sent to a wrong source",
    "thin gold": "63% of the judgments are missing; each query keeps one relevant doc",
    "retriever": "gold scores 2.1 standard deviations lower everywhere",
    "distractors": "for 70% of the queries 4 to 8 irrelevant near-duplicates score nearly as high as the best doc",
    "gate": "retrieval is skipped for 29% of the queries, all of which need it",
}
"""The faults, each with what it does at clear strength."""

RAW, POOL, TOP = 100, 50, 10
SOURCES = ("faq", "manual", "tickets")
LANGUAGES = ("en", "de", "fr", "pt", "fi")
TOPICS = ("billing", "network", "safety", "repair", "orders", "privacy")
DOCS, CHUNKS = 2000, 3
FIRST_DAY, DAYS = date(2023, 7, 1), 900


@dataclass(frozen=True)
class Pipeline:
    """What a team would have on disk, and what was planted."""

    seed: int
    planted: Mapping[str, float]
    corpus: dict[str, dict[str, Any]]
    queries: dict[str, dict[str, Any]]
    gold_chunks: dict[str, dict[str, int]]
    gold_docs: dict[str, dict[str, int]]
    log: list[dict[str, Any]]
    details: dict[str, Any]
    """Which language, stage or kind of fault the seed chose."""

    def write(self, folder: Path) -> dict[str, Path]:
        """The files: run log, queries, gold by chunk and by doc."""
        paths = {name: folder / f"{name}.jsonl" for name in ("run", "queries")}
        paths |= {name: folder / f"{name}.json" for name in ("gold_chunks", "gold_docs")}
        paths["run"].write_text("".join(json.dumps(line) + "\n" for line in self.log))
        rows = ({"_id": q, **fields} for q, fields in self.queries.items())
        paths["queries"].write_text("".join(json.dumps(row) + "\n" for row in rows))
        paths["gold_chunks"].write_text(json.dumps(self.gold_chunks))
        paths["gold_docs"].write_text(json.dumps(self.gold_docs))
        return paths


@dataclass(frozen=True)
class _World:
    """Docs, queries and gold as arrays; a chunk's number is doc × CHUNKS + place."""

    doc_source: NDArray[np.int64]
    doc_topic: NDArray[np.int64]
    doc_language: NDArray[np.int64]
    doc_day: NDArray[np.int64]
    language: NDArray[np.int64]
    topic: NDArray[np.int64]
    source: NDArray[np.int64]
    as_of: NDArray[np.int64]
    gold: list[dict[int, int]]
    """Of each query: the right chunks with their grades."""
    newer: list[list[int]]
    """Of each query: docs like the gold that came after its as_of."""

    def __len__(self) -> int:
        return len(self.language)


def pipeline(seed: int, faults: Mapping[str, float] | None = None) -> Pipeline:
    """The pipeline of a seed with these faults, each with a strength from 0 to 1; none is a healthy one."""
    planted = {name: strength for name, strength in (faults or {}).items() if strength > 0}
    for name in planted:
        if name not in FAULTS:
            raise ValueError(f"no fault {name!r}; known: {', '.join(FAULTS)}")
    rng = np.random.default_rng([seed, 1])
    world = _world(rng)
    scores, rerank_noise = _first_scores(world, rng), rng.normal(0.0, 1.0, (len(world), POOL + 1))
    # One column is how easy a query, and this system's reranker, makes it to tell what is relevant.
    rerank_noise[:, 0] = rng.normal(0.0, 0.7, len(world)) + rng.uniform(-0.5, 0.1)
    healthy_routes = _routes(world, np.random.default_rng([seed, 2]), 0.0)
    healthy = _lists(world, scores, rerank_noise, healthy_routes, {}, np.random.default_rng([seed, 3]), {})
    details = _chosen(world, np.random.default_rng([seed, 4]))
    routes = _routes(world, np.random.default_rng([seed, 2]), planted.get("router", 0.0))
    lists = healthy
    if planted.keys() - {"thin gold", "slow stage", "gate"}:  # those leave the lists as they are
        lists = _lists(world, scores, rerank_noise, routes, planted, np.random.default_rng([seed, 3]), details)
    gold = _judged(world, healthy, lists, np.random.default_rng([seed, 5]), planted.get("thin gold", 0.0))
    times = _latencies(len(world), np.random.default_rng([seed, 6]), planted.get("slow stage", 0.0), details)
    skips = np.random.default_rng([seed, 7]).random(len(world)) < 0.01 + 0.4 * planted.get("gate", 0.0)
    return _assembled(seed, planted, world, lists, routes, gold, times, skips, details)


def _world(rng: np.random.Generator) -> _World:
    n = int(rng.integers(100, 401))
    languages = int(rng.integers(2, 6))
    shares = np.maximum(rng.dirichlet(np.full(languages, 4.0)), 0.06)
    language = rng.choice(languages, n, p=shares / shares.sum())
    topic = rng.integers(0, len(TOPICS), n)
    source = rng.choice(len(SOURCES), n, p=(0.45, 0.35, 0.2))
    as_of = rng.integers(500, DAYS - 60, n)
    doc_source = rng.choice(len(SOURCES), DOCS, p=(0.4, 0.35, 0.25))
    doc_day = rng.integers(0, DAYS, DOCS)
    gold: list[dict[int, int]] = []
    newer: list[list[int]] = []
    for q in range(n):
        inside = np.flatnonzero((doc_source == source[q]) & (doc_day <= as_of[q]))
        keys, more = int(rng.choice((1, 2), p=(0.6, 0.4))), int(rng.choice((0, 1, 2, 3), p=(0.2, 0.3, 0.3, 0.2)))
        docs = rng.choice(inside, keys + more, replace=False)
        grades = [int(g) for g in (*rng.integers(2, 4, keys), *[1] * more)]
        gold.append({int(d) * CHUNKS + int(rng.integers(CHUNKS)): g for d, g in zip(docs, grades, strict=True)})
        later = np.flatnonzero((doc_source == source[q]) & (doc_day > as_of[q]))
        newer.append([int(d) for d in rng.choice(later, 3, replace=False)])
    return _World(
        doc_source,
        rng.integers(0, len(TOPICS), DOCS),
        rng.integers(0, languages, DOCS),
        doc_day,
        language,
        topic,
        source,
        as_of,
        gold,
        newer,
    )


def _first_scores(world: _World, rng: np.random.Generator) -> Floats:
    """The retriever's scores of all chunks without any fault: noise, affinities, and what relevance earns."""
    n = len(world)
    scores = rng.standard_normal((n, DOCS * CHUNKS), dtype=np.float32).astype(np.float64)
    same_topic = world.topic[:, None] == world.doc_topic[None, :]
    same_language = world.language[:, None] == world.doc_language[None, :]
    scores += np.repeat(0.7 * same_topic + 0.7 * same_language, CHUNKS, axis=1)
    difficulty = rng.normal(0.0, 0.5, n)
    mild = rng.normal(0.0, 0.1, len(LANGUAGES))[world.language] + rng.normal(0.0, 0.1, len(TOPICS))[world.topic]
    for q, right in enumerate(world.gold):
        for chunk, grade in right.items():
            doc = chunk // CHUNKS
            scores[q, doc * CHUNKS : (doc + 1) * CHUNKS] += 2.0  # its other chunks are about the same
            scores[q, chunk] += 1.9 + 0.35 * grade + difficulty[q] + mild[q]
    return scores


def _chosen(world: _World, rng: np.random.Generator) -> dict[str, Any]:
    """Which language, stage and kind a fault takes in this seed."""
    counts = np.bincount(world.language)
    large = np.flatnonzero(counts >= 0.12 * len(world))
    return {
        "language": int(rng.choice(large)),
        "stage": ("retrieve", "rerank")[int(rng.integers(2))],
        "tail": bool(rng.integers(2)),
        "upside down": bool(rng.integers(2)),
    }


def _routes(world: _World, rng: np.random.Generator, strength: float) -> NDArray[np.int64]:
    """The source that each query is sent to; a healthy router errs on 1.5%."""
    wrong = rng.random(len(world)) < 0.015 + 0.4 * strength
    return np.where(wrong, (world.source + rng.integers(1, len(SOURCES), len(world))) % len(SOURCES), world.source)


def _lists(
    world: _World,
    scores: Floats,
    rerank_noise: Floats,
    routes: NDArray[np.int64],
    planted: Mapping[str, float],
    rng: np.random.Generator,
    details: Mapping[str, Any],
) -> list[tuple[list[int], list[int], list[float]]]:
    """Of each query: the raw list, the reranked list, and the scores of the latter."""
    n = len(world)
    draws = {name: rng.random(n) for name in FAULTS}
    hit = {name: draws[name] < planted.get(name, 0.0) for name in FAULTS}
    out = []
    for q in range(n):
        mine = scores[q].copy()
        earned = dict.fromkeys(world.gold[q], 0.0)
        ease = 1.6 + rerank_noise[q, 0]
        for chunk, grade in world.gold[q].items():
            earned[chunk] = ease + 0.6 * grade
            loss = 3.0 * planted.get("retriever", 0.0)
            loss += 4.0 * planted.get("language", 0.0) * (world.language[q] == details.get("language"))
            doc = chunk // CHUNKS
            mine[doc * CHUNKS : (doc + 1) * CHUNKS] -= loss
            if rng.random() < 0.6 * planted.get("chunker", 0.0):  # half a passage is about nothing in particular
                mine[chunk] -= 5.0
                others = [c for c in range(doc * CHUNKS, (doc + 1) * CHUNKS) if c != chunk]
                mine[others] += 1.5
                earned[chunk] = 0.0
        open_to = world.doc_source == routes[q]
        if not hit["time filter"][q]:
            open_to &= world.doc_day <= world.as_of[q]
        else:
            for doc in world.newer[q]:  # newer docs on the same matter look as good as the gold
                mine[doc * CHUNKS] += 4.0
                earned[doc * CHUNKS] = ease + 1.2
        _plant_distractors(world, q, mine, earned, open_to, rng, hit["distractors"][q])
        mine[~np.repeat(open_to, CHUNKS)] = -np.inf
        raw = np.argpartition(-mine, RAW)[:RAW]
        raw = raw[np.argsort(-mine[raw], kind="stable")]
        raw = raw[np.isfinite(mine[raw])]
        pool = raw[:POOL]
        second = rerank_noise[q, 1 : len(pool) + 1] + 0.6 * mine[pool]
        second += np.array([earned.get(int(c), 0.0) for c in pool])
        if hit["reranker"][q]:
            second = -second if details.get("upside down") else rng.permutation(second)
        order = np.argsort(-second, kind="stable")
        out.append((raw.tolist(), pool[order].tolist(), second[order].tolist()))
    return out


def _plant_distractors(
    world: _World,
    q: int,
    mine: Floats,
    earned: dict[int, float],
    open_to: NDArray[np.bool_],
    rng: np.random.Generator,
    wanted: bool,
) -> None:
    """Chunks of the same topic that look like the best doc to retriever and reranker alike, and are not relevant."""
    count = int(rng.integers(4, 9))
    places = rng.choice(DOCS, 40, replace=False)
    if not wanted:
        return
    gold_docs = {chunk // CHUNKS for chunk in world.gold[q]}
    fit = [int(d) for d in places if open_to[d] and d not in gold_docs][:count]
    best = max(world.gold[q], key=lambda c: world.gold[q][c])
    for doc in fit:
        mine[doc * CHUNKS] = mine[best] + rng.normal(-0.3, 0.6)
        earned[doc * CHUNKS] = earned[best] - 1.1


def _judged(
    world: _World,
    before: list[tuple[list[int], list[int], list[float]]],
    now: list[tuple[list[int], list[int], list[float]]],
    rng: np.random.Generator,
    thin: float,
) -> list[dict[int, int]]:
    """Gold by chunk: the relevant ones, and nearly all that judges saw: a healthy predecessor's lists, this top 5."""
    out = []
    for right, (raw, reranked, _), (_, mine, _) in zip(world.gold, before, now, strict=True):
        seen = dict.fromkeys((*raw[:TOP], *reranked[: TOP + 4], *mine[:5]))
        pooled = [c for c in seen if rng.random() < 0.95]
        grades = {**dict.fromkeys(pooled, 0), **right}
        kept = {c: g for c, g in grades.items() if rng.random() >= 0.9 * thin}
        if not any(c in right for c in kept):
            one = list(right)[int(rng.integers(len(right)))]
            kept[one] = right[one]
        out.append(kept)
    return out


def _latencies(n: int, rng: np.random.Generator, strength: float, details: Mapping[str, Any]) -> dict[str, Floats]:
    medians = {"route": rng.uniform(2, 6), "retrieve": rng.uniform(20, 60), "rerank": rng.uniform(20, 60)}
    times = {stage: median * np.exp(rng.normal(0.0, 0.35, n)) for stage, median in medians.items()}
    slow = rng.random(n) < 0.25 * strength
    if strength:
        stage = details["stage"]
        times[stage] = times[stage] * (np.where(slow, 20.0, 1.0) if details["tail"] else 1 + 30 * strength)
    return times


def _assembled(
    seed: int,
    planted: Mapping[str, float],
    world: _World,
    lists: list[tuple[list[int], list[int], list[float]]],
    routes: NDArray[np.int64],
    gold: list[dict[int, int]],
    times: dict[str, Floats],
    skips: NDArray[np.bool_],
    details: dict[str, Any],
) -> Pipeline:
    docs = [f"d{i:04d}" for i in range(DOCS)]
    chunks = [f"{d}#{i}" for d in docs for i in range(CHUNKS)]
    days = [(FIRST_DAY + timedelta(days=int(d))).isoformat() for d in range(DAYS)]
    corpus = {
        doc: {
            "source": SOURCES[world.doc_source[i]],
            "topic": TOPICS[world.doc_topic[i]],
            "language": LANGUAGES[world.doc_language[i]],
            "doc_version": days[world.doc_day[i]],
            "text": f"{TOPICS[world.doc_topic[i]]} {SOURCES[world.doc_source[i]]} passage {i}",
        }
        for i, doc in enumerate(docs)
    }
    queries: dict[str, dict[str, Any]] = {}
    log: list[dict[str, Any]] = []
    by_chunk: dict[str, dict[str, int]] = {}
    by_doc: dict[str, dict[str, int]] = {}
    for q, (raw, reranked, second) in enumerate(lists):
        name = f"q{q:03d}"
        queries[name] = {
            "text": f"{TOPICS[world.topic[q]]} question {q}",
            "language": LANGUAGES[world.language[q]],
            "topic": TOPICS[world.topic[q]],
            "as_of": days[world.as_of[q]],
            "expected_source": SOURCES[world.source[q]],
            "needs_retrieval": True,
        }
        by_chunk[name] = {chunks[c]: g for c, g in gold[q].items()}
        by_doc[name] = {}
        for c, g in gold[q].items():
            doc = docs[c // CHUNKS]
            by_doc[name][doc] = max(g, by_doc[name].get(doc, 0))
        top = [
            {
                "rank": i,
                "chunk_id": chunks[c],
                "doc_id": docs[c // CHUNKS],
                "score": round(s, 4),
                "doc_version": days[world.doc_day[c // CHUNKS]],
                "source": SOURCES[world.doc_source[c // CHUNKS]],
            }
            for i, (c, s) in enumerate(zip(reranked[:TOP], second, strict=False), start=1)
        ]
        if skips[q]:  # a healthy gate errs on 1%
            log.append({"query_id": name, "system": f"synthetic-{seed}", "retrieved": False, "topk": []})
            continue
        log.append(
            {
                "query_id": name,
                "system": f"synthetic-{seed}",
                "k_raw": RAW,
                "topk": top,
                "stages": {"retrieve": [chunks[c] for c in raw], "rerank": [chunks[c] for c in reranked]},
                "latency_ms": {stage: round(float(values[q]), 2) for stage, values in times.items()},
                "route": SOURCES[routes[q]],
                "query": queries[name]["text"],
            }
        )
    told = {**details, "language": LANGUAGES[details["language"]]}
    return Pipeline(seed, dict(planted), corpus, queries, by_chunk, by_doc, log, told)
