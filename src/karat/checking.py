"""Ship, block, or not sure yet: gates over a result, and what follows."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from karat.baseline import DEFAULT_FILE
from karat.comparison import DEFAULT_TESTS, told_differences
from karat.config.following import check_files, check_gates, queries_of, runs_of
from karat.config.reading import find_config, read_config
from karat.errors import InputError, UsageError, nearest
from karat.evaluation import evaluate
from karat.gates.judging import verdict_of
from karat.gates.language import BASELINE, parse_gate
from karat.judgements import as_html, as_text, judged_gates
from karat.metrics.grammar import DEFAULT_METRICS, parse_all
from karat.output import write_document
from karat.pairing import verified
from karat.saved import load, load_baseline
from karat.stats.paired import DRAWS
from karat.versus import Versus, adjusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.config.models import Config
    from karat.config.reading import Read
    from karat.evaluation import Watch
    from karat.fingerprints import Difference
    from karat.gates.judging import Verdict
    from karat.gates.language import Gate
    from karat.judgements import Judgement
    from karat.result import Result, RunResult
    from karat.versus import Compared

CODES: Mapping[str, int] = {"SHIP": 0, "BLOCK": 1, "INCONCLUSIVE": 3}


@dataclass(frozen=True)
class Check:
    """The verdict, every judgement behind it, and the results that these rest on."""

    result: Result
    rows: tuple[Judgement, ...]
    candidates: tuple[str, ...]
    baseline: RunResult | None = None
    baseline_file: str | None = None
    forced: tuple[Difference, ...] = ()
    """What differs between the results and was overridden by force."""
    comparisons: tuple[Compared, ...] = ()
    """Every metric of the candidates against the baseline."""
    system: tuple[Difference, ...] = ()
    """What differs between the systems under test."""
    notes: tuple[str, ...] = ()
    name: str = ""
    link: str | None = None
    """Where a report can be read."""

    @property
    def verdict(self) -> Verdict:
        """SHIP, BLOCK or INCONCLUSIVE, over the gates at level error."""
        return verdict_of((row.gate.level, row.judged.outcome) for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 SHIP, 1 BLOCK, 3 INCONCLUSIVE."""
        return CODES[self.verdict]

    def __bool__(self) -> bool:
        return self.verdict == "SHIP"

    @property
    def why(self) -> str:
        """One sentence for the verdict."""
        serious = [r for r in self.rows if r.gate.level == "error"]
        for outcome, word in (("fail", "fails"), ("undecided", "is undecided")):
            found = [r for r in serious if r.judged.outcome == outcome]
            if found:
                rest = f", and {len(found) - 1} more" if len(found) > 1 else ""
                return f"{told(found[0])} {word}{rest}"
        passed = "the gate passes" if len(serious) == 1 else f"all {len(serious)} gates pass"
        return passed if serious else "no gate is at level error"

    def of(self, outcome: str, level: str = "error") -> tuple[Judgement, ...]:
        """The judgements of this outcome and level."""
        return tuple(r for r in self.rows if r.judged.outcome == outcome and r.gate.level == level)

    @property
    def gates(self) -> tuple[Judgement, ...]:
        """The judgements, by the name that the JSON has for them."""
        return self.rows

    def __repr__(self) -> str:
        return f"Check({self.verdict}: {self.why})"

    def __str__(self) -> str:
        return "\n".join((f"{self.verdict}: {self.why}", as_text(self.rows), *self.notes))

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><b>{self.verdict}</b>: {escape(self.why)}</p>{as_html(self.rows)}"

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` writes."""
        return {**self.result.as_json(), **self._own()}

    def full_json(self) -> dict[str, Any]:
        """The document that `save` writes, from which a report can be made."""
        return {**self.result.full_json(), **self._own()}

    def save(self, path: str) -> None:
        """Write the check with the full result; a name that ends in .gz is packed."""
        write_document(self.full_json(), path)

    def _own(self) -> dict[str, Any]:
        document: dict[str, Any] = {"kind": "check", "verdict": self.verdict, "why": self.why}
        if self.name:
            document["dataset"] = self.name
        document["candidates"] = list(self.candidates)
        document["gates"] = [r.as_json() for r in self.rows]
        if self.baseline is not None:
            document["baseline"] = {"name": self.baseline.name, "file": self.baseline_file}
        if self.comparisons:
            document["comparisons"] = [c.as_json() for c in self.comparisons]
        if self.notes:
            document["notes"] = list(self.notes)
        return document | told_differences(self.forced, self.system)


def told(row: Judgement) -> str:
    """A judgement in words: the run, the gate, where, and what was found."""
    where = f" where {row.where}" if row.where else ""
    of = row.gate.metric if row.against is None else f"Δ {row.gate.metric}"
    value, low, high = row.found.estimate, row.found.low, row.found.high
    if value != value:
        return f"{row.run}: {row.gate} ({row.judged.why})"
    ends = f" [{low:.3f}, {high:.3f}]" if low == low and high == high else ""
    plain = replace(row.gate, every=(), least=None, where=(), run=None)
    return f"{row.run}: {plain}{where} ({of} {value:.3f}{ends}, {row.found.n} queries)"


def check(
    config: str | os.PathLike[str] | Mapping[str, Any] | Config | Read | Result | None = None,
    gates: str | Iterable[str | Mapping[str, Any] | Gate] | None = None,
    *,
    baseline: Result | str | None = None,
    result: Result | str | None = None,
    candidate: str | Sequence[str] | None = None,
    force: bool = False,
    details: bool = False,
    threads: int | None = None,
    cache: bool | None = None,
    watch: Watch | None = None,
) -> Check:
    """Judge gates and give the verdict.

    From a `karat.yaml` (the one in this folder unless named): evaluates, compares with the baseline, judges. Or from a
    `Result` with `gates` as texts. `result` takes a result that was saved instead of evaluating; `baseline` is the
    name of a run, a file that `karat bless` wrote, or a result; `force` compares results that rest on different gold,
    queries or definitions, and says so everywhere. The check is true if the verdict is SHIP.
    """
    from karat.result import Result

    listed = [gates] if isinstance(gates, str) else list(gates or ())
    extra = [parse_gate(g) for g in listed]
    named = [candidate] if isinstance(candidate, str) else list(candidate or ())
    if isinstance(config, Result):
        return _judged(config, extra, named, baseline, force=force)
    read = read_config(find_config() if config is None else _file(config))
    chosen = read.config
    asked = [*chosen.gates, *extra]
    if not asked:
        raise InputError(f"{read.path}: no gates, so nothing decides; add some, such as: gates: ['recall@5 >= 0.90']")
    fresh = result is None and chosen.result is None
    check_files(read, evaluated=fresh, compared=baseline is None)
    if fresh and chosen.runs is not None:
        check_gates(read, asked, compared=(baseline or chosen.baseline) is not None)
    held = _result(read, asked, result, details=details, threads=threads, cache=cache, watch=watch)
    base = baseline if baseline is not None else _baseline(read, held)
    found = _judged(
        held, asked, named or chosen.candidate, base, force=force, correction=chosen.confidence.correction,
        tests=_tests(chosen), at=read.at("candidate"),
        segments=details or chosen.outputs.save is not None,
    )  # fmt: skip
    name = chosen.dataset.name if chosen.dataset is not None else ""
    return replace(found, name=name, link=chosen.outputs.report_url)


@dataclass(frozen=True)
class Blessing:
    """What `karat bless` writes, and where."""

    result: Result
    run: str
    metrics: tuple[str, ...]
    place: str

    @property
    def queries(self) -> int:
        return len(self.result[self.run].query_ids)


def evaluated(
    source: str | None, *, run: str | None = None, threads: int | None = None, cache: bool | None = None,
    watch: Watch | None = None,
) -> Blessing:  # fmt: skip
    """The result to bless: a saved one, or that of a config's candidate, and where its baseline belongs."""
    if source is not None and not os.path.isdir(source) and not source.lower().endswith((".yaml", ".yml")):
        saved = load(source)
        return Blessing(saved, _blessed(saved, run, []), saved.metrics, DEFAULT_FILE)
    read = read_config(find_config(source))
    result = _result(read, read.config.gates, None, details=False, threads=threads, cache=cache, watch=watch)
    names = [r.name for r in result.runs]
    given = read.config.baseline
    if given in names and run is None:
        run = given
    place = read.place(given if given is not None and given not in names else DEFAULT_FILE)
    return Blessing(result, _blessed(result, run, read.config.candidate), result.metrics, place)


def _blessed(result: Result, run: str | None, candidates: Sequence[str]) -> str:
    """The one run to bless."""
    names = [r.name for r in result.runs]
    if run is not None:
        return result[run].name
    if len(candidates) == 1 and candidates[0] in names:
        return candidates[0]
    if len(names) > 1:
        raise UsageError(f"there are {len(names)} runs: {', '.join(names)}; choose the one to bless with --run")
    return names[0]


def _file(config: Any) -> Any:
    return find_config(os.fspath(config)) if isinstance(config, (str, os.PathLike)) else config


def _tests(config: Config) -> tuple[str, ...]:
    block = config.retrieval_metrics
    wanted = config.confidence.tests or (block is not None and block.statistical_analysis.significance_testing)
    return DEFAULT_TESTS if wanted else ()


def _baseline(read: Read, result: Result) -> str | None:
    """The baseline of a config: the name of a run, or the path of a file."""
    given = read.config.baseline
    if given is None or given in [r.name for r in result.runs]:
        return given
    path = read.place(given)
    if not os.path.exists(path) and "." not in os.path.basename(path):
        names = [r.name for r in result.runs]
        near = nearest(given, names)
        hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(names)}"
        raise InputError(f"{read.at('baseline')}: baseline {given!r} is no run of this config and no file{hint}")
    return path


def _result(
    read: Read, gates: Sequence[Gate], saved: Result | str | None, *, details: bool, threads: int | None,
    cache: bool | None, watch: Watch | None,
) -> Result:  # fmt: skip
    """The result to judge: a saved one, or that of the config's runs."""
    from karat.result import Result

    config = read.config
    if isinstance(saved, Result):
        return saved
    if saved is not None or config.result is not None:
        return load(saved if saved is not None else read.place(config.result or ""))
    return evaluate(**evaluation_of(read, gates, details=details, threads=threads, cache=cache, watch=watch))


def evaluation_of(
    read: Read, gates: Sequence[Gate] = (), *, details: bool = False, threads: int | None = None,
    cache: bool | None = None, watch: Watch | None = None,
) -> dict[str, Any]:  # fmt: skip
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
        "qrels": read.place(data.qrels), "run": runs_of(read), "metrics": measures,
        "queries": queries_of(read, gates),
        "docs": read.place(data.corpus) if data.corpus else None,
        "by": [*config.segments.by, *dict.fromkeys(g.fields for g in gates if g.fields)] or None,
        "min_segment": config.segments.minimum, "confidence": confidence, "method": method,
        "resamples": sure.resamples, "seed": sure.seed, "qrels_format": data.qrels_format,
        "run_format": config.run_format, "details": details or config.outputs.save is not None, "threads": workers,
        "memory": engine.memory, "cache": cached, "batch": batch, "watch": watch, **conventions,
    }  # fmt: skip


def _judged(
    result: Result, gates: Sequence[Gate], candidates: Sequence[str], baseline: Result | str | None, *,
    force: bool = False, correction: str = "none", tests: tuple[str, ...] = (), at: str = "", segments: bool = False,
) -> Check:  # fmt: skip
    if not gates:
        raise InputError("no gates, so nothing decides; give some, such as 'recall@5 >= 0.90'")
    names = [r.name for r in result.runs]
    there, base, path = _resolved(result, baseline)
    for name in candidates:
        if name not in names:
            near = nearest(name, names)
            hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(names)}"
            raise InputError(f"{at + ': ' if at else ''}no run is called {name!r}{hint}")
    live = base is not None and path is None and there is result
    judged = list(candidates) or [n for n in names if not (live and base is not None and n == base.name)]
    if not judged:
        raise InputError(f"{', '.join(names)} is the only run, and it is the baseline; add the run to judge")
    forced: dict[Difference, None] = {}
    system: dict[Difference, None] = {}
    if base is not None and there is not None:
        used = [g.metric for g in gates if g.against == BASELINE] or list(base.values)
        for name in judged:
            found = verified(result, result[name], there, base, used, force=force)
            forced.update(dict.fromkeys(found.forced))
            system.update(dict.fromkeys(found.system))
    rows = judged_gates(gates, result, judged, baseline=base, correction=correction)
    compared: list[Compared] = []
    if base is not None:
        alpha = 1 - result.runs[0].sampling.confidence
        how = Versus(base, tests, "holm" if tests else "none", alpha, None, DRAWS, {}, result.runs[0].threads)
        compared = adjusted(
            [c for name in judged for c in how.against(result[name], segments=segments)], how.correction, alpha
        )
    notes = [f"--force: compared although these differ: {'; '.join(map(str, forced))}"] if forced else []
    return Check(result, rows, tuple(judged), base, path, tuple(forced), tuple(compared), tuple(system), tuple(notes))


def _resolved(result: Result, baseline: Result | str | None) -> tuple[Result | None, RunResult | None, str | None]:
    """The baseline's result, its run, and its file if it came from one."""
    if baseline is None:
        return None, None, None
    if not isinstance(baseline, str):
        return baseline, baseline.runs[0], None
    if baseline in [r.name for r in result.runs]:
        return result, result[baseline], None
    there = load_baseline(baseline)
    return there, there.runs[0], baseline
