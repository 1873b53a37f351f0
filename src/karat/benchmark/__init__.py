"""Benchmarks: retrievers over datasets, timed, logged, evaluated and compared."""

from karat.benchmark.benching import Bench, Benched, bench
from karat.benchmark.dataset import Dataset, datasets_of

__all__ = ["Bench", "Benched", "Dataset", "bench", "datasets_of"]
