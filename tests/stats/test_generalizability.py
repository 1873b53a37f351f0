"""Variance components, Eρ² and Φ: a table worked by hand, statsmodels as an oracle, and coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from karat.stats.generalizability import study_generalizability, unit_table
from karat.stats.intervals import standard_error
from karat.stats.resample import Units

Floats = NDArray[np.float64]

TABLE = np.array([[4, 2, 0], [6, 4, 2], [5, 6, 1], [9, 4, 5]], dtype=float)
"""Four queries × three systems.

Means of systems 6, 4, 2, of queries 2, 4, 4, 6, of all 4.
Systems: 4 · (2² + 0² + 2²) = 32 over 2 degrees of freedom: 16.
Queries: 3 · (2² + 0² + 0² + 2²) = 24 over 3: 8.
Rest: 0 for the first two queries, then −1, 2, −1 and 1, −2, 1: 12 over 6: 2.
"""


def test_a_table_worked_by_hand() -> None:
    study = study_generalizability(TABLE)
    parts = study.components
    assert parts.system == pytest.approx((16 - 2) / 4)
    assert parts.query == pytest.approx((8 - 2) / 3)
    assert parts.interaction == pytest.approx(2)
    assert parts.negative == ()
    assert study.relative.at(4).estimate == pytest.approx(3.5 / (3.5 + 2 / 4))  # .875
    assert study.absolute.at(4).estimate == pytest.approx(3.5 / (3.5 + (2 + 2) / 4))  # .778
    assert study.relative.at(20).estimate == pytest.approx(3.5 / (3.5 + 2 / 20))
    # n / (n + 2/3.5) ≥ .95 from 19 · 2 / 3.5 = 10.86 on; of levels from 19 · 4 / 3.5 = 21.7 on.
    assert (study.relative.needed(0.95).n, study.absolute.needed(0.95).n) == (11, 22)


def test_queries_needed_reach_the_target_and_one_less_does_not() -> None:
    study = study_generalizability(TABLE)
    for ratio in (study.relative, study.absolute):
        for target in (0.5, 0.8, 0.9, 0.95, 0.99):
            n = ratio.needed(target).n
            assert n is not None and ratio.at(n).estimate >= target - 1e-9
            assert n == 1 or ratio.at(n - 1).estimate < target


@pytest.mark.parametrize(("n", "systems"), [(5, 2), (12, 3), (30, 8)])
def test_mean_squares_are_those_of_statsmodels(n: int, systems: int) -> None:
    rng = np.random.default_rng(n)
    table = rng.normal(size=(n, 1)) + rng.normal(size=systems) + rng.gamma(1.0, size=(n, systems))
    long = pd.DataFrame(
        {"query": np.repeat(np.arange(n), systems), "system": np.tile(np.arange(systems), n), "value": table.ravel()}
    )
    anova = anova_lm(ols("value ~ C(query) + C(system)", long).fit())
    square = anova["sum_sq"] / anova["df"]
    parts = study_generalizability(table).components
    assert parts.interaction == pytest.approx(square["Residual"])
    assert parts.system == pytest.approx(max(0.0, (square["C(system)"] - square["Residual"]) / n))
    assert parts.query == pytest.approx(max(0.0, (square["C(query)"] - square["Residual"]) / systems))
    # Eρ² of the collection at hand is 1 − 1/F.
    relative = study_generalizability(table).relative.at(n).estimate
    assert relative == pytest.approx(max(0.0, 1 - 1 / anova["F"]["C(system)"]))


def test_an_estimate_below_0_is_set_to_0_and_named() -> None:
    # Both systems have the mean 5: their mean square is 0, below that of the rest.
    study = study_generalizability(np.array([[1.0, 2], [5, 6], [9, 7]]))
    assert study.components.negative == ("system",)
    assert (study.components.system, study.relative.at(3).estimate) == (0.0, 0.0)
    assert study.relative.needed(0.95).n is None
    assert study.relative.at(3).high > 0.5  # three queries do not show that the systems are alike


def test_systems_that_never_differ_have_no_reliability() -> None:
    study = study_generalizability(np.array([[0.1, 0.1], [0.7, 0.7], [0.3, 0.3]]))
    assert math.isnan(study.relative.at(3).estimate)
    assert study.relative.at(3).method == "none"


def test_systems_that_differ_alike_on_every_query_are_fully_reliable() -> None:
    study = study_generalizability(np.array([[0.125, 0.25], [0.5, 0.625], [0.375, 0.5]]))
    assert study.relative.at(3).estimate == 1.0
    assert study.relative.needed(0.95).n == 1


def test_sphericity_is_that_of_the_eigenvalues() -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(50, 4)) * [1, 2, 3, 4]
    centring = np.eye(4) - 1 / 4
    values = np.linalg.eigvalsh(centring @ np.cov(table.T) @ centring)
    expected = values.sum() ** 2 / (3 * (values**2).sum())
    assert study_generalizability(table).sphericity == pytest.approx(expected)
    assert study_generalizability(table[:, :2]).sphericity == 1.0


def test_intervals_hold_the_estimate_and_grow_with_the_confidence() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        table = rng.normal(size=(8, 1)) + rng.normal(size=4) * rng.random() + rng.normal(size=(8, 4))
        narrow, wide = (study_generalizability(table, confidence=c) for c in (0.8, 0.99))
        for small, large in (
            (narrow.relative.at(8), wide.relative.at(8)),
            (narrow.absolute.at(8), wide.absolute.at(8)),
        ):
            assert 0 <= large.low <= small.low <= small.estimate <= small.high <= large.high <= 1
    assert math.isnan(study_generalizability(TABLE, confidence=None).relative.low)


def true_coefficients(values: Floats, n: int) -> tuple[float, float]:
    """Eρ² and Φ of n queries drawn from these."""
    systems = values.shape[1]
    spread = np.cov(values.T, ddof=0)
    rest = (np.trace(spread) - spread.sum() / systems) / (systems - 1)
    query = max(0.0, (spread.sum() / systems - rest) / systems)
    system = values.mean(axis=0).var(ddof=1)
    return system / (system + rest / n), system / (system + (query + rest) / n)


@pytest.mark.parametrize("n", [25, 60])
def test_intervals_cover_the_truth_for_skewed_values_and_systems_that_go_together(n: int) -> None:
    """At most 6% miss on each side (nominal 2.5%); bench/reliability.py measures it on real values."""
    rng = np.random.default_rng(11)
    base = rng.beta(0.6, 0.8, size=(400, 2))
    mixing = rng.dirichlet([0.4, 0.4], size=7)
    values = np.clip(base @ mixing.T + rng.normal(0, 0.1, (400, 7)) + np.linspace(0, 0.12, 7), 0, 1)
    truth = true_coefficients(values, n)
    misses = np.zeros((2, 2))
    draws = 400
    for _ in range(draws):
        study = study_generalizability(values[rng.integers(0, len(values), n)])
        for i, one in enumerate((study.relative.at(n), study.absolute.at(n))):
            misses[i] += one.low > truth[i], one.high < truth[i]
    assert (misses / draws <= 0.06).all(), misses / draws


def test_a_table_of_units_has_the_weighted_means_and_their_standard_errors() -> None:
    rng = np.random.default_rng(7)
    values = rng.random((3, 12))
    plain = Units.of(12)
    assert unit_table(values, plain).tolist() == values.T.tolist()
    units = Units.of(12, clusters=[i // 3 if i < 9 else None for i in range(12)], weights=rng.random(12))
    table = unit_table(values, units)
    assert len(table) == 6
    assert table.mean(axis=0) == pytest.approx(np.average(values, axis=1, weights=units.weight))
    spread = table.std(axis=0) / math.sqrt(6)  # of the six units; a standard error makes up for Kish's n instead of 6
    errors = [standard_error(row, units) for row in values]
    assert spread == pytest.approx([error * math.sqrt((count - 1) / count) for error, count in errors])
