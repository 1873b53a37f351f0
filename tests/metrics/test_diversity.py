"""Diversity: values worked by hand, double loops and ndeval as oracles, gold by subtopic, embeddings, bad input."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat.cli import main as command
from karat.metrics import similarity
from karat.metrics.subtopics import alpha_dcg
from karat.model.items import Items, Vectors
from karat.model.rankings import Rankings
from karat.read.embeddings import embeddings_of, vectors_of
from places import SCHEMAS

SCHEMA = json.loads((SCHEMAS / "result.schema.json").read_text())
Vector = Sequence[float] | np.ndarray


def main(arguments: Sequence[str]) -> int:
    """The command line with these arguments: its exit code."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr(sys, "argv", ["karat", *arguments])
        command()
    return int(end.value.code or 0)


def evaluated(gold: Any, run: Any, metrics: str, **options: Any) -> karat.Result:
    return karat.evaluate(gold, run, metrics, cache=False, **options)


def value(gold: Any, run: Any, metric: str, **options: Any) -> float:
    """The value of the only query."""
    (found,) = evaluated(gold, run, metric, **options).per_query(metric).values()
    return found


def with_cosines(cosines: Mapping[tuple[int, int], float], size: int) -> np.ndarray:
    """Unit vectors with these cosines, and 0 for other pairs: the rows of a Cholesky factor."""
    gram = np.eye(size)
    for (i, j), c in cosines.items():
        gram[i, j] = gram[j, i] = c
    return np.linalg.cholesky(gram)


def cosine(a: Vector, b: Vector) -> float:
    """By the definition, number by number."""
    x, y = [float(v) for v in a], [float(v) for v in b]
    dot = math.fsum(p * q for p, q in zip(x, y, strict=True))
    return dot / (math.sqrt(math.fsum(p * p for p in x)) * math.sqrt(math.fsum(q * q for q in y)))


# --- ild ----------------------------------------------------------------------------------------------


def test_ild_of_three_pairs_by_hand() -> None:
    """Cosines .9, .3, .4: (.1 + .7 + .6) / 3 = .4667."""
    vectors = dict(zip("abc", with_cosines({(0, 1): 0.9, (0, 2): 0.3, (1, 2): 0.4}, 3), strict=True))
    assert value({"q": ["a"]}, {"q": ["a", "b", "c"]}, "ild@3", embeddings=vectors) == pytest.approx(1.4 / 3, abs=1e-12)
    assert value({"q": ["a"]}, {"q": ["a", "b", "c"]}, "ild", embeddings=vectors) == pytest.approx(0.4667, abs=5e-5)
    assert value({"q": ["a"]}, {"q": ["a", "b", "c"]}, "ild@2", embeddings=vectors) == pytest.approx(0.1, abs=1e-12)


def test_ild_reaches_from_0_to_2() -> None:
    """Copies are 0 apart, opposites 2: its range is not 0 to 1."""
    vectors = {"a": [3.0, 4.0], "b": [-3.0, -4.0], "c": [0.3, 0.4], "d": [6.0, 8.0]}
    assert value({"q": ["a"]}, {"q": ["a", "c", "d"]}, "ild@3", embeddings=vectors) == pytest.approx(0, abs=1e-12)
    assert value({"q": ["a"]}, {"q": ["a", "b"]}, "ild@2", embeddings=vectors) == pytest.approx(2, abs=1e-12)
    # Four pairs of ab, ac, bc and one more copy: (2 + 0 + 2) / 3.
    assert value({"q": ["a"]}, {"q": ["a", "b", "c"]}, "ild@3", embeddings=vectors) == pytest.approx(4 / 3, abs=1e-12)


def test_ild_is_undefined_below_two_items() -> None:
    gold = {"one": ["a"], "none": ["a"], "missing": ["a"], "two": ["a"]}
    run = {"one": ["a"], "none": [], "two": ["a", "b"]}
    result = evaluated(gold, run, "ild@10,ild@1", embeddings={"a": [1.0, 0.0], "b": [0.0, 1.0]})
    assert {q: v for q, v in result.per_query("ild@10").items() if v == v} == {"two": 1.0}
    assert (result.mean["ild@10"], result.n["ild@10"], result.n["ild@1"]) == (1.0, 1, 0)
    assert math.isnan(result.mean["ild@1"])


# --- alpha_ndcg by embeddings ---------------------------------------------------------------------------


def one_query(vectors: np.ndarray, grades: Sequence[float]) -> Rankings:
    """Rankings of one query that returned docs with these grades, and nothing else in the gold."""
    n, rows = len(vectors), np.arange(len(vectors))
    graded = np.array(grades, dtype=float)
    none = np.zeros(0, dtype=np.int64)
    held = Vectors(vectors, np.linalg.norm(vectors, axis=1), rows, none, np.zeros(0), none)
    items = Items(rows * 0, rows + 1, np.ones(n, bool), np.full(n, np.nan), np.full(1, np.nan), held)
    return Rankings(("q",), rows * 0, rows + 1, graded, np.array([n]), rows * 0, np.sort(graded)[::-1], items=items)


def test_alpha_dcg_of_two_hits_and_a_miss_by_hand() -> None:
    """1 · 1 + (.5 + .5 · .8) / log2 3 = 1 + .9 · .63093 = 1.5678; the miss earns nothing."""
    vectors = with_cosines({(0, 1): 0.2}, 3)
    assert alpha_dcg(one_query(vectors, [1, 1, 0]), 3, relevance_weight=0.5)[0] == pytest.approx(1.5678, abs=5e-5)
    # Without a weight on relevance 1 + .8 · .63093; with nothing else it is the DCG of any two hits.
    assert alpha_dcg(one_query(vectors, [1, 1, 0]), 3, relevance_weight=0.0)[0] == pytest.approx(
        1 + 0.8 / math.log2(3), abs=1e-12
    )
    assert alpha_dcg(one_query(vectors, [1, 1, 0]), 3, relevance_weight=1.0)[0] == pytest.approx(
        1 + 1 / math.log2(3), abs=1e-12
    )


def test_all_items_above_count_for_novelty_not_only_relevant_ones() -> None:
    """The hit at rank 2 repeats the miss at rank 1 (cosine .6): .5 + .5 · .4 = .7, over log2 3."""
    assert alpha_dcg(one_query(with_cosines({(0, 1): 0.6}, 2), [0, 2]), 2, relevance_weight=0.5)[0] == pytest.approx(
        2 * 0.7 / math.log2(3), abs=1e-12
    )


def test_a_negative_cosine_is_no_more_than_novel() -> None:
    vectors = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert alpha_dcg(one_query(vectors, [1, 1]), 2, relevance_weight=0.5)[0] == pytest.approx(
        1 + 1 / math.log2(3), abs=1e-12
    )


def test_alpha_ndcg_is_divided_by_a_greedy_ideal_or_by_a_plain_one() -> None:
    """Gold a 1, b 1, c 1; cosine of a and b .8, others 0; run a, b, c with w .5.

    Gains 1, .5 + .5 · .2 = .6, 1: DCG = 1 + .6 / log2 3 + 1 / 2. Ties go to the greater id, so the greedy ideal is
    c (1), b (1), a (.6): 1 + 1 / log2 3 + .6 / 2. The plain one is 1 + 1 / log2 3 + 1 / 2.
    """
    vectors = dict(zip("abc", with_cosines({(0, 1): 0.8}, 3), strict=True))
    gold, run = {"q": ["a", "b", "c"]}, {"q": ["a", "b", "c"]}
    dcg = 1 + 0.6 / math.log2(3) + 1 / 2
    greedy = dcg / (1 + 1 / math.log2(3) + 0.6 / 2)
    assert value(gold, run, "alpha_ndcg@3", embeddings=vectors) == pytest.approx(greedy, abs=1e-12)
    plain = dcg / (1 + 1 / math.log2(3) + 1 / 2)
    assert value(gold, run, "alpha_ndcg(ideal=plain)@3", embeddings=vectors) == pytest.approx(plain, abs=1e-12)
    assert value(gold, {"q": ["c", "b", "a"]}, "alpha_ndcg@3", embeddings=vectors) == pytest.approx(1, abs=1e-12)
    # At a cutoff the ideal is cut too: a alone against the best one doc.
    assert value(gold, run, "alpha_ndcg@1", embeddings=vectors) == 1


