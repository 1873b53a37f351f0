"""More queries than the driver holds: sums of the workers say what one machine says, within Monte-Carlo error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat.stats.poisson_sums import METHOD, Sums

QUERIES, ROWS = 12_000, 6
METRICS = ["ndcg@5", "recall@5", "gm_map"]
LIMIT = "KARAT_MAX_DRIVER_QUERIES"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of 12,000 queries, the second a little better; a query in 100 is missing, and one has no gold."""
    folder = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(5)
    query = np.repeat(np.arange(QUERIES), ROWS)
    doc = np.tile(np.arange(ROWS), QUERIES)
    for name, better in (("a", 0.0), ("b", 0.03)):
        score = rng.random(len(query)) + (better + 0.3) * (doc < 2)
        there = (query % 100 != 7) & ((query % 2 == 0) | (doc != 1))
        ids = [np.char.add(letter, column[there].astype(str)) for letter, column in (("q", query), ("d", doc))]
        ids[0] = np.append(ids[0], "unknown")
        ids[1] = np.append(ids[1], "d1")
        mixed = rng.permutation(len(ids[0]))
        run = pa.table({"query_id": ids[0], "doc_id": ids[1], "score": np.append(score[there], 1.0)}).take(mixed)
        (folder / name).mkdir()
        for i in range(3):
            third = run.num_rows // 3 + 1
            pq.write_table(run.slice(i * third, third), folder / name / f"{i}.parquet")
        pq.write_table(run, folder / f"{name}.parquet")
    judged = doc < 2
    gold = {
        "query_id": np.char.add("q", query[judged].astype(str)),
        "doc_id": np.char.add("d", doc[judged].astype(str)),
    }
    pq.write_table(pa.table({**gold, "grade": 1 + (query[judged] + doc[judged]) % 2}), folder / "gold.parquet")
    return folder


@pytest.fixture(scope="module")
def both(spark: Any, many: Path) -> tuple[karat.Comparison, karat.Comparison]:
    """The comparison from sums of the workers, and that of one machine."""
    gold = str(many / "gold.parquet")
    tests = ("t", "randomization", "bootstrap", "sign")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LIMIT, "1000")
        there = karat.compare(
            gold, {n: str(many / n) for n in "ab"}, METRICS, tests=tests, margin=0.05, engine=spark, details=True
        )
    here = karat.compare(gold, {n: str(many / f"{n}.parquet") for n in "ab"}, METRICS, tests=tests, margin=0.05)
    return there, here


def test_means_and_counts_are_those_of_one_machine(both: tuple[karat.Comparison, karat.Comparison]) -> None:
    for summed, exact in zip(both[0].result.runs, both[1].result.runs, strict=True):
        assert summed.counts == exact.counts
        assert summed.counts["missing"] == QUERIES // 100 and summed.counts["without_gold"] == 1
        assert dict(summed.n) == dict(exact.n)
        for metric in METRICS:
            assert summed.mean[metric] == pytest.approx(exact.mean[metric], rel=1e-13)
            assert summed.intervals[metric].estimate == summed.mean[metric]


def test_intervals_are_within_monte_carlo_error(both: tuple[karat.Comparison, karat.Comparison]) -> None:
    pairs = [
        (summed.intervals[m], exact.intervals[m])
        for summed, exact in zip(both[0].result.runs, both[1].result.runs, strict=True)
        for m in METRICS
    ]
    pairs += [(a.difference, b.difference) for a, b in zip(both[0].rows, both[1].rows, strict=True)]
    for summed, exact in pairs:
        assert (summed.method, summed.n) == (METHOD, QUERIES)
        length = exact.high - exact.low
        assert abs(summed.estimate - exact.estimate) < 1e-12
        # An end rests on 1,000 draws: it moves by .084 standard errors, .021 of the length, from seed to seed.
        assert abs(summed.low - exact.low) < 0.09 * length
        assert abs(summed.high - exact.high) < 0.09 * length


def test_decisions_are_those_of_one_machine(both: tuple[karat.Comparison, karat.Comparison]) -> None:
    for summed, exact in zip(both[0].rows, both[1].rows, strict=True):
        assert (summed.metric, summed.candidate, summed.outcome) == (exact.metric, exact.candidate, exact.outcome)
        assert (summed.wins, summed.ties, summed.losses) == (exact.wins, exact.ties, exact.losses)
        assert (summed.non_inferior, summed.equivalent) == (exact.non_inferior, exact.equivalent)
        assert summed.mean_baseline == pytest.approx(exact.mean_baseline, rel=1e-12)
        assert summed.mean_candidate == pytest.approx(exact.mean_candidate, rel=1e-12)
        assert summed.effect_size == pytest.approx(exact.effect_size, rel=1e-9)
        assert summed.spread == pytest.approx(exact.spread, rel=1e-9)
        assert summed.p["t"] == pytest.approx(exact.p["t"], rel=1e-6)
        assert summed.p["sign"] == pytest.approx(exact.p["sign"], rel=1e-9)
        for test in ("randomization", "bootstrap"):
            assert abs(summed.p[test] - exact.p[test]) < 0.06  # 3.8 standard errors of 1,000 draws at p = .5


