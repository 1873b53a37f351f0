"""What a config asks for, and whether it can be had: files that are there, gates on runs and fields that there are.

Every problem is found before anything is evaluated, and has its line in `karat.yaml`.
"""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, KaratError, nearest
from karat.gates.language import BASELINE
from karat.metrics.grammar import DEFAULT_METRICS, parse_all
from karat.read.layout import checked_path
from karat.read.queries import read_queries
from karat.read.sources import run_files
from karat.results.sampling import GOLD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karat.config.reading import Read
    from karat.gates.language import Gate
    from karat.model.engine import Watch
    from karat.model.queries import Queries


def check_files(read: Read, *, evaluated: bool = True, compared: bool = False) -> None:
    """Refuse files that are not there, all at once: those to evaluate, and the baseline to compare with."""
    problems = [*(_data(read) if evaluated else ()), *(_baseline(read) if compared else ())]
    if problems:
        raise InputError(problems)


def runs_of(read: Read) -> dict[str, str]:
    """The runs of a config by name, with their paths as seen from here."""
    given = read.config.runs
    if isinstance(given, dict):
        return {name: read.place(path) for name, path in given.items()}
    return run_files([read.place(path) for path in ([given] if isinstance(given, str) else given or ())])


def _data(read: Read) -> Iterator[str]:
    data, runs = read.config.dataset, read.config.runs
    for key in ("qrels", "queries", "corpus"):
        path = getattr(data, key, None)
        if path is not None:
            yield from _tried(read.at("dataset", key), checked_path, read.place(path))
    if isinstance(runs, dict):
        for name, path in runs.items():
            place, at = read.place(path), read.at("runs", name)
            if glob.has_magic(place) and not os.path.exists(place):
                yield f"{at}: {path!r} is a pattern, and {name!r} is one run; patterns go in a list: runs: [{path!r}]"
            else:
                yield from _tried(at, checked_path, place)
        return
    for i, path in enumerate([runs] if isinstance(runs, str) else runs or ()):
        yield from _tried(read.at("runs", i), _matching, read.place(path))


def _baseline(read: Read) -> Iterator[str]:
    """A baseline that is neither a run nor there; a word without an ending may be a slip in a run's name."""
    given, runs = read.config.baseline, read.config.runs
    if given is None or (isinstance(runs, dict) and given in runs):
        return
    path = read.place(given)
    if "." in os.path.basename(path) and not os.path.exists(path) and given not in _names(read):
        yield f"{read.at('baseline')}: {path}: there is no baseline yet; make one with `karat bless`"


def _names(read: Read) -> list[str]:
    try:
        return list(runs_of(read))
    except InputError:
        return []


def _matching(pattern: str) -> list[str]:
    return [checked_path(path) for path in run_files([pattern]).values()]


def _tried(at: str, step: Callable[[str], object], path: str) -> Iterator[str]:
    try:
        step(path)
    except KaratError as error:
        yield f"{at}: {error}"


def check_gates(read: Read, gates: Sequence[Gate], *, compared: bool) -> None:
    """Refuse gates on runs that the config does not name, or on a baseline where there is none."""
    names, problems = list(runs_of(read)), []
    for number, gate in enumerate(gates):
        at = _at(read, number)
        for name in (gate.run, gate.against):
            if name is None or name in names or (name == BASELINE and name == gate.against):
                continue
            near = nearest(name, [BASELINE, *names] if name == gate.against else names)
            hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(names)}"
            problems.append(f"{at}gate '{gate}': no run is called {name!r}{hint}")
        if gate.against == BASELINE and not compared and BASELINE not in names:
            problems.append(
                f"{at}gate '{gate}': there is no baseline; name a run or a file as baseline (`karat bless`)"
            )
    if problems:
        raise InputError(problems)


def _at(read: Read, number: int) -> str:
    """Where a gate stands, as the start of a message; gates of the command line stand nowhere."""
    return f"{read.at('gates', number)}: " if number < len(read.config.gates) else ""