def test_the_greedy_ideal_is_not_always_the_best_order() -> None:
    """Cosines ab .9, ac .5, bc .1: greedy starts with c, b (.95), a (.55), and so does the best order.

    With ids turned round it starts with the doc that was a: then c (.75), b (.55), and b, c, a passes 1.
    """
    rows = with_cosines({(0, 1): 0.9, (0, 2): 0.5, (1, 2): 0.1}, 3)
    vectors = {"z": rows[0], "b": rows[1], "c": rows[2]}
    found = value({"q": ["z", "b", "c"]}, {"q": ["b", "c", "z"]}, "alpha_ndcg@3", embeddings=vectors)
    best, greedy = (1 + a / math.log2(3) + b / 2 for a, b in ((0.95, 0.55), (0.75, 0.55)))
    assert found == pytest.approx(best / greedy, abs=1e-12)
    assert found > 1


def test_alpha_ndcg_is_0_without_results_hits_or_relevant_gold() -> None:
    gold = {"empty": {"a": 0}, "found nothing": {"a": 1}, "missing": {"a": 1}, "none": {"a": 2}}
    run = {"empty": ["a", "b"], "found nothing": ["b"], "none": []}
    vectors = {"a": [1.0, 2.0], "b": [2.0, 1.0]}
    for name in ("alpha_ndcg@5", "alpha_ndcg(ideal=plain)@5", "alpha_ndcg(relevance_weight=0)"):
        assert evaluated(gold, run, name, embeddings=vectors).per_query(name) == dict.fromkeys(gold, 0.0)


def test_with_all_weight_on_relevance_it_is_ndcg() -> None:
    gold, run, vectors = random_input(3, 8)
    result = evaluated(gold, run, "alpha_ndcg(relevance_weight=1)@5,ndcg@5", embeddings=vectors)
    ours, plain = result.runs[0].values.values()
    assert ours == pytest.approx(plain, abs=1e-12)


# --- oracles ------------------------------------------------------------------------------------------


def random_input(
    seed: int, dims: int, dtype: Any = np.float64
) -> tuple[dict[str, dict[str, float]], dict[str, list[str]], dict[str, np.ndarray]]:
    """Queries of many lengths, with vectors of which some are equal and some opposite."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, dims)) * rng.choice([1e-3, 1.0, 50.0], size=(60, 1))
    rows[10:14] = rows[3] * np.array([[1.0], [2.0], [-1.0], [0.5]])
    vectors = {f"d{i:02d}": row.astype(dtype) for i, row in enumerate(rows)}
    gold, run = {}, {}
    for n in range(25):
        docs = rng.permutation(list(vectors)).tolist()
        gold[f"q{n}"] = dict(zip(docs[: 1 + n % 9], rng.choice([-1, 0, 1, 2, 3, 0.5], 1 + n % 9).tolist(), strict=True))
        if n != 7:
            run[f"q{n}"] = rng.permutation(docs[: int(rng.integers(1, 40))]).tolist()[: n * 2]
    return gold, run, vectors


def loop_ild(docs: Sequence[str], vectors: Mapping[str, Vector]) -> float:
    pairs = [1 - cosine(vectors[a], vectors[b]) for i, a in enumerate(docs) for b in docs[:i]]
    return math.fsum(pairs) / len(pairs) if pairs else math.nan


def loop_alpha(
    docs: Sequence[str], gold: Mapping[str, float], vectors: Mapping[str, Vector], k: int, w: float, plain: bool
) -> float:
    def gain(doc: str, above: Sequence[str]) -> float:
        near = max((cosine(vectors[doc], vectors[other]) for other in above), default=0.0)
        return max(gold.get(doc, 0.0), 0.0) * (w + (1 - w) * (1 - min(max(near, 0.0), 1.0)))

    dcg = sum(gain(d, docs[:i]) / math.log2(i + 2) for i, d in enumerate(docs[:k]))
    left = sorted((d for d, g in gold.items() if g > 0), reverse=True)
    ideal, chosen = 0.0, []
    for place in range(min(k, len(left))):
        if plain:
            ideal += sorted((gold[d] for d in left), reverse=True)[place] / math.log2(place + 2)
            continue
        best = max(gain(d, chosen) for d in left)
        pick = next(d for d in left if gain(d, chosen) >= best - 1e-12 * max(1, best))
        ideal += gain(pick, chosen) / math.log2(place + 2)
        left.remove(pick)
        chosen.append(pick)
    return dcg / ideal if ideal > 0 else 0.0


@pytest.mark.parametrize(("dtype", "within"), [(np.float64, 1e-12), (np.float32, 1e-6)])
@pytest.mark.parametrize("seed", range(4))
def test_values_are_those_of_a_double_loop(seed: int, dtype: Any, within: float) -> None:
    gold, run, vectors = random_input(seed, 5 + seed * 9, dtype)
    names = ["ild", "ild@5", "alpha_ndcg@10", "alpha_ndcg(relevance_weight=0.2)@3", "alpha_ndcg(ideal=plain)@5"]
    result = evaluated(gold, run, ",".join(names), embeddings=vectors)
    for q, graded in gold.items():
        docs = run.get(q, [])
        expected = [
            loop_ild(docs, vectors),
            loop_ild(docs[:5], vectors),
            loop_alpha(docs, graded, vectors, 10, 0.5, False),
            loop_alpha(docs, graded, vectors, 3, 0.2, False),
            loop_alpha(docs, graded, vectors, 5, 0.5, True),
        ]
        assert [result.per_query(n)[q] for n in names] == pytest.approx(expected, abs=within, nan_ok=True), q


def test_very_long_and_very_short_vectors_keep_their_cosines() -> None:
    rows = with_cosines({(0, 1): 0.9, (0, 2): 0.3, (1, 2): 0.4}, 3)
    vectors = {"a": rows[0] * 1e200, "b": rows[1] * 1e-200, "c": rows[2]}
    assert value({"q": ["a"]}, {"q": ["a", "b", "c"]}, "ild@3", embeddings=vectors) == pytest.approx(1.4 / 3, abs=1e-12)


def test_a_query_does_not_depend_on_others_nor_on_the_size_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, run, vectors = random_input(1, 12)
    texts = {d: f"{d[1]} {d[2]} a b c d {d[2]} e f" for d in vectors}
    names = "ild@10,alpha_ndcg@10,novelty@10,novelty(words=2)"
    whole = evaluated(gold, run, names, embeddings=vectors, docs=texts)
    monkeypatch.setattr(similarity, "AT_ONCE", 64)
    monkeypatch.setattr(similarity, "COSINES_AT_ONCE", 64)
    monkeypatch.setattr(similarity, "LETTERS_AT_ONCE", 8)
    for q in run:
        alone = evaluated({q: gold[q]}, {q: run[q]}, names, embeddings=vectors, docs=texts)
        for name in whole.metrics:
            one, other = (r.per_query(name)[q] for r in (alone, whole))
            assert np.array(one).tobytes() == np.array(other).tobytes(), (q, name)


def test_renaming_queries_and_reordering_docs_changes_nothing() -> None:
    gold, run, vectors = random_input(2, 6)
    before = evaluated(gold, run, "alpha_ndcg@10,ild@10", embeddings=vectors)
    turned = {q: dict(reversed(docs.items())) for q, docs in reversed(gold.items())}
    after = evaluated(turned, run, "alpha_ndcg@10,ild@10", embeddings=dict(reversed(vectors.items())))
    for name in before.metrics:
        assert before.per_query(name) == pytest.approx(after.per_query(name), abs=0, nan_ok=True)


# --- novelty ------------------------------------------------------------------------------------------


def loop_novelty(texts: Sequence[str], tau: float, n: int) -> float:
    """By sets of tuples of words."""

    def shingled(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+", text.casefold())
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)} or {tuple(words)}

    sets = [shingled(t) for t in texts]
    overlap = [max((len(s & o) / len(s | o) for o in sets[:i]), default=0.0) for i, s in enumerate(sets)]
    return sum(o < tau for o in overlap) / len(overlap) if overlap else math.nan


def test_novelty_by_hand() -> None:
    """a b c d e f: shingles abcde, bcdef. b adds one word: bcdef, cdefg: overlap 1/3. c has both and one more: 2/3."""
    docs = {"a": "a b c d e f", "b": "B, c d e f g!", "c": "a b c d e f g", "d": "a b c d e f"}
    run, gold = {"q": ["a", "b", "c", "d"]}, {"q": ["a"]}
    assert value(gold, run, "novelty@4", docs=docs) == 0.5  # a and b; c has 2/3 in common with a, d is a
    assert value(gold, run, "novelty(tau=0.25)@4", docs=docs) == 0.25
    assert value(gold, run, "novelty(tau=0.7)@4", docs=docs) == 0.75
    assert value(gold, run, "novelty(tau=1)@3", docs=docs) == 1
    assert value(gold, run, "novelty@2", docs=docs) == 1


def test_an_overlap_of_exactly_tau_is_not_novel() -> None:
    """abcde, bcdef, cdefg against bcdef: 1/3 … of two shingles each with one in common 1/3; of 2 and 1, 1/2."""
    docs = {"a": "a b c d e f", "b": "b c d e f"}
    assert value({"q": ["a"]}, {"q": ["a", "b"]}, "novelty@2", docs=docs) == 0.5
    assert value({"q": ["a"]}, {"q": ["a", "b"]}, "novelty(tau=0.51)@2", docs=docs) == 1


def test_short_and_empty_texts_are_one_shingle() -> None:
    """Fewer than five words are one shingle; a text without words equals only others without."""
    docs = {"a": "one two", "b": "One, two.", "c": "one two three", "d": "", "e": "…", "f": "one two"}
    run = {"q": ["a", "b", "c", "d", "e", "f"]}
    assert value({"q": ["a"]}, run, "novelty", docs=docs) == 0.5  # a, c, d
    # One word each: {one, two} and {one, two, three} share 2/3.
    assert value({"q": ["a"]}, run, "novelty(words=1)@3", docs=docs) == pytest.approx(1 / 3)


def test_title_and_text_are_read_as_one() -> None:
    docs = {"a": {"title": "a b", "text": "c d e"}, "b": {"text": "a b c d e"}, "c": {"title": "a b c d e"}}
    assert value({"q": ["a"]}, {"q": ["a", "b", "c"]}, "novelty@3", docs=docs) == pytest.approx(1 / 3)


def test_novelty_is_undefined_for_an_empty_result() -> None:
    result = evaluated({"p": ["a"], "q": ["a"]}, {"p": [], "q": ["a"]}, "novelty@5", docs={"a": "x"})
    assert (result.mean["novelty@5"], result.n["novelty@5"]) == (1.0, 1)


@pytest.mark.parametrize("mix", [similarity.MIX, np.uint64(0)], ids=["usual", "all keys collide"])
@pytest.mark.parametrize("seed", range(3))
def test_novelty_is_that_of_sets(seed: int, mix: np.uint64, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts made of few words, so that many share shingles; up to 100 docs. Keys only speed up what is exact."""
    monkeypatch.setattr(similarity, "MIX", mix)
    rng = np.random.default_rng(seed)
    texts = {}
    for i in range(150):
        copied = texts[f"d{int(rng.integers(0, i))}"].split() if i and rng.random() < 0.5 else []
        texts[f"d{i}"] = " ".join(
            [*copied[: int(rng.integers(0, 30))], *rng.choice(list("abcd"), int(rng.integers(0, 20)))]
        )
    run = {f"q{n}": rng.permutation(list(texts)).tolist()[: 10 * n] for n in range(1, 11)}
    names = {
        "novelty@100": (0.5, 5, 100),
        "novelty(tau=0.2)@50": (0.2, 5, 50),
        "novelty(words=2)@100": (0.5, 2, 100),
        "novelty(tau=0.9,words=1)": (0.9, 1, 100),
    }
    result = evaluated({q: ["d1"] for q in run}, run, ",".join(names), docs=texts)
    for name, (tau, words, k) in names.items():
        expected = {q: loop_novelty([texts[d] for d in docs[:k]], tau, words) for q, docs in run.items()}
        assert result.per_query(name) == pytest.approx(expected, abs=0)


