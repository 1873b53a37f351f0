"""What `karat bless` blesses: which run, where its baseline belongs, and what it changes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from karat.config.reading import find_config, read_config
from karat.errors import KaratError, UsageError
from karat.metrics.grammar import PRIMARY
from karat.results.figures import SAME, change_text, difference_figure, figure
from karat.results.saved import load, load_baseline
from karat.verbs.bless import DEFAULT_FILE
from karat.verbs.check import evaluated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.config.reading import Read
    from karat.model.options import Options
    from karat.results.result import Result


@dataclass(frozen=True)
class Blessing:
    """The run that is blessed, and where its baseline belongs."""

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

    def line(self, path: str) -> str:
        """What the config lacks to compare with this file; nothing where it names it already."""
        if self.read is None:
            return ""
        given, folder = self.read.config.baseline, os.path.dirname(os.path.abspath(self.read.path))
        if given is not None and os.path.realpath(self.read.place(given)) == os.path.realpath(path):
            return ""
        return f"baseline: {os.path.relpath(path, folder)}"

    def changed(self, path: str) -> str:
        """What this baseline changes against the one that the file holds now; nothing where there is none."""
        if not os.path.exists(path):
            return ""
        try:
            there = load_baseline(path)
        except KaratError:
            return "the baseline that was there could not be read"
        old, new = there.runs[0], self.result[self.run]
        shared = [m for m in new.values if m in old.values]
        told = [f"{len(new.query_ids):,} queries, {len(old.query_ids):,} before"]
        if shared:
            metric = PRIMARY if PRIMARY in shared else shared[0]
            told.insert(0, _change(metric, old.mean[metric], new.mean[metric]))
        if old.name != new.name:
            told.append(f"{old.name} before")
        if there.fingerprints.hashes.get("gold") != self.result.fingerprints.hashes.get("gold"):
            told.append("on other gold, so that the difference is not the system's alone")
        return "; ".join(told)


def _change(metric: str, before: float, after: float) -> str:
    if abs(after - before) <= SAME:
        return f"{metric} {figure(metric, after).text}, unchanged"
    return f"{metric} {change_text(metric, before, after)} (Δ {difference_figure(metric, after - before).text})"


def blessing(source: str | None, *, run: str | None = None, **options: Unpack[Options]) -> Blessing:
    """The result to bless: a saved one, or that of a config's candidate, and where its baseline belongs."""
    if source is not None and not os.path.isdir(source) and not source.lower().endswith((".yaml", ".yml")):
        saved = load(source)
        return Blessing(saved, _blessed(saved, run, []), DEFAULT_FILE)
    read = read_config(find_config(source))
    result = evaluated(read, read.config.gates, None, options)
    given = read.config.baseline
    named = given is not None and given not in [r.name for r in result.runs]
    place = read.place(given if named and given is not None else DEFAULT_FILE)
    return Blessing(result, _blessed(result, run, read.config.candidate), place, read)


def _blessed(result: Result, run: str | None, candidates: Sequence[str]) -> str:
    """The one run to bless."""
    names = [r.name for r in result.runs]
    if run is not None:
        return result[run].name
    if len(candidates) == 1:
        return result[candidates[0]].name
    if len(names) > 1:
        raise UsageError(f"there are {len(names)} runs: {', '.join(names)}; choose the one to bless with --run")
    return names[0]
