"""Choosing among candidates: the fast ways choose what the formulas choose, written as plain loops."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from karat.errors import UsageError
from karat.retrieve import Answer, Base, Corpus, Query, all_kinds, make_retriever
from karat.retrieve.bm25 import BM25
from karat.retrieve.hybrid import Hybrid
from karat.retrieve.select import MMR, Dartboard
from karat.retrieve.selection import NARROW, TIE, dartboard, mmr

Matrix = Sequence[Sequence[float]]


# The formulas


def literal_mmr(relevance: Sequence[float], likeness: Matrix, k: int, lam: float) -> list[int]:
    chosen: list[int] = []
    while len(chosen) < min(k, len(relevance)):
        best, at = -math.inf, -1
        for i in range(len(relevance)):
            if i in chosen:
                continue
            score = relevance[i]
            if chosen:
                score = lam * relevance[i] - (1 - lam) * max(likeness[i][j] for j in chosen)
            if score > best + TIE:
                best, at = score, i
        chosen.append(at)
    return chosen


def literal_dartboard(to_query: Sequence[float], distance: Matrix, k: int, sigma: float) -> list[int]:
    """log Σ_t exp(max_g log N(d(t, g)) + log N(d(t, q))) with so many digits that nothing is lost."""
    n = len(to_query)
    farthest = max([*to_query, *(d for row in distance for d in row)], default=0)
    digits = 60 + int(farthest**2 / sigma**2)  # e^(−2 · d² / 2σ²) must not vanish beside 1
    with decimal.localcontext(decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)):
        normal: dict[float, Decimal] = {}
        for d in {*to_query, *(d for row in distance for d in row)}:
            normal[d] = (-(Decimal(d) ** 2) / (2 * Decimal(sigma) ** 2)).exp() / Decimal(sigma)
        weight = [normal[d] for d in to_query]
        before = sum((min(normal[d] for d in distance[t]) * weight[t] for t in range(n)), Decimal(0))
        chosen: list[int] = []
        while len(chosen) < min(k, n):
            gains: dict[int, Decimal] = {}
            for g in range(n):
                if g not in chosen:
                    total = Decimal(0)
                    for t in range(n):
                        total += max(normal[distance[t][x]] for x in [*chosen, g]) * weight[t]
                    gain = total - before  # the logarithm rises with the sum, and the sum with the gain
                    gains[g] = gain if gain > before * Decimal(10) ** (20 - digits) else Decimal(0)
            best = max(gains.values())
            pick = next(g for g, gain in gains.items() if gain >= best * (1 - Decimal(TIE)))
            before += gains[pick]
            chosen.append(pick)
        return chosen


def cosines(seed: int, n: int, size: int, copies: int) -> tuple[Any, Any]:
    """Cosines to a query and between n vectors of small whole numbers, some of them copied: there are many ties."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, size=(n, size)).astype(float)
    vectors[:, 0] += 3
    for _ in range(copies):
        vectors[rng.integers(n)] = vectors[rng.integers(n)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    query = vectors[rng.integers(n)] + 0.2 * rng.normal(size=size)
    query /= np.linalg.norm(query)
    return (vectors @ query).round(3), (vectors @ vectors.T).round(3)


sets = st.builds(
    cosines, st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([2, 3, 8]), st.sampled_from([0, 1, 4])
)


@settings(max_examples=200, deadline=None)
@given(sets, st.integers(0, 14), st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))
def test_mmr_chooses_what_the_loop_chooses(given: tuple[Any, Any], k: int, lam: float) -> None:
    relevance, likeness = given
    found = mmr(relevance, likeness, k, lam)
    assert found.tolist() == literal_mmr(relevance.tolist(), likeness.tolist(), k, lam)


@settings(max_examples=200, deadline=None)
@given(sets, st.integers(0, 14), st.sampled_from([0.03, 0.1, 0.3, 1.0, 30.0]))
@example(cosines(0, 1, 2, 0), 1, 0.1)
@example(cosines(1, 9, 2, 4), 9, 0.02)
def test_dartboard_chooses_what_the_loop_chooses(given: tuple[Any, Any], k: int, sigma: float) -> None:
    far, apart = 1 - given[0], 1 - given[1]
    assert dartboard(far, apart, k, sigma).tolist() == literal_dartboard(far.tolist(), apart.tolist(), k, sigma)


def test_the_arithmetic_of_mmr() -> None:
    # first a (0.9); then b: 0.5·0.8 − 0.5·0.9 = −0.05, c: 0.5·0.3 − 0.5·0.1 = 0.1
    likeness = [[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]]
    assert mmr([0.9, 0.8, 0.3], likeness, 3, 0.5).tolist() == [0, 2, 1]
    assert mmr([0.9, 0.8, 0.3], likeness, 3, 1.0).tolist() == [0, 1, 2]