# --- alpha_ndcg by subtopics ----------------------------------------------------------------------------

WORKED = {"q": {"d1": {"1": 1, "2": 1}, "d2": {"1": 1}, "d3": {"3": 1}}}


def test_alpha_ndcg_of_subtopics_by_hand() -> None:
    """d1 2, d2 (1 − .5) = .5, d3 1: 2 + .5 / log2 3 + 1 / 2. Ideal d1, d3, d2: 2 + 1 / log2 3 + .5 / 2. .9773."""
    found = value(WORKED, {"q": ["d1", "d2", "d3"]}, "alpha_ndcg(kind=subtopic)@3")
    assert found == pytest.approx((2 + 0.5 / math.log2(3) + 0.5) / (2 + 1 / math.log2(3) + 0.25), abs=1e-12)
    assert found == pytest.approx(0.9773, abs=5e-5)
    assert value(WORKED, {"q": ["d1", "d3", "d2"]}, "alpha_ndcg(kind=subtopic)") == 1
    assert value(WORKED, {"q": ["x", "y"]}, "alpha_ndcg(kind=subtopic)@5") == 0
    # Without a penalty d2 is worth 1: 2 + 1 / log2 3 + 1 / 2 in any order of d2 and d3.
    assert value(WORKED, {"q": ["d1", "d2", "d3"]}, "alpha_ndcg(kind=subtopic,alpha=0)@3") == pytest.approx(1)


def test_grades_count_from_1_on_and_a_subtopic_without_relevant_docs_is_none() -> None:
    gold = {"q": {"a": {"1": 3, "2": 0, "x": 0.5}, "b": {"2": 0, "1": 0}, "c": {"x": -1}}}
    assert value(gold, {"q": ["a", "b"]}, "alpha_ndcg(kind=subtopic)@5") == 1
    assert value(gold, {"q": ["b", "a"]}, "alpha_ndcg(kind=subtopic)@5") == pytest.approx(1 / math.log2(3))
    empty = evaluated({"q": {"a": {"1": 0}}, "p": {"a": ["1"]}}, {"q": ["a"], "p": []}, "alpha_ndcg(kind=subtopic)@5")
    assert list(empty.per_query("alpha_ndcg(kind=subtopic)@5").values()) == [0, 0]


def test_gold_by_subtopic_without_any_relevant_doc_scores_0() -> None:
    assert value({"q": {"a": {"1": 0}, "b": {"1": 0}}}, {"q": ["a", "b"]}, "alpha_ndcg(kind=subtopic)@5") == 0


def random_topics(seed: int) -> tuple[dict[str, dict[str, dict[str, int]]], dict[str, dict[str, float]]]:
    rng = np.random.default_rng(seed)
    gold: dict[str, dict[str, dict[str, int]]] = {}
    run: dict[str, dict[str, float]] = {}
    for n in range(30):
        pool = [f"doc-{i}" for i in rng.permutation(40)]
        topics = [str(t) for t in range(1, 2 + n % 7)]
        gold[f"q{n}"] = {
            d: {t: int(rng.choice([-1, 0, 0, 1, 1, 2])) for t in topics if rng.random() < 0.7} or {topics[0]: 0}
            for d in pool[: 1 + n]
        }
        docs = rng.permutation(pool)[: int(rng.integers(1, 35))].tolist()
        run[f"q{n}"] = dict(zip(docs, rng.permutation(len(docs)).astype(float).tolist(), strict=True))
    return gold, run


