"""Benchmarks: retrievers over datasets, timed, logged, evaluated and compared."""

from karat.verbs.bench.benchmark import Bench, Benched, bench
from karat.verbs.bench.dataset import Dataset, datasets_of

__all__ = ["Bench", "Benched", "Dataset", "bench", "datasets_of"]
