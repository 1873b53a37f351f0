"""Benchmarks: retrievers over datasets, timed, logged, evaluated and compared."""

from karat.verbs.bench.benchmark import Bench, DatasetBench, bench
from karat.verbs.bench.dataset import Dataset, datasets_of

__all__ = ["Bench", "DatasetBench", "Dataset", "bench", "datasets_of"]