def loop_subtopics(docs: Sequence[str], gold: Mapping[str, Mapping[str, int]], k: int, alpha: float) -> float:
    """Clarke et al. 2008, with the greedy ideal of ndeval: ties go to the greater doc id."""
    covers = {d: {t for t, g in by.items() if g >= 1} for d, by in gold.items()}

    def gain(doc: str, above: Sequence[str]) -> float:
        return sum((1 - alpha) ** sum(t in covers.get(o, ()) for o in above) for t in covers.get(doc, ()))

    left, ideal = sorted(covers, reverse=True), []
    while left:
        best = max(gain(d, ideal) for d in left)
        pick = next(d for d in left if gain(d, ideal) >= best - 1e-12)
        ideal.append(pick)
        left.remove(pick)
    dcg, best = (sum(gain(d, o[:i]) / math.log2(i + 2) for i, d in enumerate(o[:k])) for o in (docs, ideal))
    return dcg / best if best else 0.0


@pytest.mark.parametrize("alpha", [0.5, 0.25, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_subtopics_are_scored_as_clarke_defines_it(seed: int, alpha: float) -> None:
    gold, run = random_topics(seed)
    for k in (1, 5, 20):
        name = f"alpha_ndcg(kind=subtopic,alpha={alpha})@{k}"
        found = evaluated(gold, run, name).per_query(name)
        for q, scored in run.items():
            docs = sorted(scored, key=lambda d: -scored[d])
            assert found[q] == pytest.approx(loop_subtopics(docs, gold[q], k, alpha), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_subtopics_are_scored_as_ndeval_does(seed: int) -> None:
    pyndeval = pytest.importorskip("pyndeval", reason="pyndeval is not installed (pip install '.[test]')")
    gold, run = random_topics(seed)
    judged = [(q, t, d, g) for q, docs in gold.items() for d, by in docs.items() for t, g in by.items()]
    scored = [(q, d, s) for q, docs in run.items() for d, s in docs.items()]
    theirs = pyndeval.ndeval(judged, scored, measures=["alpha-nDCG@5", "alpha-nDCG@10", "alpha-nDCG@20"])
    assert len(theirs) == 30
    for k in (5, 10, 20):
        name = f"alpha_ndcg(kind=subtopic)@{k}"
        ours = evaluated(gold, run, name).per_query(name)
        assert ours == pytest.approx({q: v[f"alpha-nDCG@{k}"] for q, v in theirs.items()}, abs=1e-9)


NDEVAL = {
    **{f"ERR-IA@{k}": f"err_ia(rel=REL,alpha=ALPHA)@{k}" for k in (2, 5, 10, 20)},
    **{f"nERR-IA@{k}": f"nerr_ia(rel=REL,alpha=ALPHA)@{k}" for k in (1, 5, 10, 20)},
    **{f"P-IA@{k}": f"p_ia(rel=REL)@{k}" for k in (1, 5, 20)},
    **{f"strec@{k}": f"st_recall(rel=REL)@{k}" for k in (1, 5, 20)},
    "MAP-IA": "ap_ia(rel=REL)",
    "NRBP": "nrbp(rel=REL,alpha=ALPHA,beta=BETA)",
    "nNRBP": "nnrbp(rel=REL,alpha=ALPHA,beta=BETA)",
}
"""Measures of ndeval by our names. At cutoff 1 ndeval forgets to divide ERR-IA and alpha-DCG by their best value."""
ONLY_REL_1 = {f"alpha-DCG@{k}": f"alpha_dcg(kind=subtopic,alpha=ALPHA)@{k}" for k in (2, 5, 10, 20)}


@pytest.mark.parametrize(("rel", "alpha", "beta"), [(1, 0.5, 0.5), (1, 0.2, 0.8), (2, 0.9, 0.3), (1, 0, 0.7)])
@pytest.mark.parametrize("seed", range(3))
def test_intent_aware_metrics_are_scored_as_ndeval_does(seed: int, rel: int, alpha: float, beta: float) -> None:
    pyndeval = pytest.importorskip("pyndeval", reason="pyndeval is not installed (pip install '.[test]')")
    gold, run = random_topics(seed)
    judged = [(q, t, d, g) for q, d, t, g in rows_of(gold)]
    scored = [(q, d, s) for q, docs in run.items() for d, s in docs.items()]
    names = NDEVAL if rel > 1 else {**NDEVAL, **ONLY_REL_1}
    evaluator = pyndeval.RelevanceEvaluator(judged, [*names], relevance_level=rel, alpha=alpha, beta=beta)
    theirs = evaluator.evaluate(scored)
    assert len(theirs) == 30
    for measure, template in names.items():
        name = template.replace("REL", str(rel)).replace("ALPHA", str(alpha)).replace("BETA", str(beta))
        ours = evaluated(gold, run, name).per_query(name)
        expected = {q: 0.0 if math.isnan(v[measure]) else v[measure] for q, v in theirs.items()}  # 0 / 0 there
        assert ours == pytest.approx(expected, abs=1e-9), name


def test_intent_aware_metrics_by_hand() -> None:
    gold = {"q": {"a": {"1": 1, "2": 1}, "b": {"1": 2}, "c": {"3": 1}, "d": {"3": 0}}}
    run = {"q": ["b", "x", "a"]}  # covers 1, nothing, 1 and 2; three subtopics
    result = evaluated(
        gold, run, "StRecall@1,StRecall@3,P_IA@3,AP_IA,ERR_IA@3,nERR_IA@3,NRBP,nNRBP,MAP_IA,ERR_IA(rel=2)@1"
    )
    full = 1 + 1 / 2 / 2 + 1 / 4 / 3
    ideal = 2 / 1 + 1 / 2 + 1 / 2 / 3  # a, then c, then b
    assert list(result.mean.values()) == pytest.approx(
        [
            1 / 3,
            2 / 3,
            3 / (3 * 3),
            ((1 / 1 + 2 / 3) / 2 + (1 / 3) / 1 + 0) / 3,
            (1 / 1 + (1 / 2 + 1) / 3) / (3 * full),
            (1 / 1 + (1 / 2 + 1) / 3) / ideal,
            (1 - 1 / 2 * 1 / 2) / 3 * (1 + (1 / 2 + 1) / 4),
            (1 + (1 / 2 + 1) / 4) / (2 + 1 / 2 + 1 / 2 / 4),
            1 / 1,
        ],
        abs=1e-12,
    )


def test_intent_aware_metrics_are_0_where_nothing_covers_a_subtopic() -> None:
    gold = {"q1": {"a": {"1": 0}}, "q2": {"a": {"1": 1}}, "q3": {"a": {"1": 1}}}
    names = "st_recall,p_ia@2,ap_ia,err_ia@2,nerr_ia@2,nrbp,nnrbp,alpha_dcg(kind=subtopic)@2"
    result = evaluated(gold, {"q1": ["a"], "q2": [], "q4": ["a"]}, names)
    assert result.counts["missing"] == 1
    for name in result.metrics:
        assert set(result.per_query(name).values()) == {0.0}


def test_a_share_outside_0_to_1_is_refused() -> None:
    for name in ("err_ia(alpha=2)@5", "nrbp(beta=-1)", "alpha_dcg(kind=subtopic,alpha=1.5)@5"):
        with pytest.raises(karat.MetricError, match="must be from 0 to 1"):
            karat.parse(name)
    with pytest.raises(karat.MetricError, match="needs a cutoff"):
        karat.parse("ERR_IA")


def rows_of(gold: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[tuple[str, str, str, int]]:
    return [(q, d, t, g) for q, docs in gold.items() for d, by in docs.items() for t, g in by.items()]


def written(folder: Path, gold: Any, kind: str) -> tuple[Any, dict[str, Any]]:
    """The same gold in many shapes, and the options that it takes."""
    rows = rows_of(gold)
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "subtopic", "grade"])
    path = folder / f"gold.{kind}"
    match kind:
        case "dict":
            return gold, {}
        case "frame":
            return frame, {}
        case "csv":
            frame.to_csv(path, index=False)
        case "quoted.csv":
            path.write_text(
                "subtopic,query_id,doc_id,grade\n" + "".join(f'"{t}","{q}","{d}",{g}\n' for q, d, t, g in rows)
            )
        case "parquet":
            frame.to_parquet(path)
        case "jsonl":
            frame.to_json(path, orient="records", lines=True)
        case "json":
            path.write_text(json.dumps(gold))
        case "trec":
            path.write_text("".join(f"{q} {t} {d} {g}\n" for q, d, t, g in rows))
            return path, {"subtopics": True}
        case "odd.trec":
            path.write_text("# judged in 2009\n" + "".join(f"{q}\t{t}  {d} {g}\r\n" for q, d, t, g in rows))
            return path, {"subtopics": True}
    return path, {}


@pytest.mark.parametrize("kind", ["dict", "frame", "csv", "quoted.csv", "parquet", "jsonl", "json", "trec", "odd.trec"])
def test_gold_by_subtopic_is_read_from_all_shapes_alike(tmp_path: Path, kind: str) -> None:
    gold, run = random_topics(4)
    source, options = written(tmp_path, gold, kind)
    names = "alpha_ndcg(kind=subtopic)@10,ndcg@10,recall@5"
    expected, found = evaluated(gold, run, names), evaluated(source, run, names, **options)
    for name in expected.metrics:
        assert found.per_query(name) == expected.per_query(name), name
    assert found.fingerprints.gold == expected.fingerprints.gold
    # For all other metrics a doc has its largest grade.
    plain = {q: {d: max(by.values()) for d, by in docs.items()} for q, docs in gold.items()}
    assert evaluated(plain, run, "ndcg@10").per_query("ndcg@10") == found.per_query("ndcg@10")
    assert evaluated(plain, run, "ndcg@10").fingerprints.gold != found.fingerprints.gold


def test_trec_qrels_are_ordinary_unless_subtopics_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "gold.txt"
    path.write_text("q 1 a 1\nq 2 a 1\nq 1 b 0\n")
    assert karat.read_qrels(path).subtopics is None
    assert karat.read_qrels(path, subtopics=False).subtopics is None
    read = karat.read_qrels(path, subtopics=True)
    assert read.subtopics is not None
    assert (list(read.docs), list(read.subtopics.names)) == (["a", "b"], ["1", "2", "1"])
    path.write_text("q 1 a 1\nq 2 a 2\n")
    with pytest.raises(karat.InputError, match=r"gold\.txt:2: .*judged 2 here and 1 at line 1.*--subtopics"):
        karat.read_qrels(path)
    assert karat.read_qrels(path, subtopics=True).for_query("q") == {"a": 2}


def test_the_cache_keeps_gold_with_and_without_subtopics_apart(tmp_path: Path) -> None:
    gold, run = tmp_path / "gold.txt", tmp_path / "a.run"
    gold.write_text("q 1 a 0\nq 1 b 1\n")
    run.write_text("q Q0 a 1 2 t\nq Q0 b 2 1 t\n")
    for _ in range(2):
        for subtopics in (None, True):
            assert karat.evaluate(gold, run, "mrr", subtopics=subtopics).mean["mrr"] == 0.5


def test_validate_knows_that_a_doc_may_be_judged_in_several_subtopics(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    path.write_text("query_id,subtopic,doc_id,grade\nq,1,a,1\nq,2,a,0\nq,2,a,0\n")
    codes = [f.code for f in karat.validate(path).findings]
    assert "G101" not in codes
    assert "G102" in codes


# --- where vectors come from ----------------------------------------------------------------------------


def saved(folder: Path, vectors: Mapping[str, np.ndarray], kind: str) -> Any:
    ids, matrix = list(vectors), np.array(list(vectors.values()))
    path = folder / f"minilm.{kind.partition('.')[2] or kind}"
    match kind:
        case "npy":
            np.save(path, matrix)
            (folder / "minilm.ids.txt").write_text("".join(f"{i}\n" for i in ids))
        case "crlf.npy":
            np.save(path, np.asfortranarray(matrix.astype(matrix.dtype.newbyteorder(">"))))
            (folder / "minilm.ids.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(ids).encode())
        case "npz":
            np.savez(path, ids=np.array(ids), vectors=matrix)
        case "list.parquet":
            pq.write_table(pa.table({"doc_id": ids, "vector": matrix.tolist()}), path)
        case "array.parquet":
            inner = pa.list_(pa.from_numpy_dtype(matrix.dtype), matrix.shape[1])
            table = {"_id": ids, "tags": [["x"]] * len(ids), "embedding": pa.array(matrix.tolist(), type=inner)}
            pq.write_table(pa.table(table), path, row_group_size=7)
        case "frame":
            return pd.DataFrame({"id": ids, "embedding": list(matrix)})
        case "dict":
            return dict(vectors)
        case "dict of lists":
            return {i: v.tolist() for i, v in vectors.items()}
    return path


KINDS = ["npy", "crlf.npy", "npz", "list.parquet", "array.parquet", "frame", "dict", "dict of lists"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_are_read_from_all_shapes_alike(tmp_path: Path, kind: str, dtype: Any) -> None:
    gold, run, vectors = random_input(5, 16, dtype)
    expected = evaluated(gold, run, "ild@10,alpha_ndcg@10", embeddings=vectors)
    found = evaluated(gold, run, "ild@10,alpha_ndcg@10", embeddings=saved(tmp_path, vectors, kind))
    for name in expected.metrics:
        assert found.per_query(name) == pytest.approx(expected.per_query(name), abs=1e-15, nan_ok=True)


def test_only_the_vectors_of_docs_in_the_top_k_and_of_the_gold_are_loaded(tmp_path: Path) -> None:
    path = saved(tmp_path, {f"d{i}": np.arange(4.0) + i for i in range(1000)}, "npy")
    found = vectors_of(embeddings_of(path), ["d7", "d900", "other"])
    assert found.matrix.shape == (2, 4)
    assert found.matrix[found.row[[0, 1]]].tolist() == [[7, 8, 9, 10], [900, 901, 902, 903]]
    assert found.row[2] == -1
    # Docs below the cutoff need no vector, nor does gold that is not relevant, nor any gold for ild.
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    run = {"q": ["a", "b", "far"]}
    assert value({"q": {"a": 1, "far": 0}}, run, "alpha_ndcg@2", embeddings=vectors) == 1
    assert value({"q": {"a": 1, "far": 1}}, run, "ild@2", embeddings=vectors) == 1
    assert value({"q": {"a": 1, "far": 1}}, run, "alpha_ndcg(ideal=plain)@2", embeddings=vectors) < 1


def test_ids_that_are_integers_are_their_decimal_form(tmp_path: Path) -> None:
    vectors = {1: [1.0, 0.0], 2: [0.0, 1.0]}
    np.savez(tmp_path / "v.npz", ids=np.array([1, 2]), vectors=np.eye(2))
    for source in (vectors, tmp_path / "v.npz"):
        assert value({"q": ["1"]}, {"q": ["1", "2"]}, "ild@2", embeddings=source) == 1


def test_whole_numbers_of_few_bits_are_vectors_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", ids=np.array(["a", "b"]), vectors=np.array([[100, 100], [100, -100]], dtype=np.int8))
    assert value({"q": ["a"]}, {"q": ["a", "b"]}, "ild@2", embeddings=tmp_path / "v.npz") == pytest.approx(1, abs=1e-12)


# --- chunks, condensed lists, weights, segments, gates --------------------------------------------------


def test_later_chunks_of_a_doc_earn_nothing_and_take_part_in_novelty() -> None:
    """Gold by doc: d#1 takes the grade 1, d#2 none; e#1 at rank 3 is .5 like d#2: .5 + .5 · .5 = .75."""
    rows = with_cosines({(0, 1): 0.3, (1, 2): 0.5}, 3)
    vectors = {"d#1": rows[0], "d#2": rows[1], "e#1": rows[2]}
    found = value({"q": ["d", "e"]}, {"q": ["d#1", "d#2", "e#1"]}, "alpha_ndcg(ideal=plain)@3", embeddings=vectors)
    assert found == pytest.approx((1 + 0.75 / 2) / (1 + 1 / math.log2(3)), abs=1e-12)
    with pytest.raises(karat.InputError, match=r"in the gold, which alpha_ndcg@3 needs.*ideal=plain"):
        value({"q": ["d", "e"]}, {"q": ["d#1", "d#2", "e#1"]}, "alpha_ndcg@3", embeddings=vectors)


def test_condensed_lists_hold_judged_docs_alone() -> None:
    """Without x the docs a and b are at ranks 1 and 2, and x is no item."""
    vectors = {"a": [1.0, 0.0], "x": [1.0, 1.0], "b": [0.0, 1.0]}
    gold, run = {"q": {"a": 1, "b": 1}}, {"q": ["x", "a", "b"]}
    assert value(gold, run, "ild@2", embeddings=vectors, condensed=True) == pytest.approx(1, abs=1e-12)
    assert value(gold, run, "alpha_ndcg@2", embeddings=vectors, condensed=True) == pytest.approx(1, abs=1e-12)
    by = {"q": {"a": ["1"], "b": ["2"]}}
    assert value(by, run, "alpha_ndcg(kind=subtopic)@2", condensed=True) == 1
    assert value(by, run, "alpha_ndcg(kind=subtopic)@2") == pytest.approx(
        (1 / math.log2(3)) / (1 + 1 / math.log2(3)), abs=1e-12
    )


def example(n: int = 60) -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, list[float]]]:
    """Half of the queries get docs at right angles (ild 1), half of them copies (ild 0)."""
    queries = [f"q{i:02d}" for i in range(n)]
    run = {q: ["a", "b"] if i % 2 else ["a", "c"] for i, q in enumerate(queries)}
    return {q: ["a"] for q in queries}, run, {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [2.0, 0.0]}


def test_segments_intervals_and_weights_are_those_of_any_metric() -> None:
    gold, run, vectors = example()
    table = {q: {"kind": "ab"[i % 2], "weight": 1 + 2 * (i % 2)} for i, q in enumerate(gold)}
    result = evaluated(gold, run, "ild@2", embeddings=vectors, queries=table, by="kind")
    assert result.mean["ild@2"] == pytest.approx(0.75)  # weights 1 and 3
    assert [s.metrics["ild@2"].estimate for s in result.segments] == [0, 1]
    plain = evaluated(gold, run, "ild@2", embeddings=vectors)
    low, high = plain.ci["ild@2"]
    assert 0.3 < low < 0.5 < high < 0.7
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(result.as_json(), allow_nan=False)))


def test_gates_judge_them(tmp_path: Path) -> None:
    gold, run, vectors = example()
    result = evaluated(gold, run, "ild@2", embeddings=vectors)
    assert karat.check(result, ["ild@2 >= 0.3"]).verdict == "SHIP"
    assert karat.check(result, ["ild@2 >= 0.8"]).verdict == "BLOCK"
    assert karat.check(result, ["ild@2 >= 0.5"]).verdict == "INCONCLUSIVE"
    saved(tmp_path, {d: np.array(v) for d, v in vectors.items()}, "npy")
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    (tmp_path / "a.json").write_text(json.dumps(run))
    (tmp_path / "corpus.jsonl").write_text("".join(f'{{"_id": "{d}", "text": "{d} x"}}\n' for d in vectors))
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: gold.json, corpus: corpus.jsonl, embeddings: minilm.npy, embedding_model: mini v2}\n"
        "runs: a.json\ngates: ['ild@2 >= 0.3', 'novelty@2 >= 0.9 at the mean', 'alpha_ndcg@2 >= 0.9 at the mean']\n"
    )
    found = karat.check(tmp_path / "karat.yaml")
    assert found.verdict == "SHIP"
    assert found.as_json()["conventions"]["embedding_model"] == "mini v2"


