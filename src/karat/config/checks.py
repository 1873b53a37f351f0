"""What a config asks for, and whether it can be had: files that are there, gates on runs and fields that there are.

Every problem is found before anything is evaluated, and has its line in `karat.yaml`.
"""

from __future__ import annotations

import glob
import os
from contextlib import contextmanager
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

from karat.config.options import Options, Settings, StatedOptions, stated_options
from karat.config.reading import Read, default_config
from karat.errors import InputError, KaratError, Problem, UsageError, nearest, unknown_run
from karat.gates.evidence import NO_BASELINE
from karat.metrics.component_figures import is_component_figure
from karat.metrics.grammar import DEFAULT_METRICS, Measure, parse, parse_all
from karat.model.field_group import read_group
from karat.read.files import check_path
from karat.read.queries import read_queries, read_queries_of_gold
from karat.read.sources import run_files
from karat.records import dataclass
from karat.results.sampling import GOLD, describe_absent_value, plain_field, split_fields, split_groups, values_of
from karat.results.saved import NOT_BLESSED
from karat.results.words import BASELINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from karat.config.models import RetrievalMetrics
    from karat.gates.gate import Gate
    from karat.model.queries import Queries


def placed(read: Read, options: Options | None) -> Read:
    """The config, which knows whether a cluster has its files: then only the cluster can say whether they are there."""
    on_cluster = bool((options or {}).get("engine") or getattr(read.config.engine, "spark", None))
    return replace(read, remote=on_cluster)


def check_files(read: Read, *, evaluated: bool = True, compared: bool = False) -> None:
    """Refuse files that are not there, all at once: those to evaluate, and the baseline to compare with."""
    data = _data(read) if evaluated and not read.remote else ()
    problems = [*data, *(_baseline(read) if compared else ())]
    if problems:
        raise InputError(problems)


def runs_of(read: Read) -> dict[str, str]:
    """The runs of a config by name, with their paths as seen from here."""
    runs = read.config.runs
    if isinstance(runs, dict):
        return {name: read.place(path) for name, path in runs.items()}
    return run_files([read.place(path) for path in ([runs] if isinstance(runs, str) else runs or ())])


def run_places(read: Read) -> Iterator[tuple[str | int, str]]:
    """The key of each run, or pattern of runs, under `runs`, and its path as seen from here."""
    runs = read.config.runs
    entries = enumerate([runs] if isinstance(runs, str) else runs or ())
    for key, path in runs.items() if isinstance(runs, dict) else entries:
        yield key, read.place(path)


def config_files(read: Read, *, baseline: bool = True) -> list[str]:
    """The config itself, all files that it names, with or without its baseline, and the one that holds looks.

    Files that are not there are left out.
    """
    options = config_options(read)
    paths = [read.path, *(path for path in options.values() if isinstance(path, str)), *options.get("judgments", ())]
    paths += [read.place(path) for path in (read.config.baseline if baseline else None, read.config.result) if path]
    if read.config.dataset is not None:
        paths.append(read.place(read.config.dataset.qrels))
    for _, place in run_places(read):
        try:
            paths += run_files([place]).values()
        except InputError:  # said when the runs are read
            continue
    looks = [read.place(read.config.looks)] if read.config.looks is not None else []
    return [*(path for path in paths if os.path.isfile(path)), *looks]


def _data(read: Read) -> Iterator[Problem]:
    data, runs = read.config.dataset, read.config.runs
    for part in ("qrels", "queries", "corpus"):
        path = getattr(data, part, None)
        if path is not None:
            yield from _try(check_path, read.place(path), read, "dataset", part)
    for number, path in enumerate(read.config.judgments or ()):
        yield from _try(check_path, read.place(path), read, "judgments", number)
    if read.config.calibration is not None:
        yield from _try(check_path, read.place(read.config.calibration), read, "calibration")
    for key, place in run_places(read):
        if not isinstance(runs, dict):
            yield from _try(_matching, place, read, "runs", key)
        elif glob.has_magic(place) and not os.path.exists(place):
            path = runs[str(key)]
            detail = f"{path!r} is a pattern, and {key!r} is one run; patterns go in a list: runs: [{path!r}]"
            yield read.problem(detail, "runs", key)
        else:
            yield from _try(check_path, place, read, "runs", key)