def queries_of(read: Read, gates: Sequence[Gate]) -> Queries | None:
    """The table of queries, which has every field that segments and gates slice by."""
    data = read.config.dataset
    table = read_queries(read.place(data.queries)) if data is not None and data.queries else None
    known = sorted({f for fields in table.fields.values() for f in fields}) if table is not None else []
    problems = []
    for at, name in _fields(read, gates):
        plain = name.partition(":")[0]
        if plain in known or plain.startswith(GOLD):
            continue
        if table is None:
            problems.append(f"{at}no table of queries, whose field {plain!r} is asked for; expected dataset.queries")
            continue
        near = nearest(plain, known)
        listed = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
        hint = f"; did you mean {near!r}?" if near else ""
        problems.append(f"{at}{table.source}: no query has a field {plain!r}; they have {listed or 'no fields'}{hint}")
    if problems:
        raise InputError(dict.fromkeys(problems))
    return table


def _fields(read: Read, gates: Sequence[Gate]) -> Iterator[tuple[str, str]]:
    """Every field that the queries are sliced by, with where it is asked for."""
    inside = ("segments", "by") if ("segments", "by") in read.lines else ("segments",)
    for number, group in enumerate(read.config.segments.by):
        yield from ((f"{read.at(*inside, number)}: ", name.strip()) for name in group.split(",") if name.strip())
    for number, gate in enumerate(gates):
        yield from ((_at(read, number), name) for name in gate.fields)


def evaluation_of(
    read: Read,
    gates: Sequence[Gate] = (),
    *,
    details: bool = False,
    threads: int | None = None,
    cache: bool | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """What a config asks of `karat.evaluate`, with the metrics and segments that the gates need."""
    config = read.config
    if config.dataset is None or config.runs is None:
        lacking = "dataset" if config.dataset is None else "runs"
        raise InputError(f"{read.path}: no {lacking}; expected dataset and runs, or a saved result under 'result'")
    check_files(read)
    block, engine, sure = config.retrieval_metrics, config.engine, config.confidence
    names = config.metrics or (block.enabled_metrics if block else [])
    if config.metrics and block and block.enabled_metrics:
        raise InputError(f"{read.at('metrics')}: metrics are named here and in retrieval_metrics; name them once")
    measures = parse_all([*(names or DEFAULT_METRICS), *(g.metric for g in gates)])
    conventions = config.conventions.model_dump(exclude_none=True)
    confidence, method = sure.level, sure.method
    workers = threads or engine.threads
    cached = engine.cache if cache is None else cache
    batch = engine.batch_size
    if block is not None:
        if not block.graded_relevance:
            conventions.setdefault("binary", True)
        confidence = 1 - block.statistical_analysis.alpha_level
        method = method if block.statistical_analysis.confidence_intervals else "none"
        workers = workers if block.performance.parallel_processing else 1
        cached = cached and block.performance.caching_enabled
        batch = batch or block.performance.batch_size
    data = config.dataset
    return {
        "qrels": read.place(data.qrels),
        "run": runs_of(read),
        "metrics": measures,
        "queries": queries_of(read, gates),
        "docs": read.place(data.corpus) if data.corpus else None,
        "embeddings": read.place(data.embeddings) if data.embeddings else None,
        "embedding_model": data.embedding_model,
        "subtopics": data.subtopics,
        "by": [*config.segments.by, *dict.fromkeys(g.fields for g in gates if g.fields)] or None,
        "min_segment": config.segments.minimum,
        "confidence": confidence,
        "method": method,
        "resamples": sure.resamples,
        "seed": sure.seed,
        "qrels_format": data.qrels_format,
        "run_format": config.run_format,
        "details": details or config.outputs.save is not None,
        "threads": workers,
        "memory": engine.memory,
        "cache": cached,
        "batch": batch,
        "watch": watch,
        **conventions,
    }