def test_a_config_says_that_trec_qrels_hold_subtopics(tmp_path: Path) -> None:
    (tmp_path / "gold.txt").write_text("".join(f"q{i} 1 a 1\nq{i} 2 b 1\n" for i in range(30)))
    (tmp_path / "a.json").write_text(json.dumps({f"q{i}": ["a", "b"] for i in range(30)}))
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: gold.txt, subtopics: true}\nruns: a.json\n"
        "gates: ['alpha_ndcg(kind=subtopic)@2 >= 0.85 at the mean']\n"
    )
    assert karat.check(tmp_path / "karat.yaml").verdict == "SHIP"


# --- the model is named, and two are not compared --------------------------------------------------------


def test_results_name_the_model(tmp_path: Path) -> None:
    gold, run, vectors = example()
    path = saved(tmp_path, {d: np.array(v) for d, v in vectors.items()}, "npy")
    result = evaluated(gold, run, "ild@2,mrr", embeddings=path, embedding_model="e5 large")
    assert result.conventions["embedding_model"] == "e5 large"
    assert result.fingerprints.embeddings == {"ild@2": "e5 large"}
    assert "embedding_model" not in evaluated(gold, run, "mrr", embeddings=path).conventions
    assert evaluated(gold, run, "ild@2", embeddings=vectors).conventions["embedding_model"] == "unnamed"