def _baseline(read: Read) -> Iterator[Problem]:
    """A baseline that is neither a run nor there; a word without an ending may be a slip in a run's name."""
    baseline, runs = read.config.baseline, read.config.runs
    if baseline is None or (isinstance(runs, dict) and baseline in runs):
        return
    path = read.place(baseline)
    if "." in os.path.basename(path) and not os.path.exists(path) and baseline not in run_names(read):
        yield read.problem(f"{path}: {NOT_BLESSED} `{bless_command(read)}`", "baseline")


def bless_command(read: Read) -> str:
    """The command that makes the baseline of this config: it names the config where another one would be read."""
    return "karat bless" if default_config() in (None, read.path) else f"karat bless {quote(read.path)}"


def run_names(read: Read) -> list[str]:
    """The names of a config's runs; none where a pattern matches nothing, which is said when the runs are read."""
    try:
        return list(runs_of(read))
    except InputError:
        return []


def _matching(pattern: str) -> list[str]:
    return [check_path(path) for path in run_files([pattern]).values()]


def _try(step: Callable[[str], object], path: str, read: Read, *keys: str | int) -> Iterator[Problem]:
    try:
        step(path)
    except KaratError as error:
        yield read.problem(error, *keys)


def check_gates(read: Read, gates: Sequence[Gate], *, compared: bool) -> None:
    """Refuse gates on runs that the config does not name, or on a baseline where there is none."""
    names, problems = list(runs_of(read)), []
    for number, gate in enumerate(gates):
        keys = _keys(read, number)
        for name in (gate.run, gate.against):
            if name is None or name in names or (name == BASELINE and name == gate.against):
                continue
            also = (BASELINE,) if name == gate.against else ()
            problems.append(_problem(read, f"gate '{gate}': {unknown_run(name, names, also=also)}", keys))
        if gate.against == BASELINE and not compared and BASELINE not in names:
            problems.append(_problem(read, f"gate '{gate}': {NO_BASELINE}", keys))
    if problems:
        raise InputError(problems)


Keys = tuple[str | int, ...]


def _keys(read: Read, number: int) -> Keys:
    """Where a gate stands; gates of the command line stand nowhere."""
    return ("gates", number) if number < len(read.config.gates) else ()


def _problem(read: Read, detail: str, keys: Keys) -> str:
    return read.problem(detail, *keys) if keys else detail


def places_of_gates(read: Read, gates: Sequence[Gate]) -> dict[str, str]:
    """Where gates of the config stand, by their text and by their metric."""
    places: dict[str, str] = {}
    for number, gate in enumerate(gates):
        for subject in (str(gate), gate.metric):
            places.setdefault(subject, read.at("gates", number))
    return places


@contextmanager
def placed_errors(places: Mapping[str, str]) -> Iterator[None]:
    """Errors about a gate, or about the metric of one, begin with where it stands."""
    try:
        yield
    except (InputError, UsageError) as error:
        if error.subject not in places:
            raise
        kind = InputError if isinstance(error, InputError) else UsageError
        raise kind(f"{places[error.subject]}: {error}") from None


def queries_of(read: Read, gates: Sequence[Gate], source: Any, *, with_docs: bool) -> Queries | None:
    """The table of queries, which has every field that segments and gates slice by; `gold.` is of the docs."""
    table = read_queries(source) if source is not None else None
    names = sorted({f for fields in table.fields.values() for f in fields}) if table is not None else []
    problems: list[str] = []
    for keys, subject, name in _fields(read, gates):
        plain, group = plain_field(name), read_group(name)
        if plain.startswith(GOLD) and not with_docs:
            detail = f"no table of docs, whose field {plain.removeprefix(GOLD)!r} is asked for; expected dataset.corpus"
            problems.append(_problem(read, detail, keys))
        if table is not None and plain in names and group is not None:
            known = {plain: values_of(table.field(plain))}
            if absent := describe_absent_value(((plain, value) for value in group.values), known):
                problems.append(_problem(read, f"{subject}{table.source}: {absent}", keys))
        if plain in names or plain.startswith(GOLD):
            continue
        if table is None:
            detail = f"no table of queries, whose field {plain!r} is asked for; expected dataset.queries"
            problems.append(_problem(read, detail, keys))
            continue
        near = nearest(plain, names)
        some = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        hint = f"; did you mean {near!r}?" if near else ""
        detail = f"{subject}{table.source}: no query has a field {plain!r}; they have {some or 'no fields'}{hint}"
        problems.append(_problem(read, detail, keys))
    if problems:
        raise InputError(dict.fromkeys(problems))
    return table


