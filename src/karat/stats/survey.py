"""Samples drawn with known probabilities: totals of the population, and how far they may be off."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Survey:
    """How each element of a sample came to be drawn."""

    probability: Floats
    """Of being drawn, for each element of the sample."""
    stratum: Counts | None = None
    """The stratum of each element, where a fixed number is drawn from each without replacement and with equal
    probabilities; None where each element is drawn or not by itself."""

    def __post_init__(self) -> None:
        if not ((self.probability > 0) & (self.probability <= 1)).all():
            worst = self.probability[~((self.probability > 0) & (self.probability <= 1))][0]
            raise UsageError(f"the probability of being drawn must be above 0 and at most 1, found {worst:g}")
        if self.stratum is not None and len(self.stratum) != len(self.probability):
            raise UsageError(
                f"a stratum is needed for each probability: found {len(self.stratum)} for {len(self.probability)}"
            )

    def __len__(self) -> int:
        return len(self.probability)

    @staticmethod
    def even(n: int, population: int) -> Survey:
        """A simple random sample without replacement."""
        return Survey(np.full(n, n / population), np.zeros(n, dtype=np.int64))

    @cached_property
    def weight(self) -> Floats:
        """How many elements of the population each one stands for (Horvitz & Thompson 1952)."""
        return 1.0 / self.probability

    @cached_property
    def sizes(self) -> Counts:
        """How many elements of the sample are in the stratum of each one; 1 for all where there are no strata."""
        if self.stratum is None:
            return np.ones(len(self), dtype=np.int64)
        return np.bincount(self.stratum, minlength=1)[self.stratum]

    def total(self, values: Floats) -> float:
        """The total of the population: unbiased whatever the values are."""
        return float((self.weight * values).sum())

    def mean(self, values: Floats) -> float:
        """The mean of the population, by the estimated number of its elements (Hájek 1971)."""
        return self.total(values) / float(self.weight.sum())

    def covariance(self, a: Floats, b: Floats) -> float:
        """The covariance of two totals over repeated samples, estimated without bias from this one.

        An element that is alone in its stratum says nothing about the spread there: it counts as drawn by itself, which
        is more than its share.
        """
        first, second = self._apart(a), self._apart(b)
        factor = np.where(self.sizes > 1, self.sizes / np.maximum(self.sizes - 1, 1), 1.0)
        return float(((1 - self.probability) * factor * first * second).sum())

    def variance(self, values: Floats) -> float:
        """The variance of the total over repeated samples."""
        return self.covariance(values, values)

    def group_covariances(self, a: Floats, b: Floats, group: Counts, groups: int) -> Floats:
        """The covariance of two totals of each group of elements; a stratum may have elements of several groups."""
        first, second, rest = self.weight * a, self.weight * b, 1 - self.probability
        if self.stratum is None:
            return group_sums(rest * first * second, group, groups)
        strata = int(self.stratum.max(initial=0)) + 1
        cells, at, cell = np.unique(group * strata + self.stratum, return_index=True, return_inverse=True)
        size = self.sizes[at]
        products = np.bincount(cell, first * second)
        means = np.bincount(cell, first) * np.bincount(cell, second) / size
        spread = np.where(size > 1, (products - means) * size / np.maximum(size - 1, 1), products)
        return group_sums(rest[at] * spread, cells // strata, groups)

    def _apart(self, values: Floats) -> Floats:
        """Weighted values, without the mean of their stratum where that is known."""
        weighted = self.weight * values
        if self.stratum is None:
            return weighted
        means = np.bincount(self.stratum, weighted)[self.stratum] / self.sizes
        return np.where(self.sizes > 1, weighted - means, weighted)


def group_sums(values: Floats, group: Counts, groups: int) -> Floats:
    """The sum of the values of each group."""
    return np.bincount(group, values, minlength=groups).astype(np.float64, copy=False)