def test_the_arithmetic_of_dartboard() -> None:
    # σ = 1, weights e^(−d²/2) of 0, 0.4, 0.9 are 1, 0.923, 0.667; a and b are 0.1 apart, c 1.2 from both:
    # kernels 0.995 and 0.487. Alone: a 1 + 0.918 + 0.325, b 0.995 + 0.923 + 0.325, c 0.487 + 0.449 + 0.667.
    # Then b adds 0.923 · 0.005 = 0.0046, and c 0.667 · 0.513 = 0.342.
    apart = [[0, 0.1, 1.2], [0.1, 0, 1.2], [1.2, 1.2, 0]]
    assert dartboard([0, 0.4, 0.9], apart, 2, 1.0).tolist() == [0, 2]


@pytest.mark.parametrize("choose", [lambda a, b, k: mmr(1 - a, 1 - b, k, 0.5), lambda a, b, k: dartboard(a, b, k, 0.1)])
def test_of_equal_candidates_the_earlier_is_chosen_and_copies_come_last(choose: Any) -> None:
    # three directions at the same angle to the query and to each other, each twice
    vectors = np.repeat(np.eye(3), 2, axis=0)
    query = np.ones(3) / math.sqrt(3)
    assert choose(1 - vectors @ query, 1 - vectors @ vectors.T, 6).tolist() == [0, 2, 4, 1, 3, 5]


def test_many_queries_at_once_are_the_same_as_one_after_the_other() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(40, 100, 16))
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    relevance, likeness = vectors[:, :, 0], vectors @ vectors.transpose(0, 2, 1)
    found = mmr(relevance, likeness, 10, 0.3)
    assert found.shape == (40, 10)
    assert found.tolist() == [mmr(*one, 10, 0.3).tolist() for one in zip(relevance, likeness, strict=True)]
    for sigma in (0.0, 1e-4, 0.02, 0.2):
        found = dartboard(1 - relevance, 1 - likeness, 10, sigma)
        each = [dartboard(*one, 10, sigma).tolist() for one in zip(1 - relevance, 1 - likeness, strict=True)]
        assert found.tolist() == each


def test_nothing_to_choose_from_gives_nothing() -> None:
    none = np.empty(0), np.empty((0, 0))
    assert mmr(*none, 5, 0.5).tolist() == dartboard(*none, 5, 0.1).tolist() == []
    assert mmr(np.empty((0, 4)), np.empty((0, 4, 4)), 2, 0.5).shape == (0, 2)
    assert dartboard(np.empty((0, 4)), np.empty((0, 4, 4)), 2, 0.1).shape == (0, 2)


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"found \(3,\), \(2, 2\)"):
        mmr(np.zeros(3), np.zeros((2, 2)), 2, 0.5)


# Noise: none, much, and between