def test_a_file_of_embeddings_names_its_model_or_is_known_by_its_content(tmp_path: Path) -> None:
    """A benchmark writes vectors.npz whatever the model is; two of them must never be taken for one."""
    gold, run, vectors = example()
    ids, matrix = np.array(list(vectors)), np.array(list(vectors.values()), dtype=float)
    results = []
    for i, arrays in enumerate(({}, {}, {"model": np.array("e5")}, {"model": np.array("e5")})):
        folder = tmp_path / str(i)
        folder.mkdir()
        np.savez(folder / "vectors.npz", ids=ids, vectors=matrix + (i % 2) / 7, **arrays)
        results.append(evaluated(gold, run, "ild@2", embeddings=folder / "vectors.npz"))
    names = [result.conventions["embedding_model"] for result in results]
    assert all(name.startswith("sha256:") for name in names[:2]) and names[0] != names[1]
    assert names[2:] == ["e5", "e5"]
    with pytest.raises(karat.NotComparable, match="the embedding model of ild@2: sha256:"):
        karat.compare(*results[:2], metrics="ild@2")


def test_values_from_two_models_are_not_compared(tmp_path: Path) -> None:
    gold, run, vectors = example()
    for name, model in (("a", "one"), ("b", "two"), ("c", "one"), ("d", None), ("e", None)):
        evaluated(gold, run, "ild@2,mrr", embeddings=vectors, embedding_model=model).save(
            str(tmp_path / f"{name}.json")
        )
    a, b, c, d, e = (str(tmp_path / f"{n}.json") for n in "abcde")
    with pytest.raises(karat.NotComparable, match=r"the embedding model of ild@2: two here, one in the baseline"):
        karat.compare(a, b, "ild@2")
    with pytest.raises(karat.NotComparable, match="unnamed here, unnamed in the baseline"):
        karat.compare(d, e)
    assert karat.compare(a, c, "ild@2")["ild@2"].delta == 0
    assert karat.compare(a, b, "mrr")["mrr"].delta == 0  # which looks at no embeddings
    assert karat.compare(a, b, "ild@2", force=True).forced[0].what == "the embedding model of ild@2"


def test_runs_are_compared_on_the_same_vectors() -> None:
    gold, run, vectors = example()
    other = {q: ["a", "b"] for q in run}
    found = karat.compare(gold, {"old": run, "new": other}, "ild@2,alpha_ndcg@2", embeddings=vectors, cache=False)
    assert found["ild@2"].delta == pytest.approx(0.5)
    swept = karat.sweep(gold, run, "ild", ks=[1, 2], embeddings=vectors, cache=False)
    assert swept.curve("ild").values[-1] == pytest.approx(0.5)


# --- bad input ----------------------------------------------------------------------------------------

GOLD, RUN = {"q": {"a": 1, "b": 1}}, {"q": ["a", "b", "c"]}


def npy(folder: Path, matrix: Any, ids: str | bytes | None) -> Path:
    np.save(folder / "v.npy", matrix)
    if ids is not None:
        (folder / "v.ids.txt").write_bytes(ids if isinstance(ids, bytes) else ids.encode())
    return folder / "v.npy"


def file(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "v.npz", **arrays)
    return folder / "v.npz"


def table(folder: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), folder / "v.parquet")
    return folder / "v.parquet"