def test_what_is_kept_is_said_and_stands_for_all(
    both: tuple[karat.Comparison, karat.Comparison], tmp_path: Path
) -> None:
    there, here = both
    for summed, exact in zip(there.result.runs, here.result.runs, strict=True):
        assert summed.data_notes[0].startswith(
            "12,000 queries: workers summed their values; intervals and tests are by "
        )
        assert re.match(
            r"values and lists are kept of 10,000 of 12,000 queries: 1,\d{3} with the", summed.data_notes[1]
        )
        assert len(summed.query_ids) == 10_000
        lowest = np.sort(exact.values["ndcg@5"])[:1000]
        assert np.sort(summed.values["ndcg@5"])[:1000].tolist() == lowest.tolist()
        own, whole = summed.per_query("ndcg@5"), exact.per_query("ndcg@5")
        assert all(whole[q] == value for q, value in own.items())
        q = summed.query_ids[0]
        assert summed.top_docs(q)
    there.result.save(str(tmp_path / "result.json"))
    again = karat.load(tmp_path / "result.json")
    for saved, exact in zip(again.runs, here.result.runs, strict=True):
        low, high = saved.ci["ndcg@5"]
        assert low < exact.mean["ndcg@5"] < high  # from the weighted sample: wider, and of all queries
        assert high - low < 0.02
    assert karat.diagnose(str(tmp_path / "result.json"), run="a") is not None
    there.save(str(tmp_path / "comparison.json"))
    assert len(karat.load(tmp_path / "comparison.json").runs) == 2
    verdicts = [karat.check(there.result, gate, candidate="b").verdict for gate in ("ndcg@5 >= 0.3", "ndcg@5 >= 0.99")]
    assert verdicts == ["SHIP", "BLOCK"]


def test_the_same_draws_whatever_the_partitions(spark: Any, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "1000")
    gold = str(many / "gold.parquet")
    monkeypatch.setattr("karat.cluster.summed.BUCKET", 18_000)
    one = karat.evaluate(gold, {"a": str(many / "a")}, METRICS, engine=spark)
    monkeypatch.setattr("karat.cluster.summed.BUCKET", 1_000_000)
    frame = spark.read.parquet(str(many / "a.parquet")).repartition(5)
    two = karat.evaluate(gold, {"a": frame}, METRICS, engine=spark)
    assert repr(one.runs[0].intervals) == repr(two.runs[0].intervals)


@pytest.mark.parametrize(
    ("metrics", "options", "reason"),
    [
        ("ndcg@5,distinct_docs@5", {}, "distinct_docs@5 is no mean of values that judged docs determine"),
        ("ndcg@5", {"duplicates": "error"}, "this treatment of repeated docs needs whole lists"),
        ("ndcg@5", {"method": "bca"}, "intervals by bca need the values of all queries"),
    ],
)
def test_what_sums_cannot_do_is_brought_to_the_driver(
    spark: Any, many: Path, monkeypatch: pytest.MonkeyPatch, metrics: str, options: Any, reason: str
) -> None:
    monkeypatch.setenv(LIMIT, "1000")
    result = karat.evaluate(str(many / "gold.parquet"), str(many / "a"), metrics, engine=spark, **options)
    assert len(result.runs[0].query_ids) >= QUERIES
    assert f"12,000 queries: their values were brought to the driver, since {reason}" in result.runs[0].notes


def test_a_test_of_ranks_needs_all_values(spark: Any, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "1000")
    with pytest.raises(karat.UsageError, match="the test 'wilcoxon' needs the values of all queries on one machine"):
        runs = {n: str(many / n) for n in "ab"}
        karat.compare(str(many / "gold.parquet"), runs, "ndcg@5", tests="wilcoxon", engine=spark)


def test_broken_rows_are_named(spark: Any, many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "1000")
    rows = pq.read_table(many / "a.parquet").slice(0, 30_000)
    score = rows.column("score").to_numpy().copy()
    score[20_000] = np.nan
    pq.write_table(rows.set_column(2, "score", pa.array(score)), tmp_path / "run.parquet")
    with pytest.raises(karat.InputError, match=r"partition \d+, row \d+: score must be a finite number"):
        karat.evaluate(str(many / "gold.parquet"), str(tmp_path / "run.parquet"), "ndcg@5", engine=spark)
    gold = pq.read_table(many / "gold.parquet")
    pq.write_table(pa.concat_tables([gold, gold.slice(0, 1).set_column(2, "grade", [[9]])]), tmp_path / "gold.parquet")
    with pytest.raises(karat.InputError, match="q0"):
        karat.evaluate(str(tmp_path / "gold.parquet"), str(many / "a"), "ndcg@5", engine=spark)


def test_sums_of_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(2)
    values, keys = rng.random((2, 1000)), rng.integers(0, 1 << 63, 1000).astype(np.uint64)
    values[0, ::7] = np.nan
    base = np.zeros_like(values)
    whole = Sums.of(values, base, keys, 3)
    parts = [Sums.of(values[:, part], base[:, part], keys[part], 3) for part in (slice(600, None), slice(600))]
    assert Sums.from_bytes((parts[0] + parts[1]).to_bytes()).to_bytes() == whole.to_bytes()
    assert whole.to_bytes() != Sums.of(values, base, keys, 4).to_bytes()
    column = whole.column(0)
    there = values[0][~np.isnan(values[0])]
    assert (column.n, column.mean) == (len(there), pytest.approx(there.mean(), rel=1e-14))
    assert column.deviation == pytest.approx(there.std(ddof=1), rel=1e-12)
    assert column.draws.std() == pytest.approx(there.std() / len(there) ** 0.5, rel=0.1)
