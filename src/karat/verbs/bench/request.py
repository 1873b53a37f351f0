"""The arguments of a benchmark: from the command line, else from a config."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Required, TypedDict, Unpack, cast

from karat.config.checks import config_options
from karat.config.options import Data, Options
from karat.config.reading import DEFAULT_NAMES, Read, find_config, read_config
from karat.errors import InputError, UsageError
from karat.model.option import options_of
from karat.verbs.bench.benchmark import BenchOptions, Chunks
from karat.verbs.bench.dataset import config_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RunOptions(TypedDict):
    """What both `karat bench` and the block `bench` of a config state; None leaves it to the config."""

    k: int | None
    out: str | None
    baseline: str | None
    chunks: Sequence[str] | None
    split: str | None
    workers: int | None
    warmup: int | None


class BenchRequest(BenchOptions, total=False):
    """The arguments of `bench` by name."""

    dataset: Required[list[str] | None]
    cases: list[str]
    labels: list[str]
    out: Required[str]
    chunks: Required[list[Chunks]]
    retrievers: Sequence[object] | Mapping[str, object]
    metrics: Sequence[str]
    k: int
    baseline: str
    split: str
    workers: int
    warmup: int


def read_request(
    datasets: Sequence[str] | None,
    retrievers: Sequence[str] | None,
    metrics: Sequence[str] | None,
    options: Options,
    *,
    cases: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    **arguments: Unpack[RunOptions],
) -> BenchRequest:
    """The arguments of `bench`; a config supplies those that the command line does not state."""
    read = _config(datasets) if datasets or not cases else None
    bench = read.config.bench if read is not None else None
    sources = list(datasets) if datasets else [read.path] if read is not None else None
    if sources is None and not cases:
        raise UsageError(
            "no dataset; name a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv: karat bench -d FOLDER"
        )
    chunks = arguments["chunks"] if arguments["chunks"] is not None or bench is None else bench.chunks
    out: dict[str, object] = {"out": "runs", "dataset": sources}
    if cases:
        out["cases"] = list(cases)
    if labels:
        out["labels"] = list(labels)
    if retrievers:
        out["retrievers"] = list(retrievers)
    elif bench is not None:
        out["retrievers"] = bench.retrievers
    for name, value in arguments.items():
        choice = value if value is not None else getattr(bench, name, None)
        if name == "baseline" and value is None and retrievers:
            choice = None  # the config's is of its own retrievers
        if choice is not None:
            out[name] = choice
    if read is not None and read.config.metrics:
        out["metrics"] = read.config.metrics
    if read is not None:
        own = {option.name for option in options_of(Data)}  # the dataset brings these itself
        out |= {name: value for name, value in config_options(read).items() if name not in own}
    if read is not None and bench is not None and arguments["out"] is None:
        out["out"] = read.place(bench.out)
    if metrics:
        out["metrics"] = metrics
    return cast("BenchRequest", {**out, **options, "chunks": [chunks_of(text) for text in chunks or ()]})


def _config(datasets: Sequence[str] | None) -> Read | None:
    """The one config that is among the datasets, or lies in this folder where none is named."""
    if not datasets:
        if not any(os.path.exists(name) for name in DEFAULT_NAMES):
            return None
        read = read_config(find_config())
        if read.config.bench is None:
            raise InputError(f"{read.path}: has no bench:; add it (docs/retrievers.md), or name a dataset")
        return read
    paths = [d.split("=", 1)[-1] for d in datasets if d.endswith((".yaml", ".yml")) or config_in(d)]
    return read_config(find_config(paths[0])) if len(paths) == 1 and len(datasets) == 1 else None


def chunks_of(text: str) -> Chunks:
    """`120:30` → words and overlap; `asis` leaves the corpus as it is."""
    if str(text).strip().lower() == "asis":
        return None
    parts = re.fullmatch(r"\s*(\d+)\s*(?::\s*(\d+))?\s*", str(text))
    if parts is None:
        raise UsageError(f"a chunk is written WORDS:OVERLAP, such as 120:30, or asis, found {text!r}")
    return int(parts[1]), int(parts[2] or 0)