def _fields(read: Read, gates: Sequence[Gate]) -> Iterator[tuple[Keys, str, str]]:
    """Every field that the queries are sliced by, with where it is asked for and the gate that asks."""
    inside: Keys = ("segments", "by") if ("segments", "by") in read.lines else ("segments",)
    for number, group in enumerate(config_options(read).get("by") or ()):
        names = split_fields(group) if isinstance(group, str) else group
        yield from (((*inside, number), "", name.strip()) for name in names if name.strip())
    for number, gate in enumerate(gates):
        yield from ((_keys(read, number), f"gate '{gate}': ", name) for name in gate.fields)


def config_options(read: Read) -> StatedOptions:
    """The options that a config states, by their names in Python; paths are seen from here."""
    stated: dict[str, object] = {}
    for option in stated_options():
        *blocks, key = option.key.split(".")
        part: Any = read.config
        for block in blocks:
            part = getattr(part, block)
        if part is None or key not in part.model_fields_set:
            continue
        value = getattr(part, key)
        is_place = option.kind == "path" and value is not None and str(value).lower() not in option.names
        if option.kind == "paths" and value is not None:
            value = [read.place(path) for path in value]
        stated[option.name] = read.place(value) if is_place else value
    return cast("StatedOptions", {name: value for name, value in stated.items() if value is not None})


@dataclass(frozen=True)
class Evaluation:
    """What a config asks to evaluate."""

    qrels: str
    runs: Mapping[str, str]
    measures: Sequence[Measure]
    settings: Settings
    of_gates: tuple[tuple[str, ...], ...] = ()
    """The fields, or crosses of fields, that the queries are sliced by for gates alone."""


def describe_lack(read: Read) -> str:
    """What a config without data lacks."""
    lacking = "dataset" if read.config.dataset is None else "runs"
    return f"no {lacking}; expected dataset and runs, or a saved result under 'result'"


def evaluation_of(
    read: Read,
    gates: Sequence[Gate] = (),
    options: Options | None = None,
    *,
    qrels: str | None = None,
    runs: Mapping[str, str] | None = None,
) -> Evaluation:
    """What a config asks of `karat.evaluate`, with the metrics and segments that the gates need.

    `options`, `qrels` and `runs` are those of the call, which come before those of the config.
    """
    read = placed(read, options)
    config = read.config
    if qrels is None:
        if config.dataset is None or config.runs is None:
            raise InputError(read.problem(describe_lack(read)))
        check_files(read)
        qrels, runs = read.place(config.dataset.qrels), runs_of(read)
    block = config.retrieval_metrics
    names = config.metrics or (block.enabled_metrics if block else [])
    if config.metrics and block and block.enabled_metrics:
        raise InputError(read.problem("metrics are named here and in retrieval_metrics; name them once", "metrics"))
    figures = [figure for g in gates if not is_component_figure(figure := parse(g.metric))]
    components = config.components is not None or len(figures) < len(gates)
    stated = config_options(read)
    settings = Settings().change(**(stated if block is None else _with_block(stated, block))).change(**(options or {}))
    measures = parse_all([*(names or DEFAULT_METRICS), *figures], like=settings.like)
    slices = split_groups(settings.intervals.by)
    tables = {*slices, *(g.fields for g in gates if g.every and not g.where)}
    table = settings.data.queries
    if table is None:
        table = read_queries_of_gold(qrels, settings.data.qrels_format)
    settings = settings.change(
        queries=queries_of(read, gates, table, with_docs=settings.data.docs is not None),
        by=[*slices, *dict.fromkeys(g.fields for g in gates if g.fields)] or None,
        details=settings.engine.details or "save" in config.outputs.places() or components,
    )
    of_gates = tuple(dict.fromkeys(g.fields for g in gates if g.fields and g.fields not in tables))
    return Evaluation(qrels, runs or {}, measures, settings, of_gates)


def _with_block(stated: StatedOptions, block: RetrievalMetrics) -> StatedOptions:
    """The options of a config with what its block `retrieval_metrics` says of them."""
    sure, work = block.statistical_analysis, block.performance
    defaults: StatedOptions = {"binary": not block.graded_relevance, "batch": work.batch_size}
    out: StatedOptions = {**defaults, **stated, "confidence": 1 - sure.alpha_level}
    if not sure.confidence_intervals:
        out["method"] = "none"
    if not work.parallel_processing:
        out["threads"] = 1
    if not work.caching_enabled:
        out["cache"] = False
    return out
