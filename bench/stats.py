"""Whether the intervals and tests of Karat keep their promises, and how fast they are: `make bench-stats`.

Simulation: samples whose true mean is known are drawn again and again, and it is counted how often the interval
holds it and how often a test finds a difference where there is none. Speed: beside scipy, on 7,000 queries.
Takes about six minutes on two cores.

    stats.py              all of it; writes the section `statistics` of bench/RESULTS.md
    stats.py --quick      a tenth of the replications and of the draws, to try it; writes nothing

The driver holds no numpy; each cell of a table is a child: stats.py <what> <arguments>.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness import (
    HERE,
    Failed,
    OtherLoad,
    Report,
    finish,
    machine,
    megabytes,
    progress,
    python,
    seconds,
    source_digest,
    times,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHAPES = {
    "balanced": (0.15, 0.15, 2.0, 2.0),
    "good": (0.05, 0.35, 4.0, 2.0),
    "weak": (0.40, 0.05, 1.5, 3.0),
    "hard": (0.65, 0.03, 1.0, 3.0),
}
"""Values like those of ndcg@10: the share of queries at 0, the share at 1, and a Beta(a, b) between."""
SIZES = (25, 50, 200)
METHODS = ("auto", "bca", "percentile", "t", "studentized")
TESTS = ("t", "randomization", "bootstrap", "wilcoxon", "sign")
DEFAULT_TESTS = ("t", "randomization")
SHARES = tuple(i / 10 for i in range(1, 10))
CONVERSATIONS, TURNS, ICC = 40, 5, 0.3
TIED = 0.4
"""Queries on which both systems of a pair do the same."""
COVER, TYPE_ONE = 0.015, 0.0103
"""How far coverage may be from .95, and false findings from .05: three standard errors among 4,000."""
TOGETHER = 20
"""Samples that share their resamples; each lot has a seed of its own."""
SCALE = (0.0, 1.0)
METRICS, QUERIES, RESAMPLES, DRAWS = 10, 7000, 2000, 100_000
MEMORY_SPARE = 100_000_000
"""What a computation may take beyond its data: one matrix of all resamples would be 112 MB, of all flips 5.6 GB."""


@dataclass(frozen=True)
class Plan:
    """How often everything is drawn."""

    quick: bool

    @property
    def replications(self) -> int:
        return 400 if self.quick else 4000

    def of(self, method: str) -> int:
        """Fewer where every sample needs resamples of its own."""
        return self.replications // 4 if method == "studentized" else self.replications

    def slack(self, most: float) -> float:
        """How far a share may be on the wrong side of its limit; more with fewer replications."""
        return most * (4000 / self.replications) ** 0.5 + 1e-12

    @property
    def draws(self) -> int:
        return DRAWS // 10 if self.quick else DRAWS


# Children: simulation


def mean_of(shape: str) -> float:
    zero, one, a, b = SHAPES[shape]
    return one + (1 - zero - one) * a / (a + b)


def drawn(rng: np.random.Generator, shape: str, size: tuple[int, ...]) -> Floats:
    import numpy as np

    zero, one, a, b = SHAPES[shape]
    place = rng.random(size)
    return np.where(place < zero, 0.0, np.where(place < zero + one, 1.0, rng.beta(a, b, size)))


def counted(found: Any, truth: float, tally: dict[str, float]) -> None:
    """Add intervals to the tally: how often the truth was inside, below and above, and the length."""
    for one in found:
        tally["inside"] += one.low <= truth <= one.high
        tally["below"] += truth < one.low
        tally["above"] += truth > one.high
        tally["length"] += one.high - one.low


def shares(tally: dict[str, float], replications: int) -> None:
    answer(**{name: value / replications for name, value in tally.items()})


def empty() -> dict[str, float]:
    return {"inside": 0.0, "below": 0.0, "above": 0.0, "length": 0.0}


def cover(shape: str, n: str, method: str, replications: str) -> None:
    """Coverage of one method on samples of n values of one shape."""
    import numpy as np

    from karat.stats.groups import intervals
    from karat.stats.resample import Units

    rng = np.random.default_rng([1, list(SHAPES).index(shape), int(n)])  # the same samples for every method
    tally, units = empty(), Units.of(int(n))
    for lot in range(int(replications) // TOGETHER):
        values = drawn(rng, shape, (TOGETHER, int(n)))
        counted(intervals(values, units, bounds=[SCALE] * TOGETHER, method=method, seed=lot), mean_of(shape), tally)
    shares(tally, int(replications))


def hits(n: str, replications: str) -> None:
    """Coverage of hit rates, by the true rate."""
    import numpy as np

    from karat.stats.groups import intervals
    from karat.stats.resample import Units

    rng, units, found = np.random.default_rng([2, int(n)]), Units.of(int(n)), {}
    for share in SHARES:
        tally = empty()
        values = (rng.random((int(replications), int(n))) < share).astype(float)
        counted(intervals(values, units, bounds=[SCALE] * len(values)), share, tally)
        found[str(share)] = tally["inside"] / int(replications)
    answer(**found)


def clustered(shape: str, method: str, known: str, replications: str) -> None:
    """Coverage where the values of a conversation go together, with conversations known or not.

    A value is that of its conversation with probability √ICC, else one of its own: the correlation within is ICC.
    """
    import numpy as np

    from karat.stats.groups import intervals
    from karat.stats.resample import Units

    rng = np.random.default_rng([3, list(SHAPES).index(shape)])
    owner = np.repeat(np.arange(CONVERSATIONS), TURNS)
    units = Units.of(len(owner), owner.tolist() if known == "known" else None)
    tally = empty()
    for lot in range(int(replications) // TOGETHER):
        common = drawn(rng, shape, (TOGETHER, CONVERSATIONS))[:, owner]
        own = drawn(rng, shape, (TOGETHER, len(owner)))
        values = np.where(rng.random(own.shape) < ICC**0.5, common, own)
        counted(intervals(values, units, bounds=[SCALE] * TOGETHER, method=method, seed=lot), mean_of(shape), tally)
    shares(tally, int(replications))


def type_one(shape: str, n: str, test: str, replications: str) -> None:
    """How often a test finds a difference at .05 between two systems that are exchangeable."""
    import numpy as np

    from karat.stats.paired import p_value
    from karat.stats.resample import Units

    rng = np.random.default_rng([4, list(SHAPES).index(shape), int(n)])
    units, found = Units.of(int(n)), 0
    for i in range(int(replications)):
        a, b = drawn(rng, shape, (2, int(n)))
        difference = np.where(rng.random(int(n)) < TIED, 0.0, a - b)
        found += p_value(test, difference, units, seed=i)[1] <= 0.05
    answer(found=found / int(replications))


# Children: speed


def metrics() -> Floats:
    import numpy as np

    rng = np.random.default_rng(5)
    shapes = list(SHAPES)
    return np.array([drawn(rng, shapes[i % len(shapes)], (QUERIES,)) for i in range(METRICS)])


def measured(work: Callable[[], Any], rounds: int) -> tuple[list[float], Any, int]:
    """Times of some rounds, what the last gave, and the memory that was needed beyond what was loaded."""
    before = resident()
    found, out = [], None
    for _ in range(rounds):
        start = perf_counter()
        out = work()
        found.append(perf_counter() - start)
    return found, out, resident() - before


def resident() -> int:
    """The peak memory of this process so far, in bytes."""
    import resource

    from harness import peak_bytes

    return peak_bytes(resource.getrusage(resource.RUSAGE_SELF))


def bca_karat(rounds: str, threads: str) -> None:
    import scipy.special  # noqa: F401 (loaded before the clock starts)

    from karat.stats.groups import intervals
    from karat.stats.resample import Units

    values, units = metrics(), Units.of(QUERIES)
    options = {"method": "bca", "resamples": RESAMPLES, "threads": int(threads)}
    taken, found, more = measured(lambda: intervals(values, units, **options), int(rounds))
    answer(seconds=min(taken), more=more, low=[i.low for i in found], high=[i.high for i in found])


def bca_scipy(rounds: str, way: str) -> None:
    import numpy as np
    from scipy.stats import bootstrap

    values = metrics()

    def one(rows: Floats, batch: int) -> Any:
        rng = np.random.default_rng(0)
        options: dict[str, Any] = {"axis": -1, "vectorized": True, "method": "BCa", "n_resamples": RESAMPLES}
        return bootstrap((rows,), np.mean, batch=batch, rng=rng, **options).confidence_interval

    def work() -> list[tuple[float, float]]:
        if way == "at-once":
            return list(zip(*one(values, 50), strict=True))
        return [tuple(one(row, 200)) for row in values]

    taken, found, more = measured(work, int(rounds))
    low, high = zip(*found, strict=True)
    answer(seconds=min(taken), more=more, low=list(map(float, low)), high=list(map(float, high)))


def differences() -> Floats:
    values = metrics()
    return values[0] - values[4]  # two systems of the same shape


def flips_karat(rounds: str, draws: str) -> None:
    from karat.stats.paired import p_value
    from karat.stats.resample import Units

    values, units = differences(), Units.of(QUERIES)
    taken, found, more = measured(lambda: p_value("randomization", values, units, draws=int(draws)), int(rounds))
    answer(seconds=min(taken), more=more, p=found[1])


def flips_scipy(rounds: str, draws: str) -> None:
    import numpy as np
    from scipy.stats import permutation_test

    values = differences()
    options: dict[str, Any] = {"permutation_type": "samples", "vectorized": True, "axis": -1, "batch": 1000}

    def work() -> Any:
        return permutation_test((values,), np.mean, n_resamples=int(draws), rng=np.random.default_rng(0), **options)

    taken, found, more = measured(work, int(rounds))
    answer(seconds=min(taken), more=more, p=float(found.pvalue))


def answer(**found: Any) -> None:
    print(json.dumps(found), flush=True)


CHILDREN: dict[str, Callable[..., None]] = {
    f.__name__: f for f in (cover, hits, clustered, type_one, bca_karat, bca_scipy, flips_karat, flips_scipy)
}


# The driver


def child(*args: object, env: dict[str, str] | None = None) -> tuple[dict[str, Any], int]:
    """What one child answers, and its peak memory."""
    run = python(HERE / "stats.py", *map(str, args), env=env)
    progress(f"{' '.join(map(str, args))}: {seconds(run.seconds)}")
    return run.answer, run.memory


def side_by_side(jobs: list[tuple[object, ...]]) -> dict[tuple[object, ...], dict[str, Any]]:
    """All jobs, two at a time, each on one core; the longest first."""
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda job: child(*job, env={"OPENBLAS_NUM_THREADS": "1"})[0], jobs)
        return dict(zip(jobs, found, strict=True))


def share(value: float) -> str:
    return f"{value:.1%}"


def named(shape: str) -> str:
    zero, one, a, b = SHAPES[shape]
    return f"{shape}: {zero:.0%} at 0, {one:.0%} at 1, else Beta({a:g}, {b:g}), mean {mean_of(shape):.3f}"


def tell_coverage(report: Report, plan: Plan) -> None:
    report.heading("Coverage of 95% intervals")
    report.note(
        f"How often the interval of a mean holds the true mean, in {plan.replications:,} samples "
        f"({plan.of('studentized'):,} for studentized). `auto` takes BCa here, expanded for the number of queries. "
        "In brackets: the true mean was below, above; and the mean length. Values like those of ndcg@10, "
        + "; ".join(map(named, SHAPES))
        + "."
    )
    jobs: list[tuple[object, ...]] = [
        ("cover", shape, n, method, plan.of(method))
        for method in reversed(METHODS)
        for n in reversed(SIZES)
        for shape in SHAPES
    ]
    found = side_by_side(jobs)
    rows = []
    for shape in SHAPES:
        for n in SIZES:
            row = [f"{shape}, n = {n}"]
            for method in METHODS:
                cell = found["cover", shape, n, method, plan.of(method)]
                sides = f"{cell['below'] * 100:.1f}, {cell['above'] * 100:.1f}; {cell['length']:.3f}"
                row.append(f"{share(cell['inside'])} ({sides})")
            rows.append(row)
    report.table(["", *METHODS], rows)
    for shape in SHAPES:
        inside = [found["cover", shape, n, "auto", plan.replications]["inside"] for n in SIZES]
        told = ", ".join(f"{share(x)} (n = {n})" for x, n in zip(inside, SIZES, strict=True))
        passed = min(inside) >= 0.95 - plan.slack(COVER)
        report.bar(f"`auto` covers at least 93.5%, {shape} values", told, passed)


def tell_hits(report: Report, plan: Plan) -> None:
    report.heading("Coverage of 95% intervals of hit rates")
    report.note(
        f"`auto` on values of 0 and 1: Wilson, or Clopper–Pearson where all are equal. {plan.replications:,} samples "
        "for each true rate."
    )
    found = side_by_side([("hits", n, plan.replications) for n in SIZES])
    rows, means = [], []
    for (_, n, _), cells in found.items():
        means.append(sum(cells.values()) / len(cells))
        rows.append([f"n = {n}", *(share(cells[str(p)]) for p in SHARES), share(means[-1])])
    report.table(["true rate", *map(str, SHARES), "mean"], rows)
    told = ", ".join(f"{share(x)} (n = {n})" for x, n in zip(means, SIZES, strict=True))
    passed = min(means) >= 0.95 - plan.slack(COVER)
    report.bar("on average over the rates at least 93.5%", told, passed)


def tell_clusters(report: Report, plan: Plan) -> None:
    report.heading("Coverage where queries come in conversations")
    report.note(
        f"{CONVERSATIONS} conversations of {TURNS} queries, correlation {ICC} within; {plan.replications:,} samples. "
        "Naive: as if the queries were independent."
    )
    ways = (
        ("auto", "not-known", "naive"),
        ("auto", "known", "auto"),
        ("percentile", "known", "percentile"),
        ("t", "known", "t"),
    )
    shapes = ("balanced", "good", "weak")
    found = side_by_side([("clustered", s, m, k, plan.replications) for s in shapes for m, k, _ in ways])
    rows = [[s, *(share(found["clustered", s, m, k, plan.replications]["inside"]) for m, k, _ in ways)] for s in shapes]
    report.table(["", *(told for _, _, told in ways)], rows)
    inside = [found["clustered", s, "auto", "known", plan.replications]["inside"] for s in shapes]
    told = ", ".join(f"{share(x)} ({s})" for x, s in zip(inside, shapes, strict=True))
    passed = min(inside) >= 0.95 - plan.slack(COVER)
    report.bar("`auto` with conversations covers at least 93.5%", told, passed)


def tell_tests(report: Report, plan: Plan) -> None:
    report.heading("False findings of paired tests")
    report.note(
        f"How often p ≤ .05 between two systems of which neither is better, in {plan.replications:,} pairs of samples "
        f"({TIED:.0%} of the queries tied, the others drawn twice from the same shape); all tests with their "
        "default draws."
    )
    jobs: list[tuple[object, ...]] = [
        ("type_one", shape, n, test, plan.replications // (4 if test == "bootstrap" else 1))
        for test in ("bootstrap", "randomization", "t", "wilcoxon", "sign")
        for n in reversed(SIZES)
        for shape in SHAPES
    ]
    cells = {job[1:4]: found["found"] for job, found in side_by_side(jobs).items()}
    rows = [[f"{s}, n = {n}", *(f"{cells[s, n, t]:.4f}" for t in TESTS)] for s in SHAPES for n in SIZES]
    report.table(["", *TESTS], rows)
    report.note(
        f"The bootstrap in {plan.replications // 4:,} pairs. Wilcoxon and the sign test are no defaults; the sign test "
        "cannot reach .05 exactly."
    )
    for test in DEFAULT_TESTS:
        for shape in SHAPES:
            mine = [cells[shape, n, test] for n in SIZES]
            told = ", ".join(f"{x:.4f} (n = {n})" for x, n in zip(mine, SIZES, strict=True))
            passed = max(mine) <= 0.05 + plan.slack(TYPE_ONE)
            report.bar(f"{test}: at most {0.05 + TYPE_ONE:.3f}, {shape} values", told, passed)


def speed_rows(cells: dict[str, tuple[dict[str, Any], int]]) -> Iterator[list[str]]:
    base = min(found["seconds"] for name, (found, _) in cells.items() if name.startswith("karat"))
    for name, (found, peak) in cells.items():
        against = "" if name.startswith("karat") else f" ({times(found['seconds'] / base)})"
        yield [name, seconds(found["seconds"]) + against, megabytes(peak), megabytes(found["more"])]


def tell_bca(report: Report, plan: Plan) -> None:
    report.heading(f"Speed: BCa intervals of {METRICS} metrics on {QUERIES:,} queries, {RESAMPLES:,} resamples")
    rounds = 3 if plan.quick else 10
    cells = {
        "karat, 1 thread": child("bca_karat", rounds, 1),
        "karat, 2 threads": child("bca_karat", rounds, 2),
        "scipy, all metrics at once": child("bca_scipy", 1 if plan.quick else 2, "at-once"),
        "scipy, metric by metric": child("bca_scipy", 1 if plan.quick else 2, "each"),
    }
    report.table(["", "time", "peak", "beyond what was loaded"], list(speed_rows(cells)))
    ours, others = cells["karat, 1 thread"][0], [f for name, (f, _) in cells.items() if name.startswith("scipy")]
    lengths = [high - low for low, high in zip(ours["low"], ours["high"], strict=True)]
    away = max(
        abs(a - b) / length
        for other in others
        for end in ("low", "high")
        for a, b, length in zip(ours[end], other[end], lengths, strict=True)
    )
    if away > 0.1:  # one end has a standard error of 1.7% in each
        raise Failed(f"karat and scipy disagree by {away:.1%} of the length of an interval")
    report.note(f"All agree to {away:.1%} of the length of an interval, as {RESAMPLES:,} resamples let expect.")
    ratio = min(other["seconds"] for other in others) / ours["seconds"]
    report.bar("one thread at least 20× as fast as the faster way of scipy", times(ratio), ratio >= 20)
    more = max(found["more"] for name, (found, _) in cells.items() if name.startswith("karat"))
    report.bar(f"less than {megabytes(MEMORY_SPARE)} beyond the data", megabytes(more), more < MEMORY_SPARE)


def tell_flips(report: Report, plan: Plan) -> None:
    report.heading(f"Speed: {plan.draws:,} sign flips of {QUERIES:,} differences")
    cells = {
        "karat": child("flips_karat", 3 if plan.quick else 5, plan.draws),
        "scipy": child("flips_scipy", 1, plan.draws),
    }
    report.table(["", "time", "peak", "beyond what was loaded"], list(speed_rows(cells)))
    ours, other = (cells[name][0] for name in ("karat", "scipy"))
    error = (2 * ours["p"] * (1 - ours["p"]) / plan.draws) ** 0.5
    if abs(ours["p"] - other["p"]) > 5 * error:
        raise Failed(f"karat finds p = {ours['p']}, scipy {other['p']}")
    report.note(f"p = {ours['p']:.4f}, by scipy {other['p']:.4f}. scipy in batches of 1,000.")
    ratio = other["seconds"] / ours["seconds"]
    report.bar("at least 10× as fast as scipy", times(ratio), ratio >= 10)
    report.bar(
        f"less than {megabytes(MEMORY_SPARE)} beyond the data", megabytes(ours["more"]), ours["more"] < MEMORY_SPARE
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage, false findings and speed of Karat's statistics.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the replications; writes nothing")
    plan = Plan(parser.parse_args().quick)
    begun = source_digest()
    report = Report("Statistics")
    report.note(machine())
    load = OtherLoad()
    tell_bca(report, plan)
    tell_flips(report, plan)
    report.note(load.told())
    tell_coverage(report, plan)
    tell_hits(report, plan)
    tell_clusters(report, plan)
    tell_tests(report, plan)
    finish("statistics", report, begun, partial=plan.quick)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in CHILDREN:
        CHILDREN[sys.argv[1]](*sys.argv[2:])
    else:
        main()