ABC = "a\nb\nc\n"
THREE = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
OPENED = np.array([["x", "y"]] * 3)
BAD_FILES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no ids beside it": (lambda f: npy(f, THREE, None), r"v\.npy: no ids beside it; expected .*v\.ids\.txt"),
    "too few ids": (lambda f: npy(f, THREE, "a\nb\n"), r"v\.ids\.txt: holds 2 ids for 3 vectors"),
    "too many ids": (lambda f: npy(f, THREE, "a\nb\nc\nd\n"), r"v\.ids\.txt: holds 4 ids for 3 vectors"),
    "an empty id": (lambda f: npy(f, THREE, "a\n\nb\n"), r"v\.ids\.txt:2: the id is empty"),
    "an id twice": (lambda f: npy(f, THREE, "a\nb\na\n"), r'v\.ids\.txt:3: doc "a" already appears at line 1'),
    "one dimension": (lambda f: npy(f, np.ones(3), ABC), r"v\.npy: holds an array of shape \(3,\), expected a row"),
    "three dimensions": (lambda f: npy(f, np.ones((3, 2, 2)), ABC), r"shape \(3, 2, 2\)"),
    "no dimensions": (lambda f: npy(f, np.ones((3, 0)), ABC), r"shape \(3, 0\)"),
    "texts as vectors": (lambda f: npy(f, OPENED, ABC), r"v\.npy: holds <U1, expected numbers"),
    "objects": (lambda f: npy(f, np.array([[1.0, None]], dtype=object), ABC), r"v\.npy: cannot be read as \.npy"),
    "a file that breaks off": (
        lambda f: file(f, "v.ids.txt", b"a\nb\nc\n") and file(f, "v.npy", npy(f, THREE, ABC).read_bytes()[:-5]),
        r"v\.npy: cannot be read as \.npy",
    ),
    "NaN": (lambda f: npy(f, np.array([[1, 0], [np.nan, 1], [1, 1]]), ABC), r'doc "b": the vector holds nan, expected'),
    "infinite": (lambda f: npy(f, np.array([[1, 0], [0, -np.inf], [1, 1]]), ABC), r'doc "b": the vector holds -inf'),
    "zeros": (lambda f: npy(f, THREE * [[1], [0], [1]], ABC), r'doc "b": the vector is all zeros and has no direction'),
    "missing ids": (
        lambda f: npy(f, THREE, "x\nb\ny\n"),
        r'no vector for 2 docs in the top 5, which ild@5 needs: "a", "c"',
    ),
    "no ids in npz": (lambda f: npz(f, vectors=THREE), r"v\.npz: no array 'ids'; expected ids and vectors"),
    "other names in npz": (lambda f: npz(f, arr_0=THREE), r"v\.npz: no array 'ids'.*found arr_0"),
    "ids that are numbers in npz": (
        lambda f: npz(f, ids=np.ones(3), vectors=THREE),
        r"ids are of shape \(3,\) and type float64",
    ),
    "ids that are objects in npz": (
        lambda f: npz(f, ids=np.array(list("abc"), dtype=object), vectors=THREE),
        r"cannot be read as \.npz",
    ),
    "unequal sizes in npz": (lambda f: npz(f, ids=np.array(["a", "b"]), vectors=THREE), r"2 ids for 3 vectors"),
    "an id twice in npz": (lambda f: npz(f, ids=np.array(["a", "a", "b"]), vectors=THREE), r"v\.npz:2: doc \"a\""),
    "no list column": (
        lambda f: table(f, id=list("abc"), x=[1, 2, 3]),
        r"no column of lists of numbers; .*x \(BIGINT\)",
    ),
    "two list columns": (
        lambda f: table(f, id=list("abc"), x=THREE.tolist(), y=THREE.tolist()),
        r"2 columns of lists of numbers",
    ),
    "no id column": (lambda f: table(f, name=list("abc"), x=THREE.tolist()), r"no id column; expected one of _id"),
    "ids that are floats": (lambda f: table(f, id=[1.5, 2.5, 3.5], x=THREE.tolist()), r"are DOUBLE, expected text"),
    "different dimensions": (
        lambda f: table(f, id=list("abc"), x=[[1.0, 2.0], [1.0], [3.0, 4.0]]),
        r'doc "b": the vector has 1 dimensions, and that of doc "a" has 2',
    ),
    "a null vector": (lambda f: table(f, id=list("abc"), x=[[1.0, 2.0], None, [3.0, 4.0]]), r'doc "b": no vector'),
    "a null number": (lambda f: table(f, id=list("abc"), x=[[1.0, 2.0], [None, 1.0], [3.0, 4.0]]), r'"b".*holds nan'),
    "an id twice in Parquet": (
        lambda f: table(f, id=["a", "b", "a", "c"], x=[*THREE.tolist(), [1.0, 1.0]]),
        r'doc "a" appears more than once',
    ),
    "Parquet that breaks off": (
        lambda f: file(f, "v.parquet", table(f, id=list("abc"), x=THREE.tolist()).read_bytes()[:-40]),
        r"v\.parquet: cannot be read as Parquet",
    ),
    "another kind of file": (
        lambda f: file(f, "v.txt", b"a 1 2\nb 3 4\n"),
        r"v\.txt: is not a file of embeddings; expected a \.npy",
    ),
    "an empty file": (lambda f: file(f, "v.npy", b""), r"v\.npy: is not a file of embeddings"),
    "no such file": (lambda f: f / "none.npy", r"none\.npy: no such file"),
    "a folder": (lambda f: f, r"is a directory, expected a file"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_embeddings_are_refused_with_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    make, told = BAD_FILES[case]
    path = make(tmp_path)
    with pytest.raises(karat.InputError, match=told) as raised:
        evaluated(GOLD, RUN, "ild@5", embeddings=path)
    assert len(raised.value.problems) <= 20
    (tmp_path / "gold.json").write_text(json.dumps(GOLD))
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    code = main(
        [
            "evaluate",
            str(tmp_path / "gold.json"),
            str(tmp_path / "run.json"),
            "-m",
            "ild@5",
            "--embeddings",
            str(path),
            "--json",
            "-",
        ]
    )
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert re.search(told, " ".join(err.split())) or re.search(told, err), err


BAD_DICTS: dict[str, tuple[Any, str]] = {
    "different dimensions": ({"a": [1.0, 2.0], "b": [1.0, 2.0, 3.0], "c": [1.0, 1.0]}, 'doc "b": the vector has 3 dim'),
    "texts": ({"a": ["x"], "b": [1.0], "c": [1.0]}, 'doc "a": expected a list of numbers'),
    "a number": ({"a": 1.0, "b": [1.0], "c": [1.0]}, 'doc "a": expected a list of numbers'),
    "lists of lists": ({"a": [[1.0], [1.0, 2.0]], "b": [1.0], "c": [1.0]}, 'doc "a": expected a list of numbers'),
    "empty": ({}, "embeddings: no vector for 3 docs in the top 5"),
    "float ids": ({1.5: [1.0]}, "a doc id must be text or an integer, found 1.5"),
    "an id as text and number": ({"1": [1.0], 1: [2.0]}, 'doc "1" appears twice'),
    "zero": ({"a": [0, 0], "b": [1, 2], "c": [3, 4]}, "all zeros"),
    "a list": ([[1.0, 2.0]], "embeddings: expected a .npy matrix.*found list"),
}


@pytest.mark.parametrize("case", BAD_DICTS)
def test_bad_dicts_of_vectors_are_refused(case: str) -> None:
    source, told = BAD_DICTS[case]
    with pytest.raises(karat.InputError, match=told):
        evaluated(GOLD, RUN, "ild@5", embeddings=source)


def test_no_more_than_twenty_problems_are_told() -> None:
    run = {"q": [f"d{i}" for i in range(50)]}
    with pytest.raises(karat.InputError) as raised:
        evaluated({"q": ["d1"]}, run, "ild", embeddings={d: [0.0] for d in run["q"]})
    assert len(raised.value.problems) == 20
    assert "… and more" in str(raised.value)


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        (
            "ild@5",
            r"ild@5 needs the embeddings of the docs; give them with embeddings= \(--embeddings FILE, dataset\.emb",
        ),
        (
            "alpha_ndcg@5",
            r"alpha_ndcg@5 needs the embeddings of the docs.* subtopics .* is alpha_ndcg\(kind=subtopic\)@5$",
        ),
        ("alpha_DCG@5", r"By the subtopics of the gold it is alpha_dcg\(kind=subtopic\)@5$"),
        (
            "novelty@5",
            r"novelty@5 needs the texts of the docs; .* docs= \(--docs FILE, dataset\.corpus in karat\.yaml\)",
        ),
        (
            "alpha_ndcg(kind=subtopic)@5",
            r"holds no subtopics, which alpha_ndcg\(kind=subtopic\)@5 needs; .*--subtopics",
        ),
    ],
)
def test_a_metric_says_which_option_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], metric: str, told: str
) -> None:
    with pytest.raises(karat.KaratError, match=told):
        evaluated(GOLD, RUN, metric)
    (tmp_path / "gold.json").write_text(json.dumps(GOLD))
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    assert main(["evaluate", str(tmp_path / "gold.json"), str(tmp_path / "run.json"), "-m", metric]) == 2
    assert re.search(told, " ".join(capsys.readouterr().err.split()))
    with pytest.raises(karat.UsageError, match="which a list of docs does not have"):
        karat.score(metric, ["a"], {"a"})


