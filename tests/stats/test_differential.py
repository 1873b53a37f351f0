"""What a judge's grades gain by a trait, among docs of equal true grade."""

from __future__ import annotations

import numpy as np
import pytest

from karat.stats.differential import measure_pull
from karat.stats.resample import Units


def test_a_difference_within_grades_by_hand() -> None:
    # Grade 0: judge 1 with the trait, 0 without. Grade 2: 3 and 2. So 1 in each, whatever the grades differ by.
    human, trait = np.array([0.0, 0, 0, 2, 2]), np.array([1.0, 0, 0, 1, 0])
    judge = np.array([1.0, 0, 0, 3, 2])
    one = measure_pull(trait, judge, human, Units.of(5))
    assert one.estimate == pytest.approx(1) and one.low == pytest.approx(1) == pytest.approx(one.high)


def test_slope_and_error_are_those_of_statsmodels() -> None:
    statsmodels = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(1)
    human = rng.integers(0, 4, 300).astype(float)
    trait, weight = rng.normal(size=300) + human, rng.uniform(0.5, 3, 300)
    queries = rng.integers(0, 25, 300)
    judge = human + 0.2 * trait + rng.normal(size=300)
    one = measure_pull(trait, judge, human, Units.of(300, queries.tolist(), weight))
    design = np.column_stack([trait, *(human == grade for grade in range(4))]).astype(float)
    fit = statsmodels.WLS(judge, design, weights=weight).fit(
        cov_type="cluster", cov_kwds={"groups": queries, "use_correction": False}
    )
    assert one.estimate == pytest.approx(fit.params[0])
    from scipy.stats import t

    half = t.ppf(0.975, 24) * fit.bse[0] * np.sqrt(25 / 24)
    assert one.high - one.estimate == pytest.approx(half)


def test_a_trait_that_never_varies_says_nothing() -> None:
    human, judge = np.array([0.0, 0, 1, 1]), np.array([0.0, 1, 1, 1])
    assert np.isnan(measure_pull(human, judge, human, Units.of(4)).estimate)