def apart(seed: int, n: int = 60, size: int = 12) -> tuple[Any, Any]:
    """Distances of random vectors, not in the order of their distance to the query."""
    vectors = np.random.default_rng(seed).normal(size=(n + 1, size))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return 1 - vectors[1:] @ vectors[0], np.maximum(1 - vectors[1:] @ vectors[1:].T, 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sigma", [0.0, NARROW / 2, NARROW, 1e-5, 1e-4])
def test_without_noise_dartboard_is_the_order_by_similarity(sigma: float, seed: int) -> None:
    far, between = apart(seed)
    assert dartboard(far, between, 60, sigma).tolist() == np.argsort(far).tolist()


def test_copies_come_last_with_little_noise_and_keep_their_place_without() -> None:
    # b is a again: it adds nothing to a, whatever the noise; plainly by similarity it is second
    far, between = [0.1, 0.1, 0.5], [[0, 0, 0.4], [0, 0, 0.4], [0.4, 0.4, 0]]
    assert dartboard(far, between, 3, 1e-5).tolist() == literal_dartboard(far, between, 3, 0.01) == [0, 2, 1]
    assert dartboard(far, between, 3, 0.0).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sigma", [1e4, 1e6, 1e100])
def test_with_endless_noise_dartboard_forgets_the_query_and_covers_the_candidates(sigma: float, seed: int) -> None:
    # N(d) ≈ 1 − d²/2σ², so that the largest Σ_t max_g N(d(t, g)) is the smallest Σ_t min_g d(t, g)²
    far, between = apart(seed, n=20)
    chosen: list[int] = []
    for _ in range(20):
        sums = [(between[[*chosen, g]].min(axis=0) ** 2).sum() for g in range(20)]
        least = min(sums[g] for g in range(20) if g not in chosen)
        # two that are each other's nearest lower the sum by the same: a tie, but for rounding
        chosen.append(next(g for g in range(20) if g not in chosen and sums[g] < least + 1e-12))
    found = dartboard(far, between, 20, sigma).tolist()
    assert found == chosen == dartboard(far[::-1], between, 20, sigma).tolist()


def clusters() -> tuple[Any, Any, Any]:
    """A query with five groups of docs around it, 20 near-copies each, each group a little farther off."""
    rng = np.random.default_rng(3)
    axes = np.eye(6)
    group = np.repeat(np.arange(5), 20)
    vectors = np.array([1.0, 0.95, 0.9, 0.85, 0.8])[group, None] * axes[5] + 0.6 * axes[group]
    vectors = np.hstack([vectors, 0.03 * rng.normal(size=(100, 10))])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return group, vectors[:, 5], vectors @ vectors.T


def test_the_more_difference_is_asked_for_the_more_groups_are_among_the_first_five() -> None:
    group, relevance, likeness = clusters()
    by_lam = [len(set(group[mmr(relevance, likeness, 5, lam)])) for lam in (1.0, 0.9, 0.7, 0.5)]
    by_sigma = [len(set(group[dartboard(1 - relevance, 1 - likeness, 5, s)])) for s in (0.0, 0.01, 0.03, 0.1)]
    assert by_lam[0] == by_sigma[0] == 1  # the five most relevant are near-copies of each other
    assert by_lam[-1] == by_sigma[-1] == 5
    assert by_lam == sorted(by_lam) and by_sigma == sorted(by_sigma)


# The retrievers


class Cosine(Base):
    """Cosine search over given vectors; the text of a query is the id of its vector."""

    name = "cosine"

    def __init__(self, vectors: dict[str, Any], queries: dict[str, Any]) -> None:
        self.ids, self.queries = list(vectors), queries
        self.matrix = np.array(list(vectors.values()), dtype=np.float32)
        self.matrix /= np.linalg.norm(self.matrix, axis=1, keepdims=True)

    def index(self, corpus: Corpus) -> None:
        assert list(corpus.ids) == self.ids

    def encode_query(self, query: str) -> Any:
        vector = np.asarray(self.queries[query], dtype=np.float32)
        return vector / np.linalg.norm(vector)

    def rows(self, ids: Sequence[str]) -> Any:
        return np.array([self.ids.index(id) for id in ids], dtype=np.int64)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        out = []
        for query in queries:
            scores = self.matrix @ self.encode_query(query)
            order = np.argsort(-scores, kind="stable")[:k].tolist()
            out.append(Answer([self.ids[i] for i in order], scores[order].tolist(), latency_ms={"retrieve": 2.0}))
        return out

    def facts(self) -> dict[str, Any]:
        return {"embedding_model": "given"}


def house(seed: int = 0, docs: int = 40) -> Cosine:
    rng = np.random.default_rng(seed)
    return Cosine({f"d{i}": v for i, v in enumerate(rng.normal(size=(docs, 5)))}, {"q": rng.normal(size=5)})


def literal(dense: Cosine, ids: Sequence[str]) -> tuple[list[float], list[list[float]]]:
    vectors = dense.matrix[dense.rows(ids)].astype(float)
    return (vectors @ dense.encode_query("q")).tolist(), (vectors @ vectors.T).tolist()


def test_the_best_candidates_are_chosen_from_in_the_order_of_the_formula() -> None:
    dense = house()
    ids = dense.retrieve([Query("q")], 20)[0].ids
    relevance, likeness = literal(dense, ids)
    (found,) = MMR(dense, lam=0.3, candidates=20).retrieve([Query("q")], 5)
    assert found.ids == [ids[i] for i in literal_mmr(relevance, likeness, 5, 0.3)]
    assert found.ids != ids[:5] and found.scores is None
    assert found.stages == {"retrieve": ids, "select": found.ids}
    assert found.latency_ms["retrieve"] == 2.0 and found.latency_ms["select"] > 0
    (found,) = Dartboard(dense, sigma=0.4, candidates=20).retrieve([Query("q")], 5)
    far, between = [1 - r for r in relevance], [[max(1 - x, 0) for x in row] for row in likeness]
    assert found.ids == [ids[i] for i in literal_dartboard(far, between, 5, 0.4)]
    assert found.ids != ids[:5]


@pytest.mark.parametrize("make", [lambda d: MMR(d, candidates=10), lambda d: Dartboard(d, sigma=0.4, candidates=10)])
def test_what_lies_beyond_the_candidates_follows_as_it_was_found(make: Any) -> None:
    dense = house()
    plain = list(dense.retrieve([Query("q")], 40)[0].ids)
    found = list(make(dense).retrieve([Query("q")], 25)[0].ids)
    assert sorted(found[:10]) == sorted(plain[:10]) and found[:10] != plain[:10]
    assert found[10:] == plain[10:25]
    assert sorted(make(dense).retrieve([Query("q")], 100)[0].ids) == sorted(plain)


@pytest.mark.parametrize("written", ["mmr(dense, lam=1)", "dartboard(dense, sigma=0)"])
def test_without_difference_the_order_is_that_of_the_dense_retriever(written: str) -> None:
    dense = house(5)
    made = make_retriever(written, {"dense": dense})
    assert made.retrieve([Query("q")], 40)[0].ids == dense.retrieve([Query("q")], 40)[0].ids
    assert made.parts == (dense,) and made.name == written and made.facts() == {"embedding_model": "given"}


def test_copies_are_told_by_their_vectors_though_these_are_in_single_precision() -> None:
    vectors = {f"d{i}": v for i, v in enumerate(np.random.default_rng(1).normal(size=(6, 300)))}
    dense = Cosine({**vectors, "copy": vectors["d0"]}, {"q": vectors["d0"]})
    (found,) = Dartboard(dense, sigma=1e-5).retrieve([Query("q")], 7)
    assert found.ids[0] == "d0" and found.ids[-1] == "copy"


def test_candidates_of_a_hybrid_are_chosen_from_by_the_vectors_of_its_dense_part() -> None:
    texts = ["red apple", "red apple pie", "green pear", "blue plum", "red plum"]
    corpus = Corpus([f"d{i}" for i in range(5)], texts)
    at = [[1, 0, 0.1], [1, 0, 0.1], [0.2, 1, 0], [0, 1, 1], [0.7, 0.2, 0.6]]
    dense = Cosine(dict(zip(corpus.ids, at, strict=True)), {"red apple": [1, 0.3, 0.3]})
    made = MMR(Hybrid(BM25(language="en"), dense), lam=0.5)
    made.index(corpus)
    (found,) = made.retrieve([Query("red apple")], 3)
    ids = list(found.stages["fuse"])
    relevance = (dense.matrix @ dense.encode_query("red apple"))[dense.rows(ids)].tolist()
    likeness = (dense.matrix @ dense.matrix.T)[np.ix_(dense.rows(ids), dense.rows(ids))].tolist()
    assert found.ids == [ids[i] for i in literal_mmr(relevance, likeness, 3, 0.5)]
    assert list(found.stages) == ["retrieve", "fuse", "select"]
    assert set(found.latency_ms) == {"bm25", "cosine", "fuse", "select"}


def test_one_that_finds_nothing_or_does_not_time_itself_is_no_trouble() -> None:
    class Ids(Cosine):
        def retrieve(self, queries: Sequence[Query], k: int) -> Any:
            return [["d3", "d1"] if query == "q" else [] for query in queries]

    bare = Ids({f"d{i}": v for i, v in enumerate(np.eye(5))}, {"q": [0, 1, 0, 0.5, 0], "none": [1, 0, 0, 0, 0]})
    found, empty = MMR(bare).retrieve([Query("q"), Query("none")], 10)
    assert found.ids == ["d1", "d3"] and set(found.latency_ms) == {"retrieve", "select"}
    assert empty.ids == [] and empty.stages == {"retrieve": [], "select": []}


def test_one_without_vectors_says_what_to_write() -> None:
    with pytest.raises(
        UsageError, match=r"no dense retriever in bm25; write mmr\(dense\) or mmr\(hybrid\(bm25, dense\)\)"
    ):
        make_retriever("mmr(bm25)")
    with pytest.raises(UsageError, match=r"dartboard works on one retriever, found 2"):
        make_retriever("dartboard(bm25, bm25)")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("mmr(dense, lam=1.5)", "mmr: lam must be a number from 0 .* found 1.5"),
        ("mmr(dense, lam=half)", 'mmr: lam must be a number .* found "half"'),
        ("mmr(dense, candidates=0)", "mmr: candidates must be an integer from 1, found 0"),
        ("mmr(dense, candidates=2.5)", "mmr: candidates must be an integer from 1, found 2.5"),
        ("dartboard(dense, sigma=-0.1)", "dartboard: sigma must be a number from 0, found -0.1"),
        ("dartboard(dense, sigma=nan)", 'dartboard: sigma must be a number from 0, found "nan"'),
        ("dartboard(dense, sigmas=1)", "did you mean 'sigma'"),
    ],
)
def test_parameters_out_of_bounds_are_refused(written: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        make_retriever(written, {"dense": house()})


def test_both_are_known_with_their_parameters() -> None:
    kinds = all_kinds()
    assert kinds["mmr"].params == {"lam": 0.5, "candidates": 100} and kinds["mmr"].takes == "one"
    assert kinds["dartboard"].params == {"sigma": 0.1, "candidates": 100} and kinds["dartboard"].takes == "one"