BAD_TEXTS = {
    "a doc is missing": (
        {"a": "x", "b": "y"},
        'corpus: no title or text for 1 doc in the top 5, which novelty@5 needs: "c"',
    ),
    "no texts": ({"a": {"source": "x"}, "b": {}, "c": {}}, 'no title or text for 3 docs .*: "a", "b", "c"'),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_docs_without_texts_are_named(case: str) -> None:
    docs, told = BAD_TEXTS[case]
    with pytest.raises(karat.InputError, match=told):
        evaluated(GOLD, RUN, "novelty@5", docs=docs)


BAD_TOPICS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "two grades in one subtopic": (
        "g.txt",
        "q 1 a 1\nq 1 a 0\n",
        {"subtopics": True},
        r'g\.txt:2: query "q", doc "a", subtopic "1" is judged 0 here and 1 at line 1',
    ),
    "two grades in a table": (
        "g.csv",
        "qid,doc,subtopic,rel\nq,a,x,1\nq,a,x,2\n",
        {},
        r"g\.csv:3: .*judged 2 here and 1 at line 2",
    ),
    "an empty subtopic": ("g.csv", "qid,doc,subtopic,rel\nq,a,x,1\nq,b,,2\n", {}, r"g\.csv:3: the subtopic is empty"),
    "a column twice": ("g.csv", "qid,doc,subtopic,rel,subtopic\nq,a,x,1,y\n", {}, r'"subtopic" appears twice'),
    "no such column": ("g.csv", "qid,doc,rel\nq,a,1\n", {"subtopics": True}, r"g\.csv: holds no subtopics, although"),
    "some lines without": (
        "g.jsonl",
        '{"qid": "q", "doc": "a", "rel": 1, "subtopic": 1}\n{"qid": "q", "doc": "b", "rel": 1}\n',
        {},
        r"g\.jsonl:2: no 'subtopic', which other lines have",
    ),
    "no name": (
        "g.jsonl",
        '{"qid": "q", "doc": "a", "rel": 1, "subtopic": 1.5}\n',
        {},
        r"g\.jsonl:1: subtopic must be text",
    ),
    "no name in JSON": ("g.json", '{"q": {"a": {"": 1}}}', {}, r"a subtopic must be text or an integer"),
    "no grade in JSON": ("g.json", '{"q": {"a": {"x": "high"}}}', {}, r'subtopic "x": grade must be a finite number'),
    "a grade among subtopics": (
        "g.json",
        '{"q": {"a": {"x": 1}, "b": 1}}',
        {},
        r'doc "b": expected grades by subtopic',
    ),
    "no subtopics in JSON": ("g.json", '{"q": {"a": 1}}', {"subtopics": True}, r"g\.json: holds no subtopics"),
    "subtopics without docs": ("g.json", '{"q": {"a": ["x"]}, "p": ["a"]}', {}, r'query "p": expected'),
}


@pytest.mark.parametrize("case", BAD_TOPICS)
def test_bad_subtopics_are_refused_with_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    name, text, options, told = BAD_TOPICS[case]
    path = file(tmp_path, name, text.encode())
    with pytest.raises(karat.InputError, match=told):
        evaluated(path, RUN, "alpha_ndcg(kind=subtopic)@5", **options)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    flags = ["--subtopics"] if options else []
    assert main(["evaluate", str(path), str(tmp_path / "run.json"), "-m", "alpha_ndcg:kind=subtopic@5", *flags]) == 2
    assert re.search(told, " ".join(capsys.readouterr().err.split()))


def test_options_that_are_no_names_are_refused() -> None:
    with pytest.raises(karat.UsageError, match="embedding_model must be a name"):
        evaluated(GOLD, RUN, "ild@5", embeddings={}, embedding_model=" ")
    with pytest.raises(karat.UsageError, match="subtopics must be true or false"):
        evaluated(GOLD, RUN, "mrr", subtopics="yes")
    with pytest.raises(karat.MetricError, match="needs embeddings"):
        similarity.cosines_above(Items(*(np.zeros(0),) * 5))  # type: ignore[arg-type]


# --- the command line, and what it must not cost ---------------------------------------------------------


def test_the_command_line_reads_vectors_texts_and_subtopics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    npy(tmp_path, THREE, ABC)
    (tmp_path / "gold.txt").write_text("q 1 a 1\nq 2 b 1\n")
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "docs.jsonl").write_text("".join(f'{{"_id": "{d}", "title": "t", "text": "x y z"}}\n' for d in "abc"))
    code = main(
        [
            "evaluate",
            str(tmp_path / "gold.txt"),
            str(tmp_path / "run.json"),
            "--subtopics",
            "-m",
            "ild@3,novelty@3,alpha_ndcg@3,alpha_ndcg:kind=subtopic@3",
            "--embeddings",
            str(tmp_path / "v.npy"),
            "--embedding-model",
            "mini",
            "--docs",
            str(tmp_path / "docs.jsonl"),
            "--json",
            "-",
        ]
    )
    document = json.loads(capsys.readouterr().out)
    assert code == 0
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["conventions"]["embedding_model"] == "mini"
    means = [m["mean"] for m in document["runs"][0]["metrics"].values()]
    # Cosines 0, √.5, √.5; all texts are one; b is at right angles to a; two subtopics in order.
    assert means == pytest.approx([(1 + 2 * (1 - math.sqrt(0.5))) / 3, 1 / 3, 1, 1], abs=1e-9)


def test_the_terminal_names_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    npy(tmp_path, THREE, ABC)
    (tmp_path / "gold.json").write_text(json.dumps(GOLD))
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    main(
        [
            "evaluate",
            str(tmp_path / "gold.json"),
            str(tmp_path / "run.json"),
            "-m",
            "ild@3",
            "--embeddings",
            str(tmp_path / "v.npy"),
            "--embedding-model",
            "mini-v2",
        ]
    )
    out = capsys.readouterr()
    assert "mini-v2" in out.out + out.err


def test_other_metrics_load_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("q1 0 d1 1\n")
    (tmp_path / "r").write_text("q1 Q0 d1 1 2.0 t\n")
    code = (
        "import karat, sys\n"
        "karat.evaluate({'q': {'d': 1}}, {'q': {'d': 1.0}}, cache=False)\n"
        f"karat.evaluate({str(tmp_path / 'q')!r}, {str(tmp_path / 'r')!r}, 'mrr,distinct_docs@5', cache=False)\n"
        "print([m for m in ('karat.metrics.similarity', 'karat.read.embeddings', 'karat.align.contents',"
        " 'karat.read.subtopics') if m in sys.modules])"
    )
    env = {**os.environ, "KARAT_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "[]"


def test_what_a_reader_must_know_is_said_where_the_metric_is_explained() -> None:
    told = karat.lookup("alpha_ndcg").caution
    assert "relevance_weight of 0 is not pure diversity" in told
    assert "0 to 2, not 0 to 1" in karat.lookup("ild").caution
