"""The baseline: a result that somebody blessed, in a file small enough to commit."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from karat.errors import InputError, KaratError, UsageError, path_text
from karat.metrics.grammar import PRIMARY
from karat.records import dataclass
from karat.results.figures import SAME, change_of, change_text, figure
from karat.results.saved import load, load_baseline, result_of
from karat.store.atomic import encoded, write_atomically
from karat.store.codec import as_plain, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.config.options import Options
    from karat.config.reading import Read
    from karat.results.document import DocumentJson
    from karat.results.result import Result, RunResult

DEFAULT_FILE = "karat.baseline.json"


def bless(
    result: Result | str | os.PathLike[str],
    output: str | os.PathLike[str] = DEFAULT_FILE,
    *,
    run: str | None = None,
    metrics: Sequence[str] = (),
) -> str:
    """Make one run of a result (or of a saved one) the baseline: write its values per query and what they rest on.

    Only these `metrics` are kept, all unless named. One line per query, so that a change of the baseline reads well
    in a review.
    """
    place = path_text(output, "output")
    full = result_of(result, "bless")
    names = [r.name for r in full.runs]
    if run is None and len(names) > 1:
        raise UsageError(f"the result holds {len(names)} runs: {', '.join(names)}; choose one to bless (run=, --run)")
    one = full[run] if run is not None else full.runs[0]
    if not full.fingerprints:
        raise InputError("the result has no fingerprints, which a baseline needs; evaluate again with this version")
    _refuse_other_files(place)
    values = {n: v for n, v in one.values.items() if not metrics or n in metrics}
    slim = replace(one, values=values, components=None, sampling=replace(one.sampling, by=(), fields={}))
    head = json.dumps(as_plain(_head(full, slim)), ensure_ascii=False, indent=1, allow_nan=False)
    columns = [v.tolist() for v in values.values()]
    rows = [
        f"  {json.dumps(q, ensure_ascii=False)}: {json.dumps([rounded(c[i]) for c in columns])}"
        for i, q in enumerate(one.query_ids)
    ]
    text = head.removesuffix("\n}") + ',\n "values": {\n' + ",\n".join(rows) + "\n }\n}\n"
    write_atomically(place, encoded(text))
    return place


def _refuse_other_files(path: str) -> None:
    """Only a baseline, even a damaged one, may be replaced by another: a config or a saved result would be lost."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return
    with open(path, "rb") as file:
        head = file.read(4096)
    if not re.search(rb'"kind":\s*"baseline"', head):
        raise UsageError(f"{path} is there already and is not a baseline; name another file, or remove it first")


def _head(result: Result, run: RunResult) -> DocumentJson:
    """The document of a baseline without the values."""
    from msgspec import UNSET, structs

    from karat import __version__
    from karat.results.record import sampling_json

    document = replace(result, runs=(run,), basis=result.fingerprints.only(run.values)).document()
    # Weighted means cannot be told from the values alone.
    design = sampling_json(run.sampling) if run.sampling.weights else UNSET
    lists = run.ranked_lists if run.ranked_lists is not None else UNSET
    runs = [structs.replace(one, sampling=design, ranked_lists=lists) for one in document.runs or ()]
    return structs.replace(document, kind="baseline", karat=__version__, runs=runs, warnings=UNSET)


@dataclass(frozen=True)
class Blessing:
    """The run to bless, and where its baseline belongs."""

    result: Result
    run: str
    place: str
    read: Read | None = None

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.result.metrics

    @property
    def queries(self) -> int:
        return len(self.result[self.run].query_ids)

    def next_step(self, path: str) -> str:
        """The line that the config lacks to compare with this file, and where; nothing where it has it already."""
        if self.read is None:
            return ""
        baseline, folder = self.read.config.baseline, os.path.dirname(os.path.abspath(self.read.path))
        if baseline is not None and os.path.realpath(self.read.place(baseline)) == os.path.realpath(path):
            return ""
        line = f"baseline: {os.path.relpath(path, folder)}"
        if baseline is None:
            return f"{self.read.path} does not name it yet; put this line there:\n{line}"
        return (
            f"{self.read.at('baseline')} names {baseline}; to compare with this file, replace that line with:\n{line}"
        )

    def changes(self, path: str) -> str:
        """What this baseline changes against the one that the file holds now; nothing where there is none."""
        if not os.path.exists(path):
            return ""
        try:
            there = load_baseline(path)
        except KaratError:
            return "the baseline that was there could not be read"
        old, new = there.runs[0], self.result[self.run]
        shared = [m for m in new.values if m in old.values]
        parts, counts = [], (len(new.query_ids), len(old.query_ids))
        if shared:
            metric = PRIMARY if PRIMARY in shared else shared[0]
            parts.append(_change(metric, old.mean[metric], new.mean[metric]))
            counts = new.n[metric], old.n[metric]  # other metrics may be of other queries, such as those without gold
        parts.append(f"{counts[0]:,} queries, {counts[1]:,} before")
        if old.name != new.name:
            parts.append(f"{old.name} before")
        if there.fingerprints.hashes.get("gold") != self.result.fingerprints.hashes.get("gold"):
            parts.append("on other gold, so that the difference is not the system's alone")
        return "; ".join(parts)


def _change(metric: str, before: float, after: float) -> str:
    if abs(after - before) <= SAME:
        return f"{metric} {figure(metric, after).text}, unchanged"
    return f"{metric} {change_text(metric, before, after)} (Δ {change_of(metric, before, after).text})"


def prepare_blessing(source: str | None, *, run: str | None = None, **options: Unpack[Options]) -> Blessing:
    """The result to bless: a saved one, or that of a config's candidate, and where its baseline belongs."""
    from karat.config.reading import find_config, read_config
    from karat.verbs.check import evaluate_config

    if source is not None and not os.path.isdir(source) and not source.lower().endswith((".yaml", ".yml")):
        saved = load(source)
        return Blessing(saved, _choose_run(saved, run, []), DEFAULT_FILE)
    read = read_config(find_config(source))
    result = evaluate_config(read, read.config.gates, None, {**options, "details": True})
    baseline = read.config.baseline
    is_file = baseline is not None and baseline not in [r.name for r in result.runs]
    place = read.place(baseline if is_file and baseline is not None else DEFAULT_FILE)
    return Blessing(result, _choose_run(result, run, read.config.candidate), place, read)


def _choose_run(result: Result, run: str | None, candidates: Sequence[str]) -> str:
    """The one run to bless."""
    names = [r.name for r in result.runs]
    if run is not None:
        return result[run].name
    if len(candidates) == 1:
        return result[candidates[0]].name
    if len(names) > 1:
        raise UsageError(f"there are {len(names)} runs: {', '.join(names)}; choose the one to bless with --run")
    return names[0]
