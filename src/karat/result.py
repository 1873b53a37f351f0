"""What an evaluation found: means, values per query, and what was counted. Everything later reads only this."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import InputError, ResultError, nearest
from karat.metrics.grammar import ByMeasure, parse
from karat.metrics.relevance import GM_FLOOR
from karat.output import rounded, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure

FORMAT_VERSION = 1


def aggregated(measure: Measure, values: NDArray[np.float64]) -> tuple[float, int]:
    """The one number for all queries, and over how many it is; undefined values are left out."""
    defined = values[~np.isnan(values)]
    n = len(defined)
    if n == 0:
        return math.nan, 0
    if measure.metric.aggregate == "sum":
        return float(defined.sum()), n
    if measure.metric.aggregate == "geometric mean":
        return float(np.exp(np.log(np.maximum(defined, GM_FLOOR)).mean())), n
    return float(defined.mean()), n


@dataclass(frozen=True)
class RunResult:
    """One run's values."""

    name: str
    query_ids: Sequence[str]
    values: Mapping[str, NDArray[np.float64]]
    counts: Mapping[str, int]
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    ideal: Callable[[], Mapping[str, float]] = field(default=dict, repr=False, compare=False)
    """Finds the best values that the gold allows; asked only when somebody wants to know."""
    lists: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """By query: `top` docs with score and grade, `gold` with grade and rank; empty unless asked for."""

    @cached_property
    def attainable(self) -> Mapping[str, float]:
        """The best value that the gold allows, where a metric has a target."""
        return self.ideal()

    @property
    def mean(self) -> Mapping[str, float]:
        """The aggregate of each metric by any spelling of its name: a mean, or a sum for counts."""
        return ByMeasure({name: aggregated(parse(name), v)[0] for name, v in self.values.items()})

    @property
    def n(self) -> Mapping[str, int]:
        """Over how many queries each metric is defined."""
        return ByMeasure({name: aggregated(parse(name), v)[1] for name, v in self.values.items()})

    def per_query(self, metric: str) -> dict[str, float]:
        """One metric's value for each query."""
        return dict(zip(self.query_ids, ByMeasure(self.values)[metric].tolist(), strict=True))

    def as_json(self) -> dict[str, Any]:
        """This run as the JSON document has it."""
        metrics = {}
        for name, values in self.values.items():
            measure = parse(name)
            value, n = aggregated(measure, values)
            metrics[name] = {"mean": rounded(value), "n": n}
            if measure.metric.aggregate != "mean":
                metrics[name]["aggregate"] = measure.metric.aggregate  # type: ignore[assignment]
        facts = {"facts": dict(self.facts)} if self.facts else {}
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {"name": self.name, **facts, "metrics": metrics, "counts": dict(self.counts), **notes}


@dataclass(frozen=True)
class Result:
    """The evaluation of one run or of several on the same gold."""

    runs: tuple[RunResult, ...]
    conventions: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "evaluation"

    def __getitem__(self, name: str) -> RunResult:
        for run in self.runs:
            if run.name == name:
                return run
        names = [r.name for r in self.runs]
        near = nearest(name, names)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ResultError(f"no run {name!r} in this result, which holds {', '.join(names)}{hint}")

    def __iter__(self) -> Iterator[RunResult]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def _only(self, wanted: str) -> RunResult:
        if len(self.runs) != 1:
            names = [r.name for r in self.runs]
            raise ResultError(
                f"this result holds {len(names)} runs; choose one: result[{names[0]!r}].{wanted} "
                f"(it has {', '.join(names)})"
            )
        return self.runs[0]

    @property
    def mean(self) -> Mapping[str, float]:
        """The aggregate of each metric; with several runs choose one first: `result["name"].mean`."""
        return self._only("mean").mean

    @property
    def n(self) -> Mapping[str, int]:
        """Over how many queries each metric is defined."""
        return self._only("n").n

    @property
    def counts(self) -> Mapping[str, int]:
        """Queries, missing ones, duplicates, and whatever else alignment counted."""
        return self._only("counts").counts

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known about how the numbers came to be."""
        return self._only("notes").notes

    def per_query(self, metric: str) -> dict[str, float]:
        """One metric's value for each query."""
        return self._only(f"per_query({metric!r})").per_query(metric)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The canonical names of the metrics, in the order asked for."""
        return tuple(self.runs[0].values) if self.runs else ()

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` writes."""
        told = {"conventions": dict(self.conventions)} if self.conventions else {}
        return {
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            **told,
            "runs": [r.as_json() for r in self.runs],
        }

    def rows(self) -> Iterator[tuple[str, str, str, float | None]]:
        """The long table: run, query, metric, value."""
        for run in self.runs:
            for name, values in run.values.items():
                for query, value in zip(run.query_ids, values.tolist(), strict=True):
                    yield run.name, query, name, rounded(value)

    def save(self, path: str) -> None:
        """Write the full result, to be read back by `karat.load`. A name that ends in .gz is packed."""
        document = self.as_json()
        for run, written in zip(self.runs, document["runs"], strict=True):
            written["query_ids"] = list(run.query_ids)
            written["per_query"] = {n: [rounded(x) for x in v.tolist()] for n, v in run.values.items()}
            if run.attainable:
                written["attainable"] = {n: rounded(v) for n, v in run.attainable.items()}
            if run.lists:
                written["lists"] = run.lists
        data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        if path.endswith(".gz"):
            import gzip

            data = gzip.compress(data, mtime=0)
        write_atomically(path, data)

    def __repr__(self) -> str:
        names = ", ".join(r.name for r in self.runs)
        if len(self.runs) == 1:
            shown = ", ".join(f"{n}={v:.4f}" for n, v in list(self.mean.items())[:4])
            return f"Result({names}: {shown}{', …' if len(self.metrics) > 4 else ''})"
        return f"Result({len(self.runs)} runs: {names}; {len(self.metrics)} metrics)"

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{escape(n)}</th>" for n in self.metrics)
        body = "".join(
            f"<tr><th>{escape(r.name)}</th>" + "".join(f"<td>{v:.4f}</td>" for v in r.mean.values()) + "</tr>"
            for r in self.runs
        )
        return f"<table><thead><tr><th>run</th>{head}</tr></thead><tbody>{body}</tbody></table>"


def load(path: str) -> Result:
    """Read back what `save` wrote."""
    from karat.ingest.layout import checked_path, open_bytes

    path = os.fspath(path)
    try:
        with open_bytes(checked_path(path)) as file:
            document = json.loads(b"".join(iter(lambda: file.read(1 << 20), b"")))
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path}: is no saved result ({error}); expected what `--save` wrote") from None
    if not isinstance(document, dict) or document.get("kind") != "evaluation" or "runs" not in document:
        raise InputError(f"{path}: is no saved result; expected what `karat evaluate --save` wrote")
    if document.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"{path}: has format version {document.get('format_version')!r}, expected {FORMAT_VERSION}; "
            "evaluate again with this version"
        )
    runs = []
    for run in document["runs"]:
        if "per_query" not in run:
            raise InputError(f"{path}: holds only means; save the full result with `karat evaluate --save`")
        values = {
            name: np.array([math.nan if x is None else x for x in listed], dtype=np.float64)
            for name, listed in run["per_query"].items()
        }
        runs.append(
            RunResult(
                run["name"], run["query_ids"], values, run["counts"], run.get("facts", {}),
                tuple(run.get("notes", ())), partial(dict, run.get("attainable", {})), run.get("lists", {}),
            )
        )  # fmt: skip
    return Result(tuple(runs), document.get("conventions", {}))
